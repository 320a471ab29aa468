//! Listen addresses of `bind` lines: `fulmar proxy` and HAProxy with the same lines.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr as UnixAddress, UnixStream};
use std::sync::Mutex;
use std::time::Duration;

use fulmar_tests::gateway::{ProxyFolder, command, end, run};
use fulmar_tests::process::{ChildProcess, PATIENCE, eventually, fulmar, peer};
use rustix::net::sockopt::{set_socket_reuseaddr, set_socket_reuseport};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
use rustix::process::Signal;

const GET: &[u8] = b"GET / HTTP/1.0\r\n\r\n";

/// A frontend with built-in responses and these `bind` lines.
fn configure(place: &ProxyFolder, binds: &str) -> String {
    let text = format!(
        "global\n nbthread 1\n stats socket {}\ndefaults\n mode http\n timeout client 5s\n \
         timeout server 5s\n timeout connect 1s\nfrontend fe\n option socket-stats\n{binds}\n \
         http-request set-var(txn.to) dst\n http-request set-var(txn.at) dst_port\n \
         http-request return status 200 content-type text/plain lf-string \
         %[fc_src]/%[fc_dst] if {{ path /own }}\n \
         http-request return status 200 content-type text/plain lf-string \
         %[src]/%[var(txn.to)]:%[var(txn.at)]\n",
        place.path("s.sock").display()
    );
    place.write("binds.cfg", &text).display().to_string()
}

fn start(place: &ProxyFolder, binds: &str) -> ChildProcess {
    let path = configure(place, binds);
    let process = ChildProcess::start(command().args(["-db", "-f", &path]));
    eventually("it serves", || UnixStream::connect(place.path("s.sock")).is_ok());
    process
}

fn body_of(mut stream: impl Read + Write) -> String {
    stream.write_all(GET).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.rsplit_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.to_owned())
}

fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// `count` consecutive free ports, outside the kernel's range of automatic ports
/// (`ip_local_port_range` in ip(7)). Concurrent tests, also in other processes, do not get them
/// while the tests run.
fn free_ports(count: u16) -> u16 {
    static HELD: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());
    for _ in 0..100 {
        let first = fastrand::u16(10_000..32_000);
        let all: Option<Vec<OwnedFd>> = (first..first + count).map(held).collect();
        if let Some(all) = all {
            HELD.lock().expect("the lock is not poisoned").extend(all);
            return first;
        }
    }
    panic!("no neighbours are free");
}

/// Reserves a free port for servers that set `SO_REUSEADDR` (socket(7)).
fn held(port: u16) -> Option<OwnedFd> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let socket = || {
        let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
        socket_with(family, kind, SocketFlags::CLOEXEC, None).expect("a socket")
    };
    bind(socket(), &address).ok()?; // fails if the port is in use
    let holder = socket();
    set_socket_reuseaddr(&holder, true).expect("a socket");
    set_socket_reuseport(&holder, true).expect("since Linux 3.9");
    bind(&holder, &address).ok()?;
    Some(holder)
}

/// Names and numbers of the listeners in statistics.
fn listeners(place: &ProxyFolder) -> Vec<(String, String)> {
    let mut to = UnixStream::connect(place.path("s.sock")).unwrap();
    to.set_read_timeout(Some(PATIENCE)).unwrap();
    to.write_all(b"show stat -1 -1 -1\n").unwrap();
    let mut csv = String::new();
    to.read_to_string(&mut csv).unwrap();
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let sid = head.iter().position(|name| *name == "sid").unwrap();
    let rows = lines.filter(|row| row.len() > sid && row[0] == "fe" && row[1] != "FRONTEND");
    rows.map(|row| (row[1].to_owned(), row[sid].to_owned())).collect()
}

