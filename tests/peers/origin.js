// A server that logs each complete request: method, target, length of the body. Arguments: a port
// and the log file.
const { appendFileSync } = require("fs");
const { createServer } = require("http");

const [port, log] = process.argv.slice(2);

createServer((request, response) => {
  let length = 0;
  request.on("data", (data) => (length += data.length));
  request.on("end", () => {
    appendFileSync(log, `${request.method} ${request.url} ${length}\n`);
    response.end("heard\n");
  });
}).listen(Number(port), "127.0.0.1");
