//! TLS with other people's implementations: OpenSSL, curl, nginx.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Stdio};

use fulmar_engine::{End, SocketId};
use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::curl::{Curl, plain};
use fulmar_tests::https::{Https, http1_tls, trusting_over_http1};
use fulmar_tests::load::Nginx;
use fulmar_tests::loops::{Loop, OwnLoop};
use fulmar_tests::process::{ChildProcess, peer, text};
use fulmar_tests::recording_client::RecordingClient;
use fulmar_tls::{
    ClientAuth, ClientOptions, ClientTls, ServerOptions, ServerTls, TlsError, Version,
};

/// A client with a connection.
fn connect(tls: &ClientTls, address: SocketAddr) -> (OwnLoop<RecordingClient>, SocketId) {
    let mut client = OwnLoop::start(RecordingClient::default()).0;
    let layer = tls.session("localhost").expect("a name");
    let socket = client.engine().connect(address, Some(Box::new(layer)));
    (client, socket)
}

/// `openssl s_server` on a free port.
fn s_server(certs: &Certs, owner: CertOwner, arguments: &[&str]) -> (ChildProcess, SocketAddr) {
    let (cert, key) = certs.files(owner);
    let mut command = peer("openssl");
    command.args(["s_server", "-accept", "127.0.0.1:0", "-www"]).args(arguments);
    command.arg("-cert").arg(cert).arg("-key").arg(key);
    let mut process = ChildProcess::start(&mut command);
    let line = process.wait_stdout("ACCEPT ");
    let address = line.trim().rsplit(' ').next().expect("an address");
    (process, address.parse().expect("an address"))
}

#[test]
fn openssl_responds_in_both_versions_and_its_close_ends_the_body() {
    let certs = Certs::new();
    for (flag, version) in [("-tls1_2", Version::Tls12), ("-tls1_3", Version::Tls13)] {
        let (_server, address) = s_server(&certs, CertOwner::Server, &[flag]);
        let (mut client, socket) = connect(&http1_tls(&certs), address);
        client.engine().get(socket, "/");
        client.turn_until(|client| !client.engine().book.ends.is_empty());
        let book = &client.engine().book;
        assert_eq!(book.agreed[0].0, version);
        // Without a length: only close_notify marks it as complete.
        assert!(matches!(book.ends[..], [End::Closed]), "{:?}", book.ends);
        assert!(text(&book.answers[0].1).contains("s_server"), "{book:?}");
    }
}

#[test]
fn certificates_of_openssl_are_verified() {
    let certs = Certs::new();
    for (owner, wanted) in [
        (CertOwner::Expired, TlsError::Expired),
        (CertOwner::SelfSigned, TlsError::UnknownIssuer),
        (CertOwner::OwnAuthority, TlsError::AuthorityAsServer),
    ] {
        let (_server, address) = s_server(&certs, owner, &[]);
        let (mut client, _) = connect(&http1_tls(&certs), address);
        client.turn_until(|client| !client.engine().book.ends.is_empty());
        match client.engine().book.ends.pop() {
            Some(End::Layer(error)) => assert_eq!(error.downcast_ref(), Some(&wanted)),
            end => panic!("{owner:?}: {end:?}"),
        }
    }
    let (_server, address) = s_server(&certs, CertOwner::Server, &["-tls1_2"]);
    let modern = ClientOptions { version_min: Version::Tls13, ..trusting_over_http1(&certs) };
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
    let server = Https::start(&certs, CertOwner::Server);
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
    // The same server without a trusted certificate.
    let output = plain().arg(server.url("/bytes/1")).output().expect("curl runs");
    assert_eq!(output.status.code(), Some(60), "{}", text(&output.stderr));
}

