//! The receiving side of a turn.

use std::io;
use std::time::Instant;

use bytes::BytesMut;
use fulmar_engine::{Engine, SocketId};
use fulmar_proto::Input;

use crate::direct::{self, Op};
use crate::reactor::Reactor;
use crate::selector::Selector;
use crate::socket::Birth;

impl<E: Engine, S: Selector> Reactor<E, S> {
    /// Reads once from every socket that is due, and tells the engine. Sockets that have more
    /// are due again in the next turn.
    pub(crate) fn receive(&mut self, now: Instant) {
        let mut left = self.due.len();
        while left > 0 {
            let batch = left.min(BATCH_LEN_MAX);
            self.receive_batch(now, batch);
            left -= batch;
        }
    }

    fn receive_batch(&mut self, now: Instant, batch: usize) {
        let mut receives = std::mem::take(&mut self.receives);
        for id in self.due.drain(..batch) {
            if let Some(socket) = self.sockets.get_mut(id) {
                socket.listed = false;
                if socket.is_due() {
                    receives.push(Op::receive(id));
                }
            }
        }
        let resting = |sockets: &mut crate::socket::Sockets, op: &Op| {
            sockets.get_mut(op.socket).is_none_or(|s| !s.readable || s.eof)
        };
        // Those that only wait to be asked again need no system call.
        let (asked, called) = partition(&mut receives, |op| resting(&mut self.sockets, op));
        for op in asked {
            self.deliver(now, op.socket, BytesMut::new());
        }
        let share = BLOCK_SIZE / called.len().max(1);
        self.clear_block();
        direct::receive(called, &self.sockets, &mut self.block, share);
        for op in called {
            let bytes = self.block.split_to(op.range.len());
            let result = std::mem::replace(&mut op.result, Ok(0));
            self.received(now, op.socket, result, share, bytes);
        }
        receives.clear();
        self.receives = receives;
    }

    fn received(
        &mut self,
        now: Instant,
        id: SocketId,
        result: io::Result<usize>,
        share: usize,
        bytes: BytesMut,
    ) {
        let Some(socket) = self.sockets.get_mut(id) else { return };
        if let Birth::Accepted(listener) = std::mem::replace(&mut socket.birth, Birth::Standing)
            && let Some(Some(listener)) = self.listeners.get_mut(listener.0 as usize)
            && !socket.watched
        {
            listener.prediction.learn(result.is_ok());
        }
        match result {
            Ok(n) => {
                socket.eof = n == 0;
                // A short read means that the queue is empty and the next edge will tell, unless
                // the edge of the FIN has been seen already: there is no other.
                socket.readable = n == share || socket.hangup;
                self.deliver(now, id, bytes);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                socket.readable = false;
                if socket.resumed {
                    self.deliver(now, id, bytes);
                }
            }
            Err(error) => self.engine.handle_failed(now, id, error),
        }
    }

    /// What was left unread, then what has come; the rest is kept for the next time.
    fn deliver(&mut self, now: Instant, id: SocketId, bytes: BytesMut) {
        let Some(socket) = self.sockets.get_mut(id) else { return };
        socket.resumed = false;
        let eof = socket.eof;
        let kept = std::mem::take(&mut socket.unread);
        let joined = !kept.is_empty();
        let bytes = if joined { join(kept, &bytes) } else { bytes };
        let mut input = Input::new(bytes, eof);
        self.engine.handle_input(now, id, &mut input);
        let rest = input.into_rest();
        let Some(socket) = self.sockets.get_mut(id) else { return };
        if !rest.is_empty() {
            // A copy of its own: the block stays the thread's. What was a copy already is moved,
            // so that a head arriving byte by byte is copied once.
            socket.unread = if joined { rest } else { BytesMut::from(&rest[..]) };
        }
        self.update_interest(id);
        self.list(id);
    }

    /// The block is empty and whole; a new one if somebody kept a share of it.
    fn clear_block(&mut self) {
        self.block.clear();
        if !self.block.try_reclaim(BLOCK_SIZE) {
            self.block = BytesMut::with_capacity(BLOCK_SIZE);
        }
    }
}

fn join(mut kept: BytesMut, more: &[u8]) -> BytesMut {
    kept.extend_from_slice(more);
    kept
}

/// The entries for which `first` holds, then the others.
fn partition(ops: &mut [Op], mut first: impl FnMut(&Op) -> bool) -> (&mut [Op], &mut [Op]) {
    let mut at = 0;
    for i in 0..ops.len() {
        if first(&ops[i]) {
            ops.swap(at, i);
            at += 1;
        }
    }
    ops.split_at_mut(at)
}

/// Sockets read by one list; they share the block.
const BATCH_LEN_MAX: usize = 64;
/// Memory for one list: one busy socket has all of it, 64 have 4 KB each.
const BLOCK_SIZE: usize = 256 * 1024;
