//! The accepting side of a turn, and when a listener pauses.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use fulmar_engine::{Accepted, DriverEvent, Engine, Limit, ListenerId, SocketId};
use fulmar_sys::errno::{
    EAGAIN, ECONNABORTED, ECONNRESET, EHOSTDOWN, EHOSTUNREACH, EINTR, EMFILE, ENETDOWN,
    ENETUNREACH, ENFILE, ENOBUFS, ENOMEM, ENOPROTOOPT, EPROTO, ETIMEDOUT,
};
use fulmar_sys::{self as sys, RING_LEN_MAX};

use crate::listener::{Listener, REST};
use crate::reactor::{READ, Reactor, earliest};
use crate::selector::{Interest, Selector, Tag};
use crate::socket::{Socket, SocketOrigin};

impl<E: Engine, S: Selector> Reactor<E, S> {
    /// Accepts from the ready listeners, as many connections as [`AcceptBatch`] estimates: an
    /// accept without a connection costs more than one with, and a level-triggered listener is
    /// reported again. An edge-triggered one is tried again in the next turn.
    pub(crate) fn accept(&mut self, now: Instant) {
        self.wake_listeners(now);
        let told = self.arrivals.len();
        if told == 0 {
            return;
        }
        self.act(now); // a place is free only once its `Close` is done
        for at in 0..told {
            self.accept_from(now, self.arrivals[at]);
        }
        self.arrivals.drain(..told);
    }

    /// A list is no longer than the engine has places for connections of this listener, so that the
    /// engine's limits hold within a list.
    fn accept_from(&mut self, now: Instant, id: ListenerId) {
        let Some(listener) = self.open_listener(id) else { return }; // closed or paused
        listener.prediction.begin();
        let size = if S::EXTERNAL { 1 } else { listener.expect() };
        let mut arrived = 0;
        while arrived < size && self.open_listener(id).is_some() {
            let places = self.engine.limit(Limit::Accepts(id)).clamp(1, RING_LEN_MAX);
            let (more, end) = self.accept_list(now, id, usize::from(size - arrived).min(places));
            arrived += more;
            if let Some(error) = end {
                return self.on_accept_error(now, id, arrived, &error);
            }
        }
        assert!(arrived <= size, "no more are accepted than tried");
        if arrived == size
            && let Some(listener) = self.open_listener(id)
        {
            listener.batch.handle_all(arrived);
        }
    }

    /// Accepts `len` connections, and executes the engine's actions after each. Returns how many
    /// there were, and the first error.
    fn accept_list(
        &mut self,
        now: Instant,
        id: ListenerId,
        len: usize,
    ) -> (u16, Option<io::Error>) {
        let mut list = std::mem::take(&mut self.accepts);
        list.resize_with(len, || None);
        if let Some(Some(listener)) = self.listeners.get(id.0 as usize) {
            self.executor.accept(&mut list, listener.fd.as_fd());
        }
        let (mut arrived, mut end) = (0, None);
        for found in list.drain(..).flatten() {
            match found {
                Ok((fd, peer)) => {
                    arrived += 1;
                    self.arrived(now, id, fd, peer);
                    self.act(now);
                }
                Err(error) => end = end.or(Some(error)),
            }
        }
        self.accepts = list;
        (arrived, end)
    }

    fn arrived(&mut self, now: Instant, id: ListenerId, fd: OwnedFd, peer: SocketAddr) {
        let Some(Some(listener)) = self.listeners.get_mut(id.0 as usize) else {
            return self.selector.retire(fd); // refused, as those in the queue
        };
        let (likely, reports_local) = (listener.prediction.is_ready(), listener.reports_local);
        if S::EXTERNAL {
            self.arrivals.push(id);
        }
        self.count_accepted();
        let Some(socket) = self.introduce(now, id, &fd, peer, reports_local) else {
            return self.selector.retire(fd);
        };
        let mut admitted = Socket::new(socket, fd, SocketOrigin::Accepted(id));
        admitted.readable = likely;
        self.admit(admitted);
        self.list(socket);
    }

    /// Offers a connection to the engine; `None` if it refuses.
    pub(crate) fn introduce(
        &mut self,
        now: Instant,
        listener: ListenerId,
        fd: &OwnedFd,
        peer: SocketAddr,
        reports_local: bool,
    ) -> Option<SocketId> {
        let local = reports_local.then(|| sys::local_address(fd.as_fd()).ok()).flatten();
        self.engine.accept(now, Accepted { listener, peer, local })
    }

