//! Memory that code takes.

use std::ffi::c_void;
use std::ptr;

use crate::ledger::syscall;

/// Lets go of code and constants that have been used so far (`madvise(2)`): what is used again comes
/// back from the page cache, a few pages at a time. After the start of a program that is a small
/// part of them.
///
/// A debugger's breakpoints are changes of code, and are gone too.
pub fn release_code() {
    // SAFETY: dl_iterate_phdr(3) calls `release_object`, which has the type that it asks for, with
    // objects that stay loaded meanwhile; the data pointer is not used.
    unsafe { libc::dl_iterate_phdr(Some(release_object), ptr::null_mut()) };
}

/// Lets go of those segments of a loaded object that are not writable.
unsafe extern "C" fn release_object(
    info: *mut libc::dl_phdr_info,
    _: libc::size_t,
    _: *mut c_void,
) -> libc::c_int {
    // SAFETY: dl_iterate_phdr(3) lends a whole `dl_phdr_info` for this call.
    let object = unsafe { &*info };
    if object.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: dl_iterate_phdr(3): an array of so many program headers, which stays.
    let headers = unsafe { std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()) };
    let constant =
        headers.iter().filter(|it| it.p_type == libc::PT_LOAD && it.p_flags & WRITABLE == 0);
    for header in constant {
        let at = usize::try_from(object.dlpi_addr + header.p_vaddr);
        if let (Ok(at), Ok(len)) = (at, usize::try_from(header.p_memsz)) {
            release(at, len);
        }
    }
    0
}

/// The whole pages of `len` bytes from `at` on, which come from a file and are not writable.
fn release(at: usize, len: usize) {
    // SAFETY: sysconf(3) takes no pointers.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let Ok(page) = usize::try_from(page) else { return };
    let from = at.next_multiple_of(page);
    let len = (at + len).saturating_sub(from) / page * page;
    let from = ptr::with_exposed_provenance_mut(from);
    // SAFETY: madvise(2): unchanged pages of a private mapping of a file have the same content when
    // they are touched next; a segment that is not writable has no others.
    let result = unsafe { libc::madvise(from, len, libc::MADV_DONTNEED) };
    let _ = syscall!(madvise, result); // what cannot be let go of stays
}

/// `PF_W` (elf(5)).
const WRITABLE: u32 = 2;
