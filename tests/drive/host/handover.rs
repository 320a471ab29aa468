//! A host's listeners are handed over to the next one without losing a client.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use fulmar_host::{Error, Host, Listen, Running};
use fulmar_server::Limits;
use fulmar_tests::app::{App, app};
use fulmar_tests::http::{HttpClient, replies};
use fulmar_tests::loops::requested_options;
use fulmar_tests::process::{ChildProcess, PATIENCE, Serve, eventually};
use fulmar_tests::tree::Tree;
use rustix::process::Signal;
use tempfile::TempDir;

/// The shared paths of two hosts: listeners and control socket.
struct SharedPaths(TempDir);

impl SharedPaths {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn control(&self) -> PathBuf {
        self.0.path().join("next")
    }

    fn socket(&self) -> PathBuf {
        self.0.path().join("socket")
    }

    fn host(&self, threads: usize) -> Host<App, u64> {
        Host::new(|_| Ok(app()))
            .loop_options(requested_options())
            .listen(Listen::tcp(SocketAddr::from(([127, 0, 0, 1], 0))))
            .listen(Listen::unix(self.socket()))
            .threads(threads)
            .hand_over(self.control())
            .at_end(|app| app.requests())
    }
}

fn requests(running: Running<u64>) -> u64 {
    running.join().unwrap().iter().map(|outcome| outcome.report).sum()
}

fn end(running: Running<u64>) -> u64 {
    running.stop();
    requests(running)
}

/// One connection with one request; an error if it gets no response.
fn once(mut stream: impl Read + Write) -> io::Result<()> {
    stream.write_all(b"GET /bytes/3 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let complete = replies(&bytes)?.pop().is_some_and(|reply| reply.body.len() == 3);
    complete.then_some(()).ok_or_else(|| io::Error::other("no answer"))
}

/// Clients that connect continuously, as fast as they can.
struct ConnectingClients {
    enough: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    clients: Vec<JoinHandle<io::Result<()>>>,
}

impl ConnectingClients {
    fn new(address: SocketAddr, path: Option<&Path>) -> Self {
        let mut crowd =
            Self { enough: Arc::default(), answered: Arc::default(), clients: Vec::new() };
        for _ in 0..2 {
            crowd.add(move || {
                let stream = TcpStream::connect(address)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                once(stream)
            });
        }
        if let Some(path) = path {
            let path = path.to_owned();
            crowd.add(move || {
                let stream = UnixStream::connect(&path)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                once(stream)
            });
        }
        crowd.waits_for(50);
        crowd
    }

    fn add(&mut self, send_request: impl Fn() -> io::Result<()> + Send + 'static) {
        let (enough, answered) = (Arc::clone(&self.enough), Arc::clone(&self.answered));
        self.clients.push(std::thread::spawn(move || {
            while !enough.load(Ordering::Relaxed) {
                send_request()?;
                answered.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        }));
    }

    /// So many more are answered.
    fn waits_for(&self, more: u64) {
        let until = self.answered.load(Ordering::Relaxed) + more;
        eventually("they are answered", || {
            let failed = self.clients.iter().any(JoinHandle::is_finished);
            failed || self.answered.load(Ordering::Relaxed) >= until
        });
    }

    /// How many were answered: all.
    fn end(self) -> u64 {
        self.enough.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.join().unwrap().expect("nobody is turned away");
        }
        self.answered.load(Ordering::Relaxed)
    }
}

#[test]
fn handover_loses_no_client() {
    let place = SharedPaths::new();
    let mut running = place.host(2).start().unwrap();
    let address = running.addresses()[0].tcp().unwrap();
    let crowd = ConnectingClients::new(address, Some(&place.socket()));
    let mut answered = 0;
    // The same number of threads, fewer than sockets, and more.
    for threads in [2, 1, 3, 2, 2] {
        let next = place.host(threads).start().unwrap();
        assert_eq!(next.addresses(), running.addresses());
        answered += requests(running); // it ends by itself
        running = next;
        crowd.waits_for(50);
    }
    let asked = crowd.end();
    assert!(place.socket().exists() && place.control().exists());
    assert_eq!(answered + end(running), asked);
    assert!(!place.socket().exists() && !place.control().exists());
}

/// They are not accepted yet: they are in the queue of the old socket.
#[test]
fn queued_connections_are_served_by_the_next_host() {
    let place = SharedPaths::new();
    let limits = Limits { connections_max: 1, ..Limits::default() };
    let old = place.host(1).limits(limits).start().unwrap();
    let mut first = UnixStream::connect(place.socket()).unwrap();
    first.set_read_timeout(Some(PATIENCE)).unwrap();
    first.write_all(b"GET /stream/10000 HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    first.read_exact(&mut [0; 1000]).unwrap(); // it fills the old host
    let waiting: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = UnixStream::connect(place.socket()).unwrap();
            let send_request = b"GET /bytes/3 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
            stream.write_all(send_request).unwrap();
            stream
        })
        .collect();
    let next = place.host(1).start().unwrap();
    for mut stream in waiting {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        assert_eq!(replies(&bytes).unwrap()[0].body.len(), 3);
    }
    first.read_exact(&mut [0; 1_000_000]).unwrap(); // the old one goes on with it
    drop(first);
    assert_eq!((requests(old), end(next)), (1, 20));
}

