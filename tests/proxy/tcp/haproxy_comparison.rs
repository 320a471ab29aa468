//! Mode tcp compared with HAProxy: the same configuration, clients and servers for both; either
//! side must receive the same bytes, and the logs must agree.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use fulmar_sys as sys;
use fulmar_tests::gateway::{command, end};
use fulmar_tests::origins::free_address;
use fulmar_tests::process::{ChildProcess, PATIENCE, eventually, peer};
use fulmar_tests::threads::serve_each;
use rustix::process::Signal;

/// What one end of a connection does, in order.
#[derive(Clone, Copy, Debug)]
enum Do {
    /// Sends this.
    Say(&'static [u8]),
    /// Shuts down its sending side.
    Fin,
    /// Receives this many bytes, or to the end.
    Hear(usize),
    /// Closes, whatever else arrives.
    Leave,
    /// Is gone with a reset, after a while.
    Reset,
}
use Do::{Fin, Hear, Leave, Reset, Say};

/// A frontend, a backend, and scripts for both ends. After its script each end reads for a while,
/// and then closes.
struct TcpCase {
    name: &'static str,
    /// Behind the address of `bind`.
    bind: &'static str,
    front: &'static [&'static str],
    back: &'static [&'static str],
    client: &'static [Do],
    server: &'static [Do],
}

const PLAIN: TcpCase = TcpCase {
    name: "plain",
    bind: "",
    front: &["option tcplog"],
    back: &[],
    client: &[Say(b"hi"), Fin],
    server: &[Hear(2), Say(b"yo"), Fin],
};
const EVIL: &str = "tcp-response content reject if { res.payload(0,4) -m str EVIL }";
const NO_PROXY: TcpCase = TcpCase {
    name: "what is no PROXY header",
    bind: "accept-proxy",
    front: &["option tcplog"],
    back: &[],
    client: &[Say(b"good morning, everybody\r\n")],
    server: &[],
};

