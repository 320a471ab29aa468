//! `fulmar load` against other servers, and observed by other tools.

use std::io::{BufReader, Write};
use std::os::unix::net::UnixListener;
use std::sync::mpsc::channel;
use std::time::Duration;

use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::http::HttpClient;
use fulmar_tests::https::Https;
use fulmar_tests::load::{LoadReport, Nginx, command, load, read_request, report, scripted};
use fulmar_tests::process::{
    BY_CALLS, ChildProcess, PATIENCE, Serve, eventually, fulmar, peer, run,
};
use fulmar_tests::tree::{Tree, noise};
use fulmar_tls::{ClientAuth, ServerOptions, ServerTls};
use rustix::process::Signal;

use crate::fulmar_load::loaded;

fn no_errors(report: &LoadReport, requests: u64) {
    let outcome = (report.requests(), report.errors(), report.count("/status/200"));
    assert_eq!(outcome, (requests, vec![], requests), "{report:?}");
}

/// Within 1 %, because a run has edges.
fn about(n: u64, wanted: u64) -> bool {
    n.abs_diff(wanted) * 100 <= wanted
}

#[test]
fn a_request_to_nginx_costs_one_send_and_one_recv() {
    let nginx = Nginx::start();
    let report = report(&["--driver", "epoll", "-c", "64", "-n", "50000", &nginx.url()]);
    no_errors(&report, 50_000);
    assert!(about(report.calls("send"), 50_000), "{report:?}");
    assert!(about(report.calls("recv"), 50_000), "{report:?}");
    assert!(report.eagain() < 500, "{report:?}");
    assert!((64..=68).contains(&report.calls("epoll_ctl")), "{report:?}");
    let steady = report.count("/steady/syscalls/epoll_ctl/calls");
    assert_eq!(steady, 0, "between requests: {report:?}");
    assert_eq!(report.count("/connections/opened"), 64);
}

#[test]
fn nginx_accepts_pipelined_requests() {
    let nginx = Nginx::start();
    let report = report(&["-c", "8", "-p", "8", "-n", "20000", &nginx.url()]);
    no_errors(&report, 20_000);
    assert_eq!(report.count("/connections/opened"), 8);
    assert!(report.calls("send") <= 20_000 && report.calls("recv") <= 20_200, "{report:?}");
}

#[test]
fn a_rate_is_reached() {
    let nginx = Nginx::start();
    let report = report(&["-c", "16", "-R", "500", "-d", "2", &nginx.url()]);
    let requests = report.requests();
    // On a busy machine, requests that are late at the end are not sent.
    assert!((700..=1_001).contains(&requests), "{report:?}");
    no_errors(&report, requests);
    assert_eq!(report.0["rate"]["planned"], 500.0);
    assert!(report.0["raw_latency_us"].is_object(), "{report:?}");
    assert_eq!(
        (report.count("/connections/established"), report.count("/connections/opened")),
        (16, 16)
    );
}

#[test]
fn a_connection_for_every_request_is_one() {
    let nginx = Nginx::start();
    let report = report(&["-c", "8", "-n", "1000", "--reconnect", &nginx.url()]);
    no_errors(&report, 1_000);
    assert_eq!(report.count("/connections/opened"), 1_000, "{report:?}");
    assert!(report.calls("connect") >= 1_000, "{report:?}");
}

#[test]
fn several_threads_share_the_work_exactly() {
    let nginx = Nginx::start();
    let report = report(&["-c", "7", "-t", "3", "-n", "1001", &nginx.url()]);
    no_errors(&report, 1_001);
    assert_eq!((report.count("/connections/opened"), report.count("/threads")), (7, 3));
}

/// `python3 -m http.server` on a directory.
fn python(tree: &Tree, protocol: &str) -> (ChildProcess, String) {
    let mut command = peer("python3");
    command.args(["-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--protocol", protocol]);
    command.arg("--directory").arg(tree.root());
    let mut process = ChildProcess::start(&mut command);
    let line = process.wait_stdout("http://");
    let (_, url) = line.split_once('(').expect("the URL in parentheses");
    (process, url.split_once(')').expect("the URL in parentheses").0.to_owned())
}

#[test]
fn python_closes_after_every_http_1_0_response() {
    let tree = Tree::new();
    tree.file("file", noise(10_000));
    let (_python, url) = python(&tree, "HTTP/1.0");
    let report = report(&["-c", "4", "-n", "200", &format!("{url}file")]);
    no_errors(&report, 200);
    assert!(report.count("/bytes") > 200 * 10_000, "{report:?}");
    let opened = report.count("/connections/opened");
    assert!((200..=204).contains(&opened), "{report:?}");
}

