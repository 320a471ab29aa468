//! Failed accepts: connections behind one are accepted nevertheless, and nothing spins.

use std::net::TcpListener;

use fulmar_server::{Limits, ServerEngine};
use fulmar_sys as sys;
use fulmar_tests::app::{App, server};
use fulmar_tests::in_every_loop;
use fulmar_tests::loops::{AppLoop, Edge, Loop, Once, client};
use fulmar_tests::process::{peer, run, text};
use rustix::net::{Shutdown, listen, shutdown};

/// As HAProxy does to the listeners of its predecessor: a process that shares the socket stops it
/// from listening, and starts again.
fn a_listener_that_another_process_paused_accepts_again<L: Loop<Engine = ServerEngine<App>>>() {
    let (mut driver, _) = L::start(server(Limits::default()));
    let listener = TcpListener::from(sys::duplicate(driver.watched()[0]).expect("a descriptor"));
    shutdown(&listener, Shutdown::Read).expect("it listens");
    driver.turn_until(|driver| driver.stats().refused > 0);
    let before = driver.stats();
    driver.turn_until(|driver| driver.stats().refused >= before.refused + 2);
    let after = driver.stats();
    assert_eq!(after.accepted, 0);
    assert!(after.turns - before.turns < 40, "it rests: {before:?} {after:?}");
    listen(&listener, 10).expect("it can listen");
    let address = listener.local_addr().expect("it is bound again"); // a free port was requested
    let _clients = [client(address), client(address)];
    driver.turn_until(|driver| driver.engine().connections() == 2);
}

#[test]
fn a_listener_that_was_paused_accepts_again() {
    in_every_loop!(a_listener_that_another_process_paused_accepts_again, at_full_speed);
}

/// An error about a connection that has gone, or with another cause in the kernel, is reported
/// once; the connections behind it have had their edge.
#[test]
fn a_failed_accept_does_not_hide_the_next_connection() {
    if std::env::var_os(TRACED).is_some() {
        accept_three::<AppLoop<_, Edge>>();
        return accept_three::<AppLoop<_, Once>>();
    }
    let probe = peer("strace").args(["-o", "/dev/null", "true"]).output().expect("it is there");
    if !probe.status.success() {
        let said = text(&probe.stderr).to_lowercase();
        assert!(said.contains("ptrace") && said.contains("not permitted"), "{said}");
        return;
    }
    std::thread::scope(|threads| {
        for error in ["EPROTO", "ECONNABORTED", "EPERM", "ENOBUFS", "EOPNOTSUPP"] {
            threads.spawn(move || {
                // The first one of each loop, and one in the middle of the first.
                let fault = format!("--inject=accept4:error={error}:when=1+2");
                let mut strace = peer("strace");
                strace.args(["-f", "-o", "/dev/null", &fault]);
                let test = "failed_accepts::a_failed_accept_does_not_hide_the_next_connection";
                strace.arg(std::env::current_exe().expect("it runs")).args(["--exact", test]);
                run(strace.env(TRACED, "1"));
            });
        }
    });
}

/// All connect before the first turn: there is one edge for all of them.
fn accept_three<L: Loop<Engine = ServerEngine<App>>>() {
    let (mut driver, address) = L::start(server(Limits::default()));
    let _clients = [client(address), client(address), client(address)];
    driver.turn_until(|driver| driver.engine().connections() == 3);
}

const TRACED: &str = "FULMAR_TEST_TRACED";