/// Each thread has a queue of its own.
#[test]
fn every_queue_is_handed_over() {
    let place = SharedPaths::new();
    let limits = Limits { connections_max: 1, ..Limits::default() };
    let old = place.host(2).limits(limits).start().unwrap();
    let address = old.addresses()[0].tcp().unwrap();
    let send_request = "GET /delay/50 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    let waiting: Vec<_> = (0..30)
        .map(|_| {
            let mut client = HttpClient::connect(address);
            client.send(send_request);
            client
        })
        .collect();
    let next = place.host(1).start().unwrap();
    for mut client in waiting {
        assert_eq!(client.read_reply().unwrap().body, b"delayed\n");
    }
    assert_eq!(requests(old) + end(next), 30);
}

#[test]
fn the_old_host_ends_at_its_deadline() {
    let place = SharedPaths::new();
    let limits = Limits { drain_timeout: Duration::from_millis(300), ..Limits::default() };
    let old = place.host(2).limits(limits).start().unwrap();
    let mut busy = HttpClient::connect(old.addresses()[0].tcp().unwrap());
    busy.send_get("/stream/10000");
    assert_eq!(busy.read_head().unwrap().status, 200);
    let next = place.host(2).start().unwrap();
    let start = fulmar_sys::now();
    assert_eq!(requests(old), 1);
    assert!(start.elapsed() < Limits::default().drain_timeout);
    assert!(!busy.read_to_end().is_ok_and(|bytes| bytes.ends_with(b"0\r\n\r\n")));
    assert_eq!(end(next), 0);
}

#[test]
fn a_new_host_that_fails_changes_nothing() {
    let place = SharedPaths::new();
    let old = place.host(2).start().unwrap();
    let address = old.addresses()[0].tcp().unwrap();
    let crowd = ConnectingClients::new(address, Some(&place.socket()));
    for _ in 0..3 {
        let failing = Host::<App>::new(|worker| match worker.number {
            0 => Ok(app()),
            _ => Err(io::Error::other("no luck")),
        });
        let tcp = SocketAddr::from(([127, 0, 0, 1], 0));
        let failing = failing.listen(Listen::tcp(tcp)).listen(Listen::unix(place.socket()));
        let error = failing.threads(2).hand_over(place.control()).start().unwrap_err();
        assert_eq!(error.to_string(), "thread 1: no luck");
        crowd.waits_for(20);
    }
    assert!(!old.is_finished());
    let asked = crowd.end();
    // The failing hosts had taken sockets over, but had not begun to accept.
    assert_eq!(end(old), asked);
    assert!(!place.socket().exists() && !place.control().exists());
}