#[test]
fn python_keeps_connections_of_http_1_1() {
    let tree = Tree::new();
    tree.file("file", noise(10_000));
    let (_python, url) = python(&tree, "HTTP/1.1");
    let report = report(&["-c", "4", "-n", "200", &format!("{url}file")]);
    no_errors(&report, 200);
    assert_eq!(report.count("/connections/opened"), 4);
}

/// Runs two requests, and returns the second one as received.
fn arrives(arguments: &[&str]) -> (String, Vec<u8>) {
    let (sender, requests) = channel();
    let url = scripted(move |stream| {
        let mut stream = BufReader::new(stream);
        loop {
            let request = read_request(&mut stream)?;
            stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
            let _ = sender.send(request); // both are counted below
        }
    });
    let url = format!("{url}a?b");
    no_errors(&report(&[&["-c", "1", "-n", "2"], arguments, &[&url]].concat()), 2);
    let next = || requests.recv_timeout(PATIENCE).expect("a request");
    let (first, second) = (next(), next());
    assert_eq!(first, second);
    let host = url.split('/').nth(2).expect("a host");
    let (head, body) = second;
    assert!(head.contains(&format!("\r\nHost: {host}\r\n")), "{head}");
    (head, body)
}

#[test]
fn requests_arrive_byte_for_byte() {
    let tree = Tree::new();
    let large = noise(300_000);
    let file = format!("@{}", tree.file("body", &large).display());
    let post = ["-X", "POST", "-H", "X-Odd:  a b\t", "-H", "Content-Type: text/x"];
    let (head, body) = arrives(&[&post[..], &["--body", "hello, \u{fc}"]].concat());
    assert!(head.starts_with("POST /a?b HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nX-Odd: a b\r\n"), "{head}");
    assert!(head.contains("\r\nContent-Type: text/x\r\n"), "{head}");
    assert!(head.contains("\r\nContent-Length: 9\r\n"), "{head}");
    assert_eq!(body, "hello, \u{fc}".as_bytes());
    let (head, body) = arrives(&["-X", "PUT", "--body", &file]);
    assert!(head.starts_with("PUT /a?b HTTP/1.1\r\n"), "{head}");
    assert!(body == large, "{} bytes came", body.len());
    let (head, body) = arrives(&["-H", "Accept: */*"]);
    assert!(head.starts_with("GET /a?b HTTP/1.1\r\n") && body.is_empty(), "{head}");
    assert!(!head.contains("Content-Length"), "{head}");
}

#[test]
fn a_given_host_field_replaces_the_default() {
    let (sender, heads) = channel();
    let url = scripted(move |stream| {
        let mut stream = BufReader::new(stream);
        let _ = sender.send(read_request(&mut stream)?.0); // checked below
        stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    });
    no_errors(&report(&["-c", "1", "-n", "1", "-H", "host: example.com", &url]), 1);
    let head = heads.recv().unwrap().to_ascii_lowercase();
    assert_eq!(head.matches("\r\nhost:").count(), 1, "{head}");
    assert!(head.contains("\r\nhost: example.com\r\n"), "{head}");
}

#[test]
fn echoed_bytes_are_counted() {
    let serve = Serve::start(&Tree::new().root(), &["--test-endpoints"]);
    let body = "e".repeat(10_000);
    let arguments = ["-c", "4", "-n", "100", "-X", "POST", "--body", &body];
    let report = report(&[&arguments[..], &[&serve.url("/echo")]].concat());
    no_errors(&report, 100);
    let bytes = report.count("/bytes");
    assert!((1_000_000..1_100_000).contains(&bytes), "{report:?}");
}

#[test]
fn the_response_to_head_has_no_body() {
    let nginx = Nginx::start();
    let report = report(&["-c", "8", "-n", "1000", "-X", "HEAD", &nginx.url()]);
    no_errors(&report, 1_000);
    assert_eq!(report.count("/connections/opened"), 8);
    let serve = Serve::start(&Tree::new().root(), &["--test-endpoints"]);
    let large = serve.url("/bytes/1000000");
    let report = fulmar_tests::load::report(&["-c", "8", "-n", "1000", "-X", "HEAD", &large]);
    no_errors(&report, 1_000);
    assert!(report.count("/bytes") < 400_000, "{report:?}");
}

