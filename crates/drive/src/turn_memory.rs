//! Memory that a reactor needs in a turn only.

use std::collections::VecDeque;

use fulmar_engine::{Endpoint, SocketId};
use fulmar_proto::Block;

use crate::executor::Op;
use crate::reactor::Reactor;
use crate::receive::BLOCK_SIZE;

/// The memory of a turn, for [`Reactor::swap_memory`]. Nothing is allocated before it is needed.
#[derive(Debug)]
pub struct TurnMemory {
    block: Block,
    receives: Vec<Op>,
    sends: Vec<Op>,
    connects: VecDeque<(SocketId, Endpoint)>,
    lists: [Vec<SocketId>; LISTS],
    buffer: Vec<u8>,
}

impl Default for TurnMemory {
    fn default() -> Self {
        let (receives, sends, connects) = Default::default();
        let (lists, buffer) = Default::default();
        Self { block: Block::new(BLOCK_SIZE), receives, sends, connects, lists, buffer }
    }
}

impl<E, S> Reactor<E, S> {
    /// Exchanges the memory that it needs in a turn, except for lists that are not empty. Reactors
    /// that work in turn in one thread need only one of them.
    pub fn swap_memory(&mut self, memory: &mut TurnMemory) {
        std::mem::swap(&mut self.block, &mut memory.block);
        for (own, other) in
            [(&mut self.receives, &mut memory.receives), (&mut self.sends, &mut memory.sends)]
        {
            debug_assert!(own.is_empty(), "a turn is over");
            std::mem::swap(own, other);
        }
        if self.buffer.is_empty() {
            std::mem::swap(&mut self.buffer, &mut memory.buffer);
        }
        // Sockets may be left for the next turn.
        let lists: [_; LISTS] = [
            &mut self.connected,
            &mut self.receive_queue,
            &mut self.receive_turn,
            &mut self.send_queue,
            &mut self.new_transmits,
            &mut self.new_sockets,
        ];
        for (own, other) in lists.into_iter().zip(&mut memory.lists) {
            if own.is_empty() {
                std::mem::swap(own, other);
            }
        }
        // Connects may be left, which the application has not taken.
        if let Some(connects) = self.handed_connects.as_mut().filter(|it| it.is_empty()) {
            std::mem::swap(connects, &mut memory.connects);
        }
    }
}

/// The lists of sockets in a turn's memory.
const LISTS: usize = 6;
