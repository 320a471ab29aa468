//! The statistics page with its path, users and conditions, compared with HAProxy.

use std::net::TcpStream;
use std::process::Command;

use fulmar_tests::gateway::{ProxyFolder, command, end};
use fulmar_tests::http::{HttpClient, HttpReply};
use fulmar_tests::process::{ChildProcess, eventually, peer};
use rustix::process::Signal;

/// Lines of the page, and requests to both proxies.
struct PageCase {
    lines: &'static str,
    /// Method, target, fields, body.
    asks: &'static [(&'static str, &'static str, &'static str, &'static str)],
}

const OWN: &str = "Host: h\r\n";
/// `me:secret`, and another user.
const ME: &str = "Host: h\r\nAuthorization: Basic bWU6c2VjcmV0\r\n";
const OTHER: &str = "Host: h\r\nAuthorization: Basic bWU6b3RoZXI=\r\n";
const DRAIN: &str = "s=s1&action=drain&b=be";
const READY: &str = "s=s1&action=ready&b=be";

const CASES: &[PageCase] = &[
    PageCase {
        lines: " stats enable\n stats uri /stats",
        asks: &[
            ("GET", "/stats", OWN, ""),
            ("GET", "/stats;csv", OWN, ""),
            ("GET", "/stats?scope=be", OWN, ""),
            ("GET", "/", OWN, ""),
            ("HEAD", "/stats", OWN, ""),
            ("POST", "/stats", OWN, DRAIN),
        ],
    },
    PageCase {
        lines: " stats enable\n stats uri /stats\n stats auth me:secret\n stats realm The\\ realm",
        asks: &[
            ("GET", "/stats", OWN, ""),
            ("GET", "/stats", OTHER, ""),
            ("GET", "/stats", ME, ""),
            ("GET", "/stats;csv", OWN, ""),
            ("POST", "/stats", ME, DRAIN),
        ],
    },
    PageCase {
        lines: " stats enable\n stats uri /stats\n stats admin if TRUE\n stats refresh 7s",
        asks: &[
            ("POST", "/stats", OWN, DRAIN),
            ("POST", "/stats", OWN, "s=nobody&action=drain&b=be"),
            ("POST", "/stats", OWN, "nonsense"),
            ("POST", "/stats", OWN, READY),
            ("GET", "/stats;st=DONE", OWN, ""),
            ("GET", "/stats;norefresh", OWN, ""),
        ],
    },
    PageCase {
        lines: " stats enable\n stats uri /stats\n stats admin if { hdr(x-admin) yes }",
        asks: &[
            ("POST", "/stats", OWN, DRAIN),
            ("POST", "/stats", "Host: h\r\nX-Admin: yes\r\n", DRAIN),
            ("POST", "/stats", "Host: h\r\nX-Admin: yes\r\n", READY),
        ],
    },
];

fn send_request(
    place: &ProxyFolder,
    (method, target, fields, body): (&str, &str, &str, &str),
) -> HttpReply {
    let mut client = HttpClient::connect(place.address);
    let len = match method {
        "POST" => format!("Content-Length: {}\r\n", body.len()),
        _ => String::new(),
    };
    client.send(format!(
        "{method} {target} HTTP/1.1\r\n{fields}{len}Connection: close\r\n\r\n{body}"
    ));
    match method {
        "HEAD" => client.read_head().unwrap(),
        _ => client.read_reply().unwrap(),
    }
}

fn start(place: &ProxyFolder, program: &mut Command, lines: &str) -> ChildProcess {
    let path = place.write(
        "stats.cfg",
        &format!(
            "global\n nbthread 1\ndefaults\n mode http\n timeout client 5s\n timeout server 5s\n \
             timeout connect 1s\nfrontend fe\n bind {}\n{lines}\n default_backend be\nbackend be\n \
             server s1 {}\n",
            place.address, place.origin
        ),
    );
    let process = ChildProcess::start(program.args(["-db", "-f"]).arg(path));
    eventually("it listens", || TcpStream::connect(place.address).is_ok());
    process
}

/// The common part of both responses: status and control fields.
fn common_part(place: &ProxyFolder, case: &PageCase) -> Vec<(u16, Vec<Option<String>>)> {
    let fields = ["location", "www-authenticate", "content-type"];
    let asks = case.asks.iter().map(|request| {
        let reply = send_request(place, *request);
        let value = |name: &&str| {
            let value = reply.field(name)?;
            let value = value.split(';').filter(|part| !part.contains("charset"));
            Some(value.collect::<Vec<_>>().join(";"))
        };
        // HAProxy refreshes its page by a header field, ours by its script.
        (reply.status, fields.iter().map(value).collect())
    });
    asks.collect()
}

#[test]
fn the_page_is_answered_as_haproxy_answers_for_it() {
    for case in CASES {
        let place = ProxyFolder::new();
        let process = start(&place, &mut command(), case.lines);
        let ours = common_part(&place, case);
        end(process, Signal::TERM);
        let process = start(&place, &mut peer("haproxy"), case.lines);
        let theirs = common_part(&place, case);
        drop(process);
        for ((ours, theirs), request) in ours.iter().zip(&theirs).zip(case.asks) {
            assert_eq!(ours, theirs, "{}: {request:?}", case.lines);
        }
    }
}

#[test]
fn a_form_changes_a_server_and_the_version_can_be_hidden() {
    let place = ProxyFolder::new();
    let lines = " stats enable\n stats uri /stats\n stats admin if TRUE\n stats hide-version\n \
                 stats scope be";
    let process = start(&place, &mut command(), lines);
    let page =
        |target| String::from_utf8(send_request(&place, ("GET", target, OWN, "")).body).unwrap();
    assert!(!page("/stats").contains(env!("CARGO_PKG_VERSION")), "the version is not shown");
    let csv = page("/stats;csv");
    assert!(csv.contains("\nbe,s1,") && !csv.contains("\nfe,"), "{csv}");
    assert_eq!(send_request(&place, ("POST", "/stats", OWN, DRAIN)).status, 303);
    let row = |csv: String| csv.lines().find(|line| line.starts_with("be,s1,")).unwrap().to_owned();
    assert!(row(page("/stats;csv")).contains(",DRAIN,"));
    assert_eq!(send_request(&place, ("GET", "/", OWN, "")).status, 503, "no other client uses it");
    send_request(&place, ("POST", "/stats", OWN, READY));
    assert_eq!(send_request(&place, ("GET", "/", OWN, "")).status, 200);
    end(process, Signal::TERM);
}