#[test]
fn several_urls_are_requested_in_turn() {
    let serve = Serve::start(&Tree::new().root(), &["--test-endpoints"]);
    let nginx = Nginx::start();
    let (made, missing) = (serve.url("/status/201"), serve.url("/status/404"));
    let ended = load(&["-c", "8", "-n", "1000", "--json", &made, &missing, &nginx.url()]);
    assert!(ended.status.success(), "{ended:?}");
    let report = LoadReport::of(&ended);
    let [ok, made, missing] =
        ["200", "201", "404"].map(|it| report.count(&format!("/status/{it}")));
    assert_eq!((ok + made + missing, report.errors()), (1_000, vec![]), "{report:?}");
    // The faster connection gets more requests, but each of the four gets some, and both URLs get
    // as many.
    assert!(ok >= 4 && made + missing >= 4 && made.abs_diff(missing) <= 4, "{report:?}");
}

/// With a rate, latency includes the delay before sending. Without it, a stall of a second would be
/// invisible.
#[test]
fn a_stall_shows_in_latency_from_the_scheduled_time() {
    let serve = Serve::start(&Tree::new().root(), &[&["--test-endpoints"], BY_CALLS].concat());
    let mut client = HttpClient::connect(serve.address);
    let url = serve.url("/bytes/128");
    let arguments = ["-c", "8", "-R", "500", "-d", "4", "--json", &url];
    let running = ChildProcess::start(&mut command(&arguments));
    loaded(&mut client, 300);
    serve.process.signal(Signal::STOP);
    let resume = fulmar_sys::now() + Duration::from_secs(1);
    eventually("the stall is over", || fulmar_sys::now() >= resume);
    serve.process.signal(Signal::CONT);
    let ended = running.wait();
    assert!(ended.status.success(), "{ended:?}");
    let report = LoadReport::of(&ended);
    no_errors(&report, report.requests());
    // 500 requests were scheduled in the lost second.
    assert!(report.requests() > 1_600, "{report:?}");
    let (planned, raw) = (report.count("/latency_us/p99"), report.count("/raw_latency_us/p99"));
    assert!((500_000..10_000_000).contains(&planned), "{report:?}");
    assert!(raw < planned / 2, "{report:?}");
}

#[test]
fn strace_counts_what_the_ledger_counts() {
    let serve = Serve::start(&Tree::new().root(), &["--test-endpoints"]);
    let tree = Tree::new();
    let table = tree.turn_while("calls");
    let mut command = peer("strace");
    command.args(["-f", "-c", "-o"]).arg(&table).arg(fulmar());
    command.args(["load", "-n", "2000", "-c", "4", "--json"]).arg(serve.url("/bytes/128"));
    let output = run(&mut command);
    let report = LoadReport(serde_json::from_slice(&output.stdout).unwrap());
    no_errors(&report, 2_000);
    let table = std::fs::read_to_string(table).unwrap();
    let counted = |name: &str| {
        let row = |line: &str| {
            let words: Vec<_> = line.split_whitespace().collect();
            (words.last() == Some(&name)).then(|| words[3].parse::<u64>().unwrap())
        };
        table.lines().find_map(row).unwrap_or(0)
    };
    for (kernel, ledger) in [
        ("sendto", "send"),
        ("recvfrom", "recv"),
        ("io_uring_enter", "io_uring_enter"),
        ("connect", "connect"),
        ("epoll_wait", "epoll_wait"),
    ] {
        // Calls that failed with `EAGAIN` have a separate row.
        let ours = report.calls(ledger) + report.calls(&format!("{ledger}_empty"));
        // Before counting starts, the probe of the ring accepts twice, and the thread of signals
        // reads from a socket once.
        let allowed = match kernel {
            "io_uring_enter" => 5,
            "recvfrom" => 1,
            _ => 0,
        };
        let more = counted(kernel).checked_sub(ours);
        assert!(more.is_some_and(|n| n <= allowed), "{kernel}: {report:?}\n{table}");
    }
    let moved = ["send", "recv", "io_uring_enter"].map(|it| report.calls(it));
    assert!(moved.iter().sum::<u64>() > 0 && report.calls("epoll_wait") > 0, "{report:?}");
}

