//! Uploads: expectations, files, forms, and early responses.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fulmar_client::{
    Client, Config, Context, Done, Error, Options, Request, RequestBody, TransferEvent, TransferId,
};
use fulmar_proto::FileRange;
use fulmar_semantics::auth::Credentials;
use fulmar_semantics::form::{
    Boundary, FormEvent as Piece, FormLimits, FormPart, Multipart, Parser,
};
use fulmar_semantics::redirect::Policy;
use fulmar_sys::{Call, Ledger};
use fulmar_tests::client_in_loop::ClientInLoop;
use fulmar_tests::loops::{AppLoop, Bytewise, Edge, Loop, OwnLoop};
use fulmar_tests::threads::{RequestRecord, ThreadedServer, answer};
use fulmar_tests::transfers::TransferRecorder;
use fulmar_tests::tree::noise;

fn in_every_loop(checks: [fn(); 3]) {
    checks.into_iter().for_each(|check| check());
}

fn is_ok(done: &Done) -> &Done {
    assert!(done.result.is_ok(), "{done:?}");
    done
}

/// Sends all of `body` when the client polls it.
fn streaming(body: &'static [u8]) -> impl FnMut(&mut Context<'_>, TransferId, &TransferEvent<'_>) {
    move |context, id, event| {
        if matches!(event, TransferEvent::Writable) {
            context.send(id, Bytes::from_static(body));
            context.finish(id);
        }
    }
}

/// Sends `Expect` always, and waits without a limit.
fn expecting() -> Options {
    Options {
        expect_continue_from: Some(0),
        continue_timeout: Duration::from_secs(3600),
        ..Options::default()
    }
}

fn put(server: &ThreadedServer, path: &str, body: RequestBody, options: Options) -> Request {
    let request = Request::with_method("PUT", &server.url(path)).body(body);
    request.options(options.into()).build().unwrap()
}

/// A server that supports `Expect`: `/yes` gets 100, anything else gets `refusal` at once.
fn careful(refusal: Vec<u8>) -> ThreadedServer {
    ThreadedServer::with_connections(move |connection, stream, log| {
        let mut from = BufReader::new(stream);
        while let Some(mut asked) = RequestRecord::read_head(&mut from)? {
            asked.connection = connection;
            let expects = asked.field("expect") == Some("100-continue");
            if expects && asked.target == "/yes" {
                from.get_ref().write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
            } else if expects {
                log.push(asked);
                from.get_ref().write_all(&refusal)?;
                continue; // whatever comes now is the next request, or the end
            }
            asked.read_body(&mut from)?;
            let reply = answer(200, "", &asked.body);
            log.push(asked);
            from.get_ref().write_all(&reply)?;
        }
        Ok(())
    })
}

#[test]
fn a_body_is_sent_after_100() {
    fn check<L: Loop<Engine = Client<TransferRecorder>>>() {
        let server = careful(answer(403, "", "no"));
        let mut client = ClientInLoop::<L>::acting(streaming(b"streamed"));
        for (body, expected) in [
            (RequestBody::Bytes("hello".into()), "hello"),
            (RequestBody::Stream(Some(8)), "streamed"),
            (RequestBody::Stream(None), "streamed"),
        ] {
            let id = client.start(&put(&server, "/yes", body, expecting()));
            client.run();
            assert_eq!(is_ok(client.recorder().ended(id)).status, 200);
            assert_eq!(client.recorder().body(id), expected.as_bytes());
        }
        assert_eq!(server.connections(), 1);
    }
    in_every_loop([check::<OwnLoop<_>>, check::<AppLoop<_>>, check::<Bytewise<OwnLoop<_>>>]);
}

