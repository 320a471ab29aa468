//! Bytes that go through pipes to sockets are sent in rounds: one packet of each socket per round.
//!
//! A kernel that spaces the packets of a connection (a pacing congestion control, as BBR) sends one
//! at once, and sets a timer for each following one; a timer costs more than the packet. While
//! other sockets send, that time passes without a timer.

use std::time::Instant;

use fulmar_engine::{Engine, SocketId};
use fulmar_proto::{Abilities, Step, Transmit};

use crate::reactor::Reactor;
use crate::receive::PACKET_SIZE;
use crate::selector::Selector;
use crate::steps::{SendOutcome, send_steps};

/// A transmit with a pipe in it.
#[derive(Debug)]
pub(crate) struct Passing {
    socket: SocketId,
    /// The number of its bytes that were sent; reported to the engine at the end.
    sent: u64,
    /// The result, once it has ended.
    ended: Option<SendOutcome>,
}

impl Passing {
    pub(crate) fn new(socket: SocketId) -> Self {
        Self { socket, sent: 0, ended: None }
    }

    /// The result of this turn's part; the whole transmit has `all` bytes.
    fn note(&mut self, turn: SendOutcome, all: u64) {
        let before = self.sent;
        self.sent += turn.sent;
        if turn.sent == 0 || !turn.is_all() || self.sent >= all {
            self.ended =
                Some(SendOutcome { wanted: before + turn.wanted, sent: self.sent, ..turn });
        }
    }
}

impl<E: Engine, S: Selector> Reactor<E, S> {
    /// Results are reported to the engine once all have ended, so no transmit changes meanwhile.
    pub(crate) fn send_passing(&mut self, now: Instant) {
        let piece = if self.pipe_sends.len() > 1 { PIECE_SIZE } else { u64::MAX };
        while self.pipe_sends.iter().any(|passing| passing.ended.is_none()) {
            for at in 0..self.pipe_sends.len() {
                self.pass(at, piece);
            }
        }
        let mut ended = std::mem::take(&mut self.pipe_sends);
        for Passing { socket, ended, .. } in ended.drain(..) {
            self.sent(now, socket, ended.expect("all transmits have ended"));
        }
        self.pipe_sends = ended;
    }

    fn pass(&mut self, at: usize, piece: u64) {
        let Self { pipe_sends, sockets, engine, file_memory, throttle, abilities, .. } = self;
        let passing = &mut pipe_sends[at];
        if passing.ended.is_some() {
            return;
        }
        match engine.poll_transmit(passing.socket) {
            Some(transmit) => {
                let steps = turn(transmit, passing.sent, piece, *abilities);
                let fd = sockets.fd(passing.socket);
                passing
                    .note(send_steps(fd, steps, u64::MAX, file_memory, throttle), transmit.len());
            }
            // Cancelled, because of a transmit that was sent before.
            None => passing.ended = Some(SendOutcome::default()),
        }
    }
}

/// The steps of one turn, after `sent` bytes: up to a piece of a pipe, of which the rest follows.
fn turn(
    transmit: Transmit<'_>,
    mut sent: u64,
    piece: u64,
    on: Abilities,
) -> impl Iterator<Item = Step<'_>> {
    let mut is_over = false;
    transmit.steps(on).filter_map(move |step| {
        let gone = sent.min(step.len());
        sent -= gone;
        match step {
            step if is_over || step.len() == gone => None,
            Step::Pipe { pipe, len, more } => {
                is_over = len - gone > piece;
                let len = piece.min(len - gone);
                Some(Step::Pipe { pipe, len, more: more && !is_over }) // a packet of its own
            }
            step => Some(step), // what is in no pipe leaves as a whole
        }
    })
}

/// As much as surely goes in one packet.
const PIECE_SIZE: u64 = PACKET_SIZE as u64;

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::ErrorKind;
    use std::sync::Arc;

    use fulmar_proto::{Pipe, Piped, Segment};

    use super::*;

    /// Nothing is read from it.
    fn pipe(len: u64) -> Segment {
        let end = || File::open("/dev/null").expect("it is there").into();
        Segment::Pipe(Piped { pipe: Arc::new(Pipe::new(end(), end())), len })
    }

    /// `g5+` is a gather of 5 bytes with more to follow, `p5` as many from a pipe.
    fn show(step: &Step<'_>) -> String {
        match step {
            Step::Pipe { len, more, .. } => format!("p{len}{}", if *more { "+" } else { "" }),
            Step::Gather { run, more } => {
                format!("g{}{}", run.len(), if *more { "+" } else { "" })
            }
            Step::File { .. } | Step::Read { .. } | Step::Weave { .. } => {
                unreachable!("there are no files")
            }
        }
    }

    #[test]
    fn every_turn_ends_behind_a_piece() {
        let bytes = || Segment::from(&b"end"[..]);
        for (inline, segments, expected) in [
            (&b""[..], vec![pipe(10)], &["p10"][..]),
            (b"", vec![pipe(25)], &["p10", "p10", "p5"]),
            (b"head", vec![pipe(11), bytes()], &["g4+ p10", "p1+ g3"]),
            (b"head", vec![pipe(10), pipe(11)], &["g4+ p10+ p10", "p1"]),
            (b"head", vec![bytes()], &["g7"]),
        ] {
            let transmit = Transmit::new(inline, &segments);
            let (mut sent, mut turns) = (0, Vec::new());
            while sent < transmit.len() {
                let steps: Vec<_> = turn(transmit, sent, 10, Abilities::LINUX).collect();
                sent += steps.iter().map(Step::len).sum::<u64>();
                turns.push(steps.iter().map(show).collect::<Vec<_>>().join(" "));
            }
            assert_eq!(turns, expected);
            assert_eq!(sent, transmit.len());
        }
    }

    #[test]
    fn what_has_left_before_is_told_with_the_last_turn() {
        let passing =
            |sent| Passing { socket: SocketId { index: 0, generation: 0 }, sent, ended: None };
        let turn = |sent, failed: bool| SendOutcome {
            wanted: 10,
            sent,
            error: failed.then(|| ErrorKind::Other.into()),
        };
        for (before, sent, failed, ended) in [
            (0, 10, false, None), // 15 are left
            (0, 0, false, Some((10, 0))),
            (10, 0, false, Some((20, 10))),
            (10, 7, false, Some((20, 17))),
            (10, 0, true, Some((20, 10))),
            (10, 10, true, Some((20, 20))),
            (15, 10, false, Some((25, 25))),
        ] {
            let mut passing = passing(before);
            passing.note(turn(sent, failed), 25);
            let told = passing.ended.as_ref();
            assert_eq!(told.map(|told| (told.wanted, told.sent)), ended, "{passing:?}");
            assert_eq!(told.is_some_and(|told| told.error.is_some()), failed, "{passing:?}");
        }
    }
}
