//! Loops with a ring, and loops that poll before they sleep: their costs, the reports of programs
//! about them, and the fallback where io_uring is forbidden.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fulmar_client::Config;
use fulmar_drive::{AnySelector, Driver, ListenOptions, LoopOptions, Reactor, Ring, Spin, listen};
use fulmar_host::{Host, Listen};
use fulmar_serve::endpoints::Endpoints;
use fulmar_server::{HandlerApp, Limits, ServerEngine, Stop};
use fulmar_sys::{self as sys, Call, Ledger, Operation};
use fulmar_tests::app::EndpointsEngine;
use fulmar_tests::http::HttpClient;
use fulmar_tests::loops::{LISTENER, Loop, OwnLoop, client, has_ring};
use fulmar_tests::process::{
    ChildProcess, ExitOutput, PATIENCE, Serve, eventually, example, fulmar, peer,
};
use fulmar_tests::transfers::{ClientAndServer, TransferRecorder};
use fulmar_tests::tree::{Tree, noise};
use rustix::process::Signal;

/// A server in this thread, and clients that have received one response each.
fn served(
    options: LoopOptions,
    clients: usize,
) -> (Reactor<EndpointsEngine, AnySelector>, Vec<TcpStream>, usize) {
    sys::raise_descriptors().unwrap();
    let any = (Ipv4Addr::LOCALHOST, 0).into();
    let (listener, address) = listen(any, ListenOptions::default()).unwrap();
    let app = HandlerApp::new(Endpoints::new(), sys::now(), sys::wall_clock);
    let mut engine = ServerEngine::new(sys::now(), app, Limits::default(), Stop::new());
    engine.add_listener(LISTENER, None);
    let mut reactor = Reactor::with_options(engine, options).unwrap();
    reactor.listen(listener).unwrap();
    let mut answer = [0; 4096];
    let mut answer_len = 0;
    let clients = (0..clients as u64).map(|number| {
        let mut stream = client(address);
        stream.write_all(REQUEST).unwrap();
        while reactor.engine.application().requests() <= number {
            reactor.turn().unwrap();
        }
        answer_len = next_of(&mut stream, &mut answer); // it has left in one piece
        stream
    });
    let clients = clients.collect();
    (reactor, clients, answer_len)
}

/// The available bytes, though other tests interrupt threads with signals.
fn next_of(stream: &mut impl Read, into: &mut [u8]) -> usize {
    loop {
        match stream.read(into) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            result => return result.unwrap(),
        }
    }
}

/// The cost of responses to all clients at once, over `turns` turns.
fn cost(options: LoopOptions, clients: usize, turns: u64) -> Ledger {
    let (mut reactor, mut clients, answer_len) = served(options, clients);
    clients.iter_mut().for_each(|stream| stream.write_all(REQUEST).unwrap());
    let before = Ledger::here();
    (0..turns).for_each(|_| reactor.turn().unwrap());
    let made = Ledger::here() - before;
    let mut answer = vec![0; answer_len];
    clients.iter_mut().for_each(|stream| stream.read_exact(&mut answer).unwrap());
    made
}

#[test]
fn a_turn_over_a_ring_is_three_calls_for_any_number_of_requests() {
    if !has_ring() {
        return;
    }
    let options = LoopOptions { driver: Driver::RING, spin: Spin::Off };
    for (clients, turns) in [(8, 1), (64, 1), (1_000, 16)] {
        let made = cost(options, clients, turns);
        let operation = |it| (made.operation(it).calls, made.operation(it).eagain);
        let all = (clients as u64, 0);
        assert_eq!((operation(Operation::recv), operation(Operation::send)), (all, all));
        assert_eq!(made.count(Call::io_uring_enter).calls, 2 * turns);
        assert_eq!((made.count(Call::epoll_wait).calls, made.total()), (turns, 3 * turns));
    }
}

