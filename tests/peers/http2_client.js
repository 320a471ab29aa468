// Node's client of HTTP/2 against `fulmar serve`. Arguments: the base URL of a server with test
// endpoints and the files of tests/programs/fulmar_serve/http2_peers.rs, and the authority to trust.
const assert = require("assert");
const { readFileSync } = require("fs");
const { connect, constants } = require("http2");

const [base, authority] = process.argv.slice(2);
const session = connect(base, { ca: readFileSync(authority) });

// Sends a request, and resolves with the response.
function exchange(fields, body) {
  return new Promise((resolve, reject) => {
    const stream = session.request(fields, { endStream: body === undefined });
    const parts = [];
    let head;
    let trailers;
    stream.on("response", (received) => (head = received));
    stream.on("trailers", (received) => (trailers = received));
    stream.on("data", (part) => parts.push(part));
    stream.on("error", reject);
    stream.on("end", () => resolve({ head, trailers, body: Buffer.concat(parts) }));
    if (body !== undefined) stream.end(body);
  });
}

async function main() {
  const hello = await exchange({ ":path": "/hello.txt" });
  assert.equal(hello.head[":status"], 200);
  assert.equal(hello.head["content-type"], "text/plain; charset=utf-8");
  assert.equal(hello.body.toString(), "hello, world\n");

  const etag = hello.head.etag;
  const same = await exchange({ ":path": "/hello.txt", "if-none-match": etag });
  assert.deepEqual([same.head[":status"], same.body.length], [304, 0]);
  const head = await exchange({ ":path": "/hello.txt", ":method": "HEAD" });
  assert.deepEqual([head.head["content-length"], head.body.length], ["13", 0]);
  const none = await exchange({ ":path": "/none" });
  assert.equal(none.head[":status"], 404);

  const sizes = Array.from({ length: 100 }, (_, n) => n * 100);
  const responses = await Promise.all(sizes.map((n) => exchange({ ":path": `/bytes/${n}` })));
  assert.deepEqual(responses.map((it) => it.body.length), sizes);

  const upload = Buffer.alloc(300_000, "up");
  const echoes = await Promise.all(
    [1, 2, 3].map(() => exchange({ ":path": "/echo", ":method": "POST" }, upload)));
  for (const echo of echoes) assert.ok(echo.body.equals(upload));

  // A stream that is reset leaves the others alone.
  const slow = session.request({ ":path": "/delay/60000" });
  slow.on("error", () => {});
  const closed = new Promise((resolve) => slow.on("close", resolve));
  slow.close(constants.NGHTTP2_CANCEL);
  await closed;
  const large = await exchange({ ":path": "/large.bin" });
  assert.equal(large.body.length, 3_000_000);

  await new Promise((resolve) => session.close(resolve));
  console.log("agreed");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