#[test]
fn invalid_messages_on_the_control_socket_are_ignored() {
    let place = SharedPaths::new();
    let old = place.host(1).start().unwrap();
    for said in [&b""[..], b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", b"fulmar hand-over 9\n", b"fulmar"]
    {
        let mut stream = UnixStream::connect(place.control()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(said).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        // Closed, with a reset if something was left unread.
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty(), "{answer:?}");
    }
    // A next host that takes everything over, and never becomes ready.
    let mut stream = UnixStream::connect(place.control()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"fulmar hand-over 1\n").unwrap();
    assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
    drop(stream);
    assert!(!old.is_finished());
    once(UnixStream::connect(place.socket()).unwrap()).unwrap();
    // The control socket is free for the next host.
    let next = place.host(1).start().unwrap();
    assert_eq!((requests(old), end(next)), (1, 0));
}

#[test]
fn a_foreign_control_socket_is_an_error() {
    let place = SharedPaths::new();
    let listener = std::os::unix::net::UnixListener::bind(place.control()).unwrap();
    let stranger = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let error = place.host(1).start().unwrap_err();
    assert!(matches!(error, Error::HandOver { .. }), "{error:?}");
    assert!(error.to_string().contains("next: it speaks another protocol"), "{error}");
    stranger.join().unwrap();
    assert!(!place.socket().exists());
}

#[test]
fn a_host_that_was_stopped_hands_nothing_over() {
    let place = SharedPaths::new();
    let old = place.host(1).start().unwrap();
    let address = old.addresses()[0].clone();
    let mut busy = HttpClient::connect(address.tcp().unwrap());
    busy.send_get("/stream/10000");
    assert_eq!(busy.read_head().unwrap().status, 200);
    old.stop();
    assert!(!place.control().exists());
    // Its port is reserved, and the next one is not assigned by chance.
    let mut held = None;
    eventually("its port is free", || {
        held = TcpListener::bind(address.tcp().unwrap()).ok();
        held.is_some()
    });
    let next = place.host(1).start().unwrap();
    assert_ne!(next.addresses()[0], address);
    drop(busy);
    assert_eq!((requests(old), end(next)), (1, 0));
}

#[test]
fn an_unused_listener_is_closed() {
    let place = SharedPaths::new();
    let old = place.host(1).start().unwrap();
    let address = old.addresses()[0].tcp().unwrap();
    let next = Host::new(|_| Ok(app()))
        .loop_options(requested_options())
        .listen(Listen::tcp(address)) // the address found, not the requested one
        .hand_over(place.control())
        .at_end(|app: &mut App| app.requests())
        .start()
        .unwrap();
    assert_eq!(requests(old), 0);
    assert_eq!(HttpClient::connect(address).get("/bytes/4").body.len(), 4);
    assert!(UnixStream::connect(place.socket()).is_err());
    assert_eq!(end(next), 1);
}

#[test]
fn processes_follow_each_other() {
    let (tree, place) = (Tree::new(), SharedPaths::new());
    tree.file("bytes/3", "abc");
    let control = place.control().display().to_string();
    let start = || {
        let arguments = ["--hand-over", &control, "--threads", "2", "--drain-timeout", "20"];
        Serve::start(&tree.root(), &arguments)
    };
    let mut serve = start();
    let address = serve.address;
    let crowd = ConnectingClients::new(address, None);
    let mut idle = HttpClient::connect(address);
    assert_eq!(idle.get("/bytes/3").body, b"abc");
    let mut ended: Vec<ChildProcess> = Vec::new();
    for _ in 0..3 {
        let next = start();
        assert_eq!(next.address, address, "the port that the first one was given");
        crowd.waits_for(30);
        ended.push(std::mem::replace(&mut serve, next).process);
    }
    for process in ended {
        let ended = process.wait();
        assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""));
    }
    assert_eq!(idle.read_to_end().unwrap(), b"");
    assert!(crowd.end() >= 140);
    assert_eq!(serve.end(Signal::TERM).status.code(), Some(0));
    assert!(!place.control().exists());
}
