//! Percent-encoding.

use fulmar_curl::escape::{ESCAPED_LEN_MAX, InputLen, escape, unescape, unescape_text};

#[test]
fn all_but_unreserved_characters_are_encoded() {
    assert_eq!(escape(b"").unwrap(), b"");
    assert_eq!(escape(b"azAZ09-._~").unwrap(), b"azAZ09-._~");
    assert_eq!(escape(b"a b/\xe4\x00[").unwrap(), b"a%20b%2F%E4%00%5B");
    for byte in (0..=255_u8).filter(|byte| !byte.is_ascii_alphanumeric()) {
        let expected = match byte {
            b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        };
        assert_eq!(escape(&[byte]).unwrap(), expected.as_bytes());
    }
}

#[test]
fn incomplete_codes_stay_as_they_are() {
    assert_eq!(unescape(b"%41%4z%%41%4"), b"A%4z%A%4");
    assert_eq!(unescape(b"%00%01a%7f%fF+"), b"\x00\x01a\x7f\xff+");
    assert_eq!(unescape(b"a\0b%"), b"a\0b%");
    assert_eq!(unescape(b"%+1%-1"), b"%+1%-1");
}

#[test]
fn every_byte_returns_from_its_code() {
    let all: Vec<u8> = (0..=255).collect();
    assert_eq!(unescape(&escape(&all).unwrap()), all);
}

#[test]
fn control_characters_are_refused_in_text() {
    assert_eq!(unescape_text(b"a%20b%7F%80").unwrap(), b"a b\x7f\x80");
    for text in ["%00", "a%1f", "a%0a", "a\tb"] {
        assert_eq!(unescape_text(text.as_bytes()), None, "{text:?}");
    }
}

#[test]
fn lengths_of_zero_end_at_nul() {
    assert_eq!(InputLen::of(0), Some(InputLen::UpToNul));
    assert_eq!(InputLen::of(7), Some(InputLen::Bytes(7)));
    assert_eq!(InputLen::of(-1), None);
}

#[test]
fn results_have_a_longest_length() {
    assert_eq!(escape(&vec![b' '; 7_999_999]).map(|text| text.len()), Some(ESCAPED_LEN_MAX - 2));
    assert_eq!(escape(&vec![b' '; 8_000_000]), None);
    assert_eq!(escape(&vec![b'a'; ESCAPED_LEN_MAX + 1]), None);
}
