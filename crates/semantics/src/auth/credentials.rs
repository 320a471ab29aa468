//! Credentials of a client.

use std::fmt;

/// A password or a token. `Debug` does not print it, and it is always valid in a header field.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Credentials {
    pub(super) secret: CredentialSecret,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum CredentialSecret {
    Password { user: Box<str>, password: Box<str> },
    Token(Box<str>),
}

/// Why credentials are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadCredentials {
    /// A control character, which no scheme permits (RFC 7617 §2).
    Control,
    /// The token is empty, or has bytes other than visible ASCII (RFC 6750 §2.1).
    Token,
}

impl fmt::Display for BadCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Control => "user or password has control characters",
            Self::Token => "token must be non-empty visible ASCII",
        })
    }
}

impl std::error::Error for BadCredentials {}

impl Credentials {
    /// For Basic and Digest.
    ///
    /// # Errors
    /// [`BadCredentials::Control`].
    pub fn password(user: &str, password: &str) -> Result<Self, BadCredentials> {
        if [user, password].iter().any(|text| text.chars().any(char::is_control)) {
            return Err(BadCredentials::Control);
        }
        let secret = CredentialSecret::Password { user: user.into(), password: password.into() };
        Ok(Self { secret })
    }

    /// For Bearer.
    ///
    /// # Errors
    /// [`BadCredentials::Token`].
    pub fn token(token: &str) -> Result<Self, BadCredentials> {
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(BadCredentials::Token);
        }
        Ok(Self { secret: CredentialSecret::Token(token.into()) })
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.secret {
            CredentialSecret::Password { user, .. } => {
                f.debug_struct("Password").field("user", user).finish_non_exhaustive()
            }
            CredentialSecret::Token(_) => f.debug_struct("Token").finish_non_exhaustive(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_has_no_secrets() {
        let password = Credentials::password("me", "secret").unwrap();
        assert_eq!(format!("{password:?}"), r#"Password { user: "me", .. }"#);
        assert_eq!(format!("{:?}", Credentials::token("secret").unwrap()), "Token { .. }");
    }

    #[test]
    fn control_characters_are_rejected() {
        for bad in ["a\r\nb", "a\0", "\x7f", "\u{85}"] {
            assert_eq!(Credentials::password(bad, "").unwrap_err(), BadCredentials::Control);
            assert_eq!(Credentials::password("", bad).unwrap_err(), BadCredentials::Control);
        }
        for bad in ["", "a b", "a\n", "é"] {
            assert_eq!(Credentials::token(bad).unwrap_err(), BadCredentials::Token);
        }
        assert!(Credentials::password("", "").is_ok());
    }
}
