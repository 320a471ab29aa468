//! No exchange waits for a delayed acknowledgement, and none makes more calls than it needs.

use std::sync::Arc;

use fulmar_client::{Client, Config, Options, Request, RequestBody, TransferEvent};
use fulmar_sys::{Call, Ledger};
use fulmar_tests::in_every_loop;
use fulmar_tests::loops::{OwnLoop, done};
use fulmar_tests::scripted::ok;
use fulmar_tests::transfers::{ClientLoop, Staged, TransferRecorder};

/// Kept connection, second and later exchanges: a small request, one with a body, one that waits
/// for a 100, and one that is streamed.
fn requests<L: ClientLoop>(staged: &Staged<L>) -> [Request; 4] {
    let url = staged.url("/");
    let expects = Options { expect_continue_from: Some(1), ..Options::default() };
    let plain = Options { expect_continue_from: None, ..Options::default() };
    let (expects, plain) = (Arc::new(expects), Arc::new(plain));
    let post = || Request::with_method("POST", &url);
    let body = || RequestBody::Bytes(vec![b'x'; 3_000].into());
    [
        Request::get(&url),
        post().body(body()).options(plain.clone()),
        post().body(body()).options(expects),
        post().body(RequestBody::Stream(None)).options(plain),
    ]
    .map(|request| request.build().expect("a request"))
}

fn streaming() -> TransferRecorder {
    TransferRecorder::with(|context, id, event| {
        if matches!(event, TransferEvent::Writable)
            && context.progress(id).is_some_and(|p| p.sent == 0)
        {
            context.send(id, bytes::Bytes::from_static(b"one"));
            context.send(id, bytes::Bytes::from_static(b"two"));
            context.finish(id);
        }
    })
}

#[test]
fn no_exchange_waits_for_an_acknowledgement() {
    fn check<L: ClientLoop>() {
        let mut staged = Staged::<L>::new(streaming(), Config::default(), |_| ok(b"hello"));
        for request in requests(&staged) {
            // Measured in turns of a millisecond without events, not in time, because the other
            // loops share the CPU.
            let mut turns: Vec<u32> = (0..15)
                .map(|_| {
                    staged.start(&request);
                    let mut turns = 0;
                    staged.run_until(|client| {
                        turns += 1;
                        client.running() == 0
                    });
                    turns
                })
                .collect();
            turns.sort_unstable();
            let median = turns[turns.len() / 2];
            // A delayed acknowledgement is 40 ms late.
            assert!(median < 25, "{median} turns");
        }
        assert_eq!(staged.peer.accepted(), 1);
    }
    in_every_loop!(check, at_full_speed);
}

/// Head and body leave together, and no system call is repeated.
#[test]
fn an_exchange_is_one_send_and_one_receive() {
    type Own = OwnLoop<Client<TransferRecorder>>;
    let mut staged = Staged::<Own>::new(streaming(), Config::default(), |_| ok(b"hello"));
    let [get, post, _, stream] = requests(&staged);
    for request in [get, post, stream] {
        // The second send of a new connection sets TCP_NODELAY once; it is not counted here.
        for _ in 0..2 {
            staged.start(&request);
            staged.run();
        }
        staged.rest();
        let before = Ledger::here();
        for _ in 0..20 {
            staged.start(&request);
            staged.run();
        }
        let made = Ledger::here() - before;
        let count = |calls: &[Call]| calls.iter().map(|call| made.count(*call).calls).sum::<u64>();
        let sends = done(&made, Call::send) + done(&made, Call::sendmsg);
        assert_eq!((sends, done(&made, Call::recv)), (20, 20), "{}", request.method());
        assert_eq!(count(&[Call::epoll_ctl, Call::socket, Call::connect, Call::setsockopt]), 0);
        assert_eq!(made.eagain(), 0);
    }
}
