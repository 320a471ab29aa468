//! How many handles of a multi handle are in which state.

use crate::handles::Multi;
use crate::values::CPointer;

impl Multi {
    /// All easy handles, in the order of their addition (curl_multi_get_handles(3)).
    pub fn handles(&self) -> Vec<CPointer> {
        self.added.borrow().values().map(|easy| easy.handle()).collect()
    }

    /// A number of handles (curl_multi_get_offt(3)); `None` if `info` is unknown.
    pub fn count(&self, info: i32) -> Option<i64> {
        let count = match info {
            CURRENT => self.added.borrow().len(),
            RUNNING => self.running(),
            PENDING => 0, // a limit of connections delays a running transfer
            DONE => self.added.borrow().len() - self.running(),
            ADDED => self.added_count.get(),
            _ => return None,
        };
        i64::try_from(count).ok()
    }
}

/// `CURLMINFO_XFERS_CURRENT`: handles in the multi handle.
const CURRENT: i32 = 1;
/// `CURLMINFO_XFERS_RUNNING`: those whose transfers have not ended.
const RUNNING: i32 = 2;
/// `CURLMINFO_XFERS_PENDING`: those that wait for a limit.
const PENDING: i32 = 3;
/// `CURLMINFO_XFERS_DONE`: those whose transfers have ended.
const DONE: i32 = 4;
/// `CURLMINFO_XFERS_ADDED`: handles that have ever been added.
const ADDED: i32 = 5;
