//! `curl_ws_*`: in 7.88 an experiment, which Debian's library and this one are built without.

use std::ffi::{c_int, c_uint, c_void};

use fulmar_curl::code::CurlCode;

use crate::handle::CurlHandle;

/// `struct curl_ws_frame`. There is none, so its fields do not matter.
#[derive(Debug)]
#[repr(C)]
pub struct CurlFrame {
    age: c_int,
}

/// Receives a frame.
#[unsafe(no_mangle)]
pub extern "C" fn curl_ws_recv(
    _handle: *mut CurlHandle,
    _buffer: *mut c_void,
    _len: usize,
    _received: *mut usize,
    _frame: *mut *mut CurlFrame,
) -> c_int {
    CurlCode::NotBuiltIn.number()
}

/// Sends a frame.
#[unsafe(no_mangle)]
pub extern "C" fn curl_ws_send(
    _handle: *mut CurlHandle,
    _buffer: *const c_void,
    _len: usize,
    _sent: *mut usize,
    _frame_len: i64,
    _flags: c_uint,
) -> c_int {
    CurlCode::NotBuiltIn.number()
}

/// Begins a frame (from libcurl 8.16 on).
#[unsafe(no_mangle)]
pub extern "C" fn curl_ws_start_frame(
    _handle: *mut CurlHandle,
    _flags: c_uint,
    _frame_len: i64,
) -> c_int {
    CurlCode::NotBuiltIn.number()
}

/// The frame that a write callback receives.
#[unsafe(no_mangle)]
pub extern "C" fn curl_ws_meta(_handle: *mut CurlHandle) -> *mut CurlFrame {
    std::ptr::null_mut()
}
