"""Servers of the test for proxies: with TLS and without, proxies and origins.

Prints four ports: of an HTTPS proxy, an HTTP proxy, an HTTP server and an HTTPS server. All respond
with the head of the request. A proxy connects every CONNECT to loopback.
"""

import socket
import ssl
import sys
import threading

folder = sys.argv[1]


def context(name):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(f"{folder}/{name}.pem", f"{folder}/{name}.key")
    made.set_alpn_protocols(["http/1.1"])
    return made


def head_of(stream):
    head = b""
    while b"\r\n\r\n" not in head:
        byte = stream.recv(1)
        if not byte:
            return None
        head += byte
    return head


def relay(source, target):
    try:
        while piece := source.recv(65536):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def tunnel(stream, authority):
    port = int(authority.decode().rsplit(":", 1)[1])
    origin = socket.create_connection(("127.0.0.1", port))
    stream.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    back = threading.Thread(target=relay, args=(origin, stream))
    back.start()
    relay(stream, origin)
    back.join()


def serve(stream, tls):
    try:
        if tls:
            stream = tls.wrap_socket(stream, server_side=True)
        while (head := head_of(stream)) is not None:
            method, target = head.split(b" ")[:2]
            if method == b"CONNECT":
                return tunnel(stream, target)
            body = b"x" * 3_000_000 if target == b"/big" else head
            stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    except OSError:
        pass


def listen(tls):
    listener = socket.create_server(("127.0.0.1", 0))

    def accept():
        while True:
            stream, _ = listener.accept()
            threading.Thread(target=serve, args=(stream, tls), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


print("ports", *(listen(tls) for tls in [context("proxy"), None, None, context("server")]), flush=True)
threading.Event().wait()