#[test]
fn a_line_has_several_addresses_and_ranges_of_ports() {
    let place = ProxyFolder::new();
    let first = free_ports(4);
    let last = first + 2;
    let single = last + 1;
    let binds = format!(
        " bind 127.0.0.1:{first}-{last},127.0.0.1:{single} name many\n bind unix@{} id 77",
        place.path("web.sock").display()
    );
    let process = start(&place, &binds);
    for port in first..=single {
        assert_eq!(
            body_of(connect(([127, 0, 0, 1], port).into()).unwrap()),
            format!("127.0.0.1/127.0.0.1:{port}")
        );
    }
    let by_path = || body_of(UnixStream::connect(place.path("web.sock")).unwrap());
    assert_eq!(by_path(), "/:", "there are no addresses");
    let ours = listeners(&place);
    end(process, Signal::TERM);
    let path = place.path("binds.cfg");
    let _theirs = ChildProcess::start(peer("haproxy").args(["-db", "-f"]).arg(path));
    let serves = |name| UnixStream::connect(place.path(name)).is_ok();
    eventually("it serves", || serves("s.sock") && serves("web.sock"));
    assert_eq!((ours, by_path()), (listeners(&place), "/:".into()));
}

#[test]
fn addresses_of_both_families() {
    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        return; // there is only one
    }
    let place = ProxyFolder::new();
    for (word, v4) in [("v4v6", true), ("v6only", false)] {
        let port = free_ports(1);
        let process = start(&place, &format!(" bind :::{port} {word}"));
        let by_six = connect((Ipv6Addr::LOCALHOST, port).into()).unwrap();
        assert_eq!(body_of(by_six), format!("::1/::1:{port}"), "{word}");
        assert_eq!(connect(([127, 0, 0, 1], port).into()).is_ok(), v4, "{word}");
        end(process, Signal::TERM);
    }
}

#[test]
fn an_interface_restricts_a_listener() {
    let place = ProxyFolder::new();
    let port = free_ports(1);
    let process = start(&place, &format!(" bind 127.0.0.1:{port} interface lo backlog 5"));
    assert_eq!(
        body_of(connect(([127, 0, 0, 1], port).into()).unwrap()),
        format!("127.0.0.1/127.0.0.1:{port}")
    );
    end(process, Signal::TERM);
    let path = configure(&place, &format!(" bind 127.0.0.1:{port} interface nowhere0"));
    let ended = run(["-db", "-f", &path]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains("for frontend fe: cannot bind socket"), "{}", ended.stderr);
}

#[test]
fn unix_sockets_have_owners_and_permissions() {
    let place = ProxyFolder::new();
    let path = place.path("web.sock");
    let me = fs::metadata(place.path("")).unwrap();
    let (uid, gid) = (me.uid(), me.gid());
    let abstract_name = format!("fulmar-test-{}", place.address.port());
    let binds = format!(
        " bind unix@{} mode 640 uid {uid} gid {gid}\n bind abns@{abstract_name}",
        path.display()
    );
    let process = start(&place, &binds);
    let made = fs::metadata(&path).unwrap();
    assert_eq!((made.permissions().mode() & 0o777, made.uid(), made.gid()), (0o640, uid, gid));
    body_of(UnixStream::connect(&path).unwrap());
    let name = UnixAddress::from_abstract_name(&abstract_name).unwrap();
    body_of(UnixStream::connect_addr(&name).unwrap());
    end(process, Signal::TERM);
    assert!(!path.exists(), "its file goes with it");
}

#[test]
fn a_socket_is_inherited() {
    let place = ProxyFolder::new();
    let port = free_ports(1);
    let config = configure(&place, " bind fd@7");
    // The parent listens, and passes the socket under this number.
    let script = "import os, socket, sys\n\
                  s = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n\
                  os.dup2(s.fileno(), 7)\n\
                  os.execv(sys.argv[2], sys.argv[2:])";
    let mut python = peer("python3");
    python.args(["-c", script, &port.to_string()]).arg(fulmar());
    let process = ChildProcess::start(python.args(["proxy", "-db", "-f", &config]));
    eventually("it serves", || UnixStream::connect(place.path("s.sock")).is_ok());
    assert_eq!(
        body_of(connect(([127, 0, 0, 1], port).into()).unwrap()),
        format!("127.0.0.1/127.0.0.1:{port}")
    );
    end(process, Signal::TERM);
    let ended = run(["-db", "-f", &config]);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("[fd@7]"), "{}", ended.stderr);
}