#[test]
fn short_lists_are_direct_calls() {
    if !has_ring() {
        return;
    }
    let short = LoopOptions { driver: Driver::RING, spin: Spin::Off };
    let never = LoopOptions { driver: Driver::Epoll, spin: Spin::Off };
    for (options, clients) in [(short, 7), (never, 64)] {
        let made = cost(options, clients, 1);
        let calls = |call| made.count(call).calls;
        assert_eq!((calls(Call::recv), calls(Call::send)), (clients as u64, clients as u64));
        assert_eq!((calls(Call::io_uring_enter), made.operations().count()), (0, 0));
    }
}

/// Wherever a ring fails, at a receive, a send or a close, direct calls complete the list.
#[test]
fn a_ring_that_fails_is_given_up_and_nothing_is_lost() {
    if !has_ring() {
        return;
    }
    for (lists, at) in [(0, "receive"), (1, "send"), (2, "close")] {
        let direct = LoopOptions { driver: Driver::Epoll, spin: Spin::Off };
        let (mut reactor, mut clients, answer_len) = served(direct, 2);
        let mut ring = Ring::new().unwrap();
        ring.set_lists_max(lists);
        reactor.set_ring(ring, 1);
        clients[0].write_all(LAST_REQUEST).unwrap();
        while reactor.driver() == "ring" {
            reactor.turn().unwrap(); // it has a receive, a send and a close
        }
        clients[1].write_all(REQUEST).unwrap();
        while reactor.engine.application().requests() < 4 {
            reactor.turn().unwrap();
        }
        let mut last = Vec::new();
        clients[0].read_to_end(&mut last).unwrap();
        assert!(last.starts_with(b"HTTP/1.1 200 "), "answered, then closed: {at}");
        clients[1].read_exact(&mut vec![0; answer_len]).unwrap();
        let why = reactor.driver_info().ring_error.unwrap();
        assert!(why.contains("simulated failure"), "{at}: {why}");
    }
}

/// The same at any list of a client: every response arrives once and complete.
#[test]
fn a_client_whose_ring_fails_loses_nothing() {
    if !has_ring() {
        return;
    }
    let mut given_up = 0;
    for lists in 0..20 {
        let mut pair = ClientAndServer::<OwnLoop<_>, OwnLoop<_>>::new(
            TransferRecorder::default(),
            Config::default(),
        );
        let mut ring = Ring::new().unwrap();
        ring.set_lists_max(lists);
        pair.client.0.set_ring(ring, 1);
        for round in 0..2 {
            let of = |at: usize| if at == 0 { 300_000 } else { 1_000 * round + at };
            let transfers: Vec<_> =
                (0..6).map(|at| pair.get(&format!("/bytes/{}", of(at)))).collect();
            pair.run();
            for (at, transfer) in transfers.iter().enumerate() {
                let recorder = pair.client.engine().application();
                assert!(recorder.ended(*transfer).result.is_ok(), "{lists}: {recorder:?}");
                assert_eq!(recorder.body(*transfer).len(), of(at), "{lists}");
            }
        }
        assert_eq!(pair.client.engine().idle_connections(), 6, "no connection was lost: {lists}");
        let info = pair.client.0.driver_info();
        if let Some(why) = info.ring_error {
            given_up += 1;
            assert!(info.driver == "epoll" && why.contains("simulated failure"), "{why}");
        } else {
            assert_eq!(info.driver, "ring:1");
        }
    }
    assert!(given_up >= 5, "a run has some lists: {given_up}");
}

/// Empty polls have a line of their own, and are calls as all others.
#[test]
fn polls_in_vain_are_counted() {
    let spin = Spin::Within(Duration::from_secs(1));
    let (mut polls, _client, _) = served(LoopOptions { driver: Driver::Epoll, spin }, 1);
    let before = Ledger::here();
    polls.turn_within(Duration::from_millis(20)).unwrap();
    let made = Ledger::here() - before;
    let calls = |call| made.count(call).calls;
    let (empty, yields) = (calls(Call::epoll_wait_empty), calls(Call::sched_yield));
    assert!(yields > 0 && empty > yields, "{empty} empty polls, {yields} yields");
    let slept = calls(Call::epoll_wait) + calls(Call::epoll_pwait2);
    assert!(slept <= 1 && made.total() == empty + yields + slept, "{made:?}");
}