    /// An accept failed after `arrived` connections.
    fn on_accept_error(&mut self, now: Instant, id: ListenerId, arrived: u16, error: &io::Error) {
        if self.makes_room(error) {
            return self.arrivals.push(id); // tried again in the next turn, which does not wait
        }
        match AcceptError::of(error) {
            AcceptError::NoneWaiting => {
                if let Some(listener) = self.open_listener(id) {
                    listener.batch.handle_end(arrived);
                }
            }
            AcceptError::ConnectionLost if !S::EXTERNAL => {} // the others are reported again
            AcceptError::ConnectionLost => self.arrivals.push(id),
            AcceptError::Exhausted => {
                self.back_off(now, id);
                self.engine.handle(now, DriverEvent::AcceptFailed(id, error));
            }
            AcceptError::Refused => {
                self.back_off(now, id);
                self.count_refused();
            }
        }
    }

    /// Pauses a listener.
    fn back_off(&mut self, now: Instant, id: ListenerId) {
        let Some(listener) = self.open_listener(id) else { return }; // the engine has closed it
        let until = Some(now + REST);
        listener.paused_until = until;
        self.paused_until = earliest(self.paused_until, until);
        self.watch_listener(id);
    }

    /// A listener that is not closed and not paused.
    fn open_listener(&mut self, id: ListenerId) -> Option<&mut Listener> {
        let listener = self.listeners.get_mut(id.0 as usize)?.as_mut();
        listener.filter(|listener| listener.watching)
    }

    pub(crate) fn set_accepting(&mut self, id: ListenerId, on: bool) {
        if let Some(Some(listener)) = self.listeners.get_mut(id.0 as usize) {
            listener.wanted = on;
            self.watch_listener(id);
        }
    }

    /// Resumes listeners whose pause is over.
    fn wake_listeners(&mut self, now: Instant) {
        if self.paused_until.is_none_or(|until| until > now) {
            return;
        }
        for number in 0..self.listeners.len() {
            if let Some(listener) = &mut self.listeners[number]
                && listener.paused_until.is_some_and(|until| until <= now)
            {
                listener.paused_until = None;
                self.watch_listener(ListenerId(u32::try_from(number).expect("few listeners")));
            }
        }
        self.paused_until = self.listeners.iter().flatten().filter_map(|l| l.paused_until).min();
    }

    /// Waits for connections while they are wanted and the listener is not paused.
    fn watch_listener(&mut self, id: ListenerId) {
        // The engine may have closed it.
        let Some(Some(listener)) = self.listeners.get_mut(id.0 as usize) else { return };
        let watching = listener.wanted && listener.paused_until.is_none();
        if watching != listener.watching {
            listener.watching = watching;
            let interest = if watching { READ } else { Interest::default() };
            if watching && S::EXTERNAL {
                self.arrivals.push(id); // its edge may have passed
            }
            // The interest of a registered descriptor can always be changed.
            let _ = self.selector.set_interest(listener.fd.as_fd(), Tag::Listener(id), interest);
        }
    }
}

/// Why an accept returned no connection (accept(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AcceptError {
    /// The queue is empty: the next event reports a connection.
    NoneWaiting,
    /// A waiting connection has failed. Others may be behind it, which no other edge reports.
    ConnectionLost,
    /// Descriptors or memory are used up. The connections go on waiting, and their event would
    /// repeat.
    Exhausted,
    /// Not possible, for a reason outside of this process: a filter forbids it, or another process
    /// with the same socket has ended its listening.
    Refused,
}

impl AcceptError {
    /// Unknown errors are [`AcceptError::Refused`]: a pause is right for all of them.
    fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(EAGAIN) => Self::NoneWaiting,
            Some(EMFILE | ENFILE | ENOBUFS | ENOMEM) => Self::Exhausted,
            Some(
                EINTR | ECONNABORTED | ECONNRESET | EHOSTDOWN | EHOSTUNREACH | ENETDOWN
                | ENETUNREACH | ENOPROTOOPT | EPROTO | ETIMEDOUT,
            ) => Self::ConnectionLost,
            _ => Self::Refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use fulmar_engine::{Action, CloseKind, SocketEvent};
    use fulmar_proto::Transmit;
    use fulmar_sys::errno::{EIO, ENOSYS, EPERM};

