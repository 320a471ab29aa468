//! Which body length applies to a message (RFC 9112 §6.3).
//!
//! Pure: facts of a head go in, a length comes out. Reading the body is `chunked`'s and `recv`'s
//! work. Where the RFC lets a recipient repair a doubtful message, this one rejects it: two
//! recipients that repair differently are a request smuggling attack.

use crate::body_len::{BodyLen, decimal};
use crate::errors::PeerError;
use crate::head::{Version, is_token, trim_ows};

use super::leniency::Leniency;

/// What the framing of a message depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) kind: BodyRule,
    pub(super) version: Version,
    pub(super) length: Length,
    pub(super) coding: Coding,
}

/// Which of the rules about bodies apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyRule {
    Request,
    /// Any response that may have a body.
    Response,
    /// To HEAD: the fields describe a body that is not sent.
    HeadResponse,
    /// 304: likewise.
    NotModified,
    /// 1xx, 204, and 2xx to CONNECT: no body, whatever the fields declare.
    Bodiless,
}

/// All `Content-Length` fields of a head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Length {
    #[default]
    Absent,
    Exact(u64),
    /// The same number more than once: which one a forwarder keeps is its own choice.
    Repeated(u64),
    /// Malformed, or several numbers.
    Bad,
}

/// All `Transfer-Encoding` fields of a head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Coding {
    #[default]
    Absent,
    /// `chunked` and nothing else.
    Chunked,
    /// `chunked` last, after codings that we do not undo.
    Other,
    /// Something that does not end in `chunked`.
    Unframed,
    /// Not a list of codings, or `chunked` twice.
    Bad,
}

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Exact(u64),
    Chunked,
    UntilEof,
}

/// How the body ends, and the declared length.
pub(super) fn framing(facts: Facts) -> Result<(Framing, BodyLen), PeerError> {
    let Facts { kind, version, length, coding } = facts;
    let none = Framing::Exact(0);
    match (length, coding) {
        _ if kind == BodyRule::Bodiless => return Ok((none, BodyLen::Empty)),
        (Length::Bad | Length::Repeated(_), _) => return Err(PeerError::BadLength),
        (Length::Exact(_), Coding::Absent) | (Length::Absent, _) => {}
        (Length::Exact(_), _) => return Err(PeerError::BadLength),
    }
    match coding {
        Coding::Absent => {}
        Coding::Bad => return Err(PeerError::BadTransferEncoding),
        // A 1.0 peer may have passed it on without understanding it (§6.1).
        _ if version == Version::Http10 => return Err(PeerError::BadTransferEncoding),
        Coding::Unframed if kind == BodyRule::Request => {
            return Err(PeerError::BadTransferEncoding);
        }
        // What a coding made of the content cannot be passed on as the content.
        Coding::Other | Coding::Unframed => return Err(PeerError::UnknownTransferCoding),
        Coding::Chunked => {}
    }
    Ok(match (kind, length, coding) {
        (BodyRule::HeadResponse | BodyRule::NotModified, Length::Exact(n), _) => {
            (none, BodyLen::Exact(n))
        }
        (BodyRule::HeadResponse, ..) => (none, BodyLen::Unknown),
        (BodyRule::NotModified | BodyRule::Bodiless, ..) => (none, BodyLen::Empty),
        (_, Length::Exact(n), _) => (Framing::Exact(n), BodyLen::Exact(n)),
        (_, _, Coding::Chunked) => (Framing::Chunked, BodyLen::Unknown),
        (BodyRule::Request, ..) => (none, BodyLen::Empty),
        (BodyRule::Response, ..) => (Framing::UntilEof, BodyLen::Unknown),
    })
}

/// The facts of a head that [`framing`] refuses, as a lenient recipient reads them. False if the
/// connection must close after the message (RFC 9112 §6.1, §6.3).
pub(super) fn repaired(facts: Facts, leniency: Leniency) -> (Facts, bool) {
    let Facts { kind, mut version, mut length, coding } = facts;
    let is_coded = !matches!(coding, Coding::Absent | Coding::Bad);
    let mut is_sound = true;
    if let Length::Repeated(number) = length
        && leniency.has(Leniency::REPEATED_LENGTH)
    {
        length = Length::Exact(number);
    }
    if let Length::Exact(_) = length
        && is_coded
        && leniency.has(Leniency::CODING_OVER_LENGTH)
    {
        (length, is_sound) = (Length::Absent, false);
    }
    if version == Version::Http10 && is_coded && leniency.has(Leniency::CODING_IN_HTTP10) {
        (version, is_sound) = (Version::Http11, false);
    }
    (Facts { kind, version, length, coding }, is_sound)
}

/// True if a head declares that bytes follow.
pub(super) fn declares_body(length: Length, coding: Coding) -> bool {
    coding != Coding::Absent || !matches!(length, Length::Absent | Length::Exact(0))
}

impl Length {
    /// Takes in one more `Content-Length` field.
    pub(super) fn add(self, value: &[u8]) -> Self {
        match (self, decimal(value)) {
            (Self::Absent, Some(n)) => Self::Exact(n),
            _ => self.add_list(value),
        }
    }

    /// Adds a list of numbers, which must all be the same (RFC 9112 §6.3).
    #[cold]
    fn add_list(self, value: &[u8]) -> Self {
        value.split(|byte| *byte == b',').map(trim_ows).fold(self, |known, one| {
            match (known, decimal(one)) {
                (Self::Absent, Some(n)) => Self::Exact(n),
                (Self::Exact(n) | Self::Repeated(n), Some(again)) if n == again => {
                    Self::Repeated(n)
                }
                _ => Self::Bad,
            }
        })
    }
}

