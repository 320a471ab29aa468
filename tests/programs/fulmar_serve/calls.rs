//! The system calls of `fulmar serve`: strace against the ledger.

use std::fs;
use std::path::PathBuf;

use fulmar_tests::curl;
use fulmar_tests::http::{HttpClient, LedgerCounts};
use fulmar_tests::process::{BY_CALLS, Serve, fulmar, peer, run};
use fulmar_tests::tree::{Tree, noise};
use rustix::process::{Pid, Signal, kill_process};

/// A server under strace.
struct TracedServer {
    serve: Serve,
    pid: Pid,
    output: PathBuf,
}

/// The time between two reads of `/.ledger`: the lines of strace and the ledger's counts.
struct LedgerPeriod {
    lines: Vec<String>,
    ledger: LedgerCounts,
    /// Its duration in whole seconds. A cached file is checked again after each.
    seconds: u64,
}

impl TracedServer {
    /// `None` where tracing is forbidden according to strace.
    fn start(tree: &Tree) -> Option<Self> {
        let probe = peer("strace").args(["-o", "/dev/null", "true"]).output().unwrap();
        if !probe.status.success() {
            let said = String::from_utf8_lossy(&probe.stderr).to_lowercase();
            assert!(said.contains("ptrace") && said.contains("not permitted"), "{said}");
            return None;
        }
        let output = tree.turn_while("strace");
        let mut command = peer("strace");
        command.args(["-f", "-s", "32", "-o"]).arg(&output).arg(fulmar()).arg("serve");
        command.arg(tree.root()).args(["--listen", "127.0.0.1:0", "--test-endpoints"]);
        command.args(BY_CALLS);
        let serve = Serve::start_command(&mut command, true);
        let strace = serve.process.id();
        let children = fs::read_to_string(format!("/proc/{strace}/task/{strace}/children"));
        let pid = children.unwrap().split_whitespace().next().and_then(|pid| pid.parse().ok());
        let pid = pid.and_then(Pid::from_raw).expect("strace runs the server");
        Some(Self { serve, pid, output })
    }

    /// Does `work` between two reads of the ledger, stops the server, and parses strace's output.
    fn session(self, work: impl FnOnce(&Serve)) -> LedgerPeriod {
        let mut client = HttpClient::connect(self.serve.address);
        let start = fulmar_sys::now();
        let before = client.ledger();
        work(&self.serve);
        let ledger = client.ledger().since(&before);
        let seconds = start.elapsed().as_secs();
        drop(client);
        kill_process(self.pid, Signal::TERM).unwrap();
        let ended = self.end();
        assert_eq!(ended, Some(0));
        let text = fs::read_to_string(&self.output).unwrap();
        LedgerPeriod { lines: between_reads(&text), ledger, seconds }
    }

    /// Waits for strace, which ends with the server.
    fn end(&self) -> Option<i32> {
        let gone = || self.exit_line();
        fulmar_tests::process::eventually("the end of the server", || gone().is_some());
        gone()
    }

    /// The exit line of the main thread, which has the number of the process.
    fn exit_line(&self) -> Option<i32> {
        let text = fs::read_to_string(&self.output).unwrap();
        let main = format!("{} ", self.pid.as_raw_nonzero());
        let mut lines = text.lines().filter(|line| line.starts_with(&main));
        let last = lines.next_back()?.split_once("+++ exited with ")?.1;
        last.split(' ').next()?.parse().ok()
    }
}

impl Drop for TracedServer {
    fn drop(&mut self) {
        let _ = kill_process(self.pid, Signal::KILL); // strace exits with it
    }
}

