//! An engine that only resolves names, and records the results.

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Instant;

use fulmar_engine::{Action, DriverEvent, Engine, LookupId, ResolveError, SocketId};
use fulmar_proto::Transmit;

/// What a lookup came to.
pub type LookupOutcome = Result<Vec<IpAddr>, ResolveError>;

/// Resolves names.
#[derive(Debug, Default)]
pub struct LookupEngine {
    actions: VecDeque<Action>,
    pending: BTreeSet<u32>,
    next: u32,
    /// Every answer, in order.
    pub answers: Vec<(LookupId, LookupOutcome)>,
    /// Cancelled when the next result arrives.
    pub doomed: Vec<LookupId>,
}

impl LookupEngine {
    /// Starts a lookup; the result arrives in a turn.
    pub fn lookup(&mut self, name: &str) -> LookupId {
        let lookup = LookupId(self.next);
        self.next += 1;
        self.pending.insert(lookup.0);
        self.actions.push_back(Action::Resolve { lookup, name: name.into() });
        lookup
    }

    /// Cancels a lookup.
    pub fn give_up(&mut self, lookup: LookupId) {
        self.pending.remove(&lookup.0);
        self.actions.push_back(Action::Abandon { lookup });
    }

    /// The answer to one question.
    ///
    /// # Panics
    /// There are two.
    pub fn answer(&self, lookup: LookupId) -> Option<&LookupOutcome> {
        let mut all = self.answers.iter().filter(|(of, _)| *of == lookup);
        let answer = all.next().map(|(_, answer)| answer);
        assert!(all.next().is_none(), "one question, two answers");
        answer
    }
}

impl Engine for LookupEngine {
    fn handle(&mut self, _: Instant, event: DriverEvent<'_>) {
        let DriverEvent::Resolved(lookup, addresses) = event else { return };
        assert!(self.pending.remove(&lookup.0), "a result that was not requested");
        self.answers.push((lookup, addresses.map(<[IpAddr]>::to_vec)));
        for lookup in std::mem::take(&mut self.doomed) {
            self.give_up(lookup);
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn poll_transmit(&mut self, _: SocketId) -> Option<Transmit<'_>> {
        None
    }
}