/// A polling thread finds new events without a sleep.
#[test]
fn events_during_polling_need_no_sleep() {
    let spin = Spin::Within(Duration::from_secs(1));
    let (mut polls, mut clients, answer_len) =
        served(LoopOptions { driver: Driver::Epoll, spin }, 1);
    let start = polls.stats().turns;
    let before = Ledger::here();
    let asker = std::thread::spawn(move || {
        let mut answer = vec![0; answer_len];
        for _ in 0..10 {
            clients[0].write_all(REQUEST).unwrap();
            clients[0].read_exact(&mut answer).unwrap();
        }
        clients
    });
    while polls.engine.application().requests() < 11 {
        polls.turn().unwrap();
    }
    let clients = asker.join().unwrap();
    let made = Ledger::here() - before;
    // A wait that finds something is a call by its usual name, and there is one in each turn.
    let (turns, slept) = (polls.stats().turns - start, made.count(Call::epoll_pwait2).calls);
    assert_eq!((made.count(Call::epoll_wait).calls, slept), (turns, 0), "{made:?}");
    drop(clients);
}

/// After long waits the loop does not poll.
#[test]
fn an_idle_loop_does_not_poll() {
    let options = LoopOptions { driver: Driver::Epoll, spin: Spin::Auto };
    let (mut server, _client, _) = served(options, 1);
    // The first wait teaches the loop, and may still poll.
    (0..2).for_each(|_| server.turn_within(Duration::from_millis(20)).unwrap());
    let before = Ledger::here();
    (0..5).for_each(|_| server.turn_within(Duration::from_millis(2)).unwrap());
    let made = Ledger::here() - before;
    assert_eq!((made.count(Call::epoll_wait).calls, made.total()), (5, 5), "{made:?}");
}

/// The cost of this many requests, one after the other, from a thread on `cpu`.
fn answered(
    server: &mut Reactor<EndpointsEngine, AnySelector>,
    (client, answer_len): (&mut TcpStream, usize),
    cpu: usize,
    count: u64,
) -> Ledger {
    let before = Ledger::here();
    let until = server.engine.application().requests() + count;
    std::thread::scope(|threads| {
        threads.spawn(|| {
            sys::run_on_cpus(&[cpu]).unwrap();
            let mut answer = vec![0; answer_len];
            for _ in 0..count {
                client.write_all(REQUEST).unwrap();
                client.read_exact(&mut answer).unwrap();
            }
        });
        while server.engine.application().requests() < until {
            server.turn().unwrap();
        }
    });
    Ledger::here() - before
}

/// If both ends share a core, polling only takes it away from the other end.
#[test]
fn polling_stops_while_the_core_is_shared() {
    let cpus = sys::allowed_cpus().unwrap();
    sys::run_on_cpus(&cpus[..1]).unwrap();
    let options = LoopOptions {
        driver: Driver::Epoll,
        spin: Spin::Within(Duration::from_millis(1)), // or the client's sleeps are too long for it
    };
    let (mut server, mut clients, answer_len) = served(options, 1);
    let mut answered = |cpu, count| {
        let made = answered(&mut server, (&mut clients[0], answer_len), cpu, count);
        let of = |call| made.count(call).calls;
        (of(Call::sched_yield), of(Call::epoll_wait_empty), of(Call::getrusage))
    };
    answered(cpus[0], 500); // it learns from these
    let (yields, empty, looks) = answered(cpus[0], 2000);
    assert!(yields + empty + looks < 1000, "{yields} yields, {empty} empty polls, {looks} looks");
    // Other processes use the cores too: it may take time until this one is free during a wait.
    let polls = |_| answered(*cpus.last().unwrap(), 10).1 > 30;
    assert!(cpus.len() == 1 || (0..5000).any(polls));
}

