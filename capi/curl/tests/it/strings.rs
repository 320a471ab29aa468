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
        let [left, right] = [a, b].map(|text| Some(text.iter().copied()));
        assert_eq!(str_equal(left, right), equal, "{a:?} {b:?}");
    }
}

#[test]
fn null_equals_null_only() {
    const NULL: Option<[u8; 0]> = None;
    assert!(str_equal(NULL, NULL));
    assert!(!str_equal(NULL, Some([])) && !str_equal(Some([]), NULL));
    assert!(str_nequal(NULL, NULL, 3) && !str_nequal(NULL, NULL, 0));
    assert!(!str_nequal(NULL, Some(*b"a"), 0) && !str_nequal(Some([]), NULL, 1));
}

#[test]
fn comparison_ends_at_the_given_length() {
    let equal = |a: &str, b: &str, max| str_nequal(Some(a.bytes()), Some(b.bytes()), max);
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
