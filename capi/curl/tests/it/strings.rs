//! Comparison of strings, and the environment.

use std::ffi::OsStr;

use fulmar_curl::compare::{str_equal, str_nequal};
use fulmar_curl::environment::getenv;

#[test]
fn only_letters_of_ascii_have_a_case() {
    let rows: [(&[u8], &[u8], bool); 7] = [
        (b"aZ", b"Az", true),
        (b"a", b"ab", false),
        (b"", b"", true),
        (b"\xc4", b"\xe4", false),
        (b"[", b"{", false),
        (b"@", b"`", false),
        (b"1", b"2", false),
    ];
    for (a, b, equal) in rows {
        assert_eq!(str_equal(Some(a), Some(b)), equal, "{a:?} {b:?}");
    }
}

#[test]
fn null_equals_null_only() {
    assert!(str_equal(None, None));
    assert!(!str_equal(None, Some(b"")) && !str_equal(Some(b""), None));
    assert!(str_nequal(None, None, 3) && !str_nequal(None, None, 0));
    assert!(!str_nequal(None, Some(b"a"), 0) && !str_nequal(Some(b""), None, 1));
}

#[test]
fn comparison_ends_at_the_given_length() {
    let equal = |a: &str, b: &str, max| str_nequal(Some(a.as_bytes()), Some(b.as_bytes()), max);
    assert!(equal("abX", "ABy", 2) && equal("a", "b", 0));
    assert!(equal("ab", "ab", 9) && equal("", "", 1) && equal("ab", "abc", 2));
    assert!(!equal("ab", "abc", 3) && !equal("abX", "ABy", 3));
}

#[test]
fn variables_that_are_not_set_have_no_value() {
    let known = std::env::vars_os().find(|(_, value)| !value.is_empty());
    let (name, value) = known.expect("cargo sets variables");
    assert_eq!(getenv(&name), Some(value));
    assert_eq!(getenv(OsStr::new("FULMAR_CURL_IS_NOT_SET")), None);
    assert_eq!(getenv(OsStr::new("")), None);
}