/// A command without the permission to create a ring.
fn without_ring(arguments: &[&str]) -> Command {
    let mut command = Command::new(example("without_ring"));
    command.arg(fulmar()).args(arguments);
    command
}

/// A command with a ring that fails at more than two operations at once.
fn with_failing_ring(arguments: &[&str]) -> Command {
    let mut command = Command::new(example("without_ring"));
    command.args(["--beyond", "2"]).arg(fulmar()).args(arguments).args(["--driver", "ring:1"]);
    command
}

/// Three connections send requests while the process is stopped.
fn send_three_requests<S: Read + Write>(process: &ChildProcess, connect: impl Fn() -> S) {
    let mut answer = [0; 4096];
    let mut streams = [connect(), connect(), connect()];
    for stream in &mut streams {
        stream.write_all(REQUEST).unwrap();
        assert!(next_of(stream, &mut answer) > 0);
    }
    process.pause();
    streams.iter_mut().for_each(|stream| stream.write_all(REQUEST).unwrap());
    process.signal(Signal::CONT);
    for stream in &mut streams {
        assert!(next_of(stream, &mut answer) > 0);
    }
}

fn end_of(command: &mut Command) -> ExitOutput {
    ChildProcess::start(command).wait()
}

#[test]
fn without_io_uring_programs_report_epoll() {
    let tree = Tree::new();
    tree.file("f", "inside");
    let root = tree.root();
    let serve = ["serve", root.to_str().unwrap(), "--listen", "127.0.0.1:0", "--ledger"];
    let mut served = Serve::start_command(&mut without_ring(&serve), true);
    let told = served.process.wait_stderr("io_uring is not");
    assert!(told.contains("using epoll") && told.contains("not permitted"), "{told}");
    let url = served.url("/f");
    let load = ["load", "--json", "-n", "200", "-c", "16", "--rate", "2000", &url];
    let ended = end_of(&mut without_ring(&load));
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert!(ended.stderr.contains("using epoll"), "{ended:?}");
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&report["driver"], &report["requests"]), (&"epoll".into(), &200.into()));
    let calls = |name: &str| report["syscalls"][name]["calls"].as_u64().unwrap_or(0);
    assert!(calls("epoll_pwait2") <= 1 && calls("epoll_wait") > 1, "asked once: {report}");
    let ended = served.end(Signal::TERM);
    assert!(ended.stdout.contains("driver epoll,"), "{}", ended.stdout);
    assert_eq!(ended.stderr.matches("io_uring").count(), 1, "one line: {}", ended.stderr);
}

/// A ring takes locked memory; without a capability its limit is low.
#[test]
fn threads_without_a_ring_are_counted() {
    if !has_ring() || sys::user().unwrap() != 0 {
        return; // other processes of this user may have locked all of it
    }
    let tree = Tree::new();
    let mut command = peer("setpriv");
    command.args(["--inh-caps", "-ipc_lock", "--bounding-set", "-ipc_lock", "--"]);
    command.args(["sh", "-c", "ulimit -l 16; exec \"$@\"", "sh"]).arg(fulmar());
    command.arg("serve").arg(tree.root()).args(["--listen", "127.0.0.1:0", "--ledger"]);
    let mut serve = Serve::start_command(command.args(["--threads", "8"]), true);
    let told = serve.process.wait_stderr("io_uring is not");
    assert!(told.contains(" of 8 threads, using epoll") && told.contains("memory"), "{told}");
    let ended = serve.end(Signal::TERM);
    assert_eq!(ended.stderr.matches("io_uring").count(), 1, "one line: {}", ended.stderr);
    assert!(ended.stdout.contains("driver epoll, ring, "), "{}", ended.stdout);
}

