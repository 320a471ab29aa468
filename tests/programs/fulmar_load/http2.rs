//! `fulmar load --http2` against other servers.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::https::Https;
use fulmar_tests::load::{LoadReport, Nginx, bound, load, report, scripted};
use fulmar_tests::process::{ChildProcess, Serve, eventually, peer, run, text};
use fulmar_tests::tree::{Tree, noise};
use fulmar_tls::{ServerOptions, ServerTls};

const HTTP2: [&str; 3] = ["--http2", "-m", "100"];

fn http2(arguments: &[&str]) -> LoadReport {
    report(&[&HTTP2[..], arguments].concat())
}

fn no_errors(report: &LoadReport, requests: u64) {
    let outcome = (report.requests(), report.errors(), report.count("/status/200"));
    assert_eq!(outcome, (requests, vec![], requests), "{report:?}");
    assert_eq!(report.0["protocol"], "HTTP/2");
}

/// nginx with these directives, in clear text.
fn nginx(directives: &str) -> Nginx {
    let body = "n".repeat(128);
    Nginx::with(|address, _| {
        format!(
            "server {{ listen {address} reuseport http2; {directives} \
             location / {{ return 200 {body}; }} }}"
        )
    })
}

/// The steady part of a run: connections are established.
fn calls_per_request(report: &LoadReport) -> f64 {
    report.0["steady"]["syscalls_per_request"].as_f64().expect("a figure")
}

#[test]
fn a_hundred_streams_share_calls() {
    let serve = Serve::start(&Tree::new().root(), &["--test-endpoints"]);
    let url = serve.url("/bytes/128");
    let report = http2(&["--driver", "epoll", "-c", "4", "-n", "50000", &url]);
    no_errors(&report, 50_000);
    assert!(calls_per_request(&report) <= 0.1, "{report:?}");
    assert_eq!(report.count("/connections/opened"), 4);
    let streams = &report.0["streams"];
    assert_eq!((&streams["limited_to"], &streams["refused"]), (&().into(), &0.into()));
    assert!(report.count("/bytes") > 50_000 * 128, "{report:?}");
}

#[test]
fn nginx_serves_streams() {
    let nginx = nginx("");
    let report = http2(&["-c", "4", "-n", "20000", &nginx.url()]);
    no_errors(&report, 20_000);
    assert_eq!(report.count("/connections/opened"), 4);
    assert!(report.0["streams"]["limited_to"].is_null(), "128 by default: {report:?}");
}

#[test]
fn h2o_serves_streams() {
    let tree = Tree::new();
    tree.file("file", noise(10_000));
    let (_holder, address) = bound();
    let config = tree.file(
        "h2o.conf",
        format!(
            "user: {}\nnum-threads: 1\nlisten:\n  host: 127.0.0.1\n  port: {}\n\
             hosts:\n  default:\n    paths:\n      /:\n        file.dir: {}\n",
            text(&run(peer("id").arg("-un")).stdout).trim(),
            address.port(),
            tree.root().display()
        ),
    );
    let mut command = peer("h2o");
    command.args(["-m", "worker", "-c"]).arg(config);
    let _h2o = ChildProcess::start(&mut command);
    eventually("h2o listens", || TcpStream::connect(address).is_ok());
    let url = format!("http://{address}/file");
    let report = http2(&["-c", "2", "-n", "5000", &url]);
    no_errors(&report, 5_000);
    assert!(report.count("/bytes") > 5_000 * 10_000, "{report:?}");
}

#[test]
fn a_lower_limit_of_the_server_holds() {
    for (limit, connections) in [(1, "3"), (10, "1")] {
        let nginx = nginx(&format!("http2_max_concurrent_streams {limit};"));
        let report = http2(&["-c", connections, "-n", "2000", &nginx.url()]);
        no_errors(&report, 2_000);
        assert_eq!(report.count("/streams/limited_to"), limit);
        assert_eq!(report.count("/streams/refused"), 0);
        let ended = load(&[&HTTP2[..], &["-c", "1", "-n", "100", &nginx.url()]].concat());
        let part = format!("streams       {limit} of 100 per connection: the server's limit");
        assert!(ended.stdout.contains(&part), "{}", ended.stdout);
    }
}

