//! The receiving side of a turn.

use std::io;
use std::time::Instant;

use bytes::{Buf, BytesMut};
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
        std::mem::swap(&mut self.due, &mut self.reading);
        let mut from = 0;
        while from < self.reading.len() {
            let to = self.reading.len().min(from + BATCH_LEN_MAX);
            self.receive_batch(now, from, to);
            from = to;
        }
        self.reading.clear();
    }

    fn receive_batch(&mut self, now: Instant, from: usize, to: usize) {
        for at in from..to {
            let id = self.reading[at];
            let Some(socket) = self.sockets.get_mut(id) else { continue };
            socket.listed = false;
            let (receives, resumed) = (socket.may_receive(), socket.resumed);
            let splices = receives && socket.splicing && self.is_splicing(id);
            if splices {
                self.splices.push(id);
            } else if receives {
                self.receives.push(Op::new(id, 0));
            }
            if resumed && (splices || !receives) {
                self.resumed.push(id);
            }
        }
        while let Some(id) = self.resumed.pop() {
            self.deliver(now, id, 0); // asked again, without a system call
        }
        self.receive_list(now);
        while let Some(id) = self.splices.pop() {
            self.splice(now, id);
        }
    }

    fn receive_list(&mut self, now: Instant) {
        if self.receives.is_empty() {
            return;
        }
        let share = BLOCK_SIZE / self.receives.len();
        self.clear_block();
        let Self { receives, sockets, block, throttle, .. } = self;
        direct::receive(receives, share, sockets, block, throttle);
        for at in 0..self.receives.len() {
            self.received(now, self.receives[at]);
        }
        self.receives.clear();
    }

    fn received(&mut self, now: Instant, op: Op) {
        let Some(socket) = self.sockets.get_mut(op.socket) else {
            // Closed on behalf of another: nobody wants what it said.
            return self.block.advance(op.outcome().unwrap_or(0));
        };
        let result = op.outcome();
        if let Birth::Accepted(listener) = socket.birth {
            socket.birth = Birth::Standing;
            if let Some(Some(listener)) = self.listeners.get_mut(listener.0 as usize)
                && !socket.watched
            {
                listener.prediction.learn(result.is_ok());
            }
        }
        match result {
            Ok(n) => {
                socket.eof = n == 0;
                // A short read means that the queue is empty and the next edge will tell, unless
                // the edge of the FIN has been seen already: there is no other.
                socket.readable = n == op.len || socket.hangup;
                self.deliver(now, op.socket, n);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                socket.readable = op.refused;
                match socket.resumed {
                    true => self.deliver(now, op.socket, 0),
                    false => self.relist(op.socket),
                }
            }
            Err(error) => self.engine.handle_failed(now, op.socket, error),
        }
    }

    /// What was left unread, then the next `n` bytes of the block; the rest is kept for the next
    /// time, as a copy of its own: the block stays the thread's.
    pub(crate) fn deliver(&mut self, now: Instant, id: SocketId, n: usize) {
        let Self { engine, sockets, block, .. } = self;
        let Some(socket) = sockets.get_mut(id) else { return block.advance(n) };
        socket.resumed = false;
        let eof = socket.eof;
        if socket.unread.is_empty() {
            let mut input = Input::new(block, n, eof);
            engine.handle_input(now, id, &mut input);
            let left = input.len();
            if left > 0 {
                let rest = BytesMut::from(&block[..left]);
                block.advance(left);
                self.keep(id, rest);
            }
        } else {
            // It was a copy already, so that a head arriving byte by byte is copied once.
            let mut joined = std::mem::take(&mut socket.unread);
            joined.extend_from_slice(&block[..n]);
            block.advance(n);
            engine.handle_input(now, id, &mut Input::all(&mut joined, eof));
            self.keep(id, joined);
        }
        self.relist(id);
    }

    fn keep(&mut self, id: SocketId, rest: BytesMut) {
        if let Some(socket) = self.sockets.get_mut(id)
            && !rest.is_empty()
        {
            socket.unread = rest;
        }
    }

    /// A socket has been read from: perhaps it is due again, perhaps it is waited for differently.
    pub(crate) fn relist(&mut self, id: SocketId) {
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.list(&mut self.due);
            socket.update_interest(&mut self.selector);
        }
    }

    /// The block is empty and whole; a new one if somebody kept a share of it.
    fn clear_block(&mut self) {
        self.block.clear();
        if !self.block.try_reclaim(BLOCK_SIZE) {
            self.block = BytesMut::with_capacity(BLOCK_SIZE);
        }
    }
}

/// Sockets read by one list; they share the block.
const BATCH_LEN_MAX: usize = 64;
/// Memory for one list: one busy socket has all of it, 64 have 4 KB each.
const BLOCK_SIZE: usize = 256 * 1024;
