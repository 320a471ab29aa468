//! The key log of the process: the file that `SSLKEYLOGFILE` names, for tools that decrypt traffic.
//!
//! The first `curl_global_init` opens it, the last `curl_global_cleanup` closes it. A file that
//! cannot be opened is ignored.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::{PoisonError, RwLock};

use fulmar_tls::KeyLogFile;

use crate::environment::getenv;

static KEY_LOG: RwLock<Option<KeyLogFile>> = RwLock::new(None);

/// Opens the file that the environment names.
pub fn open_key_log() {
    let file = getenv(OsStr::new("SSLKEYLOGFILE"));
    let file = file.and_then(|path| KeyLogFile::open(Path::new(&path)).ok());
    *KEY_LOG.write().unwrap_or_else(PoisonError::into_inner) = file;
}

/// Closes the file, once no configuration uses it.
pub fn close_key_log() {
    *KEY_LOG.write().unwrap_or_else(PoisonError::into_inner) = None;
}

/// The open file.
pub(crate) fn key_log() -> Option<KeyLogFile> {
    KEY_LOG.read().unwrap_or_else(PoisonError::into_inner).clone()
}