#[test]
fn goaway_after_a_hundred_requests_is_no_error() {
    let nginx = nginx("keepalive_requests 100;");
    for rate in [&[][..], &["-R", "20000"]] {
        let report = http2(&[&["-c", "2", "-n", "5000", &nginx.url()], rate].concat());
        no_errors(&report, 5_000);
        assert!(report.count("/connections/opened") >= 40, "{report:?}");
    }
}

#[test]
fn an_open_loop_and_a_connection_for_every_request_use_streams() {
    let serve = Serve::start(&Tree::new().root(), &["--test-endpoints"]);
    let url = serve.url("/bytes/128");
    let rate = http2(&["-c", "2", "-R", "500", "-d", "1", &url]);
    no_errors(&rate, rate.requests());
    assert!(rate.0["raw_latency_us"].is_object() && rate.requests() > 250, "{rate:?}");
    let each = report(&["--http2", "-c", "4", "-n", "200", "--reconnect", &url]);
    no_errors(&each, 200);
    assert_eq!(each.count("/connections/opened"), 200, "{each:?}");
}

#[test]
fn bodies_of_both_sides_pass() {
    let serve = Serve::start(&Tree::new().root(), &["--test-endpoints"]);
    let large = http2(&["-c", "1", "-n", "200", &serve.url("/bytes/1000000")]);
    no_errors(&large, 200);
    assert!(large.count("/bytes") > 200_000_000, "{large:?}");
    let body = "e".repeat(100_000);
    let echo = ["-c", "1", "-n", "300", "-X", "POST", "--body", &body];
    let echo = http2(&[&echo[..], &[&serve.url("/echo")]].concat());
    no_errors(&echo, 300);
    assert!(echo.count("/bytes") > 30_000_000, "{echo:?}");
    let head = http2(&["-c", "1", "-n", "300", "-X", "HEAD", &serve.url("/bytes/1000000")]);
    no_errors(&head, 300);
    assert!(head.count("/bytes") < 100_000, "{head:?}");
}

#[test]
fn alpn_chooses_http2() {
    let certs = Certs::new();
    let server = Https::start(&certs, CertOwner::Server);
    let ca = certs.ca().display().to_string();
    let url = server.url("/bytes/128");
    let report = http2(&["--cacert", &ca, "-c", "2", "-n", "2000", &url]);
    no_errors(&report, 2_000);
    assert_eq!(report.count("/tls/handshakes"), 2);
}

#[test]
fn a_server_without_h2_is_an_error() {
    let certs = Certs::new();
    let nginx = Nginx::start_tls(&certs);
    let nginx = format!("https://localhost:{}/", nginx.address.port());
    let mut options = ServerOptions::from(certs.identity(CertOwner::Server));
    options.alpn = Vec::new();
    let server = Https::start_with(ServerTls::new(options).expect("files"));
    let silent = server.url("/bytes/1");
    for (url, part) in [
        (&nginx, "no application protocol in common (ALPN)"),
        (&silent, "the server did not choose HTTP/2 (h2) by ALPN"),
    ] {
        let ended = load(&["--http2", "-k", "-c", "2", "-n", "10", url]);
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        assert!(ended.stderr.contains(part), "{ended:?}");
    }
}

#[test]
fn a_server_of_http1_in_clear_text_is_named() {
    let url = scripted(|mut stream| {
        stream.read_exact(&mut [0; 24])?;
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    });
    let ended = load(&["--http2", "-c", "1", "-n", "5", &url]);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.stdout.contains("the server does not speak HTTP/2 (5)"), "{}", ended.stdout);
}

