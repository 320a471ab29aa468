//! What an idle connection with TLS costs a server: memory from the system, and from the heap.

use allocation_counter::measure;
use fulmar_server::{Limits, ServerEngine};
use fulmar_tests::app::{App, AppServer};
use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::https::{self, server_tls};
use fulmar_tests::load::command;
use fulmar_tests::loops::Loop;
use fulmar_tests::own_process::own_process;
use fulmar_tests::process::ChildProcess;

/// What of this process is in memory and in no file, in bytes (proc_pid_smaps(5)): how much of the
/// program itself is there, the page cache decides, and other counts of the kernel's are estimates.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").expect("there is a /proc");
    let kilobytes = text.lines().find_map(|line| line.strip_prefix("Anonymous:"));
    let kilobytes = kilobytes.and_then(|line| line.trim().strip_suffix(" kB"));
    kilobytes.and_then(|number| number.parse::<u64>().ok()).expect("a number") * 1024
}

/// `connections` of another process, each with a few requests; they stay until it is dropped.
fn connect(server: &mut AppServer, certs: &Certs, url: &str, connections: usize) -> ChildProcess {
    let (ca, count) = (certs.ca().display().to_string(), connections.to_string());
    let rate = (2 * connections).to_string();
    let arguments = ["--cacert", &ca, "-c", &count, "-R", &rate, "-d", "600", url];
    let process = ChildProcess::start(&mut command(&arguments));
    turn_to(server, connections as u64, |engine| engine.connections() as u64);
    let requests = server.engine().application().requests() + 2 * connections as u64;
    turn_to(server, requests, |engine| engine.application().requests());
    process.pause();
    for _ in 0..50 {
        server.0.try_turn().expect("a turn"); // what was sent before it paused
    }
    process
}

/// Turns until `count` is `n`, as long as it grows.
fn turn_to(server: &mut AppServer, n: u64, count: impl Fn(&ServerEngine<App>) -> u64) {
    let mut seen = count(server.engine());
    while seen < n {
        server.turn_until(|server| count(server.engine()) > seen);
        seen = count(server.engine());
    }
}

#[test]
fn an_idle_connection_is_small() {
    own_process(|| {
        let certs = Certs::new();
        let (mut server, address) = AppServer::start(https::server(
            server_tls(&certs, CertOwner::Server),
            Limits::default(),
        ));
        let url = format!("https://localhost:{}/bytes/128", address.port());
        let first = connect(&mut server, &certs, &url, 16); // what belongs to the thread comes
        drop(first);
        server.turn_until(|server| server.engine().connections() == 0);
        let before = resident();
        let mut process = None;
        let heap = measure(|| process = Some(connect(&mut server, &certs, &url, CONNECTIONS)));
        let grown = (resident() - before) / CONNECTIONS as u64;
        let heap = heap.bytes_current.unsigned_abs() / CONNECTIONS as u64;
        println!("idle, with TLS: {grown} bytes of memory, {heap} of the heap");
        // Besides ours, the C code of the TLS library has two keys of 700 bytes. Some are in the
        // middle of a request.
        assert!(heap <= 3_800, "{heap} bytes of the heap");
        assert!(grown <= 6_500, "{grown} bytes of memory");

        // Connections that follow reuse the freed places.
        drop(process);
        server.turn_until(|server| server.engine().connections() == 0);
        let process = connect(&mut server, &certs, &url, CONNECTIONS);
        let again = (resident() - before) / CONNECTIONS as u64;
        println!("the next ones: {again} bytes of memory");
        assert!(again <= grown + 1_000, "{again} bytes of memory, {grown} before");
        drop(process);
    });
}

const CONNECTIONS: usize = 1_000;
