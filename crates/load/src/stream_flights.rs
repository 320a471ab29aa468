//! The outstanding requests of one HTTP/2 connection. Their responses arrive in any order.

use std::collections::VecDeque;

use fulmar_proto::StreamId;

use crate::flights::Flight;

/// The outstanding requests of one connection, by stream. Streams are opened in the order of their
/// ids, so the oldest request is the first one.
#[derive(Debug)]
pub(crate) struct StreamFlights {
    list: VecDeque<StreamFlight>,
    unsent: usize,        // the number of youngest ones queued in this turn
    refusals: u32,        // since the last response
    left_out: bool,       // GOAWAY has refused a stream
    received: u64,        // when something arrived on the connection, or it was established
    blocked: Option<u64>, // since then the server accepts no stream, and none is open
}

/// A request on its stream.
#[derive(Clone, Copy, Debug)]
struct StreamFlight {
    stream: StreamId,
    status: u16, // of its response; 0 before
    flight: Flight,
}

impl StreamFlights {
    /// Room for this many without an allocation.
    pub(crate) fn new(streams: u16) -> Self {
        let list = VecDeque::with_capacity(streams.into());
        Self { list, unsent: 0, refusals: 0, left_out: false, received: 0, blocked: None }
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// A request was queued; true if it is the first of this turn.
    pub(crate) fn push(&mut self, stream: StreamId, flight: Flight) -> bool {
        debug_assert!(self.list.back().is_none_or(|last| last.stream < stream), "ids grow");
        self.list.push_back(StreamFlight { stream, status: 0, flight });
        self.unsent += 1;
        self.unsent == 1
    }

    /// The head of a response has arrived.
    pub(crate) fn note_status(&mut self, stream: StreamId, status: u16) {
        if let Some(at) = self.find(stream) {
            self.list[at].status = status;
        }
    }

    /// The response is complete.
    pub(crate) fn complete(&mut self, stream: StreamId) -> Option<(Flight, u16)> {
        self.refusals = 0;
        self.remove(stream)
    }

    /// The stream was reset. `None` if this side has reset it before.
    pub(crate) fn cancel(&mut self, stream: StreamId) -> Option<Flight> {
        self.remove(stream).map(|(flight, _)| flight)
    }

    /// The server refused a stream. Returns how many it refused since the last response.
    pub(crate) fn note_refusal(&mut self) -> u32 {
        self.refusals += 1;
        self.refusals
    }

    /// GOAWAY refused a stream; true if it is the first one.
    pub(crate) fn note_goaway(&mut self) -> bool {
        !std::mem::replace(&mut self.left_out, true)
    }

    /// True if the server has refused a stream since the last response.
    pub(crate) fn is_refused(&self) -> bool {
        self.refusals > 0
    }

    /// True if GOAWAY has refused a stream.
    pub(crate) fn has_goaway(&self) -> bool {
        self.left_out
    }

    /// Removes the oldest request.
    pub(crate) fn pop(&mut self) -> Option<(StreamId, Flight)> {
        let stream = self.list.front()?.stream;
        self.remove(stream).map(|(flight, _)| (stream, flight))
    }

    /// When the oldest was sent.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.list.front().map(|it| it.flight.sent)
    }

    /// Bytes have arrived on the connection, whatever they are.
    pub(crate) fn note_received(&mut self, now: u64) {
        self.received = now;
    }

    /// The server accepts a stream, or none. True if the latter begins without an open stream.
    pub(crate) fn note_vacancy(&mut self, now: u64, vacancy: u32) -> bool {
        let is_blocked = vacancy == 0 && self.list.is_empty();
        let begins = is_blocked && self.blocked.is_none();
        self.blocked = is_blocked.then(|| self.blocked.unwrap_or(now));
        begins
    }

    /// Since when the server accepts no stream, while none is open.
    pub(crate) fn blocked(&self) -> Option<u64> {
        self.blocked
    }

    /// Requests that waited for a stream have failed: the next ones wait from now on.
    pub(crate) fn restart_blocked(&mut self, now: u64) {
        self.blocked = Some(now);
    }

    /// True if nothing has arrived for `timeout`, nor a response to the oldest request.
    pub(crate) fn is_silent(&self, now: u64, timeout: u64) -> bool {
        let since = self.oldest().map(|sent| sent.max(self.received));
        since.is_some_and(|since| since.saturating_add(timeout) <= now)
    }

    /// The requests queued in this turn are sent now.
    pub(crate) fn stamp(&mut self, now: u64, mut left: impl FnMut(&mut Flight)) {
        let first = self.list.len() - std::mem::take(&mut self.unsent);
        for it in self.list.range_mut(first..) {
            it.flight.sent = now;
            left(&mut it.flight);
        }
    }

    fn remove(&mut self, stream: StreamId) -> Option<(Flight, u16)> {
        let at = self.find(stream)?;
        self.unsent -= usize::from(at >= self.list.len() - self.unsent);
        let removed = self.list.remove(at)?;
        Some((removed.flight, removed.status))
    }

    fn find(&self, stream: StreamId) -> Option<usize> {
        // Servers usually respond in order.
        match self.list.front() {
            Some(first) if first.stream == stream => Some(0),
            _ => self.list.binary_search_by_key(&stream, |it| it.stream).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(planned: u64) -> Flight {
        Flight { planned, sent: 0 }
    }

    #[test]
    fn responses_in_any_order_meet_their_requests() {
        let mut flights = StreamFlights::new(4);
        for n in 0..4 {
            assert_eq!(flights.push(StreamId(2 * n + 1), flight(n.into())), n == 0);
        }
        flights.stamp(7, |_| {});
        flights.note_status(StreamId(5), 404);
        flights.note_status(StreamId(9), 500);
        let of = |n| Flight { planned: n, sent: 7 };
        assert_eq!(flights.complete(StreamId(5)), Some((of(2), 404)));
        assert_eq!(flights.complete(StreamId(1)), Some((of(0), 0)));
        assert_eq!((flights.complete(StreamId(5)), flights.cancel(StreamId(2))), (None, None));
        assert_eq!(flights.cancel(StreamId(7)), Some(of(3)));
        assert_eq!((flights.len(), flights.oldest()), (1, Some(7)));
        assert_eq!(flights.pop(), Some((StreamId(3), of(1))));
        assert_eq!((flights.pop(), flights.oldest()), (None, None));
    }

    #[test]
    fn only_new_requests_are_stamped() {
        let mut flights = StreamFlights::new(4);
        flights.push(StreamId(1), flight(0));
        flights.stamp(5, |_| {});
        assert!(flights.push(StreamId(3), flight(1)));
        assert!(!flights.push(StreamId(5), flight(2)));
        assert!(flights.cancel(StreamId(5)).is_some(), "reset before it was sent");
        let mut stamped = Vec::new();
        flights.stamp(9, |it| stamped.push(it.planned));
        assert_eq!(stamped, [1]);
        flights.stamp(11, |_| panic!("none is new"));
    }

    #[test]
    fn refusals_count_since_the_last_response() {
        let mut flights = StreamFlights::new(1);
        assert_eq!((flights.note_refusal(), flights.note_refusal()), (1, 2));
        flights.push(StreamId(1), flight(0));
        flights.complete(StreamId(1));
        assert_eq!(flights.note_refusal(), 1);
    }
}