/// Reads frames, and responds to each HEADERS with `answer`.
fn respond_with(mut stream: TcpStream, answer: impl Fn(&[u8; 4]) -> Vec<u8>) -> io::Result<()> {
    stream.read_exact(&mut [0; 24])?; // the preface
    stream.write_all(SETTINGS)?;
    loop {
        let (kind, _, id) = read_frame(&mut stream)?;
        if kind == HEADERS {
            stream.write_all(&answer(&id))?;
        }
    }
}

/// The type, the flags and the stream of the next frame.
fn read_frame(stream: &mut TcpStream) -> io::Result<(u8, u8, [u8; 4])> {
    let mut header = [0; 9];
    stream.read_exact(&mut header)?;
    let [a, b, c, kind, flags, id @ ..] = header;
    let len = u32::from_be_bytes([0, a, b, c]);
    stream.read_exact(&mut vec![0; len.try_into().expect("short")])?;
    Ok((kind, flags, id))
}

const HEADERS: u8 = 1;
/// A frame without settings.
const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";

fn reset(id: &[u8; 4], code: u8) -> Vec<u8> {
    [&b"\0\0\x04\x03\0"[..], id, &[0, 0, 0, code]].concat()
}

#[test]
fn reset_and_refused_streams_are_counted_separately() {
    let url = scripted(|stream| respond_with(stream, |id| reset(id, 2)));
    let ended = load(&["--http2", "-m", "10", "-c", "1", "-n", "50", "--json", &url]);
    assert_eq!(ended.status.code(), Some(1), "no response: {ended:?}");
    let report = LoadReport::of(&ended);
    assert_eq!(report.errors(), [("stream_reset", 50)]);
    assert_eq!(report.count("/streams/resets/INTERNAL_ERROR"), 50);
    assert_eq!(report.count("/connections/opened"), 1);
    // Every second stream is refused, and the others have a response: `:status: 200`.
    let url = scripted(|stream| {
        respond_with(stream, |id| match id[3] % 4 {
            1 => reset(id, 7),
            _ => [&b"\0\0\x01\x01\x05"[..], id, &[0x88]].concat(),
        })
    });
    let report = fulmar_tests::load::report(&["--http2", "-m", "10", "-c", "1", "-n", "50", &url]);
    no_errors(&report, 50);
    assert!(report.count("/streams/refused") >= 49, "{report:?}");
}

#[test]
fn a_connection_that_ends_after_goaway_is_named() {
    let url = scripted(|mut stream| {
        stream.read_exact(&mut [0; 24])?;
        stream.write_all(SETTINGS)?;
        let (mut has_request, mut has_ack) = (false, false);
        while !(has_request && has_ack) {
            let (kind, flags, _) = read_frame(&mut stream)?;
            has_request |= kind == HEADERS;
            has_ack |= (kind, flags) == (4, 1);
        }
        // The last stream is 1, and the code ENHANCE_YOUR_CALM.
        stream.write_all(b"\0\0\x08\x07\0\0\0\0\0\0\0\0\x01\0\0\0\x0b")
    });
    let ended = load(&["--http2", "-c", "1", "-n", "5", "--json", &url]);
    assert_eq!(LoadReport::of(&ended).errors(), [("goaway", 5)]);
}

#[test]
fn options_of_http1_and_http2_exclude_each_other() {
    for (arguments, part) in [
        (&["-m", "10"][..], "--http2"),
        (&["--http2", "-p", "2"], "cannot be used with"),
        (&["--http2", "-m", "0"], "must be 1 to 10000"),
        (&["--http2", "-m", "10001"], "must be 1 to 10000"),
        (&["--http2", "-m", "2", "--reconnect"], "a connection for every request"),
    ] {
        let ended = load(&[arguments, &["http://127.0.0.1:1/"]].concat());
        assert_eq!(ended.status.code(), Some(2), "{ended:?}");
        assert!(ended.stderr.contains(part), "{arguments:?}: {}", ended.stderr);
    }
}
