//! TLS with other people's implementations: OpenSSL, curl, nginx.
#![forbid(unsafe_code)]

use std::io::Write;
use std::net::SocketAddr;
use std::process::Stdio;

use fulmar_engine::{End, SocketId};
use fulmar_tests::asker::Asker;
use fulmar_tests::certs::{Certs, Who};
use fulmar_tests::curl::{Curl, plain};
use fulmar_tests::https::{Https, client_tls, trusting};
use fulmar_tests::load::Nginx;
use fulmar_tests::loops::{Loop, OwnLoop};
use fulmar_tests::process::{Process, peer, text};
use fulmar_tls::{
    ClientAuth, ClientOptions, ClientTls, ServerOptions, ServerTls, TlsError, Version,
};

/// A client that has asked for a connection.
fn connect(tls: &ClientTls, address: SocketAddr) -> (OwnLoop<Asker>, SocketId) {
    let mut client = OwnLoop::start(Asker::default()).0;
    let layer = tls.session("localhost").expect("a name");
    let socket = client.engine().connect(address, Some(Box::new(layer)));
    (client, socket)
}

/// `openssl s_server` on a free port.
fn s_server(certs: &Certs, who: Who, arguments: &[&str]) -> (Process, SocketAddr) {
    let (cert, key) = certs.files(who);
    let mut command = peer("openssl");
    command.args(["s_server", "-accept", "127.0.0.1:0", "-www"]).args(arguments);
    command.arg("-cert").arg(cert).arg("-key").arg(key);
    let mut process = Process::start(&mut command);
    let line = process.wait_stdout("ACCEPT ");
    let address = line.trim().rsplit(' ').next().expect("an address");
    (process, address.parse().expect("an address"))
}

#[test]
fn openssl_answers_in_both_versions_and_its_close_ends_the_body() {
    let certs = Certs::new();
    for (flag, version) in [("-tls1_2", Version::Tls12), ("-tls1_3", Version::Tls13)] {
        let (_server, address) = s_server(&certs, Who::Server, &[flag]);
        let (mut client, socket) = connect(&client_tls(&certs), address);
        client.engine().get(socket, "/");
        client.turn_until(|client| !client.engine().book.ends.is_empty());
        let book = &client.engine().book;
        assert_eq!(book.agreed[0].0, version);
        // Without a length: only close_notify says that it is complete.
        assert!(matches!(book.ends[..], [End::Closed]), "{:?}", book.ends);
        assert!(text(&book.answers[0].1).contains("s_server"), "{book:?}");
    }
}

#[test]
fn what_openssl_presents_is_judged() {
    let certs = Certs::new();
    for (who, wanted) in [
        (Who::Expired, TlsError::Expired),
        (Who::SelfSigned, TlsError::UnknownIssuer),
        (Who::OwnAuthority, TlsError::AuthorityAsServer),
    ] {
        let (_server, address) = s_server(&certs, who, &[]);
        let (mut client, _) = connect(&client_tls(&certs), address);
        client.turn_until(|client| !client.engine().book.ends.is_empty());
        match client.engine().book.ends.pop() {
            Some(End::Layer(error)) => assert_eq!(error.downcast_ref(), Some(&wanted)),
            end => panic!("{who:?}: {end:?}"),
        }
    }
    let (_server, address) = s_server(&certs, Who::Server, &["-tls1_2"]);
    let modern = ClientOptions { version_min: Version::Tls13, ..trusting(&certs) };
    let (mut client, _) = connect(&ClientTls::new(modern).expect("files"), address);
    client.turn_until(|client| !client.engine().book.ends.is_empty());
    match client.engine().book.ends.pop() {
        Some(End::Layer(error)) => {
            assert_eq!(error.downcast_ref(), Some(&TlsError::NoCommonVersion));
        }
        end => panic!("{end:?}"),
    }
}

#[test]
fn curl_accepts_our_server() {
    let certs = Certs::new();
    let server = Https::start(&certs, Who::Server);
    let ca = certs.ca().display().to_string();
    for arguments in [&["--tlsv1.3"][..], &["--tls-max", "1.2"]] {
        for size in [0, 128, 16_384, 1_000_000] {
            let url = server.url(&format!("/bytes/{size}"));
            let got = Curl::new(&url).with(&["--cacert", &ca]).with(arguments).run().reply;
            assert_eq!((got.status, got.body.len()), (200, size), "{arguments:?}");
        }
    }
    let body = vec![b'b'; 300_000];
    let file = certs.path().join("body");
    std::fs::write(&file, &body).expect("room");
    let upload = format!("@{}", file.display());
    let echo = Curl::new(&server.url("/echo"))
        .with(&["--cacert", &ca, "--http1.1", "--data-binary", &upload])
        .run();
    assert_eq!(echo.reply.body, body);
    // The same server, and nobody who vouches for it.
    let output = plain().arg(server.url("/bytes/1")).output().expect("curl runs");
    assert_eq!(output.status.code(), Some(60), "{}", text(&output.stderr));
}

#[test]
fn openssl_as_a_client_is_answered_and_hears_the_end() {
    let certs = Certs::new();
    let server = Https::start(&certs, Who::Server);
    let mut child = peer("openssl")
        .args(["s_client", "-quiet", "-verify_return_error", "-servername", "localhost"])
        .arg("-connect")
        .arg(server.address.to_string())
        .arg("-CAfile")
        .arg(certs.ca())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdin = child.stdin.take().expect("piped");
    let request = "GET /bytes/128 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stdin.write_all(request.as_bytes()).expect("room");
    let output = child.wait_with_output().expect("it ends"); // with the connection
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    assert!(out.starts_with("HTTP/1.1 200 OK\r\n"), "{out}\n{err}");
    assert!(!err.contains("unexpected eof"), "close_notify came: {err}");
}

#[test]
fn a_client_certificate_satisfies_curl_and_us() {
    let certs = Certs::new();
    let mut options = ServerOptions::from(certs.identity(Who::Server));
    options.client_auth = ClientAuth::Required(vec![certs.ca().into()].into());
    let server = Https::start_with(ServerTls::new(options).expect("files"));
    let ca = certs.ca().display().to_string();
    let (cert, key) = certs.files(Who::Client);
    let (cert, key) = (cert.display().to_string(), key.display().to_string());
    let url = server.url("/bytes/5");
    let got = Curl::new(&url).with(&["--cacert", &ca, "--cert", &cert, "--key", &key]).run();
    assert_eq!(got.reply.body.len(), 5);
    let output = plain().args(["--cacert", &ca, &url]).output().expect("curl runs");
    assert!(!output.status.success(), "nobody is let in");
}

#[test]
fn nginx_keeps_the_connection_and_resumes_the_session() {
    let certs = Certs::new();
    let nginx = Nginx::start_tls(&certs);
    let tls = client_tls(&certs);
    for resumed in [false, true] {
        let (mut client, socket) = connect(&tls, nginx.address);
        for _ in 0..3 {
            client.engine().get(socket, "/");
            client.turn_until(|client| client.engine().book.answers.len() == 1);
            let (status, body) = client.engine().book.answers.pop().expect("one");
            assert_eq!((status, body.len()), (200, 128));
        }
        assert_eq!(client.engine().book.agreed[0].2, resumed);
        client.engine().leave(socket);
        client.turn_until(|client| !client.engine().holds(socket));
        let end = client.engine().book.ends.pop();
        assert!(matches!(end, Some(End::Closed)), "{end:?}");
    }
}
