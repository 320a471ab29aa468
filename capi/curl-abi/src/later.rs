//! Functions of libcurl after 7.88, for programs that look for them.

use std::ffi::{c_char, c_int, c_uint, c_void};

use fulmar_curl::code::{CurlCode, MultiCode};
use fulmar_curl::{CPointer, POLL_IN, POLL_OUT};

use crate::handle::{CurlHandle, CurlMultiHandle, guard, multi};
use crate::memory;
use crate::multi::CurlWaitFd;

/// All easy handles of a multi handle, with `NULL` behind them, for `curl_free`.
///
/// # Safety
/// `handle` is `NULL` or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_multi_get_handles(
    handle: *mut CurlMultiHandle,
) -> *mut *mut CurlHandle {
    guard(std::ptr::null_mut(), || {
        // SAFETY: by the contract.
        let Some(known) = (unsafe { multi(handle) }) else { return std::ptr::null_mut() };
        let added = known.multi.handles();
        let list = memory::allocate((added.len() + 1) * size_of::<*mut CurlHandle>());
        let list = list.cast::<*mut CurlHandle>();
        if !list.is_null() {
            let ended = added.into_iter().chain([CPointer::NULL]);
            for (at, CPointer(easy)) in ended.enumerate() {
                // SAFETY: there is room for one more than were added.
                let element = unsafe { list.add(at) };
                // SAFETY: as above.
                unsafe { element.write(easy.cast()) };
            }
        }
        list
    })
}

/// Stores how many handles are in a state (`CURLMINFO_XFERS_*`).
///
/// # Safety
/// `handle` is `NULL` or a handle; `value` is `NULL` or a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_multi_get_offt(
    handle: *mut CurlMultiHandle,
    info: c_int,
    value: *mut i64,
) -> c_int {
    guard(MultiCode::InternalError.number(), || {
        // SAFETY: by the contract.
        let Some(known) = (unsafe { multi(handle) }) else { return MultiCode::BadHandle.number() };
        if value.is_null() {
            return MultiCode::BadFunctionArgument.number();
        }
        let count = known.multi.count(info);
        // SAFETY: by the contract.
        unsafe { value.write(count.unwrap_or(-1)) };
        match count {
            Some(_) => MultiCode::Ok.number(),
            None => MultiCode::UnknownOption.number(),
        }
    })
}

/// Fills `fds` with the descriptors to wait for, and stores how many there are. With `NULL` for
/// `fds` it only counts.
///
/// # Safety
/// `handle` is `NULL` or a handle; `fds` is `NULL` or has `size` elements; `count` is `NULL` or a
/// variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_multi_waitfds(
    handle: *mut CurlMultiHandle,
    fds: *mut CurlWaitFd,
    size: c_uint,
    count: *mut c_uint,
) -> c_int {
    guard(MultiCode::InternalError.number(), || {
        if fds.is_null() && (size > 0 || count.is_null()) {
            return MultiCode::BadFunctionArgument.number();
        }
        // SAFETY: by the contract.
        let Some(known) = (unsafe { multi(handle) }) else { return MultiCode::BadHandle.number() };
        if let Err(code) = known.multi.check_usable() {
            return code.number();
        }
        let needed = known.multi.descriptors();
        let wait = |(fd, what): (c_int, c_int)| {
            CurlWaitFd::new(fd, what & POLL_IN != 0, what & POLL_OUT != 0)
        };
        if !fds.is_null() {
            // SAFETY: by the contract there are so many.
            let elements = unsafe { std::slice::from_raw_parts_mut(fds, size as usize) };
            for (element, needed) in elements.iter_mut().zip(&needed) {
                *element = wait(*needed);
            }
        }
        if !count.is_null() {
            let needed = c_uint::try_from(needed.len()).unwrap_or(c_uint::MAX);
            // SAFETY: by the contract.
            unsafe { count.write(needed) };
        }
        match !fds.is_null() && needed.len() > size as usize {
            true => MultiCode::OutOfMemory.number(),
            false => MultiCode::Ok.number(),
        }
    })
}

