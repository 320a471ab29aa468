"""A peer that answers one request with small pieces at a steady pace.

Every piece is one write of exactly EVENT_SIZE bytes on the wire, and the pause between two of them
is longer than the client needs for one, so every event of the client carries the same bytes. A
server that writes as fast as it can would leave the size of an event to chance.

Run as a program (`pulse.py PAUSE_S chunked|length`): prints its port, serves one connection after
the other until it is killed.
"""

from __future__ import annotations

import socket
import sys
import time

EVENT_SIZE = 100
HEADS = {
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n",
}


def chunk(size: int) -> bytes:
    """A chunk that takes `size` bytes, framing included."""
    body = size - len(b"5e\r\n\r\n")
    return b"%02x\r\n" % body + b"x" * body + b"\r\n"


def serve(listener: socket.socket, pause_s: float, framing: str) -> None:
    """Answers one connection until its client leaves."""
    connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    event = chunk(EVENT_SIZE) if framing == "chunked" else b"x" * EVENT_SIZE
    try:
        connection.recv(4096)
        connection.sendall(HEADS[framing])
        while True:
            time.sleep(pause_s)
            connection.sendall(event)
    except (BrokenPipeError, ConnectionResetError):
        pass
    finally:
        connection.close()


def main() -> None:
    pause_s, framing = float(sys.argv[1]), sys.argv[2]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            serve(listener, pause_s, framing)


if __name__ == "__main__":
    main()
