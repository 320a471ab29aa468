"""A WebSocket server (RFC 6455), with TLS and without, for the test of curl_ws_*.

Prints two ports. The path selects what it does with a connection.
"""

import base64
import hashlib
import socket
import ssl
import struct
import sys
import threading

folder = sys.argv[1]
CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10


def frame(opcode, payload=b"", fin=True):
    first = opcode | (0x80 if fin else 0)
    if len(payload) < 126:
        head = struct.pack("!BB", first, len(payload))
    elif len(payload) < 65536:
        head = struct.pack("!BBH", first, 126, len(payload))
    else:
        head = struct.pack("!BBQ", first, 127, len(payload))
    return head + payload


class Connection:
    def __init__(self, stream):
        self.stream = stream
        self.send = stream.sendall

    def exactly(self, length):
        data = b""
        while len(data) < length:
            piece = self.stream.recv(length - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def receive(self):
        first, second = self.exactly(2)
        assert second & 0x80, "a client masks"
        length = second & 0x7F
        if length >= 126:
            form = "!H" if length == 126 else "!Q"
            length = struct.unpack(form, self.exactly(struct.calcsize(form)))[0]
        mask, payload = self.exactly(4), self.exactly(length)
        return first, bytes(byte ^ mask[at & 3] for at, byte in enumerate(payload))

    def handshake(self):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.exactly(1)
        lines = head.decode().split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
        assert fields["Upgrade"] == "websocket" and fields["Connection"] == "Upgrade"
        assert fields["Sec-WebSocket-Version"] == "13"
        path = lines[0].split(" ")[1]
        if path == "/refuse":
            self.send(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            return path
        key = fields["Sec-WebSocket-Key"].encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key).digest())
        self.send(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
        )
        return path

    def echo(self):
        while True:
            first, payload = self.receive()
            opcode = first & 15
            if opcode == PING:
                self.send(frame(PONG, payload))
            else:
                self.send(frame(opcode, payload, first & 0x80))
            if opcode == CLOSE:
                return

    def script(self):
        self.send(frame(TEXT, b"hello") + frame(TEXT, b"he", False) + frame(PING, b"now"))
        self.send(frame(CONT, b"llo") + frame(BINARY, b"\x07" * 70_000) + frame(TEXT))
        first, payload = self.receive()
        self.send(frame(TEXT, b"received %02x %s" % (first, payload)))
        self.send(frame(CLOSE, struct.pack("!H", 1000)))

    def pings(self):
        self.send(frame(PING, b"one") + frame(PING, b"two"))
        received = [self.receive(), self.receive()]
        self.send(frame(PING, b"three"))
        received.append(self.receive())
        self.send(frame(TEXT, b" ".join(b"%02x %s" % it for it in received)))
        self.send(frame(CLOSE, struct.pack("!H", 1000)))

    def flood(self):
        self.send(b"".join(frame(TEXT, b"%05d" % number) for number in range(40_000)))
        self.send(frame(CLOSE, struct.pack("!H", 1000)))

    def run(self):
        path = self.handshake()
        if path == "/echo":
            self.echo()
        elif path == "/script":
            self.script()
        elif path == "/pings":
            self.pings()
        elif path == "/flood":
            self.flood()
        elif path == "/masked":
            self.send(b"\x81\x80\0\0\0\0")
        elif path == "/opcode":
            self.send(b"\x83\0")


def serve(stream, tls):
    try:
        if tls:
            stream = tls.wrap_socket(stream, server_side=True)
        Connection(stream).run()
    except (OSError, EOFError):
        pass
    if tls:
        try:
            stream.unwrap()
        except OSError:
            pass
    stream.close()


def listen(tls):
    listener = socket.create_server(("127.0.0.1", 0))

    def accept():
        while True:
            stream, _ = listener.accept()
            threading.Thread(target=serve, args=(stream, tls), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(f"{folder}/server.pem", f"{folder}/server.key")
print("ports", listen(None), listen(context), flush=True)
threading.Event().wait()
