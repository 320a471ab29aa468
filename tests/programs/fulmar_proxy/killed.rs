//! A server is killed under load and restarted: only its current exchanges are lost.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use fulmar_tests::client_threads::{ClientThreads, connect, repeat_requests};
use fulmar_tests::gateway::{ProxyFolder, end};
use fulmar_tests::load::bound;
use fulmar_tests::process::{ChildProcess, eventually, peer};
use rustix::process::Signal;
use tempfile::TempDir;

/// An nginx that is killed and restarted on the same port.
struct Mortal {
    name: char,
    address: SocketAddr,
    process: Option<ChildProcess>,
    dir: TempDir,
    _holder: OwnedFd, // of its port while nginx is down
}

impl Mortal {
    /// Serves its name and a long body.
    fn start(name: char) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (holder, address) = bound();
        let path = dir.path().display();
        let conf = format!(
            "daemon off; master_process off; pid {path}/pid; error_log stderr crit;\n\
             events {{ worker_connections 1024; }}\n\
             http {{ access_log off; client_body_temp_path {path}/body; \
             proxy_temp_path {path}/proxy; fastcgi_temp_path {path}/fastcgi; \
             uwsgi_temp_path {path}/uwsgi; scgi_temp_path {path}/scgi;\n\
             server {{ listen {address} reuseport; add_header X-Name {name}; \
             location / {{ return 200 origin; }} location /long {{ root {path}; }} }} }}\n"
        );
        std::fs::write(dir.path().join("nginx.conf"), conf).unwrap();
        std::fs::write(dir.path().join("long"), vec![b'x'; LONG]).unwrap();
        let mut this = Self { name, address, process: None, dir, _holder: holder };
        this.revive();
        this
    }

    fn revive(&mut self) {
        let mut command = peer("nginx");
        command.arg("-p").arg(self.dir.path()).args(["-e", "stderr", "-c", "nginx.conf"]);
        self.process = Some(ChildProcess::start(&mut command));
        eventually("nginx listens", || TcpStream::connect(self.address).is_ok());
    }

    fn kill(&mut self) {
        let process = self.process.take().unwrap();
        process.signal(Signal::KILL);
        process.wait();
    }

    /// True if the proxy uses this server for some requests.
    fn is_used(&self, place: &ProxyFolder) -> bool {
        let name = format!("X-Name: {}\r\n", self.name);
        (0..4).any(|_| place.send_request().unwrap().contains(&name))
    }
}

/// Lost exchanges of one kind.
#[derive(Clone, Default)]
struct LostExchanges(Arc<Mutex<Vec<String>>>);

/// Number of a client's completed exchanges.
type Acts = Arc<AtomicU64>;

