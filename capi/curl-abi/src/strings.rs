//! Strings of C: those of the application, and copies for it.

use std::ffi::{CStr, c_char};

use crate::memory;

/// A copy for the application, with a NUL behind it; `NULL` without memory.
pub(crate) fn allocate(bytes: &[u8]) -> *mut c_char {
    let copy = memory::allocate(bytes.len() + 1).cast::<u8>();
    if copy.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: there is room for so many bytes.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy, bytes.len()) };
    // SAFETY: and for one more.
    let end = unsafe { copy.add(bytes.len()) };
    // SAFETY: as above.
    unsafe { end.write(0) };
    copy.cast()
}

/// The bytes of a string; `None` of `NULL`.
///
/// # Safety
/// `text` is `NULL` or a string that lives as long as the result.
pub(crate) unsafe fn bytes<'a>(text: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: by the contract.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_bytes())
}
