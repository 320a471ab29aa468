//! Responses of the library itself to requests that it refuses, and what
//! `MHD_OPTION_STRICT_FOR_CLIENT` changes.
//!
//! Statuses are those of the original; the pages have texts of their own. The original sends some
//! of these heads twice.

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestFailure {
    /// The first line is not a request line: the connection closes without a response.
    NoRequestLine,
    /// The request line or a field is malformed.
    Malformed,
    /// The version is below HTTP/1.0.
    VersionTooOld,
    /// The version is HTTP/2.0 or later.
    VersionUnsupported,
    /// HTTP/1.1 without `Host`.
    HostMissing,
    /// `Content-Length` is no number.
    BadContentLength,
    /// `Content-Length` is too large for 64 bits.
    ContentTooLarge,
    /// The chunks of the body are malformed.
    BadChunk,
    /// The size of a chunk is too large for 64 bits.
    ChunkTooLarge,
    /// The request line does not fit into the memory limit.
    LineTooLong,
    /// The head does not fit into the memory limit.
    HeadTooLarge,
}

/// A level of `MHD_OPTION_STRICT_FOR_CLIENT`, as the facts that depend on it in 0.9.75.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strictness {
    /// HTTP/1.1 requires `Host`: 400 without it.
    pub requires_host: bool,
    /// A blank in the name of a field is malformed: 400. Otherwise it is a part of the name.
    pub refuses_blank_in_name: bool,
    /// A blank in the target closes the connection without a response. Otherwise it is a part of
    /// the target.
    pub refuses_blank_in_target: bool,
}

impl Strictness {
    /// Of the value of the option; the default is 0.
    #[must_use]
    pub fn of(level: i32) -> Self {
        Self {
            requires_host: level > 0,
            refuses_blank_in_name: level < 0,
            refuses_blank_in_target: level > 0,
        }
    }
}

impl RequestFailure {
    /// The status of the response; `None` if there is none. The connection closes in each case.
    #[must_use]
    pub fn status(self) -> Option<u16> {
        match self {
            Self::NoRequestLine => None,
            Self::Malformed | Self::HostMissing | Self::BadContentLength | Self::BadChunk => {
                Some(400)
            }
            Self::ContentTooLarge | Self::ChunkTooLarge => Some(413),
            Self::LineTooLong => Some(414),
            Self::HeadTooLarge => Some(431),
            Self::VersionTooOld | Self::VersionUnsupported => Some(505),
        }
    }

    /// The body of the response, in HTML.
    #[must_use]
    pub fn page(self) -> String {
        let cause = self.cause();
        format!(
            "<!DOCTYPE html><html><head><title>{cause}</title></head><body>{cause}</body></html>"
        )
    }

    /// Plain text without characters that HTML would have to escape.
    fn cause(self) -> &'static str {
        match self {
            Self::NoRequestLine => "The first line is not a request line.",
            Self::Malformed => "The request line or a header field is malformed.",
            Self::VersionTooOld => "HTTP versions before 1.0 are not supported.",
            Self::VersionUnsupported => "HTTP versions after 1.1 are not supported.",
            Self::HostMissing => "The header field Host is missing.",
            Self::BadContentLength => "Content-Length is not a number.",
            Self::ContentTooLarge => "Content-Length is too large.",
            Self::BadChunk => "The chunked body is malformed.",
            Self::ChunkTooLarge => "The size of a chunk is too large.",
            Self::LineTooLong => "The request line is too long for the memory limit.",
            Self::HeadTooLarge => "The header is too large for the memory limit.",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_those_of_the_original() {
        let recorded = [
            (RequestFailure::NoRequestLine, None),
            (RequestFailure::Malformed, Some(400)),
            (RequestFailure::VersionTooOld, Some(505)),
            (RequestFailure::VersionUnsupported, Some(505)),
            (RequestFailure::HostMissing, Some(400)),
            (RequestFailure::BadContentLength, Some(400)),
            (RequestFailure::ContentTooLarge, Some(413)),
            (RequestFailure::BadChunk, Some(400)),
            (RequestFailure::ChunkTooLarge, Some(413)),
            (RequestFailure::LineTooLong, Some(414)),
            (RequestFailure::HeadTooLarge, Some(431)),
        ];
        for (failure, status) in recorded {
            assert_eq!(failure.status(), status, "{failure:?}");
            let inner = failure.cause();
            assert!(!inner.contains(['<', '>', '&']), "{inner}");
            assert_eq!(failure.page().matches(inner).count(), 2);
        }
    }

    /// Requests at the levels -1, 0 and 1: `Host : a`, a blank in another name, no Host, and a
    /// blank in the target.
    #[test]
    fn levels_differ_as_in_the_original() {
        let facts = |level| {
            let Strictness { requires_host, refuses_blank_in_name, refuses_blank_in_target } =
                Strictness::of(level);
            [requires_host, refuses_blank_in_name, refuses_blank_in_target]
        };
        assert_eq!(facts(-1), [false, true, false]);
        assert_eq!(facts(0), [false, false, false]);
        assert_eq!(facts(1), [true, false, true]);
    }
}
