//! `curl_ws_*`: WebSockets, which Debian's library is built without.

use std::ffi::{c_int, c_uint, c_void};
use std::rc::Rc;
use std::slice;

use fulmar_curl::code::CurlCode;

use crate::border::CFunctions;
use crate::handle::{CurlHandle, easy, guard};
use crate::memory::SLICE_MAX;
use crate::websocket_frame::CurlFrame;

/// Receives payload of a frame.
///
/// # Safety
/// `handle` is `NULL` or a handle; at `buffer` is room for `len` bytes; `received` and `frame` are
/// variables.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_ws_recv(
    handle: *mut CurlHandle,
    buffer: *mut c_void,
    len: usize,
    received: *mut usize,
    frame: *mut *const CurlFrame,
) -> c_int {
    guard(CurlCode::FailedInit.number(), || {
        // SAFETY: by the contract.
        let known = unsafe { easy(handle) };
        let Some(known) = known.filter(|_| !received.is_null() && !frame.is_null()) else {
            return CurlCode::BadFunctionArgument.number();
        };
        let buffer = match buffer.is_null() {
            true => &mut [],
            // SAFETY: by the contract there is so much room, which only this call uses.
            false => unsafe { slice::from_raw_parts_mut(buffer.cast::<u8>(), len.min(SLICE_MAX)) },
        };
        let easy = Rc::clone(&known.easy); // a debug callback may free the handle after a failure
        let (meta, code) = match easy.receive_frame(buffer, &CFunctions) {
            Ok(meta) => (Some(meta), CurlCode::Ok),
            Err(code) => (None, code),
        };
        // SAFETY: by the contract.
        unsafe { received.write(meta.map_or(0, |meta| meta.len)) };
        let kept = meta.map_or(std::ptr::null(), |meta| known.keep_frame(CurlFrame::new(meta)));
        // SAFETY: by the contract.
        unsafe { frame.write(kept) };
        code.number()
    })
}

/// Sends a frame, or a part of one.
///
/// # Safety
/// `handle` is `NULL` or a handle; at `buffer` are `len` bytes; `sent` is a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_ws_send(
    handle: *mut CurlHandle,
    buffer: *const c_void,
    len: usize,
    sent: *mut usize,
    frame_len: i64,
    flags: c_uint,
) -> c_int {
    guard(CurlCode::FailedInit.number(), || {
        // SAFETY: by the contract.
        let known = unsafe { easy(handle) };
        let Some(known) = known.filter(|_| !sent.is_null()) else {
            return CurlCode::BadFunctionArgument.number();
        };
        let payload = match buffer.is_null() {
            true => &[],
            // SAFETY: by the contract there are so many bytes.
            false => unsafe { slice::from_raw_parts(buffer.cast::<u8>(), len.min(SLICE_MAX)) },
        };
        let easy = Rc::clone(&known.easy); // as in curl_ws_recv
        let (len, code) = match easy.send_frame(payload, frame_len, flags, &CFunctions) {
            Ok(len) => (len, CurlCode::Ok),
            Err(code) => (0, code),
        };
        // SAFETY: by the contract.
        unsafe { sent.write(len) };
        code.number()
    })
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

/// The frame that a write callback receives; it lives until the next call.
///
/// # Safety
/// `handle` is `NULL` or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_ws_meta(handle: *mut CurlHandle) -> *const CurlFrame {
    guard(std::ptr::null(), || {
        // SAFETY: by the contract.
        let Some(known) = (unsafe { easy(handle) }) else { return std::ptr::null() };
        match known.easy.frame() {
            Some(meta) => known.keep_frame(CurlFrame::new(meta)),
            None => std::ptr::null(),
        }
    })
}
