//! Error codes of HTTP/2 (RFC 9113 §7).

use std::fmt;

/// Why a stream or a connection ends (RFC 9113 §7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ErrorCode {
    /// Not an error.
    NoError,
    /// The peer broke the protocol.
    ProtocolError,
    /// A failure of the sender.
    InternalError,
    /// The peer sent more than its window.
    FlowControlError,
    /// SETTINGS were not acknowledged in time.
    SettingsTimeout,
    /// A frame for a stream that the peer has closed.
    StreamClosed,
    /// A frame of a size that its type does not allow.
    FrameSizeError,
    /// The request was not processed.
    RefusedStream,
    /// The stream is not needed any more.
    Cancel,
    /// A header block could not be decoded.
    CompressionError,
    /// The connection of a CONNECT was reset.
    ConnectError,
    /// The peer generates excessive load.
    EnhanceYourCalm,
    /// The properties of the transport are too weak.
    InadequateSecurity,
    /// The endpoint requires HTTP/1.1.
    Http11Required,
}

impl ErrorCode {
    /// The code of a number; an unknown one counts as INTERNAL_ERROR (RFC 9113 §7).
    pub fn from_code(code: u32) -> Self {
        const CODES: [ErrorCode; 14] = [
            ErrorCode::NoError,
            ErrorCode::ProtocolError,
            ErrorCode::InternalError,
            ErrorCode::FlowControlError,
            ErrorCode::SettingsTimeout,
            ErrorCode::StreamClosed,
            ErrorCode::FrameSizeError,
            ErrorCode::RefusedStream,
            ErrorCode::Cancel,
            ErrorCode::CompressionError,
            ErrorCode::ConnectError,
            ErrorCode::EnhanceYourCalm,
            ErrorCode::InadequateSecurity,
            ErrorCode::Http11Required,
        ];
        let known = usize::try_from(code).ok().and_then(|at| CODES.get(at));
        known.copied().unwrap_or(Self::InternalError)
    }

    /// The number on the wire.
    pub fn code(self) -> u32 {
        u32::from(self as u8)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoError => "NO_ERROR",
            Self::ProtocolError => "PROTOCOL_ERROR",
            Self::InternalError => "INTERNAL_ERROR",
            Self::FlowControlError => "FLOW_CONTROL_ERROR",
            Self::SettingsTimeout => "SETTINGS_TIMEOUT",
            Self::StreamClosed => "STREAM_CLOSED",
            Self::FrameSizeError => "FRAME_SIZE_ERROR",
            Self::RefusedStream => "REFUSED_STREAM",
            Self::Cancel => "CANCEL",
            Self::CompressionError => "COMPRESSION_ERROR",
            Self::ConnectError => "CONNECT_ERROR",
            Self::EnhanceYourCalm => "ENHANCE_YOUR_CALM",
            Self::InadequateSecurity => "INADEQUATE_SECURITY",
            Self::Http11Required => "HTTP_1_1_REQUIRED",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_wire() {
        for number in 0..14 {
            assert_eq!(ErrorCode::from_code(number).code(), number);
        }
        assert_eq!(ErrorCode::Http11Required.code(), 0xd);
        for unknown in [14, u32::MAX] {
            assert_eq!(ErrorCode::from_code(unknown), ErrorCode::InternalError);
        }
    }
}
