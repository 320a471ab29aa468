//! Memory that connections need while an input is handled, and not between inputs.

use std::collections::VecDeque;

use fulmar_proto::{Block, Scratch};

use super::{Connections, OPENED_SIZE};
use crate::Action;

/// The memory for an input, for [`Connections::swap_memory`]. Nothing is allocated before it is
/// needed.
#[derive(Debug)]
pub struct InputMemory {
    actions: VecDeque<Action>,
    scratch: Scratch,
    opened: Block,
}

impl Default for InputMemory {
    fn default() -> Self {
        let (actions, scratch) = Default::default();
        Self { actions, scratch, opened: Block::new(OPENED_SIZE) }
    }
}

impl<C, T> Connections<C, T> {
    /// Exchanges the memory for an input. It holds nothing between inputs, except for actions that
    /// the driver has not taken: those stay. Engines that work in turn in one thread need only one.
    pub fn swap_memory(&mut self, memory: &mut InputMemory) {
        std::mem::swap(&mut self.scratch, &mut memory.scratch);
        std::mem::swap(&mut self.opened, &mut memory.opened);
        if self.outputs.actions.is_empty() {
            std::mem::swap(&mut self.outputs.actions, &mut memory.actions);
        }
    }
}
