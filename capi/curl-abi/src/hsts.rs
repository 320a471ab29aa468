//! The callbacks of HSTS.

use std::ffi::{CString, c_char, c_int, c_void};

use fulmar_curl::hsts::HstsEntry;
use fulmar_curl::{HstsCall, HstsRead, HstsWritten};

/// `struct curl_hstsentry`: in C the flag is a bit field, so that the date follows in the next
/// byte.
#[repr(C)]
struct CurlHstsEntry {
    name: *mut c_char,
    name_len: usize,
    flags: u8,
    expire: [c_char; 18],
}

/// `struct curl_index`.
#[repr(C)]
struct CurlIndex {
    index: usize,
    total: usize,
}

type HstsReadFunction = unsafe extern "C" fn(*mut c_void, *mut CurlHstsEntry, *mut c_void) -> c_int;
type HstsWriteFunction =
    unsafe extern "C" fn(*mut c_void, *mut CurlHstsEntry, *mut CurlIndex, *mut c_void) -> c_int;

/// Calls a `curl_hstsread_callback`.
pub(crate) fn read(call: HstsCall) -> HstsRead {
    let mut name = [0; NAME_SIZE];
    let start = name.as_mut_ptr();
    let mut entry =
        CurlHstsEntry { name: start, name_len: NAME_SIZE - 1, flags: 0, expire: [0; 18] };
    // SAFETY: by the option's contract the address is of such a function.
    let function = unsafe { std::mem::transmute::<*mut c_void, HstsReadFunction>(call.function.0) };
    // SAFETY: the entry and the buffer of its name live during the call.
    match unsafe { function(call.easy.0, &raw mut entry, call.user.0) } {
        OK => HstsRead::Host {
            name: text(&name),
            includes_subdomains: entry.flags & 1 != 0,
            expire: text(&entry.expire),
        },
        FAIL => HstsRead::Failed,
        _ => HstsRead::Done,
    }
}

/// Calls a `curl_hstswrite_callback`.
pub(crate) fn write(call: HstsCall, host: &HstsEntry, index: usize, total: usize) -> HstsWritten {
    let end = host.host.iter().position(|byte| *byte == 0).unwrap_or(host.host.len());
    let name = CString::new(&host.host[..end]).expect("it was cut before a NUL");
    let mut entry = CurlHstsEntry {
        name: name.as_ptr().cast_mut(),
        name_len: end,
        flags: u8::from(host.includes_subdomains),
        expire: [0; 18],
    };
    let date = host.expire_text();
    for (to, byte) in entry.expire.iter_mut().take(17).zip(date.bytes()) {
        *to = byte.cast_signed();
    }
    let mut index = CurlIndex { index, total };
    // SAFETY: by the option's contract the address is of such a function.
    let function =
        unsafe { std::mem::transmute::<*mut c_void, HstsWriteFunction>(call.function.0) };
    // SAFETY: the entry, its name and the index live during the call.
    match unsafe { function(call.easy.0, &raw mut entry, &raw mut index, call.user.0) } {
        OK => HstsWritten::Accepted,
        _ => HstsWritten::Refused,
    }
}

/// The bytes before a NUL.
fn text(chars: &[c_char]) -> Vec<u8> {
    let end = chars.iter().position(|char| *char == 0).unwrap_or(chars.len());
    chars[..end].iter().map(|char| char.cast_unsigned()).collect()
}

/// The longest name with its NUL.
const NAME_SIZE: usize = 257;
/// `CURLSTS_OK`.
const OK: c_int = 0;
/// `CURLSTS_FAIL`.
const FAIL: c_int = 2;
