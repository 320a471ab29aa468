//! The times of a transfer's phases.

use std::time::{Duration, Instant};

/// The duration of each phase of a transfer; zero for phases that did not take place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// From the start until a connection is available, without name, connect and handshake.
    pub queue: Duration,
    /// Name resolution.
    pub name: Duration,
    /// Connecting.
    pub connect: Duration,
    /// TLS, and a proxy's tunnel.
    pub handshake: Duration,
    /// From sending the request to the first byte of the response.
    pub first_byte: Duration,
    /// From start to end.
    pub total: Duration,
}

/// The times of a transfer. Durations are computed on request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timestamps {
    pub(crate) started: Instant,
    /// When the current request, which may not be the first, was queued.
    pub(crate) queued: Instant,
    /// When it was assigned to a connection.
    pub(crate) assigned: Option<Instant>,
    /// When its response began.
    pub(crate) first_byte: Option<Instant>,
    /// The times of that connection's setup, if the request was the first on it.
    pub(crate) setup: Setup,
}

/// The durations of a connection's setup, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Setup {
    pub(crate) name: u32,
    pub(crate) connect: u32,
    pub(crate) handshake: u32,
}

/// A duration in microseconds; more than an hour counts as an hour.
pub(crate) fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
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

    /// Another request is queued.
    pub(crate) fn again(&mut self, now: Instant) {
        *self = Self { started: self.started, ..Self::new(now) };
    }

    pub(crate) fn timings(&self, ended: Instant) -> Timings {
        let micros = |n: u32| match n {
            0 => Duration::ZERO, // mostly: the connection is used again
            _ => Duration::from_micros(n.into()),
        };
        let (name, connect) = (micros(self.setup.name), micros(self.setup.connect));
        let handshake = micros(self.setup.handshake);
        let waited = match self.assigned.unwrap_or(ended) {
            at if at == self.queued => Duration::ZERO, // to an idle connection
            at => at - self.queued,
        };
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
