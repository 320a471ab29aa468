//! Bodies that are spliced into files, and unusable files.

use std::cell::RefCell;
use std::fs::File;
use std::io::{BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use fulmar_client::{Client, Context, Error, Options, TransferEvent, TransferId};
use fulmar_proto::FileRange;
use fulmar_sys::{self as sys, Call, Ledger};
use fulmar_tests::client_in_loop::ClientInLoop;
use fulmar_tests::loops::{AppLoop, Edge, Loop, OwnLoop};
use fulmar_tests::threads::{RequestRecord, ThreadedServer, answer};
use fulmar_tests::transfers::TransferRecorder;
use fulmar_tests::tree::noise;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

fn in_every_loop(checks: [fn(); 3]) {
    checks.into_iter().for_each(|check| check());
}

const LEN: usize = 10_000_000;
/// What is sent; made once.
static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| noise(LEN));

/// `/N` is N bytes of noise: the first 100 in one piece with the head, the rest after those are
/// consumed.
fn server() -> ThreadedServer {
    ThreadedServer::with_connections(move |connection, stream, log| {
        let mut from = BufReader::new(stream);
        while let Some(mut asked) = RequestRecord::read_head(&mut from)? {
            asked.connection = connection;
            let len: usize = asked.target[1..].parse().expect("a length");
            log.push(asked);
            let body = &CONTENT[..len];
            let (first, rest) = body.split_at(len.min(100));
            let mut head = format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n").into_bytes();
            head.extend_from_slice(first);
            from.get_ref().write_all(&head)?;
            from.get_ref().write_all(rest)?;
        }
        Ok(())
    })
}

/// Where a transfer's body goes, and how much came as data.
type Places = Rc<RefCell<Vec<(TransferId, Arc<OwnedFd>, u64)>>>;

/// Stores the bodies of listed transfers in their files, at `offset`.
fn storing(
    places: Places,
    offset: u64,
) -> impl FnMut(&mut Context<'_>, TransferId, &TransferEvent<'_>) {
    move |context, id, event| {
        let mut places = places.borrow_mut();
        let Some((_, file, written)) = places.iter_mut().find(|(known, ..)| *known == id) else {
            return;
        };
        match event {
            TransferEvent::Head { len, .. } => {
                let len = len.expect("it is known");
                let range = FileRange { file: Arc::clone(file), offset, len };
                assert!(context.store(id, range));
                assert!(!context.store(id, FileRange { file: Arc::clone(file), offset, len }));
            }
            TransferEvent::Data(bytes) => {
                let file = File::from(file.try_clone().expect("a descriptor"));
                let received = context.progress(id).expect("it is running").received;
                // A write error is reported by the kernel for later bytes.
                let _ = file.write_all_at(bytes, offset + received - bytes.len() as u64);
                *written += bytes.len() as u64;
            }
            _ => {}
        }
    }
}

fn temporary() -> Arc<OwnedFd> {
    Arc::new(tempfile::tempfile().expect("room").into())
}

fn content(file: &OwnedFd, offset: u64, len: usize) -> Vec<u8> {
    let file = File::from(file.try_clone().expect("a descriptor"));
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, offset).expect("it is there");
    assert_eq!(file.metadata().expect("a file").len(), offset + len as u64, "and no more");
    bytes
}

