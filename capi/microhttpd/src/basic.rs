//! Basic authentication: `MHD_basic_auth_get_username_password`,
//! `MHD_queue_basic_auth_fail_response` (RFC 7617).

use std::ffi::CString;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The name and the password of a request. `Debug` does not print the password.
#[derive(Clone, PartialEq, Eq)]
pub struct BasicPair {
    /// Has no colon.
    pub user: CString,
    /// May have colons.
    pub password: CString,
}

impl BasicPair {
    /// From the value of `Authorization`; `None` if that is another scheme, or malformed. As in the
    /// original, the scheme is compared with its case, and one blank follows it. A text with a NUL,
    /// which C cannot read, is malformed.
    #[must_use]
    pub fn parse(authorization: &[u8]) -> Option<Self> {
        let encoded = authorization.strip_prefix(b"Basic ")?;
        let pair = STANDARD.decode(encoded).ok()?;
        let colon = pair.iter().position(|byte| *byte == b':')?;
        let user = CString::new(&pair[..colon]).ok()?;
        let password = CString::new(&pair[colon + 1..]).ok()?;
        Some(Self { user, password })
    }
}

impl fmt::Debug for BasicPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BasicPair").field("user", &self.user).finish_non_exhaustive()
    }
}

/// The value of `WWW-Authenticate`. Quotes in the realm are escaped, which the original omits.
#[must_use]
pub fn basic_challenge(realm: &[u8]) -> Vec<u8> {
    let mut value = b"Basic realm=".to_vec();
    quote(realm, &mut value);
    value
}

/// Appends a quoted string (RFC 9110 §5.6.4).
pub(crate) fn quote(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_those_of_the_original() {
        let recorded: &[(&str, Option<(&str, &str)>)] = &[
            ("Basic dTpw", Some(("u", "p"))),
            ("basic dTpw", None),
            ("BASIC dTpw", None),
            ("Basic  dTpw", None),
            ("Basic\tdTpw", None),
            ("Basic dTo=", Some(("u", ""))),
            ("Basic OnA=", Some(("", "p"))),
            ("Basic dQ==", None),
            ("Basic dTpwOng=", Some(("u", "p:x"))),
            ("Basic dTpw=", None),
            ("Basic dTp", None),
            ("Basic ", None),
            ("Basic", None),
            ("Basic !!!!", None),
            ("Basic dTpw x", None),
            ("Basic dTpw ", None),
            ("Bearer dTpw", None),
            ("Digest x", None),
            ("Basic dQA6cA==", None),
            ("Basic Og==", Some(("", ""))),
        ];
        for (value, expected) in recorded {
            let pair = BasicPair::parse(value.as_bytes());
            let pair =
                pair.as_ref().map(|p| (p.user.to_str().unwrap(), p.password.to_str().unwrap()));
            assert_eq!(pair, *expected, "{value}");
        }
    }

    /// The original returns a password with a byte that was not sent.
    #[test]
    fn padding_without_data_is_malformed() {
        assert_eq!(BasicPair::parse(b"Basic dTpw===="), None);
    }

    #[test]
    fn challenge_quotes_the_realm() {
        assert_eq!(basic_challenge(b"r"), b"Basic realm=\"r\"");
        assert_eq!(basic_challenge(b"q\"uo\\te"), b"Basic realm=\"q\\\"uo\\\\te\"");
    }

    #[test]
    fn password_is_not_printed() {
        let shown = format!("{:?}", BasicPair::parse(b"Basic dTpwOng=").unwrap());
        assert_eq!(shown, "BasicPair { user: \"u\", .. }");
    }
}
