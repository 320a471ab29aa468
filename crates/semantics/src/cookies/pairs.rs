//! The `Cookie` field as a server reads it (RFC 6265bis §5.8.3).
//!
//! Nothing is decoded and nothing is dropped: names and values are bytes as they came, quotes
//! among them, in the order of the field, which puts the cookie of the longest path first. How many
//! there are is bounded by the size of a head.

use fulmar_proto::Headers;

/// The cookies that came with a request. Cheap to make, and to copy.
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
    /// Of a request with these fields. Several `Cookie` fields are as one, since versions of HTTP
    /// after 1.1 may split it (RFC 9113 §8.2.3).
    pub fn of(headers: Headers<'a>) -> Self {
        Self { headers }
    }

    /// The value of the first cookie of this name, which is compared with case.
    ///
    /// There may be others: anybody who controls a neighbouring host or path can add one, unless
    /// the name begins with `__Host-`. Who cares reads [`Pairs::get_all`].
    pub fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.get_all(name).next()
    }

    /// The values of all cookies of this name.
    pub fn get_all(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.iter().filter(move |(known, _)| *known == name.as_bytes()).map(|(_, value)| value)
    }

    /// Name and value of each. What has no `=` is a value whose name is empty.
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
    fn pairs_are_as_they_came() {
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
    fn names_have_case_and_the_first_counts() {
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
        fn any_bytes_are_pairs(mut field in prop::collection::vec(0x20..=0xff_u8, 0..64)) {
            field.retain(|byte| *byte != 0x7f); // which no field has
            let headers = headers(&[field.trim_ascii()]);
            let pairs = Pairs::of(headers.as_headers()).iter();
            let size: usize = pairs.map(|(name, value)| name.len() + value.len()).sum();
            prop_assert!(size <= field.len());
        }
    }
}
