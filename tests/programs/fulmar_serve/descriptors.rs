//! Every tool with few descriptors (`ulimit -Hn`): it works with the remaining ones, or refuses to
//! start with a message. It never starts without accepting connections.

use std::process::Command;
use std::thread;

use fulmar_tests::gateway::{self, ProxyFolder};
use fulmar_tests::http::HttpClient;
use fulmar_tests::process::{ChildProcess, ExitOutput, Serve, fulmar, peer};
use fulmar_tests::tree::Tree;
use rustix::process::Signal;

/// Fewer than [`NEEDED`] are refused.
const LIMITS: std::ops::RangeInclusive<u32> = 16..=70;
const NEEDED: u32 = 25;

fn limited(descriptors: u32, arguments: &[&str]) -> Command {
    let mut command = peer("sh");
    let line = format!("ulimit -n {descriptors}; exec \"$@\"");
    command.args(["-c", &line, "sh"]).arg(fulmar()).args(arguments);
    command.env_remove("NOTIFY_SOCKET");
    command
}

/// True if the tool refused to start, which it does below `needed`, with a message.
fn is_refused(ended: &ExitOutput, descriptors: u32, needed: u32) -> bool {
    let ExitOutput { status, stdout, stderr } = ended;
    let is_refused = stderr.contains("too many open files");
    assert_eq!(is_refused, descriptors < needed, "{descriptors}: {ended:?}");
    if is_refused {
        assert_eq!((status.code(), &stdout[..]), (Some(1), ""), "{descriptors}: {ended:?}");
        assert!(stderr.contains(&format!("{needed}")) && stderr.contains("ulimit -Hn"), "{stderr}");
    }
    assert!(!stderr.contains("with 0"), "{descriptors}: {stderr}");
    is_refused
}

/// Runs half of the limits in each of two threads, because most of the time is waiting.
fn at_every_limit(check: impl Fn(u32) + Sync) {
    thread::scope(|scope| {
        for odd in [0, 1] {
            let check = &check;
            scope.spawn(move || LIMITS.filter(|n| n % 2 == odd).for_each(check));
        }
    });
}

/// Limits that are also tested with other arguments.
fn is_chosen(descriptors: u32) -> bool {
    matches!(descriptors, 16 | NEEDED..=27 | 64..=66)
}

fn serve_responds_or_refuses_to_start(driver: &str) {
    let tree = Tree::new();
    tree.file("f", "inside");
    tree.file("large", vec![b'x'; 50_000]);
    let root = tree.root();
    let check = |descriptors, more: &[&str]| {
        let root = root.to_str().unwrap();
        let all = ["serve", root, "--listen", "127.0.0.1:0", "--driver", driver];
        let mut command = limited(descriptors, &[&all[..], more].concat());
        if descriptors < NEEDED {
            assert!(is_refused(&ChildProcess::start(&mut command).wait(), descriptors, NEEDED));
            return;
        }
        let serve = Serve::start_command(&mut command, true);
        for _ in 0..3 {
            // One connection after the other: more than the limit permits at a time.
            assert_eq!(HttpClient::connect(serve.address).get("/f").body, b"inside");
            assert_eq!(HttpClient::connect(serve.address).get("/large").body.len(), 50_000);
        }
        let ended = serve.end(Signal::TERM);
        assert!(!is_refused(&ended, descriptors, NEEDED));
        let has_warning = ended.stderr.contains(&format!("is only {descriptors} (ulimit"));
        assert_eq!(has_warning, more.is_empty(), "{}", ended.stderr);
    };
    at_every_limit(|descriptors| {
        check(descriptors, &[]);
        if is_chosen(descriptors) {
            check(descriptors, &["--max-connections", "1"]);
        }
    });
}

