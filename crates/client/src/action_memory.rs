//! Memory that a client needs while the application or the driver calls it.

use std::collections::VecDeque;

use fulmar_engine::{Action, InputMemory};

use crate::client::Client;
use crate::state::Command;

/// The memory of a call, for [`Client::swap_memory`]. Nothing is allocated before it is needed.
#[derive(Debug, Default)]
pub struct ClientMemory {
    input: InputMemory,
    commands: VecDeque<Command>,
    actions: VecDeque<Action>,
}

impl<A> Client<A> {
    /// Exchanges the memory of calls, except for queues that are not empty. Clients that work in
    /// turn in one thread need only one of them.
    pub fn swap_memory(&mut self, memory: &mut ClientMemory) {
        self.connections.swap_memory(&mut memory.input);
        let state = &mut self.core.state;
        if state.commands.is_empty() {
            std::mem::swap(&mut state.commands, &mut memory.commands);
        }
        if state.actions.is_empty() {
            std::mem::swap(&mut state.actions, &mut memory.actions);
        }
    }
}
