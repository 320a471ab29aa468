//! TLS options: cipher suites, curves.

use fulmar_tests::certs::Certs;
use fulmar_tests::process::{ChildProcess, peer};

use super::both;

/// What a server with OpenSSL negotiates, and the errors of lists.
#[test]
fn tls_options_have_the_results_of_libcurl() {
    let certs = Certs::new();
    certs.issue_rsa("rsa", &["localhost"]);
    certs.issue("ec", &["localhost"]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/capi/tls.py");
    let mut command = peer("python3");
    let command = command.args(["-I", script]).arg(certs.path()).args(["rsa", "ec"]);
    let mut server = ChildProcess::start(command);
    let port = server.wait_stdout("port").replace("port ", "");
    let url = format!("https://localhost:{}/", port.trim());
    let [original, ours] = both("tls", &[url, certs.path().display().to_string()]);
    assert!(original.contains(": 0 '' TLSv1.2 ECDHE-RSA-AES128-GCM-SHA256 client"), "{original}");
    assert_eq!(ours, original);
}
