//! The simulator's own tests: each action, each fault, and the same run for the same seed.
#![expect(clippy::disallowed_methods, reason = "virtual time starts at any time")]

use std::collections::{HashMap, VecDeque};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fulmar_proto::{FileRange, Segment, Transmit};

use super::*;
use crate::{
    Accepted, Action, CloseKind, Endpoint, Limit, ListenerId, LookupId, Passage, ResolveError,
    SocketEvent,
};

mod connections;
mod files;
mod listeners;
mod seeds;

/// An engine that records events and does what a test queues.
#[derive(Debug, Default)]
struct ProbeEngine {
    actions: VecDeque<Action>,
    log: Vec<String>,
    accepted: u32,
    refuses: bool,
    /// Bytes to send, by socket, and whether a FIN follows them.
    queued: HashMap<SocketId, (Vec<Segment>, bool)>,
    passage: Option<Passage>,
    /// Sends received bytes back, and its end after the peer's.
    echoes: bool,
    /// Leaves all input.
    leaves_input: bool,
    unread_max: Option<usize>,
    accepts_max: Option<usize>,
    pipes_max: Option<usize>,
    due: Option<Instant>,
    start: Option<Instant>,
}

impl ProbeEngine {
    fn queue(&mut self, socket: SocketId, segment: impl Into<Segment>) {
        self.queued.entry(socket).or_default().0.push(segment.into());
        self.actions.push_back(Action::Transmit { socket });
    }

    fn connect(&mut self, socket: SocketId, peer: impl Into<Peer>) {
        let endpoint = Box::new(Endpoint::from(peer.into()));
        self.actions.push_back(Action::Connect { socket, endpoint });
    }

    fn take_log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }

    fn handle_socket(&mut self, socket: SocketId, event: SocketEvent<'_>) -> String {
        let text = match event {
            SocketEvent::Connected => "connected".to_owned(),
            SocketEvent::Input(mut input) => {
                let text = format!("input {} eof {}", input.len(), input.has_eof());
                let eof = input.has_eof();
                if !self.leaves_input {
                    let bytes = input.take(input.len());
                    if self.echoes && !bytes.is_empty() {
                        self.queue(socket, bytes);
                    }
                    if self.echoes && eof {
                        self.queued.entry(socket).or_default().1 = true;
                        self.actions.push_back(Action::Transmit { socket });
                    }
                }
                text
            }
            SocketEvent::Sent(bytes) => {
                self.remove_sent(socket, bytes);
                format!("sent {bytes}")
            }
            SocketEvent::Hangup => "hangup".to_owned(),
            SocketEvent::Unread => "unread".to_owned(),
            SocketEvent::Loaded(bytes) => format!("loaded {}", String::from_utf8_lossy(bytes)),
            SocketEvent::Spliced(bytes) => format!("spliced {bytes}"),
            SocketEvent::Piped(piped) => {
                let text = format!("piped {}", piped.len);
                if self.echoes {
                    self.queue(socket, piped);
                }
                text
            }
            SocketEvent::Failed(error) => {
                self.actions.push_back(Action::Close { socket, kind: CloseKind::Normal });
                format!("failed {}", error.kind())
            }
            SocketEvent::FileFailed(_) => "file failed".to_owned(),
        };
        format!("{} {text}", socket.index)
    }

    fn remove_sent(&mut self, socket: SocketId, mut bytes: u64) {
        let (segments, fin) = self.queued.entry(socket).or_default();
        while bytes > 0 {
            let first = &mut segments[0];
            let n = bytes.min(first.len());
            bytes -= n;
            match first {
                Segment::Bytes(run) => drop(run.split_to(usize::try_from(n).unwrap())),
                Segment::File(range) => {
                    (range.offset, range.len) = (range.offset + n, range.len - n)
                }
                Segment::Pipe(piped) => piped.len -= n,
            }
            if first.is_empty() {
                segments.remove(0);
            }
        }
        if segments.is_empty() && std::mem::take(fin) {
            self.actions.push_back(Action::Shutdown { socket });
        }
    }
}

impl Engine for ProbeEngine {
    const STAMPS_SENDS: bool = true;

    fn accept(&mut self, _: Instant, from: Accepted) -> Option<SocketId> {
        let local = from.local.map(|local| local.to_string()).unwrap_or_default();
        self.log.push(format!("accept {} {} {local}", from.listener.0, from.peer.ip()));
        self.accepted += 1;
        let socket = id(100 + self.accepted);
        if self.passage.is_some() {
            self.actions.push_back(Action::Splice { socket });
        }
        (!self.refuses).then_some(socket)
    }

    fn handle(&mut self, now: Instant, event: DriverEvent<'_>) {
        let ms = self.start.map_or(0, |start| (now - start).as_millis());
        let text = match event {
            DriverEvent::Socket(socket, event) => self.handle_socket(socket, event),
            DriverEvent::AcceptFailed(listener, _) => format!("accept failed {}", listener.0),
            DriverEvent::Resolved(lookup, Ok(addresses)) => {
                format!("resolved {} {addresses:?}", lookup.0)
            }
            DriverEvent::Resolved(lookup, Err(error)) => format!("resolved {} {error:?}", lookup.0),
            DriverEvent::Timeout => {
                self.due = None;
                "timeout".to_owned()
            }
            DriverEvent::Wake => "wake".to_owned(),
            DriverEvent::Flush => return,
        };
        self.log.push(if ms > 0 { format!("{ms} ms: {text}") } else { text });
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn poll_transmit(&mut self, socket: SocketId) -> Option<Transmit<'_>> {
        let (segments, fin) = self.queued.entry(socket).or_default();
        if segments.is_empty() {
            if std::mem::take(fin) {
                self.actions.push_back(Action::Shutdown { socket });
            }
            return None;
        }
        Some(Transmit::new(b"", segments))
    }

    fn poll_passage(&mut self, _: SocketId) -> Option<Passage> {
        self.passage.clone()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    fn limit(&self, of: Limit) -> usize {
        let own = match of {
            Limit::Unread(_) => self.unread_max,
            Limit::Receive(_) => None,
            Limit::Accepts(_) => self.accepts_max,
            Limit::Pipes => self.pipes_max,
        };
        own.unwrap_or_else(|| of.default_value())
    }
}

fn id(index: u32) -> SocketId {
    SocketId { index, generation: 0 }
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), port))
}

const HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7));
const SOCKET: SocketId = SocketId { index: 1, generation: 0 };
const ACCEPTED: SocketId = SocketId { index: 101, generation: 0 };
const LISTENER: ListenerId = ListenerId(0);

/// One engine that listens, in order.
fn listening() -> (Sim, NodeId<ProbeEngine>) {
    let now = Instant::now();
    let mut sim = Sim::in_order(now);
    let probe = sim.add(ProbeEngine { start: Some(now), ..ProbeEngine::default() });
    sim.listen(probe, address(80), 2);
    (sim, probe)
}

/// The same, and a scripted peer that is connected to it.
fn accepted() -> (Sim, NodeId<ProbeEngine>, PeerId) {
    let (mut sim, probe) = listening();
    let peer = sim.connect(SocketAddr::from((HOST, 1)), address(80));
    sim.settle();
    assert_eq!(sim[probe].take_log(), ["accept 0 198.51.100.7 "]);
    (sim, probe, peer)
}

fn send(bytes: &[u8]) -> PeerStep {
    PeerStep::Send(bytes.to_vec())
}

fn file(content: &[u8]) -> FileRange {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(content).expect("room");
    FileRange { file: Arc::new(OwnedFd::from(file)), offset: 0, len: content.len() as u64 }
}
