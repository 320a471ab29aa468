//! `struct curl_header`.

use std::ffi::{CStr, c_char, c_uint};

use fulmar_curl::FoundHeader;

/// A header, with its address in the easy handle.
#[derive(Debug)]
#[repr(C)]
pub struct CurlHeader {
    name: *const c_char,
    value: *const c_char,
    amount: usize,
    index: usize,
    origin: c_uint,
    /// The position of the line, for the next call.
    pub(crate) anchor: usize,
}

impl CurlHeader {
    pub(crate) fn of(found: FoundHeader<'_>) -> Self {
        let FoundHeader { name, value, amount, index, origin, position } = found;
        let [name, value] = [name, value].map(CStr::as_ptr);
        Self { name, value, amount, index, origin, anchor: position }
    }

    /// Before the first header.
    pub(crate) fn none() -> Self {
        let name = std::ptr::null();
        Self { name, value: name, amount: 0, index: 0, origin: 0, anchor: 0 }
    }
}
