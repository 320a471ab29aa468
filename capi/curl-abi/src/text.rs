//! Functions on strings, and texts of codes.
//!
//! Strings that are returned are from [`memory`], for [`curl_free`].

use std::ffi::{CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use fulmar_curl::code::{CurlCode, MultiCode, ShareCode, UrlCode};
use fulmar_curl::compare::{str_equal, str_nequal};
use fulmar_curl::environment::getenv;
use fulmar_curl::escape::{InputLen, escape, unescape};

use crate::handle::{CurlHandle, guard};
use crate::memory;
use crate::strings::{allocate, bytes};

/// Frees what a function has returned.
///
/// # Safety
/// `pointer` is `NULL` or from a function that requires it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_free(pointer: *mut c_void) {
    // SAFETY: by the contract it is from this library.
    unsafe { memory::free(pointer) };
}

/// `allocate` for the functions of this library in C.
///
/// # Safety
/// There are so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fulmar_copy(bytes: *const c_char, len: usize) -> *mut c_char {
    guard(std::ptr::null_mut(), || {
        // SAFETY: by the contract.
        allocate(unsafe { std::slice::from_raw_parts(bytes.cast(), len) })
    })
}

/// # Safety
/// `text` is `NULL` or has so many bytes; with 0 it is a string.
unsafe fn measured<'a>(text: *const c_char, len: c_int) -> Option<&'a [u8]> {
    match InputLen::of(len)? {
        // SAFETY: by the contract.
        InputLen::UpToNul => unsafe { bytes(text) },
        InputLen::Bytes(len) => {
            // SAFETY: by the contract.
            (!text.is_null()).then(|| unsafe { std::slice::from_raw_parts(text.cast(), len) })
        }
    }
}

/// Encodes bytes for a URL.
///
/// # Safety
/// `text` is `NULL` or has `len` bytes; with a `len` of 0 it is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_easy_escape(
    _handle: *mut CurlHandle,
    text: *const c_char,
    len: c_int,
) -> *mut c_char {
    guard(std::ptr::null_mut(), || {
        // SAFETY: by the contract.
        let text = unsafe { measured(text, len) };
        text.and_then(escape).map_or(std::ptr::null_mut(), |escaped| allocate(&escaped))
    })
}

/// Decodes bytes of a URL. `result_len` gets their number.
///
/// # Safety
/// As [`curl_easy_escape`]; `result_len` is `NULL` or a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_easy_unescape(
    _handle: *mut CurlHandle,
    text: *const c_char,
    len: c_int,
    result_len: *mut c_int,
) -> *mut c_char {
    guard(std::ptr::null_mut(), || {
        // SAFETY: by the contract.
        let Some(text) = (unsafe { measured(text, len) }) else { return std::ptr::null_mut() };
        let decoded = unescape(text);
        let Ok(decoded_len) = c_int::try_from(decoded.len()) else { return std::ptr::null_mut() };
        if !result_len.is_null() {
            // SAFETY: by the contract.
            unsafe { result_len.write(decoded_len) };
        }
        allocate(&decoded)
    })
}

/// As [`curl_easy_escape`].
///
/// # Safety
/// As [`curl_easy_escape`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_escape(text: *const c_char, len: c_int) -> *mut c_char {
    // SAFETY: by the contract.
    unsafe { curl_easy_escape(std::ptr::null_mut(), text, len) }
}

/// As [`curl_easy_unescape`].
///
/// # Safety
/// As [`curl_easy_escape`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_unescape(text: *const c_char, len: c_int) -> *mut c_char {
    // SAFETY: by the contract.
    unsafe { curl_easy_unescape(std::ptr::null_mut(), text, len, std::ptr::null_mut()) }
}

/// 1 if strings are equal in any case.
///
/// # Safety
/// Both are `NULL` or strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_strequal(a: *const c_char, b: *const c_char) -> c_int {
    // SAFETY: by the contract.
    let (a, b) = (unsafe { CBytes::of(a) }, unsafe { CBytes::of(b) });
    guard(0, || str_equal(a, b).into())
}

/// As [`curl_strequal`], for at most `max` bytes.
///
/// # Safety
/// Both are `NULL`, strings, or bytes that are readable up to the first difference.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_strnequal(a: *const c_char, b: *const c_char, max: usize) -> c_int {
    // SAFETY: by the contract.
    let (a, b) = (unsafe { CBytes::of(a) }, unsafe { CBytes::of(b) });
    guard(0, || str_nequal(a, b, max).into())
}

/// The bytes of a string up to its NUL, each read when it is needed.
struct CBytes(*const u8);

impl CBytes {
    /// # Safety
    /// `text` is `NULL`, or each byte that [`Iterator::next`] reads is readable.
    unsafe fn of(text: *const c_char) -> Option<Self> {
        (!text.is_null()).then_some(Self(text.cast()))
    }
}

impl Iterator for CBytes {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        // SAFETY: by the contract of `of` it is readable.
        let byte = unsafe { self.0.read() };
        if byte == 0 {
            return None;
        }
        self.0 = self.0.wrapping_add(1);
        Some(byte)
    }
}

/// The value of an environment variable.
///
/// # Safety
/// `name` is `NULL` or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_getenv(name: *const c_char) -> *mut c_char {
    guard(std::ptr::null_mut(), || {
        // SAFETY: by the contract.
        let name = unsafe { bytes(name) };
        let value = name.and_then(|name| getenv(OsStr::from_bytes(name)));
        value.map_or(std::ptr::null_mut(), |value| allocate(&value.into_vec()))
    })
}

/// Texts of codes, with a NUL behind each.
macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident $code:ident)*) => {
        $(
            $(#[$doc])*
            #[unsafe(no_mangle)]
            pub extern "C" fn $name(code: c_int) -> *const c_char {
                guard(std::ptr::null(), || constant($code::text_of(code)))
            }
        )*
    };
}

texts! {
    /// The text of a `CURLcode`.
    curl_easy_strerror CurlCode
    /// The text of a `CURLMcode`.
    curl_multi_strerror MultiCode
    /// The text of a `CURLSHcode`.
    curl_share_strerror ShareCode
    /// The text of a `CURLUcode`.
    curl_url_strerror UrlCode
}

/// A text with a NUL that lives for ever. There are as many as there are codes.
pub(crate) fn constant(text: &'static str) -> *const c_char {
    use std::collections::BTreeMap;
    use std::sync::Mutex;
    static TEXTS: Mutex<BTreeMap<&str, CString>> = Mutex::new(BTreeMap::new());
    let mut texts = TEXTS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let text = texts
        .entry(text)
        .or_insert_with(|| CString::new(text).expect("texts of codes have no NUL"));
    text.as_ptr()
}