#[test]
fn a_stored_body_equals_the_sent_one() {
    fn check<L: Loop<Engine = Client<TransferRecorder>>>() {
        let server = server();
        let places = Places::default();
        let mut client = ClientInLoop::<L>::acting(storing(Rc::clone(&places), 7));
        for len in [LEN, 101, 100, 1, 0, 300_000] {
            let file = temporary();
            let before = Ledger::here();
            let id = client.get(&server.url(&format!("/{len}")), Options::default());
            places.borrow_mut().push((id, Arc::clone(&file), 0));
            client.run();
            let spliced = (Ledger::here() - before).count(Call::splice);
            let (_, _, written) = places.borrow_mut().pop().expect("pushed above");
            let recorder = client.recorder();
            let done = recorder.ended(id);
            assert!(done.result.is_ok(), "{done:?}");
            assert_eq!((done.status, done.received), (200, len as u64));
            if len > 0 {
                assert!(content(&file, 7, len) == CONTENT[..len], "{len}");
            }
            // The application writes the bytes that arrived with the head, and the last byte.
            let data = recorder.body(id);
            assert_eq!((data.len() as u64, data.last()), (written, CONTENT[..len].last()));
            assert!(CONTENT[..len].starts_with(&data[..data.len().saturating_sub(1)]));
            assert!(written >= len.min(1) as u64);
            if len == LEN {
                assert!(written < 1_000_000, "{written} of {len} bytes were copied");
                assert!(spliced.calls > 0, "{done:?}");
            }
        }
        assert_eq!(server.connections(), 1);
    }
    in_every_loop([check::<OwnLoop<_>>, check::<AppLoop<_>>, check::<AppLoop<_, Edge>>]);
}

/// A file with a limit of `len` bytes, as on a full device.
fn full(len: u64) -> Arc<OwnedFd> {
    let file = memfd_create("full", MemfdFlags::ALLOW_SEALING).expect("memory");
    ftruncate(&file, len).expect("memory");
    fcntl_add_seals(&file, SealFlags::GROW).expect("it allows that");
    Arc::new(file)
}

#[test]
fn a_file_that_is_full_fails_its_transfer_and_no_other() {
    fn check<L: Loop<Engine = Client<TransferRecorder>>>() {
        let server = server();
        let places = Places::default();
        let mut client = ClientInLoop::<L>::acting(storing(Rc::clone(&places), 0));
        let url = server.url(&format!("/{LEN}"));
        let bad = client.get(&url, Options::default());
        let good = client.get(&url, Options::default());
        let file = temporary();
        places.borrow_mut().push((bad, full(4096 * 100), 0));
        places.borrow_mut().push((good, Arc::clone(&file), 0));
        client.run();
        let recorder = client.recorder();
        let done = recorder.ended(bad);
        assert!(matches!(done.result, Err(Error::Write(_))), "{done:?}");
        assert!(done.result.as_ref().unwrap_err().to_string().contains("writing the body"));
        assert!(done.received < LEN as u64);
        let done = recorder.ended(good);
        assert!(done.result.is_ok(), "{done:?}");
        assert!(content(&file, 0, LEN) == CONTENT[..]);
        assert_eq!(client.client.engine().connections(), 1, "the other is closed");
    }
    in_every_loop([check::<OwnLoop<_>>, check::<AppLoop<_>>, check::<AppLoop<_, Edge>>]);
}

/// Bytes after a body that was stored in its file belong to no response, least of all to the next
/// one.
#[test]
fn bytes_behind_a_stored_body_are_detected() {
    fn check<L: Loop<Engine = Client<TransferRecorder>>>() {
        let server = ThreadedServer::with_connections(move |connection, stream, log| {
            let mut from = BufReader::new(stream);
            while let Some(mut asked) = RequestRecord::read_head(&mut from)? {
                asked.connection = connection;
                let (head, body): (_, &[u8]) = match &*asked.target {
                    "/long" => {
                        ("HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n", &CONTENT[..300_000])
                    }
                    _ => ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", b"right"),
                };
                let is_long = body.len() > 5;
                log.push(asked);
                from.get_ref().write_all(head.as_bytes())?;
                let (most, rest) = body.split_at(body.len() - 1);
                from.get_ref().write_all(most)?;
                let junk: &[u8] = if is_long {
                    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong"
                } else {
                    b""
                };
                from.get_ref().write_all(&[rest, junk].concat())?;
            }
            Ok(())
        });
        let places = Places::default();
        let mut client = ClientInLoop::<L>::acting(storing(Rc::clone(&places), 0));
        let file = temporary();
        let long = client.get(&server.url("/long"), Options::default());
        places.borrow_mut().push((long, Arc::clone(&file), 0));
        client.run();
        let done = client.recorder().ended(long);
        assert!(done.result.is_ok() && done.excess, "{done:?}");
        assert!(content(&file, 0, 300_000) == CONTENT[..300_000]);
        let next = client.get(&server.url("/next"), Options::default());
        client.run();
        assert_eq!(client.recorder().body(next), b"right");
        assert_eq!(server.connections(), 2);
    }
    in_every_loop([check::<OwnLoop<_>>, check::<AppLoop<_>>, check::<AppLoop<_, Edge>>]);
}

