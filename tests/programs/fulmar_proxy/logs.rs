//! Log lines of `fulmar proxy` and HAProxy for the same exchange and configuration.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::PathBuf;
use std::process::Command;

use fulmar_tests::gateway::{ProxyFolder, command, end};
use fulmar_tests::process::{ChildProcess, PATIENCE, eventually, peer};
use rustix::process::Signal;

/// Log receivers: one over UDP for each format, and one at a Unix socket.
struct Readers {
    udp: Vec<(&'static str, UdpSocket)>,
    unix: UnixDatagram,
    path: PathBuf,
}

impl Readers {
    fn new(place: &ProxyFolder) -> Self {
        let socket = |words: &&'static str| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            (*words, socket)
        };
        let path = place.path("log");
        let unix = UnixDatagram::bind(&path).unwrap();
        unix.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { udp: FORMATS.iter().map(socket).collect(), unix, path }
    }

    /// The lines of the `global` section.
    fn lines(&self) -> String {
        let line = |(words, socket): &(&str, UdpSocket)| {
            format!(" log {} {words}\n", socket.local_addr().unwrap())
        };
        let udp: String = self.udp.iter().map(line).collect();
        format!("{udp} log {} local2\n log-tag balance\n", self.path.display())
    }

    /// The next datagram of each, without values that differ between runs.
    fn hear(&self) -> Vec<String> {
        let mut buffer = [0; 9000];
        let mut heard = Vec::new();
        for (words, socket) in &self.udp {
            let n = socket.recv(&mut buffer).unwrap_or_else(|error| panic!("{words}: {error}"));
            heard.push(plain(match words.starts_with("len 100 ") {
                true => short(&buffer[..n]),
                false => &buffer[..n],
            }));
        }
        let n = self.unix.recv(&mut buffer).unwrap();
        heard.push(plain(&buffer[..n]));
        heard
    }
}

/// The constant part of a line that is truncated after 100 bytes.
fn short(line: &[u8]) -> &[u8] {
    assert!(line.len() <= 101 && line.ends_with(b"\n"), "it is cut: {line:?}");
    let text = str::from_utf8(line).unwrap();
    let at = text.find(" fe be/s1 ").expect("it is longer than that");
    &line[..at]
}

/// Replaces each number by 0: times, ports and processes.
fn plain(line: &[u8]) -> String {
    let text = String::from_utf8(line.to_vec()).unwrap();
    let (priority, rest) = match text.split_once('>') {
        Some((priority, rest)) if text.starts_with('<') => (format!("{priority}>"), rest),
        _ => (String::new(), &text[..]),
    };
    // Statuses, bytes, codes and counts of the exchange are compared unchanged.
    let (head, tail) = match rest.find(" fe be/s1 ") {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let mut shown = String::new();
    for c in head.chars() {
        match c {
            '0'..='9' if shown.ends_with('0') => {}
            '0'..='9' => shown.push('0'),
            c => shown.push(c),
        }
    }
    let months =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    for month in months {
        shown = shown.replace(month, "Mon");
    }
    let shown = shown.replace("Mon  0", "Mon 0"); // days of one digit
    priority + &shown + &times_of(tail)
}

/// `0/0/1/2/3` of the exchange: which are -1, and the counts. The number of bytes is omitted:
/// HAProxy counts its internal form of a head.
fn times_of(tail: &str) -> String {
    let mut words: Vec<String> = tail.split(' ').map(str::to_owned).collect();
    if let Some(times) = words.get_mut(3) {
        let sign = |time| if time == "-1" { "-1" } else { "0" };
        *times = times.split('/').map(sign).collect::<Vec<_>>().join("/");
    }
    if let Some(bytes) = words.get_mut(5) {
        "0".clone_into(bytes);
    }
    // HAProxy may still count the connection that tested whether it listens.
    if let Some(counts) = words.get_mut(9)
        && let Some(rest) = counts.split_once('/').and_then(|(_, rest)| rest.split_once('/'))
    {
        *counts = format!("0/0/{}", rest.1);
    }
    words.join(" ")
}

fn exchange(address: SocketAddr, request: &str) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.contains("origin"), "{text}");
}

/// The log lines of these requests.
fn written(place: &ProxyFolder, readers: &Readers, start: &mut Command) -> Vec<Vec<String>> {
    let process = ChildProcess::start(start);
    place.wait();
    readers.hear(); // the connection that tested the listener has been logged
    let heard = REQUESTS.iter().map(|request| {
        exchange(place.address, request);
        readers.hear()
    });
    let heard = heard.collect();
    end(process, Signal::TERM);
    heard
}

#[test]
fn lines_are_those_of_haproxy() {
    let place = ProxyFolder::new();
    let readers = Readers::new(&place);
    for (hostname, format) in [
        ("", " option httplog\n option dontlognull"),
        (" log-send-hostname\n", " option httplog\n option dontlognull"),
        (" log-send-hostname here\n", " option dontlognull\n option httplog\n log-tag frontend"),
    ] {
        let global = readers.lines() + hostname;
        let path = place.configure(&global, &format!(" log global\n{format}"));
        let theirs = written(&place, &readers, peer("haproxy").args(["-db", "-f"]).arg(&path));
        let ours = written(&place, &readers, command().args(["-db", "-f"]).arg(&path));
        for (ours, theirs) in ours.iter().flatten().zip(theirs.iter().flatten()) {
            assert_eq!(ours, theirs, "{hostname}{format}");
        }
        assert_eq!(ours.len(), theirs.len());
    }
}

