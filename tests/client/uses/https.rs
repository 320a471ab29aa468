//! https through the client: costs, resumption, refusals, and bodies that end with the connection.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use fulmar_client::{Client, Done, Error, Options, Request, RequestBody, TransferEvent};
use fulmar_proto::{FileRange, Layer};
use fulmar_semantics::proxy::{ProxyUrl, Settings};
use fulmar_sys::{Call, Ledger};
use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::client_in_loop::ClientInLoop;
use fulmar_tests::http2_server::{Http2Step, ScriptedHttp2};
use fulmar_tests::https::{Https, client_tls, trusting};
use fulmar_tests::loops::{AppLoop, Bytewise, Loop, OwnLoop, done};
use fulmar_tests::process::{ChildProcess, eventually, peer};
use fulmar_tests::threads::{RequestRecord, ThreadedServer, relay};
use fulmar_tests::transfers::TransferRecorder;
use fulmar_tests::tree::noise;
use fulmar_tls::{
    ClientOptions, ClientTls, HTTP1, HTTP2, Roots, ServerOptions, ServerTls, TlsError, Verify,
};

fn in_every_loop(checks: [fn(); 3]) {
    checks.into_iter().for_each(|check| check());
}

fn is_ok(done: &Done) -> &Done {
    assert!(done.result.is_ok(), "{done:?}");
    done
}

fn with(tls: &ClientTls) -> Options {
    Options { tls: Some(tls.clone()), ..Options::default() }
}

/// The server's certificate is also for its address, which needs no resolver.
fn url(server: &Https, target: &str) -> String {
    format!("https://{}{target}", server.address)
}

