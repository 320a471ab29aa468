//! `show errors` compared with HAProxy.

use std::os::unix::net::UnixListener;
use std::thread;

use super::*;

/// A frontend, and a server at `server.sock`.
fn text(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "global
  nbthread 1
  stats socket {folder}/admin.sock level admin
defaults
  mode http
  timeout connect 1s
  timeout client 5s
  timeout server 5s
frontend www
  bind unix@{folder}/www.sock
  default_backend shop
backend shop
  server s1 unix@{folder}/server.sock
listen other
  bind unix@{folder}/other.sock
"
    )
}

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: a\r\nA@ b: c\u{0}\t\\\u{1b}\r\n\r\nmore that goes \
                       on \
                       and on and on and on and on and on and on and on, to the end of a line\r\n";
const RESPONSE: &str = "HTTP/1.1 200 OK\r\nFoo : bar\u{1}\r\n\r\nhello\u{7f}\t\\x";

/// Sends a malformed request and a malformed response through a proxy.
fn mistreat(folder: &Path) {
    let server = UnixListener::bind(folder.join("server.sock")).unwrap();
    let server = thread::spawn(move || {
        let (mut to, _) = server.accept().unwrap();
        let _ = to.read(&mut [0; 4_096]).unwrap();
        to.write_all(RESPONSE.as_bytes()).unwrap();
    });
    assert!(talk(folder, "www", &[REQUEST]).starts_with("HTTP/1.1 400 "));
    let sound = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    assert!(talk(folder, "www", &[sound]).starts_with("HTTP/1.1 502 "));
    server.join().unwrap();
}

/// Without dates and internal state.
fn common(shown: &str) -> String {
    let kept = |line: &&str| {
        let own = ["  H1 ", "  a header field", "  the ", "  buffer starts"];
        !own.iter().any(|own| line.starts_with(own))
    };
    let mut out = String::new();
    for line in shown.lines().filter(kept) {
        let (before, rest) = line.split_once('[').unwrap_or((line, ""));
        let line = rest
            .split_once(']')
            .map_or_else(|| line.to_owned(), |(_, rest)| format!("{before}{rest}"));
        let line = match (line.split_once(", wraps at "), line.rsplit_once(", ")) {
            (Some((len, _)), Some((_, position))) => format!("{len}, {position}"),
            _ => line,
        };
        out += &line;
        out.push('\n');
    }
    out
}

#[test]
fn malformed_messages_are_shown_as_haproxy_shows_them() {
    let (ours, theirs) = (FulmarRuntime::with(text), HaProxyRuntime::with(text));
    for folder in [ours.folder.path(), theirs.folder.path()] {
        let none = talk(folder, "admin", &["show errors\n"]);
        assert!(none.ends_with(" : 0\n\n"), "{none}");
        mistreat(folder);
    }
    for command in [
        "show errors",
        "show errors www",
        "show errors shop",
        "show errors other",
        "show errors 2",
        "show errors 3",
        "show errors 99",
        "show errors 0",
        "show errors nope",
        "show errors -1 request",
        "show errors -1 response",
        "show errors shop request",
    ] {
        let line = format!("{command}\n");
        let expected = common(&talk(theirs.folder.path(), "admin", &[&line]));
        let shown = talk(ours.folder.path(), "admin", &[&line]);
        assert_eq!(common(&shown), expected, "{command}");
    }
    let shown = talk(ours.folder.path(), "admin", &["show errors\n"]);
    assert!(shown.contains("  a header field is malformed :\n"), "{shown}");
}

#[test]
fn of_many_malformed_messages_the_last_is_kept() {
    let ours = FulmarRuntime::with(text);
    let folder = ours.folder.path();
    for nth in 0..20 {
        let long = format!("GET /{nth} HTTP/1.1\r\nHost: a\r\nX: {}", "x".repeat(40_000));
        let answer = talk(folder, "www", &[&long]);
        assert!(answer.starts_with("HTTP/1.1 431 ") || answer.is_empty(), "{answer:.100}");
    }
    let shown = talk(folder, "admin", &["show errors www\n"]);
    assert!(shown.contains(" : 20\n") && shown.contains("event #19,"), "{shown:.400}");
    assert!(shown.contains("  len 32768, ") && shown.contains("error at position 32768\n"));
    assert!(shown.contains("  00000  GET /19 HTTP/1.1\\r\\n\n") && !shown.contains("GET /18"));
}
