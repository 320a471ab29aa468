//! The codings that a client accepts: `Accept-Encoding` (RFC 9110 §12.5.3).

use fulmar_proto::Headers;

use super::ContentCoding;

/// The parsed `Accept-Encoding` fields of a request.
///
/// ```
/// use fulmar_proto::HeaderBuf;
/// use fulmar_semantics::coding::{AcceptedCodings, ContentCoding};
///
/// let mut headers = HeaderBuf::new();
/// headers.push("Accept-Encoding", b"gzip;q=0.8, br").unwrap();
/// let accepted = AcceptedCodings::of(headers.as_headers());
/// assert!(accepted.rank(Some(ContentCoding::Brotli)) > accepted.rank(Some(ContentCoding::Gzip)));
/// assert!(accepted.rank(Some(ContentCoding::Gzip)) > accepted.rank(None));
/// assert_eq!(accepted.rank(Some(ContentCoding::Zstd)), 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcceptedCodings {
    /// All weights are in thousandths.
    gzip: Option<u16>,
    deflate: Option<u16>,
    brotli: Option<u16>,
    zstd: Option<u16>,
    identity: Option<u16>,
    /// `*`: all codings without a name.
    other: Option<u16>,
}

impl AcceptedCodings {
    /// Parses the fields. The first of several weights for a name counts; malformed elements are
    /// ignored.
    pub fn of(headers: Headers<'_>) -> Self {
        let mut accepted = Self::default();
        let fields = headers.get_all("Accept-Encoding");
        for element in fields.flat_map(|field| field.split(|byte| *byte == b',')) {
            let mut parts = element.splitn(2, |byte| *byte == b';');
            let name = parts.next().unwrap_or_default().trim_ascii();
            let Some(weight) = parts.next().map_or(Some(WEIGHT_MAX), weight) else { continue };
            if let Some(slot) = accepted.slot(name) {
                slot.get_or_insert(weight);
            }
        }
        accepted
    }

    /// The client's preference for a coding, or for no coding (`None`): higher is better, 0 is not
    /// acceptable.
    ///
    /// No coding is acceptable unless `identity;q=0` or `*;q=0` excludes it; if it is not named, it
    /// ranks behind all named codings. If the client sends no field, the RFC permits any coding,
    /// but clients that support codings name them; so none is used.
    pub fn rank(&self, coding: Option<ContentCoding>) -> u16 {
        let named = match coding {
            None => self.identity,
            Some(ContentCoding::Gzip) => self.gzip,
            Some(ContentCoding::Deflate) => self.deflate,
            Some(ContentCoding::Brotli) => self.brotli,
            Some(ContentCoding::Zstd) => self.zstd,
        };
        match (named.or(self.other), coding) {
            (Some(0), _) | (None, Some(_)) => 0,
            (Some(weight), _) => UNNAMED_IDENTITY + weight,
            (None, None) => UNNAMED_IDENTITY,
        }
    }

    fn slot(&mut self, name: &[u8]) -> Option<&mut Option<u16>> {
        if name == b"*" {
            return Some(&mut self.other);
        }
        if name.eq_ignore_ascii_case(b"identity") {
            return Some(&mut self.identity);
        }
        Some(match ContentCoding::from_name(name)? {
            ContentCoding::Gzip => &mut self.gzip,
            ContentCoding::Deflate => &mut self.deflate,
            ContentCoding::Brotli => &mut self.brotli,
            ContentCoding::Zstd => &mut self.zstd,
        })
    }
}

