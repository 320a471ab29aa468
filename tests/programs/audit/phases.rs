//! `--phases`: each call belongs to one phase, and the phases add up to all calls.

use std::process::Command;

use fulmar_audit::{AuditError, BackendChoice, Counter, CounterOptions, KernelRefusal};
use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::load::Nginx;
use fulmar_tests::process::{ChildProcess, Serve, eventually, fulmar, has_ended, peer};

use fulmar_tests::tree::Tree;
use serde_json::Value;

/// The results of both counters; eBPF where permitted.
fn of_both(audit: impl Fn(&mut Command)) -> [Value; 2] {
    ["best", "ptrace"].map(|counter| {
        let mut command = Command::new(fulmar());
        command.args(["audit", "--json", "--phases", "--counter", counter]);
        audit(&mut command);
        let ended = ChildProcess::start(&mut command).wait();
        assert_eq!(ended.status.code(), Some(0), "{ended:?}");
        let json: Value = serde_json::from_str(&ended.stdout).expect("one object");
        assert_eq!(json["lost"], 0, "{json}");
        adds_up(&json);
        json
    })
}

/// 40 requests, one connection each.
const LOAD: [&str; 7] = ["--reconnect", "-c", "1", "-n", "40", "--warm-up", "3"];

/// Calls, errors and bytes of the phases add up to those of all calls.
fn adds_up(json: &Value) {
    let phases = json["phases"].as_object().expect("phases were requested");
    for (name, all) in json["calls"].as_object().expect("calls") {
        for what in ["calls", "eagain", "bytes"] {
            let parts = phases.values().filter_map(|calls| calls[name][what].as_u64());
            assert_eq!(Some(parts.sum::<u64>()), all[what].as_u64(), "{what} of {name}: {json}");
        }
    }
}

fn count(json: &Value, phase: &str, call: &str) -> u64 {
    json["phases"][phase][call]["calls"].as_u64().unwrap_or(0)
}

fn tree() -> Tree {
    let tree = Tree::new();
    tree.file("a.txt", "a file\n");
    tree
}

#[test]
fn phases_of_a_server_with_a_connection_for_each_request() {
    let tree = tree();
    let socket = tree.turn_while("socket").display().to_string();
    let found = of_both(|audit| {
        audit.args(["--load", "http://localhost/a.txt", "--unix-socket", &socket]).args(LOAD);
        audit.arg("--").arg(fulmar()).arg("serve").arg(tree.root());
        audit.args(["--driver", "epoll", "--listen", &format!("unix:{socket}")]);
    });
    for json in found {
        assert_eq!(count(&json, "accept", "accept4"), 40, "{json}");
        let received = &json["phases"]["head"]["recvfrom"];
        let [calls, eagain] = ["calls", "eagain"].map(|what| received[what].as_u64());
        assert_eq!(calls.zip(eagain).map(|(calls, eagain)| calls - eagain), Some(40), "{json}");
        assert_eq!(count(&json, "head", "sendto"), 40, "{json}");
        assert_eq!(count(&json, "close", "close"), 40, "{json}");
        assert_eq!(json["phases"]["tls"], Value::Null, "{json}");
        assert!(count(&json, "other", "epoll_wait") > 0, "{json}");
    }
}

