//! Content codings through the client: decoded on request, within limits, and held back while the
//! application pauses.

use std::io::Write;

use fulmar_client::{Client, Error, Options, Request, TransferEvent};
use fulmar_semantics::coding::{CodingError, CodingLimits};
use fulmar_tests::client_in_loop::ClientInLoop;
use fulmar_tests::loops::{AppLoop, Bytewise, Loop, OwnLoop};
use fulmar_tests::threads::{RequestRecord, ThreadedServer, answer};
use fulmar_tests::transfers::TransferRecorder;

fn in_every_loop(checks: [fn(); 3]) {
    checks.into_iter().for_each(|check| check());
}

fn encode(form: &str, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let level = flate2::Compression::default();
    match form {
        "gzip" => {
            let mut encoder = flate2::write::GzEncoder::new(out, level);
            encoder.write_all(body).expect("memory takes it");
            encoder.finish().expect("memory takes it")
        }
        "deflate" => {
            let mut encoder = flate2::write::ZlibEncoder::new(out, level);
            encoder.write_all(body).expect("memory takes it");
            encoder.finish().expect("memory takes it")
        }
        "br" => {
            let params = brotli::enc::BrotliEncoderParams { quality: 5, ..Default::default() };
            brotli::BrotliCompress(&mut &*body, &mut out, &params).expect("memory takes it");
            out
        }
        "zstd" => zstd::stream::encode_all(body, 3).expect("memory takes it"),
        _ => panic!("{form} is no form"),
    }
}

fn text(len: usize) -> Vec<u8> {
    let words = [&b"fulmar "[..], b"petrel ", b"albatross ", b"skua "];
    (0..).flat_map(|n: usize| words[(n * n + n / 3) % 4].iter().copied()).take(len).collect()
}

/// Bodies by target: `/FORM,FORM/LEN` is text in these codings, applied in that order; `/cut/FORM`
/// is truncated, `/junk/FORM` continues after its end, `/empty/STATUS` declares gzip and has no
/// body, `/unknown` has an unknown coding.
fn script(asked: &RequestRecord) -> Vec<u8> {
    let words: Vec<&str> = asked.target.split('/').skip(1).collect();
    let coded = |name: &str, body: &[u8]| {
        let fields = format!("Content-Encoding: {name}\r\n");
        match asked.method == "HEAD" {
            true => format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n", body.len())
                .into_bytes(),
            false => answer(200, &fields, body),
        }
    };
    match words[..] {
        ["cut", form] => {
            let body = encode(form, &text(5_000));
            coded(form, &body[..body.len() - 10])
        }
        ["junk", form] => coded(form, &[&encode(form, &text(5_000))[..], b"and more"].concat()),
        ["empty", status] => answer(status.parse().unwrap(), "Content-Encoding: gzip\r\n", ""),
        ["unknown"] => coded("compress", b"x"),
        ["many"] => coded("gzip, gzip, gzip, gzip, gzip, gzip", b"x"),
        [forms, len] => {
            let mut body = text(len.parse().unwrap());
            for form in forms.split(',') {
                body = encode(form, &body);
            }
            coded(&forms.replace(',', ", "), &body)
        }
        _ => answer(404, "", ""),
    }
}

fn decoding() -> Options {
    Options { decode: Some(CodingLimits::default()), ..Options::default() }
}

#[test]
fn codings_are_decoded_alone_and_stacked() {
    fn check<L: Loop<Engine = Client<TransferRecorder>>>() {
        let server = ThreadedServer::start(script);
        let mut client = ClientInLoop::<L>::new();
        for forms in ["gzip", "deflate", "br", "zstd", "gzip,br", "zstd,gzip,br"] {
            for len in [1, 300_000] {
                let url = server.url(&format!("/{forms}/{len}"));
                let id = client.get(&url, decoding());
                client.run();
                let done = client.recorder().ended(id);
                assert!(done.result.is_ok(), "{forms}: {done:?}");
                assert!(len == 1 || done.received < 100_000, "as it came: {done:?}");
                assert!(client.recorder().body(id) == text(len), "{forms} {len}");
            }
        }
        assert_eq!(server.connections(), 1);
    }
    in_every_loop([check::<OwnLoop<_>>, check::<AppLoop<_>>, check::<Bytewise<OwnLoop<_>>>]);
}

