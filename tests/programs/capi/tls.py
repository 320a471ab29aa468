"""A server with TLS that responds with the parameters of the connection and the client's subject.

Prints its port. Arguments: the folder of the certificates, and the names of the server's.
"""

import socket
import ssl
import sys
import threading

folder = sys.argv[1]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
for name in sys.argv[2:]:
    context.load_cert_chain(f"{folder}/{name}.pem", f"{folder}/{name}.key")
context.load_verify_locations(f"{folder}/ca.pem")
context.verify_mode = ssl.CERT_OPTIONAL
context.set_alpn_protocols(["http/1.1"])


def serve(stream):
    try:
        stream = context.wrap_socket(stream, server_side=True)
        head = b""
        while b"\r\n\r\n" not in head:
            piece = stream.recv(4096)
            if not piece:
                return
            head += piece
        name, version, _ = stream.cipher()
        subject = (stream.getpeercert() or {}).get("subject", "none")
        body = f"{stream.version()} {name} client {subject}".encode()
        stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n" % len(body))
        stream.sendall(b"Connection: close\r\n\r\n" + body)
        stream.unwrap()
    except OSError:
        pass
    finally:
        stream.close()


listener = socket.create_server(("127.0.0.1", 0))
print("port", listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()
