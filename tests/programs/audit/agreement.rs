//! The counters agree with `strace -f -c` and with the ledger.
//!
//! strace slows a process down but changes no count. It can run together with the eBPF counter, but
//! not with ptrace, which is compared with the eBPF counter instead.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use fulmar_audit::report::CallGroup;
use fulmar_audit::{
    AuditError, BackendChoice, CallCounts, Counter, CountingBackend, KernelRefusal,
};
use fulmar_tests::curl;
use fulmar_tests::http::HttpClient;
use fulmar_tests::load::{Nginx, bound, read_request};
use fulmar_tests::process::{ChildProcess, Serve, eventually, is_asleep, peer, run, text};
use fulmar_tests::tree::Tree;
use rustix::process::Signal;

/// Calls and failures by name.
type CallTable = BTreeMap<String, (u64, u64)>;

/// The calls of a process from one idle state to the next, by the eBPF counter, which must agree
/// with strace. `None` if the machine permits no eBPF.
fn counted(pid: u32, work: impl FnOnce()) -> Option<CallCounts> {
    let counter = match Counter::join(pid, BackendChoice::Kernel) {
        Ok(counter) => counter,
        Err(AuditError::Refused(KernelRefusal::Privileges)) => return None,
        Err(error) => panic!("{error}"),
    };
    let (counts, around, theirs) = straced(&counter, work);
    assert_eq!(counts.lost, 0, "{counts:?}");
    let ours = table(&counts);
    // Attaching wakes threads up, at different times for both tools, and some wake up by
    // themselves. strace sees a part of the calls of that. All other calls are equal on both sides.
    let of = |table: &CallTable, name| table.get(name).copied().unwrap_or_default();
    let names: BTreeSet<_> = [&ours, &theirs].iter().flat_map(|it| it.keys()).collect();
    for name in names {
        let [our, woken, their] = [&ours, &around, &theirs].map(|it| of(it, name));
        let fits = our.0.abs_diff(their.0) <= woken.0 && our.1.abs_diff(their.1) <= woken.1;
        assert!(fits, "{name}: {our:?} by us, {their:?} by strace, {woken:?} around it");
    }
    let all: u64 = around.values().map(|(calls, _)| calls).sum();
    assert!(all <= REQUESTS / 4, "waking up is hardly anything: {around:?}");
    Some(counts)
}

/// Our counts of the work, our counts while strace was attached, and strace's table of both.
fn straced(counter: &Counter, work: impl FnOnce()) -> (CallCounts, CallTable, CallTable) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let summary = dir.path().join("summary");
    let mut strace = peer("strace");
    let pid = counter.pid().to_string();
    strace.args(["-f", "-c", "-U", "name,calls,errors", "-p", &pid, "-o"]).arg(&summary);
    let alone = quiet(counter);
    let mut strace = ChildProcess::start(&mut strace);
    strace.wait_stderr("attached");
    let before = quiet(counter);
    work();
    let after = quiet(counter);
    strace.signal(Signal::INT);
    strace.wait();
    let mut around = table(&before.minus(&alone));
    for (name, (calls, failed)) in table(&quiet(counter).minus(&after)) {
        let all = around.entry(name).or_default();
        *all = (all.0 + calls, all.1 + failed);
    }
    let theirs = read(&fs::read_to_string(summary).expect("it was written"));
    (after.minus(&before), around, theirs)
}

/// The counts once they have stopped growing: a waiting process makes no calls.
fn quiet(counter: &Counter) -> CallCounts {
    let mut last = counter.snapshot().expect("counts");
    eventually("it is quiet", || {
        thread::park_timeout(Duration::from_millis(100));
        let now = counter.snapshot().expect("counts");
        let grew = now.total() > last.total();
        last = now;
        !grew && is_asleep(counter.pid())
    });
    last
}

fn table(counts: &CallCounts) -> CallTable {
    let row = |(name, tally): (&String, &fulmar_audit::CallTally)| {
        (name.clone(), (tally.count, tally.failed()))
    };
    counts.calls.iter().map(row).collect()
}

/// Parses the table of strace: name, calls, and errors if any.
fn read(summary: &str) -> CallTable {
    let mut table = CallTable::new();
    for line in summary.lines() {
        let cells: Vec<_> = line.split_whitespace().collect();
        let number = |at: usize| cells.get(at).map_or(Some(0), |cell| cell.parse::<u64>().ok());
        if let (Some(calls @ 1..), Some(errors)) = (number(1), number(2))
            && cells[0] != "total"
        {
            table.insert(cells[0].to_owned(), (calls, errors));
        }
    }
    table
}

/// Requests of each run. Their connection exists before and after the run.
const REQUESTS: u64 = 1_000;

fn request(client: &mut HttpClient) {
    for _ in 0..REQUESTS {
        assert_eq!(client.get("/").status, 200);
    }
}

#[test]
fn counts_of_nginx_agree_with_strace() {
    let nginx = Nginx::start();
    let mut client = HttpClient::connect(nginx.address);
    client.get("/");
    let Some(counts) = counted(nginx.process.id(), || request(&mut client)) else { return };
    let count = |name: &str| counts.calls[name].count;
    assert_eq!((count("recvfrom"), count("writev")), (REQUESTS, REQUESTS), "{counts:?}");
    let sent = counts.calls["writev"].bytes;
    assert!(sent > 128 * REQUESTS && sent % REQUESTS == 0, "{sent} bytes");
}

