//! `--driver`: every tool waits and makes its system calls as the option says.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use fulmar_host::{Driver, Host, Listen, LoopOptions, Spin};
use fulmar_proto::Request;
use fulmar_server::{HandlerResult, Responder};
use fulmar_tests::gateway::{self, ProxyFolder};
use fulmar_tests::http::HttpClient;
use fulmar_tests::loops::has_ring;
use fulmar_tests::process::{ChildProcess, Serve, eventually, fulmar};
use fulmar_tests::tree::Tree;
use rustix::process::Signal;

/// The drivers that this kernel has.
fn drivers() -> Vec<&'static str> {
    let all = ["epoll", "level", "poll", "ring:1"];
    all.into_iter().filter(|driver| !driver.starts_with("ring") || has_ring()).collect()
}

/// What a process waits with, read from its descriptors (proc_pid_fdinfo(5)): the driver's name,
/// once it has registered a connection.
fn driver_of(pid: u32) -> Option<&'static str> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let mut kinds = BTreeSet::new();
    let (mut sockets, mut edges) = (0, false);
    for entry in entries.flatten() {
        let Ok(target) = fs::read_link(entry.path()) else { continue }; // closed meanwhile
        let target = target.to_string_lossy().into_owned();
        sockets += u32::from(target.starts_with("socket:"));
        if target == "anon_inode:[eventpoll]" {
            let number = entry.file_name();
            let info = format!("/proc/{pid}/fdinfo/{}", number.to_string_lossy());
            edges |= fs::read_to_string(info).unwrap_or_default().lines().any(is_edge);
        }
        kinds.insert(target);
    }
    let has = |kind: &str| kinds.contains(kind);
    match (has("anon_inode:[eventpoll]"), has("anon_inode:[io_uring]"), edges) {
        _ if sockets == 0 => None,
        (true, true, true) => Some("ring:1"),
        (true, false, true) => Some("epoll"),
        (true, false, false) => Some("level"),
        (false, false, _) => Some("poll"),
        (_, true, _) => None,
    }
}

/// True for a registration that is edge-triggered (`EPOLLET`): `tfd: 7 events: 80002019 data: ...`.
fn is_edge(line: &str) -> bool {
    let mut words = line.split_whitespace().skip_while(|word| *word != "events:");
    let bits = words.nth(1).and_then(|word| u32::from_str_radix(word, 16).ok());
    line.starts_with("tfd:") && bits.is_some_and(|bits| bits >> 31 == 1)
}

fn assert_driver(process: &ChildProcess, driver: &str) {
    eventually(&format!("{driver}, not {:?}", driver_of(process.id())), || {
        driver_of(process.id()) == Some(driver)
    });
}

#[test]
fn serve_uses_the_selected_driver() {
    let tree = Tree::new();
    tree.file("f", "inside");
    for driver in drivers() {
        let flags = ["--driver", driver, "--spin", "off", "--threads", "2", "--ledger"];
        let serve = Serve::start(&tree.root(), &flags);
        let mut client = HttpClient::connect(serve.address);
        for _ in 0..20 {
            assert_eq!(client.get("/f").body, b"inside");
        }
        assert_driver(&serve.process, driver);
        drop(client);
        let text = serve.end(Signal::TERM).stdout;
        assert!(text.contains(&format!("; driver {driver}, ")), "{text}");
        assert_calls(&text, driver);
    }
}

#[test]
fn the_proxy_uses_the_selected_driver() {
    for driver in drivers() {
        let place = ProxyFolder::new();
        let config = place.configure("", "");
        let flags = ["-db", "--driver", driver, "--spin", "off", "-f"];
        let process = ChildProcess::start(gateway::command().args(flags).arg(config));
        place.wait();
        let mut client = TcpStream::connect(place.address).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\n").unwrap(); // it waits for the rest
        assert_driver(&process, driver);
        gateway::end(process, Signal::TERM);
    }
}

#[test]
fn load_and_get_use_the_selected_driver() {
    let tree = Tree::new();
    tree.file("f", "inside");
    let serve = Serve::start(&tree.root(), &[]);
    let mute = TcpListener::bind("127.0.0.1:0").unwrap(); // never responds
    let mute_url = format!("http://{}/", mute.local_addr().unwrap());
    let dir = tree.turn_while("out");
    for driver in drivers() {
        for tool in [&["load", "-n", "1", "-c", "1"][..], &["get", "-o", dir.to_str().unwrap()]] {
            let command = || {
                let mut command = Command::new(fulmar());
                command.args(tool).args(["--driver", driver, "--spin", "off", "--ledger"]);
                command
            };
            let process = ChildProcess::start(command().arg(&mute_url));
            let accepted = mute.accept().unwrap();
            assert_driver(&process, driver);
            process.signal(Signal::KILL);
            process.wait();
            drop(accepted);
            let _ = fs::remove_dir_all(&dir);
            let ended = ChildProcess::start(command().arg(serve.url("/f"))).wait();
            let text = ended.stdout;
            assert!(text.contains(&format!("driven by       {driver}: ")), "{tool:?}: {text}");
            assert_calls(&text, driver);
        }
    }
    serve.end(Signal::TERM);
}