#[rustfmt::skip]
const CASES: &[TcpCase] = &[
    PLAIN,
    // Deadlines end one direction.
    TcpCase { name: "a client is late", front: &["option tcplog", "timeout client 150ms"],
        client: &[Say(b"hi")], server: &[Say(b"yo")], ..PLAIN },
    TcpCase { name: "a server is late", back: &["timeout server 150ms"], client: &[Say(b"hi")],
        server: &[Say(b"yo")], ..PLAIN },
    TcpCase { name: "a client is late, and then the server", front: &["option tcplog",
        "timeout client 150ms"], back: &["timeout server 300ms"], client: &[Say(b"hi")],
        server: &[Hear(2), Say(b"yo")], ..PLAIN },
    TcpCase { name: "a tunnel is late", front: &["option tcplog", "timeout client 20ms"],
        back: &["timeout tunnel 200ms"], client: &[], server: &[], ..PLAIN },
    TcpCase { name: "a server is late after the client's end", back: &["timeout server-fin 150ms"],
        server: &[Say(b"yo")], ..PLAIN },
    TcpCase { name: "a client is late after the server's end", front: &["option tcplog",
        "timeout client-fin 150ms"], client: &[Say(b"hi")], ..PLAIN },
    TcpCase { name: "client-fin is not for who has ended", front: &["option tcplog",
        "timeout client-fin 20ms"], ..PLAIN },
    // Too late for rules: they have their last word.
    TcpCase { name: "a client is late for a rule", client: &[Say(b"hi")], server: &[],
        front: &["option tcplog", "timeout client 150ms", "tcp-request inspect-delay 10s",
        "tcp-request content accept if { req.len gt 5 }"], ..PLAIN },
    TcpCase { name: "a client is late, and rejected", client: &[Say(b"hi")], server: &[],
        front: &["option tcplog", "timeout client 150ms", "tcp-request inspect-delay 10s",
        "tcp-request content accept if { req.len gt 5 }", "tcp-request content reject"], ..PLAIN },
    TcpCase { name: "a client is late for a rule of a backend", client: &[Say(b"hi")], server: &[],
        front: &["option tcplog", "timeout client 150ms"], back: &["tcp-request inspect-delay 10s",
        "tcp-request content accept if { req.len gt 5 }"], ..PLAIN },
    TcpCase { name: "a client is late, and rejected by a backend", client: &[Say(b"hi")],
        server: &[],
        front: &["option tcplog", "timeout client 150ms", "tcp-request inspect-delay 10s",
        "tcp-request content accept if { req.len gt 5 }"], back: &["tcp-request content reject"],
        ..PLAIN },
    // Last bytes without a reader.
    TcpCase { name: "a server has a last word when its client has left", client: &[Say(b"hi")],
        server: &[Hear(usize::MAX), Say(b"bye"), Fin], ..PLAIN },
    TcpCase { name: "a server has much to say when its client has left",
        front: &["log-format %f/%s/%ts"], client: &[Say(b"hi")], server: &[Hear(usize::MAX),
        Say(&[b'x'; 4_000_000]), Fin], ..PLAIN },
    TcpCase { name: "a server stays when its client has left", back: &["timeout server 300ms"],
        client: &[Say(b"hi"), Hear(2)], server: &[Hear(2), Say(b"yo"), Hear(usize::MAX),
        Say(b"bye")], ..PLAIN },
    TcpCase { name: "a client has a last word when its server has left", client: &[Say(b"hi"),
        Hear(usize::MAX), Say(b"bye")], server: &[Hear(2), Say(b"yo"), Leave], ..PLAIN },
    // A reset of the client is one for the server, which would take a torn stream for all of it.
    TcpCase { name: "a client resets", client: &[Say(b"hi"), Reset], server: &[Hear(2)], ..PLAIN },
    TcpCase { name: "a client resets in an answer", client: &[Say(b"hi"), Hear(2), Reset],
        server: &[Hear(2), Say(b"yo")], ..PLAIN },
    TcpCase { name: "a client resets after the server's end", client: &[Say(b"hi"), Hear(2), Reset],
        ..PLAIN },
    TcpCase { name: "a server resets", client: &[Say(b"hi")], server: &[Hear(2), Say(b"yo"), Reset],
        ..PLAIN },
    // Rules on answers.
    TcpCase { name: "every answer is refused", back: &["tcp-response content reject"],
        client: &[Say(b"hi")], server: &[Say(b"yo")], ..PLAIN },
    TcpCase { name: "an answer is refused", back: &["tcp-response inspect-delay 10s", EVIL],
        server: &[Say(b"EV"), Say(b"IL")], ..PLAIN },
    TcpCase { name: "an answer is let pass", back: &["tcp-response inspect-delay 10s", EVIL],
        server: &[Say(b"GO"), Say(b"OD"), Fin], ..PLAIN },
    TcpCase { name: "an answer is too short, and ends", back: &["tcp-response inspect-delay 10s",
        "tcp-response content accept if { res.payload(0,4) -m str GOOD }",
        "tcp-response content reject"], server: &[Say(b"GO"), Fin], ..PLAIN },
    TcpCase { name: "an answer is too slow", back: &["tcp-response inspect-delay 100ms", EVIL],
        server: &[Hear(2), Say(b"EV")], ..PLAIN },
    TcpCase { name: "an answer is not waited for", back: &[EVIL], client: &[Hear(4)],
        server: &[Say(b"GOOD"), Fin], ..PLAIN },
    TcpCase { name: "the server is closed", back: &["tcp-response inspect-delay 10s",
        "tcp-response content close if { res.payload(0,4) -m str EVIL }"], client: &[Say(b"hi")],
        server: &[Say(b"EVIL")], ..PLAIN },
    TcpCase { name: "an answer sets a variable", back: &["tcp-response inspect-delay 10s",
        "tcp-response content set-var(sess.word) res.payload(0,2) if { res.len ge 2 }",
        "tcp-response content reject if { var(sess.word) -m str yo }"], ..PLAIN },
    // Silence.
    TcpCase { name: "a connection is dropped", front: &["option tcplog",
        "tcp-request connection silent-drop"], client: &[], server: &[], ..PLAIN },
    TcpCase { name: "a session is dropped", front: &["option tcplog",
        "tcp-request session silent-drop"], client: &[], server: &[], ..PLAIN },
    TcpCase { name: "content is dropped", front: &["option tcplog",
        "tcp-request content silent-drop"],
        client: &[Say(b"hi")], server: &[], ..PLAIN },
    TcpCase { name: "an answer is dropped", back: &["tcp-response inspect-delay 10s",
        "tcp-response content silent-drop if { res.len gt 0 }"], client: &[Say(b"hi")],
        server: &[Say(b"yo")], ..PLAIN },
    TcpCase { name: "a session is refused", front: &["option tcplog",
        "tcp-request session reject if { src 127.0.0.0/8 }"], server: &[], ..PLAIN },
    // Lines of the log.
    TcpCase { name: "a line without a format", front: &[], ..PLAIN },
    TcpCase { name: "nothing but a line without a format", front: &["option dontlognull"],
        client: &[Fin], server: &[Fin], ..PLAIN },
    TcpCase { name: "nothing is said", front: &["option tcplog", "option dontlognull"],
        client: &[Fin],
        server: &[Fin], ..PLAIN },
    TcpCase { name: "all is well", front: &["option tcplog", "option dontlog-normal"], ..PLAIN },
    TcpCase { name: "not all is well", front: &["option tcplog", "option dontlog-normal",
        "timeout client 100ms"], client: &[], server: &[], ..PLAIN },
    TcpCase { name: "nobody is reached", back: &["server other 127.0.0.1:1",
        "use-server other if TRUE", "retries 0"], client: &[Say(b"hi")], server: &[], ..PLAIN },
    NO_PROXY,
    TcpCase { name: "nothing instead of a PROXY header", client: &[Fin], ..NO_PROXY },
    TcpCase { name: "nothing instead of one, on a listener with a name",
        bind: "accept-proxy name door", client: &[Fin], ..NO_PROXY },
    TcpCase { name: "nothing instead of one, and no line", front: &["option dontlognull"],
        client: &[Fin], ..NO_PROXY },
    TcpCase { name: "half a PROXY header", client: &[Say(b"PROXY TCP4 1.1."), Fin], ..NO_PROXY },
    TcpCase { name: "a wrong PROXY header", client: &[Say(b"PROXY TCP4 1.1. 2\r\n")], ..NO_PROXY },
    TcpCase { name: "no PROXY header in time", front: &["option tcplog", "timeout client 100ms"],
        client: &[], ..NO_PROXY },
    TcpCase { name: "a line of one's own for errors", front: &["option tcplog",
        "error-log-format wrong:%ci:%f"], ..NO_PROXY },
    TcpCase { name: "a PROXY header where a rule says so", front: &["option tcplog",
        "tcp-request connection expect-proxy layer4 if { src 127.0.0.1 }"],
        client: &[Say(b"PROXY TCP4 1.2.3.4 5.6.7.8 9 10\r\nhi"), Fin], ..PLAIN },
    TcpCase { name: "no PROXY header where no rule says so", front: &["option tcplog",
        "tcp-request connection expect-proxy layer4 if { src 10.0.0.1 }"], ..PLAIN },
    // Ways to choose.
    TcpCase { name: "by a cookie of RDP", back: &["balance rdp-cookie",
        "tcp-request inspect-delay 5s",
        "tcp-request content accept if RDP_COOKIE"], client: &[Say(RDP), Fin],
        server: &[Hear(RDP.len()), Say(b"yo"), Fin], ..PLAIN },
    TcpCase { name: "from an address, by an interface", back: &["source 127.0.0.7 interface lo"],
        ..PLAIN },
];

