//! Resuming an interrupted body: `Range`, `If-Range`, `Content-Range` (RFC 9110 §13, §14).
//!
//! Pure functions: they decide from the received part and the server's response how to continue. A
//! body is only resumed with a strong validator; otherwise parts of two versions could be joined.

use std::fmt;

use fulmar_proto::Headers;

use crate::date::parse_date;

/// A `Content-Range` value (RFC 9110 §14.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentRange {
    /// The body is this part of the representation.
    Bytes {
        /// Position of the first byte.
        first: u64,
        /// Position of the last byte, not before the first.
        last: u64,
        /// The complete length, beyond `last`, if the server knows it.
        total: Option<u64>,
    },
    /// None of the requested ranges exists.
    Unsatisfied {
        /// The complete length.
        total: u64,
    },
}

impl ContentRange {
    /// Parses a value; `None` if it is invalid, or has a unit other than bytes.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (unit, rest) = split(value, b' ')?;
        if !unit.eq_ignore_ascii_case(b"bytes") {
            return None;
        }
        let (range, total) = split(rest, b'/')?;
        if range == b"*" {
            return Some(Self::Unsatisfied { total: decimal(total)? });
        }
        let (first, last) = split(range, b'-')?;
        let (first, last) = (decimal(first)?, decimal(last)?);
        let total = if total == b"*" { None } else { Some(decimal(total)?) };
        let sound = first <= last && total.is_none_or(|total| last < total);
        sound.then_some(Self::Bytes { first, last, total })
    }
}

/// A strong validator of a representation (RFC 9110 §8.8.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Validator {
    /// A strong `ETag`, with its quotes.
    ETag(Box<[u8]>),
    /// A `Last-Modified` that is old enough.
    LastModified(Box<[u8]>),
}

impl Validator {
    /// The best validator of a response: a strong `ETag`, or else a `Last-Modified` that is at
    /// least [`LAST_MODIFIED_AGE_MIN_S`] older than its `Date` (RFC 9110 §8.8.2.2).
    pub fn of(headers: Headers<'_>) -> Option<Self> {
        if let Some(etag) = headers.get("ETag").filter(|etag| is_strong(etag)) {
            return Some(Self::ETag(etag.into()));
        }
        let value = headers.get("Last-Modified")?;
        let age = parse_date(headers.get("Date")?)?.checked_sub(parse_date(value)?)?;
        let strong = age >= LAST_MODIFIED_AGE_MIN_S;
        strong.then(|| Self::LastModified(value.into()))
    }

    /// Restores a validator from [`Validator::as_bytes`].
    pub fn from_bytes(value: &[u8]) -> Option<Self> {
        if is_strong(value) {
            Some(Self::ETag(value.into()))
        } else {
            parse_date(value).map(|_| Self::LastModified(value.into()))
        }
    }

    /// The value for `If-Range`, and for storage.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::ETag(value) | Self::LastModified(value) => value,
        }
    }

    /// False if a response to `If-Range` belongs to another version. An `ETag` must be repeated in
    /// the response (RFC 9110 §15.3.7); a date need not be, and the server has compared it.
    fn holds_for(&self, headers: Headers<'_>) -> bool {
        match self {
            Self::ETag(ours) => headers.get("ETag").is_some_and(|theirs| theirs == &ours[..]),
            Self::LastModified(ours) => {
                headers.get("Last-Modified").is_none_or(|theirs| theirs == &ours[..])
            }
        }
    }
}

/// A partially received body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    /// Number of bytes received, at least one.
    pub have: u64,
    /// The version of these bytes.
    pub validator: Validator,
}

/// The meaning of a response to a [`Resume`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resumption {
    /// The response continues the body.
    Continue {
        /// Number of bytes that follow.
        len: u64,
        /// The complete length, if the server knows it.
        total: Option<u64>,
    },
    /// The response has the complete body: discard the received part.
    Restart,
    /// The received part is complete: ignore the body of the response.
    Complete,
    /// The received part is of another version, and the response does not replace it: discard it,
    /// and repeat the request without a range.
    RequestAgain,
    /// Another response, such as 404 or 302: the received part is unchanged.
    Other,
}