#[test]
fn an_unwanted_body_is_not_sent() {
    fn check<L: Loop<Engine = Client<TransferRecorder>>>() {
        let server = careful(answer(403, "", "no"));
        let mut client = ClientInLoop::<L>::acting(streaming(b"streamed"));
        for body in [RequestBody::Bytes("hello".into()), RequestBody::Stream(None)] {
            let id = client.start(&put(&server, "/no", body, expecting()));
            client.run();
            assert_eq!(is_ok(client.recorder().ended(id)).status, 403);
            assert_eq!(client.recorder().body(id), b"no");
            assert_eq!(client.recorder().trace(id), "HdD", "and nobody asked for it");
            // It is unknown how the server would parse the next bytes.
            assert_eq!(client.client.engine().idle_connections(), 0);
        }
        let asked = server.requests();
        assert_eq!((asked.len(), server.connections()), (2, 2));
        assert!(asked.iter().all(|asked| asked.body.is_empty()));
    }
    in_every_loop([check::<OwnLoop<_>>, check::<AppLoop<_>>, check::<Bytewise<OwnLoop<_>>>]);
}

#[test]
fn after_417_the_request_is_sent_without_expect() {
    for silent in [false, true] {
        let server = match silent {
            false => careful(answer(417, "", "what?")),
            true => ThreadedServer::start(|asked| answer(200, "", &asked.body)),
        };
        let mut client = ClientInLoop::<OwnLoop<_>>::acting(streaming(b"streamed"));
        for (body, expected) in [
            (RequestBody::Bytes("hello".into()), "hello"),
            (RequestBody::Stream(Some(8)), "streamed"),
        ] {
            let mut options = expecting();
            if silent {
                options.continue_timeout = Duration::from_millis(20);
            }
            let id = client.start(&put(&server, "/", body, options));
            client.run();
            let done = is_ok(client.recorder().ended(id));
            assert_eq!(done.status, 200);
            assert_eq!(done.hops.len(), usize::from(!silent));
            assert_eq!(client.recorder().body(id), expected.as_bytes());
        }
    }
}

#[test]
fn a_stream_that_was_not_begun_can_go_elsewhere() {
    for refusal in [
        answer(307, "Location: /yes\r\n", ""),
        answer(401, "WWW-Authenticate: Basic realm=\"r\"\r\n", ""),
    ] {
        let server = ThreadedServer::with_connections(move |connection, stream, log| {
            let mut from = BufReader::new(stream);
            while let Some(mut asked) = RequestRecord::read_head(&mut from)? {
                asked.connection = connection;
                if asked.field("authorization").is_none() && asked.target == "/no" {
                    from.get_ref().write_all(&refusal)?;
                    continue;
                }
                from.get_ref().write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
                asked.read_body(&mut from)?;
                from.get_ref().write_all(&answer(200, "", &asked.body))?;
                log.push(asked);
            }
            Ok(())
        });
        let credentials = Credentials::password("u", "p").unwrap();
        let options = Options {
            redirects: Some(Policy::default()),
            credentials: Some(credentials.into()),
            ..expecting()
        };
        let mut client = ClientInLoop::<OwnLoop<_>>::acting(streaming(b"streamed"));
        let id = client.start(&put(&server, "/no", RequestBody::Stream(None), options));
        client.run();
        assert_eq!(is_ok(client.recorder().ended(id)).status, 200);
        assert_eq!(client.recorder().body(id), b"streamed");
    }
}

#[test]
fn small_bodies_and_none_expect_nothing() {
    let server = ThreadedServer::start(|asked| answer(200, "", &asked.body));
    let mut client = ClientInLoop::<OwnLoop<_>>::new();
    let from = |from| Options { expect_continue_from: from, ..expecting() };
    for (body, options) in [
        (RequestBody::Empty, from(Some(0))),
        (RequestBody::Bytes("12345".into()), from(Some(6))),
        (RequestBody::Bytes(vec![0; 100_000].into()), from(None)),
    ] {
        is_ok(client.fetch(&put(&server, "/", body, options)));
        assert_eq!(server.requests().pop().unwrap().field("expect"), None);
    }
}

fn file(content: &[u8]) -> Arc<OwnedFd> {
    let mut file = tempfile::tempfile().expect("room");
    file.write_all(content).expect("room");
    Arc::new(File::into(file))
}