#[test]
fn by_default_no_coding_is_requested_or_decoded() {
    let server = ThreadedServer::start(script);
    let mut client = ClientInLoop::<OwnLoop<_>>::new();
    let id = client.get(&server.url("/gzip/1000"), Options::default());
    client.run();
    assert_eq!(client.recorder().body(id), encode("gzip", &text(1_000)));
    assert_eq!(server.requests().pop().unwrap().field("accept-encoding"), None);
    client.fetch_url(&server.url("/gzip/1000"), decoding());
    let asked = server.requests().pop().unwrap();
    let accepted = asked.field("accept-encoding").expect("it says what it takes");
    for name in ["gzip", "br", "zstd", "deflate"] {
        assert!(accepted.contains(name), "{accepted}");
    }
    // Fields of the caller have precedence; and a range is one of coded bytes.
    for (name, value, expected) in
        [("Accept-Encoding", "br", Some("br")), ("Range", "bytes=0-9", None)]
    {
        let request = Request::get(&server.url("/br/10")).header(name, value.as_bytes());
        client.fetch(&request.options(decoding().into()).build().unwrap());
        assert_eq!(server.requests().pop().unwrap().field("accept-encoding"), expected);
    }
}

#[test]
fn responses_without_a_body_are_not_decoded() {
    fn check<L: Loop<Engine = Client<TransferRecorder>>>() {
        let server = ThreadedServer::start(script);
        let mut client = ClientInLoop::<L>::new();
        for path in ["/empty/200", "/empty/204", "/empty/304"] {
            let done = client.fetch_url(&server.url(path), decoding());
            assert!(done.result.is_ok(), "{path}: {done:?}");
        }
        let head = Request::with_method("HEAD", &server.url("/gzip/1000"));
        let done = client.fetch(&head.options(decoding().into()).build().unwrap());
        assert!(done.result.is_ok(), "{done:?}");
        // Without a body, any coding is accepted.
        let head = Request::with_method("HEAD", &server.url("/unknown"));
        let done = client.fetch(&head.options(decoding().into()).build().unwrap());
        assert!(done.result.is_ok(), "{done:?}");
        assert_eq!(server.connections(), 1);
    }
    in_every_loop([check::<OwnLoop<_>>, check::<AppLoop<_>>, check::<Bytewise<OwnLoop<_>>>]);
}

#[test]
fn broken_bodies_are_errors_and_others_go_on() {
    let server = ThreadedServer::start(script);
    let mut client = ClientInLoop::<OwnLoop<_>>::new();
    for form in ["gzip", "deflate", "br", "zstd"] {
        let cut = client.get(&server.url(&format!("/cut/{form}")), decoding());
        let junk = client.get(&server.url(&format!("/junk/{form}")), decoding());
        let good = client.get(&server.url(&format!("/{form}/5000")), decoding());
        client.run();
        let error = |id| match &client.client.engine().application().ended(id).result {
            Err(Error::Coding(error)) => error.clone(),
            other => panic!("{form}: {other:?}"),
        };
        let mut error = error;
        assert!(matches!(error(cut), CodingError::Truncated(_)), "{form}");
        error(junk);
        let recorder = client.recorder();
        assert!(recorder.ended(good).result.is_ok() && recorder.body(good) == text(5_000));
    }
    for path in ["/unknown", "/many"] {
        let done = client.fetch_url(&server.url(path), decoding());
        assert_eq!(done.result.as_ref().map_err(Error::kind), Err("coding"), "{path}");
    }
}

#[test]
fn a_bomb_is_an_error() {
    let bomb = encode("gzip", &encode("gzip", &vec![0; 200_000_000]));
    assert!(bomb.len() < 2_000);
    let server =
        ThreadedServer::start(move |_| answer(200, "Content-Encoding: gzip, gzip\r\n", &bomb));
    let limits = |output_max, ratio_max| CodingLimits { output_max, ratio_max };
    for (limits, body_max) in [
        (CodingLimits::default(), None),
        (limits(Some(1_000_000), None), None),
        (limits(None, None), Some(1_000_000)),
    ] {
        let mut client = ClientInLoop::<OwnLoop<_>>::new();
        let options = Options { decode: Some(limits), body_max, ..Options::default() };
        let id = client.get(&server.url("/"), options);
        client.run();
        let delivered = client.recorder().body(id).len();
        assert!(delivered <= 2_100_000, "{delivered} bytes before it was stopped: {limits:?}");
        let kind = client.recorder().ended(id).result.as_ref().map_err(Error::kind);
        assert_eq!(kind, Err(if body_max.is_some() { "large" } else { "coding" }));
    }
}