impl Coding {
    /// Takes in one more `Transfer-Encoding` field: fields of one name are one list
    /// (RFC 9110 §5.3).
    #[inline(never)] // as `Options::add`
    pub(super) fn add(self, value: &[u8]) -> Self {
        value.split(|b| *b == b',').map(trim_ows).fold(self, Self::add_one)
    }

    fn add_one(self, name: &[u8]) -> Self {
        let chunked = name.eq_ignore_ascii_case(b"chunked");
        // Empty list elements are allowed to senders of nothing (RFC 9110 §5.6.1): rejected,
        // as is a parameter: neither has an honest use here.
        match self {
            Self::Bad => Self::Bad,
            _ if !is_token(name) => Self::Bad,
            Self::Chunked | Self::Other if chunked => Self::Bad,
            Self::Absent if chunked => Self::Chunked,
            Self::Unframed if chunked => Self::Other,
            // `chunked` has been applied and is not last: no end of the message can be trusted.
            Self::Chunked | Self::Other => Self::Bad,
            Self::Absent | Self::Unframed => Self::Unframed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body_len::LENGTH_MAX;

    fn coding(values: &[&str]) -> Coding {
        values.iter().fold(Coding::Absent, |coding, value| coding.add(value.as_bytes()))
    }

    #[test]
    fn the_codings_of_several_fields_are_one_list() {
        assert_eq!(coding(&["chunked"]), Coding::Chunked);
        assert_eq!(coding(&["gzip", "Chunked"]), Coding::Other);
        assert_eq!(coding(&["chunked", "chunked"]), Coding::Bad);
        assert_eq!(coding(&["chunked, gzip"]), Coding::Bad);
        assert_eq!(coding(&["gzip"]), Coding::Unframed);
        for bad in ["", ",chunked", "chunked,", "chunked;a=b", "chunked\u{b}", "chun ked"] {
            assert_eq!(coding(&[bad]), Coding::Bad, "{bad:?}");
        }
    }

    #[test]
    fn a_length_is_digits_and_nothing_else() {
        let length = |value: &str| Length::Absent.add(value.as_bytes());
        assert_eq!(length("05"), Length::Exact(5));
        assert_eq!(length("9223372036854775807"), Length::Exact(LENGTH_MAX));
        for bad in ["", "+5", "-1", "0x5", "5 5", "5,", "5, 6", "1_0", "9223372036854775808"] {
            assert_eq!(length(bad), Length::Bad, "{bad:?}");
        }
        assert_eq!(length("5, 5"), Length::Repeated(5));
        assert_eq!(length("5").add(b"05").add(b"5,5"), Length::Repeated(5));
        assert_eq!(length("5").add(b"5").add(b"6"), Length::Bad);
        assert_eq!(length("5").add(b"6").add(b"6"), Length::Bad);
    }

    #[test]
    fn each_leniency_repairs_its_own_doubt_and_no_other() {
        let facts =
            |version, length, coding| Facts { kind: BodyRule::Response, version, length, coding };
        let (five, twice) = (Length::Exact(5), Length::Repeated(5));
        for (doubtful, leniency, outcome, is_sound) in [
            (facts(Version::Http11, twice, Coding::Absent), Leniency::REPEATED_LENGTH, 5, true),
            (facts(Version::Http11, five, Coding::Chunked), Leniency::CODING_OVER_LENGTH, 0, false),
            (
                facts(Version::Http10, Length::Absent, Coding::Chunked),
                Leniency::CODING_IN_HTTP10,
                0,
                false,
            ),
        ] {
            let framed = if outcome == 0 { Framing::Chunked } else { Framing::Exact(outcome) };
            let (facts, sound) = repaired(doubtful, leniency);
            assert_eq!((framing(facts).map(|(framing, _)| framing), sound), (Ok(framed), is_sound));
            let others = Leniency::lenient().without(leniency);
            assert!(framing(repaired(doubtful, others).0).is_err(), "{leniency:?}");
        }
        let bad = facts(Version::Http11, five, Coding::Bad);
        assert_eq!(
            framing(repaired(bad, Leniency::lenient()).0),
            Err(PeerError::BadLength),
            "a coding that means nothing overrides nothing"
        );
    }

    #[test]
    fn only_one_rule_applies() {
        let facts = |kind, length, coding| Facts { kind, version: Version::Http11, length, coding };
        let of = |kind, length, coding| framing(facts(kind, length, coding));
        let (absent, five) = (Length::Absent, Length::Exact(5));
        assert_eq!(
            of(BodyRule::Request, absent, Coding::Absent),
            Ok((Framing::Exact(0), BodyLen::Empty))
        );
        assert_eq!(of(BodyRule::Request, five, Coding::Chunked), Err(PeerError::BadLength));
        assert_eq!(of(BodyRule::Response, five, Coding::Unframed), Err(PeerError::BadLength));
        assert_eq!(
            of(BodyRule::Response, absent, Coding::Unframed),
            Err(PeerError::UnknownTransferCoding)
        );
        assert_eq!(
            of(BodyRule::Response, absent, Coding::Absent),
            Ok((Framing::UntilEof, BodyLen::Unknown))
        );
        assert_eq!(
            of(BodyRule::HeadResponse, five, Coding::Absent),
            Ok((Framing::Exact(0), BodyLen::Exact(5)))
        );
        assert_eq!(
            of(BodyRule::Bodiless, five, Coding::Chunked),
            Ok((Framing::Exact(0), BodyLen::Empty))
        );
    }
}
