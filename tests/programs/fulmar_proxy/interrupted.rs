//! `fulmar proxy` under constant signals: interrupted calls are not errors.

use std::net::TcpStream;

use fulmar_tests::gateway::{ProxyFolder, command, end};
use fulmar_tests::http::HttpClient;
use fulmar_tests::load::bound;
use fulmar_tests::process::{ChildProcess, Serve, eventually};
use fulmar_tests::tree::{Tree, noise};
use rustix::process::Signal;

/// SIGSTOP and SIGCONT interrupt every wait of every thread (signal(7)): `EINTR`, without a
/// handler. Short and long bodies, in both modes, over persistent and new connections.
#[test]
fn interrupted_calls_are_not_errors() {
    let tree = Tree::new();
    let long = noise(1 << 20);
    tree.file("long", &long);
    let serve = Serve::start(&tree.root(), &["--test-endpoints"]);
    let place = ProxyFolder::new();
    let (_holder, tunnel) = bound();
    let text = format!(
        "global\n  nbthread 2\ndefaults\n  timeout connect 5s\n  timeout client 30s\n  \
         timeout server 30s\n  option splice-auto\nlisten http\n  mode http\n  bind {}\n  \
         server s {}\nlisten tcp\n  mode tcp\n  bind {tunnel}\n  server s {}\n",
        place.address, serve.address, serve.address
    );
    let path = place.write("haproxy.cfg", &text);
    let process = ChildProcess::start(command().arg("-db").arg("-f").arg(path));
    eventually("it serves", || {
        [place.address, tunnel].into_iter().all(|address| TcpStream::connect(address).is_ok())
    });
    let interrupt = || {
        process.pause();
        process.signal(Signal::CONT);
        process.signal(Signal::WINCH);
    };
    for address in [place.address, tunnel] {
        let mut kept = HttpClient::connect(address);
        for _ in 0..25 {
            for (target, body) in [("/delay/2", &b"delayed\n"[..]), ("/long", &long)] {
                kept.send_get(target);
                interrupt();
                assert!(kept.read_reply().unwrap().body == body, "{target} by {address}");
            }
            let mut new = HttpClient::connect(address);
            new.send_get("/bytes/1");
            interrupt();
            assert_eq!(new.read_reply().unwrap().body.len(), 1);
        }
    }
    let ended = end(process, Signal::USR1);
    let common_part = ended.stderr.lines().filter(|line| !line.contains(" stopped ("));
    assert_eq!((ended.status.code(), common_part.count()), (Some(0), 0), "{}", ended.stderr);
}
