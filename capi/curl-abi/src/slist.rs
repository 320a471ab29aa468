//! `struct curl_slist`: lists of strings.

use std::ffi::{CStr, CString, c_char};

use crate::memory;
use crate::strings::{allocate, bytes};

/// An element (curl_slist_append(3)).
#[derive(Debug)]
#[repr(C)]
pub struct CurlSlist {
    data: *mut c_char,
    next: *mut Self,
}

/// Appends a copy of a string, and returns the first element; `NULL` without memory.
///
/// # Safety
/// `list` is `NULL` or a list of this function; `text` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_slist_append(
    list: *mut CurlSlist,
    text: *const c_char,
) -> *mut CurlSlist {
    // SAFETY: a string, by the contract.
    let Some(text) = (unsafe { bytes(text) }) else { return std::ptr::null_mut() };
    let data = allocate(text);
    if data.is_null() {
        return std::ptr::null_mut();
    }
    let element = memory::allocate(size_of::<CurlSlist>()).cast::<CurlSlist>();
    if element.is_null() {
        // SAFETY: it is a copy of ours.
        unsafe { memory::free(data.cast()) };
        return std::ptr::null_mut();
    }
    // SAFETY: it is ours and large enough.
    unsafe { element.write(CurlSlist { data, next: std::ptr::null_mut() }) };
    if list.is_null() {
        return element;
    }
    // SAFETY: by the contract it is alive.
    let mut last = unsafe { &mut *list };
    while !last.next.is_null() {
        // SAFETY: elements of a list are alive, by the contract.
        last = unsafe { &mut *last.next };
    }
    last.next = element;
    list
}

/// Frees a list.
///
/// # Safety
/// `list` is `NULL` or a list of [`curl_slist_append`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_slist_free_all(list: *mut CurlSlist) {
    let mut element = list;
    while !element.is_null() {
        // SAFETY: elements of a list are alive, by the contract.
        let CurlSlist { data, next } = unsafe { element.read() };
        // SAFETY: it is a copy of ours, or one that the application has put there.
        unsafe { memory::free(data.cast()) };
        // SAFETY: it is ours.
        unsafe { memory::free(element.cast()) };
        element = next;
    }
}

/// A list of copies of these strings, up to a NUL each; `NULL` if there are none, or no memory.
pub(crate) fn list(texts: &[Vec<u8>]) -> *mut CurlSlist {
    let mut list = std::ptr::null_mut();
    for text in texts {
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        let text = CString::new(&text[..end]).expect("it was cut before a NUL");
        // SAFETY: the list is `NULL` or of this function, the text is a string.
        let longer = unsafe { curl_slist_append(list, text.as_ptr()) };
        if longer.is_null() {
            // SAFETY: as above.
            unsafe { curl_slist_free_all(list) };
            return longer;
        }
        list = longer;
    }
    list
}

/// The strings of a list.
///
/// # Safety
/// `list` is `NULL` or a list whose strings are alive.
pub(crate) unsafe fn strings(list: *const CurlSlist) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut element = list;
    // SAFETY: elements of a list are alive, by the contract.
    while let Some(CurlSlist { data, next }) = unsafe { element.as_ref() } {
        if !data.is_null() {
            // SAFETY: a string, by the contract.
            found.push(unsafe { CStr::from_ptr(*data) }.to_bytes().to_vec());
        }
        element = *next;
    }
    found
}