/// A filter may allow the call that creates a ring and forbid the one that uses it.
#[test]
fn an_unusable_ring_is_reported_with_its_cause() {
    let mut command = Command::new(example("without_ring"));
    command.args(["--beyond", "0"]).arg(fulmar()).args(["load", "-n", "1", "--driver", "ring"]);
    let ended = end_of(command.arg("http://127.0.0.1:9/"));
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let clear = ended.stderr.contains("driver `ring`") && ended.stderr.contains("not permitted");
    assert!(clear && !ended.stderr.contains("RECV"), "{ended:?}");
}

#[test]
fn a_requested_ring_that_is_forbidden_is_an_error() {
    let tree = Tree::new();
    let root = tree.root();
    let dir = root.to_str().unwrap();
    for tool in [
        &["serve", dir, "--listen", "127.0.0.1:0"][..],
        &["load", "-n", "1", "http://127.0.0.1:9/"],
        &["get", "-o", dir, "http://127.0.0.1:9/"],
    ] {
        let ended = end_of(without_ring(tool).args(["--driver", "ring"]));
        assert_eq!(ended.status.code(), Some(1), "{tool:?}: {ended:?}");
        let clear =
            ended.stderr.contains("driver `ring`") && ended.stderr.contains("not permitted");
        assert!(clear && !ended.stderr.contains("panicked"), "{tool:?}: {ended:?}");
    }
}

#[test]
fn a_proxy_without_a_ring_reports_it() {
    let tree = Tree::new();
    let text = "defaults\n  mode http\n  timeout connect 5s\n  timeout client 5s\n  \
                timeout server 5s\nfrontend fe\n  bind 127.0.0.1:0\n  http-request deny\n";
    let config = tree.file("proxy.cfg", text);
    let config = config.to_str().unwrap();
    let mut proxy = ChildProcess::start(&mut without_ring(&["proxy", "-f", config]));
    let told = proxy.wait_stderr("io_uring is not");
    assert!(told.contains("WARNING") && told.contains("not permitted"), "{told}");
    proxy.signal(Signal::TERM);
    let ended = end_of(without_ring(&["proxy", "-f", config]).args(["--driver", "ring"]));
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("driver `ring`"), "{ended:?}");
}

#[test]
fn reports_name_the_driver() {
    if !has_ring() {
        return;
    }
    let tree = Tree::new();
    tree.file("f", "inside");
    let flags = ["--driver", "ring:1", "--spin", "auto", "--ledger"];
    let serve = Serve::start(&tree.root(), &flags);
    HttpClient::connect(serve.address).get("/f");
    let url = serve.url("/f");
    let load = |more: &[&str]| {
        let mut command = Command::new(fulmar());
        end_of(command.args(["load", "-n", "50", "-c", "2", &url]).args(more))
    };
    let json = load(&["--json", "--driver", "ring:1", "--spin", "70"]);
    let report: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&report["driver"], &report["spin"]), (&"ring:1".into(), &"70".into()));
    assert_eq!(report["operations"]["recv"]["calls"], 50);
    let text = load(&flags).stdout;
    assert!(text.contains("driven by       ring:1 (spin auto): "), "{text}");
    assert!(text.contains("in a ring: recv"), "{text}");
    let ended = serve.end(Signal::TERM);
    assert!(ended.stdout.contains("driver ring:1 (spin auto), "), "{}", ended.stdout);
    assert!(ended.stdout.contains("in a ring: recv"), "{}", ended.stdout);
}

