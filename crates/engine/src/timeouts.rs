//! How long a connection may stay as it is, and how slow its peer may be.
//!
//! Two deadlines hold beside each other while a peer must send or take bytes. One begins again
//! with every byte: a peer that is silent ends soon. The other asks for a rate, looked at when a
//! grace period is over, so that nobody lives for ever on a byte now and then. Neither costs
//! anything between two wake-ups but the addition of what has moved.

use std::collections::HashMap;
use std::time::Duration;

use fulmar_proto::Phase;

use crate::timers::{Span, Tick};

/// How long each phase may last; `None`: for ever.
///
/// `body`, `send` and `tunnel` begin again with every byte; the others do not. An application may take
/// as long as it likes, unless its peer has hung up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// Until a connection that we asked for stands.
    pub connect: Option<Duration>,
    /// [`Phase::Handshake`], of all layers together.
    pub handshake: Option<Duration>,
    /// [`Phase::Idle`].
    pub idle: Option<Duration>,
    /// [`Phase::Head`].
    pub head: Option<Duration>,
    /// [`Phase::Body`].
    pub body: Option<Duration>,
    /// [`Phase::Response`].
    pub response: Option<Duration>,
    /// [`Phase::Send`].
    pub send: Option<Duration>,
    /// [`Phase::Application`], once the peer has ended its side: it may still be waiting for the
    /// answer, or be gone.
    pub abandoned: Option<Duration>,
    /// [`Phase::Linger`].
    pub linger: Option<Duration>,
    /// [`Phase::Tunnel`].
    pub tunnel: Option<Duration>,
    /// [`Phase::Body`] and [`Phase::Send`], beside their deadlines.
    pub rate_min: Option<Rate>,
    /// While it is the peer's turn to send, in a body or a tunnel, what it takes does not count: who
    /// says nothing is late.
    pub receive_only: bool,
}

/// The least that a peer has to send or take, as long as it is its turn to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Bytes on the socket, on average over `grace`.
    pub bytes_per_second: u32,
    /// How long it may be slower; a second at least. What it was faster in one such period counts
    /// in the next one, but no longer.
    pub grace: Duration,
}

/// One of the sets of deadlines that connections of one kind may have; the first one is
/// everybody's who was not given another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TimeoutsId(u16);

/// All sets of deadlines that connections of one kind may have: each connection names one of them.
#[derive(Debug)]
pub(crate) struct TimeoutTable {
    known: Vec<Timeouts>,
    ticks: Vec<TimeoutTicks>,
    own: HashMap<u32, TimeoutTicks>, // of one connection each, by its place
}

impl TimeoutTable {
    pub(crate) fn new(first: Timeouts) -> Self {
        Self { known: vec![first], ticks: vec![first.into()], own: HashMap::new() }
    }

    /// The set with these deadlines: the one that is there, or a new one.
    pub(crate) fn add(&mut self, timeouts: Timeouts) -> TimeoutsId {
        let at = self.known.iter().position(|known| *known == timeouts).unwrap_or_else(|| {
            self.known.push(timeouts);
            self.ticks.push(timeouts.into());
            self.known.len() - 1
        });
        assert!(at < usize::from(OWN.0), "no more than 65,535 sets of deadlines");
        TimeoutsId(u16::try_from(at).expect("it is less than another"))
    }

    /// The connection at this place has a set of its own from now on, with these deadlines.
    pub(crate) fn own(&mut self, at: u32, timeouts: Timeouts) -> TimeoutsId {
        self.own.insert(at, timeouts.into());
        OWN
    }

    /// The connection at this place has this set no more.
    pub(crate) fn release(&mut self, id: TimeoutsId, at: u32) {
        if id == OWN {
            self.own.remove(&at);
        }
        if self.own.is_empty() && self.own.capacity() > OWN_CAPACITY_KEPT {
            self.own = HashMap::new();
        }
    }

    /// What a connection at this place is held to.
    pub(crate) fn of(&self, id: TimeoutsId, at: u32) -> &TimeoutTicks {
        match id {
            OWN => self.own.get(&at).expect("it has that set as long as it names it"),
            TimeoutsId(shared) => &self.ticks[usize::from(shared)],
        }
    }
}

/// The same in ticks: reckoned once, looked up for every request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeoutTicks {
    pub(crate) connect: Span,
    pub(crate) abandoned: Span,
    phases: [Span; PHASES.len()],
    grace: Span,
    bytes_per_second: u32,
    pub(crate) receive_only: bool,
}

impl From<Timeouts> for TimeoutTicks {
    fn from(timeouts: Timeouts) -> Self {
        let span = |timeout: Option<Duration>| timeout.map_or(Span::ENDLESS, Span::from);
        let of = |phase| match phase {
            Phase::Handshake => span(timeouts.handshake),
            Phase::Idle => span(timeouts.idle),
            Phase::Head => span(timeouts.head),
            Phase::Body => span(timeouts.body),
            Phase::Response => span(timeouts.response),
            Phase::Application => Span::ENDLESS,
            Phase::Send => span(timeouts.send),
            Phase::Linger => span(timeouts.linger),
            Phase::Tunnel => span(timeouts.tunnel),
        };
        let grace = timeouts.rate_min.map(|rate| rate.grace.max(GRACE_MIN));
        Self {
            connect: span(timeouts.connect),
            abandoned: span(timeouts.abandoned),
            phases: PHASES.map(of),
            grace: span(grace),
            bytes_per_second: timeouts.rate_min.map_or(0, |rate| rate.bytes_per_second),
            receive_only: timeouts.receive_only,
        }
    }
}

