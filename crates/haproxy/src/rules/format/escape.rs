//! Escaping of external text, so that it cannot change the structure of its context.

/// Which bytes are escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escape {
    /// In messages: control characters become `%0A`.
    Value,
    /// In logs: control characters become `#0A`.
    Log,
    /// In targets in logs: `"`, `#` and all but visible ASCII become `#0A`.
    Url,
    /// In fields in logs: also `{`, `|` and `}`, which enclose and separate them.
    Field,
}

impl Escape {
    /// Writes text. With `marks`, a backslash precedes the characters that end a parameter (RFC
    /// 5424 §6.3.3).
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
