//! Decides when connections are opened. Pure: time is an argument, in nanoseconds of the run.
//!
//! Each destination has a window of connects in progress. It begins at one, grows by one with every
//! connect that succeeds, and falls back to one with every connect that fails, with a growing pause
//! before the next: so a server that is down gets probes only. While the run warms up, no more
//! connections wait for a first response than a listen queue holds, or 20 ms must pass: an overflow
//! of the queue costs a second each.

use std::collections::VecDeque;

/// The connections of one thread that are to be opened.
#[derive(Debug)]
pub(crate) struct Opener {
    gates: Vec<ConnectGate>,
    turn: usize, // the destination to try first
    waiting: usize,
    opening: u32,
    opening_max: u32,
    warmup: Option<Warmup>,
    full: bool,
    /// The number of connections given up for lack of descriptors.
    given_up: u32,
}

/// The connects to one destination.
#[derive(Debug, Default)]
struct ConnectGate {
    waiting: VecDeque<u32>,
    opening: u32,
    window: u32,
    retry_at: u64,
    pause: u64,
    failures: u32, // since the last success
}

/// The state until every connection has been opened once.
#[derive(Debug, Default)]
struct Warmup {
    batch: u8,
    unanswered: u32,
    until: u64,
}

/// A connection that may be opened now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectStart {
    pub(crate) number: u32,
    pub(crate) gate: u16,
    pub(crate) batch: u8,
}

impl Opener {
    /// Of `gates` destinations; at most `opening_max` connects at a time.
    pub(crate) fn new(gates: u16, opening_max: u32) -> Self {
        let gate = || ConnectGate { window: 1, pause: PAUSE_MIN, ..ConnectGate::default() };
        Self {
            gates: (0..gates).map(|_| gate()).collect(),
            turn: 0,
            waiting: 0,
            opening: 0,
            opening_max: opening_max.max(1),
            warmup: Some(Warmup::default()),
            full: false,
            given_up: 0,
        }
    }

    /// Requests a connection, for the first time or again.
    pub(crate) fn want(&mut self, now: u64, number: u32, gate: u16) {
        let full = self.full;
        let gate = &mut self.gates[usize::from(gate)];
        gate.waiting.push_back(number);
        self.waiting += 1;
        if full {
            // The descriptor of the closed connection is free only after this turn.
            gate.retry_at = gate.retry_at.max(now + TURN);
        }
    }

    /// The next connection to open, if one may be opened now.
    pub(crate) fn next(&mut self, now: u64) -> Option<ConnectStart> {
        if self.waiting == 0 || self.opening >= self.opening_max || self.is_awaiting_responses(now)
        {
            return None;
        }
        let len = self.gates.len();
        let at = (0..len).map(|i| (self.turn + i) % len).find(|at| {
            let gate = &self.gates[*at];
            !gate.waiting.is_empty() && gate.opening < gate.window && gate.retry_at <= now
        })?;
        self.turn = at + 1;
        let gate = &mut self.gates[at];
        let number = gate.waiting.pop_front()?;
        gate.opening += 1;
        self.opening += 1;
        self.waiting -= 1;
        let batch = self.warmup.as_mut().map_or(0, |warmup| {
            warmup.unanswered += 1;
            warmup.until = now + RESPONSE_WAIT;
            warmup.batch
        });
        if self.waiting == 0 {
            self.warmup = None;
        }
        let gate = u16::try_from(at).expect("made from a u16");
        Some(ConnectStart { number, gate, batch })
    }

    /// True if the listen queues may be full. A batch without responses is waited for 20 ms only.
    fn is_awaiting_responses(&mut self, now: u64) -> bool {
        let max = self.opening_max;
        let Some(warmup) = self.warmup.as_mut().filter(|warmup| warmup.unanswered >= max) else {
            return false;
        };
        if warmup.until > now {
            return true;
        }
        warmup.batch = warmup.batch.wrapping_add(1);
        warmup.unanswered = 0;
        false
    }

