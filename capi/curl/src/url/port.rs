//! Ports: behind a host, and set on their own.

use crate::code::UrlCode;

/// A port as it is printed, and its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UrlPort {
    pub(super) text: Vec<u8>,
    pub(super) number: u16,
}

impl UrlPort {
    /// Splits `host:port`. An empty port is accepted behind a scheme only.
    pub(super) fn behind(
        authority: &[u8],
        has_scheme: bool,
    ) -> Result<(&[u8], Option<Self>), UrlCode> {
        let host_len = if authority.starts_with(b"[") {
            let end = authority.iter().position(|byte| *byte == b']').ok_or(UrlCode::BadIpv6)?;
            end + 1
        } else {
            authority.iter().position(|byte| *byte == b':').unwrap_or(authority.len())
        };
        let (host, rest) = authority.split_at(host_len);
        match rest {
            [] => Ok((host, None)),
            [b':'] if has_scheme => Ok((host, None)),
            [b':', digits @ ..] if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => {
                let number = number(digits).ok_or(UrlCode::BadPortNumber)?;
                let text = number.to_string().into_bytes();
                Ok((host, Some(Self { text, number })))
            }
            _ => Err(UrlCode::BadPortNumber),
        }
    }

    /// A port that is set: white space and a `+` may precede the digits, and are kept.
    pub(super) fn set(text: &[u8]) -> Result<Self, UrlCode> {
        let is_space = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
        let spaces = text.iter().take_while(|byte| is_space(byte)).count();
        let digits = &text[spaces..];
        let digits = digits.strip_prefix(b"+").unwrap_or(digits);
        let number = number(digits).filter(|number| *number > 0).ok_or(UrlCode::BadPortNumber)?;
        Ok(Self { text: text.to_vec(), number })
    }
}

fn number(digits: &[u8]) -> Option<u16> {
    let digits = std::str::from_utf8(digits).ok()?;
    if digits.starts_with('+') { None } else { digits.parse().ok() }
}