#[test]
fn phases_of_a_server_with_tls() {
    let (tree, certs) = (tree(), Certs::new());
    let (cert, key) = certs.files(CertOwner::Server);
    let tls = ["--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let serve = Serve::start(&tree.root(), &[&tls[..], &["--driver", "epoll"]].concat());
    let url = format!("https://{}/a.txt", serve.address);
    let found = of_both(|audit| {
        audit.args(["--pid", &serve.process.id().to_string(), "--load", &url, "--insecure"]);
        audit.args(LOAD);
    });
    for json in found {
        assert_eq!(count(&json, "accept", "accept4"), 40, "{json}");
        assert!(count(&json, "tls", "recvfrom") >= 80, "two flights: {json}");
        assert!(count(&json, "tls", "sendto") >= 40, "and one: {json}");
        assert_eq!(count(&json, "head", "sendto"), 40, "{json}");
        assert_eq!(count(&json, "close", "close"), 40, "{json}");
    }
}

/// Many concurrent connections, mostly served through a ring. The first request of each is received
/// by a call.
#[test]
fn phases_of_a_server_with_io_uring() {
    let tree = tree();
    let serve = Serve::start(&tree.root(), &["--driver", "ring"]);
    let (pid, url) = (serve.process.id().to_string(), serve.url("/a.txt"));
    let load = ["--load", &url, "-c", "32", "-n", "640", "--warm-up", "64"];
    let mut audit = Command::new(fulmar());
    audit.args(["audit", "--json", "--phases", "--pid", &pid]).args(load);
    let ended = ChildProcess::start(&mut audit).wait();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    let json: Value = serde_json::from_str(&ended.stdout).expect("one object");
    adds_up(&json);
    let Some(phases) = json["ring_phases"].as_object() else { return };
    for (name, all) in json["ring"].as_object().expect("operations") {
        for what in ["calls", "eagain", "bytes"] {
            let parts = phases.values().filter_map(|done| done[name][what].as_u64());
            assert_eq!(Some(parts.sum::<u64>()), all[what].as_u64(), "{what} of {name}: {json}");
        }
    }
    let both = |phase: &str, call: &str, operation: &str| {
        let of = |by: &str, name: &str| {
            let tally = &json[by][phase][name];
            tally["calls"].as_u64().unwrap_or(0) - tally["eagain"].as_u64().unwrap_or(0)
        };
        of("phases", call) + of("ring_phases", operation)
    };
    assert_eq!(both("accept", "accept4", "accept"), 32, "{json}");
    assert_eq!(both("head", "recvfrom", "recv"), 640, "{json}");
    assert_eq!(both("head", "sendto", "send"), 640, "{json}");
    assert_eq!(both("close", "recvfrom", "recv"), 32, "{json}");
    assert_eq!(both("close", "close", "close"), 32, "{json}");
    assert_eq!(json["ring_phases"]["other"], Value::Null, "{json}");
}

/// OpenSSL with TLS 1.2: the handshake has one more flight on each side.
#[test]
fn phases_of_nginx_with_tls() {
    let certs = Certs::new();
    let (cert, key) = certs.files(CertOwner::Server);
    let nginx = Nginx::with(|address, _| {
        format!(
            "server {{ listen {address} reuseport ssl; ssl_protocols TLSv1.2; ssl_certificate {}; \
             ssl_certificate_key {}; location / {{ return 200 text; }} }}",
            cert.display(),
            key.display()
        )
    });
    let url = format!("https://{}/", nginx.address);
    let found = of_both(|audit| {
        audit.args(["--pid", &nginx.process.id().to_string(), "--load", &url, "--insecure"]);
        audit.args(LOAD);
    });
    for json in found {
        let succeeded = |phase: &str, call: &str| {
            let tally = &json["phases"][phase][call];
            let errors = tally["errors"].as_object().map(|errors| errors.values());
            let failed: u64 = errors.into_iter().flatten().filter_map(Value::as_u64).sum();
            tally["calls"].as_u64().unwrap_or(0) - failed
        };
        assert_eq!(succeeded("accept", "accept4"), 40, "{json}");
        assert_eq!((succeeded("tls", "write"), succeeded("head", "write")), (80, 40), "{json}");
        assert_eq!((succeeded("tls", "read"), succeeded("head", "read")), (80, 40), "{json}");
        assert_eq!(succeeded("close", "close"), 40, "{json}");
    }
}

/// The client side: `fulmar load` itself.
#[test]
fn phases_of_a_client() {
    let nginx = Nginx::start();
    let found = of_both(|audit| {
        audit.args(["--per", "40", "--"]).arg(fulmar()).args(["load", "--driver", "epoll"]);
        audit.args(&LOAD[..5]).arg(nginx.url());
    });
    for json in found {
        assert_eq!(count(&json, "connect", "socket"), 40, "{json}");
        assert_eq!(count(&json, "connect", "connect"), 40, "{json}");
        assert_eq!(count(&json, "head", "sendto"), 40, "{json}");
        assert_eq!(count(&json, "close", "close"), 40, "{json}");
    }
}

/// More calls than the buffer holds, which are not read meanwhile.
#[test]
fn lost_calls_are_reported() {
    let scope = CounterOptions {
        method: BackendChoice::Kernel,
        phases: true,
        timeline: true,
        ..CounterOptions::default()
    };
    let mut command = peer("dd");
    command.args(["if=/dev/zero", "of=/dev/null", "bs=1", "count=150000", "status=none"]);
    let counter = match Counter::start(command, scope) {
        Ok(counter) => counter,
        Err(AuditError::Refused(KernelRefusal::Privileges)) => return,
        Err(error) => panic!("{error}"),
    };
    eventually("it has ended", || has_ended(counter.pid()));
    let counts = counter.snapshot().expect("counts");
    let timeline = counter.timeline().expect("it can be read").expect("it was requested");
    assert!(counts.calls["read"].count >= 150_000, "counted all the same: {counts:?}");
    assert!(counts.lost > 50_000 && timeline.lost == counts.lost, "{counts:?}");
    let phases = counts.by_phase.iter().flatten().flat_map(|(_, calls)| calls.values());
    let told: u64 = phases.map(|tally| tally.count).sum();
    assert_eq!(told + counts.lost, counts.total());
    assert_eq!((timeline.calls.len(), told), (10_000, timeline.left_out + 10_000));
}
