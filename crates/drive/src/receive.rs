//! The receiving side of a turn.

use std::io;
use std::time::Instant;

use bytes::{Buf, BytesMut};
use fulmar_engine::{Engine, Limit, SocketEvent, SocketId};
use fulmar_proto::{Block, Input};

use crate::executor::Op;
use crate::reactor::Reactor;
use crate::selector::{Selector, ShortRead};
use crate::socket::{Registration, SendState, Socket, SocketOrigin};

impl<E: Engine, S: Selector> Reactor<E, S> {
    /// Reads from every socket that is due, and passes the bytes to the engine. Sockets that have
    /// more are due again in the next turn.
    ///
    /// One read is enough if the selector trusts short reads. Otherwise a second one finds
    /// `EAGAIN`; in another turn it would cost the application a timer.
    pub(crate) fn receive(&mut self, now: Instant) {
        self.receive_due(now);
        if !self.selector.trusts_short_reads() && !self.receive_queue.is_empty() {
            if self.block.is_kept() {
                self.send_early(now);
            }
            self.act(now); // sockets that close or pause here are not read again
            self.receive_due(now);
        }
    }

    fn receive_due(&mut self, now: Instant) {
        std::mem::swap(&mut self.receive_queue, &mut self.receive_turn);
        let mut from = 0;
        while from < self.receive_turn.len() {
            let to = self.end_of_list(from);
            self.receive_batch(now, from, to);
            from = to;
            if from < self.receive_turn.len() && self.block.is_kept() {
                self.send_early(now);
            }
        }
        self.receive_turn.clear();
    }

    /// The end of the list that begins at `from`. Sockets with a full last share have much input:
    /// few of them share the block, because each piece takes an operation.
    fn end_of_list(&self, from: usize) -> usize {
        let (rest, most) = (&self.receive_turn[from..], self.executor.receives_max());
        if rest.len() == 1 || most == FLOWING_LEN_MAX {
            return from + rest.len().min(most); // of any kind
        }
        let is_flowing = |id: &SocketId| self.sockets.get(*id).is_some_and(|it| it.flowing);
        from + match is_flowing(&rest[0]) {
            true => rest.len().min(FLOWING_LEN_MAX),
            false => rest.iter().take(most).take_while(|id| !is_flowing(id)).count(),
        }
    }

    /// Long pieces of input are queued for other sockets: they are sent while they are in the
    /// processor's cache, and their memory is free for the next list.
    fn send_early(&mut self, now: Instant) {
        self.act(now);
        self.send_queue.append(&mut self.new_transmits);
        self.flush(now);
    }

    fn receive_batch(&mut self, now: Instant, from: usize, to: usize) {
        for at in from..to {
            let id = self.receive_turn[at];
            let Some(socket) = self.sockets.get_mut(id) else { continue }; // closed since
            debug_assert!(socket.listed, "it is on the list of due sockets");
            socket.listed = false;
            let wanted = self.engine.limit(Limit::Unread(id)).saturating_sub(socket.unread.len());
            let (receives, resumed) = (socket.may_receive() && wanted > 0, socket.resumed);
            let splices = receives && socket.splicing && self.is_splicing(id);
            if splices {
                self.splices.push(id);
            } else if receives {
                self.receives
                    .push(Op::receive(id, wanted.min(self.engine.limit(Limit::Receive(id)))));
            }
            if resumed && (splices || !receives) {
                self.redeliveries.push(id);
            }
        }
        while let Some(id) = self.redeliveries.pop() {
            self.redeliver(now, id);
        }
        self.receive_list(now);
        if !self.splices.is_empty() {
            self.splice_list(now); // not in most turns
        }
    }

    fn splice_list(&mut self, now: Instant) {
        while let Some(id) = self.splices.pop() {
            self.splice(now, id);
        }
        self.receive_list(now); // what is left behind that
    }

    fn receive_list(&mut self, now: Instant) {
        if self.receives.is_empty() {
            return;
        }
        let share = BLOCK_SIZE / self.receives.len();
        let Self { executor, receives, sockets, block, throttle, .. } = self;
        executor.receive(receives, share, sockets, block.clear(), throttle);
        for at in 0..self.receives.len() {
            self.received(now, self.receives[at]);
        }
        self.receives.clear();
    }