    /// When [`Opener::next`] is to be called again at the latest.
    pub(crate) fn deadline(&self) -> Option<u64> {
        if self.waiting == 0 || self.opening >= self.opening_max {
            return None;
        }
        if let Some(warmup) = self.warmup.as_ref().filter(|w| w.unanswered >= self.opening_max) {
            return Some(warmup.until);
        }
        let may = |gate: &&ConnectGate| !gate.waiting.is_empty() && gate.opening < gate.window;
        self.gates.iter().filter(may).map(|gate| gate.retry_at).min()
    }

    /// A connect succeeded.
    pub(crate) fn succeed(&mut self, gate: u16) {
        self.opening -= 1;
        let max = self.opening_max;
        let gate = &mut self.gates[usize::from(gate)];
        gate.opening -= 1;
        gate.window = (gate.window + 1).min(max);
        gate.failures = 0;
    }

    /// A connection received its first response: the next pause is short again. A connect that
    /// succeeds is not enough, as the server may end each connection at once.
    pub(crate) fn recover(&mut self, gate: u16) {
        self.gates[usize::from(gate)].pause = PAUSE_MIN;
    }

    /// A connect to the last address of a destination failed. It is tried again later.
    pub(crate) fn fail(&mut self, now: u64, number: u32, at: u16) {
        let gate = &mut self.gates[usize::from(at)];
        gate.failures = gate.failures.saturating_add(1);
        self.try_next_address(now, number, at);
    }

    /// A connect failed, and the destination has another address.
    pub(crate) fn try_next_address(&mut self, now: u64, number: u32, at: u16) {
        self.opening -= 1;
        self.gates[usize::from(at)].opening -= 1;
        self.rest(now, number, at);
    }

    /// Descriptors ran out. Connections that are not open are given up.
    pub(crate) fn run_out(&mut self, gate: u16) {
        self.opening -= 1;
        self.gates[usize::from(gate)].opening -= 1;
        self.given_up += 1;
        self.full = true;
        self.warmup = None;
        for gate in &mut self.gates {
            self.given_up += u32::try_from(gate.waiting.len()).expect("numbers are u32");
            gate.waiting.clear();
        }
        self.waiting = 0;
    }

    /// Opens connection `number` again after a pause, and others of its destination too.
    pub(crate) fn rest(&mut self, now: u64, number: u32, at: u16) {
        let gate = &mut self.gates[usize::from(at)];
        if gate.retry_at <= now {
            gate.retry_at = now + gate.pause;
            gate.pause = (gate.pause * 2).min(PAUSE_MAX);
        }
        gate.window = 1;
        self.want(now, number, at);
    }

    /// The first response on a connection arrived, or the connection is closed without one.
    pub(crate) fn note_response(&mut self, batch: u8) {
        if let Some(warmup) = self.warmup.as_mut().filter(|warmup| warmup.batch == batch) {
            warmup.unanswered = warmup.unanswered.saturating_sub(1);
        }
    }

    /// Connects in progress.
    pub(crate) fn opening(&self) -> u32 {
        self.opening
    }

    /// True if no connection waits or is being opened.
    pub(crate) fn is_settled(&self) -> bool {
        self.waiting == 0 && self.opening == 0
    }

    /// True if no connect is in progress, and every destination with waiting connections has
    /// failed `times` times in a row.
    pub(crate) fn has_failed(&self, times: u32) -> bool {
        let failed = |gate: &ConnectGate| gate.waiting.is_empty() || gate.failures >= times;
        self.opening == 0 && self.gates.iter().all(failed)
    }

    /// The number of connections given up for lack of descriptors.
    pub(crate) fn given_up(&self) -> u32 {
        self.given_up
    }
}

const MILLISECOND: u64 = 1_000_000;
const PAUSE_MIN: u64 = 10 * MILLISECOND;
const PAUSE_MAX: u64 = 1_000 * MILLISECOND;
const TURN: u64 = MILLISECOND;
const RESPONSE_WAIT: u64 = 20 * MILLISECOND;

#[cfg(test)]
mod tests {
    use super::*;

