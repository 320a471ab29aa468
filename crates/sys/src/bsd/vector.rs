//! Vectors of byte slices for the head of `sendfile(2)`.

use crate::socket::VECTOR_LEN_MAX;

/// Byte slices in the kernel's format.
pub(super) struct Vector {
    pub(super) entries: [libc::iovec; VECTOR_LEN_MAX],
    /// Number of entries.
    pub(super) len: libc::c_int,
    /// Total size in bytes.
    pub(super) size: usize,
}

impl Vector {
    /// Slices beyond [`VECTOR_LEN_MAX`] are omitted.
    pub(super) fn new<'a>(runs: impl Iterator<Item = &'a [u8]>) -> Self {
        let empty = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let mut vector = Self { entries: [empty; VECTOR_LEN_MAX], len: 0, size: 0 };
        for (entry, run) in vector.entries.iter_mut().zip(runs.filter(|run| !run.is_empty())) {
            *entry = libc::iovec { iov_base: run.as_ptr().cast_mut().cast(), iov_len: run.len() };
            vector.len += 1;
            vector.size += run.len();
        }
        vector
    }
}
