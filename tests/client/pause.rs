//! Pausing: no events, no work; afterwards the transfer continues at the same byte.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use fulmar_client::{Config, Context, TransferEvent, TransferId};
use fulmar_sys::{Call, Ledger};
use fulmar_tests::in_every_loop;
use fulmar_tests::scripted::{ScriptedRequest, ServerStep, answer, ok};
use fulmar_tests::transfers::{ClientLoop, Staged, TransferRecorder};

use crate::remove::leave_nothing;

/// A recorder that pauses every transfer at its head.
fn pausing() -> TransferRecorder {
    let recorder = TransferRecorder::default();
    let paused = recorder.paused.clone();
    let act = move |context: &mut Context<'_>, id: TransferId, event: &TransferEvent<'_>| {
        if matches!(event, TransferEvent::Head { .. }) {
            context.pause(id);
            paused.borrow_mut().insert(id);
        }
    };
    TransferRecorder { act: Some(Box::new(act)), ..recorder }
}

fn resume<L: ClientLoop>(staged: &mut Staged<L>, id: TransferId) {
    let paused = staged.recorder().paused.clone();
    paused.borrow_mut().remove(&id);
    staged.with(|context| context.resume(id));
}

/// Calls that move bytes or change registrations.
fn moving(ledger: &Ledger) -> u64 {
    let calls = [Call::recv, Call::send, Call::sendmsg, Call::epoll_ctl, Call::close];
    calls.iter().map(|call| ledger.count(*call).calls).sum()
}

fn stays_quiet<L: ClientLoop>(staged: &mut Staged<L>) {
    let (stats, ledger) = (staged.client.stats(), Ledger::here());
    for _ in 0..20 {
        staged.turn();
    }
    let after = staged.client.stats();
    assert_eq!((after.events, after.timeouts), (stats.events, stats.timeouts));
    assert_eq!(moving(&(Ledger::here() - ledger)), 0);
}

#[test]
fn a_paused_transfer_costs_nothing_though_bytes_wait_in_the_socket() {
    fn check<L: ClientLoop>() {
        let size = 4_000_000 / L::SLOWER;
        let body: Vec<u8> = (0..size).map(|at| (at % 251).to_le_bytes()[0]).collect();
        let sent = body.clone();
        let script = move |_: &ScriptedRequest| ok(&sent);
        let mut staged = Staged::<L>::new(pausing(), Config::default(), script);
        let id = staged.get("/");
        staged.run_until(|client| client.application().trace_of_any("H"));
        for _ in 0..50 {
            staged.turn(); // the server fills the socket's buffer
        }
        stays_quiet(&mut staged);
        assert_eq!(staged.recorder().trace(id), "H");
        resume(&mut staged, id);
        staged.run();
        assert!(staged.recorder().ended(id).result.is_ok());
        assert!(staged.recorder().body(id) == body, "every byte once");
        leave_nothing(&mut staged);
    }
    in_every_loop!(check);
}

/// Everything has arrived together with the head: no further event follows.
#[test]
fn received_bytes_are_delivered_on_resumption() {
    fn check<L: ClientLoop>() {
        let mut staged = Staged::<L>::new(pausing(), Config::default(), |_| ok(b"hello"));
        let id = staged.get("/");
        staged.run_until(|client| client.application().trace_of_any("H"));
        staged.rest();
        assert_eq!(staged.recorder().trace(id), "H");
        resume(&mut staged, id);
        staged.run();
        assert_eq!(staged.recorder().body(id), b"hello");
    }
    in_every_loop!(check);
}

#[test]
fn pause_and_resume_are_idempotent() {
    fn check<L: ClientLoop>() {
        let mut staged = Staged::<L>::new(pausing(), Config::default(), |_| ok(b"hello"));
        let id = staged.get("/");
        staged.with(|context| context.resume(id));
        staged.run_until(|client| client.application().trace_of_any("H"));
        staged.with(|context| {
            context.pause(id);
            context.pause(id);
        });
        staged.rest();
        resume(&mut staged, id);
        staged.with(|context| context.resume(id));
        staged.run();
        assert_eq!(staged.recorder().body(id), b"hello");
        staged.with(|context| {
            context.pause(id); // it is over
            context.resume(id);
        });
        leave_nothing(&mut staged);
    }
    in_every_loop!(check);
}

#[test]
fn a_transfer_paused_before_it_connects_gets_no_events_until_resumed() {
    fn check<L: ClientLoop>() {
        let recorder = TransferRecorder::default();
        let paused = recorder.paused.clone();
        let mut staged = Staged::<L>::new(recorder, Config::default(), |_| ok(b"hello"));
        let id = staged.get("/");
        paused.borrow_mut().insert(id);
        staged.with(|context| context.pause(id));
        staged.rest();
        assert_eq!(staged.recorder().trace(id), "");
        stays_quiet(&mut staged);
        resume(&mut staged, id);
        staged.run();
        assert_eq!(staged.recorder().body(id), b"hello");
    }
    in_every_loop!(check);
}