impl TimeoutTicks {
    /// How long a phase may last, or be without a byte.
    pub(crate) fn of(&self, phase: Phase) -> Span {
        self.phases[phase as usize]
    }

    /// How long it may last before somebody looks.
    pub(crate) fn until_look(&self, phase: Phase) -> Span {
        match is_rate_limited(phase) {
            true => self.of(phase).min(self.grace),
            false => self.of(phase),
        }
    }
}

/// What a peer has moved of late.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateLimit {
    since: Tick, // of the period
    moved: u32,
    left: u32, // bytes that have arrived, and were left unread
}

impl RateLimit {
    pub(crate) fn new(now: Tick) -> Self {
        Self { since: now, moved: 0, left: 0 }
    }

    /// How many bytes of an input so long are new.
    pub(crate) fn fresh(&self, arrived: usize) -> u64 {
        narrow(arrived as u64).saturating_sub(self.left).into()
    }

    /// So many bytes of it come again with the next one.
    pub(crate) fn leave(&mut self, left: usize) {
        self.left = narrow(left as u64);
    }

    pub(crate) fn add(&mut self, bytes: u64) {
        self.moved = self.moved.saturating_add(narrow(bytes));
    }

    /// A connection goes from one phase, in which it has been since `entered`, to another. A transfer is
    /// reckoned from its first byte to its last, without the application's time.
    pub(crate) fn turn(&mut self, now: Tick, entered: Tick, before: Phase, after: Phase) {
        match (before, after) {
            (Phase::Application, _) if is_rate_limited(after) => {
                self.since = self.since.after(now.since(entered));
            }
            _ if is_transfer(after) && !is_transfer(before) => (self.since, self.moved) = (now, 0),
            _ => {}
        }
    }

    /// When the period is over.
    pub(crate) fn due(&self, ticks: &TimeoutTicks) -> Tick {
        self.since.after(ticks.grace)
    }

    /// A period is over: false if too little has moved in it.
    pub(crate) fn look(&mut self, now: Tick, ticks: &TimeoutTicks) -> bool {
        let owed = ticks.bytes(now.since(self.since));
        if u64::from(self.moved) < owed {
            return false;
        }
        let rest = (u64::from(self.moved) - owed).min(ticks.bytes(ticks.grace));
        (self.since, self.moved) = (now, narrow(rest));
        true
    }
}

impl TimeoutTicks {
    /// What has to move in so long a time.
    fn bytes(&self, span: Span) -> u64 {
        span.millis().saturating_mul(self.bytes_per_second.into()) / 1_000
    }
}

fn narrow(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// True if the peer must send or take bytes now, and a rate is asked of it.
pub(crate) fn is_rate_limited(phase: Phase) -> bool {
    matches!(phase, Phase::Body | Phase::Send)
}

/// True in the midst of an exchange, whoever's turn it is.
fn is_transfer(phase: Phase) -> bool {
    is_rate_limited(phase) || phase == Phase::Application
}

/// Phases in which the peer has until the deadline for every byte, not for all of them.
pub(crate) fn restarts_with_bytes(phase: Phase) -> bool {
    is_rate_limited(phase) || phase == Phase::Tunnel
}

/// The set belongs to one connection.
const OWN: TimeoutsId = TimeoutsId(u16::MAX);
/// Room for such sets that is kept.
const OWN_CAPACITY_KEPT: usize = 256;
/// In the order of their numbers.
const PHASES: [Phase; 9] = [
    Phase::Handshake,
    Phase::Idle,
    Phase::Head,
    Phase::Body,
    Phase::Response,
    Phase::Application,
    Phase::Send,
    Phase::Linger,
    Phase::Tunnel,
];
/// Looking more often would be work for nothing.
const GRACE_MIN: Duration = Duration::from_secs(1);

#[cfg(test)]
impl TimeoutTable {
    /// How many sets belong to single connections.
    pub(crate) fn own_len(&self) -> usize {
        self.own.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks() -> TimeoutTicks {
        let rate_min = Some(Rate { bytes_per_second: 250, grace: Duration::from_secs(20) });
        Timeouts { rate_min, ..Timeouts::default() }.into()
    }

    fn at(seconds: u64) -> Tick {
        Tick::START.after(Duration::from_secs(seconds).into())
    }

    #[test]
    fn a_rate_is_an_average_over_one_period_and_the_rest_of_the_last() {
        let ticks = ticks();
        let mut rate = RateLimit::new(at(0));
        rate.add(5_000);
        assert_eq!(rate.due(&ticks), at(20));
        assert!(rate.look(at(20), &ticks), "exactly enough");
        rate.add(4_999);
        assert!(!rate.look(at(40), &ticks), "a byte too little");
        let mut fast = RateLimit::new(at(0));
        fast.add(1_000_000);
        assert!(fast.look(at(20), &ticks));
        assert!(fast.look(at(40), &ticks), "what was too much counts in the next period");
        assert!(!fast.look(at(60), &ticks), "and no longer");
    }

    #[test]
    fn the_applications_time_is_not_the_peers() {
        let ticks = ticks();
        let mut rate = RateLimit::new(at(0));
        rate.turn(at(0), at(0), Phase::Head, Phase::Body);
        rate.add(1_000);
        rate.turn(at(4), at(0), Phase::Body, Phase::Application);
        rate.turn(at(1_004), at(4), Phase::Application, Phase::Body);
        assert_eq!(rate.due(&ticks), at(1_020), "four seconds of twenty are over");
        assert!(!rate.look(at(1_020), &ticks), "and what moved before still counts alone");
        rate.turn(at(2_000), at(1_004), Phase::Idle, Phase::Application);
        assert_eq!(rate.due(&ticks), at(2_020), "another exchange");
    }
}
