//! `fulmar get` and `fulmar load` with certificates made by `openssl`.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::thread;

use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::get::Download;
use fulmar_tests::http2_server::{Http2Step, ScriptedHttp2};
use fulmar_tests::process::{ChildProcess, ExitOutput, eventually, fulmar, has_ended, peer, run};
use fulmar_tls::{HTTP1, HTTP2, ServerOptions, ServerTls};

const SELF_SIGNED: &str = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 \
    -subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout key.pem -out cert.pem";

/// `openssl s_server -www` with the certificate from these commands, and its port.
fn serve(download: &Download, commands: &[&str]) -> (ChildProcess, u16) {
    serve_with(download, commands, "")
}

/// The same, with further options of `s_server`.
fn serve_with(download: &Download, commands: &[&str], more: &str) -> (ChildProcess, u16) {
    let openssl = |line: &str| {
        let mut command = peer("openssl");
        command.args(line.split_whitespace()).current_dir(download.turn_while(""));
        command
    };
    commands.iter().for_each(|line| drop(run(&mut openssl(line))));
    let line = format!("s_server -accept 127.0.0.1:0 -www -cert cert.pem -key key.pem {more}");
    let mut server = ChildProcess::start(&mut openssl(&line));
    let line = server.wait_stdout("ACCEPT ");
    let port = line.trim().rsplit(':').next().expect("a port").parse().expect("a number");
    (server, port)
}

fn get(download: &Download, port: u16, host: &str, trust: &[&str]) -> ExitOutput {
    let addresses = format!("{host}:{port}:127.0.0.1");
    let url = format!("https://{host}:{port}/");
    download.run(&[trust, &["--retry", "0", "--resolve", &addresses, &url]].concat())
}

fn load(download: &Download, port: u16, trust: &[&str]) -> ExitOutput {
    let url = format!("https://127.0.0.1:{port}/");
    let mut command = Command::new(fulmar());
    command.args(["load", "--sni", "localhost", "-c", "1", "-n", "3"]).args(trust).arg(url);
    command.current_dir(download.turn_while(""));
    ChildProcess::start(&mut command).wait()
}

#[test]
fn certificate_of_openssl_req_x509_is_trusted_by_cacert() {
    let download = Download::new();
    let (_server, port) = serve(&download, &[SELF_SIGNED]);
    let cacert = ["--cacert", "cert.pem"];
    let ended = get(&download, port, "localhost", &cacert);
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(download.names(), ["index.html"]);
    let ended = load(&download, port, &cacert);
    assert!(ended.status.success() && ended.stdout.contains("3 answered"), "{ended:?}");
    // Not with another name, and not untrusted.
    let ended = get(&download, port, "other.example", &[&cacert[..], &["--mirror"]].concat());
    assert!(ended.stderr.contains(", not for other.example"), "{ended:?}");
    let ended = get(&download, port, "localhost", &["--mirror"]);
    assert!(ended.stderr.contains("self-signed certificate"), "{ended:?}");
    assert!(ended.stderr.contains("--cacert FILE"), "{ended:?}");
}

#[test]
fn certificate_of_x509_version_1_is_a_clear_error() {
    let request = "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost \
        -keyout key.pem -out request.pem";
    let sign = "x509 -req -in request.pem -signkey key.pem -days 1 -out cert.pem";
    let download = Download::new();
    let (_server, port) = serve(&download, &[request, sign]);
    for trust in [&["--cacert", "cert.pem"][..], &["-k"]] {
        for ended in [get(&download, port, "localhost", trust), load(&download, port, trust)] {
            assert_eq!(ended.status.code(), Some(1), "{ended:?}");
            assert!(ended.stderr.contains("X.509 certificate version 1"), "{trust:?}: {ended:?}");
            assert!(ended.stderr.contains("issue a version 3 certificate"), "{ended:?}");
        }
    }
}

