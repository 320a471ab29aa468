//! The errors of connections: the peer broke the protocol, or the caller broke the contract.

use std::fmt;

use crate::error_code::ErrorCode;

/// The peer broke the protocol. The reply is already queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerError {
    /// The start line and fields are longer than [`crate::h1::HEAD_SIZE_MAX`].
    HeadTooLarge,
    /// More fields than [`crate::h1::FIELDS_LEN_MAX`].
    TooManyFields,
    /// The request target is longer than [`crate::h1::TARGET_SIZE_MAX`] (RFC 9112 §3).
    TargetTooLong,
    /// The method is longer than [`crate::h1::METHOD_SIZE_MAX`] (RFC 9112 §3).
    MethodTooLong,
    /// The start line is not one of HTTP/1 (RFC 9112 §3, §4).
    BadStartLine,
    /// The request target is not one of the four forms (RFC 9112 §3.2).
    BadTarget,
    /// A version that this connection does not support (RFC 9110 §15.6.6).
    BadVersion,
    /// A field name, value or line end that the grammar does not allow (RFC 9112 §5, §2.2).
    BadField,
    /// `Host` is missing, repeated, malformed, or differs from the target (RFC 9112 §3.2).
    BadHost,
    /// `Content-Length` is malformed, repeated, or together with `Transfer-Encoding` (§6.3).
    BadLength,
    /// `Transfer-Encoding` does not end the message, or came with HTTP/1.0 (§6.1, §6.3).
    BadTransferEncoding,
    /// A transfer coding that we do not implement (§6.1).
    UnknownTransferCoding,
    /// An expectation other than `100-continue` (RFC 9110 §10.1.1).
    UnknownExpectation,
    /// The chunked framing is broken, or its extensions are too long (§7.1).
    BadChunk,
    /// By the rules of libcurl: a chunk size has no digit, or exceeds 63 bits.
    MissingChunkSize,
    /// By the rules of libcurl: a chunk size has too many digits.
    LongChunkSize,
    /// A trailer field that the grammar or our limits do not allow (§7.1.2).
    BadTrailer,
    /// The connection ended inside a message (§8).
    UnexpectedEof,
    /// HTTP/2: the body ended before its `Content-Length` (RFC 9113 §8.1.1).
    BodyTooShort,
    /// HTTP/2: the body is longer than its `Content-Length` (RFC 9113 §8.1.1).
    BodyTooLong,
    /// Bytes arrived that belong to no exchange.
    Unsolicited,
    /// A 101 response without a request for an upgrade, or to one that cannot be upgraded
    /// (§15.2.2).
    UnexpectedUpgrade,
    /// [`crate::h1::ResponseProfile::Libcurl`]: the status is not one of 100 to 999.
    BadStatus,
    /// [`crate::h1::ResponseProfile::Libcurl`]: a line of the head has a NUL.
    NulInHead,
    /// [`crate::h1::ResponseProfile::Libcurl`]: a line of the head has no colon.
    MissingColon,
    /// A line of the head is longer than [`crate::h1::LIBCURL_LINE_SIZE_MAX`].
    LineTooLong,
    /// More interim responses than [`crate::h1::INTERIM_LEN_MAX`].
    TooManyInterim,
    /// The server ended the connection with GOAWAY (RFC 9113 §6.8), and responses are missing.
    Goaway(ErrorCode),
    /// The server responded in HTTP/1 to the preface of HTTP/2 (RFC 9113 §3.4).
    NotHttp2,
    /// The server sent frames of HTTP/2 to a client of HTTP/1.
    OnlyHttp2,
    /// The server sent a record of TLS to a client without TLS.
    OnlyTls,
    /// A connection error of HTTP/2 (RFC 9113 §5.4.1).
    Http2(ErrorCode),
    /// A stream error of HTTP/2 (RFC 9113 §5.4.2): a frame that its state does not permit, or more
    /// bytes than its window has.
    Http2Stream(ErrorCode),
}