/// Parses `"q=" qvalue` in thousandths (RFC 9110 §12.4.2).
fn weight(parameter: &[u8]) -> Option<u16> {
    let [b'q' | b'Q', b'=', value @ ..] = parameter.trim_ascii() else { return None };
    let (whole, decimals) = match value {
        [whole] => (whole, &[][..]),
        [whole, b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        _ => return None,
    };
    if !matches!(whole, b'0' | b'1') || !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |at: usize| decimals.get(at).map_or(0, |digit| u16::from(digit - b'0'));
    let fraction = digit(0) * 100 + digit(1) * 10 + digit(2);
    Some(u16::from(whole - b'0') * WEIGHT_MAX + fraction).filter(|weight| *weight <= WEIGHT_MAX)
}

/// `q=1`, in thousandths.
const WEIGHT_MAX: u16 = 1000;
/// The rank of no coding if it is not named: the lowest acceptable.
const UNNAMED_IDENTITY: u16 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_proto::HeaderBuf;
    use proptest::prelude::*;

    fn accepted(fields: &[&[u8]]) -> AcceptedCodings {
        let mut headers = HeaderBuf::new();
        for field in fields {
            headers.push("Accept-Encoding", field).unwrap();
        }
        AcceptedCodings::of(headers.as_headers())
    }

    /// The ranks of gzip, Brotli, zstd and no coding.
    fn ranks(fields: &[&str]) -> [u16; 4] {
        let fields: Vec<_> = fields.iter().map(|field| field.as_bytes()).collect();
        let accepted = accepted(&fields);
        [Some(ContentCoding::Gzip), Some(ContentCoding::Brotli), Some(ContentCoding::Zstd), None]
            .map(|coding| accepted.rank(coding))
    }

    #[test]
    fn fields_give_ranks() {
        for (fields, expected) in [
            (&[][..], [0, 0, 0, 1]),
            (&[""], [0, 0, 0, 1]),
            (&["gzip"], [1001, 0, 0, 1]),
            (&["X-GZIP"], [1001, 0, 0, 1]),
            (&["gzip, deflate, br, zstd"], [1001, 1001, 1001, 1]),
            (&["gzip", "br;q=0.5"], [1001, 501, 0, 1]),
            (&["gzip;q=0.001, br ; Q=1.000"], [2, 1001, 0, 1]),
            (&["gzip;q=0"], [0, 0, 0, 1]),
            (&["gzip;q=0.000,*"], [0, 1001, 1001, 1001]),
            (&["*;q=0"], [0, 0, 0, 0]),
            (&["*;q=0, identity;q=0.5"], [0, 0, 0, 501]),
            (&["identity;q=0"], [0, 0, 0, 0]),
            (&["identity;q=0, gzip"], [1001, 0, 0, 0]),
            (&["identity, gzip;q=0.5"], [501, 0, 0, 1001]),
            (&["*"], [1001, 1001, 1001, 1001]),
            (&["gzip;q=0.5, gzip"], [501, 0, 0, 1]),
            (&[",, gzip ,"], [1001, 0, 0, 1]),
            (&["compress, lzma"], [0, 0, 0, 1]),
        ] {
            assert_eq!(ranks(fields), expected, "{fields:?}");
        }
    }

    #[test]
    fn elements_with_malformed_weights_are_ignored() {
        for weight in [
            "",
            "q",
            "q=",
            "q=2",
            "q=1.001",
            "q=0.0001",
            "q=.5",
            "q=-1",
            "q=0,5x",
            "q=1.5",
            "x=1",
            "q=0.5;q=1",
            "q =1",
            "q= 1",
            "q=0x1",
        ] {
            let field = format!("gzip;{weight}, br");
            assert_eq!(ranks(&[&field])[..2], [0, 1001], "{weight}");
        }
    }

    proptest! {
        #[test]
        fn random_bytes_give_ranks(mut field in prop::collection::vec(0x20..=0xff_u8, 0..64)) {
            field.retain(|byte| *byte != 0x7f); // not allowed in fields
            let accepted = accepted(&[field.trim_ascii()]);
            for coding in [Some(ContentCoding::Gzip), Some(ContentCoding::Zstd), None] {
                prop_assert!(accepted.rank(coding) <= WEIGHT_MAX + UNNAMED_IDENTITY);
            }
        }
    }
}
