//! How text of others is written, so that it stays where it belongs.

/// What is done with bytes that would break a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escape {
    /// For a message: control characters become `%0A`.
    Value,
    /// For a log: control characters become `#0A`.
    Log,
    /// For a target in a log: what is not visible ASCII, and `"` and `#`, become `#0A`.
    Url,
    /// For a field in a log: `{`, `|` and `}` too, which stand around and between them.
    Field,
}

impl Escape {
    /// Writes text; `marks`: a backslash before what ends a parameter (RFC 5424 §6.3.3).
    pub(super) fn write(self, text: &[u8], marks: bool, out: &mut Vec<u8>) {
        let is_mark = |byte: u8| marks && matches!(byte, b'"' | b'\\' | b']');
        let is_plain = |byte: &u8| !self.is_escaped(*byte) && !is_mark(*byte);
        let mut rest = text;
        while !rest.is_empty() {
            let plain = rest.iter().position(|byte| !is_plain(byte)).unwrap_or(rest.len());
            out.extend_from_slice(&rest[..plain]);
            rest = &rest[plain..];
            let Some((byte, behind)) = rest.split_first() else { break };
            match self.is_escaped(*byte) {
                true => {
                    let sign = if self == Self::Value { b'%' } else { b'#' };
                    out.extend([sign, hex(byte >> 4), hex(byte & 15)]);
                }
                false => out.extend([b'\\', *byte]),
            }
            rest = behind;
        }
    }

    fn is_escaped(self, byte: u8) -> bool {
        let is_control = byte.is_ascii_control();
        match self {
            Self::Value | Self::Log => is_control && byte != b'\t',
            Self::Url => is_control || !byte.is_ascii() || matches!(byte, b'"' | b'#'),
            Self::Field => {
                is_control || !byte.is_ascii() || matches!(byte, b'"' | b'#' | b'{' | b'|' | b'}')
            }
        }
    }
}

fn hex(digit: u8) -> u8 {
    b"0123456789ABCDEF"[usize::from(digit)]
}
