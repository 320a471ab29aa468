//! Transfers from start to end, against a server of ours, in every loop.

use std::sync::Arc;
use std::time::Duration;

use fulmar_client::{Client, Config, Error, Options, Request, RequestBody, TransferEvent, Waiting};
use fulmar_tests::app::AppServer;
use fulmar_tests::in_every_loop;
use fulmar_tests::loops::Loop;
use fulmar_tests::transfers::{ClientAndServer, TransferRecorder};

fn pair<L: Loop<Engine = Client<TransferRecorder>>>() -> ClientAndServer<L, AppServer> {
    ClientAndServer::new(TransferRecorder::default(), Config::default())
}

#[test]
fn a_transfer_delivers_its_body_and_ends_once() {
    fn check<L: Loop<Engine = Client<TransferRecorder>>>() {
        let mut pair = pair::<L>();
        let (a, b) = (pair.get("/bytes/100000"), pair.get("/bytes/0"));
        pair.run();
        let recorder = pair.client.engine().application();
        assert_eq!(recorder.body(a).len(), 100_000);
        assert_eq!(recorder.body(b).len(), 0);
        for id in [a, b] {
            let done = recorder.ended(id);
            assert!(done.result.is_ok(), "{done:?}");
            assert_eq!(done.status, 200);
        }
        assert_eq!(recorder.done.len(), 2);
    }
    in_every_loop!(check);
}

#[test]
fn connections_are_used_again() {
    fn check<L: Loop<Engine = Client<TransferRecorder>>>() {
        let mut pair = pair::<L>();
        for _ in 0..10 {
            pair.get("/bytes/10");
            pair.run();
        }
        assert_eq!(pair.client.engine().stats().connections, 1);
        assert_eq!(pair.client.engine().stats().reused, 9);
        assert_eq!(pair.client.engine().idle_connections(), 1);
    }
    in_every_loop!(check);
}

#[test]
fn bodies_go_up_whole_or_piece_by_piece() {
    fn check<L: Loop<Engine = Client<TransferRecorder>>>() {
        let mut left = 100;
        let act = move |context: &mut fulmar_client::Context<'_>, id, event: &TransferEvent<'_>| {
            if matches!(event, TransferEvent::Writable) {
                if left == 0 {
                    return;
                }
                left -= 1;
                context.send(id, bytes::Bytes::from(vec![b'x'; 10_000_usize.div_ceil(L::SLOWER)]));
                if left == 0 {
                    context.finish(id);
                }
            }
        };
        let mut pair =
            ClientAndServer::<L, AppServer>::new(TransferRecorder::with(act), Config::default());
        let url = pair.url("/echo");
        let whole = Request::with_method("POST", &url)
            .body(RequestBody::Bytes(vec![b'a'; 300_000 / L::SLOWER].into()));
        let whole = pair.start(&whole.build().unwrap());
        let small = Request::with_method("POST", &url).body(RequestBody::Bytes("hello".into()));
        let small = pair.start(&small.build().unwrap());
        let stream =
            Request::with_method("PUT", &url).body(RequestBody::Stream(None)).build().unwrap();
        let stream = pair.start(&stream);
        pair.run();
        let recorder = pair.client.engine().application();
        for id in [whole, small, stream] {
            assert!(recorder.ended(id).result.is_ok(), "{:?}", recorder.ended(id));
        }
        assert_eq!(recorder.body(small), b"hello");
        assert_eq!(recorder.body(whole), vec![b'a'; 300_000 / L::SLOWER]);
        assert_eq!(recorder.body(stream), vec![b'x'; 100 * 10_000_usize.div_ceil(L::SLOWER)]);
    }
    in_every_loop!(check);
}

/// A body that is finished before there is a connection is polled all the same.
#[test]
fn a_body_that_is_finished_too_early_is_polled() {
    fn check<L: Loop<Engine = Client<TransferRecorder>>>() {
        let act = |context: &mut fulmar_client::Context<'_>, id, event: &TransferEvent<'_>| {
            if matches!(event, TransferEvent::Writable) {
                context.send(id, bytes::Bytes::from_static(b"late"));
                context.finish(id);
            }
        };
        let mut pair =
            ClientAndServer::<L, AppServer>::new(TransferRecorder::with(act), Config::default());
        let request =
            Request::with_method("PUT", &pair.url("/echo")).body(RequestBody::Stream(None));
        let request = request.build().unwrap();
        let id = pair.client.with(|client, now| {
            client.with(now, |_, context| {
                let id = context.start(&request);
                context.finish(id);
                id
            })
        });
        pair.run();
        assert_eq!(pair.client.engine().application().body(id), b"late");
    }
    in_every_loop!(check);
}

#[test]
fn the_queue_does_not_count_for_an_exchange() {
    fn check<L: Loop<Engine = Client<TransferRecorder>>>() {
        let config = Config { connections_max: 1, ..Config::default() };
        let mut pair = ClientAndServer::<L, AppServer>::new(TransferRecorder::default(), config);
        let span = Duration::from_secs(2);
        let hasty = Options { exchange_timeout: Some(span), ..Options::default() };
        let (hasty, patient) = (Arc::new(hasty), Arc::new(Options::default()));
        let mut start = |path: &str, options: &Arc<Options>| {
            let request = Request::get(&pair.url(path)).options(Arc::clone(options));
            pair.start(&request.build().unwrap())
        };
        let first = start("/delay/2200", &patient);
        let quick = [(); 4].map(|()| start("/bytes/1", &hasty));
        let slow = start("/delay/60000", &hasty);
        pair.run();
        let recorder = pair.client.engine().application();
        assert!(recorder.ended(first).result.is_ok());
        for id in quick {
            let done = recorder.ended(id);
            assert!(done.result.is_ok(), "{done:?}");
            assert!(done.timings().queue > span, "{done:?}");
        }
        let done = recorder.ended(slow);
        assert!(matches!(done.result, Err(Error::TimedOut(Waiting::Total))), "{done:?}");
        assert!(done.timings().queue > span, "{done:?}");
    }
    in_every_loop!(check);
}
