//! A server with injected faults, which records its requests.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};

use crate::faults::cases::InjectedFault;
use crate::faults::message::{FaultRequest, ReceivedMessage, request_len};
use crate::faults::peer::SocketPeer;
use fulmar_engine::sim::PeerStep;

/// The part of a request that a server received.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReceivedPart {
    /// How often its head came.
    pub(crate) times: u32,
    /// How often all of it did.
    pub(crate) whole: u32,
    /// The connection had been used before when it came first.
    pub(crate) was_reused: bool,
    /// The server had ended its side before it came first: it was on its way meanwhile.
    pub(crate) was_late: bool,
}

/// The requests, their faults, and the parts that were received.
#[derive(Debug, Default)]
pub(crate) struct RequestBook {
    pub(crate) plans: HashMap<u32, (FaultRequest, Option<&'static InjectedFault>)>,
    pub(crate) heard: HashMap<u32, ReceivedPart>,
}

/// The treatment of every new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Welcome {
    Serve,
    Close,
    Reset,
}

#[derive(Debug)]
pub(crate) struct FaultyOrigin {
    listener: TcpListener,
    welcome: Welcome,
    wires: Vec<OriginConnection>,
    dribbles: bool,
}

#[derive(Debug)]
struct OriginConnection {
    peer: SocketPeer,
    /// Where the request in hand, or the next one, begins.
    from: usize,
    in_hand: Option<u32>,
    is_whole: bool,
    requests: usize,
}

impl FaultyOrigin {
    pub(crate) fn new(welcome: Welcome, dribbles: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Self { listener, welcome, wires: Vec::new(), dribbles }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    /// No connection is open from its side.
    pub(crate) fn is_quiet(&self) -> bool {
        self.wires.iter().all(|wire| wire.peer.is_deaf)
    }

    pub(crate) fn is_stuck(&self) -> bool {
        self.wires.iter().any(|wire| wire.peer.is_stuck)
    }

    /// Closes idle connections; returns their number.
    pub(crate) fn close_idle(&mut self) -> usize {
        let is_idle = |wire: &&mut OriginConnection| {
            wire.requests > 0 && wire.in_hand.is_none() && wire.from == wire.peer.got.len()
        };
        self.wires.iter_mut().filter(is_idle).map(|wire| wire.peer.close()).count()
    }

    /// Takes the possible steps; false if there is none.
    pub(crate) fn turn(&mut self, book: &mut RequestBook) -> bool {
        let mut moved = false;
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    let mut peer = SocketPeer::new(stream, self.dribbles);
                    match self.welcome {
                        Welcome::Serve => {}
                        Welcome::Close => peer.steps.push_back(PeerStep::Close),
                        Welcome::Reset => peer.steps.push_back(PeerStep::Reset),
                    }
                    self.wires.push(OriginConnection {
                        peer,
                        from: 0,
                        in_hand: None,
                        is_whole: false,
                        requests: 0,
                    });
                    moved = true;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        for wire in &mut self.wires {
            moved |= wire.turn(book);
        }
        self.wires.retain(|wire| wire.peer.is_open());
        moved
    }
}

impl OriginConnection {
    fn turn(&mut self, book: &mut RequestBook) -> bool {
        let mut moved = self.peer.turn();
        loop {
            self.note_whole(book);
            if self.in_hand.is_none() && !self.begin(book) {
                return moved;
            }
            moved |= self.peer.turn();
            self.note_whole(book);
            if !self.peer.steps.is_empty() || !self.is_whole || !self.peer.is_open() {
                return moved;
            }
            let len = request_len(&self.peer.got[self.from..]).expect("it is whole");
            (self.in_hand, self.from) = (None, self.from + len);
            moved = true;
        }
    }

    /// The head of a request has arrived: the steps are known.
    fn begin(&mut self, book: &mut RequestBook) -> bool {
        let Some(head) = ReceivedMessage::of(&self.peer.got[self.from..], false) else {
            return false;
        };
        let id = head.id();
        let heard = book.heard.entry(id).or_default();
        heard.times += 1;
        if heard.times == 1 {
            heard.was_reused = self.requests > 0;
            heard.was_late = self.peer.has_ended;
        }
        self.requests += 1;
        (self.in_hand, self.is_whole) = (Some(id), false);
        let (ask, fault) = book.plans.get(&id).expect("requests are planned");
        let from = self.from;
        let until_whole = PeerStep::Until(Box::new(move |got| request_len(&got[from..]).is_some()));
        // Every fault occurs once.
        let steps = match fault.and_then(|fault| fault.server).filter(|_| heard.times == 1) {
            Some(fails) => fails(ask, until_whole),
            None => well(ask, until_whole),
        };
        self.peer.steps.extend(steps);
        true
    }

    fn note_whole(&mut self, book: &mut RequestBook) {
        let Some(id) = self.in_hand.filter(|_| !self.is_whole) else { return };
        if request_len(&self.peer.got[self.from..]).is_some() {
            self.is_whole = true;
            book.heard.entry(id).or_default().whole += 1;
        }
    }
}

/// What a good server does.
pub(crate) fn well(ask: &FaultRequest, until_whole: PeerStep) -> Vec<PeerStep> {
    let mut steps = vec![until_whole, PeerStep::Send(ask.reply("200 OK"))];
    if ask.answer.0 == crate::faults::message::BodyFraming::Close {
        steps.push(PeerStep::Close);
    }
    steps
}
