//! Memory used by code.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr;

use crate::ledger::syscall;

/// Releases the code and constants used so far (`madvise(2)`). Pages that are used again are read
/// from the page cache, a few at a time. After the start of a program this is a small part of all
/// pages.
///
/// Breakpoints of a debugger are changes of code, so they are lost.
pub fn release_code() {
    /// Releases the non-writable segments of a loaded object. The object cannot be unloaded
    /// meanwhile: the loader holds its lock until this returns.
    unsafe extern "C" fn release(
        object: *mut libc::dl_phdr_info,
        _: libc::size_t,
        _: *mut c_void,
    ) -> libc::c_int {
        // SAFETY: dl_iterate_phdr(3) passes a valid `dl_phdr_info` for the duration of this call.
        let object = unsafe { &*object };
        if object.dlpi_phdr.is_null() {
            return 0;
        }
        // SAFETY: dl_iterate_phdr(3): an array of that many program headers, valid while the object
        // is loaded.
        let headers =
            unsafe { std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()) };
        for header in headers.iter().filter(|it| it.p_type == libc::PT_LOAD) {
            let from = usize::try_from(object.dlpi_addr.wrapping_add(header.p_vaddr));
            if header.p_flags & WRITABLE == 0
                && let (Ok(from), Ok(len)) = (from, usize::try_from(header.p_memsz))
            {
                release_segment(from..from + len);
            }
        }
        0
    }

    // SAFETY: dl_iterate_phdr(3) calls `release`, which has the required type, and does not use the
    // pointer that is passed through.
    unsafe { libc::dl_iterate_phdr(Some(release), ptr::null_mut()) };
}

/// Releases the whole pages of a segment.
fn release_segment(segment: Range<usize>) {
    // SAFETY: sysconf(3) takes no pointers.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let from = segment.start.next_multiple_of(page);
    let len = segment.end.saturating_sub(from) / page * page;
    let from = ptr::with_exposed_provenance_mut(from);
    // SAFETY: madvise(2): unchanged pages of a private mapping of a file have the same content when
    // they are touched next; a segment that is not writable has no others, and is still mapped.
    let result = unsafe { libc::madvise(from, len, libc::MADV_DONTNEED) };
    let _ = syscall!(madvise, result); // pages that cannot be released stay
}

/// `PF_W` (elf(5)).
const WRITABLE: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Call, Ledger, resident_bytes};

    #[test]
    fn released_code_is_loaded_again() {
        let sum = || TABLE.iter().map(|n| u64::from(*n)).sum::<u64>();
        // Other tests of the process may allocate meanwhile.
        let is_released = (0..100).any(|_| {
            let before = (sum(), Ledger::here(), resident_bytes().unwrap());
            release_code();
            let after = resident_bytes().unwrap();
            let spent = (Ledger::here() - before.1).count(Call::madvise);
            assert!(spent.calls > 0, "there are read-only segments");
            assert_eq!(sum(), before.0);
            after < before.2
        });
        assert!(is_released, "all bytes are still resident");
    }

    static TABLE: [u8; 1 << 20] = [1; 1 << 20];
}
