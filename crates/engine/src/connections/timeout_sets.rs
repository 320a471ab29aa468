//! Timeouts that differ between connections: sets of them in one table, a number in each entry. A
//! connection may have a set of its own, which is freed with it.

use std::time::Instant;

use fulmar_proto::Connection;

use crate::SocketId;
use crate::connections::Connections;
use crate::timeouts::{Timeouts, TimeoutsId};

impl<C: Connection, T> Connections<C, T> {
    /// A set of deadlines for [`Connections::set_timeouts`]. Equal sets are stored once and never
    /// freed: they are for values of a configuration, not of a request.
    ///
    /// # Panics
    /// If there are more than 65,535 different ones.
    pub fn add_timeouts(&mut self, timeouts: Timeouts) -> TimeoutsId {
        self.outputs.timeouts.add(timeouts)
    }

    /// Sets the deadlines of `socket`. The deadline of the current phase counts from its beginning.
    pub fn set_timeouts(&mut self, socket: SocketId, timeouts: TimeoutsId) {
        let at = self.slots.position(socket);
        let Some(entry) = self.slots.get_mut(socket) else { return };
        if entry.timeouts == timeouts {
            return;
        }
        self.outputs.timeouts.release(std::mem::replace(&mut entry.timeouts, timeouts), at);
        let since = entry.since;
        entry.start_deadline(since, at, &mut self.outputs);
    }

    /// The same with deadlines of this connection alone, for values of a request. They apply until
    /// others are set.
    pub fn set_own_timeouts(&mut self, socket: SocketId, timeouts: Timeouts) {
        let at = self.slots.position(socket);
        let Some(entry) = self.slots.get_mut(socket) else { return };
        entry.timeouts = self.outputs.timeouts.own(at, timeouts);
        let since = entry.since;
        entry.start_deadline(since, at, &mut self.outputs);
    }

