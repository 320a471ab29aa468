//! `curl_mime_*`: a `curl_mime *` is the address of a [`FormTree`], a `curl_mimepart *` that of a
//! [`FormNode`], which its tree keeps.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::rc::Rc;

use fulmar_curl::code::CurlCode;
use fulmar_curl::{CPointer, CallbackSource, FormNode, FormTree};

use crate::border::CFunctions;
use crate::handle::{CurlHandle, guard};
use crate::memory;
use crate::slist::CurlSlist;
use crate::strings::bytes;

/// A tree without parts; `NULL` if that fails. The handle is not used.
#[unsafe(no_mangle)]
pub extern "C" fn curl_mime_init(_handle: *mut CurlHandle) -> *const FormTree {
    guard(std::ptr::null(), || FormTree::new().map_or(std::ptr::null(), Rc::into_raw))
}

/// Frees a tree with its parts, and removes it from the part that it belongs to.
///
/// # Safety
/// `tree` is `NULL` or a tree that is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_mime_free(tree: *const FormTree) {
    guard((), || {
        // SAFETY: by the contract it is alive.
        let Some(known) = (unsafe { tree.as_ref() }) else { return };
        let owned = known.detach();
        // SAFETY: no part owns it, so the reference that curl_mime_init returned is the owner.
        let owned = owned.unwrap_or_else(|| unsafe { Rc::from_raw(tree) });
        owned.release(&CFunctions);
    });
}

/// Appends a part.
///
/// # Safety
/// `tree` is `NULL` or a tree.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_mime_addpart(tree: *const FormTree) -> *const FormNode {
    guard(std::ptr::null(), || {
        // SAFETY: by the contract.
        let tree = unsafe { shared(tree) };
        tree.map_or(std::ptr::null(), |tree| Rc::as_ptr(&tree.add_part()))
    })
}

/// Another reference to a tree.
///
/// # Safety
/// `tree` is `NULL` or a tree.
pub(crate) unsafe fn shared(tree: *const FormTree) -> Option<Rc<FormTree>> {
    if tree.is_null() {
        return None;
    }
    // SAFETY: by the contract it is alive, and from Rc::into_raw.
    unsafe { Rc::increment_strong_count(tree) };
    // SAFETY: the reference was just counted.
    Some(unsafe { Rc::from_raw(tree) })
}

/// Calls `act` with a part.
///
/// # Safety
/// `part` is `NULL` or a part.
unsafe fn with(
    part: *const FormNode,
    act: impl FnOnce(&FormNode) -> Result<(), CurlCode>,
) -> c_int {
    guard(CurlCode::OutOfMemory.number(), || {
        // SAFETY: by the contract.
        let part = unsafe { part.as_ref() };
        CurlCode::number_of(part.ok_or(CurlCode::BadFunctionArgument).and_then(act))
    })
}

/// Sets a string of a part.
macro_rules! strings {
    ($($(#[$doc:meta])* $name:ident $set:ident)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// `part` is `NULL` or a part; `text` is `NULL` or a string.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(part: *const FormNode, text: *const c_char) -> c_int {
                let set = |part: &FormNode| {
                    // SAFETY: by the contract.
                    part.$set(unsafe { bytes(text) });
                    Ok(())
                };
                // SAFETY: by the contract.
                unsafe { with(part, set) }
            }
        )*
    };
}

strings! {
    /// Sets the name of the field.
    curl_mime_name set_name
    /// Sets the remote file name.
    curl_mime_filename set_filename
    /// Sets the content type.
    curl_mime_type set_type
}

/// Sets the content transfer encoding.
///
/// # Safety
/// `part` is `NULL` or a part; `name` is `NULL` or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_mime_encoder(part: *const FormNode, name: *const c_char) -> c_int {
    // SAFETY: by the contract.
    let set = |part: &FormNode| part.set_encoder(unsafe { bytes(name) });
    // SAFETY: by the contract.
    unsafe { with(part, set) }
}

/// Makes a copy of bytes the content.
///
/// # Safety
/// `part` is `NULL` or a part; `data` is `NULL` or has so many bytes; with the largest number it is
/// a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_mime_data(
    part: *const FormNode,
    data: *const c_char,
    len: usize,
) -> c_int {
    let set = |part: &FormNode| {
        let data = match len {
            // SAFETY: by the contract.
            ZERO_TERMINATED => unsafe { bytes(data) },
            _ if data.is_null() => None,
            _ if !memory::can_copy(len) => return Err(CurlCode::OutOfMemory),
            // SAFETY: by the contract.
            len => Some(unsafe { std::slice::from_raw_parts(data.cast(), len) }),
        };
        part.set_data(data, &CFunctions);
        Ok(())
    };
    // SAFETY: by the contract.
    unsafe { with(part, set) }
}

/// Makes a file the content.
///
/// # Safety
/// `part` is `NULL` or a part; `path` is `NULL` or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_mime_filedata(part: *const FormNode, path: *const c_char) -> c_int {
    // SAFETY: by the contract.
    let set = |part: &FormNode| part.set_file(unsafe { bytes(path) }, &CFunctions);
    // SAFETY: by the contract.
    unsafe { with(part, set) }
}

/// Makes callbacks the content. A negative size is an unknown one.
///
/// # Safety
/// `part` is `NULL` or a part; the functions are of the types of libcurl's header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_mime_data_cb(
    part: *const FormNode,
    size: i64,
    read: *mut c_void,
    seek: *mut c_void,
    free: *mut c_void,
    user: *mut c_void,
) -> c_int {
    let [read, seek, free, user] = [read, seek, free, user].map(CPointer);
    let source = CallbackSource { read, seek, free, user, has_read: Cell::new(false) };
    let set = |part: &FormNode| {
        part.set_callback(source, u64::try_from(size).ok(), &CFunctions);
        Ok(())
    };
    // SAFETY: by the contract.
    unsafe { with(part, set) }
}

/// Makes parts the content; they are freed with the part.
///
/// # Safety
/// `part` is `NULL` or a part; `parts` is `NULL` or a tree.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_mime_subparts(
    part: *const FormNode,
    parts: *const FormTree,
) -> c_int {
    let set = |part: &FormNode| {
        // SAFETY: by the contract.
        let tree = unsafe { shared(parts) };
        if part.set_parts(tree.as_ref(), &CFunctions)? {
            // SAFETY: the part has a reference now, in the place of that of curl_mime_init.
            unsafe { Rc::decrement_strong_count(parts) };
        }
        Ok(())
    };
    // SAFETY: by the contract.
    unsafe { with(part, set) }
}

/// Sets header lines; with `takes` they are freed with the part.
///
/// # Safety
/// `part` is `NULL` or a part; `list` is `NULL` or a list that lives as long.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_mime_headers(
    part: *const FormNode,
    list: *mut CurlSlist,
    takes: c_int,
) -> c_int {
    let set = |part: &FormNode| {
        part.set_headers(CPointer(list.cast()), takes != 0, &CFunctions);
        Ok(())
    };
    // SAFETY: by the contract.
    unsafe { with(part, set) }
}

/// `CURL_ZERO_TERMINATED`.
const ZERO_TERMINATED: usize = usize::MAX;
