//! Percent-decoding of `MHD_http_unescape`: what is not an encoding stays as it is.

/// Decodes in place, and returns true if something was decoded. A plus sign is no blank here; an
/// encoded NUL becomes one.
pub fn unescape(text: &mut Vec<u8>) -> bool {
    let (mut read, mut written) = (0, 0);
    while read < text.len() {
        let (byte, size) = match decoded(&text[read..]) {
            Some(byte) => (byte, 3),
            None => (text[read], 1),
        };
        text[written] = byte;
        read += size;
        written += 1;
    }
    text.truncate(written);
    read != written
}

/// The byte of an encoding that begins the text.
fn decoded(text: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = text else { return None };
    Some(digit(*high)? << 4 | digit(*low)?)
}

/// The value of a hexadecimal digit.
pub(crate) fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::unescape;

    #[test]
    fn encodings_are_decoded_as_by_the_original() {
        let recorded: &[(&str, &[u8])] = &[
            ("", b""),
            ("abc", b"abc"),
            ("a%20b", b"a b"),
            ("a+b", b"a+b"),
            ("%", b"%"),
            ("%4", b"%4"),
            ("%41", b"A"),
            ("%zz", b"%zz"),
            ("%4z", b"%4z"),
            ("%00x", b"\0x"),
            ("a%0", b"a%0"),
            ("%%41", b"%A"),
            ("%41%42%", b"AB%"),
            ("%2b%2B", b"++"),
            ("%g1", b"%g1"),
            ("%1g", b"%1g"),
            ("% 1", b"% 1"),
            ("%+1", b"%+1"),
            ("%-1", b"%-1"),
            ("%0x", b"%0x"),
            ("a%e4%F6", b"a\xe4\xf6"),
            ("%25%34%31", b"%41"),
        ];
        for (text, expected) in recorded {
            let mut bytes = text.as_bytes().to_vec();
            assert_eq!(unescape(&mut bytes), bytes.len() != text.len(), "{text}");
            assert_eq!(bytes, *expected, "{text}");
        }
    }
}
