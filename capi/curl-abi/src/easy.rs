//! `curl_easy_*`.

use std::ffi::{CStr, CString, c_char, c_double, c_int, c_long, c_void};
use std::rc::Rc;
use std::sync::Arc;

use fulmar_curl::code::CurlCode;
use fulmar_curl::{Argument, CPointer, Easy, InfoId, InfoValue, OptionId, OptionInfo, OptionKind};

use crate::border::{CFunctions, standard_input, standard_output};
use crate::certificates::CurlCertificates;
use crate::handle::{CurlHandle, easy, guard, share};
use crate::memory;
use crate::mime;
use crate::slist::{self, CurlSlist};
use crate::tls_info::CurlTlsSession;

/// A handle with the default options; `NULL` if that fails.
#[unsafe(no_mangle)]
pub extern "C" fn curl_easy_init() -> *mut CurlHandle {
    guard(std::ptr::null_mut(), || {
        memory::ensure_initialized();
        CurlHandle::create(|address| {
            let easy = Easy::new(address);
            set_files(&easy);
            Some(easy)
        })
    })
}

/// The arguments of callbacks that libcurl sets: the application's functions get them, too.
fn set_files(easy: &Easy) {
    easy.set_files(CPointer(standard_output().cast()), CPointer(standard_input().cast()));
}

/// Frees a handle, and removes it from its multi handle.
///
/// # Safety
/// `handle` is `NULL` or a handle that is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_easy_cleanup(handle: *mut CurlHandle) {
    guard((), || {
        // SAFETY: by the contract.
        let Some(known) = (unsafe { easy(handle) }) else { return };
        known.easy.close(&CFunctions);
        known.easy.release_form(&CFunctions);
        // SAFETY: by the contract.
        unsafe { CurlHandle::free(handle) };
    });
}

/// Returns all options to their defaults.
///
/// # Safety
/// `handle` is `NULL` or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_easy_reset(handle: *mut CurlHandle) {
    guard((), || {
        // SAFETY: by the contract.
        if let Some(known) = unsafe { easy(handle) } {
            known.easy.reset(&CFunctions);
            set_files(&known.easy);
        }
    });
}

/// A handle with the same options; `NULL` if that fails.
///
/// # Safety
/// `handle` is `NULL` or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_easy_duphandle(handle: *mut CurlHandle) -> *mut CurlHandle {
    guard(std::ptr::null_mut(), || {
        // SAFETY: by the contract.
        let Some(known) = (unsafe { easy(handle) }) else { return std::ptr::null_mut() };
        CurlHandle::create(|address| known.easy.duplicate(address, &CFunctions))
    })
}

/// Sets an option. In C the argument is a variable one; it is of one word for every option, and is
/// passed as a fixed one would be.
///
/// # Safety
/// `handle` is `NULL` or a handle; `argument` is of the kind that the option requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_easy_setopt(
    handle: *mut CurlHandle,
    option: c_int,
    argument: *mut c_void,
) -> c_int {
    guard(CurlCode::OutOfMemory.number(), || {
        // SAFETY: by the contract.
        let Some(known) = (unsafe { easy(handle) }) else {
            return CurlCode::BadFunctionArgument.number();
        };
        let id = OptionId(option);
        let Some(info) = OptionInfo::by_id(id) else { return CurlCode::UnknownOption.number() };
        let set =
            |argument: Argument<'_>| CurlCode::number_of(known.easy.set(id, argument, &CFunctions));
        match info.kind {
            OptionKind::Long | OptionKind::Values | OptionKind::Offset => {
                set(Argument::Number(argument.addr().cast_signed() as i64))
            }
            // SAFETY: by the contract.
            OptionKind::Text => set(Argument::Bytes(unsafe { string(argument.cast()) })),
            OptionKind::Blob => {
                // SAFETY: by the contract.
                match unsafe { blob(argument.cast()) } {
                    Ok(bytes) => set(Argument::Bytes(bytes)),
                    Err(code) => code.number(),
                }
            }
            OptionKind::Object if id == OptionId::SHARE => {
                // SAFETY: by the contract.
                let share = unsafe { share(argument.cast()) }.map(|known| Arc::clone(&known.share));
                known.easy.set_share(share, &CFunctions);
                0
            }
            OptionKind::Object if id == OptionId::COPYPOSTFIELDS => {
                // SAFETY: by the contract.
                match unsafe { fields(known, argument.cast()) } {
                    Ok(bytes) => set(Argument::Bytes(bytes)),
                    Err(code) => code.number(),
                }
            }
            OptionKind::Object if id == OptionId::MIMEPOST => {
                // SAFETY: by the contract.
                let parts = unsafe { mime::shared(argument.cast()) };
                CurlCode::number_of(known.easy.set_form(parts.as_ref(), &CFunctions))
            }
            OptionKind::Object | OptionKind::List | OptionKind::Callback | OptionKind::Function => {
                set(Argument::Pointer(CPointer(argument)))
            }
        }
    })
}

/// A string of the application.
///
/// # Safety
/// `text` is `NULL` or a string that lives as long as the result.
unsafe fn string<'a>(text: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: by the contract.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// The bytes for `CURLOPT_COPYPOSTFIELDS`: as many as were announced, or a string.
///
/// # Safety
/// `fields` is `NULL` or such bytes, which live as long as the result.
unsafe fn fields<'a>(
    known: &CurlHandle,
    fields: *const c_char,
) -> Result<Option<&'a [u8]>, CurlCode> {
    match known.easy.announced_size() {
        // SAFETY: by the contract there are so many bytes.
        Some(len) if !fields.is_null() => unsafe { copied(fields.cast(), len) }.map(Some),
        // SAFETY: by the contract it is a string.
        _ => Ok(unsafe { string(fields) }),
    }
}

