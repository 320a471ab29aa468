//! What the proxy forwards as one request is one request to whatever stands behind it.
//!
//! Every case of `data/bad-requests.txt` and `data/good-requests.txt` goes through the proxy to
//! servers of others, with another request behind it. What they write down is compared with what
//! was in the case: nobody hears a request that the proxy did not know of.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use fulmar_tests::cases::{Case, bad, good};
use fulmar_tests::http::Client;
use fulmar_tests::origins::{Kind, Origin, free_address};
use fulmar_tests::process::{PATIENCE, Process, eventually, fulmar};
use tempfile::TempDir;

/// `fulmar proxy` in front of one server.
struct Proxy {
    address: SocketAddr,
    _process: Process,
    _dir: TempDir,
}

impl Proxy {
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
        let process = Process::start(command.args(["proxy", "-db", "-f"]).arg(file));
        eventually("the proxy listens", || TcpStream::connect(address).is_ok());
        Self { address, _process: process, _dir: dir }
    }

    /// Sends what a case has, and another request, unless the case is that nothing follows.
    fn ask(&self, case: &Case) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let behind: &[u8] = if case.expected == "eof" { b"" } else { BEHIND };
        // It may be refused before all of it has come.
        let _ = stream.write_all(&[&case.bytes, behind].concat());
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
}

#[test]
fn nobody_hears_what_is_refused() {
    let mut wrong = Vec::new();
    for kind in Kind::ALL {
        let origin = Origin::start(kind);
        let proxy = Proxy::before(origin.address);
        let mut begun = 0;
        for case in bad() {
            let before = origin.heard().len();
            proxy.ask(&case);
            let heard = origin.heard().split_off(before);
            // Of a body that breaks off, the head has been forwarded before anybody could know: it
            // may be written down now, or when the next case is under way.
            let is_begun = case.expected.ends_with("body") || case.expected == "eof";
            begun = 1.min(begun) + usize::from(is_begun && kind != Kind::Node);
            let fine = heard.len() <= begun && heard.iter().all(|it| it.starts_with("POST /echo"));
            begun = begun.saturating_sub(heard.len());
            if !fine {
                wrong.push(format!("{kind:?} heard {heard:?} of {}: {}", case.what, shown(&case)));
            }
        }
        // Connections to the server that had to do with any of that are not in use any more.
        for n in 0..8 {
            let target = format!("/after-{n}");
            assert!(Client::connect(proxy.address).get(&target).status < 300, "{kind:?}");
            let asked = format!("GET {target}");
            // Some write down what they have heard once they have answered it.
            eventually(&asked, || origin.heard().pop().is_some_and(|it| it.starts_with(&asked)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn everybody_hears_what_is_taken_and_nothing_else() {
    let mut wrong = Vec::new();
    for kind in Kind::ALL {
        let origin = Origin::start(kind);
        let proxy = Proxy::before(origin.address);
        let is_short = |case: &&Case| case.bytes.len() <= HEAD_SIZE_MAX;
        for case in good().iter().filter(is_short) {
            let before = origin.heard().len();
            proxy.ask(case);
            let told = case.expected.split(", ").chain(["GET /behind 0"]);
            let told: Vec<_> = told.filter_map(|request| written(kind, request)).collect();
            let expected: Vec<_> = told.iter().collect();
            let taken = |heard: &[String]| heard.iter().filter(|line| !is_refusal(line)).count();
            let heard = origin.heard_after(before, |heard| taken(heard) >= expected.len());
            let heard: Vec<_> = heard.iter().filter(|line| !is_refusal(line)).collect();
            if heard != expected {
                let what = format!("{kind:?} heard {heard:?}, not {expected:?}");
                wrong.push(format!("{what}, of {}: {}", case.what, shown(case)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// How a server writes a request down; `None`: it refuses it, for reasons of its own.
fn written(kind: Kind, request: &str) -> Option<String> {
    if REFUSED.iter().any(|(by, refused)| *by == kind && request.starts_with(refused)) {
        return None;
    }
    let request = match RENAMED.iter().find(|(by, known, _)| *by == kind && *known == request) {
        Some((_, _, renamed)) => renamed,
        None => request,
    };
    let end = if kind.hears_out() { request.len() } else { request.rfind(' ').unwrap() };
    Some(request[..end].to_owned())
}

/// True if a server wrote down that it refused something.
fn is_refusal(line: &str) -> bool {
    line == "- -" || line == "<BADREQ> <BADREQ>"
}

fn shown(case: &Case) -> String {
    let text = case.bytes.escape_ascii().to_string();
    text.chars().take(300).collect()
}

/// Sent behind every case: part of it, or the next request, and never anything else.
const BEHIND: &[u8] = b"GET /behind HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
/// What a head may take everywhere; ours may be longer.
const HEAD_SIZE_MAX: usize = 8_000;
/// Methods are to be of capitals, or of those that are known.
const REFUSED: &[(Kind, &str)] = &[
    (Kind::Nginx, "helloGET"),
    (Kind::Nginx, "G!T"),
    (Kind::Nginx, "get"),
    (Kind::Nginx, "OPTIONS *"),
    (Kind::Node, "helloGET"),
    (Kind::Node, "G!T"),
    (Kind::Node, "get"),
    (Kind::Node, "MMMM"),
];
/// Some take a target apart, escape it in their log, or make a method one of capitals.
const RENAMED: &[(Kind, &str, &str)] = &[
    (Kind::Nginx, "GET http://h:80/ 0", "GET / 0"),
    (Kind::Nginx, "GET HTTP://H/ 0", "GET / 0"),
    (Kind::Nginx, "GET /|[]\"<>^` 0", "GET /|[]\\x22<>^` 0"),
    (Kind::Apache, "GET http://h:80/ 0", "GET / 0"),
    (Kind::Apache, "GET HTTP://H/ 0", "GET / 0"),
    (Kind::Apache, "GET /a%2F..%2e?b=%20&c=%C0%AF 0", "GET /a/...?b=%20&c=%C0%AF 0"),
    (Kind::Apache, "GET /|[]\"<>^` 0", "GET /|[]\\\"<>^` 0"),
    (Kind::Apache, "GET //h/../x 0", "GET /x 0"),
    (Kind::Apache, "GET /a%0d%0aX:%20y 0", "GET /a\\r\\nX: y 0"),
    (Kind::Apache, "GET /%09%1b%7f 0", "GET /\\t\\x1b\\x7f 0"),
    (Kind::Python, "helloGET / 0", "HELLOGET / 0"),
    (Kind::Python, "get / 0", "GET / 0"),
    (Kind::HaProxy, "GET http://h:80/ 0", "GET http://h/ 0"),
    (Kind::HaProxy, "GET /|[]\"<>^` 0", "GET /|[]#22<>^` 0"),
];
