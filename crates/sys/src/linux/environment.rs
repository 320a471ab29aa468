//! The environment of the process (`environ(7)`).

use std::ffi::{CStr, c_char};

unsafe extern "C" {
    /// The variables, and `NULL` behind them; `NULL` if all were removed.
    static environ: *const *const c_char;
}

/// True if one of these variables is set, also to nothing. As `getenv(3)` from C, it does not wait
/// for threads that change the environment; it looks at each variable once, not once for each name.
pub fn has_variable(names: &[&str]) -> bool {
    let begins = names.iter().filter_map(|name| name.bytes().next()).map(bit);
    let begins = begins.fold(0, |all, one| all | one);
    let is_one = |variable: &[u8]| {
        let mut rest = names.iter().filter_map(|name| variable.strip_prefix(name.as_bytes()));
        rest.any(|rest| rest.first() == Some(&b'='))
    };
    // SAFETY: the C library defines it.
    let mut place = unsafe { environ };
    // SAFETY: it is the list of variables, or its rest.
    while let Some(variable) = unsafe { next_beginning(&mut place, begins) } {
        // SAFETY: it is a string of the list.
        if is_one(unsafe { CStr::from_ptr(variable) }.to_bytes()) {
            return true;
        }
    }
    false
}

/// The next variable that may begin with a byte of `begins`.
///
/// # Safety
/// `place` is `NULL` or in a list of strings that ends with `NULL`, at most at its end.
#[inline(never)] // a tight loop
unsafe fn next_beginning(place: &mut *const *const c_char, begins: u64) -> Option<*const c_char> {
    let mut at = *place;
    while !at.is_null() {
        // SAFETY: by the contract.
        let variable = unsafe { *at };
        if variable.is_null() {
            break;
        }
        // SAFETY: another variable or the end follows.
        at = unsafe { at.add(1) };
        // SAFETY: a string has a first byte.
        if begins & bit(unsafe { *variable.cast() }) != 0 {
            *place = at;
            return Some(variable);
        }
    }
    None
}

fn bit(byte: u8) -> u64 {
    1 << (byte % 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cargo sets these for tests, and one of them to nothing.
    #[test]
    fn variables_are_found_by_their_whole_names() {
        assert!(has_variable(&["CARGO_PKG_NAME"]));
        assert!(has_variable(&["none", "CARGO_PKG_NAME"]));
        assert!(has_variable(&["CARGO_PKG_VERSION_PRE"]), "it is set to nothing");
        for name in ["CARGO_PKG_NAM", "CARGO_PKG_NAME=", "ARGO_PKG_NAME", ""] {
            assert!(!has_variable(&[name]), "{name}");
        }
        assert!(!has_variable(&[]));
    }
}