#[test]
fn bodies_that_cannot_be_spliced_are_delivered() {
    let server = ThreadedServer::start(|asked| match &*asked.target {
        "/chunked" => {
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n".to_vec()
        }
        _ => answer(200, "", "hello"),
    });
    let mut client = ClientInLoop::<OwnLoop<_>>::acting(|context, id, event| {
        if let TransferEvent::Head { len, .. } = event {
            let place = FileRange { file: temporary(), offset: 0, len: 5 };
            assert_eq!(context.store(id, place), len.is_some());
        }
    });
    for path in ["/chunked", "/known"] {
        let id = client.get(&server.url(path), Options::default());
        client.run();
        assert!(client.recorder().ended(id).result.is_ok());
        assert_eq!(client.recorder().body(id), b"hello", "{path}: it came with the head");
    }
}

#[test]
fn a_stored_body_can_be_paused_paced_and_removed() {
    fn check<L: Loop<Engine = Client<TransferRecorder>>>() {
        let server = server();
        let places = Places::default();
        let mut client = ClientInLoop::<L>::acting(storing(Rc::clone(&places), 0));
        let options = || Options { highest_speed: Some(20_000_000), ..Options::default() };
        let file = temporary();
        let start = sys::now();
        let id = client.get(&server.url(&format!("/{LEN}")), options());
        places.borrow_mut().push((id, Arc::clone(&file), 0));
        let received = |client: &mut ClientInLoop<L>| {
            let of = |context: &mut Context<'_>| context.progress(id).map_or(0, |p| p.received);
            client.client.with(|client, now| client.with(now, |_, context| of(context)))
        };
        while received(&mut client) < 1_000_000 {
            client.client.turn(Duration::from_millis(5));
        }
        client.client.with(|client, now| client.with(now, |_, context| context.pause(id)));
        let before = received(&mut client);
        for _ in 0..10 {
            client.client.turn(Duration::from_millis(2));
        }
        assert!(received(&mut client) <= before + 1_000_000, "held back");
        client.client.with(|client, now| client.with(now, |_, context| context.resume(id)));
        client.run();
        assert!(client.recorder().ended(id).result.is_ok());
        assert!(sys::now() - start > Duration::from_millis(400), "{:?}", sys::now() - start);
        assert!(content(&file, 0, LEN) == CONTENT[..]);

        let id = client.get(&server.url(&format!("/{LEN}")), options());
        places.borrow_mut().push((id, temporary(), 0));
        client.run_until(|client| client.application().traces.contains_key(&id));
        client.client.with(|client, now| client.with(now, |_, context| context.remove(id)));
        client.run_until(|client| client.connections() == 0);
    }
    in_every_loop([check::<OwnLoop<_>>, check::<AppLoop<_>>, check::<AppLoop<_, Edge>>]);
}

#[test]
fn a_body_that_breaks_off_on_its_way_to_a_file_is_an_error() {
    let server = ThreadedServer::with_connections(|_, stream, _| {
        let mut from = BufReader::new(stream);
        RequestRecord::read_head(&mut from)?;
        from.get_ref().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n\r\n")?;
        from.get_ref().write_all(&vec![b'x'; 1_000_000])
    });
    let places = Places::default();
    let mut client = ClientInLoop::<OwnLoop<_>>::acting(storing(Rc::clone(&places), 0));
    let id = client.get(&server.url("/"), Options::default());
    places.borrow_mut().push((id, temporary(), 0));
    client.run();
    let done = client.recorder().ended(id);
    assert!(done.result.is_err(), "{done:?}");
    assert!(done.received <= 1_000_000);
}
