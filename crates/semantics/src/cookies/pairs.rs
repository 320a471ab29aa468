//! The `Cookie` field on a server (RFC 6265bis §5.8.3).
//!
//! Nothing is decoded or dropped: names and values are received bytes, including quotes, in the
//! order of the field, where the cookie with the longest path is first. The size of a head bounds
//! their number.

use fulmar_proto::Headers;

/// The cookies of a request. Cheap to create and copy.
///
/// ```
/// use fulmar_proto::HeaderBuf;
/// use fulmar_semantics::cookies::Pairs;
///
/// let mut headers = HeaderBuf::new();
/// headers.push("Cookie", b"id=7; theme=dark").unwrap();
/// let cookies = Pairs::of(headers.as_headers());
/// assert_eq!(cookies.get("theme"), Some(&b"dark"[..]));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Pairs<'a> {
    headers: Headers<'a>,
}

impl<'a> Pairs<'a> {
    /// From the fields of a request. Several `Cookie` fields are joined, because versions of HTTP
    /// after 1.1 may split it (RFC 9113 §8.2.3).
    pub fn of(headers: Headers<'a>) -> Self {
        Self { headers }
    }

    /// The value of the first cookie with this name (case-sensitive).
    ///
    /// There may be others: any site on a neighbouring host or path can add one, unless the name
    /// begins with `__Host-`. Use [`Pairs::get_all`] if this matters.
    pub fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.get_all(name).next()
    }

    /// The values of all cookies with this name.
    pub fn get_all(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.iter().filter(move |(known, _)| *known == name.as_bytes()).map(|(_, value)| value)
    }

    /// Names and values. A cookie without `=` is a value with an empty name.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let fields = self.headers.get_all("Cookie");
        let pairs = fields.flat_map(|field| field.split(|byte| *byte == b';'));
        pairs.map(<[u8]>::trim_ascii).filter(|pair| !pair.is_empty()).map(|pair| {
            match pair.iter().position(|byte| *byte == b'=') {
                Some(at) => (pair[..at].trim_ascii_end(), pair[at + 1..].trim_ascii_start()),
                None => (&b""[..], pair),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_proto::HeaderBuf;
    use proptest::prelude::*;

    fn headers(fields: &[&[u8]]) -> HeaderBuf {
        let mut headers = HeaderBuf::new();
        for field in fields {
            headers.push("cookie", field).unwrap();
        }
        headers
    }

    fn show(fields: &[&str]) -> String {
        let fields: Vec<_> = fields.iter().map(|field| field.as_bytes()).collect();
        let headers = headers(&fields);
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let pairs = Pairs::of(headers.as_headers()).iter();
        pairs.map(|(name, value)| format!("<{}|{}>", text(name), text(value))).collect()
    }

    #[test]
    fn pairs_are_unchanged() {
        for (fields, expected) in [
            (&[][..], ""),
            (&[""], ""),
            (&["a=b"], "<a|b>"),
            (&["a=b; c=d"], "<a|b><c|d>"),
            (&["a=b;c=d ;; e=f;"], "<a|b><c|d><e|f>"),
            (&["a=b", "c=d"], "<a|b><c|d>"),
            (&["a=b=c; d=="], "<a|b=c><d|=>"),
            (&["a=\"b c\"; d=%41+"], "<a|\"b c\"><d|%41+>"),
            (&["a; =b; ="], "<|a><|b><|>"),
            (&["a = b"], "<a|b>"),
            (&["$Version=1; a=b, c=d"], "<$Version|1><a|b, c=d>"),
            (&["a=1; a=2"], "<a|1><a|2>"),
            (&["ü=é"], "<ü|é>"),
        ] {
            assert_eq!(show(fields), expected, "{fields:?}");
        }
    }

    #[test]
    fn names_are_case_sensitive_and_the_first_counts() {
        let headers = headers(&[b"a=1; A=2; a=3", b"__host-x=forged; __Host-x=7"]);
        let cookies = Pairs::of(headers.as_headers());
        assert_eq!(cookies.get("a"), Some(&b"1"[..]));
        assert_eq!(cookies.get_all("a").collect::<Vec<_>>(), [b"1", b"3"]);
        assert_eq!(cookies.get("A"), Some(&b"2"[..]));
        assert_eq!(cookies.get("__Host-x"), Some(&b"7"[..]));
        assert_eq!(cookies.get("b"), None);
    }

    proptest! {
        #[test]
        fn random_bytes_are_pairs(mut field in prop::collection::vec(0x20..=0xff_u8, 0..64)) {
            field.retain(|byte| *byte != 0x7f); // not allowed in fields
            let headers = headers(&[field.trim_ascii()]);
            let pairs = Pairs::of(headers.as_headers()).iter();
            let size: usize = pairs.map(|(name, value)| name.len() + value.len()).sum();
            prop_assert!(size <= field.len());
        }
    }
}
