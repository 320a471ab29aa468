//! `curl_share_*`.

use std::ffi::{c_int, c_void};

use fulmar_curl::code::ShareCode;
use fulmar_curl::{Argument, CPointer};

use crate::border::CFunctions;
use crate::handle::{CurlShareHandle, guard, share};

/// A share that holds nothing; `NULL` if that fails.
#[unsafe(no_mangle)]
pub extern "C" fn curl_share_init() -> *mut CurlShareHandle {
    guard(std::ptr::null_mut(), CurlShareHandle::create)
}

/// Sets an option. In C the argument is a variable one, of one word for every option.
///
/// # Safety
/// `handle` is `NULL` or a share; `argument` is of the kind that the option requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_share_setopt(
    handle: *mut CurlShareHandle,
    option: c_int,
    argument: *mut c_void,
) -> c_int {
    guard(ShareCode::NoMemory.number(), || {
        // SAFETY: by the contract.
        let Some(known) = (unsafe { share(handle) }) else { return ShareCode::Invalid.number() };
        let argument = match option {
            // An `int`: the upper half of the word is undefined.
            SHARE | UNSHARE => Argument::Number(i64::from(low_half(argument))),
            _ => Argument::Pointer(CPointer(argument)),
        };
        ShareCode::number_of(known.share.set(option, argument))
    })
}

/// Frees a share that no handle uses.
///
/// # Safety
/// `handle` is `NULL` or a share that is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_share_cleanup(handle: *mut CurlShareHandle) -> c_int {
    guard(ShareCode::NoMemory.number(), || {
        // SAFETY: by the contract.
        let Some(known) = (unsafe { share(handle) }) else { return ShareCode::Invalid.number() };
        if let Err(code) = known.share.close(&CFunctions) {
            return code.number();
        }
        // SAFETY: by the contract.
        unsafe { CurlShareHandle::free(handle) };
        0
    })
}

fn low_half(argument: *mut c_void) -> i32 {
    let [a, b, c, d, ..] = argument.addr().to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

/// `CURLSHOPT_SHARE`.
const SHARE: c_int = 1;
/// `CURLSHOPT_UNSHARE`.
const UNSHARE: c_int = 2;
