"""A server whose TLS ends early: within the handshake, and within responses.

Prints two ports: of a server that ends each handshake in another way, in turn, and of one that
responds to the target `/RESPONSE/END`.
"""

import socket
import ssl
import struct
import sys
import threading

folder = sys.argv[1]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(f"{folder}/server.pem", f"{folder}/server.key")

HEAD = b"HTTP/1.1 200 OK\r\n"
RESPONSES = {
    b"nothing": b"",
    b"line": HEAD,
    b"head": HEAD + b"Content-Length: 6\r\n\r\n",
    b"half": HEAD + b"Content-Length: 6\r\n\r\nhel",
    b"whole": HEAD + b"Content-Length: 6\r\nConnection: close\r\n\r\nhello\n",
    b"chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n6\r\nhello\n\r\n",
    b"chunks": HEAD + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
              b"6\r\nhello\n\r\n0\r\n\r\n",
    b"endless": HEAD + b"\r\nhello\n",
}
HANDSHAKES = [
    b"",  # an end at once
    b"HTTP/1.1 400 Bad Request\r\n\r\n",
    b"\x15\x03\x03\x00\x02\x02\x28",  # the alert handshake_failure
    b"\x16\x03\x03\x00\x40\x02\x00\x00\x3c\x03\x03",  # a part of ServerHello
    b"\x17\x03\x03\x00\x05hello",  # data before the handshake
]


def reset(stream):
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.close()


def handshake(stream, count):
    stream.recv(65536)
    count %= len(HANDSHAKES) + 1
    if count == len(HANDSHAKES):
        return reset(stream)
    stream.sendall(HANDSHAKES[count])
    stream.shutdown(socket.SHUT_WR)
    wait_for_end(stream)


def wait_for_end(stream):
    """Closes behind the peer: an earlier close would reset the connection."""
    try:
        while stream.recv(65536):
            pass
    except OSError:
        pass
    stream.close()


def respond(stream, count):
    try:
        stream = context.wrap_socket(stream, server_side=True, suppress_ragged_eofs=True)
        head = b""
        while b"\r\n\r\n" not in head:
            head += stream.recv(65536)
        response, end = head.split(b" ")[1].strip(b"/").split(b"/")
        stream.sendall(RESPONSES[response])
        if end == b"notify":
            stream.unwrap()
        if end == b"reset":
            return reset(stream)
        stream.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    wait_for_end(stream)


def listen(serve):
    listener = socket.create_server(("127.0.0.1", 0))

    def accept():
        count = 0
        while True:
            stream, _ = listener.accept()
            threading.Thread(target=serve, args=(stream, count), daemon=True).start()
            count += 1

    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


print("ports", listen(handshake), listen(respond), flush=True)
threading.Event().wait()
