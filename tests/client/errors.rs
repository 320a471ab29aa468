//! Each failure has a kind of its own, and names the cause and the address.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fulmar_client::{Config, Error, Options, Request, RequestBody, TransferEvent};
use fulmar_semantics::coding::CodingLimits;
use fulmar_tests::in_every_loop;
use fulmar_tests::process::PATIENCE;
use fulmar_tests::scripted::{ScriptedRequest, ServerStep, answer};
use fulmar_tests::transfers::{ClientLoop, Staged, TransferRecorder};

fn serve(heard: &ScriptedRequest) -> Vec<ServerStep> {
    let send = |text: &str| vec![ServerStep::Send(text.into())];
    match heard.path() {
        "/closed" => vec![ServerStep::Fin],
        "/truncated" => {
            let mut steps = send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello");
            steps.push(ServerStep::Fin);
            steps
        }
        "/reset" => vec![ServerStep::Reset],
        "/protocol" => send("HTTP/9.9 nonsense\r\n\r\n"),
        "/large" => vec![ServerStep::Send(answer("200 OK", "", &[b'x'; 2_000]))],
        "/coding" => vec![ServerStep::Send(answer("200 OK", "Content-Encoding: gzip\r\n", b"no"))],
        "/redirect" => vec![ServerStep::Send(answer("302 Found", "Location: file:///\r\n", b""))],
        "/replay" => vec![ServerStep::Send(answer("307 Moved", "Location: /\r\n", b""))],
        _ => Vec::new(),
    }
}

/// Requests, and the kind of failure that each must have.
fn failures<L: ClientLoop>(staged: &Staged<L>) -> Vec<(Request, &'static str)> {
    let url = |path: &str| staged.url(path);
    let span = Duration::from_millis(20);
    let options = Arc::new(Options {
        redirects: Some(Default::default()),
        decode: Some(CodingLimits::default()),
        body_max: Some(1_000),
        total_timeout: Some(PATIENCE),
        ..Options::default()
    });
    let hasty = Arc::new(Options { total_timeout: Some(span), ..Options::default() });
    let stream = |len| RequestBody::Stream(Some(len));
    let get = |path: &str| Request::get(&url(path)).options(options.clone());
    let post = |path: &str| Request::with_method("POST", &url(path)).options(options.clone());
    let mut all: Vec<_> = ["closed", "truncated", "protocol", "large", "coding", "redirect"]
        .map(|kind| (get(&format!("/{kind}")), kind))
        .into();
    all.push((get("/reset"), "io"));
    all.push((post("/replay").body(stream(5)), "replay"));
    all.push((post("/misuse").body(stream(6)), "misuse"));
    all.push((Request::get(&url("/timeout")).options(hasty), "timeout"));
    all.push((Request::get("http://name.invalid/"), "resolve"));
    all.push((Request::get("http://127.0.0.1:1/"), "connect"));
    all.into_iter().map(|(request, kind)| (request.build().expect("a request"), kind)).collect()
}

#[test]
fn every_failure_has_its_own_kind_and_message() {
    fn check<L: ClientLoop>() {
        let recorder = TransferRecorder::with(|context, id, event| {
            if matches!(event, TransferEvent::Writable) {
                context.send(id, bytes::Bytes::from_static(b"hello"));
                context.finish(id);
            }
        });
        let mut staged = Staged::<L>::new(recorder, Config::default(), serve);
        let mut said: BTreeMap<String, &str> = BTreeMap::new();
        for (request, kind) in failures(&staged) {
            let id = staged.start(&request);
            staged.run();
            let done = staged.recorder().ended(id);
            let error = done.result.as_ref().unwrap_err();
            assert_eq!(error.kind(), kind, "{}: {error:?}", request.url());
            let text = error.to_string();
            assert!(!text.is_empty() && !text.contains("Error"), "for people: {text}");
            let twin = said.insert(text.clone(), kind);
            assert!(twin.is_none(), "{kind} and {twin:?} both say {text:?}");
            let chain: &dyn std::error::Error = error;
            assert!(chain.source().is_none_or(|source| !source.to_string().is_empty()));
            assert_eq!(done.request.url(), request.url(), "which says where");
        }
        assert_eq!(staged.client.engine().running(), 0);
    }
    in_every_loop!(check);
}

#[test]
fn a_connection_that_was_refused_is_named() {
    let request = Request::get("http://127.0.0.1:1/").build().unwrap();
    type Own = fulmar_tests::loops::OwnLoop<fulmar_client::Client<TransferRecorder>>;
    let mut staged = Staged::<Own>::new(TransferRecorder::default(), Config::default(), serve);
    let id = staged.start(&request);
    staged.run();
    let Err(error @ Error::Connect(_)) = &staged.recorder().ended(id).result else { panic!() };
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
}