#[test]
fn files_are_uploaded_without_reading() {
    fn check<L: Loop<Engine = Client<TransferRecorder>>>() {
        let content = noise(3_000_000 / L::SLOWER + 100);
        let file = file(&content);
        let server = ThreadedServer::start(|asked| answer(200, "", &asked.body));
        let mut client = ClientInLoop::<L>::new();
        for (offset, len) in [(0, content.len()), (10, 50), (7, 0)] {
            let range = FileRange { file: file.clone(), offset, len: len as u64 };
            let before = Ledger::here();
            let options = Options { expect_continue_from: None, ..Options::default() };
            let id = client.start(&put(&server, "/", RequestBody::File(range), options));
            client.run();
            let sendfiles = (Ledger::here() - before).count(Call::sendfile).calls;
            assert_eq!(sendfiles > 0, len > 0, "{len} bytes");
            is_ok(client.recorder().ended(id));
            let start = usize::try_from(offset).unwrap();
            assert!(client.recorder().body(id) == &content[start..start + len]);
        }
    }
    in_every_loop([check::<OwnLoop<_>>, check::<AppLoop<_>>, check::<Bytewise<OwnLoop<_>>>]);
}

/// The parts of a form, as names and contents.
fn parts(asked: &RequestRecord) -> Vec<(Vec<u8>, Vec<u8>)> {
    let content_type = asked.field("content-type").expect("it says what it is");
    let mut parser = Parser::new(content_type.as_bytes(), FormLimits::default()).expect("a form");
    parser.push(asked.body.clone().into());
    let mut parts: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    while let Some(event) = parser.poll_event().expect("a form") {
        match event {
            Piece::Part(head) => parts.push((head.name, Vec::new())),
            Piece::Data(bytes) => parts.last_mut().expect("of a part").1.extend(&bytes),
            _ => {}
        }
    }
    parser.finish().expect("all of it");
    parts
}

#[test]
fn forms_go_up_with_their_files_and_can_go_again() {
    fn check<L: Loop<Engine = Client<TransferRecorder>>>() {
        let content = noise(1_000_000 / L::SLOWER + 100);
        let file = file(&content);
        let server = ThreadedServer::start(|asked| match &*asked.target {
            "/" => answer(307, "Location: /there\r\n", ""),
            _ => answer(200, "", ""),
        });
        let mut form = Multipart::new(Boundary::from_random([7; 16]));
        form.text("name", "value");
        let whole = FileRange { file: file.clone(), offset: 0, len: content.len() as u64 };
        form.part(&FormPart { filename: Some("a.bin"), ..FormPart::new("whole") }, whole).unwrap();
        let some = FileRange { file, offset: 10, len: 20 };
        form.part(&FormPart { filename: Some("b.bin"), ..FormPart::new("some") }, some).unwrap();
        form.text("last", "");
        let form = form.finish();
        let len = form.len;
        let options = Options {
            redirects: Some(Policy::default()),
            expect_continue_from: None,
            ..Options::default()
        };
        let request = Request::with_method("POST", &server.url("/")).form(form);
        let request = request.options(options.into()).build().unwrap();
        let mut client = ClientInLoop::<L>::new();
        for _ in 0..2 {
            is_ok(client.fetch(&request));
        }
        let asked = server.requests();
        assert_eq!((asked.len(), server.connections()), (4, 1));
        for asked in &asked {
            assert_eq!(asked.field("content-length"), Some(&*len.to_string()));
            let parts = parts(asked);
            let contents: Vec<&[u8]> = parts.iter().map(|(_, content)| &content[..]).collect();
            assert!(contents == [b"value", &content[..], &content[10..30], b""], "{}", parts.len());
            assert!(parts[1].0 == b"whole" && parts[3].0 == b"last");
        }
    }
    in_every_loop([check::<OwnLoop<_>>, check::<AppLoop<_>>, check::<Bytewise<OwnLoop<_>>>]);
}

#[test]
fn a_form_that_cannot_be_a_field_is_refused() {
    let form = Multipart::new(Boundary::new("b").unwrap()).finish();
    let form = fulmar_semantics::form::EncodedForm { content_type: "a\r\nb".to_owned(), ..form };
    assert!(Request::with_method("POST", "http://a/").form(form).build().is_err());
}