#[test]
fn openssl_as_a_client_gets_a_response_and_close_notify() {
    let certs = Certs::new();
    let server = Https::start(&certs, CertOwner::Server);
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
    let mut options = ServerOptions::from(certs.identity(CertOwner::Server));
    options.client_auth = ClientAuth::Required(vec![certs.ca().into()].into());
    let server = Https::start_with(ServerTls::new(options).expect("files"));
    let ca = certs.ca().display().to_string();
    let (cert, key) = certs.files(CertOwner::Client);
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
    let tls = http1_tls(&certs);
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

/// `openssl s_client`, to be spoken to.
struct SClient {
    child: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
    stderr: BufReader<ChildStderr>,
}

impl SClient {
    fn start(certs: &Certs, address: SocketAddr, arguments: &[&str]) -> Self {
        let mut command = peer("openssl");
        command.args(["s_client", "-verify_return_error", "-connect", &address.to_string()]);
        command.arg("-CAfile").arg(certs.ca()).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let stdin = child.stdin.take().expect("piped");
        let stdout = child.stdout.take().expect("piped");
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        Self { child, stdin, stdout, stderr }
    }

    fn send(&mut self, line: &str) {
        self.stdin.write_all(line.as_bytes()).expect("it listens");
    }

    /// Gives a command, and waits until it is carried out.
    fn command(&mut self, line: &str, done: &str) {
        self.send(line);
        let mut all = String::new();
        while !all.contains(done) {
            let n = self.stderr.read_line(&mut all).expect("text");
            assert!(n > 0, "{done:?} does not come: {all}");
        }
    }

    /// What it still writes.
    fn rest(&mut self) -> String {
        let mut all = String::new();
        self.stdout.read_to_string(&mut all).expect("text");
        all
    }

    /// Sends a request and the end, and reads to the end.
    fn send_request(mut self) -> String {
        self.send("GET /bytes/10 HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
        let all = self.rest();
        assert!(all.contains("HTTP/1.1 200 OK"), "{all}");
        all
    }
}

impl Drop for SClient {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        self.child.wait().expect("it is ours");
    }
}

/// It sends a key share for the first of its groups only, which the server does not have: so it
/// gets a HelloRetryRequest (RFC 8446 §4.1.4).
#[test]
fn openssl_follows_a_hello_retry_request() {
    let certs = Certs::new();
    let identities = vec![certs.issue("a", &["a.example"]), certs.identity(CertOwner::Server)];
    let tls = ServerTls::new(ServerOptions { identities, ..ServerOptions::default() });
    let server = Https::start_with(tls.expect("files"));
    let names = ["-servername", "localhost", "-verify_hostname", "localhost"];
    let groups = ["-groups", "P-521:P-256", "-msg"];
    let said =
        SClient::start(&certs, server.address, &[&names[..], &groups].concat()).send_request();
    assert_eq!(said.matches("ClientHello").count(), 2, "{said}");
}

#[test]
fn openssl_resumes_a_saved_session() {
    let certs = Certs::new();
    let server = Https::start(&certs, CertOwner::Server);
    let saved = certs.path().join("session").display().to_string();
    for flag in ["-tls1_2", "-tls1_3"] {
        let names = ["-servername", "localhost", flag];
        let first = [&names[..], &["-sess_out", &saved]].concat();
        let said = SClient::start(&certs, server.address, &first).send_request();
        assert!(said.contains("New, "), "{said}");
        for _ in 0..2 {
            let again = [&names[..], &["-sess_in", &saved, "-sess_out", &saved]].concat();
            let said = SClient::start(&certs, server.address, &again).send_request();
            assert!(said.contains("Reused, "), "{said}");
        }
    }
    // The request is not sent as early data, which could be replayed.
    let request = certs.path().join("request");
    std::fs::write(&request, "GET /bytes/1 HTTP/1.1\r\nHost: t\r\n\r\n").expect("room");
    let request = request.display().to_string();
    let early = ["-servername", "localhost", "-sess_in", &saved, "-early_data", &request];
    let said = SClient::start(&certs, server.address, &early).send_request();
    assert!(said.contains("Reused, ") && said.contains("Early data was not sent"), "{said}");
    assert_eq!(said.matches("HTTP/1.1 200 OK").count(), 1);
    // It connects, and then five times more with the same session.
    let arguments = ["-servername", "localhost", "-tls1_2", "-reconnect"];
    let said = SClient::start(&certs, server.address, &arguments).send_request();
    assert_eq!(said.matches("Reused, ").count(), 5, "{said}");
}

#[test]
fn openssl_changes_its_keys_and_may_not_begin_anew() {
    let certs = Certs::new();
    let server = Https::start(&certs, CertOwner::Server);
    let mut client = SClient::start(&certs, server.address, &["-servername", "localhost"]);
    for _ in 0..3 {
        client.command("K\n", "KEYUPDATE"); // and requests that we change ours
        client.command("k\n", "KEYUPDATE");
    }
    client.send_request();

    let arguments = ["-servername", "localhost", "-tls1_2"];
    let mut client = SClient::start(&certs, server.address, &arguments);
    client.command("R\n", "RENEGOTIATING");
    let rest = client.rest(); // it gives up when it is refused
    assert!(!rest.contains("HTTP/1.1"), "{rest}");
    SClient::start(&certs, server.address, &arguments).send_request(); // and the server goes on
}

#[test]
fn curl_gets_the_certificate_of_the_requested_name() {
    let certs = Certs::new();
    let identities = vec![
        certs.identity(CertOwner::Server),
        certs.issue("a", &["a.example"]),
        certs.issue_rsa("b", &["*.b.example", "b.example"]),
    ];
    let tls = ServerTls::new(ServerOptions { identities, ..ServerOptions::default() });
    let tls = tls.expect("files");
    let server = Https::start_with(tls.clone());
    let ca = certs.ca().display().to_string();
    let port = server.address.port();
    let fetch = |host: &str, more: &[&str]| {
        let resolve = format!("{host}:{port}:127.0.0.1");
        let url = format!("https://{host}:{port}/bytes/7");
        let mut command = plain();
        command.args(["--cacert", &ca, "--resolve", &resolve, &url]).args(more);
        command.output().expect("curl runs").status.code()
    };
    for host in ["localhost", "a.example", "A.EXAMPLE", "b.example", "www.b.example"] {
        assert_eq!(fetch(host, &[]), Some(0), "{host}");
        assert_eq!(fetch(host, &["--tls-max", "1.2"]), Some(0), "{host}");
    }
    assert_eq!(fetch("c.example", &[]), Some(60), "no certificate has that name");
    // It is served from now on, by all threads.
    let mut options = tls.options();
    options.identities.push(certs.issue("c", &["c.example"]));
    tls.replace(options).expect("files");
    assert_eq!(fetch("c.example", &[]), Some(0));
}

/// Two certificates for a name: a client without elliptic curves gets the one with RSA.
#[test]
fn the_certificate_matches_the_key_types_of_the_client() {
    let certs = Certs::new();
    let identities =
        vec![certs.issue("ec", &["localhost"]), certs.issue_rsa("rsa", &["localhost"])];
    let tls = ServerTls::new(ServerOptions { identities, ..ServerOptions::default() });
    let server = Https::start_with(tls.expect("files"));
    for name in [&["-servername", "localhost"][..], &["-noservername"]] {
        for (algorithms, kind) in
            [("ECDSA+SHA256:RSA-PSS+SHA256", "ECDSA"), ("RSA-PSS+SHA256", "RSA-PSS")]
        {
            let arguments = [name, &["-sigalgs", algorithms]].concat();
            let said = SClient::start(&certs, server.address, &arguments).send_request();
            assert!(said.contains(&format!("Peer signature type: {kind}")), "{said}");
        }
    }
}
