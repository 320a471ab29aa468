//! Every path of a response and a body: from memory, from a file with and without the kernel's
//! help, in chunks, in parts, as it is produced; over TCP and over TLS, in every kind of loop, at
//! full speed and byte by byte. The bytes are the same.

use std::net::SocketAddr;
use std::path::Path;

use fulmar_serve::{Files, FilesOptions};
use fulmar_server::{HandlerApp, Limits, ServerEngine, Stop};
use fulmar_sys as sys;
use fulmar_tests::app::FilesEngine;
use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::curl::Curl;
use fulmar_tests::http::HttpReply;
use fulmar_tests::https::{layers, server_tls};
use fulmar_tests::loops::{LISTENER, Loop, turn_while};
use fulmar_tests::tests_in_every_loop;
use fulmar_tests::tree::{Tree, noise};
use fulmar_tls::ServerTls;

fn start<L: Loop<Engine = FilesEngine>>(root: &Path, tls: Option<ServerTls>) -> (L, SocketAddr) {
    let options = FilesOptions { test_endpoints: true, ..FilesOptions::new(root) };
    let files = Files::open(&options).unwrap();
    let app = HandlerApp::new(files, sys::now(), sys::wall_clock);
    let mut engine = ServerEngine::new(sys::now(), app, Limits::default(), Stop::new());
    engine.add_listener(LISTENER, tls.map(layers));
    L::start(engine)
}

/// Over TLS or not, in the version of this option of curl.
fn every_way<L: Loop<Engine = FilesEngine>>(tls: bool, version: &str) {
    let (tree, certs) = (Tree::new(), Certs::new());
    let len = if L::SLOWER == 1 { 4_000_000 } else { 20_000 };
    let large = noise(len);
    tree.file("large", &large);
    tree.file("small", noise(200));
    let body = &large[..len / 4]; // in chunks of a byte it is six times as much
    tree.file("upload", body);
    let (mut driver, address) =
        start::<L>(&tree.root(), tls.then(|| server_tls(&certs, CertOwner::Server)));
    let scheme = if tls { "https" } else { "http" };
    let ca = certs.ca().display().to_string();
    let upload = format!("@{}", tree.root().join("upload").display());
    let mut send_request = |target: &str, arguments: &[&str]| -> HttpReply {
        let url = format!("{scheme}://127.0.0.1:{}{target}", address.port());
        let curl =
            Curl::new(&url).with(&["--cacert", &ca, "-H", "Expect:", version]).with(arguments);
        turn_while(&mut driver, || curl.run().reply)
    };

    let whole = send_request("/large", &[]);
    assert!(whole.status == 200 && whole.body == large, "from a file");
    let small = send_request("/small", &[]);
    assert!(small.status == 200 && small.body == noise(200), "from memory, with its head");
    let part = send_request("/large", &["-H", "Range: bytes=1000-10999"]);
    assert!(part.status == 206 && part.body == large[1_000..11_000], "a part of a file");
    let parts = send_request("/large", &["-H", "Range: bytes=0-9999,15000-15999,-5"]);
    assert_eq!(parts.status, 206);
    for span in [0..10_000, 15_000..16_000, len - 5..len] {
        let part = &large[span];
        assert!(parts.body.windows(part.len()).any(|found| found == part), "parts of a file");
    }
    let endpoint = send_request(&format!("/bytes/{len}"), &[]);
    assert!(endpoint.status == 200 && endpoint.body.len() == len, "piece by piece from memory");
    let sized = send_request("/echo", &["--data-binary", &upload]);
    assert!(sized.status == 200 && sized.body == body, "a body comes in and goes out");
    let chunked =
        send_request("/echo", &["--data-binary", &upload, "-H", "Transfer-Encoding: chunked"]);
    assert!(chunked.status == 200 && chunked.body == body, "the same in chunks");
    let coding = (version == HTTP1).then_some("chunked"); // HTTP/2 has frames instead
    assert_eq!(chunked.field("transfer-encoding"), coding);
    assert_eq!(send_request("/delay/5", &[]).body, b"delayed\n", "later");
    assert_eq!(send_request("/nothing", &[]).status, 404);
    driver.turn_until(|driver| driver.engine().connections() == 0);
}

fn every_way_over_tcp<L: Loop<Engine = FilesEngine>>() {
    every_way::<L>(false, HTTP1);
}

fn every_way_over_tls<L: Loop<Engine = FilesEngine>>() {
    every_way::<L>(true, HTTP1);
}

fn every_way_in_http2_over_tcp<L: Loop<Engine = FilesEngine>>() {
    every_way::<L>(false, "--http2-prior-knowledge");
}

fn every_way_in_http2_over_tls<L: Loop<Engine = FilesEngine>>() {
    every_way::<L>(true, "--http2");
}

const HTTP1: &str = "--http1.1";

tests_in_every_loop!(at_any_pace: [
    every_way_over_tcp,
    every_way_over_tls,
    every_way_in_http2_over_tcp,
    every_way_in_http2_over_tls,
]);
