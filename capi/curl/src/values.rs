//! The values that `curl_easy_setopt` has stored, sorted by option.
//!
//! A handle has few of the 302 options set, so a short sorted list is smaller than fields for all,
//! and a copy of it is what `curl_easy_duphandle` needs. A transfer reads about 40 options, most of
//! which are not set: a bit for each answers that.

use std::ffi::c_void;
use std::sync::Arc;

use crate::option::{OptionId, PLACES};

/// An address of the application's: a function, or an argument for one. Only the border to C can
/// use what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CPointer(pub *mut c_void);

impl CPointer {
    /// `NULL`.
    pub const NULL: Self = Self(std::ptr::null_mut());

    /// True for `NULL`.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }
}

impl Default for CPointer {
    fn default() -> Self {
        Self::NULL
    }
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionValue {
    /// A `long` or a `curl_off_t`.
    Number(i64),
    /// A copy of a string or a blob.
    Bytes(Arc<[u8]>),
    /// An object, a list, a function, or the argument of a callback.
    Pointer(CPointer),
}

/// The options of a handle that have been set.
#[derive(Clone, Debug, Default)]
pub struct OptionValues {
    values: Vec<(OptionId, OptionValue)>,
    /// A bit for each option in `values`.
    present: [u64; PLACES / 64],
}

impl OptionValues {
    /// The number of an option: 0, or its default, unless it was set.
    pub fn number(&self, id: OptionId) -> i64 {
        match self.get(id) {
            Some(OptionValue::Number(number)) => *number,
            _ => default_number(id),
        }
    }

    /// True unless the number of an option is 0.
    pub fn is_on(&self, id: OptionId) -> bool {
        self.number(id) != 0
    }

    /// The string or blob of an option.
    pub fn bytes(&self, id: OptionId) -> Option<&Arc<[u8]>> {
        match self.get(id)? {
            OptionValue::Bytes(bytes) => Some(bytes),
            OptionValue::Number(_) | OptionValue::Pointer(_) => None,
        }
    }

    /// The address of an option: `NULL` unless it was set.
    pub fn pointer(&self, id: OptionId) -> CPointer {
        match self.get(id) {
            Some(OptionValue::Pointer(pointer)) => *pointer,
            _ => CPointer::NULL,
        }
    }

    /// All that were set, in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(OptionId, OptionValue)> {
        self.values.iter()
    }

    /// Stores a value.
    pub fn set(&mut self, id: OptionId, value: OptionValue) {
        match self.find(id) {
            Ok(at) => self.values[at].1 = value,
            Err(at) => {
                if self.values.len() == self.values.capacity() {
                    // Handles are many, and have few options: mostly no more than six.
                    let more = if self.values.is_empty() { 6 } else { 2 + self.values.len() / 4 };
                    self.values.reserve_exact(more);
                }
                self.values.insert(at, (id, value));
                self.mark(id, true);
            }
        }
    }

    /// Frees the memory for options that are not set: a transfer is about to begin.
    pub(crate) fn shrink(&mut self) {
        if self.values.capacity() > self.values.len() {
            self.values.shrink_to_fit();
        }
    }

    /// Returns an option to its default.
    pub fn unset(&mut self, id: OptionId) {
        if let Ok(at) = self.find(id) {
            self.values.remove(at);
            self.mark(id, false);
        }
    }

    fn mark(&mut self, id: OptionId, is_present: bool) {
        let Some(place) = id.place() else { return };
        let (word, bit) = (&mut self.present[place / 64], 1 << (place % 64));
        *word = if is_present { *word | bit } else { *word & !bit };
    }

    fn is_present(&self, id: OptionId) -> bool {
        id.place().is_some_and(|place| self.present[place / 64] >> (place % 64) & 1 != 0)
    }

    fn get(&self, id: OptionId) -> Option<&OptionValue> {
        if !self.is_present(id) {
            return None;
        }
        self.find(id).ok().map(|at| &self.values[at].1)
    }

    fn find(&self, id: OptionId) -> Result<usize, usize> {
        self.values.binary_search_by_key(&id, |(id, _)| *id)
    }
}

/// The defaults that are not 0 (the manual page of each option).
fn default_number(id: OptionId) -> i64 {
    match id {
        OptionId::PROTOCOLS
        | OptionId::MAXREDIRS
        | OptionId::INFILESIZE_LARGE
        | OptionId::POSTFIELDSIZE_LARGE => -1,
        OptionId::REDIR_PROTOCOLS => REDIR_PROTOCOLS_DEFAULT,
        OptionId::NOPROGRESS
        | OptionId::HTTPAUTH
        | OptionId::PROXYAUTH
        | OptionId::HEADEROPT
        | OptionId::SSL_VERIFYPEER
        | OptionId::PROXY_SSL_VERIFYPEER
        | OptionId::DOH_SSL_VERIFYPEER
        | OptionId::SSL_SESSIONID_CACHE
        | OptionId::SSL_ENABLE_ALPN
        | OptionId::TCP_NODELAY
        | OptionId::HTTP_CONTENT_DECODING
        | OptionId::HTTP_TRANSFER_DECODING => 1,
        OptionId::SSL_VERIFYHOST
        | OptionId::PROXY_SSL_VERIFYHOST
        | OptionId::DOH_SSL_VERIFYHOST => 2,
        OptionId::DNS_CACHE_TIMEOUT | OptionId::TCP_KEEPIDLE | OptionId::TCP_KEEPINTVL => 60,
        OptionId::SOCKS5_AUTH => 0b101, // Basic and GSS-API
        OptionId::EXPECT_100_TIMEOUT_MS => 1_000,
        OptionId::NEW_FILE_PERMS => 0o644,
        OptionId::MAXAGE_CONN => 118,
        OptionId::MAXCONNECTS => 5,
        OptionId::HAPPY_EYEBALLS_TIMEOUT_MS => 200,
        OptionId::UPKEEP_INTERVAL_MS => 60_000,
        OptionId::BUFFERSIZE => 16_384,
        OptionId::UPLOAD_BUFFERSIZE => 65_536,
        OptionId::CONNECTTIMEOUT_MS => 300_000,
        _ => 0,
    }
}

/// HTTP, HTTPS, FTP and FTPS.
const REDIR_PROTOCOLS_DEFAULT: i64 = 0b1111;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_kept_by_option_in_any_order() {
        let mut values = OptionValues::default();
        let ids = [OptionId::URL, OptionId::PORT, OptionId::VERBOSE, OptionId::MAXREDIRS];
        for (id, number) in ids.into_iter().zip(1..) {
            values.set(id, OptionValue::Number(number));
        }
        values.set(OptionId::PORT, OptionValue::Number(7));
        assert_eq!(ids.map(|id| values.number(id)), [1, 7, 3, 4]);
        let copy = values.clone();
        values.unset(OptionId::MAXREDIRS);
        assert_eq!(values.number(OptionId::MAXREDIRS), -1, "the default");
        assert_eq!(copy.number(OptionId::MAXREDIRS), 4);
    }

    #[test]
    fn a_value_of_another_kind_is_no_value() {
        let mut values = OptionValues::default();
        values.set(OptionId::URL, OptionValue::Bytes(Arc::from(&b"http://a/"[..])));
        assert_eq!(values.number(OptionId::URL), 0);
        assert!(values.pointer(OptionId::URL).is_null());
        assert_eq!(values.bytes(OptionId::URL).map(|bytes| &bytes[..]), Some(&b"http://a/"[..]));
    }
}