    use super::*;
    use crate::{Epoll, ExternalLoop, ListenOptions, listen};

    /// Accepts connections and counts their bytes.
    #[derive(Default)]
    struct ByteCounter {
        actions: VecDeque<Action>,
        accepted: Vec<SocketId>,
        bytes: usize,
    }

    impl Engine for ByteCounter {
        fn accept(&mut self, _: Instant, _: Accepted) -> Option<SocketId> {
            let index = u32::try_from(self.accepted.len()).expect("few");
            self.accepted.push(SocketId { index, generation: 0 });
            self.accepted.last().copied()
        }

        fn handle(&mut self, _: Instant, event: DriverEvent<'_>) {
            if let DriverEvent::Socket(_, SocketEvent::Input(mut input)) = event {
                self.bytes += input.len();
                input.clear();
            }
        }

        fn poll_action(&mut self) -> Option<Action> {
            self.actions.pop_front()
        }

        fn poll_transmit(&mut self, _: SocketId) -> Option<Transmit<'_>> {
            None
        }

        fn poll_timeout(&self) -> Option<Instant> {
            None
        }
    }

    /// A listener that was duplicated before the engine closed it keeps its queue: the application
    /// accepts what the reactor leaves there. Connections of the reactor continue.
    #[test]
    fn a_duplicate_of_a_closed_listener_keeps_accepting() {
        let (socket, address) =
            listen(([127, 0, 0, 1], 0).into(), ListenOptions::default()).unwrap();
        let mut reactor = Reactor::new(ByteCounter::default(), Epoll::new().unwrap());
        let id = reactor.listen(socket).unwrap();
        let mut first = TcpStream::connect(address).unwrap();
        while reactor.engine.accepted.is_empty() {
            reactor.turn().unwrap();
        }
        let kept = reactor.listener_fd(id).expect("it is open").try_clone_to_owned().unwrap();
        let unlisten = Action::Unlisten { listener: id };
        reactor.with(|engine, _| engine.actions.push_back(unlisten));
        assert!(reactor.listener_fd(id).is_none());
        let mut second = TcpStream::connect(address).unwrap();
        second.write_all(b"queued").unwrap();
        first.write_all(b"open").unwrap();
        while reactor.engine.bytes < 4 {
            reactor.turn().unwrap();
        }
        assert_eq!(reactor.engine.accepted.len(), 1, "the listener is out of the loop");
        let (mut accepted, peer) = TcpListener::from(kept).accept().unwrap();
        assert_eq!(peer, second.local_addr().unwrap());
        let mut bytes = [0; 6];
        accepted.set_nonblocking(false).unwrap();
        accepted.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"queued");
    }

    #[test]
    fn the_descriptor_of_a_connection_is_known_until_it_closes() {
        let mut reactor = Reactor::new(ByteCounter::default(), ExternalLoop::default());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (ours, peer) = listener.accept().unwrap();
        ours.set_nonblocking(true).unwrap();
        let number = ours.as_raw_fd();
        reactor.adopt(ListenerId(3), ours.into(), peer);
        let id = reactor.engine.accepted[0];
        assert_eq!(reactor.socket_fd(id).map(|fd| fd.as_raw_fd()), Some(number));
        assert!(reactor.listener_fd(ListenerId(3)).is_none(), "no listener of the reactor");
        let close = Action::Close { socket: id, kind: CloseKind::Normal };
        reactor.with(|engine, _| engine.actions.push_back(close));
        assert!(reactor.socket_fd(id).is_none());
    }

    #[test]
    fn only_an_empty_queue_leaves_a_listener_unchanged() {
        for (absence, numbers) in [
            (AcceptError::NoneWaiting, &[EAGAIN][..]),
            (AcceptError::ConnectionLost, &[ECONNABORTED, EPROTO, ENETDOWN, EHOSTUNREACH, EINTR]),
            (AcceptError::Exhausted, &[EMFILE, ENFILE, ENOBUFS, ENOMEM]),
            (AcceptError::Refused, &[EPERM, ENOSYS, EIO, i32::MAX]),
        ] {
            for number in numbers {
                let error = io::Error::from_raw_os_error(*number);
                assert_eq!(AcceptError::of(&error), absence, "{error}");
            }
        }
    }
}
