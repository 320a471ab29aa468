//! Memory used by code.

/// Linux's `madvise(2)` for code; does nothing here.
pub fn release_code() {}
