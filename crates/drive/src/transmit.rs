//! The sending side of a turn.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use fulmar_engine::{Engine, SocketEvent, SocketId};

use crate::executor::Op;
use crate::passing::Passing;
use crate::reactor::Reactor;
use crate::selector::Selector;
use crate::socket::{Registration, SendState, SocketOrigin};
use crate::steps::{SendOutcome, send_steps};

impl<E: Engine, S: Selector> Reactor<E, S> {
    /// Looks at the transmit of every socket on the list and sends it. Short ones are copied side
    /// by side and leave as one list, long ones and files by calls of their own. True if there was
    /// something: it may have led to more.
    #[inline]
    pub(crate) fn flush(&mut self, now: Instant) -> bool {
        let some = !self.send_queue.is_empty() || !self.loads.is_empty();
        if some {
            self.flush_some(now); // not in every turn
        }
        some
    }

    fn flush_some(&mut self, now: Instant) {
        if E::STAMPS_SENDS {
            self.stamp();
        }
        self.send_loads(now);
        for at in 0..self.send_queue.len() {
            self.transmit(now, self.send_queue[at]);
        }
        self.send_queue.clear();
        self.send_list(now);
        self.send_passing(now);
        if !self.file_memory.is_empty() {
            self.file_memory_until = Some(now + FILE_MEMORY_FOR);
        }
    }

    /// Continues on sockets that took all of a transmit that shows only a part of what is queued:
    /// frames, or what a layer seals ahead of a file. In rotation, each up to about its share of a
    /// turn.
    pub(crate) fn continue_partial(&mut self, now: Instant) {
        for _ in 1..ROUNDS_MAX {
            if !std::mem::take(&mut self.some_took_all) && self.loads.is_empty() {
                return;
            }
            let Self { sockets, new_transmits, send_queue, .. } = self;
            new_transmits.retain(|id| {
                let socket = sockets.get_mut(*id);
                let goes_on = socket.is_some_and(|socket| std::mem::take(&mut socket.took_all));
                if goes_on {
                    send_queue.push(*id);
                }
                !goes_on
            });
            if !self.flush(now) {
                return;
            }
            self.act(now);
        }
        self.some_took_all = false;
    }

    /// Reads the next parts of files and sends the resulting bytes, socket by socket: so they are
    /// still in the processor's cache when the kernel takes them, and their memory is there for
    /// the next socket. A layer that has room for parts of several files gets all of them first.
    fn send_loads(&mut self, now: Instant) {
        for _ in 0..self.loads.len() {
            let (id, range) = self.loads.pop_front().expect("sending only adds to them");
            self.load(now, id, &range);
            for _ in 1..LOADS_MAX {
                self.act(now);
                let next = self.loads.pop_back_if(|(socket, _)| *socket == id);
                let Some((_, range)) = next else { break };
                self.load(now, id, &range);
            }
            self.transmit(now, id);
        }
    }

    fn transmit(&mut self, now: Instant, id: SocketId) {
        let Some(socket) = self.sockets.get_mut(id) else { return }; // closed in this turn
        match socket.send {
            SendState::Queued | SendState::Broken(_) => return,
            SendState::Full | SendState::Ready => {}
        }
        // On a socket that is not watched, unreported input may have arrived. A close would then
        // destroy bytes held back for the FIN (`MSG_MORE`), so they are sent at once.
        let is_watched = socket.registration != Registration::Deferred;
        let closes = !S::EXTERNAL && self.abilities.more && is_watched;
        let Some(transmit) = self.engine.poll_transmit(id) else {
            if socket.origin == SocketOrigin::Connecting {
                socket.send = SendState::Full; // a guess, which no send has tested
            }
            return self.update_interest(id); // it is connected: no wait for room
        };
        if socket.send == SendState::Full {
            // Reported nevertheless: queued bytes must stop sharing the turn's block.
            self.report(now, id, SocketEvent::Sent(0));
            return self.update_interest(id);
        }
        // `MSG_MORE` implies Linux, whose variant of Nagle's algorithm is Minshall's: it never
        // delays the last packet of a large send.
        socket.nagle.handle_send(socket.fd.as_fd(), self.abilities.more);
        match transmit.as_inline() {
            Some(bytes) if bytes.len() <= COPY_SIZE_MAX => {
                let is_last = closes && transmit.is_last;
                self.sends.push(Op::send(id, self.buffer.len(), bytes.len(), is_last));
                self.buffer.extend_from_slice(bytes);
                socket.send = SendState::Queued;
                if self.sends.len() == LIST_LEN_MAX {
                    self.send_list(now);
                }
            }
            None if transmit.has_pipe() => {
                socket.send = SendState::Queued;
                self.pipe_sends.push(Passing::new(id));
            }
            _ => {
                let (fd, memory) = (socket.fd.as_fd(), &mut self.file_memory);
                let steps = transmit.steps(self.abilities);
                let outcome = send_steps(fd, steps, SHARE_SIZE, memory, &mut self.throttle);
                if outcome.is_all() && outcome.wanted < transmit.len() {
                    self.new_transmits.push(id);
                }
                socket.took_all = transmit.is_framed && outcome.is_all();
                self.some_took_all |= socket.took_all;
                self.sent(now, id, outcome);
            }
        }
    }