/// Bytes of the application, which are going to be copied.
///
/// # Safety
/// There are so many bytes, which live as long as the result.
unsafe fn copied<'a>(bytes: *const u8, len: usize) -> Result<&'a [u8], CurlCode> {
    if !memory::can_copy(len) {
        return Err(CurlCode::OutOfMemory);
    }
    // SAFETY: by the contract.
    Ok(unsafe { std::slice::from_raw_parts(bytes, len) })
}

/// `struct curl_blob`.
#[repr(C)]
struct CurlBlob {
    data: *const u8,
    len: usize,
    flags: u32,
}

/// The bytes of a blob, which are copied in any case.
///
/// # Safety
/// `pointer` is `NULL` or a blob that lives as long as the result.
unsafe fn blob<'a>(pointer: *const CurlBlob) -> Result<Option<&'a [u8]>, CurlCode> {
    // SAFETY: by the contract.
    match unsafe { pointer.as_ref() } {
        Some(CurlBlob { data, len, .. }) if !data.is_null() => {
            // SAFETY: by the contract.
            let bytes = unsafe { copied(*data, *len) };
            bytes.map(Some).map_err(|_| CurlCode::BadFunctionArgument) // longer than any limit
        }
        _ => Ok(None),
    }
}

/// Stores a value at `to`, whose type the number of the information has.
///
/// # Safety
/// `handle` is `NULL` or a handle; `to` is `NULL` or a variable of that type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_easy_getinfo(
    handle: *mut CurlHandle,
    info: c_int,
    to: *mut c_void,
) -> c_int {
    guard(CurlCode::OutOfMemory.number(), || {
        // SAFETY: by the contract.
        let known = unsafe { easy(handle) };
        let Some(known) = known else { return CurlCode::BadFunctionArgument.number() };
        if to.is_null() {
            return CurlCode::UnknownOption.number();
        }
        match known.easy.info(InfoId(info), &CFunctions) {
            Ok(value) => {
                // SAFETY: by the contract.
                unsafe { store(known, info, value, to) };
                0
            }
            Err(code) => code.number(),
        }
    })
}

/// # Safety
/// `to` is a variable of the type of the value.
unsafe fn store(known: &CurlHandle, info: c_int, value: InfoValue, to: *mut c_void) {
    match value {
        InfoValue::Text(text) => {
            let text = match text {
                Some(text) => keep(known, info, &text),
                None => std::ptr::null(),
            };
            // SAFETY: by the contract.
            unsafe { to.cast::<*const c_char>().write(text) };
        }
        // SAFETY: by the contract.
        InfoValue::Long(number) => unsafe { to.cast::<c_long>().write(number) },
        // SAFETY: by the contract.
        InfoValue::Double(number) => unsafe { to.cast::<c_double>().write(number) },
        // SAFETY: by the contract.
        InfoValue::Offset(number) => unsafe { to.cast::<i64>().write(number) },
        // SAFETY: by the contract.
        InfoValue::Socket(number) => unsafe { to.cast::<c_int>().write(number) },
        // SAFETY: by the contract.
        InfoValue::List(lines) => unsafe { to.cast::<*mut CurlSlist>().write(slist::list(&lines)) },
        // SAFETY: by the contract.
        InfoValue::Pointer(pointer) => unsafe { to.cast::<*mut c_void>().write(pointer.0) },
        InfoValue::TlsSession => {
            let session = std::ptr::from_ref(&known.returned().tls_session);
            // SAFETY: by the contract.
            unsafe { to.cast::<*const CurlTlsSession>().write(session) };
        }
        InfoValue::Certificates(certificates) => {
            let certificates = known.returned().certificates.show(certificates);
            // SAFETY: by the contract.
            unsafe { to.cast::<*const CurlCertificates>().write(certificates) };
        }
    }
}

/// Keeps a text until the next one of the same kind, or the end of the handle.
fn keep(known: &CurlHandle, info: c_int, text: &[u8]) -> *const c_char {
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    let text = CString::new(&text[..end]).expect("it was cut before a NUL");
    let mut strings = known.returned().strings.borrow_mut();
    let kept = strings.entry(info).or_default();
    if *kept != text {
        *kept = text; // an equal one stays where it is
    }
    kept.as_ptr()
}

/// Carries out the transfer of a handle.
///
/// # Safety
/// `handle` is `NULL` or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_easy_perform(handle: *mut CurlHandle) -> c_int {
    guard(CurlCode::FailedInit.number(), || {
        // SAFETY: by the contract.
        match unsafe { easy(handle) } {
            Some(known) => {
                let easy = Rc::clone(&known.easy); // a callback may free the handle
                CurlCode::number_of(easy.perform(&CFunctions))
            }
            None => CurlCode::BadFunctionArgument.number(),
        }
    })
}

/// Pauses or resumes the directions of a transfer.
///
/// # Safety
/// `handle` is `NULL` or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_easy_pause(handle: *mut CurlHandle, bits: c_int) -> c_int {
    guard(CurlCode::FailedInit.number(), || {
        // SAFETY: by the contract.
        match unsafe { easy(handle) } {
            Some(known) => {
                let easy = Rc::clone(&known.easy); // as in curl_easy_perform
                CurlCode::number_of(easy.pause(bits, &CFunctions))
            }
            None => CurlCode::BadFunctionArgument.number(),
        }
    })
}
