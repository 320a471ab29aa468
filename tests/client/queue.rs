//! The queue: which transfers wait, for how long, and in which order they continue.

use std::time::Duration;

use fulmar_client::{Config, Error, Options, Request, TransferId, Waiting};
use fulmar_sys as sys;
use fulmar_tests::in_every_loop;
use fulmar_tests::scripted::{Scripted, ScriptedRequest, ServerStep, ok};
use fulmar_tests::transfers::{ClientLoop, Staged, TransferRecorder};

use crate::remove::leave_nothing;

/// First in, first out; the work for each transfer is constant, however many wait.
#[test]
fn a_thousand_transfers_take_turns_on_six_connections() {
    fn check<L: ClientLoop>() {
        let count = if L::SLOWER > 1 { 60 } else { 1_000 };
        let config = Config { per_host_max: 6, ..Config::default() };
        let mut staged = Staged::<L>::new(TransferRecorder::default(), config, |_| ok(b"hello"));
        let ids: Vec<TransferId> = (0..count).map(|n| staged.get(&format!("/{n}"))).collect();
        staged.run_until(|client| {
            assert!(client.connections() <= 6);
            client.running() == 0
        });
        for (nth, heard) in staged.peer.requests.iter().enumerate() {
            let n: usize = heard.path()[1..].parse().expect("a number");
            assert!(n.abs_diff(nth) <= 6, "{n} was the {nth}th");
        }
        assert_eq!(staged.peer.requests.len(), count);
        assert_eq!(staged.peer.accepted(), 6);
        assert!(ids.iter().all(|id| staged.recorder().ended(*id).result.is_ok()));
        if L::SLOWER == 1 {
            let events = staged.client.stats().events;
            assert!(events <= 3 * count as u64, "{events} events for {count} transfers");
        }
        leave_nothing(&mut staged);
    }
    in_every_loop!(check);
}

/// Further servers; their connections count towards the same total.
fn servers(count: usize, body: &'static [u8]) -> Vec<Scripted> {
    (0..count).map(|_| Scripted::new(move |_| ok(body))).collect()
}

fn run<L: ClientLoop>(staged: &mut Staged<L>, others: &mut [Scripted], max: usize) {
    staged.run_until(|client| {
        others.iter_mut().for_each(Scripted::turn);
        assert!(client.connections() <= max, "{}", client.connections());
        client.running() == 0
    });
}

/// An origin with an endless queue and kept connections must not starve others.
#[test]
fn no_origin_starves() {
    fn check<L: ClientLoop>() {
        for keeps in [true, false] {
            let fields = if keeps { "" } else { "Connection: close\r\n" };
            let said = fulmar_tests::scripted::answer("200 OK", fields, b"hello");
            let script = move |_: &ScriptedRequest| vec![ServerStep::Send(said.clone())];
            let config = Config { connections_max: 2, ..Config::default() };
            let mut staged = Staged::<L>::new(TransferRecorder::default(), config, script);
            let mut others = servers(3, b"other");
            let count = if L::SLOWER > 1 { 90 } else { 200 };
            let many: Vec<_> = (0..count).map(|n| staged.get(&format!("/{n}"))).collect();
            let few: Vec<_> = others
                .iter()
                .flat_map(|other| (0..3).map(|n| format!("http://{}/{n}", other.address())))
                .map(|url| staged.start(&Request::get(&url).build().unwrap()))
                .collect();
            run(&mut staged, &mut others, 2);
            let order: Vec<TransferId> = staged.recorder().done.iter().map(|(id, _)| *id).collect();
            assert_eq!(order.len(), many.len() + few.len());
            let last = order.iter().rposition(|id| few.contains(id)).expect("they ended");
            assert!(last < order.len() - 20, "the last of the few was {last} (kept: {keeps})");
        }
    }
    in_every_loop!(check);
}

/// The next transfer may be removed or not allowed to start: then it is the turn of the one after
/// it.
#[test]
fn an_unused_slot_is_passed_on() {
    fn check<L: ClientLoop>() {
        let config = Config { connections_max: 1, ..Config::default() };
        let mut staged = Staged::<L>::new(TransferRecorder::default(), config, |_| ok(b"hello"));
        let mut others = servers(3, b"other");
        let first = staged.get("/first");
        let waiting: Vec<_> = others
            .iter()
            .map(|other| format!("http://{}/", other.address()))
            .map(|url| staged.start(&Request::get(&url).build().unwrap()))
            .collect();
        let removed = staged.recorder().removed.clone();
        removed.borrow_mut().insert(waiting[0]);
        staged.with(|context| assert!(context.remove(waiting[0])));
        run(&mut staged, &mut others, 1);
        for id in [first, waiting[1], waiting[2]] {
            assert!(staged.recorder().ended(id).result.is_ok());
        }
        leave_nothing(&mut staged);
    }
    in_every_loop!(check);
}

/// The total time counts from the start, including the queue; the error of a queued transfer names
/// the queue.
#[test]
fn time_in_the_queue_counts_towards_the_total() {
    fn check<L: ClientLoop>() {
        let config = Config { per_host_max: 1, ..Config::default() };
        let mut staged = Staged::<L>::new(TransferRecorder::default(), config, |_| Vec::new());
        let slow = staged.get("/never");
        let total_timeout = Some(Duration::from_millis(30));
        let options = Options { total_timeout, ..Options::default() };
        let request = Request::get(&staged.url("/")).options(options.into()).build().unwrap();
        let id = staged.start(&request);
        staged.run_until(|client| client.running() == 1);
        let done = staged.recorder().ended(id);
        assert!(matches!(done.result, Err(Error::TimedOut(Waiting::Total))), "{done:?}");
        assert!(done.timings().total >= Duration::from_millis(30));
        staged.with(|context| assert!(context.remove(slow)));
        leave_nothing(&mut staged);
    }
    in_every_loop!(check);
}

