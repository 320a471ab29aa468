//! What an idle tunnel keeps in memory, counted by the allocator of the proxy's thread.

use std::io::{Read, Write};
use std::net::TcpListener;

use allocation_counter::measure;
use fulmar_sys as sys;
use fulmar_tests::loops::{Loop, OwnLoop, client};
use fulmar_tests::tcp_proxy::{backend, config, frontend, proxy};
use fulmar_tests::test_proxy::server;

#[test]
fn an_idle_tunnel_keeps_eight_hundred_bytes_at_most() {
    let origin = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = origin.local_addr().expect("it is bound");
    let (proxy, ..) = proxy(config(frontend(), [backend([server("one", to)])]), None);
    let (mut driver, address) = OwnLoop::start(proxy);
    let mut ends = Vec::with_capacity(2 * LEN);
    let mut open = |driver: &mut OwnLoop<_>, len: usize| {
        for _ in 0..len {
            let mut stream = client(address);
            stream.write_all(b"hello").expect("room");
            origin.set_nonblocking(true).expect("a socket");
            let mut accepted = None;
            driver.turn_until(|_| {
                accepted = accepted.take().or_else(|| origin.accept().ok());
                accepted.is_some()
            });
            let (mut other, _) = accepted.expect("a connection");
            other.set_nonblocking(false).expect("a socket");
            let mut heard = [0; 5];
            let mut n = 0;
            other.set_nonblocking(true).expect("a socket");
            driver.turn_until(|_| {
                n += other.read(&mut heard[n..]).unwrap_or(0);
                n == heard.len()
            });
            other.write_all(b"hello").expect("room");
            stream.set_nonblocking(true).expect("a socket");
            let mut n = 0;
            driver.turn_until(|_| {
                n += stream.read(&mut heard[n..]).unwrap_or(0);
                n == heard.len()
            });
            ends.push((stream, other));
        }
    };
    open(&mut driver, 8); // what a thread has beside its connections
    let spent = measure(|| open(&mut driver, LEN - 8));
    let each = spent.bytes_current / i64::try_from(LEN).expect("few");
    let now = sys::now();
    assert!((200..=800).contains(&each), "{each} bytes for each tunnel at {now:?}");
}

/// Just below a power of two, at which lists grow.
const LEN: usize = 500;
