//! Mode tcp of the proxy with TLS on either side.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::thread;
use std::time::Duration;

use fulmar_haproxy::model::{ServerProxy, ServerTlsConfig};
use fulmar_proxy::{MakeLayer, Proxy};
use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::https;
use fulmar_tests::loops::{Loop, OwnLoop, client};
use fulmar_tests::tcp_proxy::{backend, config, frontend, proxy};
use fulmar_tests::test_proxy::server;
use fulmar_tests::threads::serve_each;

/// Echoes its input to the end, after its PROXY header as text.
fn echo() -> SocketAddr {
    serve_each(|mut stream| {
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).expect("a request");
        stream.write_all(&heard).expect("an open connection");
    })
}

/// A proxy that clients speak TLS with, in front of `to`.
fn inner(
    certs: &Certs,
    owner: CertOwner,
    to: SocketAddr,
    proxied: bool,
) -> (OwnLoop<Proxy>, SocketAddr) {
    let tls = https::server_tls(certs, owner);
    let layer: MakeLayer = Box::new(move |_| {
        let session = Box::new(tls.session().ok()?);
        Some(match proxied {
            true => Box::new(fulmar_semantics::proxy_protocol::ProxyProtocol::new(Some(session))),
            false => session,
        })
    });
    let (proxy, ..) = proxy(config(frontend(), [backend([server("echo", to)])]), Some(layer));
    OwnLoop::start(proxy)
}

/// A proxy that speaks TLS with its server.
fn outer(to: SocketAddr, tls: ServerTlsConfig, send: ServerProxy) -> (OwnLoop<Proxy>, SocketAddr) {
    let mut one = server("tls", to);
    one.tls = Some(tls);
    one.send_proxy = send;
    let mut back = backend([one]);
    back.retries = 0;
    let (proxy, ..) = proxy(config(frontend(), [back]), None);
    OwnLoop::start(proxy)
}

/// The bytes that return through both.
fn through(
    (mut first, address): (OwnLoop<Proxy>, SocketAddr),
    mut second: OwnLoop<Proxy>,
    question: &[u8],
) -> Vec<u8> {
    thread::scope(|scope| {
        let peer = scope.spawn(move || {
            let mut stream = client(address);
            let question = question.to_vec();
            let mut writer = stream.try_clone().expect("a descriptor");
            let writer = thread::spawn(move || {
                let _ = writer.write_all(&question);
                let _ = writer.shutdown(Shutdown::Write);
            });
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            writer.join().expect("a writer");
            answer
        });
        first.turn_until(|first| {
            let _ = first;
            second.turn(Duration::ZERO);
            peer.is_finished()
        });
        peer.join().expect("the peer's assertions hold")
    })
}

fn text(len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(7);
    (0..len).map(|_| random.u8(..)).collect()
}

#[test]
fn bytes_pass_through_tls_on_either_side_and_so_does_their_end() {
    let certs = Certs::new();
    for len in [0, 5, 3_000_000] {
        let (second, to) = inner(&certs, CertOwner::Server, echo(), false);
        let first = outer(to, ServerTlsConfig::default(), ServerProxy::None);
        assert!(through(first, second, &text(len)) == text(len), "{len} bytes");
    }
}

#[test]
fn a_proxy_header_precedes_tls() {
    let certs = Certs::new();
    for how in [ServerProxy::V1, ServerProxy::V2 { tls: true, common_name: false }] {
        let (second, to) = inner(&certs, CertOwner::Server, echo(), true);
        let first = outer(to, ServerTlsConfig::default(), how);
        assert_eq!(through(first, second, b"hello"), b"hello");
    }
}

#[test]
fn an_untrusted_server_gets_no_data() {
    let certs = Certs::new();
    for (owner, name, answer) in [
        (CertOwner::Server, Some("localhost"), &b"hello"[..]),
        (CertOwner::Server, Some("elsewhere.example"), b""),
        (CertOwner::OtherHost, Some("localhost"), b""),
        (CertOwner::OtherHost, None, b"hello"), // the authority is enough, without a name
        (CertOwner::Stranger, None, b""),
        (CertOwner::Expired, None, b""),
    ] {
        let (second, to) = inner(&certs, owner, echo(), false);
        let tls = ServerTlsConfig {
            verify: true,
            ca_file: Some(certs.ca()),
            verify_host: name.map(str::to_owned),
            ..ServerTlsConfig::default()
        };
        let first = outer(to, tls, ServerProxy::None);
        assert_eq!(through(first, second, b"hello"), answer, "{owner:?} {name:?}");
    }
}
