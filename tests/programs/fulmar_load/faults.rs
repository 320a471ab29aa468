//! `fulmar load` against servers that close, reset, stall, or violate the protocol.
//!
//! Every request is counted once: as a response or as an error.

use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::http::HttpClient;
use fulmar_tests::load::{LoadReport, bound, command, load, read_request, scripted};
use fulmar_tests::process::{BY_CALLS, ChildProcess, Serve, eventually, fulmar};
use fulmar_tests::tree::Tree;
use rustix::net::sockopt::set_socket_linger;
use rustix::process::Signal;

use crate::fulmar_load::loaded;

/// Runs 20 requests on 4 connections. Returns the exit status too. No response is late.
fn run(url: &str, more: &[&str]) -> (i32, LoadReport) {
    run_for("60s", url, more)
}

/// The same with a shorter timeout.
fn run_for(timeout: &str, url: &str, more: &[&str]) -> (i32, LoadReport) {
    let arguments = ["-c", "4", "-n", "20", "--timeout", timeout, "--json", url];
    let ended = load(&[&arguments[..], more].concat());
    assert_eq!(ended.stderr, "");
    let report = LoadReport::of(&ended);
    assert_eq!(report.0["lost"], false, "{report:?}");
    (ended.status.code().expect("it was not killed"), report)
}

/// Expects every request to fail in the same way. No request gets a response, so the exit status is
/// 1.
fn all_fail(kind: &str, url: &str) -> LoadReport {
    let timeout = if kind == "timeout" { "300ms" } else { "60s" };
    for depth in ["1", "4"] {
        let (status, report) = run_for(timeout, url, &["-p", depth]);
        assert_eq!((status, report.requests()), (1, 0), "{report:?}");
        assert_eq!(report.errors(), [(kind, 20)], "{report:?}");
    }
    run_for(timeout, url, &[]).1
}

/// Expects a response to every request, and no error.
fn all_answered(url: &str) -> LoadReport {
    let (status, report) = run(url, &[]);
    assert_eq!((status, report.requests(), report.errors()), (0, 20, vec![]), "{report:?}");
    report
}

/// Responds to each request with these bytes.
fn answering(bytes: &'static [u8]) -> String {
    scripted(move |stream| {
        let mut stream = BufReader::new(stream);
        loop {
            read_request(&mut stream)?;
            stream.get_mut().write_all(bytes)?;
        }
    })
}

/// Responds to one request with these bytes and closes, after it has read everything.
fn closing(bytes: &'static [u8]) -> String {
    scripted(move |stream| {
        let mut stream = BufReader::new(stream);
        read_request(&mut stream)?;
        stream.get_mut().write_all(bytes)?;
        stream.get_mut().shutdown(std::net::Shutdown::Write)?;
        io::copy(&mut stream, &mut io::sink()).map(drop)
    })
}

fn reset(stream: TcpStream) -> io::Result<()> {
    set_socket_linger(&stream, Some(Duration::ZERO))?;
    drop(stream);
    Ok(())
}

#[test]
fn closed_without_a_response() {
    all_fail("closed", &closing(b""));
}

#[test]
fn closed_as_soon_as_accepted() {
    // The kernel decides whether the request meets a FIN or a reset.
    let (status, report) = run(
        &scripted(|stream| {
            drop(stream);
            Ok(())
        }),
        &[],
    );
    let failed: u64 = report.errors().iter().map(|(_, n)| n).sum();
    assert_eq!((status, report.requests(), failed), (1, 0, 20), "{report:?}");
    let known = |kind: &str| ["closed", "reset"].contains(&kind);
    assert!(report.errors().iter().all(|(kind, _)| known(kind)), "{report:?}");
}

#[test]
fn closed_in_the_head() {
    all_fail("closed", &closing(b"HTTP/1.1 200 OK\r\nContent-Le"));
}

