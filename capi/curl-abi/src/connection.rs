//! Connections without a transfer: `curl_easy_send`, `curl_easy_recv`, `curl_easy_upkeep`.

use std::ffi::{c_int, c_void};
use std::rc::Rc;
use std::slice;

use fulmar_curl::code::CurlCode;

use crate::border::CFunctions;
use crate::handle::{CurlHandle, easy, guard};
use crate::memory::SLICE_MAX;

/// Sends bytes on the connection of a handle with `CURLOPT_CONNECT_ONLY`.
///
/// # Safety
/// `handle` is `NULL` or a handle; at `buffer` are `len` bytes; `sent` is a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_easy_send(
    handle: *mut CurlHandle,
    buffer: *const c_void,
    len: usize,
    sent: *mut usize,
) -> c_int {
    guard(CurlCode::FailedInit.number(), || {
        // SAFETY: by the contract.
        let known = unsafe { easy(handle) };
        let Some(known) = known.filter(|_| !sent.is_null()) else {
            return CurlCode::BadFunctionArgument.number();
        };
        let bytes = match buffer.is_null() {
            true => &[],
            // SAFETY: by the contract there are so many bytes.
            false => unsafe { slice::from_raw_parts(buffer.cast::<u8>(), len.min(SLICE_MAX)) },
        };
        let easy = Rc::clone(&known.easy); // a debug callback may free the handle
        // SAFETY: by the contract.
        unsafe { report_length(easy.send(bytes, &CFunctions), sent) }
    })
}

/// Receives bytes from the connection of a handle with `CURLOPT_CONNECT_ONLY`.
///
/// # Safety
/// `handle` is `NULL` or a handle; at `buffer` is room for `len` bytes; `received` is a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_easy_recv(
    handle: *mut CurlHandle,
    buffer: *mut c_void,
    len: usize,
    received: *mut usize,
) -> c_int {
    guard(CurlCode::FailedInit.number(), || {
        // SAFETY: by the contract.
        let known = unsafe { easy(handle) };
        let Some(known) = known.filter(|_| !received.is_null()) else {
            return CurlCode::BadFunctionArgument.number();
        };
        let buffer = match buffer.is_null() {
            true => &mut [],
            // SAFETY: by the contract there is so much room, which only this call uses.
            false => unsafe { slice::from_raw_parts_mut(buffer.cast::<u8>(), len.min(SLICE_MAX)) },
        };
        let easy = Rc::clone(&known.easy); // as in curl_easy_send
        let result = easy.receive(buffer, &CFunctions);
        if let Err(code @ (CurlCode::UnsupportedProtocol | CurlCode::RecursiveApiCall)) = result {
            return code.number(); // without a connection there is no length
        }
        // SAFETY: by the contract.
        unsafe { report_length(result, received) }
    })
}

/// Stores a length, 0 after a failure, and returns the code.
///
/// # Safety
/// `to` is a variable.
unsafe fn report_length(result: Result<usize, CurlCode>, to: *mut usize) -> c_int {
    let (len, code) = match result {
        Ok(len) => (len, CurlCode::Ok),
        Err(code) => (0, code),
    };
    // SAFETY: by the contract.
    unsafe { to.write(len) };
    code.number()
}

/// Keeps the connections of a handle alive.
///
/// # Safety
/// `handle` is `NULL` or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_easy_upkeep(handle: *mut CurlHandle) -> c_int {
    guard(CurlCode::FailedInit.number(), || {
        // SAFETY: by the contract.
        match unsafe { easy(handle) } {
            Some(known) => {
                let easy = Rc::clone(&known.easy); // a callback for sockets may free the handle
                easy.keep_alive(&CFunctions);
                CurlCode::Ok.number()
            }
            None => CurlCode::BadFunctionArgument.number(),
        }
    })
}
