//! Files for layers that must see their bytes, such as TLS: read into the thread's memory.

use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

use fulmar_engine::{Engine, SocketId};
use fulmar_sys as sys;

use crate::reactor::Reactor;
use crate::selector::Selector;
use crate::steps::SHRUNK;

impl<E: Engine, S: Selector> Reactor<E, S> {
    /// Reads the range that the engine tells, or as much of it as there is memory for. It asks
    /// again for the rest.
    pub(crate) fn load(&mut self, now: Instant, id: SocketId) {
        let Some(range) = self.engine.poll_load(id) else { return };
        let len = usize::try_from(range.len).unwrap_or(LOAD_SIZE).min(LOAD_SIZE);
        if self.loaded.len() < len {
            self.loaded.resize(len, 0);
        }
        match sys::pread(range.file.as_fd(), &mut self.loaded[..len], range.offset) {
            Ok(0) if len > 0 => {
                let error = io::Error::new(io::ErrorKind::UnexpectedEof, SHRUNK);
                self.engine.handle_failed(now, id, error);
            }
            Ok(n) => self.engine.handle_loaded(now, id, &self.loaded[..n]),
            Err(error) => self.engine.handle_failed(now, id, error),
        }
    }
}

/// As much as a layer seals ahead of its socket.
const LOAD_SIZE: usize = 128 * 1024;