impl Resume {
    /// The fields `Range` and `If-Range` of the request.
    pub fn fields(&self) -> [(&'static str, Vec<u8>); 2] {
        let range = format!("bytes={}-", self.have).into_bytes();
        [("Range", range), ("If-Range", self.validator.as_bytes().to_vec())]
    }

    /// Decides how to continue after a response.
    ///
    /// # Errors
    /// The response does not match the request; the received part is unchanged.
    pub fn decide(&self, status: u16, headers: Headers<'_>) -> Result<Resumption, RangeError> {
        let mut fields = headers.get_all("Content-Range");
        let value = fields.next().filter(|_| fields.next().is_none());
        let range = value.and_then(ContentRange::parse);
        match (status, range) {
            (200, _) => Ok(Resumption::Restart),
            (206, Some(ContentRange::Bytes { .. })) if !self.validator.holds_for(headers) => {
                Ok(Resumption::RequestAgain)
            }
            (206, Some(ContentRange::Bytes { first, last, total })) => {
                if first != self.have {
                    return Err(RangeError::OtherOffset { requested: self.have, got: first });
                }
                Ok(Resumption::Continue { len: last - first + 1, total })
            }
            (206, _) => Err(RangeError::BadContentRange),
            (416, Some(ContentRange::Unsatisfied { total })) if total == self.have => {
                Ok(Resumption::Complete)
            }
            (416, _) => Ok(Resumption::RequestAgain),
            _ => Ok(Resumption::Other),
        }
    }
}

/// An unusable response to a range request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RangeError {
    /// 206 without exactly one valid `Content-Range`; also several ranges in one body, although one
    /// was requested.
    BadContentRange,
    /// The response begins at another offset than requested.
    OtherOffset {
        /// The requested offset.
        requested: u64,
        /// The offset of the response.
        got: u64,
    },
}

impl fmt::Display for RangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadContentRange => {
                f.write_str("partial response (206) without a valid Content-Range")
            }
            Self::OtherOffset { requested, got } => {
                write!(f, "partial response (206) from byte {got}, requested from byte {requested}")
            }
        }
    }
}

impl std::error::Error for RangeError {}

/// `DQUOTE *etagc DQUOTE` (RFC 9110 §8.8.3).
fn is_strong(etag: &[u8]) -> bool {
    let [b'"', inner @ .., b'"'] = etag else { return false };
    inner.iter().all(|b| matches!(b, 0x21 | 0x23..=0x7e | 0x80..))
}

fn split(value: &[u8], mark: u8) -> Option<(&[u8], &[u8])> {
    let at = value.iter().position(|b| *b == mark)?;
    Some((&value[..at], &value[at + 1..]))
}

/// `1*DIGIT`, at most 2^63-1: the maximum file offset.
fn decimal(value: &[u8]) -> Option<u64> {
    let digits = value.iter().all(u8::is_ascii_digit);
    let number: u64 = std::str::from_utf8(value).ok().filter(|_| digits)?.parse().ok()?;
    (number <= i64::MAX as u64).then_some(number)
}

