//! HTTP/2 as servers choose it by ALPN: fulmar's own, nginx, h2o, nghttpd and Node.

use std::collections::HashSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use fulmar_client::{Config, Options, Protocol, Request, RequestBody, TransferId};
use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::client_in_loop::ClientInLoop;
use fulmar_tests::https::{Https, client_tls, trusting};
use fulmar_tests::load::Nginx;
use fulmar_tests::loops::OwnLoop;
use fulmar_tests::nghttpd::Nghttpd;
use fulmar_tests::process::{ChildProcess, eventually, peer};
use fulmar_tests::transfers::TransferRecorder;
use fulmar_tests::tree::noise;
use fulmar_tls::{ClientOptions, ClientTls, HTTP1, ServerOptions, ServerTls};

type OwnClient = ClientInLoop<OwnLoop<fulmar_client::Client<TransferRecorder>>>;

/// Starts `count` GETs at once, and runs them to their ends.
fn fetch_many(client: &mut OwnClient, url: &str, options: &Arc<Options>, count: usize) {
    let request = Request::get(url).options(options.clone()).build().expect("a request");
    let ids: Vec<TransferId> = (0..count).map(|_| client.start(&request)).collect();
    client.run();
    for id in ids {
        let done = client.recorder().ended(id);
        assert!(done.result.is_ok() && done.status == 200, "{done:?}");
    }
}

fn client() -> OwnClient {
    ClientInLoop::with(TransferRecorder::default(), Config { per_host_max: 6, ..Config::default() })
}

fn with(tls: ClientTls) -> Arc<Options> {
    Options { tls: Some(tls), ..Options::default() }.into()
}

fn connections(client: &OwnClient) -> u64 {
    client.client.0.engine.stats().connections
}

#[test]
fn transfers_wait_for_the_protocol_of_the_first_connection() {
    let certs = Certs::new();
    let server = Https::start(&certs, CertOwner::Server);
    let url = format!("https://{}/bytes/100", server.address);
    let mut client = client();
    fetch_many(&mut client, &url, &with(client_tls(&certs)), 50);
    assert_eq!(connections(&client), 1);
}

#[test]
fn a_server_of_http1_gets_as_many_connections_as_allowed() {
    let certs = Certs::new();
    let identity = certs.identity(CertOwner::Server);
    let options = ServerOptions { alpn: vec![HTTP1.to_vec()], ..identity.into() };
    let server = Https::start_with(ServerTls::new(options).expect("a certificate"));
    let url = format!("https://{}/bytes/100", server.address);
    let mut client = client();
    fetch_many(&mut client, &url, &with(client_tls(&certs)), 50);
    assert_eq!(connections(&client), 6);
}

/// `Options::protocol` and the ALPN list of the TLS options can each exclude HTTP/2, and so does a
/// request that would leave HTTP/1.1.
#[test]
fn http2_can_be_excluded() {
    let certs = Certs::new();
    let server = Https::start(&certs, CertOwner::Server);
    let url = format!("https://{}/bytes/100", server.address);
    let tls = client_tls(&certs);
    let only_http1 = ClientOptions { alpn: vec![HTTP1.to_vec()], ..trusting(&certs) };
    let options = [
        with(ClientTls::new(only_http1).expect("an authority")),
        Options { tls: Some(tls.clone()), protocol: Protocol::Http1, ..Options::default() }.into(),
    ];
    for options in options {
        let mut client = client();
        fetch_many(&mut client, &url, &options, 10);
        assert_eq!(connections(&client), 6, "{options:?}");
    }
    let upgrade = Request::get(&url).header("Upgrade", b"websocket").options(with(tls));
    assert_eq!(upgrade.build().expect("a request").key().protocol, Protocol::Http1);
}

/// Gets a large file and many small ones at once; how many connections that needs.
fn exchange_with(base: &str, options: &Arc<Options>, site: &Path) -> u64 {
    let big = fs::read(site.join("big")).expect("a file");
    let mut client = client();
    let get = |path: &str| {
        let request = Request::get(&format!("{base}{path}")).options(options.clone());
        request.build().expect("a request")
    };
    let large = client.start(&get("/big"));
    let small = get("/small");
    let ids: Vec<TransferId> = (0..90).map(|_| client.start(&small)).collect();
    client.run();
    let recorder = client.recorder();
    assert!(recorder.ended(large).result.is_ok(), "{:?}", recorder.ended(large));
    assert!(recorder.body(large) == big, "{base}");
    let bodies: HashSet<&[u8]> = ids.iter().map(|id| recorder.body(*id)).collect();
    assert_eq!(bodies, HashSet::from([&b"small"[..]]), "{base}");
    connections(&client)
}

/// The workers have another user id if the test is run by root.
fn readable(dir: &Path) {
    fs::set_permissions(dir, Permissions::from_mode(0o755)).expect("it is ours");
}

