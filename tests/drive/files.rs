//! Files that shrink while they are sent: the peer receives the available bytes and the end, in
//! every loop.

use std::cell::RefCell;
use std::fs::File;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, UNIX_EPOCH};

use fulmar_engine::End;
use fulmar_proto::{Abilities, FileRange, Headers, Request, Response};
use fulmar_server::{
    Handler, HandlerApp, HandlerResult, Limits, Observer, Responder, ServerEngine, Stop,
};
use fulmar_sys as sys;
use fulmar_tests::loops::{LISTENER, Loop, OwnLoop, client, settle, turn_while};
use fulmar_tests::tests_in_every_loop;

/// Answers with a file.
#[derive(Debug)]
struct Sender(FileRange);

impl Handler for Sender {
    fn handle(&mut self, responder: &mut Responder<'_>, _: &Request<'_>) -> HandlerResult {
        responder.reply(Response::new(200, Headers::EMPTY), self.0.clone())
    }
}

/// Why connections have ended.
#[derive(Clone, Debug, Default)]
struct EndLog(Rc<RefCell<Vec<String>>>);

impl Observer for EndLog {
    fn gone(&mut self, _: Instant, _: SocketAddr, end: &End) {
        self.0.borrow_mut().push(format!("{end:?}"));
    }
}

type SenderEngine = ServerEngine<HandlerApp<Sender>>;

fn engine(file: &File) -> (SenderEngine, EndLog) {
    let file = Arc::new(file.try_clone().unwrap().into());
    let ends = EndLog::default();
    let sender = Sender(FileRange { file, offset: 0, len: LEN });
    let app = HandlerApp::new(sender, sys::now(), || UNIX_EPOCH).with_observer(ends.clone());
    let mut engine = ServerEngine::new(sys::now(), app, Limits::default(), Stop::new());
    engine.add_listener(LISTENER, None);
    (engine, ends)
}

/// The client does not read until the socket is full, and reads everything once the file is
/// shorter.
fn check<L: Loop<Engine = SenderEngine>>(of: impl FnOnce(&mut L)) {
    let file = tempfile::tempfile().unwrap();
    file.set_len(LEN).unwrap();
    let (engine, ends) = engine(&file);
    let (mut driver, address) = L::start(engine);
    of(&mut driver);
    let mut stream = client(address);
    stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    settle(&mut driver);
    file.set_len(SHORTER).unwrap();
    let mut answer = Vec::new();
    turn_while(&mut driver, || stream.read_to_end(&mut answer)).expect("an end, and no reset");
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    assert_eq!((answer.len() - head - 4) as u64, SHORTER, "all that there was");
    let ends = ends.0.borrow();
    assert!(ends.len() == 1 && ends[0].contains("became shorter"), "{ends:?}");
}

/// The next turn sends the rest, although no event reports room.
fn a_long_file_arrives_whole<L: Loop<Engine = SenderEngine>>() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(LEN).unwrap();
    let (mut driver, address) = L::start(engine(&file).0);
    let mut stream = client(address);
    stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    let read = move || std::io::copy(&mut stream, &mut std::io::sink());
    let read = turn_while(&mut driver, read).expect("an end, and no reset");
    assert!((LEN + 50..LEN + 500).contains(&read), "{read}: a head and all of it");
}

fn a_file_that_becomes_shorter_ends_its_connection_at_once<L: Loop<Engine = SenderEngine>>() {
    check::<L>(|_| {});
}

tests_in_every_loop!(
    at_any_pace: [],
    at_full_speed: [
        a_file_that_becomes_shorter_ends_its_connection_at_once,
        a_long_file_arrives_whole,
    ],
);

/// As on systems without sendfile.
#[test]
fn a_file_that_is_read_and_becomes_shorter_ends_its_connection_at_once() {
    check::<OwnLoop<_>>(|driver| driver.0.set_abilities(Abilities::NETBSD));
}

/// Much more than the buffers of a connection hold.
const LEN: u64 = 32 << 20;
/// More than they hold, too, and not a whole number of pages.
const SHORTER: u64 = (16 << 20) + 100;