/// Time in the queue is not connect time, and is reported separately.
#[test]
fn time_in_the_queue_does_not_count_towards_connecting() {
    fn check<L: ClientLoop>() {
        let connect_timeout = Some(Duration::from_secs(2));
        let config = Config { per_host_max: 1, connect_timeout, ..Config::default() };
        let script =
            |heard: &ScriptedRequest| if heard.path() == "/slow" { Vec::new() } else { ok(b"") };
        let mut staged = Staged::<L>::new(TransferRecorder::default(), config, script);
        let slow = staged.get("/slow");
        let id = staged.get("/waits");
        let begun = sys::now();
        while sys::now() - begun < Duration::from_millis(2_200) {
            staged.turn();
        }
        let close = fulmar_tests::scripted::answer("200 OK", "Connection: close\r\n", b"");
        staged.peer.act(0, [ServerStep::Send(close), ServerStep::Close]);
        staged.run();
        assert!(staged.recorder().ended(slow).result.is_ok());
        let done = staged.recorder().ended(id);
        assert!(done.result.is_ok(), "{done:?}");
        assert!(done.timings().queue > Duration::from_secs(2), "{done:?}");
        assert!(done.timings().connect < Duration::from_secs(2), "{done:?}");
    }
    in_every_loop!(check);
}

/// A Retry-After holds back all requests to its host.
#[test]
fn retry_after_delays_all_requests_of_the_host() {
    fn check<L: ClientLoop>() {
        let script = |heard: &ScriptedRequest| match (heard.connection, heard.nth) {
            (0, 0) => {
                let fields = "Retry-After: 3\r\n";
                vec![ServerStep::Send(fulmar_tests::scripted::answer("503 No", fields, b"busy"))]
            }
            _ => ok(b"hello"),
        };
        let mut staged = Staged::<L>::new(TransferRecorder::default(), Config::default(), script);
        let options = Options { retries: 2, ..Options::default() };
        let request = Request::get(&staged.url("/")).options(options.into()).build().unwrap();
        let begun = sys::now();
        let id = staged.start(&request);
        while staged.peer.requests.is_empty() {
            staged.turn();
        }
        staged.rest();
        let other = staged.get("/other");
        staged.rest();
        assert_eq!(staged.peer.requests.len(), 1, "it rests");
        staged.run();
        assert!(sys::now() - begun >= Duration::from_secs(3));
        for id in [id, other] {
            assert_eq!(staged.recorder().body(id), b"hello");
        }
        leave_nothing_but_manners(&mut staged);
    }
    in_every_loop!(check);
}

fn leave_nothing_but_manners<L: ClientLoop>(staged: &mut Staged<L>) {
    staged.client.with(|client, now| client.close_idle(now));
    staged.run_until(|client| client.connections() == 0);
    assert_eq!(staged.client.engine().running(), 0);
}

/// Limits of zero would block every transfer: the minimum of each is one.
#[test]
fn limits_of_zero_do_not_stop_everything() {
    fn check<L: ClientLoop>() {
        let config = Config {
            connections_max: 0,
            per_host_max: 0,
            per_host_active: Some(0),
            idle_max: 0,
            pipelining: 0,
            ..Config::default()
        };
        let mut staged = Staged::<L>::new(TransferRecorder::default(), config, |_| ok(b"hello"));
        for _ in 0..3 {
            staged.get("/");
        }
        staged.run();
        assert_eq!(staged.recorder().done.len(), 3);
        let config = Config { pipelining: u32::MAX, per_host_max: 1, ..Config::default() };
        let mut staged = Staged::<L>::new(TransferRecorder::default(), config, |_| ok(b"hello"));
        for _ in 0..3 {
            staged.get("/");
        }
        staged.run();
        assert_eq!(staged.recorder().done.len(), 3);
    }
    in_every_loop!(check);
}

/// Idle connections are closed at once; connections in use finish their exchanges and accept no
/// further ones.
#[test]
fn close_idle_closes_busy_connections_when_they_finish() {
    fn check<L: ClientLoop>() {
        let script =
            |heard: &ScriptedRequest| if heard.path() == "/held" { Vec::new() } else { ok(b"") };
        let mut staged = Staged::<L>::new(TransferRecorder::default(), Config::default(), script);
        let held = staged.get("/held");
        let other = staged.get("/other");
        staged.run_until(|client| client.running() == 1);
        while staged.peer.requests.len() < 2 {
            staged.turn();
        }
        assert_eq!(staged.client.engine().connections(), 2);
        staged.client.with(|client, now| client.close_idle(now));
        staged.rest();
        assert_eq!(staged.client.engine().connections(), 1);
        let at = staged.peer.requests.iter().position(|heard| heard.path() == "/held").unwrap();
        let connection = staged.peer.requests[at].connection;
        staged.peer.act(connection, ok(b"late"));
        staged.run();
        staged.rest();
        assert_eq!(staged.client.engine().connections(), 0);
        assert_eq!(staged.recorder().body(held), b"late");
        assert!(staged.recorder().ended(other).result.is_ok());
    }
    in_every_loop!(check);
}
