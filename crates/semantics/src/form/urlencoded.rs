//! `application/x-www-form-urlencoded`, which queries use too (URL Standard, §5).

use std::borrow::Cow;

use percent_encoding::percent_decode;

/// Encodes fields for a body or a query.
///
/// ```
/// use fulmar_semantics::form::urlencoded;
/// assert_eq!(urlencoded([("q", "a b&c"), ("x", "\u{e9}")]), "q=a+b%26c&x=%C3%A9");
/// ```
pub fn urlencoded<N: AsRef<[u8]>, V: AsRef<[u8]>>(
    fields: impl IntoIterator<Item = (N, V)>,
) -> String {
    let mut out = String::new();
    for (name, value) in fields {
        if !out.is_empty() {
            out.push('&');
        }
        out.extend(form_urlencoded::byte_serialize(name.as_ref()));
        out.push('=');
        out.extend(form_urlencoded::byte_serialize(value.as_ref()));
    }
    out
}

/// Decodes fields. Names and values are bytes, not necessarily UTF-8; nothing is replaced. An
/// invalid escape is literal, a field without `=` is a name.
///
/// ```
/// use fulmar_semantics::form::fields;
/// let all: Vec<_> = fields(b"q=a+b%26c&empty").collect();
/// assert_eq!(all[0].1, &b"a b&c"[..]);
/// assert_eq!(all[1], ((&b"empty"[..]).into(), (&b""[..]).into()));
/// ```
pub fn fields(text: &[u8]) -> impl Iterator<Item = (Cow<'_, [u8]>, Cow<'_, [u8]>)> {
    let fields = text.split(|byte| *byte == b'&').filter(|field| !field.is_empty());
    fields.map(|field| {
        let equals = field.iter().position(|byte| *byte == b'=');
        let (name, value) = equals.map_or((field, &b""[..]), |at| (&field[..at], &field[at + 1..]));
        (decode(name), decode(value))
    })
}

fn decode(text: &[u8]) -> Cow<'_, [u8]> {
    if text.contains(&b'+') {
        let spaced: Vec<_> = text.iter().map(|b| if *b == b'+' { b' ' } else { *b }).collect();
        return Cow::Owned(percent_decode(&spaced).collect());
    }
    percent_decode(text).into()
}

/// The `Content-Type` of such a body.
pub const URLENCODED: &str = "application/x-www-form-urlencoded";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn show(text: &[u8]) -> String {
        let lossy = |bytes: Cow<'_, [u8]>| String::from_utf8_lossy(&bytes).into_owned();
        fields(text).map(|(n, v)| format!("<{}|{}>", lossy(n), lossy(v))).collect()
    }

    #[test]
    fn fields_are_decoded_once() {
        for (text, expected) in [
            ("", ""),
            ("&&", ""),
            ("a", "<a|>"),
            ("a=", "<a|>"),
            ("=b", "<|b>"),
            ("=", "<|>"),
            ("a=b=c&d", "<a|b=c><d|>"),
            ("a+b=c+d%2B", "<a b|c d+>"),
            ("a%26b=%3D&%61=%2525", "<a&b|=><a|%25>"),
            ("a=%zz%4&b=%", "<a|%zz%4><b|%>"),
            ("a=1;b=2", "<a|1;b=2>"),
            ("a=%C3%BC%ff", "<a|ü\u{fffd}>"),
            ("a=\0\r\n", "<a|\0\r\n>"),
        ] {
            assert_eq!(show(text.as_bytes()), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn fields_round_trip(
            all in prop::collection::vec((any::<Vec<u8>>(), any::<Vec<u8>>()), 0..8),
        ) {
            let text = urlencoded(all.iter().map(|(name, value)| (name, value)));
            let read: Vec<_> =
                fields(text.as_bytes()).map(|(n, v)| (n.into_owned(), v.into_owned())).collect();
            prop_assert_eq!(read, all);
        }

        #[test]
        fn random_bytes_are_fields(text: Vec<u8>) {
            let size: usize = fields(&text).map(|(name, value)| name.len() + value.len()).sum();
            prop_assert!(size <= text.len());
        }
    }
}
