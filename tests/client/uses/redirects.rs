//! Redirects through the client: the next request, the fields that it keeps and drops, and the fate
//! of the connection.

use std::sync::Arc;

use bytes::Bytes;
use fulmar_client::{Client, Config, Done, Error, Options, Request, RequestBody, TransferEvent};
use fulmar_semantics::auth::Credentials;
use fulmar_semantics::redirect::{Policy, Post, RedirectError};
use fulmar_tests::client_in_loop::ClientInLoop;
use fulmar_tests::loops::{AppLoop, Bytewise, Loop, OwnLoop};
use fulmar_tests::threads::{RequestRecord, ThreadedServer, answer};
use fulmar_tests::transfers::TransferRecorder;

fn in_every_loop(checks: [fn(); 3]) {
    checks.into_iter().for_each(|check| check());
}

fn following() -> Options {
    Options { redirects: Some(Policy::default()), ..Options::default() }
}

fn redirect(status: u16, to: &str) -> Vec<u8> {
    answer(status, &format!("Location: {to}\r\n"), "gone there")
}

/// `/hops/N` redirects to `/hops/N-1`, `/hops/0` is the end; `/to/STATUS?URL` redirects to URL;
/// `/large/N` redirects to `/hops/0` with a body of N bytes.
fn script(asked: &RequestRecord) -> Vec<u8> {
    let (path, query) = asked.target.split_once('?').unwrap_or((&asked.target, ""));
    let words: Vec<&str> = path.split('/').skip(1).collect();
    match words[..] {
        ["hops", "0"] => answer(200, "", "reached"),
        ["hops", n] => redirect(302, &format!("/hops/{}", n.parse::<u32>().unwrap() - 1)),
        ["to", status] => redirect(status.parse().unwrap(), query),
        ["large", n] => {
            answer(302, "Location: /hops/0\r\n", vec![b'x'; n.parse::<usize>().unwrap()])
        }
        _ => answer(200, "", &asked.body),
    }
}

fn server() -> ThreadedServer {
    ThreadedServer::start(script)
}

fn is_ok(done: &Done) {
    assert!(done.result.is_ok(), "{done:?}");
}

#[test]
fn a_chain_is_followed_on_one_connection_with_every_hop() {
    fn check<L: Loop<Engine = Client<TransferRecorder>>>() {
        let server = server();
        let mut client = ClientInLoop::<L>::new();
        let id = client.get(&server.url("/hops/5"), following());
        client.run();
        let done = client.recorder().ended(id);
        is_ok(done);
        assert_eq!((done.status, done.request.url().path()), (200, "/hops/0"));
        let hops: Vec<_> = done.hops.iter().map(|hop| (hop.url.path(), hop.status)).collect();
        let expected = ["/hops/5", "/hops/4", "/hops/3", "/hops/2", "/hops/1"];
        assert_eq!(hops, expected.map(|path| (path, 302)));
        assert!(done.hops.windows(2).all(|two| two[0].timings.total <= two[1].timings.total));
        assert!(done.hops[0].timings.first_byte > std::time::Duration::ZERO);
        assert_eq!(client.recorder().trace(id), "RRRRRHdD");
        assert_eq!(client.recorder().body(id), b"reached");
        assert_eq!((server.requests().len(), server.connections()), (6, 1));
    }
    in_every_loop([check::<OwnLoop<_>>, check::<AppLoop<_>>, check::<Bytewise<OwnLoop<_>>>]);
}