#[test]
fn closed_in_the_body() {
    all_fail("closed", &closing(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"));
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n";
    all_fail("closed", &closing(chunked));
}

#[test]
fn reset_instead_of_a_response() {
    let url = scripted(|mut stream| {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        reset(stream)
    });
    all_fail("reset", &url);
}

#[test]
fn reset_in_the_body() {
    let url = scripted(|stream| {
        let mut stream = BufReader::new(stream);
        read_request(&mut stream)?;
        stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")?;
        reset(stream.into_inner())
    });
    all_fail("reset", &url);
}

#[test]
fn a_server_that_never_responds() {
    let report = all_fail("timeout", &answering(b""));
    assert_eq!(report.count("/connections/opened"), 20, "none is used again: {report:?}");
}

#[test]
fn figures_without_responses_are_null() {
    let url = answering(b"");
    for rate in [&[][..], &["-R", "100"]] {
        let arguments = [&["-c", "1", "-n", "2", "--timeout", "300ms", &url], rate].concat();
        let ended = load(&[&arguments[..], &["--json"]].concat());
        assert_eq!((ended.status.code(), &*ended.stderr), (Some(1), ""), "{ended:?}");
        let report = LoadReport::of(&ended).0;
        let latency = report["latency_us"].as_object().unwrap();
        assert!(latency.len() == 7 && latency.values().all(serde_json::Value::is_null), "{report}");
        for figure in ["cpu_us_per_request", "cpu_user_us_per_request", "syscalls_per_request"] {
            assert!(report[figure].is_null(), "{figure}: {report}");
        }
        assert_eq!((&report["limited_by"], &report["lost"]), (&"server".into(), &false.into()));
        let text = load(&arguments).stdout;
        let row = text.lines().find(|line| line.starts_with("  latency")).unwrap();
        assert_eq!(row.split_whitespace().skip(1).collect::<Vec<_>>(), ["-"; 7], "{text}");
    }
}

#[test]
fn a_response_that_never_ends() {
    let url = scripted(|stream| {
        let mut stream = BufReader::new(stream);
        read_request(&mut stream)?;
        stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")?;
        io::copy(&mut stream, &mut io::sink()).map(drop)
    });
    all_fail("timeout", &url);
}

#[test]
fn a_slow_response_times_out() {
    let url = scripted(|stream| {
        let mut stream = BufReader::new(stream);
        read_request(&mut stream)?;
        stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n")?;
        loop {
            stream.get_mut().write_all(b"x")?;
            std::thread::park_timeout(Duration::from_millis(20));
        }
    });
    let (status, report) = run_for("300ms", &url, &[]);
    assert_eq!((status, report.errors()), (1, vec![("timeout", 20)]), "{report:?}");
}

#[test]
fn garbage_is_no_response() {
    let report = all_fail("protocol", &answering(b"\0\xff garbage\r\n\r\n"));
    assert_eq!(report.0["broken"]["the start line is malformed"], 20, "{report:?}");
}

#[test]
fn interim_responses_are_limited() {
    let url = scripted(|stream| {
        let mut stream = BufReader::new(stream);
        read_request(&mut stream)?;
        loop {
            stream.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
    });
    let report = all_fail("protocol", &url);
    assert_eq!(report.0["broken"]["too many interim responses"], 20, "{report:?}");
}

#[test]
fn contradictory_lengths() {
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd";
    all_fail("protocol", &answering(bytes));
}

/// The response is complete, so the request counts, and so does the violation.
fn surplus(bytes: &'static [u8], status: &str) {
    let (exit, report) = run(&answering(bytes), &[]);
    assert_eq!((exit, report.requests()), (0, 20), "{report:?}");
    assert_eq!(report.errors(), [("protocol", 20)], "{report:?}");
    assert_eq!(report.count(&format!("/status/{status}")), 20, "{report:?}");
    assert_eq!(report.0["broken"]["bytes arrived that belong to no exchange"], 20, "{report:?}");
    let opened = report.count("/connections/opened");
    assert!((20..=24).contains(&opened), "no connection is used again: {report:?}");
}

#[test]
fn more_bytes_than_the_length() {
    surplus(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef", "200");
}

#[test]
fn a_body_where_none_is_allowed() {
    surplus(b"HTTP/1.1 204 No Content\r\n\r\nbody", "204");
}

#[test]
fn an_unsolicited_response() {
    let twice = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 200 OK\r\n\r\n";
    surplus(twice, "200");
}

#[test]
fn the_last_response_of_a_connection() {
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc";
    for url in [closing(bytes), answering(bytes)] {
        let report = all_answered(&url);
        let opened = report.count("/connections/opened");
        assert!((20..=24).contains(&opened), "{report:?}");
        let (status, report) = run(&url, &["-p", "4"]);
        assert_eq!((status, report.requests(), report.errors()), (0, 20, vec![]), "{report:?}");
    }
}

#[test]
fn a_body_that_ends_with_the_connection() {
    all_answered(&closing(b"HTTP/1.1 200 OK\r\n\r\nabc"));
}

#[test]
fn good_and_bad_responses_add_up() {
    use std::sync::atomic::{AtomicU32, Ordering};
    static TURN: AtomicU32 = AtomicU32::new(0);
    let url = scripted(|stream| {
        let mut stream = BufReader::new(stream);
        loop {
            read_request(&mut stream)?;
            match TURN.fetch_add(1, Ordering::Relaxed) % 5 {
                0 => return reset(stream.into_inner()),
                1 => stream.get_mut().write_all(b"nonsense\r\n\r\n")?,
                2 => return Ok(()),
                _ => stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?,
            }
        }
    });
    for depth in ["1", "4"] {
        let (status, report) = run(&url, &["-p", depth]);
        let failed: u64 = report.errors().iter().map(|(_, n)| n).sum();
        let expected = i32::from(report.requests() == 0);
        assert_eq!((status, report.requests() + failed), (expected, 20), "{report:?}");
        // A reset may destroy preceding responses if requests are pipelined.
        assert!((report.requests() > 0 || depth == "4") && failed > 0, "{report:?}");
    }
}

fn serve_at(address: &str) -> Serve {
    let mut command = Command::new(fulmar());
    command.args(["serve", ".", "--test-endpoints", "--listen", address]).args(BY_CALLS);
    Serve::start_command(&mut command, true)
}

#[test]
fn a_restarted_server_is_loaded_again() {
    let (_holder, address) = bound(); // also while it is down
    let address = address.to_string();
    let serve = serve_at(&address);
    let url = serve.url("/bytes/128");
    let arguments = ["-c", "16", "-R", "2000", "-d", "60", "--json", &url];
    let running = ChildProcess::start(&mut command(&arguments));
    let mut client = HttpClient::connect(serve.address);
    loaded(&mut client, 500);
    serve.end(Signal::KILL);
    let serve = serve_at(&address);
    let mut client = HttpClient::connect(serve.address);
    loaded(&mut client, 500);
    eventually("all are there again", || client.ledger().of("accept4") > 16);
    running.signal(Signal::INT);
    let ended = running.wait();
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    let report = LoadReport::of(&ended);
    assert!(report.requests() > 200, "{report:?}");
    assert!(report.count("/connections/opened") >= 32, "{report:?}");
    let known = |kind: &str| ["closed", "reset", "connect_refused"].contains(&kind);
    assert!(report.errors().iter().all(|(kind, _)| known(kind)), "{report:?}");
    assert_eq!(report.0["lost"], false, "{report:?}");
}

/// A server to be killed. It logs its requests, so that a test can wait for the first.
fn start_logging(listen: &str, more: &[&str]) -> ChildProcess {
    let mut command = Command::new(fulmar());
    command.args(["serve", ".", "--test-endpoints", "--access-log", "-", "--listen", listen]);
    let mut process = ChildProcess::start(command.args(more));
    process.wait_stderr("serving ");
    process
}

/// A run with servers that are killed after their first request.
fn killed_under(mut servers: Vec<ChildProcess>, arguments: &[&str]) -> ChildProcess {
    let running = ChildProcess::start(&mut command(&[arguments, &["--json"]].concat()));
    for server in &mut servers {
        server.wait_stdout("GET /");
    }
    for server in servers {
        server.signal(Signal::KILL);
        server.wait();
    }
    running
}

#[test]
fn a_server_that_dies_ends_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let (socket, certs) = (dir.path().join("socket").display().to_string(), Certs::new());
    let ports: Vec<_> = (0..8).map(|_| bound()).collect(); // reserved until the end
    let at = |nth: usize| ports[nth].1.to_string();
    let url = |nth: usize| format!("http://{}/bytes/128", at(nth));
    let tcp = |nth: usize| start_logging(&at(nth), &[]);
    let (cert, key) = certs.files(CertOwner::Server);
    let tls = ["--tls-cert", &cert.display().to_string(), "--tls-key", &key.display().to_string()];
    let secured = format!("https://{}/bytes/128", at(7));
    let unix = ["-d", "60", "--unix-socket", &socket, "http://somewhere.invalid/bytes/128"];
    let runs = [
        killed_under(vec![tcp(0)], &["-d", "60", &url(0)]),
        killed_under(vec![tcp(1)], &["-n", "1000000000", &url(1)]),
        killed_under(vec![tcp(2)], &["-R", "100", "-d", "60", &url(2)]),
        killed_under(vec![tcp(3)], &["-c", "1", "-d", "60", "--timeout", "1s", &url(3)]),
        killed_under(vec![tcp(4)], &["-c", "4", "-t", "2", "-d", "60", "--reconnect", &url(4)]),
        killed_under(vec![tcp(5), tcp(6)], &["-t", "2", "-d", "60", &url(5), &url(6)]),
        killed_under(vec![start_logging(&at(7), &tls)], &["-k", "-c", "4", "-d", "60", &secured]),
        killed_under(vec![start_logging(&format!("unix:{socket}"), &[])], &unix),
    ];
    for running in runs {
        let ended = running.wait();
        assert_eq!((ended.status.code(), &*ended.stderr), (Some(1), ""), "{ended:?}");
        let report = LoadReport::of(&ended);
        assert!(report.count("/connections/opened") > 0, "{report:?}");
        assert_eq!(report.0["lost"], true, "{report:?}");
        assert_eq!(report.0["limited_by"], "lost", "{report:?}");
        assert!(report.0["outage_s"].as_f64().unwrap() >= 5.0, "{report:?}");
        assert!(report.0["duration_s"].as_f64().unwrap() < 50.0, "{report:?}");
    }
}

#[test]
fn one_dead_server_of_two_does_not_end_the_run() {
    let ports = [bound(), bound()];
    let [kept, dead] =
        ports.each_ref().map(|(_, address)| start_logging(&address.to_string(), &[]));
    let [first, second] = ports.each_ref().map(|(_, address)| format!("http://{address}/bytes/1"));
    let load = ["-c", "4", "-t", "2", "-R", "100", "-d", "8", &first, &second];
    let ended = killed_under(vec![dead], &load).wait();
    assert_eq!((ended.status.code(), &*ended.stderr), (Some(0), ""), "{ended:?}");
    let report = LoadReport::of(&ended);
    assert_eq!((&report.0["lost"], &report.0["outage_s"]), (&false.into(), &0.0.into()));
    assert!(report.count("/errors/connect_refused") > 0, "{report:?}");
    assert!(report.0["duration_s"].as_f64().unwrap() >= 8.0, "{report:?}");
    kept.signal(Signal::KILL);
}

#[test]
fn a_dead_server_ends_a_run_with_a_number_of_requests() {
    let serve = Serve::start(&Tree::new().root(), &[&["--test-endpoints"], BY_CALLS].concat());
    let url = serve.url("/bytes/128");
    let arguments = ["-c", "4", "-R", "1000", "-n", "1000000", "--timeout", "1", "--json", &url];
    let running = ChildProcess::start(&mut command(&arguments));
    let mut client = HttpClient::connect(serve.address);
    loaded(&mut client, 100);
    serve.end(Signal::KILL);
    let ended = running.wait();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let report = LoadReport::of(&ended);
    assert!(report.requests() > 50 && report.0["lost"] == true, "{report:?}");
    let tries = report.count("/errors/connect_refused");
    assert!((1..200).contains(&tries), "it does not spin: {report:?}");
}