/// The first packet of RDP, with a cookie (MS-RDPBCGR, §2.2.1.1).
const RDP: &[u8] = b"\x03\x00\x00\x28\x23\xe0\x00\x00\x00\x00\x00Cookie: mstshash=somebody\r\n\r\n";

/// Many connections at a time over two threads: each gets its bytes back, to the end.
#[test]
fn several_threads_serve_alike() {
    let folder = tempfile::tempdir().expect("a folder");
    let (address, echo) = (free_address(), echo());
    let config = folder.path().join("threads.cfg");
    let text = format!(
        "global\n nbthread 2\ndefaults\n mode tcp\n timeout connect 5s\n timeout client 20s\n \
         timeout server 20s\nlisten echo\n bind {address}\n balance leastconn\n \
         tcp-response inspect-delay 5s\n tcp-response content accept if {{ res.len gt 3 }}\n \
         server one {echo} maxconn 5\n server two {echo} maxconn 5\n"
    );
    std::fs::write(&config, text).expect("a file");
    let process = ChildProcess::start(command().arg("-db").arg("-f").arg(&config));
    eventually("it listens", || TcpStream::connect(address).is_ok());
    let client = |seed: u64| {
        let mut random = fastrand::Rng::with_seed(seed);
        let said: Vec<u8> = (0..300_000).map(|_| random.u8(..)).collect();
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut heard = Vec::new();
        thread::scope(|scope| {
            scope.spawn(|| {
                (&stream).write_all(&said).expect("it is taken");
                stream.shutdown(Shutdown::Write).expect("it stands");
            });
            (&stream).read_to_end(&mut heard).expect("it comes back");
        });
        assert!(heard == said, "client {seed}");
    };
    thread::scope(|scope| {
        for seed in 0..40 {
            let client = &client;
            scope.spawn(move || client(seed));
        }
    });
    end(process, Signal::TERM);
}

