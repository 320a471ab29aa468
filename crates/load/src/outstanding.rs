//! The outstanding requests of one connection, of either protocol.

use fulmar_proto::StreamId;

use crate::flights::{Flight, Flights};
use crate::stream_flights::StreamFlights;

/// The outstanding requests of one connection.
#[derive(Debug)]
pub(crate) enum Outstanding {
    /// Of HTTP/1: responses arrive in the order of the requests.
    InOrder(Flights),
    /// Of HTTP/2.
    ByStream(Box<StreamFlights>),
}

impl Outstanding {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::InOrder(flights) => flights.len().into(),
            Self::ByStream(flights) => flights.len(),
        }
    }

    /// A request was queued; true if it is the first of this turn.
    pub(crate) fn push(&mut self, stream: StreamId, flight: Flight) -> bool {
        match self {
            Self::InOrder(flights) => flights.push(flight),
            Self::ByStream(flights) => flights.push(stream, flight),
        }
    }

    /// The head of a response has arrived.
    pub(crate) fn note_status(&mut self, stream: StreamId, status: u16) {
        match self {
            Self::InOrder(flights) => flights.note_status(status),
            Self::ByStream(flights) => flights.note_status(stream, status),
        }
    }

    /// The response on a stream is complete: its request and status. `None` if the request was
    /// given up before.
    pub(crate) fn complete(&mut self, stream: StreamId) -> Option<(Flight, u16)> {
        match self {
            Self::InOrder(flights) => flights.complete(),
            Self::ByStream(flights) => flights.complete(stream),
        }
    }

    /// Removes the oldest request.
    pub(crate) fn pop(&mut self) -> Option<Flight> {
        match self {
            Self::InOrder(flights) => flights.pop(),
            Self::ByStream(flights) => flights.pop().map(|(_, flight)| flight),
        }
    }

    /// When the oldest was sent.
    pub(crate) fn oldest(&mut self) -> Option<u64> {
        match self {
            Self::InOrder(flights) => flights.oldest(),
            Self::ByStream(flights) => flights.oldest(),
        }
    }

    /// The requests queued in this turn are sent now.
    pub(crate) fn stamp(&mut self, now: u64, left: impl FnMut(&mut Flight)) {
        match self {
            Self::InOrder(flights) => flights.stamp(now, left),
            Self::ByStream(flights) => flights.stamp(now, left),
        }
    }
}