/// The calls of the serving thread between the first and the last read of the ledger. The
/// `recvfrom` of each read is counted before its response. A call interrupted by another thread has
/// two lines; the first one counts.
fn between_reads(text: &str) -> Vec<String> {
    let is_look = |line: &str| line.contains("\"GET /.ledger ");
    let look = text.lines().find(|line| is_look(line)).expect("a look at the ledger");
    let thread = format!("{} ", look.split(' ').next().unwrap());
    let all: Vec<_> = text.lines().filter(|line| line.starts_with(&thread)).collect();
    let first = all.iter().position(|line| is_look(line)).unwrap();
    let last = all.iter().rposition(|line| is_look(line)).unwrap();
    assert!(first < last, "two looks");
    let calls = all[first + 1..=last].iter().map(|line| line[thread.len()..].trim_start());
    calls.filter(|line| !line.starts_with(['<', '-', '+'])).map(str::to_owned).collect()
}

impl LedgerPeriod {
    fn count(&self, name: &str) -> u64 {
        let start = format!("{name}(");
        self.lines.iter().filter(|line| line.starts_with(&start)).count() as u64
    }

    fn all(&self) -> String {
        self.lines.join("\n")
    }

    /// The lines about connections with a call to `name`.
    fn lines<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.lines.iter().map(String::as_str).filter(move |line| line.starts_with(name))
    }
}

#[test]
fn the_ledger_counts_what_the_kernel_sees() {
    let tree = Tree::new();
    tree.file("small", noise(1_000));
    tree.file("large", noise(104 * 1024));
    let Some(traced) = TracedServer::start(&tree) else { return };
    let session = traced.session(|serve| {
        for targets in [&["/small", "/small", "/none"][..], &["/large"], &["/", "/bytes/70000"]] {
            let mut command = curl::plain();
            targets.iter().for_each(|target| {
                command.args(["-o", "/dev/null"]).arg(serve.url(target));
            });
            run(&mut command);
        }
    });
    for (kernel, ours) in [
        ("accept4", "accept4"),
        ("recvfrom", "recv"),
        ("sendto", "send"),
        ("sendmsg", "sendmsg"),
        ("sendfile", "sendfile"),
        ("close", "close"),
        ("shutdown", "shutdown"),
        ("epoll_ctl", "epoll_ctl"),
        ("epoll_wait", "epoll_wait"),
        ("epoll_pwait2", "epoll_pwait2"),
        ("openat2", "openat2"),
        ("pread64", "pread64"),
        ("read", "read"),
        ("write", "write"),
        ("fcntl", "fcntl"),
        ("setsockopt", "setsockopt"),
    ] {
        let (kernel_count, our_count) = (session.count(kernel), session.ledger.of(ours));
        assert_eq!(kernel_count, our_count, "{kernel}\n{:?}\n{}", session.ledger, session.all());
    }
    // fstat(3) is one or the other, depending on the C library.
    let stats = ["fstat", "newfstatat"];
    let kernel_count: u64 = stats.iter().map(|name| session.count(name)).sum();
    assert_eq!(kernel_count, stats.iter().map(|name| session.ledger.of(name)).sum::<u64>());
    assert_eq!(session.lines.len() as u64, session.ledger.total(), "{}", session.all());
    assert_eq!(session.count("accept4"), 3);
    assert_eq!(session.count("setsockopt") + session.count("fcntl"), 0);
    assert!(session.ledger.total() > 15, "{:?}", session.ledger);
}

#[test]
fn a_large_file_is_sent_by_sendfile_after_its_head() {
    let tree = Tree::new();
    tree.file("large", noise(104 * 1024));
    let Some(traced) = TracedServer::start(&tree) else { return };
    let session = traced.session(|serve| {
        let mut client = HttpClient::connect(serve.address);
        assert!(client.get("/large").body == noise(104 * 1024));
    });
    let sent: Vec<_> =
        session.lines.iter().filter(|line| line.starts_with("send")).map(String::as_str).collect();
    // The response of the first ledger read comes before.
    let [_, head, file @ ..] = &sent[..] else { panic!("{}", session.all()) };
    assert!(head.starts_with("sendto(") && head.contains("HTTP/1.1 200 OK"), "{head}");
    assert!(head.contains("MSG_MORE"), "{head}");
    assert!(!file.is_empty() && file.iter().all(|line| line.starts_with("sendfile(")), "{sent:?}");
}