/// The certificate of the server is also that of the client.
#[test]
fn servers_that_require_a_certificate_receive_it() {
    let download = Download::new();
    let requires = "-Verify 1 -verify_return_error -CAfile cert.pem";
    let (_server, port) = serve_with(&download, &[SELF_SIGNED], requires);
    let trust = ["--cacert", "cert.pem"];
    let ended = get(&download, port, "localhost", &trust);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("ertificate"), "{ended:?}");
    let identity = ["--cert", "cert.pem", "--key", "key.pem"];
    let ended = get(&download, port, "localhost", &[&trust[..], &identity].concat());
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(download.names(), ["index.html"]);
    for (identity, expected) in [
        (&["--cert", "cert.pem"][..], "--key <FILE>"),
        (&["--key", "key.pem"], "--cert <FILE>"),
        (&["--cert", "none.pem", "--key", "key.pem"], "none.pem"),
        (&["--cert", "key.pem", "--key", "key.pem"], "key.pem"),
        (&["--cert", "-", "--key", "-"], "--cert and --key"),
    ] {
        let ended = get(&download, port, "localhost", &[&trust[..], identity].concat());
        assert_eq!(ended.status.code(), Some(2), "{ended:?}");
        assert!(ended.stderr.contains(expected), "{expected}: {ended:?}");
    }
}

/// Over TLS, ALPN decides: this server has none.
#[test]
fn prior_knowledge_of_http2_does_not_exclude_negotiation() {
    let download = Download::new();
    let (_server, port) = serve(&download, &[SELF_SIGNED]);
    let options = ["--cacert", "cert.pem", "--http2-prior-knowledge"];
    let ended = get(&download, port, "localhost", &options);
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(download.names(), ["index.html"]);
}

/// The server closes the first two connections within the body, without close_notify.
#[test]
fn truncated_sessions_are_retried() {
    for alpn in [HTTP1, HTTP2] {
        let certs = Certs::new();
        let identity = certs.identity(CertOwner::Server);
        let options = ServerOptions { alpn: vec![alpn.to_vec()], ..identity.into() };
        let tls = ServerTls::new(options).expect("a certificate and its key");
        let mut server = ScriptedHttp2::over_tls(tls, |request| match request.connection {
            0 | 1 => vec![Http2Step::Begin(b"wh".to_vec()), Http2Step::Close],
            _ => vec![Http2Step::Respond(b"whole".to_vec())],
        });
        let url = format!("https://127.0.0.1:{}/file", server.address().port());
        let ca = certs.ca().display().to_string();
        for (retry, retries, kind) in [("0", 0, Some("truncated")), ("3", 1, None)] {
            let download = Download::new();
            let options = ["--cacert", &ca, "--retry", retry, "--jsonl", "records", &url];
            let run = download.start(&options);
            eventually("the end of the run", || {
                server.turn();
                has_ended(run.id())
            });
            let ended = run.wait();
            let record = &download.records()[0];
            assert_eq!(record["retries"], retries, "{ended:?} {record}");
            assert_eq!(record["error"]["kind"].as_str(), kind, "{ended:?} {record}");
            assert_eq!(ended.status.success(), kind.is_none(), "{ended:?}");
        }
    }
}

/// With a URL of `http://`: fulmar, as nginx, responds with 400 and a text, others send an alert.
#[test]
fn a_port_of_tls_is_named_for_plain_http() {
    let alert: &[u8] = &[21, 3, 3, 0, 2, 2, 70];
    let text = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 35\r\n\r\n\
                 This is an HTTPS port, not of HTTP.";
    for response in [alert, text] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("it listens").port();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            assert!(stream.read(&mut [0; 4096]).expect("a request") > 0);
            stream.write_all(response).expect("the client receives");
            let _ = stream.read(&mut [0; 4096]); // until the client closes
        });
        let url = format!("http://127.0.0.1:{port}/");
        let ended = Download::new().run(&["--retry", "0", &url]);
        server.join().expect("it served");
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        assert!(ended.stderr.contains("speaks TLS on this port: use https://"), "{ended:?}");
    }
}