impl LostExchanges {
    /// Starts a client, which continues after losses.
    fn watch(
        &self,
        crowd: &mut ClientThreads,
        act: impl Fn(&AtomicU64) -> Result<(), String> + Send + 'static,
    ) -> Acts {
        let (lost, acts) = (self.clone(), Acts::default());
        let common_part = Arc::clone(&acts);
        crowd.add(move |count| {
            act(count).unwrap_or_else(|error| lost.0.lock().unwrap().push(error));
            common_part.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        acts
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// Waits until every client has completed its current exchange and one more.
fn wait_for_all(all: &[Acts]) {
    let count = |acts: &Acts| acts.load(Ordering::Relaxed);
    let before: Vec<u64> = all.iter().map(count).collect();
    let has_acted = |(acts, before): (&Acts, &u64)| count(acts) >= before + 2;
    eventually("all clients are active", || all.iter().zip(&before).all(has_acted));
}

/// A request on a new connection: a response with `status` 200 that ends in `body`.
fn exchange(address: SocketAddr, request: &str, len: usize, count: &AtomicU64) -> ExchangeResult {
    let mut stream = connect(address)?;
    let sent =
        stream.write_all(format!("{request}Host: h\r\nConnection: close\r\n\r\n").as_bytes());
    sent.map_err(|error| format!("send: {error}"))?;
    let mut got = Vec::new();
    stream.read_to_end(&mut got).map_err(|error| format!("receive: {error}"))?;
    let head = got.windows(4).position(|it| it == b"\r\n\r\n").ok_or("no answer")?;
    if !got.starts_with(b"HTTP/1.1 200 ") || got.len() != head + 4 + len {
        return Err(String::from_utf8_lossy(&got[..head]).into_owned());
    }
    count.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

type ExchangeResult = Result<(), String>;

/// Kills each of two servers in turn under load. Passes the losses of GET requests, of
/// non-idempotent requests and of long bodies to `asserts`. Returns the proxy's log.
fn kill_under_load(mode: &str, asserts: impl Fn([Vec<String>; 3])) -> String {
    let place = ProxyFolder::new();
    let mut servers = [Mortal::start('a'), Mortal::start('b')];
    let text = format!(
        "global\n nbthread 2\n log stdout format raw local0\n\
         defaults\n mode {mode}\n log global\n option {mode}log\n timeout client 1m\n \
         timeout server 1m\n timeout connect 10s\n option redispatch\n retries 3\n \
         default-server check inter 50ms fall 2 rise 2\n\
         frontend fe\n bind {}\n default_backend be\n\
         backend be\n {}\n server a {}\n server b {}\n",
        place.address,
        if mode == "http" { "retry-on conn-failure empty-response" } else { "balance roundrobin" },
        servers[0].address,
        servers[1].address,
    );
    let path = place.write("proxy.cfg", &text);
    let process = place.start(["-db", "-f", path.to_str().unwrap()]);
    let [gets, posts, longs] = [(); 3].map(|()| LostExchanges::default());
    let (mut crowd, address) = (ClientThreads::default(), place.address);
    let mut acts = Vec::new();
    for _ in 0..2 {
        let get = move |count: &_| exchange(address, "GET / HTTP/1.1\r\n", 6, count);
        let keep = move |count: &_| repeat_requests(connect(address)?, 50, b"origin", count);
        let head = "POST / HTTP/1.1\r\nContent-Length: 0\r\n";
        let post = move |count: &_| exchange(address, head, 6, count);
        acts.extend([gets.watch(&mut crowd, get), gets.watch(&mut crowd, keep)]);
        acts.push(posts.watch(&mut crowd, post));
    }
    let long = move |count: &_| exchange(address, "GET /long HTTP/1.1\r\n", LONG, count);
    acts.push(longs.watch(&mut crowd, long));
    for at in [0, 1, 0] {
        crowd.wait(100);
        servers[at].kill();
        crowd.wait(200);
        wait_for_all(&acts); // all losses are recorded
        eventually("it is not used any more", || !servers[at].is_used(&place));
        asserts([&gets, &posts, &longs].map(LostExchanges::take));
        servers[at].revive();
        eventually("it is used again, by its checks", || servers[at].is_used(&place));
        crowd.wait(100);
        let lost = [&gets, &posts, &longs].map(LostExchanges::take).concat();
        assert_eq!(lost, Vec::<String>::new(), "nothing while a server comes back");
    }
    assert_eq!(crowd.end(), Vec::<String>::new());
    let ended = end(process, Signal::USR1);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    ended.stdout
}

#[test]
fn a_killed_server_costs_only_requests_that_cannot_be_repeated() {
    let common_part = Mutex::new(0);
    let log = kill_under_load("http", |[gets, posts, longs]| {
        assert_eq!(gets, Vec::<String>::new(), "they go to the other one");
        // Each thread may lose one exchange per client and a few more, while the sockets of the
        // killed server are closed. A leak would lose hundreds.
        assert!(posts.len() <= 8 && longs.len() <= 4, "{posts:?} {longs:?}");
        assert!(posts.iter().all(|lost| lost.starts_with("HTTP/1.1 502 ")), "{posts:?}");
        *common_part.lock().unwrap() += posts.len();
    });
    let lines = log.lines().filter(|line| line.contains(" fe be/"));
    let failed: Vec<&str> = lines.filter(|line| line.contains(" 502 ")).collect();
    assert_eq!(failed.len(), common_part.into_inner().unwrap(), "{failed:?}");
    assert!(failed.iter().all(|line| line.contains(" SH-- ")), "{failed:?}");
}

#[test]
fn a_killed_server_costs_only_connections_that_were_on_it() {
    kill_under_load("tcp", |[gets, posts, longs]| {
        assert!(gets.len() <= 4 && posts.len() <= 2 && longs.len() <= 1, "{gets:?} {posts:?}");
    });
}

/// Long enough to be in transfer when a server is killed.
const LONG: usize = 4 << 20;