/// The report of a ledger has the calls of this driver, and no other's.
fn assert_calls(text: &str, driver: &str) {
    let has = |call: &str| text.split_whitespace().any(|word| word == call);
    let waits_with_epoll = driver != "poll";
    assert_eq!(has("epoll_wait") || has("epoll_pwait2"), waits_with_epoll, "{driver}: {text}");
    assert_eq!(has("poll"), !waits_with_epoll, "{driver}: {text}");
    assert_eq!(has("io_uring_enter"), driver == "ring:1", "{driver}: {text}");
}

#[test]
fn all_threads_of_a_host_use_the_selected_driver() {
    fn hello(responder: &mut Responder<'_>, _: &Request<'_>) -> HandlerResult {
        responder.text(200, "hello\n")
    }
    for driver in drivers() {
        let driver: Driver = driver.parse().unwrap();
        let running = Host::of(|_| Ok(hello))
            .listen(Listen::tcp("127.0.0.1:0".parse().unwrap()))
            .loop_options(LoopOptions { driver, spin: Spin::Off })
            .threads(3)
            .start()
            .unwrap();
        let address = running.addresses()[0].tcp().unwrap();
        for _ in 0..6 {
            assert_eq!(HttpClient::connect(address).get("/").body, b"hello\n");
        }
        let names = |info: &fulmar_host::DriverInfo| info.to_string();
        let expected = vec![driver.to_string(); 3];
        assert_eq!(running.drivers().iter().map(names).collect::<Vec<_>>(), expected);
        running.stop();
        let outcomes = running.join().unwrap();
        assert_eq!(outcomes.iter().map(|it| names(&it.driver)).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn the_environment_selects_the_driver_of_every_tool() {
    let tree = Tree::new();
    let serve = Serve::start_command(
        Serve::command(&tree.root()).env("FULMAR_DRIVER", "level").env("FULMAR_SPIN", "off"),
        true,
    );
    let _client = TcpStream::connect(serve.address).unwrap();
    assert_driver(&serve.process, "level");
    serve.end(Signal::TERM);
    let mut command = Command::new(fulmar());
    command.args(["load", "-n", "10", "-c", "1", "--json"]);
    let ended =
        ChildProcess::start(command.env("FULMAR_DRIVER", "poll").env("FULMAR_SPIN", "off")).wait();
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(report["driver"], "poll");
    assert!(report["syscalls"]["poll"]["calls"].as_u64().unwrap() > 0, "{}", ended.stdout);
}

#[test]
fn an_unknown_driver_is_a_usage_error_that_lists_the_valid_ones() {
    let tree = Tree::new();
    let root = tree.root();
    let dir = root.to_str().unwrap();
    let place = ProxyFolder::new();
    let config = place.configure("", "");
    for tool in [
        &["serve", dir, "--listen", "127.0.0.1:0"][..],
        &["load", "-n", "1", "http://127.0.0.1:9/"],
        &["get", "-o", dir, "http://127.0.0.1:9/"],
        &["proxy", "-f", config.to_str().unwrap()],
        &["proxy", "-c", "-f", config.to_str().unwrap()],
    ] {
        let mut command = Command::new(fulmar());
        let ended = ChildProcess::start(command.args(tool).args(["--driver", "kqueue"])).wait();
        assert_eq!(ended.status.code(), Some(2), "{tool:?}: {ended:?}");
        let valid = "unknown driver `kqueue`: use auto, epoll, level, poll, ring, or ring:N";
        assert!(ended.stderr.contains(valid), "{tool:?}: {}", ended.stderr);
    }
}

#[test]
fn poll_with_spin_is_a_usage_error_of_every_tool() {
    let tree = Tree::new();
    let root = tree.root();
    let dir = root.to_str().unwrap();
    let place = ProxyFolder::new();
    let config = place.configure("", "");
    let config = config.to_str().unwrap();
    for tool in [
        &["serve", dir, "--listen", "127.0.0.1:0"][..],
        &["load", "-n", "1"],
        &["get", "-o", dir, "http://127.0.0.1:9/"],
        &["proxy", "-f", config],
        &["proxy", "-c", "-f", config],
    ] {
        let mut command = Command::new(fulmar());
        command.args(tool).args(["--driver", "poll", "--spin", "auto"]);
        let ended = ChildProcess::start(&mut command).wait();
        assert_eq!(ended.status.code(), Some(2), "{tool:?}: {ended:?}");
        let why = "driver `poll` cannot poll before sleeping";
        assert!(ended.stderr.contains(why) && ended.stdout.is_empty(), "{tool:?}: {ended:?}");
        let mut command = Command::new(fulmar());
        let ended = ChildProcess::start(command.args(tool).env("FULMAR_DRIVER", "none")).wait();
        assert_eq!(ended.status.code(), Some(2), "{tool:?}: {ended:?}");
    }
}