    fn received(&mut self, now: Instant, op: Op) {
        let Self { engine, selector, sockets, listeners, receive_queue, block, .. } = self;
        let Some(socket) = sockets.get_mut(op.socket) else {
            // Closed because of another socket: its input is discarded.
            return block.memory().advance(op.outcome().unwrap_or(0));
        };
        let result = op.outcome();
        if let SocketOrigin::Accepted(listener) = socket.origin {
            socket.origin = SocketOrigin::Connected;
            if let Some(Some(listener)) = listeners.get_mut(listener.0 as usize)
                && matches!(socket.registration, Registration::New | Registration::NewUnwatched)
            {
                listener.prediction.learn(result.is_ok());
            }
        }
        if let SendState::Broken(kind) = socket.send
            && is_last(&result)
            && !op.refused
        {
            return self.finish_drain(now, op.socket, kind);
        }
        match result {
            Ok(n) => {
                socket.eof = n == 0 || n < op.len && socket.short_read == ShortRead::Eof;
                // After a short read the queue is empty and the next edge reports more, unless the
                // edge of the FIN, or of the bytes behind a mark, has been reported or may have
                // been: there is no other.
                let has_more = n == op.len || socket.hangup || socket.short_read.pass_mark();
                socket.doubtful = !has_more && !selector.trusts_short_reads();
                socket.readable = has_more || socket.doubtful;
                socket.flowing = n == op.len;
                socket.deliver(now, engine, block, n);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                socket.readable = op.refused;
                socket.doubtful = false;
                if socket.resumed {
                    socket.deliver(now, engine, block, 0);
                }
            }
            Err(error) => {
                return engine.handle(now, SocketEvent::Failed(error).of(op.socket));
            }
        }
        socket.list(receive_queue);
        socket.update_interest(selector);
    }

    /// All input of a broken socket has been read. After a reset, the end of
    /// that is not the peer's.
    fn finish_drain(&mut self, now: Instant, id: SocketId, kind: io::ErrorKind) {
        if kind != io::ErrorKind::ConnectionReset
            && let Some(socket) = self.sockets.get_mut(id)
        {
            socket.eof = true;
            socket.deliver(now, &mut self.engine, &mut self.block, 0);
        }
        self.report(now, id, SocketEvent::Failed(kind.into()));
    }

    /// Delivers input again, without a system call: the engine may have left bytes, or expects to
    /// see that nothing more comes.
    pub(crate) fn redeliver(&mut self, now: Instant, id: SocketId) {
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.deliver(now, &mut self.engine, &mut self.block, 0);
        }
        self.relist(id);
    }

    /// A socket has been read from: perhaps it is due again, perhaps it is waited for differently.
    pub(crate) fn relist(&mut self, id: SocketId) {
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.list(&mut self.receive_queue);
            socket.update_interest(&mut self.selector);
        }
    }
}

impl Socket {
    /// What was left unread, then the next `n` bytes of the block; the rest is kept for the next
    /// time, as a copy of its own: the block stays the thread's.
    fn deliver(&mut self, now: Instant, engine: &mut impl Engine, block: &mut Block, n: usize) {
        debug_assert!(n <= block.memory().len(), "the block holds what was received");
        self.resumed = false;
        if self.unread.is_empty() {
            let held = block.memory().len();
            let input = SocketEvent::Input(block.input(n, self.eof));
            engine.handle(now, input.of(self.id));
            let left = n - (held - block.memory().len());
            if left > 0 {
                self.unread = block.split_copy(left);
            }
        } else {
            // It was a copy already, so that a head arriving byte by byte is copied once.
            let mut joined = std::mem::take(&mut self.unread);
            joined.extend_from_slice(&block.memory()[..n]);
            block.memory().advance(n);
            // No piece keeps more than twice its own length, and neither do the unread bytes.
            let (arrived, shares_from) = (joined.len(), joined.capacity() / 2);
            let input = Input::all(&mut joined, self.eof).sharing_from(shares_from);
            engine.handle(now, SocketEvent::Input(input).of(self.id));
            if !joined.is_empty() {
                let is_little = joined.len() < arrived / 2;
                self.unread = if is_little { BytesMut::from(&joined[..]) } else { joined };
            }
        }
    }
}

/// True if no more input can follow a receive.
fn is_last(result: &io::Result<usize>) -> bool {
    match result {
        Ok(n) => *n == 0,
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

/// With more of them, a body of 100 KB would come in several pieces, each with a call of its own.
pub(crate) const FLOWING_LEN_MAX: usize = 2;
/// Memory for one list: one busy socket has all of it, two have 120 KB each. It is sent on as it
/// came, and the kernel's packets hold a little less than 64 KB, whatever the wire's do: of a
/// multiple of 64 KB, the last one would be a crumb with a price of its own.
pub(crate) const BLOCK_SIZE: usize = 4 * PACKET_SIZE;
/// As much as surely goes in one packet on its way through the kernel.
pub(crate) const PACKET_SIZE: usize = 60 * 1024;