/// Enables a notification: there are none, as `CURLMOPT_NOTIFYFUNCTION` is unknown, too.
///
/// # Safety
/// `handle` is `NULL` or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_multi_notify_enable(
    handle: *mut CurlMultiHandle,
    _notification: c_uint,
) -> c_int {
    // SAFETY: by the contract.
    match unsafe { multi(handle) } {
        Some(_) => MultiCode::UnknownOption.number(),
        None => MultiCode::BadHandle.number(),
    }
}

/// Disables a notification, as [`curl_multi_notify_enable`].
///
/// # Safety
/// `handle` is `NULL` or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_multi_notify_disable(
    handle: *mut CurlMultiHandle,
    notification: c_uint,
) -> c_int {
    // SAFETY: by the contract.
    unsafe { curl_multi_notify_enable(handle, notification) }
}

/// Selects components for tracing: a library without tracing accepts every selection.
#[unsafe(no_mangle)]
pub extern "C" fn curl_global_trace(_config: *const c_char) -> c_int {
    CurlCode::Ok.number()
}

/// Imports a TLS session: not built in, as in a libcurl without `USE_SSLS_EXPORT`.
#[unsafe(no_mangle)]
pub extern "C" fn curl_easy_ssls_import(
    _handle: *mut CurlHandle,
    _key: *const c_char,
    _mac: *const u8,
    _mac_len: usize,
    _session: *const u8,
    _session_len: usize,
) -> c_int {
    CurlCode::NotBuiltIn.number()
}

/// Exports TLS sessions: not built in, as [`curl_easy_ssls_import`].
#[unsafe(no_mangle)]
pub extern "C" fn curl_easy_ssls_export(
    _handle: *mut CurlHandle,
    _export: *mut c_void,
    _user: *mut c_void,
) -> c_int {
    CurlCode::NotBuiltIn.number()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::easy::{curl_easy_cleanup, curl_easy_init};
    use crate::multi::{
        curl_multi_add_handle, curl_multi_cleanup, curl_multi_init, curl_multi_remove_handle,
    };

    /// The numbers of `CURLMINFO_XFERS_*` from 0 to 6; -1 where the number is unknown.
    fn counts(handle: *mut CurlMultiHandle) -> [i64; 7] {
        [0, 1, 2, 3, 4, 5, 6].map(|info| {
            let mut value = 9;
            // SAFETY: it is a handle, and a variable.
            let code = unsafe { curl_multi_get_offt(handle, info, &raw mut value) };
            assert_eq!(code == MultiCode::UnknownOption.number(), value == -1);
            value
        })
    }

    #[test]
    fn handles_of_a_multi_handle_are_listed_and_counted() {
        let (handle, easy) = (curl_multi_init(), curl_easy_init());
        // SAFETY: both are handles.
        unsafe { curl_multi_add_handle(handle, easy) };
        assert_eq!(counts(handle), [-1, 1, 1, 0, 0, 1, -1], "it begins at the first action");
        // SAFETY: it is a handle.
        let list = unsafe { curl_multi_get_handles(handle) };
        // SAFETY: one was added, and NULL follows.
        assert_eq!(unsafe { std::slice::from_raw_parts(list, 2) }, [easy, std::ptr::null_mut()]);
        // SAFETY: it is from the function above.
        unsafe { memory::free(list.cast()) };
        // SAFETY: both are handles.
        unsafe { curl_multi_remove_handle(handle, easy) };
        assert_eq!(counts(handle), [-1, 0, 0, 0, 0, 1, -1]);
        // SAFETY: it is not used any more.
        unsafe { curl_easy_cleanup(easy) };
        // SAFETY: as above.
        unsafe { curl_multi_cleanup(handle) };
    }

    #[test]
    fn descriptors_are_counted_without_an_array() {
        let handle = curl_multi_init();
        let mut count = 9;
        let null = std::ptr::null_mut();
        // SAFETY: it is a handle, and a variable.
        let code = unsafe { curl_multi_waitfds(handle, null, 0, &raw mut count) };
        assert_eq!((code, count), (0, 0));
        // SAFETY: as above.
        let code = unsafe { curl_multi_waitfds(handle, null, 1, &raw mut count) };
        assert_eq!(code, MultiCode::BadFunctionArgument.number());
        // SAFETY: it is not used any more.
        unsafe { curl_multi_cleanup(handle) };
    }
}
