"""httpx against `fulmar serve` over HTTP/2.

Arguments: the base URL of a server over TLS with test endpoints, and the authority to trust. It
fails at the first response that is not as expected.
"""

import asyncio
import ssl
import sys

import httpx


def expect(response, status, body=None):
    if response.http_version != "HTTP/2":
        raise SystemExit(f"{response.url}: {response.http_version}")
    if response.status_code != status:
        raise SystemExit(f"{response.url}: status {response.status_code}")
    if body is not None and response.content != body:
        raise SystemExit(f"{response.url}: another body of {len(response.content)} bytes")


async def main(base, authority):
    context = ssl.create_default_context(cafile=authority)
    limits = httpx.Limits(max_connections=1)
    async with httpx.AsyncClient(http2=True, http1=False, verify=context, limits=limits,
                                 base_url=base, timeout=60) as client:
        expect(await client.get("/hello.txt"), 200, b"hello, world\n")
        expect(await client.get("/none"), 404)
        expect(await client.head("/hello.txt"), 200, b"")
        expect(await client.get("/hello.txt", headers={"range": "bytes=7-11"}), 206, b"world")
        upload = b"up" * 250_000
        expect(await client.post("/echo", content=upload), 200, upload)

        async def parts():
            for n in range(100):
                yield bytes([n]) * 1_000

        sent = b"".join([part async for part in parts()])
        expect(await client.post("/echo", content=parts()), 200, sent)
        responses = await asyncio.gather(*(client.get(f"/bytes/{n * 100}") for n in range(100)))
        for n, response in enumerate(responses):
            expect(response, 200)
            if len(response.content) != n * 100:
                raise SystemExit(f"{response.url}: {len(response.content)} bytes")
        expect(await client.get("/large.bin"), 200, b"L" * 3_000_000)


asyncio.run(main(*sys.argv[1:]))