#[test]
fn a_server_that_loses_its_ring_reports_it() {
    if !has_ring() {
        return;
    }
    let tree = Tree::new();
    tree.file("bytes/128", "inside");
    let root = tree.root();
    let serve = ["serve", root.to_str().unwrap(), "--listen", "127.0.0.1:0", "--ledger"];
    let mut command = with_failing_ring(&serve);
    let mut serve = Serve::start_command(command.args(["--metrics", "127.0.0.1:0"]), true);
    let line = serve.process.wait_stdout("metrics on ");
    let figures = line.trim().strip_prefix("metrics on http://").unwrap();
    let figures = figures.strip_suffix("/metrics").unwrap().parse().unwrap();
    let sample = |start: &str| {
        let text = HttpClient::connect(figures).get("/metrics").body;
        let text = String::from_utf8(text).unwrap();
        text.lines().find(|line| line.starts_with(start)).unwrap().to_owned()
    };
    let loops = || sample("fulmar_loops{");
    assert_eq!(loops(), "fulmar_loops{driver=\"ring:1\",spin=\"off\"} 1");
    send_three_requests(&serve.process, || client(serve.address));
    assert_eq!(loops(), "fulmar_loops{driver=\"epoll\",spin=\"off\"} 1");
    let received = sample("fulmar_ring_operations_total{operation=\"recv\"} ");
    assert!(!received.ends_with(" 0"), "nothing hides in a ring: {received}");
    let url = serve.url("/bytes/128");
    let ended = end_of(&mut with_failing_ring(&["load", "--json", "-n", "400", "-c", "16", &url]));
    assert!(ended.stdout.contains("\"driver\":\"epoll\""), "{ended:?}");
    assert!(ended.stderr.contains("changed from io_uring"), "{ended:?}");
    let ended = serve.end(Signal::TERM);
    assert!(ended.stdout.contains("driver epoll,"), "{}", ended.stdout);
    assert!(ended.stderr.contains("changed from io_uring"), "{}", ended.stderr);
}

#[test]
fn a_download_that_loses_its_ring_is_complete_and_reports_it() {
    if !has_ring() {
        return;
    }
    let tree = Tree::new();
    for number in 0..40 {
        tree.file(number.to_string(), noise(3_000 * number));
    }
    let serve = Serve::start(&tree.root(), &[]);
    let urls: Vec<_> = (0..40).map(|number| serve.url(&format!("/{number}"))).collect();
    let dir = Tree::new();
    let to = dir.root();
    let mut get = vec!["get", "--ledger", "--retry", "0", "--per-host", "16", "-o"];
    get.push(to.to_str().unwrap());
    get.extend(urls.iter().map(String::as_str));
    let ended = end_of(&mut with_failing_ring(&get));
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert_eq!(ended.stderr.matches("changed from io_uring").count(), 1, "{ended:?}");
    assert!(ended.stderr.contains("not permitted"), "why: {ended:?}");
    assert!(ended.stdout.contains("driven by       epoll: "), "{ended:?}");
    for number in 0..40 {
        let file = std::fs::read(to.join(number.to_string())).unwrap();
        assert!(file == noise(3_000 * number), "{number} is whole");
    }
}

#[test]
fn a_proxy_that_loses_its_ring_reports_it() {
    if !has_ring() {
        return;
    }
    let tree = Tree::new();
    let (door, stats) = (tree.root().join("door"), tree.root().join("stats"));
    let text = format!(
        "global\n  nbthread 1\n  stats socket {}\ndefaults\n  mode http\n  timeout client 5s\n\
         frontend fe\n  \
         bind {}\n  http-request use-service prometheus-exporter if {{ path /metrics }}\n  \
         http-request return status 200\n",
        stats.display(),
        door.display()
    );
    let config = tree.file("proxy.cfg", &text);
    let process =
        ChildProcess::start(&mut with_failing_ring(&["proxy", "-f", config.to_str().unwrap()]));
    eventually("it listens", || UnixStream::connect(&stats).is_ok());
    let says = |driver| {
        let (info, figures) = (reported_at(&stats, "show info\n"), reported_at(&door, FIGURES));
        assert!(info.contains(&format!("\nDriver: {driver}\n")), "{info}");
        let sample = format!("fulmar_loops{{driver=\"{driver}\",spin=\"off\"}} 1\n");
        assert!(figures.contains(&sample), "{figures}");
    };
    says("ring:1");
    send_three_requests(&process, || connect_to(&door));
    says("epoll");
    process.signal(Signal::TERM);
    process.wait();
}