#[test]
fn standard_output_is_a_log() {
    let place = ProxyFolder::new();
    let global = " log stdout format raw local0\n log stderr format short local0 notice";
    let path = place.configure(global, " log global\n option httplog\n option dontlognull");
    let mut process = place.start(["-db", "-f", path.to_str().unwrap()]);
    let line = process.wait_stdout("\"GET / HTTP/1.1\"");
    assert!(line.contains(" fe be/s1 ") && !line.starts_with('<'), "{line}");
    let ended = end(process, Signal::USR1);
    assert!(!ended.stderr.contains("GET /"), "it is not so severe: {}", ended.stderr);
}

#[test]
fn a_sample_of_lines_is_written() {
    let place = ProxyFolder::new();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let to = socket.local_addr().unwrap();
    let global = format!(" nbthread 1\n log {to} sample 2-3:4 format raw local0");
    let path = place.configure(&global, " log global\n option httplog\n option dontlognull");
    let process = ChildProcess::start(command().args(["-db", "-f"]).arg(&path));
    eventually("it listens", || TcpStream::connect(place.address).is_ok());
    for number in 1..=8 {
        exchange(place.address, &format!("GET /{number} HTTP/1.0\r\n\r\n"));
    }
    let mut buffer = [0; 1024];
    for number in [2, 3, 6, 7] {
        let n = socket.recv(&mut buffer).unwrap();
        let line = String::from_utf8_lossy(&buffer[..n]);
        assert!(line.contains(&format!("\"GET /{number} HTTP/1.0\"")), "{line}");
    }
    end(process, Signal::TERM);
}

#[test]
fn a_reader_that_comes_late_is_found() {
    let place = ProxyFolder::new();
    let log = place.path("late");
    let global = format!(" log {} local0", log.display());
    let path = place.configure(&global, " log global\n option httplog\n option dontlognull");
    let process = place.start(["-db", "-f", path.to_str().unwrap()]);
    for _ in 0..2 {
        let reader = UnixDatagram::bind(&log).unwrap();
        reader.set_read_timeout(Some(PATIENCE)).unwrap();
        exchange(place.address, "GET /late HTTP/1.0\r\n\r\n");
        let mut buffer = [0; 1024];
        let n = reader.recv(&mut buffer).unwrap();
        assert!(String::from_utf8_lossy(&buffer[..n]).contains("\"GET /late HTTP/1.0\""));
        drop(reader);
        std::fs::remove_file(&log).unwrap();
        place.send_request().expect("a missing reader is no error");
    }
    end(process, Signal::TERM);
}

const REQUESTS: &[&str] = &[
    "GET /some/path?query HTTP/1.0\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
];

const FORMATS: &[&str] = &[
    "local0",
    "format rfc3164 local1",
    "format local daemon",
    "format rfc5424 local7 info",
    "format priority user",
    "format short local1",
    "format timed local1",
    "format iso local1",
    "format raw local1",
    "len 100 format local local1",
    "local3 debug warning",
];

/// Clients at Unix sockets had no name in the log, or an unused address.
#[test]
fn clients_of_unix_sockets_are_named_as_haproxy_names_them() {
    let place = ProxyFolder::new();
    let log = UdpSocket::bind("127.0.0.1:0").unwrap();
    log.set_read_timeout(Some(PATIENCE)).unwrap();
    let to = log.local_addr().unwrap();
    let sockets = ["http", "tcp"].map(|mode| place.path(&format!("{mode}.sock")));
    let [http, tcp] = sockets.each_ref().map(|path| path.display());
    let text = format!(
        "global\n log {to} format raw local0\ndefaults\n log global\n log-format \"%ci:%cp\"\n\
         \x20timeout client 5s\n timeout server 5s\n timeout connect 5s\n\
         frontend h\n mode http\n bind unix@{http} id 7\n http-request return status 200\n\
         frontend t\n mode tcp\n bind unix@{tcp}\n tcp-request content reject\n"
    );
    let path = place.write("unix.cfg", &text);
    for start in [&mut peer("haproxy"), &mut command()] {
        let process = ChildProcess::start(start.args(["-db", "-f"]).arg(&path));
        for (socket, name) in sockets.iter().zip(["unix:7", "unix:1"]) {
            eventually("it listens", || UnixStream::connect(socket).is_ok());
            let mut line = [0; 512];
            let mut hear = || {
                let n = log.recv(&mut line).unwrap_or_else(|error| panic!("{name}: {error}"));
                String::from_utf8_lossy(&line[..n]).trim().to_owned()
            };
            while hear() != name {} // there are also lines about the start
        }
        end(process, Signal::TERM);
    }
}
