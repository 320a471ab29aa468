//! Routes through proxies: HTTPS proxies, `CURLOPT_RESOLVE`, `CURLOPT_CONNECT_TO`,
//! `CURLOPT_CONNECT_ONLY`.

use fulmar_tests::certs::Certs;
use fulmar_tests::process::{ChildProcess, peer};

use super::both;

/// Requests, tunnels and TLS in TLS through a proxy with TLS, with its own trust and pins; other
/// hosts and given addresses; connections for the application.
#[test]
fn proxies_are_used_as_by_libcurl() {
    let certs = Certs::new();
    certs.issue("proxy", &["localhost", "proxy.test"]);
    certs.issue("server", &["localhost", "server.test"]);
    let others = Certs::new();
    std::fs::copy(others.ca(), certs.path().join("other.pem")).expect("a file");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/capi/proxies.py");
    let mut command = peer("python3");
    let mut servers = ChildProcess::start(command.args(["-I", script]).arg(certs.path()));
    let ports = servers.wait_stdout("ports");
    let mut arguments: Vec<String> = ports.split_whitespace().skip(1).map(Into::into).collect();
    arguments.push(certs.path().display().to_string());
    let [original, ours] = both("proxies", &arguments);
    assert!(original.contains("# TLS in TLS\n0, status 200, CONNECT 200, 1 new"), "{original}");
    assert_eq!(ours, original);
}
