//! The limits of each phase of a connection, and of the peer's rate.
//!
//! Two limits apply while a peer has to send or take bytes. The timeout restarts with every byte:
//! a silent peer times out soon. The rate is checked at the end of each grace period, so that a
//! byte now and then does not keep a connection open. Between two checks both cost an addition.

use std::collections::HashMap;
use std::time::Duration;

use fulmar_proto::Phase;

use crate::timers::{Tick, TickSpan};

/// The timeout of each phase; `None`: no limit.
///
/// `body`, `send` and `tunnel` restart with every byte; the others do not. An application has no
/// timeout, unless its peer has hung up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// Until an outgoing connection is established.
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
    /// [`Phase::Application`], once the peer has ended its side: it may still wait for the
    /// response, or be gone.
    pub abandoned: Option<Duration>,
    /// [`Phase::Linger`].
    pub linger: Option<Duration>,
    /// [`Phase::Tunnel`].
    pub tunnel: Option<Duration>,
    /// The minimum rate in [`Phase::Body`] and [`Phase::Send`], in addition to their timeouts.
    pub rate_min: Option<Rate>,
    /// While a body or a tunnel is received, only received bytes restart the timeout, not those
    /// that the peer takes.
    pub receive_only: bool,
}

/// The minimum rate of a peer that has to send or take bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Bytes on the socket, on average over `grace`.
    pub bytes_per_second: u32,
    /// How long it may be slower; at least one second. Bytes above the rate count in the next
    /// period too, but no longer.
    pub grace: Duration,
}

/// One of the sets of timeouts in a [`crate::Connections`]. Connections without an explicit set
/// use the first one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TimeoutsId(u16);

/// All sets of timeouts of a [`crate::Connections`]. Each connection refers to one of them.
#[derive(Debug)]
pub(crate) struct TimeoutTable {
    known: Vec<Timeouts>,
    ticks: Vec<TimeoutTicks>,
    own: HashMap<u32, TimeoutTicks>, // of one connection each, by its slot
}

impl TimeoutTable {
    pub(crate) fn new(first: Timeouts) -> Self {
        Self { known: vec![first], ticks: vec![first.into()], own: HashMap::new() }
    }

    /// The set with these timeouts: an existing one, or a new one.
    pub(crate) fn add(&mut self, timeouts: Timeouts) -> TimeoutsId {
        let at = self.known.iter().position(|known| *known == timeouts).unwrap_or_else(|| {
            self.known.push(timeouts);
            self.ticks.push(timeouts.into());
            self.known.len() - 1
        });
        assert!(at < usize::from(OWN.0), "no more than 65,535 sets of deadlines");
        TimeoutsId(u16::try_from(at).expect("it is less than another"))
    }

    /// Gives the connection in this slot a set of its own.
    pub(crate) fn own(&mut self, at: u32, timeouts: Timeouts) -> TimeoutsId {
        self.own.insert(at, timeouts.into());
        OWN
    }

    /// The connection in this slot no longer uses this set.
    pub(crate) fn release(&mut self, id: TimeoutsId, at: u32) {
        if id == OWN {
            self.own.remove(&at);
        }
        if self.own.is_empty() && self.own.capacity() > OWN_CAPACITY_KEPT {
            self.own = HashMap::new();
        }
    }

    /// The timeouts of the connection in this slot.
    pub(crate) fn of(&self, id: TimeoutsId, at: u32) -> &TimeoutTicks {
        match id {
            OWN => self.own.get(&at).expect("it has that set as long as it names it"),
            TimeoutsId(shared) => &self.ticks[usize::from(shared)],
        }
    }
}

/// [`Timeouts`] in ticks: computed once, looked up for every request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeoutTicks {
    pub(crate) connect: TickSpan,
    pub(crate) abandoned: TickSpan,
    phases: [TickSpan; PHASES.len()],
    grace: TickSpan,
    bytes_per_second: u32,
    pub(crate) receive_only: bool,
}

