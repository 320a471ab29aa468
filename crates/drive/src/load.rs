//! Files for layers that must see their bytes, such as TLS: read into the thread's memory.

use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

use fulmar_engine::{Engine, SocketEvent, SocketId};
use fulmar_proto::FileRange;
use fulmar_sys as sys;

use crate::reactor::Reactor;
use crate::selector::Selector;
use crate::steps::SHRUNK;

impl<E: Engine, S: Selector> Reactor<E, S> {
    /// Reads a file range, or as much of it as fits into the memory for that: the engine requests
    /// the rest later.
    pub(crate) fn load(&mut self, now: Instant, id: SocketId, range: &FileRange) {
        if self.sockets.get(id).is_none() {
            return; // closed meanwhile
        }
        let len = usize::try_from(range.len).unwrap_or(LOAD_SIZE).min(LOAD_SIZE);
        if self.file_memory.len() < len {
            self.file_memory.resize(len, 0);
        }
        match sys::pread(range.file.as_fd(), &mut self.file_memory[..len], range.offset) {
            Ok(0) if len > 0 => {
                let error = io::Error::new(io::ErrorKind::UnexpectedEof, SHRUNK);
                self.report(now, id, SocketEvent::Failed(error));
            }
            Ok(n) => {
                let event = SocketEvent::Loaded(&self.file_memory[..n]);
                self.engine.handle(now, event.of(id));
            }
            Err(error) => self.report(now, id, SocketEvent::Failed(error)),
        }
    }
}

/// As much as a layer seals ahead of its socket.
const LOAD_SIZE: usize = 128 * 1024;
