//! Scripted peers: ends of connections that follow a script, byte by byte.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::wire::{PeerId, WireSide};
use crate::CloseKind;

/// Called for a new connection, and when bytes or the end of one have arrived: adds steps.
pub type PeerScript = Box<dyn FnMut(PeerId, &mut ScriptedPeer, Instant)>;

/// True if the received bytes are enough.
pub type ReceivedCheck = Box<dyn Fn(&[u8]) -> bool>;

/// Steps that depend on the received bytes.
pub type NextSteps = Box<dyn FnOnce(&[u8]) -> Vec<PeerStep>>;

/// One end of a connection, and what it does.
#[derive(Debug)]
pub struct ScriptedPeer {
    /// All bytes that have arrived and that its script has not taken.
    pub received: Vec<u8>,
    /// It reads at most so many more bytes.
    pub window: usize,
    /// What it does next.
    pub steps: VecDeque<PeerStep>,
    /// How the other side ended, as far as it has arrived.
    pub end: Option<PeerEnd>,
    /// When the engine closed the connection, since the start, and how; `None`: not yet.
    pub closed: Option<(Duration, CloseKind)>,
    /// When the engine sent its FIN ([`crate::Action::Shutdown`]); `None`: not yet.
    pub shut_down: Option<Duration>,
    /// It has sent its FIN or closed.
    pub has_ended: bool,
    /// The address of the end that connected: its own, or that of an engine's socket.
    pub address: SocketAddr,
    pub(super) place: Option<WireSide>,
    pub(super) script: Option<usize>,
}

/// How the other side of a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerEnd {
    /// With a FIN.
    Fin,
    /// With a reset.
    Reset,
    /// It never accepted.
    Refused,
}

/// One thing that a scripted peer does.
pub enum PeerStep {
    /// Sends bytes, as the network has room for them.
    Send(Vec<u8>),
    /// Waits for a time.
    At(Instant),
    /// Waits for bytes. If the other side ends before they arrive, the peer closes.
    Until(ReceivedCheck),
    /// Continues with steps that depend on the received bytes.
    Then(NextSteps),
    /// Sends a FIN.
    Fin,
    /// Closes both sides.
    Close,
    /// Resets the connection.
    Reset,
    /// Reads no more.
    StopReading,
    /// Does nothing more, even if the other side ends.
    Hold,
}

impl PeerStep {
    /// Waits until the other side ends, then closes.
    pub fn never() -> Self {
        Self::Until(Box::new(|_| false))
    }
}

impl fmt::Debug for PeerStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send(bytes) => write!(f, "Send({})", bytes.len()),
            Self::At(_) => f.write_str("At"),
            Self::Until(_) => f.write_str("Until"),
            Self::Then(_) => f.write_str("Then"),
            Self::Fin => f.write_str("Fin"),
            Self::Close => f.write_str("Close"),
            Self::Reset => f.write_str("Reset"),
            Self::StopReading => f.write_str("StopReading"),
            Self::Hold => f.write_str("Hold"),
        }
    }
}

impl ScriptedPeer {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self {
            received: Vec::new(),
            window: usize::MAX,
            steps: VecDeque::new(),
            end: None,
            closed: None,
            shut_down: None,
            has_ended: false,
            address,
            place: None,
            script: None,
        }
    }

    /// The received bytes as text.
    ///
    /// # Panics
    /// They are not UTF-8.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.received).expect("text")
    }

    /// True as long as it has not closed its end.
    pub fn is_open(&self) -> bool {
        self.place.is_some()
    }

    /// When its next step is due, if it waits for a time.
    pub(super) fn next_step(&self) -> Option<Instant> {
        match self.steps.front() {
            Some(PeerStep::At(due)) if self.is_open() => Some(*due),
            _ => None,
        }
    }
}
