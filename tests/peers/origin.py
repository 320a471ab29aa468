"""For gunicorn: writes down each request that it has heard to its end, into the file ORIGIN_LOG:
method, target, length of the body."""

import os


def app(environ, start_response):
    length = len(environ["wsgi.input"].read())
    target = environ["RAW_URI"]
    with open(os.environ["ORIGIN_LOG"], "a") as log:
        log.write(f"{environ['REQUEST_METHOD']} {target} {length}\n")
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "6")])
    return [b"heard\n"]
