//! TLS that ends early, and certificates that are not accepted.

use fulmar_tests::certs::Certs;
use fulmar_tests::process::{ChildProcess, peer};

use super::{both, ours};

/// An end with close_notify or without, a reset, bytes that are not TLS; at each stage.
#[test]
fn tls_that_ends_has_the_results_of_libcurl() {
    let certs = Certs::new();
    certs.issue("server", &["server.test"]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/capi/tls_ends.py");
    let mut command = peer("python3");
    let mut servers = ChildProcess::start(command.args(["-I", script]).arg(certs.path()));
    let ports = servers.wait_stdout("ports");
    let mut arguments: Vec<String> = ports.split_whitespace().skip(1).map(Into::into).collect();
    arguments.push(certs.path().display().to_string());
    let [original, tested] = both("tls_ends", &arguments);
    assert!(original.contains("half eof: 18, status 200, 3 bytes"), "{original}");
    assert_eq!(tested, original);

    // libcurl takes these for complete.
    arguments.push("cut".to_owned());
    let cut = ours("tls_ends", &arguments);
    assert!(cut.starts_with("endless eof: 18, status 200, 6 bytes"), "{cut}");
    assert!(cut.contains("line eof: 52, "), "{cut}");
}
