//! The client's data of a connection.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use crate::transfer::TransferId;

/// The client's data of a connection. An idle connection costs as much as this.
#[derive(Debug)]
pub(crate) struct ConnectionData {
    /// The position of its origin.
    pub(crate) origin: u32,
    /// How it was opened; taken by its first exchange.
    pub(crate) opening: Option<Box<Opening>>,
    /// The connection and every layer are established.
    pub(crate) established: bool,
    /// It is on the pool's list of connections that are pipelined on.
    pub(crate) shared: bool,
    /// The number of exchanges begun on it.
    pub(crate) uses: u32,
    pub(crate) peer: Option<IpAddr>,
    /// Bytes of the current exchanges have been sent.
    pub(crate) sent: bool,
    /// Bytes have arrived above all layers since the next response became due.
    pub(crate) response_begun: bool,
    /// Discarded bytes of responses.
    pub(crate) drained: u32,
    pub(crate) owners: Owners,
}

impl ConnectionData {
    pub(crate) fn new(origin: u32, attempt: u32, peer: Option<IpAddr>) -> Self {
        Self {
            origin,
            opening: Some(Box::new(Opening { attempt: Some(attempt), setup: Setup::default() })),
            established: false,
            shared: false,
            uses: 0,
            peer,
            sent: false,
            response_begun: false,
            drained: 0,
            owners: Owners::default(),
        }
    }

    /// The attempt that it belongs to, until it is connected.
    pub(crate) fn attempt(&self) -> Option<u32> {
        self.opening.as_ref()?.attempt
    }

    /// Resets the state for an exchange that is the only one.
    pub(crate) fn begin(&mut self) {
        self.sent = false;
        self.response_begun = false;
        self.drained = 0;
    }

    /// The position of its origin in the pool.
    pub(crate) fn origin(&self) -> usize {
        self.origin as usize
    }
}

/// How a connection is opened.
#[derive(Debug)]
pub(crate) struct Opening {
    /// The attempt that it belongs to, until it is connected.
    pub(crate) attempt: Option<u32>,
    pub(crate) setup: Setup,
}

/// The durations of a connection's setup, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Setup {
    pub(crate) name: u32,
    pub(crate) connect: u32,
    pub(crate) handshake: u32,
}

/// The transfers that wait for responses of a connection, in order. One needs no allocation.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    first: Option<TransferId>,
    #[expect(
        clippy::box_collection,
        reason = "few connections are pipelined on: a word, not four"
    )]
    rest: Option<Box<VecDeque<TransferId>>>,
}

impl Owners {
    pub(crate) fn push(&mut self, id: TransferId) {
        match self.first {
            None => self.first = Some(id),
            Some(_) => self.rest.get_or_insert_default().push_back(id),
        }
    }

    /// The transfer of the current or next response.
    pub(crate) fn first(&self) -> Option<TransferId> {
        self.first
    }

    /// The transfer of the last request.
    pub(crate) fn last(&self) -> Option<TransferId> {
        self.rest.as_ref().and_then(|rest| rest.back().copied()).or(self.first)
    }

    pub(crate) fn pop(&mut self) -> Option<TransferId> {
        let next = self.rest.as_mut().and_then(|rest| rest.pop_front());
        std::mem::replace(&mut self.first, next)
    }

    /// All of them, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = TransferId> {
        self.first.into_iter().chain(self.rest.iter().flat_map(|rest| rest.iter().copied()))
    }

    /// True if this transfer waits for a response.
    pub(crate) fn contains(&self, id: TransferId) -> bool {
        self.iter().any(|owner| owner == id)
    }

    /// True if no transfer waits for a response.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// True if exactly one does.
    pub(crate) fn is_single(&self) -> bool {
        self.first.is_some() && self.rest.as_ref().is_none_or(|rest| rest.is_empty())
    }
}

/// A duration in microseconds; more than an hour counts as an hour.
pub(crate) fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use fulmar_engine::SocketId;

    use super::*;

    /// Compares with a simple queue.
    #[test]
    fn owners_are_a_queue() {
        let mut random = fastrand::Rng::with_seed(5);
        let (mut owners, mut model) = (Owners::default(), VecDeque::new());
        for n in 0..5_000 {
            if random.bool() && model.len() < 6 {
                let id = TransferId(SocketId { index: n, generation: 0 });
                owners.push(id);
                model.push_back(id);
            } else {
                assert_eq!(owners.pop(), model.pop_front());
            }
            assert_eq!(owners.first(), model.front().copied());
            assert_eq!(owners.last(), model.back().copied());
            assert_eq!(
                (owners.is_empty(), owners.is_single()),
                (model.is_empty(), model.len() == 1)
            );
            assert!(owners.iter().eq(model.iter().copied()));
            assert!(model.iter().all(|id| owners.contains(*id)));
            assert!(!owners.contains(TransferId(SocketId { index: n + 1, generation: 0 })));
        }
    }
}
