//! Priorities of responses (RFC 9218). Those of RFC 7540 are ignored.

use crate::error_code::ErrorCode;
use crate::event::StreamId;

use super::frame::ID_MAX;

/// The priority that a client assigned to a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamPriority {
    /// 0 is the most urgent, 7 the least.
    pub(super) urgency: u8,
    /// Responses of the same urgency are sent side by side, not one after the other.
    pub(super) incremental: bool,
}

impl Default for StreamPriority {
    /// Urgency 3. RFC 9218 §4.2 has responses sent one after the other by default; a client without
    /// priorities expects them side by side.
    fn default() -> Self {
        Self { urgency: 3, incremental: true }
    }
}

impl StreamPriority {
    /// Parses a `Priority` field or the value of PRIORITY_UPDATE: `u=5, i`. What cannot be parsed
    /// is ignored (RFC 9218 §4).
    pub(super) fn parse(value: &[u8]) -> Self {
        let mut priority = Self { incremental: false, ..Self::default() };
        for member in value.split(|b| *b == b',') {
            match member.trim_ascii() {
                [b'u', b'=', digit @ b'0'..=b'7'] => priority.urgency = digit - b'0',
                b"i" | b"i=?1" => priority.incremental = true,
                b"i=?0" => priority.incremental = false,
                _ => {}
            }
        }
        priority
    }
}

/// A stream cannot depend on itself (RFC 7540 §5.3.1). RFC 9113 §5.3.2 has priorities ignored and
/// leaves this case open: such a peer is broken, so its connection ends (§5.4).
pub(super) fn check_dependency(id: StreamId, [on @ .., _]: &[u8; 5]) -> Result<(), ErrorCode> {
    match u32::from_be_bytes(*on) & ID_MAX == id.0 {
        true => Err(ErrorCode::ProtocolError),
        false => Ok(()),
    }
}

/// The number of urgencies.
pub(super) const URGENCIES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_members_are_parsed_and_the_last_one_counts() {
        let of = |urgency, incremental| StreamPriority { urgency, incremental };
        for (value, expected) in [
            (&b""[..], of(3, false)),
            (b"u=0", of(0, false)),
            (b"i", of(3, true)),
            (b"u=7, i=?1", of(7, true)),
            (b" i , u=1 ,x=2,i=?0", of(1, false)),
            (b"u=8", of(3, false)),
            (b"u=-1, i=1", of(3, false)),
            (b"u=2,u=5", of(5, false)),
        ] {
            assert_eq!(StreamPriority::parse(value), expected, "{value:?}");
        }
    }
}
