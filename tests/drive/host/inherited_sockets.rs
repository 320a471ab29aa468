//! Sockets from the service manager: `sd_listen_fds(3)`, with a launcher of our own.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use fulmar_tests::http::{HttpClient, replies};
use fulmar_tests::process::{ChildProcess, PATIENCE, hello, peer};

/// The example, started with these sockets.
fn given(sockets: &str, count: &str, arguments: &[&str]) -> Command {
    let launcher = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/activate.py");
    let mut command = peer("python3");
    command.arg(launcher).args([sockets, count]).arg(hello()).args(arguments);
    command
}

fn send_request(path: &Path) -> Vec<u8> {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    replies(&bytes).unwrap().pop().expect("an answer").body
}

#[test]
fn inherited_sockets_are_taken_over_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let sockets = format!("web=tcp,local={}", path.display());
    let shown = "env | grep ^LISTEN_; ls -l /proc/self/fd | grep -c socket:; echo shown";
    let mut command = given(&sockets, "", &["sh", "-c", shown]);
    // Its standard streams are no sockets, so that additional sockets would show.
    let mut process = ChildProcess::start(&mut command);
    process.wait_stdout("given web");
    process.wait_stdout("given local");
    let line = process.wait_stdout("listening on 127.0.0.1:");
    let address: SocketAddr = line.trim_end().rsplit(' ').next().unwrap().parse().unwrap();
    process.wait_stdout(&format!("listening on unix:{}", path.display()));
    let ended = process.wait();
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(!ended.stdout.contains("LISTEN_"), "{}", ended.stdout);
    assert!(ended.stdout.contains("\n0\nshown\n"), "{}", ended.stdout);
    assert!(path.exists(), "whoever made the file removes it");
    assert!(std::net::TcpStream::connect(address).is_err(), "it had a socket left");
}

#[test]
fn inherited_sockets_are_served() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let sockets = format!("web=tcp,local={}", path.display());
    let mut process = ChildProcess::start_with(&mut given(&sockets, "", &[]), Stdio::piped());
    let line = process.wait_stdout("listening on 127.0.0.1:");
    let address: SocketAddr = line.trim_end().rsplit(' ').next().unwrap().parse().unwrap();
    process.wait_stdout("listening on unix:");
    for _ in 0..20 {
        assert_eq!(HttpClient::connect(address).get("/").body, b"hello\n");
        assert_eq!(send_request(&path), b"hello\n");
    }
    process.close_stdin();
    let ended = process.wait();
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(ended.stdout.contains("40 connections"), "{}", ended.stdout);
}

#[test]
fn invalid_variables_are_reported() {
    for (sockets, count, why) in [
        ("a=tcp", "0x1", "LISTEN_FDS is not a number"),
        ("a=tcp", "4097", "LISTEN_FDS is not a number"),
        ("a=tcp", "2", "descriptor 4: Bad file descriptor"),
        ("a=file", "", "non-socket"),
    ] {
        let output = given(sockets, count, &[]).stdin(Stdio::null()).output().unwrap();
        let said = fulmar_tests::process::text(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{sockets} {count}: {said}");
    }
}

#[test]
fn sockets_for_another_process_are_left_alone() {
    let mut command = Command::new(hello());
    let variables = [("LISTEN_PID", "1"), ("LISTEN_FDS", "1"), ("LISTEN_FDNAMES", "web")];
    let output = command.envs(variables).stdin(Stdio::null()).output().unwrap();
    let said = fulmar_tests::process::text(&output.stdout);
    assert!(output.status.success(), "{}", fulmar_tests::process::text(&output.stderr));
    assert!(said.contains("listening on 127.0.0.1:") && !said.contains("given"), "{said}");
}
