//! Files of Unix sockets.

use std::path::PathBuf;

use fulmar_sys as sys;

/// The file of a Unix socket, which outlives its listener; removed when dropped, if it is ours.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    ours: bool,
}

impl SocketFile {
    /// We have made it.
    pub(crate) fn armed(path: PathBuf) -> Self {
        Self { path, ours: true }
    }

    /// It is still another process's.
    pub(crate) fn unarmed(path: PathBuf) -> Self {
        Self { path, ours: false }
    }

    /// It was handed over to us.
    pub(crate) fn arm(&mut self) {
        self.ours = true;
    }

    /// It was handed over by us.
    pub(crate) fn disarm(&mut self) {
        self.ours = false;
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.ours {
            let _ = sys::unlink(&self.path); // fails if it is removed already
        }
    }
}