fn tls_error(done: &Done) -> &TlsError {
    match &done.result {
        Err(Error::Layer(error)) => error.downcast_ref().expect("of TLS"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_request_on_a_kept_connection_is_one_send_and_one_recv() {
    let certs = Certs::new();
    let server = Https::start(&certs, CertOwner::Server);
    let mut client = ClientInLoop::<OwnLoop<_>>::new();
    let request =
        Request::get(&url(&server, "/bytes/128")).options(with(&client_tls(&certs)).into());
    let request = request.build().unwrap();
    for _ in 0..3 {
        is_ok(client.fetch(&request)); // tickets have come
    }
    let before = Ledger::here();
    for _ in 0..50 {
        let ended = is_ok(client.fetch(&request));
        assert!(ended.reused);
    }
    let spent = Ledger::here() - before;
    assert_eq!((done(&spent, Call::send), done(&spent, Call::recv)), (50, 50));
    assert_eq!(client.client.engine().stats().connections, 1);
}

#[test]
fn bodies_go_both_ways() {
    fn check<L: Loop<Engine = Client<TransferRecorder>>>() {
        let certs = Certs::new();
        let server = Https::start(&certs, CertOwner::Server);
        let tls = client_tls(&certs);
        let content = noise(1_000_000 / L::SLOWER.min(10) + 17);
        let mut file = tempfile::tempfile().expect("room");
        file.write_all(&content).expect("room");
        let file = Arc::new(OwnedFd::from(File::from(OwnedFd::from(file))));
        let range = FileRange { file, offset: 5, len: content.len() as u64 - 10 };
        let mut client = ClientInLoop::<L>::new();
        for (body, expected) in [
            (RequestBody::File(range), &content[5..content.len() - 5]),
            (RequestBody::Bytes(content.clone().into()), &content[..]),
        ] {
            let options = Options { expect_continue_from: None, ..with(&tls) };
            let request = Request::with_method("POST", &url(&server, "/echo")).body(body);
            let id = client.start(&request.options(options.into()).build().unwrap());
            client.run();
            is_ok(client.recorder().ended(id));
            assert!(client.recorder().body(id) == expected);
        }
    }
    in_every_loop([check::<OwnLoop<_>>, check::<AppLoop<_>>, check::<Bytewise<OwnLoop<_>>>]);
}

#[test]
fn a_file_is_uploaded_directly_and_in_a_form() {
    use fulmar_semantics::form::{Boundary, FormPart, Multipart};
    let certs = Certs::new();
    let server = Https::start(&certs, CertOwner::Server);
    let content = noise(300_000);
    let mut file = tempfile::tempfile().expect("room");
    file.write_all(&content).expect("room");
    let range = FileRange { file: Arc::new(file.into()), offset: 0, len: 300_000 };
    let mut form = Multipart::new(Boundary::from_random([1; 16]));
    form.text("a", "b");
    form.part(&FormPart { filename: Some("f"), ..FormPart::new("f") }, range).unwrap();
    let form = form.finish();
    let len = form.len;
    let request = Request::with_method("POST", &url(&server, "/echo")).form(form);
    let mut client = ClientInLoop::<OwnLoop<_>>::new();
    let id = client.start(&request.options(with(&client_tls(&certs)).into()).build().unwrap());
    client.run();
    let body = client.recorder().body(id);
    assert_eq!(body.len() as u64, len);
    assert!(body.windows(content.len()).any(|window| window == content));
}

#[test]
fn keys_with_different_tls_share_nothing_and_equal_ones_everything() {
    let certs = Certs::new();
    let server = Https::start(&certs, CertOwner::Server);
    let mut client = ClientInLoop::<OwnLoop<_>>::new();
    let tls = client_tls(&certs);
    is_ok(client.fetch_url(&url(&server, "/bytes/1"), with(&tls)));
    for different in [
        client_tls(&certs), // its sessions are its own
        ClientTls::new(ClientOptions { verify: Verify::Nothing, ..trusting(&certs) }).unwrap(),
        ClientTls::new(ClientOptions { server_name: Some("localhost".into()), ..trusting(&certs) })
            .unwrap(),
        ClientTls::new(ClientOptions { alpn: Vec::new(), ..trusting(&certs) }).unwrap(),
    ] {
        let done = client.fetch_url(&url(&server, "/bytes/1"), with(&different));
        assert!(!is_ok(done).reused || different == tls, "{different:?}");
        assert!(is_ok(client.fetch_url(&url(&server, "/bytes/1"), with(&different))).reused);
    }
    assert!(is_ok(client.fetch_url(&url(&server, "/bytes/1"), with(&tls))).reused);
}

#[test]
fn each_wrong_certificate_has_its_own_error() {
    let certs = Certs::new();
    let tls = client_tls(&certs);
    for (who, is_right) in [
        (CertOwner::Expired, (|e| *e == TlsError::Expired) as fn(&TlsError) -> bool),
        (CertOwner::NotYetValid, |e| *e == TlsError::NotYetValid),
        (CertOwner::OtherHost, |e| matches!(e, TlsError::WrongHost { .. })),
        (CertOwner::SelfSigned, |e| *e == TlsError::UnknownIssuer),
        (CertOwner::OwnAuthority, |e| *e == TlsError::AuthorityAsServer),
        (CertOwner::Stranger, |e| *e == TlsError::UnknownIssuer),
    ] {
        let server = Https::start(&certs, who);
        let mut client = ClientInLoop::<OwnLoop<_>>::new();
        for _ in 0..2 {
            let done = client.fetch_url(&url(&server, "/bytes/1"), with(&tls));
            assert!(is_right(tls_error(done)), "{who:?}: {:?}", done.result);
            assert_eq!(done.result.as_ref().unwrap_err().kind(), "tls");
            assert_eq!(client.client.engine().connections(), 0);
        }
    }
    // The roots of the system do not contain our authority.
    let server = Https::start(&certs, CertOwner::Server);
    let mut client = ClientInLoop::<OwnLoop<_>>::new();
    let done = client.fetch_url(&url(&server, "/bytes/1"), Options::default());
    assert_eq!(*tls_error(done), TlsError::UnknownIssuer);
    // With `Verify::Nothing` the certificate is not checked.
    let nothing = ClientOptions { verify: Verify::Nothing, ..ClientOptions::default() };
    let nothing =
        ClientTls::new(ClientOptions { roots: Roots::empty().file(certs.ca()), ..nothing });
    is_ok(client.fetch_url(&url(&server, "/bytes/1"), with(&nothing.unwrap())));
}

#[test]
fn non_tls_and_silent_servers_have_distinct_errors() {
    let certs = Certs::new();
    let tls = client_tls(&certs);
    let plain = ThreadedServer::with_connections(|_, mut stream, _| {
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")?;
        stream.read(&mut [0; 4096]).map(drop)
    });
    let closing =
        ThreadedServer::with_connections(|_, mut stream, _| stream.read(&mut [0; 4096]).map(drop));
    for (server, error) in [(plain, TlsError::NotTls), (closing, TlsError::HandshakeEof)] {
        let mut client = ClientInLoop::<OwnLoop<_>>::new();
        let done = client.fetch_url(&format!("https://{}/", server.address), with(&tls));
        assert_eq!(*tls_error(done), error);
    }
}

/// A server that accepts one TLS client, and ends the session as the test needs it.
fn closing(certs: &Certs, answer: &'static [u8], notifies: bool) -> ThreadedServer {
    let identity = certs.identity(CertOwner::Server);
    let options = ServerOptions { alpn: vec![HTTP1.to_vec()], ..identity.into() };
    let server = ServerTls::new(options).expect("a certificate and its key");
    ThreadedServer::with_connections(move |_, mut stream, _| {
        let mut layer: Box<dyn Layer> = Box::new(server.session().expect("a session"));
        let (mut wire, mut above) = (bytes::BytesMut::new(), bytes::BytesMut::new());
        let mut said = false;
        loop {
            let mut input = fulmar_proto::Input::all(&mut wire, false);
            while let Ok(opened) = layer.open(&mut input, &mut above) {
                if matches!(opened, fulmar_proto::Opened::Blocked) {
                    break;
                }
            }
            if !said && above.windows(4).any(|end| end == b"\r\n\r\n") {
                said = true;
                let transmit = fulmar_proto::Transmit::new(answer, &[]);
                layer.seal(transmit).expect("it stands");
                if notifies {
                    layer.finish();
                }
            }
            while let Some(transmit) = layer.poll_transmit() {
                let mut bytes = transmit.inline.to_vec();
                for segment in transmit.segments {
                    if let fulmar_proto::Segment::Bytes(run) = segment {
                        bytes.extend_from_slice(run);
                    }
                }
                stream.write_all(&bytes)?;
                layer.handle_sent(bytes.len() as u64);
            }
            if said {
                stream.shutdown(std::net::Shutdown::Write)?;
                return std::io::copy(&mut stream, &mut std::io::sink()).map(drop);
            }
            let mut some = [0; 4096];
            let n = stream.read(&mut some)?;
            wire.extend_from_slice(&some[..n]);
            if n == 0 {
                return Ok(());
            }
        }
    })
}

#[test]
fn a_body_until_the_end_needs_close_notify() {
    const UNTIL_CLOSE: &[u8] = b"HTTP/1.1 200 OK\r\n\r\nthe body";
    const KNOWN: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nthe body";
    const SHORT: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nthe body";
    const CHUNKED: &[u8] =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nthe body\r\n0\r\n\r\n";
    fn check<L: Loop<Engine = Client<TransferRecorder>>>() {
        let certs = Certs::new();
        let tls = client_tls(&certs);
        for (answer, notifies, ok) in [
            (UNTIL_CLOSE, true, true),
            (UNTIL_CLOSE, false, false),
            (KNOWN, true, true),
            (KNOWN, false, true),
            (CHUNKED, false, true),
            (SHORT, true, false),
            (SHORT, false, false),
        ] {
            let server = closing(&certs, answer, notifies);
            let mut client = ClientInLoop::<L>::new();
            let id = client.get(&format!("https://{}/", server.address), with(&tls));
            client.run();
            let recorder = client.recorder();
            let done = recorder.ended(id);
            assert_eq!(done.result.is_ok(), ok, "{}: {done:?}", String::from_utf8_lossy(answer));
            assert_eq!(recorder.body(id), b"the body");
            if answer == UNTIL_CLOSE && !ok {
                assert_eq!(*tls_error(done), TlsError::Truncated);
            }
            client.run_until(|client| client.connections() == 0);
        }
    }
    in_every_loop([check::<OwnLoop<_>>, check::<AppLoop<_>>, check::<Bytewise<OwnLoop<_>>>]);
}

/// The server closes without close_notify: it is a lost connection, as in clear text.
#[test]
fn truncated_sessions_are_lost_connections() {
    for alpn in [HTTP1, HTTP2] {
        let certs = Certs::new();
        let identity = certs.identity(CertOwner::Server);
        let options = ServerOptions { alpn: vec![alpn.to_vec()], ..identity.into() };
        let server = ServerTls::new(options).expect("a certificate and its key");
        let mut peer =
            ScriptedHttp2::over_tls(server, |request| match (request.connection, &*request.path) {
                (0, "/again") | (_, "/lost") => vec![Http2Step::Close],
                (_, "/cut") => vec![Http2Step::Begin(b"begun".to_vec()), Http2Step::Close],
                _ => vec![Http2Step::Respond(b"whole".to_vec())],
            });
        let mut client = ClientInLoop::<OwnLoop<_>>::new();
        let tls = client_tls(&certs);
        for (path, kind, body, count) in [
            ("/", None, "whole", 1),
            ("/again", None, "whole", 2),
            ("/lost", Some("closed"), "", 2),
            ("/cut", Some("truncated"), "begun", 1),
        ] {
            let id = client.get(&format!("https://{}{path}", peer.address()), with(&tls));
            eventually(path, || {
                peer.turn();
                client.client.0.turn_within(Duration::from_millis(1)).expect("a turn");
                client.client.0.engine.running() == 0
            });
            let recorder = client.recorder();
            let result = &recorder.ended(id).result;
            assert_eq!(result.as_ref().err().map(Error::kind), kind, "{path}: {result:?}");
            assert_eq!(recorder.body(id), body.as_bytes(), "{path}");
            assert_eq!(peer.count(path), count, "{path}");
        }
    }
}

/// A proxy that supports CONNECT, and connects to `to` whatever the requested target is.
fn tunnelling(to: impl Fn(&str) -> std::net::SocketAddr + Send + Sync + 'static) -> ThreadedServer {
    ThreadedServer::with_connections(move |_, stream, log| {
        let mut from = BufReader::new(stream);
        let asked = RequestRecord::read_head(&mut from)?.expect("a request");
        assert_eq!(asked.method, "CONNECT");
        let there = std::net::TcpStream::connect(to(&asked.target))?;
        log.push(asked);
        from.get_ref().write_all(b"HTTP/1.1 200 Established\r\n\r\n")?;
        relay(from.get_ref(), &there)
    })
}

#[test]
fn certificates_are_verified_behind_proxies_too() {
    let certs = Certs::new();
    let tls = client_tls(&certs);
    for (host, who, ok) in [
        ("test.example", CertOwner::Server, true),
        ("a.wild.example", CertOwner::Server, true),
        ("test.example", CertOwner::Expired, false),
        ("wrong.example", CertOwner::Server, false),
        ("test.example", CertOwner::Stranger, false),
    ] {
        let server = Https::start(&certs, who);
        let address = server.address;
        let proxy = tunnelling(move |_| address);
        let settings = Settings {
            https: Some(ProxyUrl::parse(&proxy.url("")).unwrap()),
            ..Settings::default()
        };
        let options = || Options { proxies: Some(settings.clone().into()), ..with(&tls) };
        let mut client = ClientInLoop::<OwnLoop<_>>::new();
        for n in 0..2 {
            let done = client.fetch_url(&format!("https://{host}/bytes/5"), options());
            assert_eq!(done.result.is_ok(), ok, "{host} {who:?}: {done:?}");
            if !ok {
                tls_error(done);
            }
            assert_eq!(done.reused, ok && n == 1);
        }
        let asked = proxy.requests();
        assert_eq!(asked.len(), if ok { 1 } else { 2 }, "every connection is verified");
        assert!(asked.iter().all(|asked| asked.target == format!("{host}:443")));
        assert!(asked.iter().all(|asked| asked.field("host") == Some(&*format!("{host}:443"))));
    }
}

fn openssl(certs: &Certs, arguments: &[&str]) -> (ChildProcess, std::net::SocketAddr) {
    let (cert, key) = certs.files(CertOwner::Server);
    let mut command: Command = peer("openssl");
    command.args(["s_server", "-accept", "127.0.0.1:0", "-naccept", "10"]);
    command.arg("-cert").arg(cert).arg("-key").arg(key).args(arguments);
    let mut process = ChildProcess::start(&mut command);
    let line = process.wait_stdout("ACCEPT ");
    let port = line.rsplit(':').next().and_then(|port| port.trim().parse().ok());
    (process, ([127, 0, 0, 1], port.expect("it tells its port")).into())
}

#[test]
fn openssl_agrees_and_resumes() {
    let certs = Certs::new();
    for version in ["-tls1_2", "-tls1_3"] {
        let (_server, address) = openssl(&certs, &["-www", version]);
        let tls = client_tls(&certs);
        let mut client = ClientInLoop::<OwnLoop<_>>::new();
        let mut pages = Vec::new();
        for _ in 0..2 {
            let id = client.get(&format!("https://{address}/"), with(&tls));
            client.run();
            is_ok(client.recorder().ended(id));
            pages.push(String::from_utf8_lossy(client.recorder().body(id)).into_owned());
        }
        assert!(pages[0].contains("New, TLSv1"), "{version}: {}", pages[0]);
        assert!(pages[1].contains("Reused, TLSv1"), "{version}: {}", pages[1]);
    }
}

#[test]
fn no_event_before_the_handshake_and_none_while_paused() {
    let certs = Certs::new();
    let server = Https::start(&certs, CertOwner::Server);
    let mut client = ClientInLoop::<OwnLoop<_>>::acting(|context, id, event| {
        if matches!(event, TransferEvent::Data(_)) {
            context.pause(id);
        }
    });
    let id = client.get(&url(&server, "/bytes/3000000"), with(&client_tls(&certs)));
    let mut resumed = 0;
    while client.recorder().done.is_empty() {
        client.client.turn(Duration::from_millis(1));
        resumed += 1;
        client.client.with(|client, now| client.with(now, |_, context| context.resume(id)));
        assert!(resumed < 100_000);
    }
    let done = is_ok(client.recorder().ended(id));
    assert!(done.timings().handshake > Duration::ZERO);
    assert_eq!(client.recorder().body(id).len(), 3_000_000);
    assert!(client.recorder().trace(id).starts_with("Hd"));
}
