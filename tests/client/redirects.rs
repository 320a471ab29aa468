//! Redirects: which fields and bodies are kept, which are dropped, and which redirects are refused.

use std::sync::Arc;

use fulmar_client::{Config, Error, Options, Request, RequestBody, TransferEvent};
use fulmar_semantics::redirect::{Policy, RedirectError};
use fulmar_tests::in_every_loop;
use fulmar_tests::scripted::{Scripted, ScriptedRequest, ServerStep, answer, ok};
use fulmar_tests::transfers::{ClientLoop, Staged, TransferRecorder};

use crate::remove::leave_nothing;

fn following() -> Options {
    Options { redirects: Some(Policy { hops_max: 5, ..Policy::default() }), ..Options::default() }
}

fn to(status: &str, location: &str) -> Vec<ServerStep> {
    vec![ServerStep::Send(answer(status, &format!("Location: {location}\r\n"), b"moved"))]
}

#[test]
fn a_chain_is_followed_up_to_its_limit() {
    fn check<L: ClientLoop>() {
        let script = |heard: &ScriptedRequest| {
            let n: u32 = heard.path()[1..].parse().expect("a number");
            if n == 0 { ok(b"end") } else { to("302 Found", &format!("/{}", n - 1)) }
        };
        let mut staged = Staged::<L>::new(TransferRecorder::default(), Config::default(), script);
        let options = Arc::new(following());
        for (hops, followed) in [(5, true), (6, false)] {
            let url = staged.url(&format!("/{hops}"));
            let id = staged.start(&Request::get(&url).options(options.clone()).build().unwrap());
            staged.run();
            let done = staged.recorder().ended(id);
            assert_eq!(done.result.is_ok(), followed, "{done:?}");
            assert_eq!(done.hops.len(), 5);
            if !followed {
                let Err(Error::Redirect(error)) = &done.result else { panic!("{done:?}") };
                assert_eq!(*error, RedirectError::TooMany { max: 5 });
            }
        }
        leave_nothing(&mut staged);
    }
    in_every_loop!(check);
}

#[test]
fn a_loop_ends_and_foreign_schemes_are_refused() {
    fn check<L: ClientLoop>() {
        for (location, kind) in [
            ("/", "redirect"),
            ("file:///etc/passwd", "redirect"),
            ("ftp://127.0.0.1/", "redirect"),
            ("javascript:alert(1)", "redirect"),
            ("http://127.0.0.1:0/", "redirect"),
            ("http://[::1/", "redirect"),
            ("//", "redirect"),
        ] {
            let script = move |_: &ScriptedRequest| to("301 Moved", location);
            let mut staged =
                Staged::<L>::new(TransferRecorder::default(), Config::default(), script);
            let request = Request::get(&staged.url("/")).options(Arc::new(following()));
            let id = staged.start(&request.build().unwrap());
            staged.run();
            let done = staged.recorder().ended(id);
            assert_eq!(done.result.as_ref().unwrap_err().kind(), kind, "{location}");
            leave_nothing(&mut staged);
        }
    }
    in_every_loop!(check);
}

/// Credentials are sent only to their origin: scheme, host and port.
#[test]
fn credentials_stay_behind_when_the_origin_changes() {
    fn check<L: ClientLoop>() {
        let mut other = Scripted::new(|_| ok(b"other"));
        let elsewhere = format!("http://{}/elsewhere", other.address());
        let script = move |heard: &ScriptedRequest| match heard.path() {
            "/away" => to("307 Temporary Redirect", &elsewhere),
            "/here" => to("307 Temporary Redirect", "/end"),
            _ => ok(b"end"),
        };
        let mut staged = Staged::<L>::new(TransferRecorder::default(), Config::default(), script);
        let options = Options {
            credential_fields: vec!["X-Api-Key".to_owned()],
            referer: true,
            ..following()
        };
        let options = Arc::new(options);
        let private = ["authorization", "cookie", "proxy-authorization", "x-api-key", "origin"];
        for path in ["/here?a#fragment", "/away?a#fragment"] {
            let path = path.split('?').next().unwrap();
            let url = staged.url(path).replace("http://", "http://user:secret@") + "#fragment";
            let mut request = Request::get(&url).options(options.clone()).header("X-Other", b"1");
            for name in private {
                request = request.header(name, b"secret");
            }
            let id = staged.start(&request.build().unwrap());
            staged.run_until(|client| {
                other.turn();
                client.running() == 0
            });
            assert!(staged.recorder().ended(id).result.is_ok());
            let last = match path {
                "/here" => staged.peer.requests.last().unwrap().clone(),
                _ => other.requests.last().unwrap().clone(),
            };
            for name in private {
                assert_eq!(last.field(name).is_some(), path == "/here", "{name} at {}", last.head);
            }
            assert_eq!(last.field("x-other"), Some("1"));
            let host = if path == "/here" { staged.peer.address() } else { other.address() };
            assert_eq!(last.field("host"), Some(&host.to_string()[..]));
            // RFC 9110 §10.1.3: neither user nor fragment.
            assert_eq!(last.field("referer"), Some(&staged.url(path)[..]));
            assert!(path == "/here" || !last.head.contains("secret"), "{}", last.head);
        }
    }
    in_every_loop!(check);
}

