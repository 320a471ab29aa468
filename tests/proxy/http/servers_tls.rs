//! `server ... ssl`: which certificates are accepted, the fields of the hello, and which requests
//! may share a connection.

use std::fs;
use std::io::Read;
use std::net::TcpListener;

use fulmar_proxy::{Stat, sum};
use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::https::{Https, server_tls};
use fulmar_tests::test_proxy::TestProxy;
use fulmar_tls::{ServerOptions, ServerTls, Version};

/// A proxy in front of one server with these words behind its address.
fn table(words: &str) -> TestProxy {
    let text = format!(
        "defaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n  \
         timeout server 60s\n  \
         retries 0\n\
         frontend fe\n  bind 127.0.0.1:0\n  default_backend be\n\
         backend be\n  http-reuse always\n  server s {words}\n"
    );
    TestProxy::new(&text, Vec::new())
}

/// A server with an untrusted certificate, or too old a version, receives no request.
#[test]
fn servers_are_verified_as_configured() {
    let certs = Certs::new();
    let ca = certs.ca().display().to_string();
    let junk = certs.path().join("junk.pem");
    fs::write(&junk, "this is no certificate").expect("room");
    let stranger = Certs::new(); // another authority
    let other = stranger.ca().display().to_string();
    let good = Https::start(&certs, CertOwner::Server);
    let expired = Https::start(&certs, CertOwner::Expired);
    let identity = certs.identity(CertOwner::Server);
    let old = ServerOptions { version_max: Version::Tls12, ..identity.into() };
    let old = Https::start_with(ServerTls::new(old).expect("a certificate and its key"));
    let (junk, sni) = (junk.display(), "sni str(test.example)");
    let cases = [
        (&good, format!("verify required ca-file {ca}"), 200),
        (&good, format!("verify required ca-file {ca} {sni}"), 200),
        (&good, format!("verify required ca-file {ca} verifyhost localhost"), 200),
        (&good, format!("verify required ca-file {ca} sni str(elsewhere.example)"), 503),
        (&good, format!("verify required ca-file {ca} {sni} verifyhost elsewhere.example"), 503),
        (&good, format!("verify required ca-file {other}"), 503),
        (&good, format!("verify required ca-file {junk}"), 503),
        (&good, "verify required ca-file @system-ca".to_owned(), 503),
        (&good, "verify none".to_owned(), 200),
        (&expired, format!("verify required ca-file {ca} {sni}"), 503),
        (&expired, format!("verify none {sni}"), 200),
        (&old, "verify none".to_owned(), 200),
        (&old, "verify none ssl-max-ver TLSv1.2".to_owned(), 200),
        (&old, "verify none ssl-min-ver TLSv1.3".to_owned(), 503),
        (&good, "verify none ssl-min-ver TLSv1.3".to_owned(), 200),
    ];
    for (server, words, status) in cases {
        let mut table = table(&format!("{} ssl {words}", server.address));
        assert_eq!(table.status("/bytes/5"), status, "{words}");
    }
}

/// The hello contains the server name from the expression, and the protocols.
#[test]
fn the_hello_has_the_configured_name_and_protocols() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let hellos = std::thread::spawn(move || {
        [0; 2].map(|_| {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut head = [0; 5];
            stream.read_exact(&mut head).expect("the head of a record");
            let mut hello = vec![0; usize::from(u16::from_be_bytes([head[3], head[4]]))];
            stream.read_exact(&mut hello).expect("a hello");
            hello // without a response
        })
    });
    for words in ["sni req.hdr(host) alpn other,http/1.1", ""] {
        let mut table = table(&format!("{address} ssl verify none {words}"));
        let answer = table.send_request("GET / HTTP/1.1\r\nHost: asked.example\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    }
    let [asked, plain] = hellos.join().expect("two hellos");
    let has = |hello: &[u8], what: &[u8]| hello.windows(what.len()).any(|window| window == what);
    let (name, protocols) = (&b"asked.example"[..], &b"\x05other\x08http/1.1"[..]);
    assert!(has(&asked, name) && has(&asked, protocols));
    assert!(!has(&plain, name) && !has(&plain, b"other"));
}

/// A connection that was opened with one server name is not used for another one: its certificate
/// was verified for the first.
#[test]
fn another_server_name_uses_another_connection() {
    let certs = Certs::new();
    let server = Https::start_with(server_tls(&certs, CertOwner::Server));
    let ca = certs.ca().display().to_string();
    let mut table =
        table(&format!("{} ssl verify required ca-file {ca} sni req.hdr(host)", server.address));
    let tried =
        |table: &TestProxy, counter| sum(&table.live.backends[0].servers[0].counters, counter);
    let mut send_request = |name: &str| {
        table.reconnect();
        let answer = table.send_request(format!("GET /bytes/5 HTTP/1.1\r\nHost: {name}\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{name}: {answer}");
        tried(&table, Stat::ConnectsTried)
    };
    let counts = ["localhost", "test.example", "test.example", "localhost", "a.wild.example"];
    assert_eq!(counts.map(&mut send_request), [1, 2, 2, 2, 3]);
}