    fn opener(n: u32, gates: u16, max: u32) -> Opener {
        let mut opener = Opener::new(gates, max);
        for number in 0..n {
            opener.want(0, number, u16::try_from(number % u32::from(gates)).unwrap());
        }
        opener
    }

    #[test]
    fn the_window_grows_with_success() {
        let mut opener = opener(100, 1, 8);
        let mut rounds = Vec::new();
        while opener.waiting > 0 {
            let round: Vec<_> = std::iter::from_fn(|| opener.next(0)).collect();
            rounds.push(round.len());
            for opening in round {
                opener.succeed(opening.gate);
                opener.note_response(opening.batch);
            }
        }
        assert_eq!(&rounds[..5], [1, 2, 4, 8, 8]);
        assert!(opener.is_settled() && opener.deadline().is_none());
    }

    #[test]
    fn a_refusal_is_probed_with_growing_pauses() {
        let mut opener = opener(1_000, 1, 512);
        let (mut now, mut tries) = (0, 0);
        while now < 10 * PAUSE_MAX {
            while let Some(opening) = opener.next(now) {
                tries += 1;
                opener.fail(now, opening.number, opening.gate);
            }
            let next = opener.deadline().unwrap();
            assert!(next > now, "never spins");
            now = next;
        }
        assert!((8..=18).contains(&tries), "{tries}");
        assert!(opener.has_failed(8) && !opener.has_failed(19));
    }

    /// GOAWAY at the end of the handshake had each of them opened again after 10 ms.
    #[test]
    fn connections_without_a_response_are_opened_with_growing_pauses() {
        let mut opener = opener(4, 1, 512);
        let (mut now, mut tries) = (0, 0);
        while now < 10 * PAUSE_MAX {
            while let Some(opening) = opener.next(now) {
                tries += 1;
                opener.succeed(opening.gate);
                opener.note_response(opening.batch);
                opener.rest(now, opening.number, opening.gate);
            }
            now = opener.deadline().unwrap();
        }
        assert!((8..=40).contains(&tries), "{tries}");
        opener.recover(0);
        let opening = opener.next(now).unwrap();
        opener.succeed(0);
        opener.rest(now, opening.number, 0);
        assert_eq!(opener.deadline(), Some(now + PAUSE_MIN));
    }

    #[test]
    fn silent_connections_are_opened_in_batches() {
        let mut opener = opener(100, 1, 10);
        let (mut now, mut opened) = (0, 0);
        while opened < 100 {
            while let Some(opening) = opener.next(now) {
                opener.succeed(opening.gate);
                opened += 1;
            }
            assert!(opened <= 10 * (now / RESPONSE_WAIT + 1));
            if opened < 100 {
                now = opener.deadline().unwrap();
            }
        }
        assert_eq!(now, 9 * RESPONSE_WAIT);
    }

    #[test]
    fn one_dead_destination_does_not_stop_the_others() {
        let mut opener = opener(20, 2, 512);
        let mut open = 0;
        for now in 0..50 {
            while let Some(opening) = opener.next(now) {
                match opening.gate {
                    0 => opener.fail(now, opening.number, 0),
                    _ => {
                        opener.succeed(1);
                        open += 1;
                    }
                }
            }
        }
        assert_eq!((open, opener.waiting), (10, 10));
    }

    #[test]
    fn without_descriptors_only_what_had_one_is_opened_again() {
        let mut opener = opener(100, 1, 512);
        let first = opener.next(0).unwrap();
        opener.succeed(first.gate);
        let (second, third) = (opener.next(0).unwrap(), opener.next(0).unwrap());
        opener.run_out(second.gate);
        opener.succeed(third.gate);
        assert_eq!((opener.given_up(), opener.next(0), opener.deadline()), (98, None, None));
        opener.want(5, first.number, first.gate);
        assert_eq!(opener.next(5), None);
        assert_eq!(opener.deadline(), Some(5 + TURN));
        assert_eq!(opener.next(5 + TURN).unwrap().number, first.number);
    }
}