/// Responds as soon as the head has arrived, and treats the connection as `then` does.
fn hasty(then: fn(&TcpStream) -> std::io::Result<()>) -> ThreadedServer {
    ThreadedServer::with_connections(move |connection, stream, log| {
        let mut from = BufReader::new(stream);
        let mut asked = RequestRecord::read_head(&mut from)?.unwrap_or_default();
        asked.connection = connection;
        log.push(asked);
        from.get_ref().write_all(&answer(413, "", "too much"))?;
        then(from.get_ref())
    })
}

#[test]
fn an_early_response_is_delivered() {
    fn check<L: Loop<Engine = Client<TransferRecorder>>>() {
        let swallow = |mut stream: &TcpStream| {
            let mut some = [0; 4096];
            while stream.read(&mut some)? > 0 {}
            Ok(())
        };
        let reset = |_: &TcpStream| Ok(());
        let half = |stream: &TcpStream| {
            stream.shutdown(Shutdown::Write)?;
            let (mut stream, mut some) = (stream, [0; 4096]);
            while stream.read(&mut some)? > 0 {}
            Ok(())
        };
        for (name, then) in [
            ("swallow", swallow as fn(&TcpStream) -> std::io::Result<()>),
            ("reset", reset),
            ("half", half),
        ] {
            let server = hasty(then);
            let mut client = ClientInLoop::<L>::new();
            let options = Options { expect_continue_from: None, ..Options::default() };
            let body = RequestBody::Bytes(vec![b'x'; 20_000_000].into());
            let id = client.start(&put(&server, "/", body, options));
            client.run();
            let done = client.recorder().ended(id);
            is_ok(done);
            assert_eq!(done.status, 413, "{name}");
            assert_eq!(client.recorder().body(id), b"too much", "{name}");
            assert_eq!(client.client.engine().idle_connections(), 0, "{name}");
            assert_eq!(server.requests().len(), 1, "{name}");
        }
    }
    in_every_loop([check::<OwnLoop<_>>, check::<AppLoop<_>>, check::<AppLoop<_, Edge>>]);
}

#[test]
fn a_redirected_upload_is_sent_completely() {
    fn check<L: Loop<Engine = Client<TransferRecorder>>>() {
        const LEN: usize = 5_000_000;
        let there = ThreadedServer::start(|asked| answer(200, "", asked.body.len().to_string()));
        let location = format!("Location: {}\r\n", there.url("/there"));
        for early in [
            answer(307, &location, ""),
            answer(308, &location, vec![b'x'; 500_000]),
            answer(401, "WWW-Authenticate: Basic realm=\"r\"\r\n", "who?"),
        ] {
            let server = ThreadedServer::with_connections(move |connection, stream, log| {
                let mut from = BufReader::new(stream);
                while let Some(mut asked) = RequestRecord::read_head(&mut from)? {
                    asked.connection = connection;
                    let proven = asked.field("authorization").is_some();
                    if !proven {
                        from.get_ref().write_all(&early)?;
                    }
                    let whole = asked.read_body(&mut from).is_ok();
                    if proven {
                        let len = asked.body.len().to_string();
                        from.get_ref().write_all(&answer(200, "", len))?;
                    }
                    log.push(asked);
                    if !whole {
                        break; // the client has closed in the middle of it
                    }
                }
                Ok(())
            });
            let options = Options {
                redirects: Some(Policy::default()),
                credentials: Some(Credentials::password("u", "p").unwrap().into()),
                expect_continue_from: None,
                ..Options::default()
            };
            let mut client = ClientInLoop::<L>::new();
            let body = RequestBody::Bytes(vec![b'x'; LEN].into());
            let id = client.start(&put(&server, "/", body, options));
            client.run();
            assert_eq!(is_ok(client.recorder().ended(id)).hops.len(), 1);
            assert_eq!(client.recorder().body(id), LEN.to_string().as_bytes());
            // Kept only if all of the first body was sent before its response.
            client.run_until(|client| client.connections() == client.idle_connections());
        }
    }
    in_every_loop([check::<OwnLoop<_>>, check::<AppLoop<_>>, check::<AppLoop<_, Edge>>]);
}

