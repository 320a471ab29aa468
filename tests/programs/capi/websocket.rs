//! WebSockets: the installed library is built without them, so the output is compared with a file.

use fulmar_tests::certs::Certs;
use fulmar_tests::process::{ChildProcess, peer};

use super::ours;

/// `curl_ws_send` and `curl_ws_recv` with TLS and without, parts of frames, fragments, PINGs,
/// frames for callbacks, raw mode; servers that refuse, break the protocol, or leave.
#[test]
fn frames_are_sent_and_received() {
    let certs = Certs::new();
    certs.issue("server", &["localhost"]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/capi/websocket.py");
    let mut command = peer("python3");
    let mut server = ChildProcess::start(command.args(["-I", script]).arg(certs.path()));
    let ports = server.wait_stdout("ports");
    let mut arguments: Vec<String> = ports.split_whitespace().skip(1).map(Into::into).collect();
    arguments.push(certs.path().display().to_string());
    assert_eq!(ours("websocket", &arguments), include_str!("websocket.txt"));
}