#[test]
fn a_request_over_tls_costs_one_send_and_one_recv_too() {
    let certs = Certs::new();
    let nginx = Nginx::start_tls(&certs);
    let ca = certs.ca().display().to_string();
    let url = format!("https://localhost:{}/", nginx.address.port());
    let report = report(&["--driver", "epoll", "--cacert", &ca, "-c", "16", "-n", "20000", &url]);
    no_errors(&report, 20_000);
    assert!(about(report.calls("send"), 20_000), "{report:?}");
    assert!(about(report.calls("recv"), 20_000), "{report:?}");
    assert_eq!((report.count("/tls/handshakes"), report.count("/tls/failed")), (16, 0));
    let tls = &report.0["tls"];
    assert_eq!(tls["version"], "TLS 1.3", "{report:?}");
    assert!(tls["cipher"].as_str().is_some_and(|name| name.starts_with("TLS_")), "{report:?}");
    assert!(report.count("/tls/latency_us/min") > 0);
}

#[test]
fn a_handshake_for_every_request_is_counted_apart() {
    let certs = Certs::new();
    let server = Https::start(&certs, CertOwner::Server);
    let url = server.url("/bytes/128");
    let report = report(&["-k", "-c", "4", "-n", "200", "--reconnect", &url]);
    no_errors(&report, 200);
    let handshakes = report.count("/tls/handshakes");
    assert_eq!(handshakes, report.count("/connections/opened"));
    assert_eq!(handshakes, 200, "{report:?}");
    let text = load(&["-k", "-c", "4", "-n", "20", &url]).stdout;
    assert!(text.contains("handshakes    4 done, 0 failed, TLS 1.3, TLS_"), "{text}");
    assert!(text.contains("  handshake "), "{text}");
}

#[test]
fn an_untrusted_server_is_not_loaded() {
    let certs = Certs::new();
    let ca = certs.ca().display().to_string();
    for (who, part) in [
        (CertOwner::Stranger, "certificate issuer is unknown (no trusted CA)"),
        (CertOwner::OtherHost, ", not for localhost"),
        (CertOwner::Expired, "certificate has expired"),
    ] {
        let server = Https::start(&certs, who);
        let url = server.url("/bytes/1");
        let ended = load(&["--cacert", &ca, "-c", "1", "-n", "1", &url]);
        assert_eq!(ended.status.code(), Some(1), "{who:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(part), "{who:?}: {}", ended.stderr);
    }
    let server = Https::start(&certs, CertOwner::OtherHost);
    let url = server.url("/bytes/1");
    let sni = ["--cacert", &ca, "--sni", "other.example", "-c", "1", "-n", "9", &url];
    no_errors(&report(&sni), 9);
}

#[test]
fn a_client_certificate_is_accepted() {
    let certs = Certs::new();
    let mut options = ServerOptions::from(certs.identity(CertOwner::Server));
    options.client_auth = ClientAuth::Required(vec![certs.ca().into()].into());
    let server = Https::start_with(ServerTls::new(options).expect("files"));
    let (ca, url) = (certs.ca().display().to_string(), server.url("/bytes/1"));
    let (cert, key) = certs.files(CertOwner::Client);
    let (cert, key) = (cert.display().to_string(), key.display().to_string());
    let known = ["--cacert", &ca, "--cert", &cert, "--key", &key, "-c", "2", "-n", "9", &url];
    no_errors(&report(&known), 9);
    let unknown = load(&["--cacert", &ca, "-c", "2", "-n", "9", "--json", &url]);
    let report: serde_json::Value = serde_json::from_str(&unknown.stdout).expect("a report");
    // Six in a row end the run; the other connection may have been refused meanwhile.
    let refused = report["errors"]["handshake"].as_u64().expect("a number");
    assert!((6..=8).contains(&refused) && report["lost"] == true, "{report}");
    assert_eq!(report["errors"].as_object().expect("an object").len(), 1, "{report}");
    let causes = report["tls"]["causes"].to_string();
    assert!(causes.contains("TLS alert CertificateRequired"), "{report}");
}

#[test]
fn a_unix_socket_replaces_every_host() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("socket");
    let listener = UnixListener::bind(&path).expect("a socket");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut from = BufReader::new(stream);
                while let Ok((head, _)) = read_request(&mut from) {
                    assert!(head.contains("\r\nHost: somewhere.invalid\r\n"), "{head}");
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                    from.get_mut().write_all(answer).expect("it reads");
                }
            });
        }
    });
    let path = path.display().to_string();
    let url = "http://somewhere.invalid/"; // a name that cannot be resolved
    let report = report(&["--unix-socket", &path, "-c", "4", "-n", "500", url]);
    no_errors(&report, 500);
    assert_eq!(report.count("/connections/established"), 4);
}