    fn send_list(&mut self, now: Instant) {
        let Self { executor, sends, sockets, buffer, throttle, .. } = self;
        executor.send(sends, sockets, buffer, throttle);
        self.buffer.clear();
        for at in 0..self.sends.len() {
            let op = self.sends[at];
            let result = op.outcome().map(|n| n as u64);
            self.sent(now, op.socket, SendOutcome::of_call(op.len as u64, result));
        }
        self.sends.clear();
    }

    pub(crate) fn sent(&mut self, now: Instant, id: SocketId, outcome: SendOutcome) {
        let Self { engine, selector, sockets, receive_queue, connect_prediction, .. } = self;
        // The result of an earlier entry of the list may have made the engine close it.
        let Some(socket) = sockets.get_mut(id) else { return };
        let SendOutcome { wanted, sent, error } = outcome;
        assert!(sent <= wanted, "no more is sent than the transmit has");
        assert!(!matches!(socket.send, SendState::Broken(_)), "a broken socket sends nothing");
        socket.send = if sent == wanted { SendState::Ready } else { SendState::Full };
        if socket.origin == SocketOrigin::Connecting {
            connect_prediction.learn(sent > 0);
            if sent > 0 {
                socket.origin = SocketOrigin::Connected;
                // Before anything that the bytes lead to.
                engine.handle(now, SocketEvent::Connected.of(id));
            }
        }
        let connecting = socket.origin == SocketOrigin::Connecting;
        let failure = error.filter(|error| connecting || !socket.drains_before_error(error));
        if sent > 0 || failure.is_none() {
            engine.handle(now, SocketEvent::Sent(sent).of(id));
        }
        if let Some(error) = failure {
            return engine.handle(now, SocketEvent::Failed(error).of(id));
        }
        if matches!(socket.send, SendState::Broken(_)) {
            socket.list(receive_queue);
        }
        socket.update_interest(selector);
        let rearms = selector.watches_all() && !socket.interest.write || self.throttle.is_some();
        if rearms && socket.send == SendState::Full {
            self.rearm(id);
        }
    }

    /// Waits for room: for the first time if every edge is reported from then on, or because a send
    /// was cut short by us, which leaves a socket writable that waits to become so.
    fn rearm(&mut self, id: SocketId) {
        self.register(id);
        if let Some(socket) = self.sockets.get_mut(id)
            && socket.registration == Registration::Registered
        {
            socket.interest.write = true;
            // A descriptor that is watched can be watched again.
            let _ = self.selector.rearm(socket.fd.as_fd(), socket.tag(), socket.interest);
        }
    }
}

/// Up to here a copy costs less than a call that gathers.
const COPY_SIZE_MAX: usize = 4096;
/// What one socket sends in a turn by calls of its own. A file that comes from a slow disk never
/// fills a socket: as a whole, it would keep all others waiting for as long as it takes.
const SHARE_SIZE: u64 = 2 * 1024 * 1024;
/// Parts of files that are read for one transmit of a socket.
const LOADS_MAX: usize = 8;
/// Partial transmits that one socket sends in a turn; each has at most half a megabyte.
const ROUNDS_MAX: usize = 4;
/// How long the memory for files is kept after its last use.
const FILE_MEMORY_FOR: Duration = Duration::from_secs(1);
/// Transmits in one list.
const LIST_LEN_MAX: usize = 64;
