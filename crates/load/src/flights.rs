//! The outstanding requests of one HTTP/1 connection, in as little memory as possible.

/// An outstanding request, with times in nanoseconds of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flight {
    /// When it was to be sent; in a closed loop, when it was sent.
    pub(crate) planned: u64,
    /// When it was sent.
    pub(crate) sent: u64,
}

/// The outstanding requests of one HTTP/1 connection, oldest first. Responses arrive in that order.
#[derive(Debug)]
pub(crate) struct Flights {
    store: FlightStore,
    len: u8,
    head: u8,
    unsent: u8,  // the number of youngest ones queued in this turn
    status: u16, // of the current response
}

/// One needs no allocation.
#[derive(Debug)]
enum FlightStore {
    One(Flight),
    Ring(Box<[Flight]>),
}

impl Flights {
    /// Room for `depth`: 1 to 64.
    pub(crate) fn new(depth: u8) -> Self {
        let store = match depth {
            1 => FlightStore::One(Flight::default()),
            n => FlightStore::Ring(vec![Flight::default(); n.into()].into()),
        };
        Self { store, len: 0, head: 0, unsent: 0, status: 0 }
    }

    pub(crate) fn len(&self) -> u8 {
        self.len
    }

    /// The head of a response has arrived.
    pub(crate) fn note_status(&mut self, status: u16) {
        self.status = status;
    }

    /// The response to the oldest is complete: its request and status.
    pub(crate) fn complete(&mut self) -> Option<(Flight, u16)> {
        Some((self.pop()?, self.status))
    }

    /// A request was queued; true if it is the first of this turn.
    pub(crate) fn push(&mut self, flight: Flight) -> bool {
        let at = self.len;
        *self.at(at) = flight;
        self.len += 1;
        self.unsent += 1;
        self.unsent == 1
    }

    /// The oldest has its response.
    pub(crate) fn pop(&mut self) -> Option<Flight> {
        self.len = self.len.checked_sub(1)?;
        let flight = *self.at(0);
        self.head = (self.head + 1) % self.depth();
        self.unsent = self.unsent.min(self.len);
        Some(flight)
    }

    /// When the oldest was sent.
    pub(crate) fn oldest(&mut self) -> Option<u64> {
        (self.len > 0).then(|| self.at(0).sent)
    }

    /// The requests queued in this turn are sent now.
    pub(crate) fn stamp(&mut self, now: u64, mut left: impl FnMut(&mut Flight)) {
        for at in self.len - self.unsent..self.len {
            let flight = self.at(at);
            flight.sent = now;
            left(flight);
        }
        self.unsent = 0;
    }

    fn depth(&self) -> u8 {
        match &self.store {
            FlightStore::One(_) => 1,
            FlightStore::Ring(ring) => u8::try_from(ring.len()).expect("made from a u8"),
        }
    }

    fn at(&mut self, offset: u8) -> &mut Flight {
        let head = usize::from(self.head);
        match &mut self.store {
            FlightStore::One(flight) => flight,
            FlightStore::Ring(ring) => {
                let at = (head + usize::from(offset)) % ring.len();
                &mut ring[at]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_meet_their_requests_and_only_new_ones_are_stamped() {
        for depth in [1, 2, 3, 64] {
            let mut flights = Flights::new(depth);
            let (mut planned, mut answered) = (0, 0);
            for turn in 0..200 {
                while flights.len < depth {
                    let first = flights.push(Flight { planned, sent: 0 });
                    assert_eq!(first, planned == answered || turn > 0 && flights.unsent == 1);
                    planned += 1;
                }
                let now = 1_000 + turn;
                let mut left = 0;
                flights.stamp(now, |_| left += 1);
                assert!(left > 0);
                for _ in 0..=turn % u64::from(depth) {
                    let flight = flights.pop().unwrap();
                    assert_eq!(flight.planned, answered);
                    assert!(flight.sent >= 1_000 && flight.sent <= now);
                    answered += 1;
                }
            }
            while flights.pop().is_some() {}
            assert_eq!((flights.len, flights.oldest()), (0, None));
        }
    }
}
