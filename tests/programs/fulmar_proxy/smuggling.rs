//! The proxy forwards one request as exactly one request, whatever the server is.
//!
//! Every case of `data/bad-requests.txt` and `data/good-requests.txt` goes through the proxy to
//! other servers, followed by another request. Their logs are compared with the case: no server
//! receives a request that the proxy did not forward as such.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use fulmar_tests::cases::{RequestCase, bad, good};
use fulmar_tests::http::HttpClient;
use fulmar_tests::origins::{OriginKind, OriginServer, free_address};
use fulmar_tests::process::{ChildProcess, PATIENCE, eventually, fulmar};
use tempfile::TempDir;

/// `fulmar proxy` in front of one server.
struct ProxiedServer {
    address: SocketAddr,
    _process: ChildProcess,
    _dir: TempDir,
}

impl ProxiedServer {
    fn before(origin: SocketAddr) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (address, file) = (free_address(), dir.path().join("proxy.cfg"));
        let text = format!(
            "defaults\n mode http\n timeout client 20s\n timeout server 20s\n timeout connect 5s\n\
             frontend f\n bind {address}\n default_backend b\n\
             backend b\n http-reuse always\n server s {origin}\n"
        );
        fs::write(&file, text).unwrap();
        let mut command = Command::new(fulmar());
        let process = ChildProcess::start(command.args(["proxy", "-db", "-f"]).arg(file));
        eventually("the proxy listens", || TcpStream::connect(address).is_ok());
        Self { address, _process: process, _dir: dir }
    }

    /// Sends a case and another request, unless the case forbids a following one.
    fn send_request(&self, case: &RequestCase) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let behind: &[u8] = if case.expected == "eof" { b"" } else { BEHIND };
        // The proxy may reject it before it is complete.
        let _ = stream.write_all(&[&case.bytes, behind].concat());
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
}

#[test]
fn rejected_requests_reach_no_server() {
    let mut wrong = Vec::new();
    for kind in OriginKind::ALL {
        let origin = OriginServer::start(kind);
        let proxy = ProxiedServer::before(origin.address);
        let mut begun = 0;
        for case in bad() {
            let before = origin.requests().len();
            proxy.send_request(&case);
            let received = origin.requests().split_off(before);
            // The head of an incomplete body is forwarded before the end is known: it may be logged
            // now or during the next case.
            let is_begun = case.expected.ends_with("body") || case.expected == "eof";
            begun = 1.min(begun) + usize::from(is_begun && kind != OriginKind::Node);
            let fine = received.len() <= begun
                && received.iter().all(|it| {
                    it.starts_with(
                        "POST \
                /echo",
                    )
                });
            begun = begun.saturating_sub(received.len());
            if !fine {
                wrong.push(format!(
                    "{kind:?} received {received:?} of {}: \
                                    {}",
                    case.what,
                    shown(&case)
                ));
            }
        }
        // The server connections of earlier cases are no longer in use.
        for n in 0..8 {
            let target = format!("/after-{n}");
            assert!(HttpClient::connect(proxy.address).get(&target).status < 300, "{kind:?}");
            let asked = format!("GET {target}");
            // Some servers log a request only after the response.
            eventually(&asked, || origin.requests().pop().is_some_and(|it| it.starts_with(&asked)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn accepted_requests_reach_servers_unchanged() {
    let mut wrong = Vec::new();
    for kind in OriginKind::ALL {
        let origin = OriginServer::start(kind);
        let proxy = ProxiedServer::before(origin.address);
        let is_short = |case: &&RequestCase| case.bytes.len() <= HEAD_SIZE_MAX;
        for case in good().iter().filter(is_short) {
            let before = origin.requests().len();
            proxy.send_request(case);
            let requests = case.expected.split(", ").chain(["GET /behind 0"]);
            let requests: Vec<_> = requests.filter_map(|request| written(kind, request)).collect();
            let expected: Vec<_> = requests.iter().collect();
            let taken = |lines: &[String]| lines.iter().filter(|line| !is_refusal(line)).count();
            let received =
                origin.requests_after(before, |received| taken(received) >= expected.len());
            let received: Vec<_> = received.iter().filter(|line| !is_refusal(line)).collect();
            if received != expected {
                let what = format!("{kind:?} received {received:?}, not {expected:?}");
                wrong.push(format!("{what}, of {}: {}", case.what, shown(case)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// How a server logs a request; `None` if the server rejects it for reasons of its own.
fn written(kind: OriginKind, request: &str) -> Option<String> {
    if REFUSED.iter().any(|(by, refused)| *by == kind && request.starts_with(refused)) {
        return None;
    }
    let request = match RENAMED.iter().find(|(by, known, _)| *by == kind && *known == request) {
        Some((_, _, renamed)) => renamed,
        None => request,
    };
    let end =
        if kind.logs_complete_requests() { request.len() } else { request.rfind(' ').unwrap() };
    Some(request[..end].to_owned())
}

/// True if a server's log line reports a rejection.
fn is_refusal(line: &str) -> bool {
    line == "- -" || line == "<BADREQ> <BADREQ>"
}

fn shown(case: &RequestCase) -> String {
    let text = case.bytes.escape_ascii().to_string();
    text.chars().take(300).collect()
}

/// Sent after every case: a part of it, or the next request.
const BEHIND: &[u8] = b"GET /behind HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
/// A header size that all servers accept; ours may be longer.
const HEAD_SIZE_MAX: usize = 8_000;
/// Some servers accept only upper-case or known methods.
const REFUSED: &[(OriginKind, &str)] = &[
    (OriginKind::Nginx, "helloGET"),
    (OriginKind::Nginx, "G!T"),
    (OriginKind::Nginx, "get"),
    (OriginKind::Nginx, "OPTIONS *"),
    (OriginKind::Node, "helloGET"),
    (OriginKind::Node, "G!T"),
    (OriginKind::Node, "get"),
    (OriginKind::Node, "MMMM"),
];
/// Some servers normalize a target, escape it in the log, or convert a method to upper case.
const RENAMED: &[(OriginKind, &str, &str)] = &[
    (OriginKind::Nginx, "GET http://h:80/ 0", "GET / 0"),
    (OriginKind::Nginx, "GET HTTP://H/ 0", "GET / 0"),
    (OriginKind::Nginx, "GET /|[]\"<>^` 0", "GET /|[]\\x22<>^` 0"),
    (OriginKind::Apache, "GET http://h:80/ 0", "GET / 0"),
    (OriginKind::Apache, "GET HTTP://H/ 0", "GET / 0"),
    (OriginKind::Apache, "GET /a%2F..%2e?b=%20&c=%C0%AF 0", "GET /a/...?b=%20&c=%C0%AF 0"),
    (OriginKind::Apache, "GET /|[]\"<>^` 0", "GET /|[]\\\"<>^` 0"),
    (OriginKind::Apache, "GET //h/../x 0", "GET /x 0"),
    (OriginKind::Apache, "GET /a%0d%0aX:%20y 0", "GET /a\\r\\nX: y 0"),
    (OriginKind::Apache, "GET /%09%1b%7f 0", "GET /\\t\\x1b\\x7f 0"),
    (OriginKind::Python, "helloGET / 0", "HELLOGET / 0"),
    (OriginKind::Python, "get / 0", "GET / 0"),
    (OriginKind::HaProxy, "GET http://h:80/ 0", "GET http://h/ 0"),
    (OriginKind::HaProxy, "GET /|[]\"<>^` 0", "GET /|[]#22<>^` 0"),
];