impl From<Timeouts> for TimeoutTicks {
    fn from(timeouts: Timeouts) -> Self {
        let span = |timeout: Option<Duration>| timeout.map_or(TickSpan::ENDLESS, TickSpan::from);
        let of = |phase| match phase {
            Phase::Handshake => span(timeouts.handshake),
            Phase::Idle => span(timeouts.idle),
            Phase::Head => span(timeouts.head),
            Phase::Body => span(timeouts.body),
            Phase::Response => span(timeouts.response),
            Phase::Application => TickSpan::ENDLESS,
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
    /// The timeout of a phase.
    pub(crate) fn of(&self, phase: Phase) -> TickSpan {
        self.phases[phase as usize]
    }

    /// The time until the first check of a phase.
    pub(crate) fn until_look(&self, phase: Phase) -> TickSpan {
        match is_rate_limited(phase) {
            true => self.of(phase).min(self.grace),
            false => self.of(phase),
        }
    }
}

/// The bytes that a peer has moved in the current grace period.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateMeter {
    since: Tick, // of the period
    moved: u32,
    left: u32, // received bytes that are still unread
}

impl RateMeter {
    pub(crate) fn new(now: Tick) -> Self {
        Self { since: now, moved: 0, left: 0 }
    }

    /// The number of new bytes in an input of this length.
    pub(crate) fn fresh(&self, arrived: usize) -> u64 {
        (arrived as u64).saturating_sub(self.left.into())
    }

    /// `left` bytes of the input are part of the next one, too.
    pub(crate) fn leave(&mut self, left: usize) {
        self.left = narrow(left as u64);
    }

    pub(crate) fn add(&mut self, bytes: u64) {
        self.moved = self.moved.saturating_add(narrow(bytes));
    }

    /// The phase changes; `entered` is when the old one began. The rate of a transfer counts from
    /// its first byte to its last, without the time of the application.
    pub(crate) fn turn(&mut self, now: Tick, entered: Tick, before: Phase, after: Phase) {
        match (before, after) {
            (Phase::Application, _) if is_rate_limited(after) => {
                self.since = self.since.after(now.since(entered));
            }
            _ if is_transfer(after) && !is_transfer(before) => (self.since, self.moved) = (now, 0),
            _ => {}
        }
    }

    /// The end of the period.
    pub(crate) fn due(&self, ticks: &TimeoutTicks) -> Tick {
        self.since.after(ticks.grace)
    }

    /// Checks a finished period: false if too few bytes have moved in it.
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
    /// The bytes that have to move in this time.
    fn bytes(&self, span: TickSpan) -> u64 {
        span.millis().saturating_mul(self.bytes_per_second.into()) / 1_000
    }
}

fn narrow(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// True if the peer has to send or take bytes, so that the rate applies.
pub(crate) fn is_rate_limited(phase: Phase) -> bool {
    matches!(phase, Phase::Body | Phase::Send)
}

/// True within a transfer, including the time of the application.
fn is_transfer(phase: Phase) -> bool {
    is_rate_limited(phase) || phase == Phase::Application
}

/// Phases with a timeout per byte, not for all bytes together.
pub(crate) fn restarts_with_bytes(phase: Phase) -> bool {
    is_rate_limited(phase) || phase == Phase::Tunnel
}

/// The set belongs to one connection.
const OWN: TimeoutsId = TimeoutsId(u16::MAX);
/// Capacity for such sets that is kept.
const OWN_CAPACITY_KEPT: usize = 256;
/// All phases, in the order of their numbers.
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
/// More frequent checks would not be useful.
const GRACE_MIN: Duration = Duration::from_secs(1);

#[cfg(test)]
impl TimeoutTable {
    /// The number of sets that belong to one connection.
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
        let mut rate = RateMeter::new(at(0));
        rate.add(5_000);
        assert_eq!(rate.due(&ticks), at(20));
        assert!(rate.look(at(20), &ticks), "exactly enough");
        rate.add(4_999);
        assert!(!rate.look(at(40), &ticks), "a byte too little");
        let mut fast = RateMeter::new(at(0));
        fast.add(1_000_000);
        assert!(fast.look(at(20), &ticks));
        assert!(fast.look(at(40), &ticks), "what was too much counts in the next period");
        assert!(!fast.look(at(60), &ticks), "and no longer");
    }

    #[test]
    fn time_of_the_application_does_not_count() {
        let ticks = ticks();
        let mut rate = RateMeter::new(at(0));
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
