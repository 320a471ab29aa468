//! A resolver's sockets in both kinds of loops: descriptor numbers that are reused before their
//! events are processed.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use fulmar_drive::{Interest, Ready, Resolution, Resolver, Watch};
use fulmar_engine::LookupId;
use fulmar_tests::lookups::LookupEngine;
use fulmar_tests::loops::{AppLoop, Loop, OwnLoop, PollLoop};
use fulmar_tests::process::PATIENCE;
use rustix::io::dup2;

/// Has two sockets; when one is ready it closes the other and opens a third with the same number.
#[derive(Debug)]
struct Swapper {
    sockets: Vec<UnixStream>,
    peers: Sender<UnixStream>,
    heard: Sender<u8>,
    news: VecDeque<Watch>,
}

impl Swapper {
    fn open(&mut self) {
        let (socket, peer) = UnixStream::pair().unwrap();
        self.peers.send(peer).unwrap();
        self.watch(socket);
    }

    /// The same, with the number of another, which is closed atomically (`dup2(2)`): no other
    /// thread can take it in between.
    fn open_in_place_of(&mut self, other: UnixStream) {
        let (socket, peer) = UnixStream::pair().unwrap();
        self.peers.send(peer).unwrap();
        let mut place = OwnedFd::from(other);
        dup2(&socket, &mut place).unwrap();
        self.news.push_back(Watch::Closed { socket: place.as_raw_fd() });
        self.watch(place.into());
    }

    fn watch(&mut self, socket: UnixStream) {
        socket.set_nonblocking(true).unwrap();
        let interest = Interest { read: true, write: false, hangup: false };
        self.news.push_back(Watch::For { socket: socket.as_raw_fd(), interest });
        self.sockets.push(socket);
    }
}

impl Resolver for Swapper {
    fn resolve(&mut self, _: Instant, _: LookupId, _: &str) {
        self.open();
        self.open();
    }

    fn handle_ready(&mut self, _: Instant, socket: RawFd, ready: Ready) {
        assert!(ready.read);
        let at = self.sockets.iter().position(|known| known.as_raw_fd() == socket).unwrap();
        let mut byte = [0];
        self.sockets[at].read_exact(&mut byte).expect("what is ready can be read");
        self.heard.send(byte[0]).unwrap();
        if self.sockets.len() == 2 {
            let other = self.sockets.remove(1 - at);
            self.open_in_place_of(other);
            self.sockets.remove(0); // only once: the first is closed, too
            self.news.push_back(Watch::Closed { socket });
        }
    }

    fn poll_watch(&mut self) -> Option<Watch> {
        self.news.pop_front()
    }

    fn abandon(&mut self, _: Instant, _: LookupId) {}

    fn handle_unwatched(&mut self, _: Instant, _: RawFd, error: &io::Error) {
        panic!("{error}");
    }

    fn handle_timeout(&mut self, _: Instant) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn poll_resolution(&mut self) -> Option<Resolution> {
        None
    }
}

#[test]
fn a_late_event_does_not_reach_a_reused_descriptor() {
    swap::<OwnLoop<LookupEngine>>();
    swap::<PollLoop<LookupEngine>>();
    swap::<AppLoop<LookupEngine>>();
}

fn swap<L: Loop<Engine = LookupEngine>>() {
    let ((peers, opened), (heard, said)) = (channel(), channel());
    let (mut driver, _) = L::start(LookupEngine::default());
    let before = driver.watched().len();
    let (sockets, news) = (Vec::new(), VecDeque::new());
    driver.set_resolver(Box::new(Swapper { sockets, peers, heard, news }));
    driver.engine().lookup("name.example");
    driver.kick();
    let (mut first, mut second) = (opened.recv().unwrap(), opened.recv().unwrap());
    assert_eq!(driver.watched().len(), before + 2);

    first.write_all(b"1").unwrap();
    second.write_all(b"2").unwrap();
    driver.turn(PATIENCE); // both are ready
    let mut third = opened.recv().unwrap();
    assert_eq!(all(&said).len(), 1, "the other one is closed, and the third was not told");
    assert_eq!(driver.watched().len(), before + 1);

    driver.turn(Duration::ZERO);
    assert!(all(&said).is_empty(), "nothing is ready");
    third.write_all(b"3").unwrap();
    driver.turn(PATIENCE);
    assert_eq!(all(&said), [b'3']);
}

fn all(said: &Receiver<u8>) -> Vec<u8> {
    said.try_iter().collect()
}
