//! Connection limits: at the limit no client is accepted, at no cost; the next one is accepted as
//! soon as there is room.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use fulmar_haproxy::{ConfigSource, Environment, Options, ThisMachine, load};
use fulmar_proxy::{BindId, Live, Proxy, Stop, Wake};
use fulmar_sys::{self as sys, Call, Ledger};
use fulmar_tests::loops::{LISTENER, Loop, OwnLoop, client, polling};
use fulmar_tests::process::PATIENCE;
use fulmar_tests::test_proxy::{EchoPages, RecordingJournal};

/// Two threads of one proxy, each with a listener of its own, driven in turn.
struct TwoThreads {
    threads: [(OwnLoop<Proxy>, SocketAddr); 2],
}

impl TwoThreads {
    /// With `limits` in the frontend, and `of_bind` behind its address.
    fn new(limits: &str, of_bind: &str) -> Self {
        let text = format!(
            "defaults\n  mode http\n  timeout client 60s\n\
             frontend fe\n  bind 127.0.0.1:0 {of_bind}\n{limits}\n  \
             http-request return status 200\n"
        );
        let source = ConfigSource::Text { name: "test.cfg".to_owned(), text };
        let (environment, options) = (Environment::default(), Options::default());
        let loaded = load(&[source], &environment, &ThisMachine, &options).expect("it is right");
        let live = Arc::new(Live::new(loaded.config, 2));
        let mut threads = [0, 1].map(|thread| {
            let (journal, pages) = (Box::new(RecordingJournal::default()), Box::new(EchoPages));
            let live = Arc::clone(&live);
            let mut proxy = Proxy::new(sys::now(), live, thread, journal, pages, Stop::default());
            proxy.add_listener(LISTENER, BindId { frontend: 0, bind: 0 }, None);
            OwnLoop::start(proxy)
        });
        let wakers = threads.each_mut().map(|(driver, _)| {
            let waker = driver.waker();
            Box::new(move || waker.wake()) as Wake
        });
        live.wakers.set(wakers);
        Self { threads }
    }

    fn turn(&mut self) {
        self.threads.iter_mut().for_each(|(driver, _)| driver.turn(Duration::ZERO));
    }

    /// A client of a thread; whether it has come in.
    fn come(&mut self, thread: usize) -> (TcpStream, bool) {
        let before = self.clients(thread);
        let stream = client(self.threads[thread].1);
        // It is there at once, or a moment later on a busy machine.
        let mut left = 20;
        while left > 0 && self.clients(thread) == before {
            self.threads[1 - thread].0.turn(Duration::ZERO);
            self.threads[thread].0.turn(Duration::from_millis(2));
            left -= 1;
        }
        (stream, self.clients(thread) > before)
    }

    fn clients(&mut self, thread: usize) -> usize {
        self.threads[thread].0.engine().clients()
    }

    fn turn_until(&mut self, done: impl Fn(&mut Self) -> bool) {
        let start = sys::now();
        while !done(self) {
            assert!(sys::now() - start < PATIENCE, "nothing happens any more");
            self.turn();
        }
    }
}

#[test]
fn a_full_frontend_costs_nothing() {
    for (limits, of_bind) in [("  maxconn 1", ""), ("", "maxconn 1")] {
        let mut bench = TwoThreads::new(limits, of_bind);
        let (mut first, true) = bench.come(0) else { panic!("there is room") };
        let (_second, came) = bench.come(0);
        assert!(!came, "there is no room");
        let before = Ledger::here();
        let (driver, _) = &mut bench.threads[0];
        driver.0.turn_within(Duration::from_millis(200)).expect("a turn");
        let spent = Ledger::here() - before;
        assert_eq!(spent.total() - polling(&spent), 1, "a wait: {spent:?}");
        first.write_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").expect("room");
        bench.turn_until(first_has_left);
        first.read_to_end(&mut Vec::new()).expect("an answer");
    }
}

/// One has left, and the other has come in its place.
fn first_has_left(bench: &mut TwoThreads) -> bool {
    bench.threads[0].0.stats().accepted == 2 && bench.clients(0) == 1
}

#[test]
fn a_client_that_leaves_one_thread_makes_room_on_another() {
    for (limits, of_bind) in [("  maxconn 2", ""), ("", "maxconn 2")] {
        let mut bench = TwoThreads::new(limits, of_bind);
        let leaving = bench.come(0);
        let _held = bench.come(1);
        let waiting = bench.come(1);
        assert!(leaving.1 && !waiting.1, "there is no room on the second thread");
        drop(leaving);
        bench.turn_until(|bench| bench.clients(0) == 0);
        bench.turn_until(|bench| bench.clients(1) == 2); // no deadline wakes it
    }
}

#[test]
fn a_rate_limit_sets_one_timer() {
    let mut bench = TwoThreads::new("  rate-limit sessions 5", "");
    let clients: Vec<_> = (0..6).map(|_| bench.come(0)).collect();
    assert_eq!(clients.iter().filter(|(_, came)| *came).count(), 5);
    let (driver, _) = &mut bench.threads[0];
    let before = Ledger::here();
    while driver.stats().accepted < 6 {
        driver.0.turn_within(Duration::from_secs(5)).expect("a turn");
    }
    let spent = Ledger::here() - before;
    let waits = [Call::epoll_wait, Call::epoll_pwait2].map(|call| spent.count(call).calls);
    assert!(waits.iter().sum::<u64>() <= 3, "{spent:?}");
}