impl PeerError {
    /// The status of a server's response to it, if a response is possible.
    pub fn status(self) -> u16 {
        match self {
            Self::HeadTooLarge | Self::TooManyFields => 431,
            Self::TargetTooLong => 414,
            Self::MethodTooLong | Self::UnknownTransferCoding => 501,
            Self::BadVersion => 505,
            Self::UnknownExpectation => 417,
            _ => 400,
        }
    }
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http2(code) => return write!(f, "HTTP/2 connection error {code}"),
            Self::Http2Stream(code) => return write!(f, "HTTP/2 stream error {code}"),
            Self::Goaway(code) => {
                return write!(f, "the server closed the connection with GOAWAY ({code})");
            }
            Self::HeadTooLarge => "the head is too large",
            Self::TooManyFields => "the head has too many fields",
            Self::TargetTooLong => "the request target is too long",
            Self::MethodTooLong => "the method is too long",
            Self::BadStartLine => "the start line is malformed",
            Self::BadTarget => "the request target is malformed",
            Self::BadVersion => "the HTTP version is not supported",
            Self::BadField => "a header field is malformed",
            Self::BadHost => "the Host field is missing or malformed",
            Self::BadLength => "the Content-Length is malformed or ambiguous",
            Self::BadTransferEncoding => "the Transfer-Encoding is malformed or misplaced",
            Self::UnknownTransferCoding => "the transfer coding is not implemented",
            Self::UnknownExpectation => "the expectation is not supported",
            Self::BadChunk => "the chunked framing is malformed",
            Self::MissingChunkSize => "a chunk size is missing or too large",
            Self::LongChunkSize => "a chunk size has too many digits",
            Self::BadTrailer => "a trailer field is malformed",
            Self::UnexpectedEof => "the connection ended inside a message",
            Self::BodyTooShort => "the body is shorter than its Content-Length",
            Self::BodyTooLong => "the body is longer than its Content-Length",
            Self::Unsolicited => "bytes arrived that belong to no exchange",
            Self::UnexpectedUpgrade => "an upgrade that was not asked for",
            Self::BadStatus => "the status code is not supported",
            Self::NulInHead => "a line of the head has a NUL byte",
            Self::MissingColon => "a header line has no colon",
            Self::LineTooLong => "a header line is too long",
            Self::TooManyInterim => "too many interim responses",
            Self::NotHttp2 => "the server does not speak HTTP/2",
            Self::OnlyHttp2 => "the server speaks HTTP/2 without negotiation",
            Self::OnlyTls => "the server speaks TLS on this port",
        })
    }
}

impl std::error::Error for PeerError {}

/// The caller broke the contract. Nothing was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UsageError {
    /// The head of this message has been sent.
    HeadAlreadySent,
    /// No such exchange is open, or its head has not been sent.
    NoSuchStream,
    /// More body than the head declared, or a body where none is allowed.
    BodyLongerThanDeclared,
    /// The body ended before the length that the head declared.
    BodyShorterThanDeclared,
    /// A method, target, field or trailer that would break the message (RFC 9110 §5.5).
    BadHead,
    /// HTTP/2: an exchange that was opened earlier has no head yet. Heads have the order in which
    /// their exchanges were opened (RFC 9113 §5.1.1).
    HeadOutOfOrder,
    /// HTTP/2: the server has not announced extended CONNECT (RFC 8441 §3).
    NoExtendedConnect,
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HeadAlreadySent => "the head of this message has been sent already",
            Self::NoSuchStream => "no such exchange is open for sending",
            Self::BodyLongerThanDeclared => "the body is longer than the head declared",
            Self::BodyShorterThanDeclared => "the body is shorter than the head declared",
            Self::BadHead => "the head has a byte that is not allowed there",
            Self::HeadOutOfOrder => "an exchange that was opened earlier has no head yet",
            Self::NoExtendedConnect => "the server does not support extended CONNECT",
        })
    }
}

impl std::error::Error for UsageError {}
