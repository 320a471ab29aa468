//! Socket options of the configuration, read from the sockets of both sides.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use fulmar_sys as sys;
use fulmar_tests::origins::free_address;
use fulmar_tests::process::PATIENCE;
use rustix::net::sockopt::{
    socket_keepalive, tcp_keepcnt, tcp_keepidle, tcp_keepintvl, tcp_user_timeout,
};

use crate::fulmar_proxy::runtime::FulmarRuntime;

/// `option clitcpka` and `srvtcpka` with their times, `tcp-ut`, `mss` and `interface` in one
/// frontend; none of them in another.
#[test]
fn sockets_have_the_configured_options() {
    let origin = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = origin.local_addr().unwrap();
    let (set, plain, astray) = (free_address(), free_address(), free_address());
    let _ours = FulmarRuntime::with(|_| {
        format!(
            "global\n nbthread 1\n\
             defaults\n mode http\n timeout connect 5s\n timeout client 60s\n timeout server 60s\n \
             http-reuse never\n\
             frontend set\n bind {set} tcp-ut 17s mss 1200 interface lo\n option clitcpka\n \
             clitcpka-cnt 4\n clitcpka-idle 31s\n clitcpka-intvl 7s\n default_backend set\n\
             backend set\n option srvtcpka\n srvtcpka-cnt 5\n srvtcpka-idle 41s\n \
             srvtcpka-intvl 9s\n server s {to} tcp-ut 23s source 127.0.0.1 interface lo\n\
             frontend plain\n bind {plain}\n default_backend plain\n\
             backend plain\n server s {to}\n\
             frontend astray\n bind {astray}\n default_backend astray\n\
             backend astray\n retries 0\n server s {to} source 127.0.0.1 interface nowhere0\n"
        )
    });
    let (mut near, near_end) = pass(set, &origin);
    assert_eq!(probes(&between(set, near.local_addr().unwrap())), Some((31, 7, 4)));
    assert_eq!(limit(&between(set, near.local_addr().unwrap())), 17_000);
    let far = between(near_end.peer_addr().unwrap(), to);
    assert_eq!((probes(&far), limit(&far)), (Some((41, 9, 5)), 23_000));
    assert!(packets(&near) >= BODY_SIZE / 1_200, "{} packets", packets(&near));

    let (other, other_end) = pass(plain, &origin);
    let near_plain = between(plain, other.local_addr().unwrap());
    let far_plain = between(other_end.peer_addr().unwrap(), to);
    assert_eq!((probes(&near_plain), limit(&near_plain)), (None, 0));
    assert_eq!((probes(&far_plain), limit(&far_plain)), (None, 0));
    assert!(packets(&other) < BODY_SIZE / 1_200, "{} packets", packets(&other));

    // An unavailable setting is reported, not ignored.
    near = TcpStream::connect(astray).unwrap();
    near.set_read_timeout(Some(PATIENCE)).unwrap();
    near.write_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    near.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
}

/// Forwards a request with a body; returns both connections.
fn pass(address: SocketAddr, origin: &TcpListener) -> (TcpStream, TcpStream) {
    let mut client = TcpStream::connect(address).unwrap();
    let head = format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {BODY_SIZE}\r\n\r\n");
    client.write_all(head.as_bytes()).unwrap();
    client.write_all(&[b'x'; BODY_SIZE as usize]).unwrap();
    let (mut server, _) = origin.accept().unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut heard = vec![0; BODY_SIZE as usize];
    server.read_exact(&mut heard).unwrap();
    (client, server)
}

/// This process's end of a connection, as a descriptor of its own.
fn between(here: SocketAddr, there: SocketAddr) -> TcpStream {
    let numbers = std::fs::read_dir("/proc/self/fd").unwrap();
    let numbers = numbers.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let copies = numbers.filter_map(|number| sys::duplicate(number).ok());
    let mut streams = copies.map(|fd: OwnedFd| TcpStream::from(fd));
    let is_it = |stream: &TcpStream| {
        stream.local_addr().is_ok_and(|it| it == here)
            && stream.peer_addr().is_ok_and(|it| it == there)
    };
    streams.find(is_it).expect("it is open")
}

/// Idle time before the first probe, time between probes, and number of probes; `None` without
/// keep-alive.
fn probes(stream: &TcpStream) -> Option<(u64, u64, u32)> {
    let secs = |time: rustix::io::Result<Duration>| time.unwrap().as_secs();
    socket_keepalive(stream).unwrap().then(|| {
        (secs(tcp_keepidle(stream)), secs(tcp_keepintvl(stream)), tcp_keepcnt(stream).unwrap())
    })
}

/// TCP user timeout in milliseconds.
fn limit(stream: &TcpStream) -> u32 {
    tcp_user_timeout(stream).unwrap()
}

/// Number of packets sent.
fn packets(stream: &TcpStream) -> u32 {
    sys::tcp_info(stream.as_fd()).unwrap().data_packets_out
}

/// Fits into the buffers of both ends, and needs many small packets.
const BODY_SIZE: u32 = 120_000;
