//! Messages of multi handles.

use std::ffi::{c_int, c_void};

/// `struct CURLMsg`.
#[derive(Debug)]
#[repr(C)]
pub struct CurlMessage {
    kind: c_int,
    easy: *mut c_void,
    /// A union: the result, of type `CURLcode`, or a pointer.
    result: usize,
}

impl Default for CurlMessage {
    fn default() -> Self {
        Self::done(std::ptr::null_mut(), 0)
    }
}

impl CurlMessage {
    /// A transfer has ended.
    pub(crate) fn done(easy: *mut c_void, result: usize) -> Self {
        Self { kind: MESSAGE_DONE, easy, result }
    }
}

/// `CURLMSG_DONE`.
const MESSAGE_DONE: c_int = 1;
