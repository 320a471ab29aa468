"""Python's own clients against `fulmar serve`: http.client on one connection, and urllib.

The tree is what tests/serve_peers.rs makes; argument: the URL of its root, with test endpoints.
"""

import http.client
import sys
import urllib.error
import urllib.parse
import urllib.request

root = urllib.parse.urlsplit(sys.argv[1])
connection = http.client.HTTPConnection(root.hostname, root.port, timeout=60)


def ask(method, target, body=None, headers={}, **more):
    connection.request(method, target, body, headers, **more)
    response = connection.getresponse()
    return response, response.read()


def expect(got, wanted):
    if got != wanted:
        raise SystemExit(f"{got!r} is not {wanted!r}")


def one_connection():
    response, body = ask("GET", "/hello.txt")
    socket = connection.sock
    expect((response.status, response.reason, body), (200, "OK", b"hello, world\n"))
    expect(response.getheader("Content-Type"), "text/plain; charset=utf-8")
    etag = response.getheader("ETag")

    response, body = ask("HEAD", "/hello.txt")
    expect((response.status, response.getheader("Content-Length"), body), (200, "13", b""))
    response, body = ask("GET", "/hello.txt", headers={"Range": "bytes=7-11"})
    expect((response.status, body), (206, b"world"))
    response, body = ask("GET", "/hello.txt", headers={"If-None-Match": etag})
    expect((response.status, body), (304, b""))
    response, _ = ask("GET", "/none")
    expect(response.status, 404)
    response, body = ask("DELETE", "/hello.txt")
    expect((response.status, response.getheader("Allow")), (405, "GET, HEAD, OPTIONS"))
    response, body = ask("OPTIONS", "*")
    expect((response.status, body), (204, b""))

    response, body = ask("POST", "/echo", b"x" * 50_000)
    expect((response.status, body), (200, b"x" * 50_000))
    chunks = [b"one", b"two" * 1000, b"", b"three" * 10_000]
    response, body = ask("POST", "/echo", iter(chunks), encode_chunked=True,
                         headers={"Transfer-Encoding": "chunked"})
    expect((response.status, body), (200, b"".join(chunks)))

    response, body = ask("GET", "/large.bin")
    expect((response.status, len(body), set(body)), (200, 5_000_000, {ord("L")}))
    for n in range(100):
        response, body = ask("GET", f"/bytes/{n}")
        expect((response.status, len(body)), (200, n))
    expect(connection.sock is socket, True)

    response, body = ask("GET", "/hello.txt", headers={"Connection": "close"})
    expect((body, connection.sock), (b"hello, world\n", None))


def endless_stream():
    connection.request("GET", "/stream/1000")
    response = connection.getresponse()
    expect(response.chunked, True)
    expect(len(response.read(1_000_000)), 1_000_000)
    connection.close()


def by_urllib():
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def read(target):
        with opener.open(root.geturl() + target, timeout=60) as response:
            return response.geturl(), response.read()

    expect(read("/hello.txt")[1], b"hello, world\n")
    url, body = read("/dir")  # redirected
    expect((url, body), (root.geturl() + "/dir/", b"<p>index"))
    expect(read("/" + urllib.parse.quote("a b/ü#?.txt"))[1], b"named")
    try:
        read("/none")
    except urllib.error.HTTPError as error:
        expect(error.code, 404)
        error.read()
    else:
        raise SystemExit("/none was found")


one_connection()
endless_stream()
by_urllib()
print("agreed")