#[test]
fn interim_responses_are_reported_and_limited() {
    let server = ThreadedServer::start(|asked| {
        let hint = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
        let hints = asked.target[1..].parse().unwrap();
        [&hint.repeat(hints)[..], &answer(200, "", "x")].concat()
    });
    let mut client = ClientInLoop::<OwnLoop<_>>::new();
    let id = client.get(&server.url("/3"), Options::default());
    client.run();
    assert_eq!(client.recorder().trace(id), "IIIHdD");
    let done = client.fetch_url(&server.url("/1000"), Options::default());
    assert_eq!(done.result.as_ref().map_err(Error::kind), Err("protocol"));
}

#[test]
fn a_stream_of_the_wrong_length_fails_alone() {
    let server = ThreadedServer::start(|asked| answer(200, "", &asked.body));
    for declared in [3, 5] {
        let mut client = ClientInLoop::<OwnLoop<_>>::acting(streaming(b"four"));
        let body = RequestBody::Stream(Some(declared));
        let bad = client.start(&put(&server, "/", body, Options::default()));
        let good = client.get(&server.url("/"), Options::default());
        client.run();
        let recorder = client.recorder();
        assert!(matches!(recorder.ended(bad).result, Err(Error::Usage(_))));
        is_ok(recorder.ended(good));
    }
}

#[test]
fn an_upgraded_connection_carries_bytes_both_ways() {
    fn check<L: Loop<Engine = Client<TransferRecorder>>>() {
        let server = ThreadedServer::with_connections(|_, stream, log| {
            let mut from = BufReader::new(stream);
            let asked = RequestRecord::read_head(&mut from)?.expect("a request");
            assert_eq!(asked.field("upgrade"), Some("echo"));
            log.push(asked);
            let first =
                b"HTTP/1.1 101 Switching\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\nhi ";
            from.get_ref().write_all(first)?;
            let mut some = [0; 100];
            loop {
                let n = from.read(&mut some)?;
                if n == 0 {
                    return from.get_ref().shutdown(Shutdown::Write);
                }
                from.get_ref().write_all(&some[..n])?;
            }
        });
        let mut heard = Vec::new();
        let mut client = ClientInLoop::<L>::acting(move |context, id, event| match event {
            TransferEvent::Upgraded => context.send(id, Bytes::from_static(b"one ")),
            TransferEvent::Data(bytes) => {
                heard.extend_from_slice(bytes);
                match &heard[..] {
                    b"hi one " => context.send(id, Bytes::from_static(b"two")),
                    b"hi one two" => context.finish(id),
                    _ => {}
                }
            }
            _ => {}
        });
        let request = Request::get(&server.url("/"))
            .header("Connection", b"upgrade")
            .header("Upgrade", b"echo")
            .build()
            .unwrap();
        let id = client.start(&request);
        client.run();
        let recorder = client.recorder();
        assert_eq!(is_ok(recorder.ended(id)).status, 101);
        assert_eq!(recorder.body(id), b"hi one two");
        assert!(recorder.trace(id).starts_with("HU"), "{}", recorder.trace(id));
        assert_eq!(client.client.engine().connections(), 0);
    }
    in_every_loop([check::<OwnLoop<_>>, check::<AppLoop<_>>, check::<Bytewise<OwnLoop<_>>>]);
}

#[test]
fn a_refused_upgrade_is_a_response_and_an_unsolicited_one_an_error() {
    let server = ThreadedServer::start(|asked| match &*asked.target {
        "/refused" => answer(200, "", "plain"),
        _ => b"HTTP/1.1 101 S\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n".to_vec(),
    });
    let mut client =
        ClientInLoop::<OwnLoop<_>>::with(TransferRecorder::default(), Config::default());
    let upgrade = |path: &str| {
        let request = Request::get(&server.url(path)).header("Connection", b"upgrade");
        request.header("Upgrade", b"x").build().unwrap()
    };
    assert_eq!(is_ok(client.fetch(&upgrade("/refused"))).status, 200);
    let done = client.fetch_url(&server.url("/unasked"), Options::default());
    assert_eq!(done.result.as_ref().map_err(Error::kind), Err("protocol"));
    // A tunnel is closed when its transfer is removed.
    let id = client.start(&upgrade("/"));
    client.run_until(|client| client.application().trace(id).contains('U'));
    client.client.with(|client, now| client.with(now, |_, context| context.remove(id)));
    client.run_until(|client| client.connections() <= 1);
}
