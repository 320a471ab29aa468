//! The examples of servers work as documented: each is tested by a client that shares no code with
//! it.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdin, Command, Stdio};

use fulmar_tests::http::{HttpClient, HttpReply};
use fulmar_tests::process::{PATIENCE, example};
use tungstenite::Message;

/// A running example.
struct Example {
    child: Child,
    address: SocketAddr,
}

impl Example {
    fn start(name: &str) -> Self {
        Self::start_with(name, &[])
    }

    fn start_with(name: &str, arguments: &[&OsStr]) -> Self {
        let mut command = Command::new(example(name));
        command.arg("127.0.0.1:0").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut line = String::new();
        let output = child.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut line).expect("it says where it listens");
        let address = line.trim_end().trim_end_matches('/').rsplit('/').next();
        let address = address.and_then(|address| address.parse().ok());
        Self { child, address: address.unwrap_or_else(|| panic!("{name} says {line:?}")) }
    }

    fn client(&self) -> HttpClient {
        HttpClient::connect(self.address)
    }

    fn input(&mut self) -> &mut ChildStdin {
        self.child.stdin.as_mut().expect("it is piped")
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn send_request(client: &mut HttpClient, method: &str, target: &str, body: &str) -> HttpReply {
    let len = body.len();
    client.send(format!(
        "{method} {target} HTTP/1.1\r\nHost: h\r\nContent-Length: {len}\r\n\r\n{body}"
    ));
    client.read_reply().expect("a reply")
}

#[test]
fn smallest() {
    let example = Example::start("smallest");
    for _ in 0..2 {
        assert_eq!(example.client().get("/").body, b"hello\n");
    }
}

#[test]
fn router() {
    let example = Example::start("router");
    let mut client = example.client();
    let made = send_request(&mut client, "POST", "/notes", "buy milk");
    assert_eq!((made.status, made.field("location")), (201, Some("/notes/0")));
    assert_eq!(client.get("/notes/0").body, b"buy milk\n");
    assert_eq!(client.get("/notes?x=1").body, b"0 buy milk\n");
    assert_eq!(client.get("/notes/1").status, 404);
    assert_eq!(client.get("/elsewhere").status, 404);
    let refused = send_request(&mut client, "DELETE", "/notes/0", "");
    assert_eq!((refused.status, refused.field("allow")), (405, Some("GET, HEAD")));
    assert_eq!(send_request(&mut client, "POST", "/notes", &"x".repeat(100_000)).status, 413);
}

#[test]
fn websocket() {
    let example = Example::start("websocket");
    invalid_handshakes_are_refused(&example);
    let stream = TcpStream::connect(example.address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a good time");
    let url = format!("ws://{}/", example.address);
    let (mut socket, _) = tungstenite::client(url, stream).expect("a handshake");
    for message in [
        Message::text("short"),
        Message::binary(vec![7; 1_000_000]),
        Message::text("x".repeat(70_000)),
    ] {
        socket.send(message.clone()).expect("it takes messages");
        assert!(socket.read().expect("an echo") == message);
    }
    socket.close(None).expect("it closes");
    while socket.read().is_ok() {}
}

/// RFC 6455 §4.2, RFC 9110 §15.5.22.
fn invalid_handshakes_are_refused(example: &Example) {
    let upgrade = "Connection: keep-alive, Upgrade\r\nUpgrade: foo, WebSocket\r\n";
    let version = "Sec-WebSocket-Version: 13\r\n";
    let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let get = |fields: &[&str]| format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", fields.concat());
    let (not_asked, other_version) = ((Some("websocket"), None), (Some("websocket"), Some("13")));
    for (request, status, fields) in [
        (get(&[]), 426, not_asked),
        (get(&[key, version]), 426, not_asked),
        (get(&[key, version, "Upgrade: websocket\r\n"]), 426, not_asked),
        (get(&[key, version, "Connection: upgrade\r\n"]), 426, not_asked),
        (get(&[key, version, "Connection: upgrade\r\nUpgrade: h2c\r\n"]), 426, not_asked),
        (get(&[upgrade, key]), 426, other_version),
        (get(&[upgrade, key, "Sec-WebSocket-Version: 12\r\n"]), 426, other_version),
        (get(&[upgrade, "Sec-WebSocket-Version: 8\r\n"]), 426, other_version),
        (get(&[upgrade, version]), 400, (None, None)),
        (get(&[upgrade, version, "Sec-WebSocket-Key: short\r\n"]), 400, (None, None)),
        (get(&[upgrade, version, key, key]), 400, (None, None)),
        (get(&[upgrade, version, key]).replacen("GET", "PUT", 1), 405, (None, None)),
    ] {
        let mut client = example.client();
        client.send(&request);
        let reply = client.read_reply().expect("a reply");
        assert_eq!(reply.status, status, "{request}");
        let found = (reply.field("upgrade"), reply.field("sec-websocket-version"));
        assert_eq!(found, fields, "{request}");
        assert_eq!(client.get("/").status, 426, "the connection goes on after {request}");
    }
    let mut client = example.client();
    client.send(get(&[upgrade, version, key]));
    let reply = client.read_head().expect("a reply");
    // The example of RFC 6455 §1.3.
    let accept = Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    assert_eq!((reply.status, reply.field("sec-websocket-accept")), (101, accept));
}

#[test]
fn events() {
    let example = Example::start("events");
    let mut listeners: Vec<_> = (0..4).map(|_| example.client()).collect();
    for listener in &mut listeners {
        listener.send_get("/events");
        let head = listener.read_head().expect("a head");
        assert_eq!(head.field("content-type"), Some("text/event-stream"));
    }
    let mut speaker = example.client();
    assert_eq!(send_request(&mut speaker, "POST", "/say", "hello\nworld").body, b"4 clients\n");
    let event = b"19\r\ndata: hello\ndata: world\n\n\r\n";
    for listener in &mut listeners {
        assert_eq!(listener.read_bytes(event.len()), event);
    }
}

#[test]
fn forms() {
    let dir = tempfile::tempdir().expect("a directory");
    let example = Example::start_with("forms", &[dir.path().as_os_str()]);
    let mut client = example.client();
    assert!(client.get("/").body.starts_with(b"<!doctype html>"));
    let picture = "x".repeat(100_000);
    let part = |name: &str, body: &str| {
        format!("--b\r\nContent-Disposition: form-data; name={name}\r\n\r\n{body}\r\n")
    };
    let file = format!(
        "--b\r\nContent-Disposition: form-data; name=picture; filename=\"../cat\"\r\n\r\n\
         {picture}\r\n--b--\r\n"
    );
    let body = part("title", "cat") + &file;
    let len = body.len();
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Type: multipart/form-data; boundary=b\r\n\
         Content-Length: {len}\r\n\r\n{body}"
    ));
    let reply = client.read_reply().expect("a reply");
    assert_eq!((reply.status, &*reply.body), (201, &b"cat: 100000 bytes\n"[..]));
    let kept: Vec<_> = std::fs::read_dir(dir.path()).expect("it is there").flatten().collect();
    assert_eq!(kept.len(), 1);
    assert_eq!(std::fs::read(kept[0].path()).expect("a file"), picture.as_bytes());
    assert_eq!(send_request(&mut client, "POST", "/", "x").status, 415);
}

#[test]
fn workers() {
    let example = Example::start("workers");
    let mut clients: Vec<_> = (0..8).map(|_| example.client()).collect();
    clients.iter_mut().for_each(|client| client.send_get("/fibonacci/20"));
    for client in &mut clients {
        assert_eq!(client.read_reply().expect("a reply").body, b"6765\n");
    }
    assert_eq!(clients[0].get("/fibonacci/41").status, 404);
}

#[test]
fn embedded() {
    let mut example = Example::start("embedded");
    let mut client = example.client();
    assert_eq!(client.get("/").body, b"nothing yet\n");
    example.input().write_all(b"words\n").expect("it reads");
    while client.get("/").body != b"words\n" {}
    drop(example.child.stdin.take());
    assert!(example.child.wait().expect("it ends").success());
}