/// Minimum age of `Last-Modified` relative to `Date`, so that no second change has the same date.
/// RFC 9110 §8.8.2.2 requires one second if both are from the same clock; RFC 7232 §2.2.2 had a
/// minute for different clocks.
pub const LAST_MODIFIED_AGE_MIN_S: i64 = 60;

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_proto::HeaderBuf;
    use proptest::prelude::*;

    const OLD: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const YOUNG: &str = "Mon, 07 Nov 1994 08:49:37 GMT";

    fn headers(lines: &[(&str, &str)]) -> HeaderBuf {
        let mut headers = HeaderBuf::new();
        for (name, value) in lines {
            headers.push(name, value.as_bytes()).expect("a field");
        }
        headers
    }

    #[test]
    fn content_ranges_are_valid_or_none() {
        let parse = |value: &str| ContentRange::parse(value.as_bytes());
        let bytes = |first, last, total| Some(ContentRange::Bytes { first, last, total });
        assert_eq!(parse("bytes 0-0/1"), bytes(0, 0, Some(1)));
        assert_eq!(parse("Bytes 42-1233/1234"), bytes(42, 1233, Some(1234)));
        assert_eq!(parse("bytes 42-1233/*"), bytes(42, 1233, None));
        assert_eq!(parse("bytes */1234"), Some(ContentRange::Unsatisfied { total: 1234 }));
        for bad in [
            "",
            "bytes",
            "bytes ",
            "bytes=0-1/2",
            "bytes  0-1/2",
            "bytes 0-1",
            "bytes 1-0/2",
            "bytes 0-2/2",
            "bytes -1/2",
            "bytes 0-/2",
            "bytes +0-1/2",
            "bytes 0-1/2 ",
            "bytes 0-1/2/3",
            "bytes 0-1/",
            "bytes */*",
            "items 0-1/2",
            "bytes 0-9223372036854775808/*",
            "bytes 0-99999999999999999999/*",
        ] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn only_strong_validators_are_used() {
        let of = |lines: &[(&str, &str)]| Validator::of(headers(lines).as_headers());
        let etag = Some(Validator::ETag((*b"\"x\"").into()));
        let modified = Some(Validator::LastModified(OLD.as_bytes().into()));
        assert_eq!(of(&[("ETag", "\"x\"")]), etag);
        assert_eq!(of(&[("ETag", "\"x\""), ("Last-Modified", OLD), ("Date", YOUNG)]), etag);
        assert_eq!(of(&[("ETag", "W/\"x\""), ("Last-Modified", OLD), ("Date", YOUNG)]), modified);
        assert_eq!(of(&[("ETag", "W/\"x\"")]), None);
        assert_eq!(of(&[("ETag", "x")]), None);
        assert_eq!(of(&[("ETag", "\"")]), None);
        assert_eq!(of(&[("ETag", "\"a\"b\"")]), None);
        assert_eq!(of(&[("Last-Modified", OLD)]), None, "no Date for comparison");
        assert_eq!(of(&[("Last-Modified", OLD), ("Date", OLD)]), None);
        assert_eq!(of(&[("Last-Modified", YOUNG), ("Date", OLD)]), None);
        for validator in [etag, modified].map(Option::unwrap) {
            assert_eq!(Validator::from_bytes(validator.as_bytes()), Some(validator));
        }
        assert_eq!(Validator::from_bytes(b"W/\"x\""), None);
    }

    #[test]
    fn responses_continue_restart_or_are_rejected() {
        let resume = Resume { have: 10, validator: Validator::ETag((*b"\"x\"").into()) };
        let want = [("Range", b"bytes=10-".to_vec()), ("If-Range", b"\"x\"".to_vec())];
        assert_eq!(resume.fields(), want);
        let dated = Resume { have: 10, validator: Validator::LastModified(OLD.as_bytes().into()) };
        let of = |resume: &Resume, status, lines: &[(&str, &str)]| {
            resume.decide(status, headers(lines).as_headers())
        };
        let on = |len, total| Ok(Resumption::Continue { len, total });
        let part = ("Content-Range", "bytes 10-19/20");
        let (same, other) = (("ETag", "\"x\""), ("ETag", "\"y\""));
        assert_eq!(of(&resume, 206, &[part, same]), on(10, Some(20)));
        let open = ("Content-Range", "bytes 10-14/*");
        assert_eq!(of(&resume, 206, &[open, same]), on(5, None));
        assert_eq!(of(&resume, 206, &[part, other]), Ok(Resumption::RequestAgain));
        assert_eq!(of(&resume, 206, &[part, ("ETag", "W/\"x\"")]), Ok(Resumption::RequestAgain));
        assert_eq!(of(&resume, 206, &[part]), Ok(Resumption::RequestAgain), "the ETag is missing");
        assert_eq!(of(&dated, 206, &[part]), on(10, Some(20)));
        assert_eq!(of(&dated, 206, &[part, ("Last-Modified", OLD)]), on(10, Some(20)));
        let changed = of(&dated, 206, &[part, ("Last-Modified", YOUNG)]);
        assert_eq!(changed, Ok(Resumption::RequestAgain));
        let elsewhere = ("Content-Range", "bytes 0-19/20");
        let error = RangeError::OtherOffset { requested: 10, got: 0 };
        assert_eq!(of(&resume, 206, &[elsewhere, same]), Err(error));
        for bad in [
            &[same][..],
            &[same, part, part],
            &[same, ("Content-Range", "bytes */20")],
            &[same, ("Content-Type", "multipart/byteranges; boundary=x")],
        ] {
            assert_eq!(of(&resume, 206, bad), Err(RangeError::BadContentRange), "{bad:?}");
        }
        assert_eq!(of(&resume, 200, &[other]), Ok(Resumption::Restart));
        let end = |total| of(&resume, 416, &[("Content-Range", total)]);
        assert_eq!(end("bytes */10"), Ok(Resumption::Complete));
        assert_eq!(end("bytes */9"), Ok(Resumption::RequestAgain));
        assert_eq!(end("bytes */11"), Ok(Resumption::RequestAgain));
        assert_eq!(end("nonsense"), Ok(Resumption::RequestAgain));
        assert_eq!(of(&resume, 416, &[]), Ok(Resumption::RequestAgain));
        for status in [204, 301, 304, 401, 404, 500] {
            assert_eq!(of(&resume, status, &[part, same]), Ok(Resumption::Other));
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(value in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = Validator::from_bytes(&value);
            let value = [b"bytes ", &value[..]].concat();
            let _ = ContentRange::parse(&value);
        }

        #[test]
        fn content_ranges_round_trip(first: u32, len in 1_u32.., more: u32) {
            let (first, len) = (u64::from(first), u64::from(len));
            let (last, total) = (first + len - 1, first + len + u64::from(more));
            let parsed = ContentRange::parse(format!("bytes {first}-{last}/{total}").as_bytes());
            prop_assert_eq!(parsed, Some(ContentRange::Bytes { first, last, total: Some(total) }));
        }
    }
}