#[test]
fn the_limit_holds_and_loops_end() {
    let server = server();
    let mut client = ClientInLoop::<OwnLoop<_>>::new();
    let policy = Policy { hops_max: 3, ..Policy::default() };
    let options = || Options { redirects: Some(policy), ..Options::default() };
    is_ok(client.fetch_url(&server.url("/hops/3"), options()));
    let done = client.fetch_url(&server.url("/hops/4"), options());
    let too_many = RedirectError::TooMany { max: 3 };
    assert!(matches!(&done.result, Err(Error::Redirect(error)) if *error == too_many), "{done:?}");
    assert_eq!(done.hops.len(), 3);
    let done = client.fetch_url(&server.url("/to/307?/to/307?/x"), following());
    is_ok(done);
    let done = client.fetch_url(&server.url("/to/301?"), following()); // to itself
    assert!(matches!(done.result, Err(Error::Redirect(RedirectError::TooMany { .. }))), "{done:?}");
    // Redirects are off: a 3xx is a response like others.
    let done = client.fetch_url(&server.url("/hops/4"), Options::default());
    is_ok(done);
    assert_eq!((done.status, done.hops.len()), (302, 0));
}

#[test]
fn a_challenge_or_a_retry_is_no_redirect() {
    let server =
        ThreadedServer::start(|asked| match (&*asked.target, asked.field("authorization")) {
            ("/a", None) => answer(401, "WWW-Authenticate: Basic realm=\"r\"\r\n", ""),
            ("/a", Some(_)) => redirect(302, "/b"),
            _ => answer(200, "", ""),
        });
    let options = Options {
        credentials: Some(Arc::new(Credentials::password("u", "p").unwrap())),
        redirects: Some(Policy { hops_max: 1, ..Policy::default() }),
        ..Options::default()
    };
    let mut client = ClientInLoop::<OwnLoop<_>>::new();
    let done = client.fetch_url(&server.url("/a"), options);
    is_ok(done);
    assert_eq!(done.hops.iter().map(|hop| hop.status).collect::<Vec<_>>(), [401, 302]);
}