/// RFC 9110 §15.4: 303, and by custom 301 and 302, turn a POST into a GET without a body and its
/// fields; 307 and 308 do not.
#[test]
fn the_method_and_the_body_follow_the_status() {
    fn check<L: ClientLoop>() {
        for (status, method, body) in [
            ("301 Moved", "GET", ""),
            ("302 Found", "GET", ""),
            ("303 See Other", "GET", ""),
            ("307 Temporary", "POST", "hello"),
            ("308 Permanent", "POST", "hello"),
        ] {
            let script = move |heard: &ScriptedRequest| match heard.path() {
                "/" => to(status, "/end"),
                _ => ok(b"end"),
            };
            let mut staged =
                Staged::<L>::new(TransferRecorder::default(), Config::default(), script);
            let request = Request::with_method("POST", &staged.url("/"))
                .header("Content-Type", b"text/plain")
                .header("Content-Language", b"en")
                .header("Content-Location", b"/x")
                .header("Digest", b"x=y")
                .header("Last-Modified", b"Thu, 01 Jan 1970 00:00:00 GMT")
                .body(RequestBody::Bytes("hello".into()))
                .options(Arc::new(following()));
            let id = staged.start(&request.build().unwrap());
            staged.run();
            assert!(staged.recorder().ended(id).result.is_ok());
            let last = staged.peer.requests.last().unwrap();
            assert_eq!((last.method(), &last.body[..]), (method, body.as_bytes()), "{status}");
            for name in ["content-type", "content-language", "content-location", "digest"] {
                assert_eq!(last.field(name).is_some(), !body.is_empty(), "{status}: {name}");
            }
            assert_eq!(last.field("last-modified").is_some(), !body.is_empty(), "{status}");
        }
    }
    in_every_loop!(check);
}

#[test]
fn a_stream_cannot_follow_where_its_body_would_be_sent_again() {
    fn check<L: ClientLoop>() {
        let recorder = TransferRecorder::with(|context, id, event| {
            if matches!(event, TransferEvent::Writable) {
                context.send(id, bytes::Bytes::from_static(b"hello"));
                context.finish(id);
            }
        });
        let script = |_: &ScriptedRequest| to("307 Temporary", "/end");
        let mut staged = Staged::<L>::new(recorder, Config::default(), script);
        let request = Request::with_method("POST", &staged.url("/"))
            .body(RequestBody::Stream(Some(5)))
            .options(Arc::new(following()));
        let id = staged.start(&request.build().unwrap());
        staged.run();
        assert!(matches!(staged.recorder().ended(id).result, Err(Error::NotReplayable)));
        assert_eq!(staged.peer.requests.len(), 1);
        leave_nothing(&mut staged);
    }
    in_every_loop!(check);
}

/// The body of a redirect is never delivered as that of its target, whatever its length and however
/// many pieces it arrives in.
#[test]
fn a_redirect_with_a_long_body_delivers_none_of_it() {
    fn check<L: ClientLoop>() {
        for pipelining in [1, 4] {
            let config = Config { pipelining, per_host_max: 1, ..Config::default() };
            let chunks = 300_000 / L::SLOWER / 10;
            let script = move |heard: &ScriptedRequest| match heard.path() {
                "/long" => {
                    let head = "HTTP/1.1 302 Found\r\nLocation: /end\r\n\
                                Transfer-Encoding: chunked\r\n\r\n";
                    let body = "a\r\nlong......\r\n".repeat(chunks) + "0\r\n\r\n";
                    vec![ServerStep::Send((head.to_owned() + &body).into())]
                }
                _ => ok(b"end"),
            };
            let mut staged = Staged::<L>::new(TransferRecorder::default(), config, script);
            for _ in 0..2 {
                staged.get("/warm");
                staged.run();
            }
            let request = Request::get(&staged.url("/long")).options(Arc::new(following()));
            let id = staged.start(&request.build().unwrap());
            let behind = staged.get("/behind");
            staged.run();
            assert_eq!(staged.recorder().body(id), b"end");
            assert_eq!(staged.recorder().trace(id).replace('d', ""), "RHD");
            assert!(staged.recorder().ended(behind).result.is_ok());
            leave_nothing(&mut staged);
        }
    }
    in_every_loop!(check);
}