fn site() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("big"), noise(2_000_000)).expect("room");
    fs::write(dir.path().join("small"), "small").expect("room");
    readable(dir.path());
    dir
}

#[test]
fn nginx_is_a_peer() {
    let certs = Certs::new();
    let (cert, key) = certs.files(CertOwner::Server);
    let site = site();
    let root = site.path().display();
    let tls = Nginx::with(|address, _| {
        format!(
            "server {{ listen {address} ssl http2 reuseport; root {root};\n\
             ssl_certificate {}; ssl_certificate_key {}; }}",
            cert.display(),
            key.display()
        )
    });
    let base = format!("https://{}", tls.address);
    assert_eq!(exchange_with(&base, &with(client_tls(&certs)), site.path()), 1);
    // Few streams at a time, and GOAWAY after 50 requests.
    let strict = Nginx::with(|address, _| {
        format!(
            "server {{ listen {address} http2 reuseport; root {root};\n\
             http2_max_concurrent_streams 7; keepalive_requests 50; }}"
        )
    });
    let base = format!("http://{}", strict.address);
    let known = Options { protocol: Protocol::Http2, ..Options::default() };
    let connections = exchange_with(&base, &known.into(), site.path());
    assert!((2..=6).contains(&connections), "{connections}");
}

#[test]
fn h2o_is_a_peer() {
    let certs = Certs::new();
    let (cert, key) = certs.files(CertOwner::Server);
    let site = site();
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("socket");
    let config = format!(
        "listen:\n  type: unix\n  port: {}\n  ssl:\n    certificate-file: {}\n    \
         key-file: {}\nnum-threads: 1\nhosts:\n  default:\n    paths:\n      /:\n        \
         file.dir: {}\n",
        socket.display(),
        cert.display(),
        key.display(),
        site.path().display()
    );
    let file = dir.path().join("h2o.conf");
    fs::write(&file, config).expect("room");
    let _server = ChildProcess::start(peer("h2o").arg("-c").arg(&file));
    eventually("h2o listens", || UnixStream::connect(&socket).is_ok());
    let options =
        Options { tls: Some(client_tls(&certs)), unix_socket: Some(socket), ..Options::default() };
    assert_eq!(exchange_with("https://localhost", &options.into(), site.path()), 1);
}

/// Small windows, padded frames, trailers, and few streams at a time.
#[test]
fn nghttpd_is_a_peer() {
    let certs = Certs::new();
    let site = site();
    let options = with(client_tls(&certs));
    let strict = ["-m", "7", "-w", "14", "-b", "200", "--trailer", "checked: yes"];
    for (arguments, most) in [(&[][..], 1), (&strict, 6)] {
        let server = Nghttpd::start(&certs, site.path(), arguments);
        let base = format!("https://{}", server.address);
        let connections = exchange_with(&base, &options, site.path());
        assert!((1..=most).contains(&connections), "{connections}");
        let body = noise(700_000);
        let echo = Request::with_method("POST", &format!("{base}/echo"));
        let echo = echo.body(RequestBody::Bytes(body.clone().into())).options(options.clone());
        // nghttpd resets an upload that began before its small window was known, although RFC 9113
        // §6.9.2 has it accept that.
        let mut client = client();
        fetch_many(&mut client, &format!("{base}/small"), &options, 1);
        let id = client.start(&echo.build().expect("a request"));
        client.run();
        assert!(client.recorder().body(id) == body, "{:?}", client.recorder().ended(id).result);
    }
}

const NODE: &str = r#"
const [cert, key, site] = process.argv.slice(2);
const fs = require('fs'), http2 = require('http2');
const server = http2.createSecureServer({cert: fs.readFileSync(cert), key: fs.readFileSync(key)});
server.on('stream', (stream, headers) => {
  if (headers[':method'] === 'POST') {
    stream.respond({':status': 200});
    stream.pipe(stream);
  } else {
    stream.respondWithFile(site + headers[':path']);
  }
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port + ' is the port'));
"#;

#[test]
fn node_is_a_peer() {
    let certs = Certs::new();
    let site = site();
    let script = site.path().join("server.js");
    fs::write(&script, NODE).expect("room");
    let (cert, key) = certs.files(CertOwner::Server);
    let mut command = peer("node");
    let mut server = ChildProcess::start(command.arg(&script).args([cert, key]).arg(site.path()));
    let output = server.wait_stdout(" is the port");
    let port = output.split(' ').next().expect("a number");
    let base = format!("https://127.0.0.1:{port}");
    let options = with(client_tls(&certs));
    assert_eq!(exchange_with(&base, &options, site.path()), 1);
    let body = noise(700_000);
    let echo = Request::with_method("POST", &format!("{base}/echo"));
    let echo = echo.body(RequestBody::Bytes(body.clone().into())).options(options);
    let mut client = client();
    let id = client.start(&echo.build().expect("a request"));
    client.run();
    assert!(client.recorder().body(id) == body);
}