fn load_finishes_or_refuses_to_start(driver: &str) {
    let tree = Tree::new();
    tree.file("f", "inside");
    let serve = Serve::start(&tree.root(), &[]);
    let url = serve.url("/f");
    let check = |descriptors, urls: &[&str]| {
        let all = ["load", "-c", "20", "-n", "100", "--driver", driver];
        let ended =
            ChildProcess::start(&mut limited(descriptors, &[&all[..], urls].concat())).wait();
        if !is_refused(&ended, descriptors, NEEDED) {
            assert!(ended.status.success(), "{descriptors}, {urls:?}: {ended:?}");
        }
    };
    at_every_limit(|descriptors| {
        check(descriptors, &[&url]);
        if is_chosen(descriptors) {
            check(descriptors, &[]); // with the embedded server
        }
    });
}

fn get_fetches_or_refuses_to_start(driver: &str) {
    let tree = Tree::new();
    tree.file("f", "inside");
    let serve = Serve::start(&tree.root(), &[]);
    let url = serve.url("/f");
    at_every_limit(|descriptors| {
        let dir = tree.turn_while(&descriptors.to_string());
        let all = ["get", "--driver", driver, "-o", dir.to_str().unwrap(), &url];
        let ended = ChildProcess::start(&mut limited(descriptors, &all)).wait();
        if !is_refused(&ended, descriptors, NEEDED) {
            assert!(ended.status.success(), "{descriptors}: {ended:?}");
            assert_eq!(std::fs::read(dir.join("f")).unwrap(), b"inside", "{descriptors}");
        }
    });
}

fn proxy_responds_or_refuses_to_start(driver: &str) {
    at_every_limit(|descriptors| {
        let place = ProxyFolder::new();
        let path = place.configure(" nbthread 1", "");
        let mut command = limited(descriptors, &["proxy", "-db", "-f", path.to_str().unwrap()]);
        let mut process = ChildProcess::start(command.env("FULMAR_DRIVER", driver));
        if descriptors < PROXY_NEEDED {
            assert!(is_refused(&process.wait(), descriptors, PROXY_NEEDED));
            return;
        }
        process.wait_stderr(&format!("the limit on file descriptors is {descriptors} "));
        place.wait();
        for _ in 0..3 {
            assert!(place.send_request().is_ok(), "{descriptors}, {driver}");
        }
        gateway::end(process, Signal::TERM);
    });
}

/// Each client connection has a server connection.
const PROXY_NEEDED: u32 = 42;

macro_rules! with_driver {
    ($world:ident, $driver:literal, $is_here:expr) => {
        mod $world {
            #[test]
            fn serve_responds_or_refuses_to_start() {
                if $is_here {
                    super::serve_responds_or_refuses_to_start($driver);
                }
            }

            #[test]
            fn load_finishes_or_refuses_to_start() {
                if $is_here {
                    super::load_finishes_or_refuses_to_start($driver);
                }
            }

            #[test]
            fn get_fetches_or_refuses_to_start() {
                if $is_here {
                    super::get_fetches_or_refuses_to_start($driver);
                }
            }

            #[test]
            fn proxy_responds_or_refuses_to_start() {
                if $is_here {
                    super::proxy_responds_or_refuses_to_start($driver);
                }
            }
        }
    };
}

with_driver!(epoll, "epoll", true);
with_driver!(ring, "ring", fulmar_tests::loops::has_ring());

#[test]
fn audit_with_a_load_counts_or_refuses_to_start() {
    let tree = Tree::new();
    tree.file("f", "inside");
    let serve = Serve::start(&tree.root(), &[]);
    let (url, pid) = (serve.url("/f"), serve.process.id().to_string());
    for descriptors in [16, 24] {
        let all = ["audit", "--pid", &pid, "--load", &url, "-n", "100"];
        let ended = ChildProcess::start(&mut limited(descriptors, &all)).wait();
        assert!(!ended.status.success() && !ended.stderr.is_empty(), "{descriptors}: {ended:?}");
        assert!(!ended.stderr.contains("continuing with 0"), "{descriptors}: {ended:?}");
    }
}

#[test]
fn threads_are_counted() {
    let all = ["serve", "/", "--threads", "4"];
    let ended = ChildProcess::start(&mut limited(36, &all)).wait();
    assert!(is_refused(&ended, 36, 37), "{ended:?}");
    assert!(ended.stderr.contains("threads: 4"), "{ended:?}");
}
