//! Sends the same traffic through HAProxy and `fulmar proxy` with the same configuration, and
//! compares their statistics.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use fulmar_tests::gateway::command;
use fulmar_tests::origins::free_address;
use fulmar_tests::process::{ChildProcess, PATIENCE, eventually, peer};
use fulmar_tests::threads::serve_each;
use tempfile::TempDir;

/// Requests to both, each on a connection of its own until it is closed.
const REQUESTS: &[(&str, usize)] = &[
    ("GET /200 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 20),
    ("GET /200 HTTP/1.0\r\n\r\n", 5),
    ("HEAD /200 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 5),
    ("POST /201 HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", 5),
    ("GET /204 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 3),
    ("GET /302 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 4),
    ("GET /304 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 3),
    ("GET /404 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 7),
    ("GET /500 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 6),
    ("GET /503 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 2),
    ("GET /denied HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 4),
    ("GET /denied429 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 3),
    ("GET /own HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 4),
    ("GET /moved HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 4),
    ("GET /tarpit HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 2),
    ("GET /rejected HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 2),
    ("GET /alive HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 3),
    ("GET /stats HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 2),
    ("GET /secret HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 3),
    ("GET /login HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 3),
    ("GET /backdeny HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 3),
    ("GET /backmove HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 3),
    ("GET /backsecret HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 3),
    ("GET /down HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 4),
    ("GET /nobody HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 3),
    ("GET /refused HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 2),
    ("GET /again HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 4),
    ("GET /drop HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 3),
    ("GET /junk HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 3),
    ("GET /half HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 3),
    ("GET /retried/drop HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 2),
    ("GET /retried/500 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 2),
    ("nonsense\r\n\r\n", 3),
    ("GET /b ad HTTP/1.1\r\nHost: h\r\n\r\n", 2),
    ("GET /200 HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n", 2),
];

/// Requests that run into a timeout, all at once. For other requests the timeouts are long enough
/// even on a busy machine.
const SLOW: &[&str] = &[
    "GET /slow HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    "GET /200 HTTP/1.1\r\nHost: h\r\n",
    "",
];

fn text(side: &MeasuredProxy, origin: SocketAddr, unused: SocketAddr) -> String {
    let places = [
        ("WEB", side.web),
        ("RAW", side.raw),
        ("GONE", side.gone),
        ("ORIGIN", origin),
        ("NOBODY", unused),
    ];
    let text = TEXT.replace("SOCKET", &side.socket.display().to_string());
    places.iter().fold(text, |text, (name, place)| text.replace(name, &place.to_string()))
}

/// The configuration of both; words in capitals are addresses.
const TEXT: &str = "global
  nbthread 1
  maxconn 2000
  stats socket unix@SOCKET level admin
defaults
  mode http
  timeout connect 10s
  timeout client 2s
  timeout server 2s
  timeout http-request 2s
  timeout tarpit 50ms
  retries 1
userlist people
  user me insecure-password secret
frontend web
  bind WEB name w
  option socket-stats
  monitor-uri /alive
  stats enable
  stats uri /stats
  http-request deny if { path /denied }
  http-request deny deny_status 429 if { path /denied429 }
  http-request return status 200 content-type text/plain string hello if { path /own }
  http-request redirect location /elsewhere if { path /moved }
  http-request tarpit if { path /tarpit }
  http-request reject if { path /rejected }
  http-request auth if { path /login } !{ http_auth(people) }
  http-request use-service prometheus-exporter if { path /metrics }
  http-response deny if { res.hdr(secret) -m found } { be_name shop }
  use_backend back if { path_beg /back }
  use_backend down if { path /down }
  use_backend nobody if { path /nobody }
  use_backend refused if { path /refused }
  use_backend again if { path /again }
  use_backend retried if { path_beg /retried }
  default_backend shop
backend shop
  server s1 ORIGIN
backend back
  http-request deny if { path /backdeny }
  http-request redirect location /elsewhere if { path /backmove }
  http-response deny if { res.hdr(secret) -m found }
  server b1 ORIGIN
backend down
  server d1 ORIGIN disabled
backend nobody
backend refused
  timeout connect 200ms
  server r1 NOBODY
backend again
  option redispatch 1
  retries 2
  timeout connect 200ms
  balance first
  server a1 NOBODY
  server a2 ORIGIN
backend retried
  retries 2
  retry-on empty-response 500
  http-request set-path %[path,regsub(^/retried,)]
  server t1 ORIGIN
listen raw
  mode tcp
  bind RAW
  option socket-stats
  tcp-request connection reject if { src 127.0.0.2 }
  tcp-request inspect-delay 10s
  tcp-request content reject if { req.payload(0,2) -m str NO }
  tcp-request content accept if { req.len gt 0 }
  server w1 ORIGIN
frontend gone
  mode tcp
  bind GONE name g
  timeout client 2s
  default_backend gone
backend gone
  mode tcp
  timeout connect 200ms
  server g1 NOBODY
";

/// One of the two proxies.
struct MeasuredProxy {
    web: SocketAddr,
    raw: SocketAddr,
    gone: SocketAddr,
    socket: PathBuf,
    folder: TempDir,
}

impl MeasuredProxy {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s.sock");
        let (web, raw, gone) = (free_address(), free_address(), free_address());
        Self { web, raw, gone, socket, folder }
    }

    fn start(&self, program: &mut Command, origin: SocketAddr, unused: SocketAddr) -> ChildProcess {
        let path = self.folder.path().join("proxy.cfg");
        std::fs::write(&path, text(self, origin, unused)).unwrap();
        let process = ChildProcess::start(program.args(["-db", "-f"]).arg(path));
        eventually("it answers", || UnixStream::connect(&self.socket).is_ok());
        process
    }

    fn runtime_command(&self, command: &str) -> String {
        let mut to = UnixStream::connect(&self.socket).unwrap();
        to.set_read_timeout(Some(PATIENCE)).unwrap();
        to.write_all(command.as_bytes()).unwrap();
        let mut answer = String::new();
        to.read_to_string(&mut answer).unwrap();
        answer
    }

    /// By row and column.
    fn rows(&self) -> BTreeMap<(String, String), String> {
        let csv = self.runtime_command("show stat\n");
        let mut lines = csv.lines().filter(|line| !line.is_empty());
        let names: Vec<&str> = lines.next().unwrap()[2..].split(',').collect();
        let mut rows = BTreeMap::new();
        for line in lines {
            let values: Vec<&str> = line.split(',').collect();
            let row = format!("{}/{}", values[0], values[1]);
            let cells = names.iter().zip(&values);
            rows.extend(
                cells.map(|(name, value)| ((row.clone(), (*name).to_owned()), (*value).to_owned())),
            );
        }
        rows
    }

    /// Output of the exporter: name with labels, and value.
    fn metrics(&self) -> BTreeMap<String, String> {
        let request = "GET /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        let text = String::from_utf8(send_request(self.web, request)).unwrap();
        let lines = text.lines().filter(|line| line.starts_with("haproxy_"));
        lines.filter_map(|line| line.rsplit_once(' ')).map(own).collect()
    }

    /// Waits until no client is connected.
    fn wait_until_idle(&self) {
        eventually("all clients have left", || {
            let rows = self.rows();
            let mut busy = rows.iter().filter(|((_, name), _)| name == "scur");
            busy.all(|(_, value)| value.is_empty() || value == "0")
        });
    }
}

fn own((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// Sends, and reads until the end.
fn send_request(address: SocketAddr, request: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let _ = stream.write_all(request.as_bytes()); // may already be rejected
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer); // may be reset
    answer
}

/// All requests to be counted.
fn traffic(side: &MeasuredProxy, origin: &PathServer) {
    for (request, count) in REQUESTS {
        (0..*count).for_each(|_| drop(send_request(side.web, request)));
    }
    thread::scope(|scope| {
        for request in SLOW.repeat(2) {
            scope.spawn(|| send_request(side.web, request));
        }
        for _ in 0..2 {
            scope.spawn(|| send_request(side.raw, "GET /slow HTTP/1.0\r\n\r\n"));
        }
    });
    side.wait_until_idle();
    // Several requests on one connection, which the client closes.
    for _ in 0..3 {
        let mut stream = TcpStream::connect(side.web).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        for _ in 0..5 {
            stream.write_all(b"GET /200 HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            read_body(&mut stream);
        }
    }
    // Clients that close before the response.
    let before = origin.slow.load(Ordering::Relaxed);
    let leaving = (0..3).map(|_| {
        let mut stream = TcpStream::connect(side.web).unwrap();
        stream.write_all(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        stream
    });
    let leaving: Vec<_> = leaving.collect();
    eventually("the server received them", || origin.slow.load(Ordering::Relaxed) == before + 3);
    drop(leaving);
    side.wait_until_idle();
    // Clients that close within their body.
    for _ in 0..2 {
        let mut stream = TcpStream::connect(side.web).unwrap();
        let head = b"POST /body HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nx";
        stream.write_all(head).unwrap();
        eventually("it is at work", || side.rows()[&("shop/s1".into(), "scur".into())] == "1");
        drop(stream);
        side.wait_until_idle();
    }
    raw_traffic(side);
    side.wait_until_idle();
}

fn raw_traffic(side: &MeasuredProxy) {
    for _ in 0..10 {
        let answer = send_request(side.raw, "GET /200 HTTP/1.0\r\n\r\n");
        assert!(answer.ends_with(b"body\n"), "{}", String::from_utf8_lossy(&answer));
    }
    (0..3).for_each(|_| drop(send_request(side.raw, "NO, not this")));
    for _ in 0..3 {
        let mut stream = TcpStream::connect(side.raw).unwrap(); // and closes without data
        stream.shutdown(Shutdown::Write).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    }
    (0..2).for_each(|_| drop(send_request(side.gone, "hello")));
}

fn read_body(stream: &mut TcpStream) {
    let mut heard = Vec::new();
    let mut buffer = [0; 1024];
    while !heard.ends_with(b"body\n") {
        let n = stream.read(&mut buffer).unwrap();
        assert!(n > 0, "{}", String::from_utf8_lossy(&heard));
        heard.extend_from_slice(&buffer[..n]);
    }
}

/// A server that acts as its path requests.
struct PathServer {
    address: SocketAddr,
    /// Number of requests without a response.
    slow: Arc<AtomicUsize>,
}

impl PathServer {
    fn start() -> Self {
        let slow = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&slow);
        let address = serve_each(move |stream| serve(stream, &count));
        Self { address, slow }
    }
}

fn serve(mut stream: TcpStream, slow: &AtomicUsize) -> std::io::Result<()> {
    let mut heard = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let n = stream.read(&mut buffer)?;
        if n == 0 {
            return Ok(());
        }
        heard.extend_from_slice(&buffer[..n]);
        while let Some(end) = heard.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&heard[..end]).into_owned();
            let len = head
                .to_ascii_lowercase()
                .split("content-length: ")
                .nth(1)
                .map_or(0, |rest| rest.split("\r\n").next().unwrap().parse::<usize>().unwrap());
            if heard.len() < end + 4 + len {
                break;
            }
            heard.drain(..end + 4 + len);
            if !answer(&mut stream, &head, slow)? {
                return Ok(());
            }
        }
    }
}

/// False if the connection is to be closed.
fn answer(stream: &mut TcpStream, head: &str, slow: &AtomicUsize) -> std::io::Result<bool> {
    let path = head.split(' ').nth(1).unwrap_or("/");
    let last = head.contains("HTTP/1.0") || head.contains("onnection: close");
    match path.trim_start_matches('/') {
        "drop" => return Ok(false),
        "junk" => {
            stream.write_all(b"what is this\r\n\r\n")?;
            return Ok(false);
        }
        "half" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")?;
            return Ok(false);
        }
        "slow" => {
            slow.fetch_add(1, Ordering::Relaxed);
            return Ok(true);
        }
        "204" | "304" => {
            stream.write_all(format!("HTTP/1.1 {} Fine\r\n\r\n", &path[1..]).as_bytes())?;
        }
        other => {
            let status = other.parse().unwrap_or(200);
            let body = if head.starts_with("HEAD ") { "" } else { "body\n" };
            let close = if last { "Connection: close\r\n" } else { "" };
            let secret = if path.ends_with("secret") { "Secret: 1\r\n" } else { "" };
            let text =
                format!("HTTP/1.1 {status} Fine\r\n{close}{secret}Content-Length: 5\r\n\r\n{body}");
            stream.write_all(text.as_bytes())?;
        }
    }
    Ok(!last)
}

#[test]
fn the_same_traffic_is_counted_as_haproxy_counts_it() {
    let unused = free_address();
    let (our_origin, their_origin) = (PathServer::start(), PathServer::start());
    let (ours, theirs) = (MeasuredProxy::new(), MeasuredProxy::new());
    let _ours = ours.start(&mut command(), our_origin.address, unused);
    let _theirs = theirs.start(&mut peer("haproxy"), their_origin.address, unused);
    thread::scope(|scope| {
        scope.spawn(|| traffic(&ours, &our_origin));
        traffic(&theirs, &their_origin);
    });
    let (our_rows, their_rows) = (ours.rows(), theirs.rows());
    let mut wrong = String::new();
    for ((row, name), expected) in &their_rows {
        let found = our_rows.get(&(row.clone(), name.clone())).map_or("", |value| value);
        if !is_other(row, name) && found != expected {
            wrong += &format!("{row} {name}: {expected}, not {found}\n");
        }
    }
    assert_eq!(wrong, "");
    let (our_metrics, their_metrics) = (ours.metrics(), theirs.metrics());
    let mut compared = 0;
    for (metric, expected) in their_metrics.iter().filter(|(metric, _)| is_counter(metric)) {
        let found = our_metrics.get(metric);
        if found != Some(expected) {
            wrong += &format!("{metric}: {expected}, not {found:?}\n");
        }
        compared += 1;
    }
    assert_eq!(wrong, "");
    assert!(compared > 200, "{compared}");
}

/// Counters that depend on time, addresses or resources of the process.
fn is_other(row: &str, name: &str) -> bool {
    let is_http = !row.starts_with("raw/") && !row.starts_with("gone/");
    OTHERS.contains(&name)
        || ["rate", "time"].iter().any(|part| name.contains(part))
        // In HTTP, HAProxy counts bytes of its internal representation, and the built-in pages have
        // other lengths.
        || (is_http && BYTES.contains(&name))
        // HAProxy also counts rejected content of a 'listen' section for its backend.
        || (row == "raw/BACKEND" && name == "bin")
        // HAProxy counts a retry after a response as two retries.
        || (row.starts_with("retried/") && name == "wretr")
        // Connections without data have no stream.
        || (row == "web/FRONTEND" && name == "h1_total_streams")
}

/// True for counters of proxies and servers without these dependencies.
fn is_counter(metric: &str) -> bool {
    let family = metric.split('{').next().unwrap_or_default();
    let proxies = ["frontend", "listener", "backend", "server"];
    let is_of_proxy = proxies.iter().any(|kind| family.starts_with(&format!("haproxy_{kind}_")));
    is_of_proxy
        && family.ends_with("_total")
        && !["bytes", "seconds", "idle"].iter().any(|part| family.contains(part))
        && !(family.ends_with("_retry_warnings_total") && metric.contains("\"retried\""))
}

const OTHERS: &[&str] = &[
    "addr",
    "lastchg",
    "lastsess",
    "last_chk",
    // A new connection may overlap with the previous one.
    "smax",
    // The number of idle connections, and their timeouts, differ.
    "h1_open_connections",
    "idle_conn_cur",
    "need_conn_est",
    "safe_conn_cur",
    "srv_icur",
    "used_conn_cur",
];
const BYTES: &[&str] = &["bin", "bout", "h1_bytes_in", "h1_bytes_out"];