/// The removal of the request behind it must not resume the paused one.
#[test]
fn a_pause_outlasts_the_removal_of_a_transfer_pipelined_behind() {
    fn check<L: ClientLoop>() {
        let config = Config { pipelining: 4, per_host_max: 1, ..Config::default() };
        let mut staged = Staged::<L>::new(TransferRecorder::default(), config, |_| ok(b"hello"));
        for _ in 0..2 {
            staged.get("/warm");
            staged.run();
        }
        let (a, b) = (staged.get("/a"), staged.get("/b"));
        let paused = staged.recorder().paused.clone();
        paused.borrow_mut().insert(a);
        staged.with(|context| context.pause(a));
        while staged.peer.requests.len() < 4 {
            staged.turn();
        }
        staged.with(|context| assert!(context.remove(b)));
        staged.rest();
        assert_eq!(staged.recorder().trace(a), "");
        resume(&mut staged, a);
        staged.run();
        assert_eq!(staged.recorder().body(a), b"hello");
        leave_nothing(&mut staged);
    }
    in_every_loop!(check);
}

/// The peer closes or resets while we do not read: reported once or after resumption, without
/// spinning.
#[test]
fn the_end_of_the_connection_during_a_pause_does_not_spin() {
    fn check<L: ClientLoop>() {
        for end in [ServerStep::Fin, ServerStep::Close, ServerStep::Reset] {
            let script =
                |_: &ScriptedRequest| vec![ServerStep::Send(answer("200 OK", "", b"hello"))];
            let mut staged = Staged::<L>::new(pausing(), Config::default(), script);
            let id = staged.get("/");
            staged.run_until(|client| client.application().trace_of_any("H"));
            let before = staged.client.stats().events;
            staged.peer.act(0, [end.clone()]);
            staged.rest();
            assert!(staged.client.stats().events - before <= 3, "{end:?}");
            stays_quiet(&mut staged);
            if !matches!(end, ServerStep::Reset) {
                assert_eq!(staged.recorder().trace(id), "H");
                resume(&mut staged, id);
            }
            staged.run();
            let done = staged.recorder().ended(id).result.is_ok();
            assert!(done || matches!(end, ServerStep::Reset), "{end:?}");
        }
    }
    in_every_loop!(check);
}

/// Both sides of T9: an idle connection is closed at once when its peer closes it, without further
/// events.
#[test]
fn the_end_of_an_idle_connection_is_noticed_once() {
    fn check<L: ClientLoop>() {
        for end in [ServerStep::Fin, ServerStep::Close, ServerStep::Reset] {
            let mut staged =
                Staged::<L>::new(TransferRecorder::default(), Config::default(), |_| ok(b""));
            staged.get("/");
            staged.run();
            staged.rest();
            assert_eq!(staged.client.engine().idle_connections(), 1);
            let before = staged.client.stats().events;
            staged.peer.act(0, [end.clone()]);
            staged.run_until(|client| client.connections() == 0);
            assert!(staged.client.stats().events - before <= 3, "{end:?}");
            stays_quiet(&mut staged);
        }
    }
    in_every_loop!(check);
}

/// Paused pieces are delivered one by one: each resumption delivers one, none is lost.
#[test]
fn pausing_at_every_piece_loses_none() {
    fn check<L: ClientLoop>() {
        let chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                       5\r\nhello\r\n1\r\n \r\n5\r\nworld\r\n0\r\n\r\n";
        let script = |_: &ScriptedRequest| vec![ServerStep::Send(chunks.to_vec())];
        let count = Rc::new(Cell::new(0));
        let seen = Rc::clone(&count);
        let recorder = TransferRecorder::with(move |context, id, event| {
            if matches!(event, TransferEvent::Data(_)) {
                seen.set(seen.get() + 1);
                context.pause(id);
            }
        });
        let mut staged = Staged::<L>::new(recorder, Config::default(), script);
        let id = staged.get("/");
        let mut told = 0;
        while staged.client.engine().running() > 0 {
            staged.client.turn(Duration::from_millis(1));
            staged.peer.turn();
            assert!(count.get() <= told + 1, "one piece at a time");
            if count.get() > told {
                told = count.get();
                staged.with(|context| context.resume(id));
            }
        }
        assert_eq!(staged.recorder().body(id), b"hello world");
    }
    in_every_loop!(check);
}

/// The transfer of a connection is removed before it is established: the connection is idle, and
/// must not wait for writability, which always holds.
#[test]
fn an_established_connection_with_nothing_to_send_is_quiet() {
    fn check<L: ClientLoop>() {
        let mut staged =
            Staged::<L>::new(TransferRecorder::default(), Config::default(), |_| ok(b"a"));
        let id = staged.get("/");
        staged.with(|context| assert!(context.remove(id)));
        staged.run_until(|client| client.idle_connections() == 1);
        staged.rest();
        stays_quiet(&mut staged);
        let id = staged.get("/");
        staged.run();
        assert_eq!(staged.recorder().body(id), b"a");
        assert_eq!(staged.peer.accepted(), 1);
    }
    in_every_loop!(check);
}
