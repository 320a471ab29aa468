//! An engine that only asks for addresses, and writes down what it is told.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use fulmar_engine::{Action, Engine, ListenerId, LookupId, ResolveError, Resolved, SocketId};
use fulmar_proto::{Input, Transmit};

/// What a lookup came to.
pub type Answer = Result<Vec<IpAddr>, ResolveError>;

/// Asks for addresses.
#[derive(Debug, Default)]
pub struct Asker {
    actions: VecDeque<Action>,
    names: BTreeMap<u32, String>,
    next: u32,
    /// Every answer, in order.
    pub answers: Vec<(LookupId, Answer)>,
    /// To be given up when the next answer comes.
    pub doomed: Vec<LookupId>,
}

impl Asker {
    /// Asks; the answer comes in a turn.
    pub fn ask(&mut self, name: &str) -> LookupId {
        let lookup = LookupId(self.next);
        self.next += 1;
        self.names.insert(lookup.0, name.to_owned());
        self.actions.push_back(Action::Resolve { lookup });
        lookup
    }

    /// Asks no more.
    pub fn give_up(&mut self, lookup: LookupId) {
        self.names.remove(&lookup.0);
        self.actions.push_back(Action::Abandon { lookup });
    }

    /// The answer to one question.
    ///
    /// # Panics
    /// There are two.
    pub fn answer(&self, lookup: LookupId) -> Option<&Answer> {
        let mut all = self.answers.iter().filter(|(of, _)| *of == lookup);
        let answer = all.next().map(|(_, answer)| answer);
        assert!(all.next().is_none(), "one question, two answers");
        answer
    }
}

impl Engine for Asker {
    fn handle_resolved(&mut self, _: Instant, lookup: LookupId, addresses: Resolved<'_>) {
        assert!(self.names.remove(&lookup.0).is_some(), "an answer that nobody waits for");
        self.answers.push((lookup, addresses.map(<[IpAddr]>::to_vec)));
        for lookup in std::mem::take(&mut self.doomed) {
            self.give_up(lookup);
        }
    }

    fn poll_lookup(&mut self, lookup: LookupId) -> Option<&str> {
        self.names.get(&lookup.0).map(String::as_str)
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn handle_accepted(&mut self, _: Instant, _: ListenerId, _: SocketAddr) -> Option<SocketId> {
        None
    }

    fn handle_timeout(&mut self, _: Instant) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn handle_connected(&mut self, _: Instant, _: SocketId) {}

    fn handle_input(&mut self, _: Instant, _: SocketId, _: &mut Input<'_>) {}

    fn handle_sent(&mut self, _: Instant, _: SocketId, _: u64) {}

    fn handle_failed(&mut self, _: Instant, _: SocketId, _: io::Error) {}

    fn poll_transmit(&mut self, _: SocketId) -> Option<Transmit<'_>> {
        None
    }
}