#[test]
fn methods_and_bodies_follow_the_rules() {
    const BODY: &[u8] = b"hello";
    let server = server();
    let mut client = ClientInLoop::<OwnLoop<_>>::new();
    for (post, method, status, then, keeps) in [
        (Post::BecomesGet, "POST", 301, "GET", false),
        (Post::BecomesGet, "POST", 302, "GET", false),
        (Post::BecomesGet, "POST", 303, "GET", false),
        (Post::BecomesGet, "POST", 307, "POST", true),
        (Post::BecomesGet, "POST", 308, "POST", true),
        (Post::Stays, "POST", 301, "POST", true),
        (Post::Stays, "POST", 303, "GET", false),
        (Post::BecomesGet, "PUT", 301, "PUT", true),
        (Post::BecomesGet, "PUT", 303, "GET", false),
    ] {
        let options =
            Options { redirects: Some(Policy { post, ..Policy::default() }), ..Options::default() };
        let request = Request::with_method(method, &server.url(&format!("/to/{status}?/x")))
            .header("Content-Type", b"text/plain")
            .header("Content-Language", b"en")
            .header("X-Mine", b"1")
            .body(RequestBody::Bytes(BODY.into()))
            .options(options.into())
            .build()
            .unwrap();
        is_ok(client.fetch(&request));
        let asked = server.requests().pop().unwrap();
        let case = format!("{method} {status} {post:?}: {asked:?}");
        assert_eq!((&*asked.method, &*asked.target), (then, "/x"), "{case}");
        assert_eq!(asked.body, if keeps { BODY } else { b"" }, "{case}");
        for field in ["content-type", "content-language", "content-length"] {
            assert_eq!(asked.field(field).is_some(), keeps, "{field} of {case}");
        }
        assert_eq!(asked.field("x-mine"), Some("1"), "{case}");
        assert_eq!(asked.field("host"), Some(&*server.address.to_string()), "{case}");
    }
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_stream_cannot_be_sent_twice_but_need_not_be() {
    let server = server();
    for (status, works) in [(303, true), (302, true), (307, false)] {
        let mut client = ClientInLoop::<OwnLoop<_>>::acting(|context, id, event| {
            if matches!(event, TransferEvent::Writable) {
                context.send(id, Bytes::from_static(b"streamed"));
                context.finish(id);
            }
        });
        let url = server.url(&format!("/to/{status}?/x"));
        let request = Request::with_method("POST", &url).body(RequestBody::Stream(Some(8)));
        let done = client.fetch(&request.options(following().into()).build().unwrap());
        match works {
            true => is_ok(done),
            false => assert!(matches!(done.result, Err(Error::NotReplayable)), "{done:?}"),
        }
    }
}

fn with_secrets(url: &str, options: Options) -> Request {
    let mut builder = Request::get(url).options(options.into());
    for (name, value) in SECRETS {
        builder = builder.header(name, value.as_bytes());
    }
    builder.header("X-Harmless", b"1").build().unwrap()
}

const SECRETS: [(&str, &str); 4] = [
    ("Authorization", "Basic c2VjcmV0"),
    ("Cookie", "a=b"),
    ("Proxy-Authorization", "Basic c2VjcmV0"),
    ("X-Api-Key", "secret"),
];

#[test]
fn secrets_are_dropped_at_any_change_of_origin() {
    let (here, there) = (server(), server());
    let options = || Options { credential_fields: vec!["x-api-key".to_owned()], ..following() };
    let mut client = ClientInLoop::<OwnLoop<_>>::new();
    let has = |asked: &RequestRecord| {
        SECRETS.map(|(name, _)| asked.field(&name.to_lowercase()).is_some())
    };

    // Within the origin they stay.
    is_ok(client.fetch(&with_secrets(&here.url("/to/302?/x"), options())));
    assert_eq!(here.requests().iter().map(has).collect::<Vec<_>>(), [[true; 4]; 2]);

    // They are not sent to another port, nor back.
    let back = here.url("/y");
    let url = here.url(&format!("/to/302?{}?{back}", there.url("/to/302")));
    is_ok(client.fetch(&with_secrets(&url, options())));
    let asked = there.requests().pop().unwrap();
    assert_eq!(has(&asked), [false; 4], "{asked:?}");
    assert_eq!(asked.field("x-harmless"), Some("1"));
    let asked = here.requests().pop().unwrap();
    assert_eq!((&*asked.target, has(&asked)), ("/y", [false; 4]));

    // Another name for the same address is another origin.
    let url = here.url(&format!("/to/302?http://127.1.2.3:{}/z", here.address.port()));
    let _ = client.fetch(&with_secrets(&url, options()));
    let asked: Vec<_> = here.requests().into_iter().filter(|asked| asked.target == "/z").collect();
    assert!(asked.iter().all(|asked| has(asked) == [false; 4]));
}

#[test]
fn credentials_are_dropped_at_any_change_of_origin() {
    let challenge = |asked: &RequestRecord| match asked.field("authorization") {
        None => answer(401, "WWW-Authenticate: Basic realm=\"r\"\r\n", ""),
        Some(_) => script(asked),
    };
    let (here, there) = (ThreadedServer::start(challenge), ThreadedServer::start(challenge));
    let credentials = Arc::new(Credentials::password("u", "p").unwrap());
    for preemptive_auth in [false, true] {
        let options =
            Options { credentials: Some(Arc::clone(&credentials)), preemptive_auth, ..following() };
        let mut client = ClientInLoop::<OwnLoop<_>>::new();
        let to = there.url("/x");
        let done = client.fetch_url(&here.url(&format!("/to/302?{to}")), options);
        is_ok(done);
        assert_eq!((done.status, done.request.url().as_str()), (401, &*to));
    }
    // Credentials in the URL of a redirect are not those of the user.
    let to = format!("http://u:p@{}/x", there.address);
    let mut client = ClientInLoop::<OwnLoop<_>>::new();
    let url = format!("http://u:p@{}/to/302?{to}", here.address);
    assert_eq!(client.fetch_url(&url, following()).status, 401);
    assert!(there.requests().iter().all(|asked| asked.field("authorization").is_none()));
}

#[test]
fn only_http_is_followed() {
    let server = server();
    let mut client = ClientInLoop::<OwnLoop<_>>::new();
    for to in ["file:///etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1/", "javascript:0"] {
        let done = client.fetch_url(&server.url(&format!("/to/302?{to}")), following());
        let Err(Error::Redirect(RedirectError::BadScheme(scheme))) = &done.result else {
            panic!("{to}: {done:?}");
        };
        assert!(to.starts_with(&**scheme));
        assert_eq!(done.status, 302);
    }
    let done = client.fetch_url(&server.url("/to/302?http://127.0.0.1:0/"), following());
    assert!(matches!(done.result, Err(Error::Next(_))), "{done:?}");
    let done = client.fetch_url(&server.url("/to/302?http://"), following());
    assert!(matches!(done.result, Err(Error::Redirect(RedirectError::BadLocation))), "{done:?}");
}

#[test]
fn referers_are_sent_if_enabled() {
    let server = server();
    let mut client = ClientInLoop::<OwnLoop<_>>::new();
    for (referer, expected) in [(false, None), (true, Some(server.url("/to/302?/x")))] {
        let url = format!("http://u:p@{}/to/302?/x#part", server.address);
        is_ok(client.fetch_url(&url, Options { referer, ..following() }));
        assert_eq!(server.requests().pop().unwrap().field("referer"), expected.as_deref());
    }
}

#[test]
fn a_small_body_is_discarded_and_a_large_one_closes() {
    fn check<L: Loop<Engine = Client<TransferRecorder>>>() {
        for (size, connections) in [(60_000, 1), (3_000_000 / L::SLOWER.max(1) + 200_000, 2)] {
            let server = server();
            let mut client = ClientInLoop::<L>::new();
            let id = client.get(&server.url(&format!("/large/{size}")), following());
            client.run();
            let done = client.recorder().ended(id);
            is_ok(done);
            assert_eq!(done.status, 200);
            assert_eq!(client.recorder().body(id), b"reached", "{size}");
            assert_eq!(client.recorder().trace(id), "RHdD", "{size}");
            assert_eq!(server.connections(), connections, "{size}");
            assert_eq!(client.client.engine().connections(), 1, "{size}");
        }
    }
    in_every_loop([check::<OwnLoop<_>>, check::<AppLoop<_>>, check::<Bytewise<OwnLoop<_>>>]);
}

#[test]
fn endless_and_truncated_redirects_are_followed_or_fail() {
    let server = ThreadedServer::start(|asked| match &*asked.target {
        "/short" => b"HTTP/1.1 302 F\r\nLocation: /x\r\nContent-Length: 9\r\n\
                      Connection: close\r\n\r\n123"
            .to_vec(),
        "/endless" => {
            let mut bytes = b"HTTP/1.1 302 F\r\nLocation: /x\r\n\r\n".to_vec();
            bytes.resize(1_000_000, b'x');
            bytes
        }
        _ => answer(200, "", "reached"),
    });
    let mut client = ClientInLoop::<OwnLoop<_>>::new();
    is_ok(client.fetch_url(&server.url("/endless"), following()));
    let done = client.fetch_url(&server.url("/short"), following());
    assert_eq!(done.result.as_ref().map_err(Error::kind), Err("truncated"));
    assert_eq!(client.client.engine().running(), 0);
}

#[test]
fn transfers_that_are_redirected_can_be_removed_and_paused() {
    let server = server();
    let mut client = ClientInLoop::<OwnLoop<_>>::with(
        TransferRecorder::with(|context, id, event| {
            if matches!(event, TransferEvent::Redirect { .. }) {
                assert!(context.remove(id));
            }
        }),
        Config::default(),
    );
    for path in ["/hops/2", "/large/60000", "/large/2000000"] {
        let id = client.get(&server.url(path), following());
        client.run();
        assert_eq!(client.recorder().trace(id), "R", "{path}");
    }
    let mut client = ClientInLoop::<OwnLoop<_>>::acting(|context, id, event| {
        if matches!(event, TransferEvent::Redirect { .. }) {
            context.pause(id);
            context.resume(id);
        }
    });
    for path in ["/hops/2", "/large/60000", "/large/2000000"] {
        is_ok(client.fetch_url(&server.url(path), following()));
    }
}