#[test]
fn a_small_file_is_sent_with_its_head_in_one_call() {
    let tree = Tree::new();
    tree.file("small", noise(1_000));
    let Some(traced) = TracedServer::start(&tree) else { return };
    let session = traced.session(|serve| {
        let mut client = HttpClient::connect(serve.address);
        (0..3).for_each(|_| assert_eq!(client.get("/small").body.len(), 1_000));
    });
    // Three responses, and that of the first ledger read.
    assert_eq!(session.count("sendto"), 4, "{}", session.all());
    assert_eq!(session.count("sendmsg") + session.count("sendfile"), 0, "{}", session.all());
    assert!(session.lines("sendto(").all(|line| !line.contains("MSG_MORE")));
    // It is read from the disk once, as long as it is fresh.
    let opened = session.count("openat2");
    assert!((1..=1 + session.seconds).contains(&opened), "{}", session.all());
}

const SHORT: &str = "GET /small HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

#[test]
fn a_short_connection_costs_at_most_six_calls() {
    let tree = Tree::new();
    tree.file("small", noise(1_000));
    let connections = 20;
    let serve = Serve::start(&tree.root(), &[&["--test-endpoints"], BY_CALLS].concat());
    let mut client = HttpClient::connect(serve.address);
    client.get("/small");
    let before = client.ledger();
    // All clients have sent a request before the server continues, so the test does not depend on
    // timing.
    serve.process.pause();
    let mut clients: Vec<_> =
        (0..connections).map(|_| HttpClient::connect(serve.address)).collect();
    clients.iter_mut().for_each(|client| client.send(SHORT));
    serve.process.signal(Signal::CONT);
    for client in &mut clients {
        assert_eq!(client.read_reply().unwrap().body.len(), 1_000);
        assert_eq!(client.read_to_end().unwrap(), b"");
    }
    let calls = client.ledger().since(&before);
    for name in ["setsockopt", "getsockopt", "getsockname", "fcntl", "shutdown"] {
        assert_eq!(calls.of(name), 0, "{name}: {calls:?}");
    }
    for name in ["accept4", "close"] {
        assert_eq!(calls.of(name), connections, "{name}: {calls:?}");
    }
    // The ledger read adds a wait, `recv` and `send`.
    assert!(calls.total() <= 6 * connections + 3, "{calls:?}");
}

#[test]
fn a_short_connection_makes_no_uncounted_calls() {
    let tree = Tree::new();
    tree.file("small", noise(1_000));
    let Some(traced) = TracedServer::start(&tree) else { return };
    let session = traced.session(|serve| {
        for _ in 0..10 {
            let mut client = HttpClient::connect(serve.address);
            client.send(SHORT);
            assert_eq!(client.read_reply().unwrap().body.len(), 1_000);
            assert_eq!(client.read_to_end().unwrap(), b"");
        }
    });
    let known = ["accept4", "recvfrom", "sendto", "close", "epoll_ctl", "epoll_wait"];
    let of_the_file = ["openat2", "newfstatat", "fstat", "pread64"];
    let name = |line: &String| line.split('(').next().unwrap().to_owned();
    for name in session.lines.iter().map(name) {
        assert!(known.iter().chain(&of_the_file).any(|known| *known == name), "{name}");
    }
    // Whether the request arrives with the connection depends on the client: the first `recv` may
    // be too early, and waits are shared only between many connections.
    let closed = 11 + session.seconds; // including the file
    for (name, most) in [("accept4", 10), ("epoll_ctl", 11), ("sendto", 11), ("close", closed)] {
        assert!(session.count(name) <= most, "{name}: {}", session.all());
    }
}