#[test]
fn the_body_limit_counts_decoded_bytes() {
    let server = ThreadedServer::start(script);
    let mut client = ClientInLoop::<OwnLoop<_>>::new();
    for (len, max, works) in [(1000, 1000, true), (1001, 1000, false), (70_000, 70_000, true)] {
        let options = Options { body_max: Some(max), ..decoding() };
        let done = client.fetch_url(&server.url(&format!("/gzip/{len}")), options);
        assert_eq!(
            done.result.as_ref().map_err(Error::kind),
            if works { Ok(&()) } else { Err("large") }
        );
    }
    // The stored form is longer than its content.
    let options = Options { body_max: Some(1), ..decoding() };
    let done = client.fetch_url(&server.url("/gzip/1"), options);
    assert!(done.result.is_ok(), "{done:?}");
}

#[test]
fn a_pause_stops_decoding() {
    fn check<L: Loop<Engine = Client<TransferRecorder>>>() {
        const LEN: usize = 20_000_000;
        let body = encode("gzip", &vec![7; LEN]);
        let server =
            ThreadedServer::start(move |_| answer(200, "Content-Encoding: gzip\r\n", &body));
        // Pauses after each piece.
        let mut client = ClientInLoop::<L>::acting(|context, id, event| {
            if matches!(event, TransferEvent::Data(_)) {
                context.pause(id);
            }
        });
        let id = client.get(&server.url("/"), decoding());
        let mut pieces = 0;
        loop {
            client.run_until(|client| {
                let recorder = client.application();
                !recorder.done.is_empty()
                    || recorder.traces.get(&id).is_some_and(|trace| trace.len() > pieces + 1)
            });
            if !client.recorder().done.is_empty() {
                break;
            }
            pieces += 1;
            // Nothing is delivered during the pause, however often the loop turns.
            for _ in 0..3 {
                client.client.turn(std::time::Duration::ZERO);
            }
            assert_eq!(client.recorder().traces[&id].len(), 1 + pieces);
            assert!(client.recorder().body(id).len() <= pieces * 64 * 1024);
            client.client.with(|client, now| client.with(now, |_, context| context.resume(id)));
        }
        let recorder = client.recorder();
        assert!(recorder.ended(id).result.is_ok(), "{:?}", recorder.ended(id));
        assert_eq!(recorder.body(id).len(), LEN);
        assert!(pieces >= LEN / (64 * 1024), "{pieces}");
    }
    in_every_loop([check::<OwnLoop<_>>, check::<AppLoop<_>>, check::<Bytewise<OwnLoop<_>>>]);
}

#[test]
fn a_bomb_costs_no_memory_while_it_is_paused() {
    let bomb = encode("gzip", &vec![0; 100_000_000]);
    let server = ThreadedServer::start(move |_| answer(200, "Content-Encoding: gzip\r\n", &bomb));
    let mut client = ClientInLoop::<OwnLoop<_>>::acting(|context, id, event| {
        if matches!(event, TransferEvent::Data(_)) {
            context.pause(id);
        }
    });
    let options =
        Options { decode: Some(CodingLimits { output_max: None, ratio_max: None }), ..decoding() };
    let id = client.get(&server.url("/"), options);
    let spent = allocation_counter::measure(|| {
        client
            .run_until(|client| client.application().traces.get(&id).is_some_and(|t| t.len() > 1));
        for _ in 0..10 {
            client.client.turn(std::time::Duration::from_millis(1));
        }
    });
    assert!(spent.bytes_max < 2_000_000, "{spent:?}");
    assert_eq!(client.recorder().traces[&id], "Hd");
    assert!(client.client.with(|client, now| client.with(now, |_, context| context.remove(id))));
    assert_eq!(client.client.engine().running(), 0);
}

#[test]
fn a_paused_transfer_whose_connection_fails_delivers_received_bytes() {
    let body = encode("gzip", &vec![7; 1_000_000]);
    let server = ThreadedServer::start(move |_| {
        answer(200, "Content-Encoding: gzip\r\nConnection: close\r\n", &body)
    });
    let mut client = ClientInLoop::<OwnLoop<_>>::acting(|context, id, event| {
        if matches!(event, TransferEvent::Head { .. }) {
            context.pause(id);
        }
    });
    let id = client.get(&server.url("/"), decoding());
    client.run_until(|client| !client.application().traces.is_empty());
    for _ in 0..10 {
        client.client.turn(std::time::Duration::from_millis(1));
    }
    client.client.with(|client, now| client.with(now, |_, context| context.resume(id)));
    client.run();
    let recorder = client.recorder();
    assert!(recorder.ended(id).result.is_ok(), "{:?}", recorder.ended(id));
    assert_eq!(recorder.body(id).len(), 1_000_000);
}