    /// The same; the deadline of the current phase counts from `now`.
    pub fn restart_timeouts(&mut self, now: Instant, socket: SocketId, timeouts: TimeoutsId) {
        let at = self.slots.position(socket);
        let Some(entry) = self.slots.get_mut(socket) else { return };
        self.outputs.timeouts.release(std::mem::replace(&mut entry.timeouts, timeouts), at);
        let now = self.outputs.wheel.tick(now);
        entry.start_deadline(now, at, &mut self.outputs);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use bytes::BytesMut;
    use fulmar_proto::{
        BodyLen, Event, Headers, Input, Phase, Raw, RawConnection, Response, Server,
        ServerConnection, StreamId,
    };

    use super::*;
    use crate::connections::{ConnectionEvent, End, Handler};
    use crate::{Action, SocketEvent};

    /// The closed connections: in which phase, and when.
    #[derive(Default)]
    struct ClosedLog(Vec<(SocketId, Option<Phase>, Instant)>);

    impl Handler<ServerConnection, ()> for ClosedLog {
        fn handle(
            &mut self,
            _: Instant,
            _: SocketId,
            _: (&mut ServerConnection, &mut ()),
            _: ConnectionEvent<'_, Server>,
        ) {
        }

        fn handle_closed(&mut self, now: Instant, socket: SocketId, (): (), end: End) {
            let End::TimedOut(phase) = end else { panic!("{end:?}") };
            self.0.push((socket, phase, now));
        }
    }

    struct Hand {
        start: Instant,
        connections: Connections<ServerConnection, ()>,
        book: ClosedLog,
    }

    impl Hand {
        #[expect(clippy::disallowed_methods, reason = "virtual time starts at some moment")]
        fn new(idle: u64) -> Self {
            let start = Instant::now();
            Self {
                start,
                connections: Connections::new(start, idle_for(idle), 0, 1),
                book: ClosedLog::default(),
            }
        }

        fn insert(&mut self) -> SocketId {
            let connection = ServerConnection::default();
            self.connections.insert(self.start, None, connection, (), &mut self.book)
        }

        /// Runs to the last deadline; seconds from the start to each end.
        fn ends(&mut self) -> Vec<(SocketId, u64)> {
            while let Some(due) = self.connections.poll_timeout() {
                self.connections.handle_timeout(due, &mut self.book);
            }
            let since = |at: Instant| at.duration_since(self.start).as_secs();
            self.book.0.iter().map(|(socket, _, at)| (*socket, since(*at))).collect()
        }
    }

    fn idle_for(seconds: u64) -> Timeouts {
        Timeouts { idle: Some(Duration::from_secs(seconds)), ..Timeouts::default() }
    }

    #[test]
    fn each_connection_has_its_own_deadlines() {
        let mut hand = Hand::new(20);
        let sockets = [hand.insert(), hand.insert(), hand.insert(), hand.insert()];
        let (short, long) = (hand.connections.add_timeouts(idle_for(5)), idle_for(60));
        let long = hand.connections.add_timeouts(long);
        hand.connections.set_timeouts(sockets[1], short);
        hand.connections.set_timeouts(sockets[2], long);
        hand.connections.set_timeouts(sockets[3], short);
        hand.connections.set_timeouts(sockets[3], long);
        let [plain, short, long, both] = sockets;
        assert_eq!(hand.ends(), [(short, 5), (plain, 20), (long, 60), (both, 60)]);
        assert!(hand.book.0.iter().all(|(_, phase, _)| *phase == Some(Phase::Idle)));
    }

    #[test]
    fn a_new_deadline_counts_from_the_beginning_of_the_phase() {
        let mut hand = Hand::new(60);
        let socket = hand.insert();
        let other = hand.insert();
        let short = hand.connections.add_timeouts(idle_for(5));
        hand.connections.handle_timeout(hand.start + Duration::from_secs(30), &mut hand.book);
        hand.connections.set_timeouts(socket, short); // its deadline has passed already
        hand.connections.handle_timeout(hand.start + Duration::from_millis(30_001), &mut hand.book);
        assert_eq!(hand.ends(), [(socket, 30), (other, 60)]);
    }

    #[test]
    fn a_connecting_socket_has_its_own_deadline() {
        let mut hand = Hand::new(20);
        let connect = Some(Duration::from_secs(3));
        let set = hand.connections.add_timeouts(Timeouts { connect, ..Timeouts::default() });
        let peer = crate::Endpoint::to(([127, 0, 0, 1], 80).into());
        let connection = ServerConnection::default();
        let socket = hand.connections.connect(hand.start, peer, None, connection, ());
        hand.connections.set_timeouts(socket, set);
        assert_eq!(hand.ends(), [(socket, 3)]);
        assert_eq!(hand.book.0[0].1, None, "it was never established");
    }

    impl Handler<RawConnection, ()> for ClosedLog {
        fn handle(
            &mut self,
            _: Instant,
            _: SocketId,
            (entry, ()): (&mut RawConnection, &mut ()),
            event: ConnectionEvent<'_, Raw>,
        ) {
            if let ConnectionEvent::Event(Event::Data { stream, bytes }) = event {
                entry.release(stream, bytes.len());
            }
        }

        fn handle_closed(&mut self, now: Instant, socket: SocketId, (): (), end: End) {
            let End::TimedOut(phase) = end else { panic!("{end:?}") };
            self.0.push((socket, phase, now));
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "virtual time starts at some moment")]
    fn sent_bytes_restart_the_receive_deadline_unless_receive_only() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let usual = Timeouts {
            body: Some(Duration::from_secs(10)),
            tunnel: Some(Duration::from_secs(10)),
            ..Timeouts::default()
        };
        let mut connections = Connections::new(start, usual, 0, 1);
        let mut book = ClosedLog::default();
        let insert = |connections: &mut Connections<RawConnection, ()>| {
            connections.insert(start, None, RawConnection::default(), (), &mut ClosedLog::default())
        };
        let sockets =
            [insert(&mut connections), insert(&mut connections), insert(&mut connections)];
        let [plain, silent, held] = sockets;
        let strict = connections.add_timeouts(Timeouts { receive_only: true, ..usual });
        connections.set_timeouts(silent, strict);
        connections.set_timeouts(held, strict);
        connections.get_mut(held).unwrap().0.set_held(RawConnection::STREAM, true);
        for seconds in [6, 12, 18] {
            for socket in sockets {
                let Some((entry, ())) = connections.get_mut(socket) else { continue };
                entry.send_data(RawConnection::STREAM, (&b"x"[..]).into()).unwrap();
                connections.touch(at(seconds), socket, &mut book);
                connections.handle(at(seconds), socket, SocketEvent::Sent(1), &mut book);
            }
            connections.handle_timeout(at(seconds), &mut book);
        }
        // While reading is paused the deadline is suspended; it restarts when reading resumes.
        connections.get_mut(held).unwrap().0.set_held(RawConnection::STREAM, false);
        connections.touch(at(20), held, &mut book);
        while let Some(due) = connections.poll_timeout() {
            connections.handle_timeout(due, &mut book);
        }
        let ends = book.0.iter().map(|(socket, _, end)| (*socket, end.duration_since(start)));
        let ends: Vec<_> = ends.map(|(socket, end)| (socket, end.as_secs())).collect();
        assert_eq!(ends, [(silent, 12), (plain, 28), (held, 30)]);
    }