#[test]
fn a_full_listener_accepts_again_after_a_close() {
    let place = ProxyFolder::new();
    for mode in ["http", "tcp"] {
        let port = free_ports(1);
        let text = format!(
            "global\n nbthread 1\ndefaults\n mode {mode}\n timeout client 1m\n timeout server 1m\n \
             timeout connect 1s\nfrontend fe\n bind 127.0.0.1:{port} maxconn 2\n default_backend \
             be\n\
             backend be\n server s1 {}\n",
            place.origin
        );
        let path = place.write("full.cfg", &text);
        let process = ChildProcess::start(command().args(["-db", "-f"]).arg(path));
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        eventually("it listens", || connect(address).is_ok());
        for _ in 0..3 {
            let mut inside: Vec<TcpStream> = (0..2).map(|_| connect(address).unwrap()).collect();
            for stream in &mut inside {
                stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
                assert!(stream.read(&mut [0; 512]).unwrap() > 0);
            }
            let mut third = connect(address).unwrap();
            third.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            third.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            assert!(third.read(&mut [0]).is_err(), "{mode}: there is no room");
            inside.pop();
            third.set_read_timeout(Some(PATIENCE)).unwrap();
            assert!(third.read(&mut [0; 512]).unwrap() > 0, "{mode}");
        }
        end(process, Signal::TERM);
    }
}

#[test]
fn unusable_addresses_are_reported_by_both() {
    let place = ProxyFolder::new();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap();
    for binds in [
        format!(" bind {taken}"),
        " bind 192.0.2.1:81".to_owned(),
        " bind unix@/nowhere/at/all.sock".to_owned(),
    ] {
        let path = configure(&place, &binds);
        let ours = run(["-db", "-f", &path]);
        let theirs = ChildProcess::start(peer("haproxy").args(["-db", "-f", &path])).wait();
        assert_eq!((ours.status.code(), theirs.status.code()), (Some(1), Some(1)), "{binds}");
        assert!(ours.stderr.contains("frontend fe: cannot bind"), "{binds}: {}", ours.stderr);
    }
    let path = configure(&place, " bind 127.0.0.1:1 transparent");
    let ended = run(["-c", "-f", &path]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains("'transparent' is not supported"), "{}", ended.stderr);
}

#[test]
fn a_proxy_header_comes_first_if_it_is_expected() {
    let place = ProxyFolder::new();
    let port = free_ports(1);
    let process = start(&place, &format!(" bind 127.0.0.1:{port} accept-proxy"));
    let send_request = |header: &str| {
        let mut stream = connect(([127, 0, 0, 1], port).into()).unwrap();
        stream.write_all(header.as_bytes()).unwrap();
        body_of(stream)
    };
    let header = "PROXY TCP4 192.0.2.7 192.0.2.8 1234 99\r\n";
    assert_eq!(send_request(header), "192.0.2.7/192.0.2.8:99");
    let mut stream = connect(([127, 0, 0, 1], port).into()).unwrap();
    write!(stream, "{header}GET /own HTTP/1.0\r\n\r\n").unwrap();
    let mut own = String::new();
    stream.read_to_string(&mut own).unwrap();
    assert!(own.ends_with("\r\n\r\n127.0.0.1/127.0.0.1"), "of the connection itself: {own}");
    let mut refused = connect(([127, 0, 0, 1], port).into()).unwrap();
    let _ = refused.write_all(GET);
    assert_eq!(refused.read(&mut [0; 64]).unwrap_or(0), 0, "it has no header");
    end(process, Signal::TERM);
}
