//! Places at servers, shared by the threads of a proxy: never too many, and no waiter is forgotten.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use fulmar_haproxy::{BackendConfig, BackendId, Mode, ServerConfig};
use fulmar_proxy::balance::{NextWaiting, Placement, WaitQueue, Wants};
use fulmar_proxy::{BindId, Live, Proxy, Stat, Stop, Wake};
use fulmar_sys as sys;
use fulmar_tests::http::HttpClient;
use fulmar_tests::loops::{LISTENER, Loop, OwnLoop};
use fulmar_tests::tcp_proxy::config;
use fulmar_tests::test_proxy::{self, EchoPages, RecordingJournal, server};
use fulmar_tests::threads::serve_each;

/// A server that responds to one request on each connection, and counts concurrent ones.
fn origin() -> (SocketAddr, Arc<AtomicUsize>) {
    let (inside, most) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&most);
    (serve_each(move |stream| serve(stream, &inside, &seen)), most)
}

fn serve(stream: TcpStream, inside: &AtomicUsize, most: &AtomicUsize) {
    let mut lines = BufReader::new(&stream).lines();
    if lines.by_ref().map_while(Result::ok).find(String::is_empty).is_none() {
        return;
    }
    most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
    (0..20).for_each(|_| thread::yield_now());
    inside.fetch_sub(1, Ordering::SeqCst); // before the end can be visible
    let _ = (&stream).write_all(ANSWER);
}

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";

fn live(backend: BackendConfig, threads: usize) -> Arc<Live> {
    let mut frontend = test_proxy::frontend();
    frontend.mode = backend.mode;
    Arc::new(Live::new(config(frontend, [backend]), threads))
}

fn start(live: &Arc<Live>, thread: usize) -> (OwnLoop<Proxy>, SocketAddr) {
    let (journal, pages) = (Box::new(RecordingJournal::default()), Box::new(EchoPages));
    let mut proxy =
        Proxy::new(sys::now(), Arc::clone(live), thread, journal, pages, Stop::default());
    proxy.add_listener(LISTENER, BindId { frontend: 0, bind: 0 }, None);
    OwnLoop::start(proxy)
}

/// Clients of both threads of a proxy want more places than there are, and all get one.
fn share(mode: Mode, places: u32) {
    let (address, most) = origin();
    let limited = ServerConfig { connections_max: places, ..server("s1", address) };
    let live = live(BackendConfig { mode, ..test_proxy::backend([limited]) }, THREADS);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (tell, told) = channel();
        for thread in 0..THREADS {
            let (live, done, tell) = (&live, &done, tell.clone());
            scope.spawn(move || {
                let (mut driver, address) = start(live, thread);
                tell.send((thread, address, driver.waker())).expect("it is heard");
                while !done.load(Ordering::Relaxed) {
                    driver.turn(Duration::from_millis(20));
                }
            });
        }
        let mut proxies: Vec<_> = told.iter().take(THREADS).collect();
        proxies.sort_by_key(|proxy| proxy.0);
        let addresses: Vec<_> = proxies.iter().map(|proxy| proxy.1).collect();
        let wake = |waker: fulmar_drive::Waker| Box::new(move || waker.wake()) as Wake;
        live.wakers.set(proxies.into_iter().map(|proxy| wake(proxy.2)));
        let clients = (0..CLIENTS).map(|client| {
            let addresses = addresses.clone();
            scope.spawn(move || {
                for request in 0..REQUESTS {
                    let mut client = HttpClient::connect(addresses[(client + request) % THREADS]);
                    client.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
                    assert_eq!(client.read_reply().expect("an answer").status, 200);
                }
            })
        });
        let clients: Vec<_> = clients.collect();
        let results: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        done.store(true, Ordering::Relaxed);
        assert!(results.iter().all(Result::is_ok), "everybody is served");
    });
    assert!(most.load(Ordering::SeqCst) <= places as usize, "at most so many at a time");
    assert_eq!(
        (live.backends[0].group.queued(), live.backends[0].group.members()[0].queued()),
        (0, 0)
    );
}

#[test]
fn threads_of_mode_http_share_slots() {
    share(Mode::Http, 1);
    share(Mode::Http, 3);
}

/// Each thread kept as many as all of them may.
#[test]
fn threads_share_the_limit_of_idle_connections() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let keeps = ServerConfig {
        idle_max: Some(1),
        ..server("s1", listener.local_addr().expect("it is bound"))
    };
    let live = live(test_proxy::backend([keeps]), THREADS);
    thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let stream = stream.expect("a connection");
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            assert!(lines.any(|line| line.is_empty()), "a request");
            (&stream).write_all(b"HTTP/1.1 204 No Content\r\n\r\n").expect("room");
            open.push(stream);
        }
    });
    let mut idle = Vec::new();
    for thread in 0..THREADS {
        let (mut driver, address) = start(&live, thread);
        let mut client = HttpClient::connect(address);
        client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        let counters = &live.backends[0].servers[0].counters[thread];
        driver.turn_until(|_| counters.get(Stat::SessionsTotal) == 1);
        driver.turn_until(|_| counters.get(Stat::Sessions) == 0);
        idle.push(counters.get(Stat::IdleConnections));
    }
    assert_eq!(idle, [1, 0]);
}

#[test]
fn threads_of_mode_tcp_share_slots() {
    share(Mode::Tcp, 1);
    share(Mode::Tcp, 3);
}

/// A waiter that gave up during its wake-up left the thread without later wake-ups.
#[test]
fn a_wake_up_for_a_cancelled_waiter_is_passed_on() {
    let limited = ServerConfig { connections_max: 1, ..server("s1", origin().0) };
    let mut backend = test_proxy::backend([limited]);
    backend.timeouts.queue = Some(Duration::from_millis(30));
    let live = live(backend, 2);
    let group = &live.backends[0].group;
    let (mut driver, address) = start(&live, 0);
    let waker = driver.waker();
    // The test is the other thread, and has the only place.
    let mut other = WaitQueue::new(1, group);
    for _ in 0..2 {
        assert_eq!(group.try_place_at(0), Placement::Placed(0));
        let mut client = HttpClient::connect(address);
        client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        driver.turn_until(|_| group.queued() == 1);
        group.leave(0);
        assert_eq!(other.next_for(group, 0), NextWaiting::Wake(0));
        live.wake(0, BackendId(0));
        driver.turn_until(|_| group.queued() == 0); // it has waited for long enough
        let ticket = other.push(group, Wants::Any, ());
        waker.wake();
        driver.turn(Duration::from_secs(10));
        driver.turn(Duration::ZERO);
        assert!(other.take_wake(group), "it is this thread's turn now");
        assert!(other.cancel(group, ticket).is_some());
    }
}

const THREADS: usize = 2;
const CLIENTS: usize = 8;
const REQUESTS: usize = 25;
