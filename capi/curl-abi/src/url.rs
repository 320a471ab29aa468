//! `curl_url_*`, and `curl_getdate`.

use std::ffi::{c_char, c_int, c_uint, c_void};

use fulmar_curl::code::UrlCode;
use fulmar_curl::date::getdate;
use fulmar_curl::url::{CurlUrl, UrlFlags, UrlPart};

use crate::handle::guard;
use crate::strings::{allocate, bytes};

/// What `CURLU *` points to.
#[derive(Debug)]
pub struct CurlUrlHandle(CurlUrl);

/// An empty URL; `NULL` if that fails.
#[unsafe(no_mangle)]
pub extern "C" fn curl_url() -> *mut CurlUrlHandle {
    guard(std::ptr::null_mut(), || Box::into_raw(Box::new(CurlUrlHandle(CurlUrl::new()))))
}

/// Frees a URL.
///
/// # Safety
/// `handle` is `NULL` or a URL that is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_url_cleanup(handle: *mut CurlUrlHandle) {
    if !handle.is_null() {
        // SAFETY: by the contract it is from `curl_url` or `curl_url_dup`.
        guard((), || drop(unsafe { Box::from_raw(handle) }));
    }
}

/// A copy of a URL.
///
/// # Safety
/// `handle` is `NULL` or a URL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_url_dup(handle: *const CurlUrlHandle) -> *mut CurlUrlHandle {
    guard(std::ptr::null_mut(), || {
        // SAFETY: by the contract.
        let copy = unsafe { handle.as_ref() }.map(|known| CurlUrlHandle(known.0.clone()));
        copy.map_or(std::ptr::null_mut(), |copy| Box::into_raw(Box::new(copy)))
    })
}

/// A copy of a URL for a transfer.
///
/// # Safety
/// `handle` is `NULL` or a URL.
pub(crate) unsafe fn copy(handle: *const CurlUrlHandle) -> Option<CurlUrl> {
    // SAFETY: by the contract.
    unsafe { handle.as_ref() }.map(|known| known.0.clone())
}

/// Sets a part; with `NULL` it is cleared.
///
/// # Safety
/// `handle` is `NULL` or a URL; `text` is `NULL` or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_url_set(
    handle: *mut CurlUrlHandle,
    part: c_int,
    text: *const c_char,
    flags: c_uint,
) -> c_int {
    guard(UrlCode::OutOfMemory.number(), || {
        // SAFETY: by the contract.
        let Some(known) = (unsafe { handle.as_mut() }) else { return UrlCode::BadHandle.number() };
        let set = UrlPart::from_number(part).and_then(|part| {
            // SAFETY: by the contract.
            match unsafe { bytes(text) } {
                Some(text) => known.0.set(part, text, UrlFlags(flags)),
                None => {
                    known.0.clear(part);
                    Ok(())
                }
            }
        });
        UrlCode::number_of(set)
    })
}

/// Stores a copy of a part, for `curl_free`.
///
/// # Safety
/// `handle` is `NULL` or a URL; `to` is `NULL` or a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_url_get(
    handle: *const CurlUrlHandle,
    part: c_int,
    to: *mut *mut c_char,
    flags: c_uint,
) -> c_int {
    guard(UrlCode::OutOfMemory.number(), || {
        // SAFETY: by the contract.
        let Some(known) = (unsafe { handle.as_ref() }) else { return UrlCode::BadHandle.number() };
        if to.is_null() {
            return UrlCode::BadPartPointer.number();
        }
        let found = UrlPart::from_number(part).and_then(|part| known.0.get(part, UrlFlags(flags)));
        let (text, code) = match found {
            Ok(text) => match allocate(&text) {
                text if text.is_null() => (text, UrlCode::OutOfMemory.number()),
                text => (text, 0),
            },
            Err(code) => (std::ptr::null_mut(), code.number()),
        };
        // SAFETY: by the contract.
        unsafe { to.write(text) };
        code
    })
}

/// Seconds since 1970 of a date in one of many forms; -1 if it is none.
///
/// # Safety
/// `text` is `NULL` or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_getdate(text: *const c_char, _unused: *const c_void) -> i64 {
    // SAFETY: by the contract.
    guard(-1, || unsafe { bytes(text) }.map_or(-1, getdate))
}
