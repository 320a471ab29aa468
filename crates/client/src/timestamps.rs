//! When the parts of a transfer took place, and how long each was.

use std::time::{Duration, Instant};

use crate::seat::Setup;

/// How long each part of a transfer took. Parts that did not take place took no time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// From the start until a connection could be had, name, connect and handshake apart.
    pub queue: Duration,
    /// Resolving the name.
    pub name: Duration,
    /// Connecting.
    pub connect: Duration,
    /// TLS, and a proxy's tunnel.
    pub handshake: Duration,
    /// From handing over the request to the first byte of the answer.
    pub first_byte: Duration,
    /// From start to end.
    pub total: Duration,
}

/// The moments of a transfer. Differences are taken when somebody asks for them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timestamps {
    pub(crate) started: Instant,
    /// The request in hand, which may not be the first, went into the queue.
    pub(crate) queued: Instant,
    /// It was handed over to a connection.
    pub(crate) assigned: Option<Instant>,
    /// Its answer began.
    pub(crate) first_byte: Option<Instant>,
    /// What that connection had taken to stand, if the request was the first on it.
    pub(crate) setup: Setup,
}

impl Timestamps {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            started: now,
            queued: now,
            assigned: None,
            first_byte: None,
            setup: Setup::default(),
        }
    }

    /// Another request goes into the queue.
    pub(crate) fn again(&mut self, now: Instant) {
        *self = Self { started: self.started, ..Self::new(now) };
    }

    pub(crate) fn timings(&self, ended: Instant) -> Timings {
        let micros = |n: u32| Duration::from_micros(n.into());
        let (name, connect) = (micros(self.setup.name), micros(self.setup.connect));
        let handshake = micros(self.setup.handshake);
        let waited = self.assigned.unwrap_or(ended) - self.queued;
        let first_byte = self.assigned.zip(self.first_byte).map(|(from, to)| to - from);
        Timings {
            queue: waited.saturating_sub(name + connect + handshake),
            name,
            connect,
            handshake,
            first_byte: first_byte.unwrap_or_default(),
            total: ended - self.started,
        }
    }
}