/// A server that echoes.
fn echo() -> SocketAddr {
    serve_each(|stream| {
        let _ = std::io::copy(&mut &stream, &mut &stream);
        let _ = stream.shutdown(Shutdown::Write);
    })
}

/// The bytes received on a connection, and how it ended.
type ReceivedText = (String, StreamEnd);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamEnd {
    No,
    Yes,
    Torn,
}

/// What there is to know of a case.
#[derive(Debug, PartialEq, Eq)]
struct CaseResult {
    client: ReceivedText,
    server: Option<ReceivedText>,
    lines: Vec<String>,
}

impl TcpCase {
    /// True if how a connection ends is to be alike, and not only that it does.
    fn tears(&self) -> bool {
        [self.client, self.server].iter().any(|script| matches!(script, [.., Reset]))
    }
}

impl CaseResult {
    /// As if all ends were in order.
    fn untorn(&self) -> (&str, bool, Option<(&str, bool)>, &[String]) {
        let of = |heard: &'_ ReceivedText| heard.1 != StreamEnd::No;
        let server = self.server.as_ref().map(|it| (&*it.0, of(it)));
        (&self.client.0, of(&self.client), server, &self.lines)
    }
}

#[test]
fn mode_tcp_is_as_haproxy_has_it() {
    // What takes longer than an end listens counts as never, which a busy machine may be wrong
    // about.
    let differs = |listens| Some(difference(listens)).filter(|shown| !shown.is_empty());
    let shown = differs(LISTENS).and_then(|_| differs(4 * LISTENS));
    let shown = shown.and_then(|_| differs(12 * LISTENS));
    assert!(shown.is_none(), "{}", shown.unwrap_or_default());
}

/// The cases with a difference, and the results of both.
fn difference(listens: Duration) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let mut ours = command();
    ours.arg("-db");
    let mut theirs = peer("haproxy");
    theirs.arg("-db");
    let ours = all(ours, &folder.path().join("ours.cfg"), listens);
    let theirs = all(theirs, &folder.path().join("theirs.cfg"), listens);
    let differs = |case: &TcpCase, ours: &CaseResult, theirs: &CaseResult| match case.tears() {
        true => ours != theirs,
        false => ours.untorn() != theirs.untorn(),
    };
    let pairs = CASES.iter().zip(ours.into_iter().zip(theirs));
    let differ = pairs.filter(|(case, (ours, theirs))| differs(case, ours, theirs));
    differ
        .map(|(case, (ours, theirs))| {
            format!("{}:\n  ours     {ours:?}\n  HAProxy's {theirs:?}\n", case.name)
        })
        .collect()
}

