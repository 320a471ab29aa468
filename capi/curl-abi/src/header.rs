//! `curl_easy_header` and `curl_easy_nextheader`, and the header functions of pushes, of which
//! there are none.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use fulmar_curl::code::HeaderCode;

use crate::found_header::CurlHeader;
use crate::handle::{CurlHandle, easy, guard};

/// Stores the address of a header in `to`. It is valid until the next call or transfer.
///
/// # Safety
/// `handle` is `NULL` or a handle; `name` is `NULL` or a string; `to` is `NULL` or a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_easy_header(
    handle: *mut CurlHandle,
    name: *const c_char,
    index: usize,
    origins: c_uint,
    request: c_int,
    to: *mut *const CurlHeader,
) -> c_int {
    guard(HeaderCode::BadArgument.number(), || {
        // SAFETY: by the contract.
        let known = unsafe { easy(handle) };
        let Some(known) = known.filter(|_| !name.is_null() && !to.is_null()) else {
            return HeaderCode::BadArgument.number();
        };
        // SAFETY: by the contract.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes();
        let found = known.easy.with_headers(|headers| {
            headers.find(name, index, origins, request).map(CurlHeader::of)
        });
        match found {
            Ok(header) => {
                // SAFETY: by the contract.
                unsafe { to.write(known.keep_header(header)) };
                0
            }
            Err(code) => code.number(),
        }
    })
}

/// The header behind `previous`, or the first one; `NULL` at the end.
///
/// # Safety
/// `handle` is `NULL` or a handle; `previous` is `NULL` or from a call for the same transfer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_easy_nextheader(
    handle: *mut CurlHandle,
    origins: c_uint,
    request: c_int,
    previous: *const CurlHeader,
) -> *const CurlHeader {
    guard(std::ptr::null(), || {
        // SAFETY: by the contract.
        let Some(known) = (unsafe { easy(handle) }) else { return std::ptr::null() };
        // SAFETY: by the contract.
        let position = unsafe { previous.as_ref() }.map_or(0, |previous| previous.anchor);
        let next = known
            .easy
            .with_headers(|headers| headers.next(origins, request, position).map(CurlHeader::of));
        next.map_or(std::ptr::null(), |header| known.keep_header(header))
    })
}

/// A header of a pushed request: there are no pushes.
#[unsafe(no_mangle)]
pub extern "C" fn curl_pushheader_bynum(_headers: *mut c_void, _number: usize) -> *mut c_char {
    std::ptr::null_mut()
}

/// As [`curl_pushheader_bynum`].
#[unsafe(no_mangle)]
pub extern "C" fn curl_pushheader_byname(
    _headers: *mut c_void,
    _name: *const c_char,
) -> *mut c_char {
    std::ptr::null_mut()
}