    /// RFC 9112 §9.6: unread input behind the last request is drained for a limited time.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "virtual time starts at some moment")]
    fn a_drain_ends_at_its_deadline_though_bytes_arrive() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let linger = Some(Duration::from_secs(2));
        let mut connections =
            Connections::new(start, Timeouts { linger, ..Timeouts::default() }, 0, 1);
        let mut book = ClosedLog::default();
        let socket = connections.insert(start, None, ServerConnection::default(), (), &mut book);
        let receive = |connections: &mut Connections<ServerConnection, ()>, ms, bytes: &[u8]| {
            let mut bytes = BytesMut::from(bytes);
            let input = SocketEvent::Input(Input::all(&mut bytes, false));
            connections.handle(at(ms), socket, input, &mut ClosedLog::default());
        };
        receive(&mut connections, 0, b"GET / HTTP/1.0\r\n\r\n");
        connections.handle(at(5), socket, SocketEvent::Unread, &mut book);
        let (connection, ()) = connections.get_mut(socket).unwrap();
        let response = Response::new(200, Headers::EMPTY);
        connection.send_head(StreamId(0), response, BodyLen::Empty).unwrap();
        connection.send_end(StreamId(0), Headers::EMPTY).unwrap();
        connections.touch(at(10), socket, &mut book);
        let len = connections.poll_transmit(socket).unwrap().len();
        connections.handle(at(10), socket, SocketEvent::Sent(len), &mut book);
        let actions: Vec<_> = std::iter::from_fn(|| connections.poll_action()).collect();
        assert!(matches!(actions.last(), Some(Action::Shutdown { .. })), "{actions:?}");
        for ms in [500, 1_000, 1_500, 2_000] {
            receive(&mut connections, ms, b"more");
            connections.handle_timeout(at(ms), &mut book);
        }
        assert!(book.0.is_empty(), "it has two seconds");
        connections.handle_timeout(at(2_012), &mut book);
        assert_eq!(book.0, [(socket, Some(Phase::Linger), at(2_012))]);
        assert!(matches!(connections.poll_action(), Some(Action::Close { .. })));
    }

    #[test]
    fn an_own_set_is_freed_with_its_connection() {
        let mut hand = Hand::new(20);
        let shared = hand.connections.add_timeouts(idle_for(9));
        let (first, second) = (hand.insert(), hand.insert());
        for seconds in [5, 6, 7] {
            hand.connections.set_own_timeouts(first, idle_for(seconds)); // one set, changed
        }
        hand.connections.set_own_timeouts(second, idle_for(3));
        hand.connections.set_timeouts(second, shared);
        let third = hand.insert();
        hand.connections.set_own_timeouts(third, idle_for(4)); // in the second one's slot
        assert_eq!(hand.connections.outputs.timeouts.own_len(), 2);
        assert_eq!(hand.ends(), [(third, 4), (first, 7), (second, 9)]);
        assert_eq!(hand.connections.outputs.timeouts.own_len(), 0);
    }

    #[test]
    fn equal_sets_are_one() {
        let mut hand = Hand::new(20);
        assert_eq!(hand.connections.add_timeouts(idle_for(20)), TimeoutsId::default());
        let one = hand.connections.add_timeouts(idle_for(5));
        assert_ne!(one, TimeoutsId::default());
        assert_eq!(hand.connections.add_timeouts(idle_for(5)), one);
        // A connection that was made later in the same place begins with the first set again.
        let socket = hand.insert();
        hand.connections.set_timeouts(socket, one);
        hand.connections.close(socket);
        let next = hand.insert();
        assert_eq!(hand.ends(), [(next, 20)]);
    }
}