/// All cases at the same time, in one process.
fn all(mut proxy: Command, config: &Path, listens: Duration) -> Vec<CaseResult> {
    let mut text = "global\n log stdout format raw local0\ndefaults\n mode tcp\n \
                    timeout connect 5s\n timeout client 20s\n timeout server 20s\n"
        .to_owned();
    let mut places: Vec<(SocketAddr, Receiver<ReceivedText>)> = Vec::new();
    let origins: Vec<_> = CASES.iter().map(|case| origin(case.server, listens)).collect();
    for ((at, case), (origin, heard)) in CASES.iter().enumerate().zip(origins) {
        let address = free_address();
        let (front, back) = (case.front.join("\n "), case.back.join("\n "));
        let bind = case.bind;
        text += &format!(
            "frontend fe{at}e\n log global\n bind {address} {bind}\n {front}\n \
             default_backend be{at}e\n\
             backend be{at}e\n {back}\n server s {origin}\n"
        );
        places.push((address, heard));
    }
    std::fs::write(config, text).expect("a file");
    let process = ChildProcess::start(proxy.arg("-f").arg(config));
    let clients: Vec<_> = CASES
        .iter()
        .zip(&places)
        .map(|(case, (address, _))| {
            let (address, script) = (*address, case.client);
            thread::spawn(move || {
                let mut stream = None;
                eventually("it listens", || {
                    stream = TcpStream::connect(address).ok();
                    stream.is_some()
                });
                play(&stream.expect("it listens"), script, listens)
            })
        })
        .collect();
    let clients: Vec<_> = clients.into_iter().map(|it| it.join().expect("it ends")).collect();
    let servers: Vec<_> = places
        .iter()
        .zip(CASES)
        .map(|((_, heard), case)| {
            // A server that was contacted reports it at the end.
            let is_asked = !case.server.is_empty();
            if is_asked { heard.recv_timeout(5 * listens).ok() } else { heard.try_recv().ok() }
        })
        .collect();
    let log = end(process, Signal::USR1).stdout; // the line of the last one is still written
    let seen = clients.into_iter().zip(servers).enumerate().map(|(at, (client, server))| {
        let names = [format!("fe{at}e"), format!("be{at}e")];
        let of_case =
            |line: &&str| names.iter().any(|name| line.contains(name)) && !line.contains("Proxy ");
        CaseResult { client, server, lines: log.lines().filter(of_case).map(stripped).collect() }
    });
    seen.collect()
}

/// A server, and the bytes that it receives on its first connection.
fn origin(script: &'static [Do], listens: Duration) -> (SocketAddr, Receiver<ReceivedText>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let (told, heard): (Sender<ReceivedText>, _) = channel();
    thread::spawn(move || {
        let (stream, _) = listener.accept().expect("somebody comes");
        // It stays open longer than its client, to receive the end.
        let _ = told.send(play(&stream, script, 3 * listens));
    });
    (address, heard)
}

/// Runs its script, reads for a while, and closes.
fn play(mut stream: &TcpStream, script: &[Do], listens: Duration) -> ReceivedText {
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut heard = Vec::new();
    let mut block = [0; 4096];
    for step in script {
        // A reset shows in the received bytes.
        match step {
            Say(bytes) => drop(stream.write_all(bytes)),
            Fin => drop(stream.shutdown(Shutdown::Write)),
            Hear(size) => {
                while heard.len() < *size {
                    match stream.read(&mut block) {
                        Ok(n @ 1..) => heard.extend_from_slice(&block[..n]),
                        Err(error) if error.kind() == ErrorKind::Interrupted => {}
                        Ok(_) | Err(_) => break,
                    }
                }
            }
            Leave => return (String::from_utf8_lossy(&heard).into_owned(), StreamEnd::No),
            Reset => {
                thread::park_timeout(listens / 3); // until the sent bytes have passed
                sys::reset_on_close(stream.as_fd()).expect("a socket");
                return (String::from_utf8_lossy(&heard).into_owned(), StreamEnd::No);
            }
        }
    }
    stream.set_read_timeout(Some(listens)).expect("a timeout");
    let ended = loop {
        match stream.read(&mut block) {
            Ok(0) => break StreamEnd::Yes,
            Ok(n) => heard.extend_from_slice(&block[..n]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break StreamEnd::No,
            Err(_) => break StreamEnd::Torn,
        }
    };
    (String::from_utf8_lossy(&heard).into_owned(), ended)
}

/// A line without variable parts: dates, durations, ports, and counts.
fn stripped(line: &str) -> String {
    let is_figure = |word: &str| {
        word.contains('/') && word.chars().all(|c| c.is_ascii_digit() || "/-+".contains(c))
    };
    let without_port = |word: &str| match word.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() && port.len() > 3 => host.to_owned(),
        _ => word.to_owned(),
    };
    let words = line.split(' ').filter(|word| !word.starts_with('[') && !is_figure(word));
    words.map(without_port).collect::<Vec<_>>().join(" ")
}

/// The time that an end reads after its script: later bytes count as never.
const LISTENS: Duration = Duration::from_millis(600);
