//! Coded bodies: decoded piece by piece, within limits, and with their end verified.

use std::io::Write;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use fulmar_client::{Config, Error, Options, Request, TransferEvent};
use fulmar_semantics::coding::CodingLimits;
use fulmar_tests::in_every_loop;
use fulmar_tests::loops::print_case;
use fulmar_tests::scripted::{ScriptedRequest, ServerStep, answer};
use fulmar_tests::transfers::{ClientLoop, Staged, TransferRecorder};

use crate::remove::leave_nothing;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn coded<L: ClientLoop>(recorder: TransferRecorder, coding: &str, body: Vec<u8>) -> Staged<L> {
    let fields = format!("Content-Encoding: {coding}\r\n");
    let script =
        move |_: &ScriptedRequest| vec![ServerStep::Send(answer("200 OK", &fields, &body))];
    Staged::new(recorder, Config::default(), script)
}

fn decoding(limits: CodingLimits) -> Options {
    Options { decode: Some(limits), ..Options::default() }
}

#[test]
fn broken_codings_are_errors_and_whole_ones_are_undone() {
    fn check<L: ClientLoop>() {
        let text = b"hello world ".repeat(1_000);
        let whole = gzip(&text);
        let twice = gzip(&whole);
        let cut = whole[..whole.len() - 4].to_vec();
        let junk = [&whole[..], b"junk"].concat();
        let many = ["gzip"; 9].join(", ");
        for (name, coding, body, is_ok) in [
            ("whole", "gzip", whole.clone(), true),
            ("twice", "gzip, gzip", twice, true),
            ("in capitals", "GZIP", whole.clone(), true),
            ("cut off", "gzip", cut, false),
            ("junk behind it", "gzip", junk, false),
            ("not coded at all", "gzip", text.clone(), false),
            ("a coding that nobody knows", "snappy", whole.clone(), false),
            ("too many", &many, whole, false),
        ] {
            print_case(name);
            let mut staged = coded::<L>(TransferRecorder::default(), coding, body);
            let options = Arc::new(decoding(CodingLimits::default()));
            let request = Request::get(&staged.url("/")).options(options).build().unwrap();
            let id = staged.start(&request);
            staged.run();
            let recorder = staged.recorder();
            match &recorder.ended(id).result {
                Ok(()) => assert!(is_ok && recorder.body(id) == text),
                Err(Error::Coding(_)) => assert!(!is_ok),
                Err(error) => panic!("{error:?}"),
            }
            leave_nothing(&mut staged);
        }
    }
    in_every_loop!(check);
}

/// A bomb is decoded piece by piece, up to each of the limits.
#[test]
fn a_bomb_is_stopped_at_each_limit() {
    fn check<L: ClientLoop>() {
        let size = 30_000_000 / L::SLOWER;
        let bomb = gzip(&vec![0; size]);
        let max = size as u64 / 10;
        let by_output = CodingLimits { output_max: Some(max), ratio_max: None };
        let unlimited = CodingLimits { output_max: None, ratio_max: None };
        for (options, kind) in [
            (decoding(by_output), "coding"),
            (Options { body_max: Some(max), ..decoding(unlimited) }, "large"),
        ] {
            let mut staged = coded::<L>(TransferRecorder::default(), "gzip", bomb.clone());
            let request = Request::get(&staged.url("/")).options(Arc::new(options)).build();
            let id = staged.start(&request.unwrap());
            staged.run();
            let done = staged.recorder().ended(id);
            assert_eq!(done.result.as_ref().unwrap_err().kind(), kind);
            assert!(staged.recorder().body(id).len() as u64 <= max);
            leave_nothing(&mut staged);
        }
    }
    in_every_loop!(check);
}

/// Bytes that were received but not decoded before a pause are decoded after it.
#[test]
fn a_pause_amid_a_coded_body_loses_nothing() {
    fn check<L: ClientLoop>() {
        let size = 1_000_000 / L::SLOWER;
        let text: Vec<u8> = (0..size).map(|at| (at % 251).to_le_bytes()[0]).collect();
        let recorder = TransferRecorder::default();
        let paused = recorder.paused.clone();
        let recorder = TransferRecorder {
            act: Some(Box::new(move |context, id, event| {
                if matches!(event, TransferEvent::Data(_)) {
                    context.pause(id);
                    paused.borrow_mut().insert(id);
                }
            })),
            ..recorder
        };
        let mut staged = coded::<L>(recorder, "gzip", gzip(&text));
        let options = Arc::new(decoding(CodingLimits::default()));
        let request = Request::get(&staged.url("/")).options(options).build().unwrap();
        let id = staged.start(&request);
        while staged.client.engine().running() > 0 {
            staged.turn();
            let paused = staged.recorder().paused.clone();
            if paused.borrow_mut().remove(&id) {
                staged.with(|context| context.resume(id));
            }
        }
        assert!(staged.recorder().ended(id).result.is_ok());
        assert!(staged.recorder().body(id) == text);
        leave_nothing(&mut staged);
    }
    in_every_loop!(check);
}

#[test]
fn a_body_longer_than_allowed_is_not_delivered_beyond_that() {
    fn check<L: ClientLoop>() {
        for head in ["Content-Length: 100\r\n", ""] {
            let body = format!("HTTP/1.1 200 OK\r\n{head}\r\n{}", "x".repeat(100));
            let script = move |_: &ScriptedRequest| {
                vec![ServerStep::Send(body.clone().into()), ServerStep::Fin]
            };
            let mut staged =
                Staged::<L>::new(TransferRecorder::default(), Config::default(), script);
            let options = Options { body_max: Some(99), ..Options::default() };
            let request = Request::get(&staged.url("/")).options(Arc::new(options)).build();
            let id = staged.start(&request.unwrap());
            staged.run();
            assert!(matches!(staged.recorder().ended(id).result, Err(Error::TooLarge)));
            assert!(staged.recorder().body(id).len() <= 99);
            leave_nothing(&mut staged);
        }
    }
    in_every_loop!(check);
}