/// The counts of a proxy for 50 requests on one connection: `show activity` before and after them,
/// and `show info` at the end.
fn activity_of(driver: &str) -> (BTreeMap<String, u64>, String) {
    let tree = Tree::new();
    let (door, stats) = (tree.root().join("door"), tree.root().join("stats"));
    let text = format!(
        "global\n  nbthread 1\n  stats socket {}\ndefaults\n  mode http\n  timeout client 1m\n\
         frontend fe\n  bind {}\n  http-request return status 200\n",
        stats.display(),
        door.display()
    );
    let config = tree.file("proxy.cfg", &text);
    let mut command = Command::new(fulmar());
    command.args(["proxy", "--driver", driver, "--spin", "off", "-f"]).arg(config);
    let process = ChildProcess::start(&mut command);
    eventually("it listens", || UnixStream::connect(&stats).is_ok());
    let activity = || -> BTreeMap<String, u64> {
        let text = reported_at(&stats, "show activity\n");
        let lines = text.lines().filter_map(|line| line.split_once(": "));
        lines.map(|(name, count)| (name.to_owned(), count.parse().unwrap())).collect()
    };
    let before = activity();
    let mut client = BufReader::new(connect_to(&door));
    for _ in 0..50 {
        client.get_mut().write_all(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            client.read_line(&mut line).unwrap();
        }
    }
    let made = || -> BTreeMap<String, u64> {
        let since = |(name, count): (String, u64)| {
            let earlier = before.get(&name).copied().unwrap_or(0);
            (name, count - earlier)
        };
        activity().into_iter().map(since).collect()
    };
    // The thread publishes its counts at the end of its turn.
    let mut counts = made();
    eventually("the last response is counted", || {
        counts = made();
        let of = |name: &str| counts.get(name).copied().unwrap_or(0);
        of("send") + of("ring_send") >= 50
    });
    let report = (counts, reported_at(&stats, "show info\n"));
    process.signal(Signal::TERM);
    process.wait();
    report
}

#[test]
fn a_proxy_reports_its_ring_operations() {
    let of = |counts: &BTreeMap<String, u64>, name: &str| counts.get(name).copied().unwrap_or(0);
    let (calls, info) = activity_of("epoll");
    for name in ["recv", "send"] {
        assert!((50..60).contains(&of(&calls, name)), "{calls:?}");
    }
    assert!(!calls.keys().any(|name| name.starts_with("ring_") && of(&calls, name) > 0));
    assert!(info.contains("\nRingOperations: 0\n"), "{info}");
    if !has_ring() {
        return;
    }
    let (done, info) = activity_of("ring:1");
    for name in ["recv", "send"] {
        let (call, operation) = (of(&done, name), of(&done, &format!("ring_{name}")));
        assert!(operation >= 49 && (50..60).contains(&(call + operation)), "{name}: {done:?}");
    }
    let each: u64 = done.iter().filter(|(name, _)| name.starts_with("ring_")).map(|it| it.1).sum();
    assert_eq!(each, 2 * of(&done, "ring_operations"), "the sum, and its parts: {done:?}");
    let total = info.lines().find_map(|line| line.strip_prefix("RingOperations: "));
    assert!(total.unwrap().parse::<u64>().unwrap() >= of(&done, "ring_operations"), "{info}");
}