#[test]
fn counts_of_haproxy_agree_with_strace() {
    let (nginx, (_holder, address)) = (Nginx::start(), bound());
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("haproxy.cfg");
    let config = format!(
        "global\n nbthread 1\ndefaults\n mode http\n timeout connect 5s\n timeout client 1m\n \
         timeout server 1m\nlisten l\n bind {address}\n server s {}\n",
        nginx.address
    );
    fs::write(&file, config).expect("a file");
    let proxy = ChildProcess::start(peer("haproxy").arg("-db").arg("-f").arg(&file));
    eventually("HAProxy listens", || TcpStream::connect(address).is_ok());
    let mut client = HttpClient::connect(address);
    client.get("/");
    let Some(counts) = counted(proxy.id(), || request(&mut client)) else { return };
    let sent = counts.calls["sendto"].count;
    assert_eq!(sent, 2 * REQUESTS, "there and back: {counts:?}");
}

#[test]
fn counts_of_fulmar_agree_with_strace_and_the_ledger() {
    let tree = Tree::new();
    tree.file("index.html", "a page\n");
    let serve = Serve::start(&tree.root(), &["--test-endpoints"]);
    let mut client = HttpClient::connect(serve.address);
    client.get("/");
    let earlier = client.ledger();
    let mut later = None;
    let Some(counts) = counted(serve.process.id(), || {
        request(&mut client);
        later = Some(client.ledger());
    }) else {
        return;
    };
    let ledger = later.expect("the ledger was requested").since(&earlier);
    for (kernel, ours) in [("recvfrom", "recv"), ("sendto", "send")] {
        assert_eq!(counts.calls[kernel].count, ledger.of(ours), "{kernel}: {counts:?}");
        assert_eq!(counts.calls[kernel].count, REQUESTS + 1);
    }
}

/// The server of the benchmarks, and its address.
fn libmicrohttpd(dir: &Path) -> (ChildProcess, SocketAddr) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/peers/libmicrohttpd.c");
    let program = dir.join("libmicrohttpd");
    run(peer("cc").arg("-o").args([&program, &source]).arg("-lmicrohttpd"));
    for name in ["104k", "1m"] {
        fs::write(dir.join(name), "a file").expect("a file");
    }
    let mut server = ChildProcess::start(Command::new(program).arg("--site").arg(dir));
    let port = server.wait_stdout("").trim().parse().expect("a port");
    (server, (Ipv4Addr::LOCALHOST, port).into())
}

#[test]
fn counts_of_libmicrohttpd_agree_with_strace() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (server, address) = libmicrohttpd(dir.path());
    let mut client = HttpClient::connect(address);
    client.get("/tiny");
    let Some(counts) = counted(server.id(), || {
        (0..REQUESTS).for_each(|_| assert_eq!(client.get("/tiny").status, 200));
    }) else {
        return;
    };
    assert_eq!(CallGroup::Send.count(&counts), REQUESTS, "{counts:?}");
    assert!(counts.calls["recvfrom"].count >= REQUESTS, "{counts:?}");
}

/// The calls of one thread of fulmar for requests of all kinds: the ledger against eBPF.
#[test]
fn counts_agree_with_the_ledger_call_by_call() {
    let tree = Tree::new();
    tree.file("index.html", "a page\n");
    tree.file("large", "l".repeat(300_000));
    let serve = Serve::start(&tree.root(), &["--test-endpoints", "--driver", "epoll"]);
    let counter = match Counter::join(serve.process.id(), BackendChoice::Kernel) {
        Ok(counter) => counter,
        Err(AuditError::Refused(KernelRefusal::Privileges)) => return,
        Err(error) => panic!("{error}"),
    };
    let mut client = HttpClient::connect(serve.address);
    client.get("/");
    let before = quiet(&counter);
    let earlier = client.ledger();
    for at in 0..100 {
        assert_eq!(client.get("/").status, 200);
        assert_eq!(client.get(&format!("/{at}")).status, 404);
        assert_eq!(client.get("/large").body.len(), 300_000);
        assert_eq!(HttpClient::connect(serve.address).get("/").status, 200);
    }
    quiet(&counter); // the last client has closed
    let later = client.ledger();
    let counts = quiet(&counter).minus(&before);
    let ledger = later.since(&earlier);
    let mut by_ledger = BTreeMap::<&str, u64>::new();
    for (name, count) in &ledger.0 {
        *by_ledger.entry(in_the_kernel(name)).or_default() += count;
    }
    for (name, tally) in &counts.calls {
        let entered = by_ledger.remove(in_the_kernel(name)).unwrap_or(0);
        // The first ledger request was counted between its receive and its send, and so was the
        // last.
        let asked = u64::from(["recvfrom", "sendto", "epoll_wait"].contains(&&name[..]));
        let outside =
            tally.count.checked_sub(entered).expect("the ledger has no more calls than the kernel");
        let own = match &name[..] {
            "epoll_wait" => asked..=asked + 20, // it sleeps again, and may wake up by itself
            _ => asked..=asked,
        };
        let known = own.contains(&outside) || OUTSIDE.contains(&&name[..]);
        assert!(known, "{name}: {} calls, {entered} in the ledger", tally.count);
    }
    assert!(by_ledger.is_empty(), "never called: {by_ledger:?}");
    assert!(counts.calls["accept4"].count >= 100 && counts.calls["sendfile"].count >= 100);
}