fn connect_to(place: &Path) -> UnixStream {
    let stream = UnixStream::connect(place).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The reply at a Unix socket, up to its end.
fn reported_at(place: &Path, question: &str) -> String {
    let mut stream = connect_to(place);
    stream.write_all(question.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// As in docs/loops.md: a ring where it is available, and no polling, because it slows down
/// processes on the same core.
#[test]
fn the_default_is_a_ring_without_polling() {
    let usual = LoopOptions { driver: Driver::Auto, spin: Spin::Off };
    assert_eq!(LoopOptions::default(), usual);
    assert_eq!(fulmar_load::Options::default().loop_options, usual);
    let drives = if has_ring() { "ring" } else { "epoll" };
    let host = Host::new(|_| Ok(HandlerApp::new(Endpoints::new(), sys::now(), sys::wall_clock)));
    let running = host.listen(Listen::tcp((Ipv4Addr::LOCALHOST, 0).into())).start().unwrap();
    assert_eq!(running.drivers()[0].to_string(), drives, "a library's");
    running.stop();
    running.join().unwrap();
    let tree = Tree::new();
    tree.file("f", "inside");
    let tool = |name: &str| {
        let mut command = Command::new(fulmar());
        command.arg(name).env("FULMAR_DRIVER", "").env("FULMAR_SPIN", "");
        command
    };
    let mut command = tool("serve");
    command.arg(tree.root()).args(["--listen", "127.0.0.1:0", "--ledger"]);
    let serve = Serve::start_command(&mut command, true);
    let url = serve.url("/f");
    let load = end_of(tool("load").args(["--json", "-n", "1", "-c", "1", &url])).stdout;
    assert!(load.contains(&format!("\"driver\":\"{drives}\"")), "{load}");
    assert!(load.contains("\"spin\":\"off\""), "{load}");
    let get = end_of(tool("get").args(["--ledger", &url, "-o"]).arg(tree.turn_while("out"))).stdout;
    assert!(get.contains(&format!("driven by       {drives}: ")), "{get}");
    let served = serve.end(Signal::TERM).stdout;
    assert!(served.contains(&format!("; driver {drives}, ")), "{served}");
    let stats = tree.turn_while("stats");
    let text = format!(
        "global\n  stats socket {}\ndefaults\n  mode http\n  timeout client 5s\nfrontend fe\n  \
         bind 127.0.0.1:0\n  http-request deny\n",
        stats.display()
    );
    let config = tree.file("proxy.cfg", &text);
    let proxy = ChildProcess::start(tool("proxy").arg("-f").arg(config));
    eventually("it listens", || UnixStream::connect(&stats).is_ok());
    let info = reported_at(&stats, "show info\n");
    assert!(info.contains(&format!("\nDriver: {drives}\n")), "{info}");
    proxy.signal(Signal::TERM);
    proxy.wait();
}

#[test]
fn the_environment_selects_the_driver_without_a_flag() {
    if !has_ring() {
        return;
    }
    let run = |driver: &str, flags: &[&str]| {
        let mut command = Command::new(fulmar());
        command.args(["load", "--json", "-n", "20", "-c", "1"]).args(flags);
        end_of(command.env("FULMAR_DRIVER", driver).env("FULMAR_SPIN", "off"))
    };
    let driver = |ended: &ExitOutput| {
        let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
        report["driver"].as_str().unwrap().to_owned()
    };
    assert_eq!(driver(&run("ring", &[])), "ring");
    assert_eq!(driver(&run("ring", &["--driver", "epoll"])), "epoll");
    assert_eq!(driver(&run("uring", &["--driver", "epoll"])), "epoll", "nobody asks");
    assert_eq!(driver(&run("", &[])), "ring", "as if it were not there");
    let wrong = run("uring", &[]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        wrong.stderr.contains("FULMAR_DRIVER: unknown driver `uring`: use auto"),
        "{}",
        wrong.stderr
    );
}

const FIGURES: &str = "GET /metrics HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
const LAST_REQUEST: &[u8] = b"GET /bytes/128 HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
const REQUEST: &[u8] = b"GET /bytes/128 HTTP/1.1\r\nHost: test\r\n\r\n";