/// The kernel's name of a call that has another name in the ledger (docs/ledger.md).
fn in_the_kernel(name: &str) -> &str {
    match name {
        "recv" => "recvfrom",
        "send" => "sendto",
        "epoll_wait_empty" => "epoll_wait",
        "fstat" => "newfstatat",
        name => name,
    }
}

/// Calls of libraries outside the ledger (docs/ledger.md): the allocator, threads.
const OUTSIDE: &[&str] = &["brk", "mmap", "munmap", "mremap", "mprotect", "madvise", "futex"];

/// A server that responds to the first request on command, and never to the last one, so that its
/// client waits before and after.
struct Gated {
    url: String,
    open: mpsc::Sender<()>,
    last: mpsc::Receiver<()>,
}

impl Gated {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
        let (open, opened) = mpsc::channel::<()>();
        let (reached, last) = mpsc::channel();
        thread::spawn(move || {
            let (stream, _) = listener.accept().expect("the client connects");
            let mut stream = BufReader::new(stream);
            for at in 0..=REQUESTS {
                read_request(&mut stream).expect("a request");
                if at == 0 {
                    opened.recv().expect("the test goes on");
                }
                if at == REQUESTS {
                    reached.send(()).expect("the test waits");
                    let _ = opened.recv(); // until the test ends
                } else {
                    stream.get_mut().write_all(ANSWER).expect("the client reads");
                }
            }
        });
        Self { url, open, last }
    }
}

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn counts_of_a_libcurl_client_agree_with_strace() {
    let gated = Gated::start();
    let mut command = curl::plain();
    command.args(["-s", "-o", "/dev/null", &format!("{}[0-{REQUESTS}]", gated.url)]);
    let client = ChildProcess::start(&mut command);
    let Some(counts) = counted(client.id(), || {
        gated.open.send(()).expect("the server waits");
        gated.last.recv().expect("all are answered but the last");
    }) else {
        return;
    };
    let count = |name: &str| counts.calls[name].count;
    assert_eq!(count("sendto"), REQUESTS, "from the second to the last: {counts:?}");
    assert!(count("recvfrom") >= REQUESTS && count("poll") >= REQUESTS, "{counts:?}");
}

/// A program with the same calls in every run: threads, children, errors and a signal.
const SCRIPT: &str = "trap 'x=1' USR1; for i in 1 2 3; do (cd /nowhere); kill -USR1 $$; done; \
                      setsid sh -c 'read line' </dev/null; echo said >/dev/null; exit 3";

fn whole(method: BackendChoice) -> CallCounts {
    let mut command = Command::new("/bin/dash");
    command.args(["-c", SCRIPT]).env_clear().stderr(std::process::Stdio::null());
    let counter = Counter::start(command, method).expect("it starts");
    let end = counter.wait(Some(fulmar_tests::process::PATIENCE)).expect("it ends");
    assert!(
        matches!(end, Some(fulmar_audit::CounterEnd::Ended(status)) if status.code() == Some(3))
    );
    counter.snapshot().expect("counts")
}

#[test]
fn both_counters_agree_about_the_same_work() {
    let traced = whole(BackendChoice::Trace);
    assert_eq!((traced.backend, traced.lost), (CountingBackend::Ptrace, 0), "{traced:?}");
    assert!(traced.calls["execve"].count >= 2 && traced.calls["chdir"].failed() == 3, "{traced:?}");
    let counter = whole(BackendChoice::Best);
    if counter.backend == CountingBackend::Ebpf {
        assert_eq!(counter.calls, traced.calls);
        assert_eq!((counter.threads, counter.processes), (traced.threads, traced.processes));
    }
}

/// `strace -f -c` of a whole program, from its `execve` on, with its descendants.
#[test]
fn counts_from_the_first_call_agree_with_strace() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let summary = dir.path().join("summary");
    let mut strace = peer("strace");
    strace.args(["-f", "-c", "-U", "name,calls,errors", "-o"]).arg(&summary);
    strace.args(["/bin/dash", "-c", SCRIPT]).env_clear();
    let ended = ChildProcess::start(&mut strace).wait();
    let said = text(ended.stderr.as_bytes()).to_lowercase();
    if said.contains("not permitted") {
        return;
    }
    let counts = whole(BackendChoice::Best);
    // `rt_sigreturn` has no result of its own. strace shows a register instead.
    let without = |mut table: CallTable| {
        table.entry("rt_sigreturn".into()).or_default().1 = 0;
        table
    };
    let theirs = read(&fs::read_to_string(summary).expect("it was written"));
    assert_eq!(without(table(&counts)), without(theirs));
}
