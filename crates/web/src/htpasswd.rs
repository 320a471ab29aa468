//! Users and passwords from a file: one `user:password` per line, as written by `htpasswd`.
//!
//! A password is a bcrypt hash (`htpasswd -B`), or plain text, which Digest needs. Empty lines and
//! lines that begin with `#` are ignored.
//!
//! A check with bcrypt takes milliseconds by design; seconds with a cost above [`COST_WARN`]. So
//! [`crate::auth::Guard`] calls [`Users::verify`] outside of the event loop. Correct passwords are
//! remembered, so later checks are immediate.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::sync::{Mutex, PoisonError};
use std::{fmt, io};

use bcrypt::HashParts;
use fulmar_semantics::auth::{Users, is_same_secret};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq as _;

/// Users and their passwords.
pub struct Htpasswd {
    users: BTreeMap<Box<str>, Password>,
    /// A hash for unknown users, so that their checks take as long.
    decoy: Option<Box<str>>,
    salt: [u8; 32],
    /// Salted hashes of correct passwords, by user.
    right: Mutex<HashMap<Box<str>, [u8; 32]>>,
}

enum Password {
    Plain(Box<str>),
    Bcrypt { hash: Box<str>, cost: u32 },
}

impl Htpasswd {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// The first invalid line. The error contains no part of a password.
    pub fn parse(text: &str) -> Result<Self, HtpasswdError> {
        let mut users = BTreeMap::new();
        for (line, number) in text.lines().zip(1..) {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let bad = |why| HtpasswdError::Line { number, why };
            let (user, password) = line.split_once(':').ok_or_else(|| bad(BadLine::NoColon))?;
            if line.chars().any(char::is_control) {
                return Err(bad(BadLine::Control));
            }
            let password = Password::parse(password).map_err(bad)?;
            if users.insert(user.into(), password).is_some() {
                return Err(bad(BadLine::Duplicate));
            }
        }
        let decoy = users.values().find_map(|password| match password {
            Password::Bcrypt { hash, .. } => Some(hash.clone()),
            Password::Plain(_) => None,
        });
        let salt = crate::auth::secret().map_err(HtpasswdError::Random)?;
        Ok(Self { users, decoy, salt, right: Mutex::default() })
    }

    /// The number of users.
    pub fn len(&self) -> usize {
        self.users.len()
    }

    /// True if there are no users.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// Users with a bcrypt cost above [`COST_WARN`], and that cost: each check takes seconds of CPU
    /// time.
    pub fn slow_users(&self) -> impl Iterator<Item = (&str, u32)> {
        self.users.iter().filter_map(|(user, password)| match password {
            Password::Bcrypt { cost, .. } => (*cost > COST_WARN).then_some((&**user, *cost)),
            Password::Plain(_) => None,
        })
    }

    /// The users with plain-text passwords.
    pub fn plain_users(&self) -> impl Iterator<Item = &str> {
        self.users.iter().filter_map(|(user, password)| match password {
            Password::Plain(_) => Some(&**user),
            Password::Bcrypt { .. } => None,
        })
    }

    fn salted(&self, password: &str) -> [u8; 32] {
        Sha256::new().chain_update(self.salt).chain_update(password).finalize().into()
    }

    /// True if the password is the remembered one. Takes as long for unknown users.
    fn is_remembered(&self, user: &str, password: &str) -> bool {
        let salted = self.salted(password);
        let right = self.right.lock().unwrap_or_else(PoisonError::into_inner);
        right.get(user).is_some_and(|known| known.ct_eq(&salted).into())
    }

    fn verify_hash(&self, user: &str, hash: &str, password: &str) -> bool {
        let is_right = bcrypt::verify(password, hash).unwrap_or(false);
        if is_right {
            let salted = self.salted(password);
            let mut right = self.right.lock().unwrap_or_else(PoisonError::into_inner);
            right.insert(user.into(), salted);
        }
        is_right
    }
}

impl Password {
    fn parse(text: &str) -> Result<Self, BadLine> {
        if ["$2y$", "$2a$", "$2b$", "$2x$"].iter().any(|prefix| text.starts_with(prefix)) {
            let parts: HashParts = text.parse().map_err(|_| BadLine::Hash)?;
            let cost = parts.get_cost();
            if !COSTS.contains(&cost) {
                return Err(BadLine::Hash);
            }
            return Ok(Self::Bcrypt { hash: text.into(), cost });
        }
        if text.starts_with('$') || text.starts_with('{') {
            return Err(BadLine::OtherHash);
        }
        Ok(Self::Plain(text.into()))
    }
}

impl Users for Htpasswd {
    fn password(&self, user: &str) -> Option<Cow<'_, str>> {
        match self.users.get(user)? {
            Password::Plain(password) => Some(Cow::Borrowed(password)),
            Password::Bcrypt { .. } => None,
        }
    }

    fn verify_at_once(&self, user: &str, password: &str) -> Option<bool> {
        match (self.users.get(user), &self.decoy) {
            (Some(Password::Plain(known)), _) => Some(is_same_secret(known, password)),
            (Some(Password::Bcrypt { .. }), _) | (None, Some(_)) => {
                self.is_remembered(user, password).then_some(true)
            }
            (None, None) => {
                let _ = is_same_secret("", password);
                Some(false)
            }
        }
    }

    fn verify(&self, user: &str, password: &str) -> bool {
        match (self.users.get(user), &self.decoy) {
            (Some(Password::Bcrypt { hash, .. }), _) => self.verify_hash(user, hash, password),
            (None, Some(hash)) => {
                let _ = bcrypt::verify(password, hash);
                false
            }
            (Some(Password::Plain(_)), _) | (None, None) => {
                self.verify_at_once(user, password) == Some(true)
            }
        }
    }
}

/// Without passwords.
impl fmt::Debug for Htpasswd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Htpasswd").field("users", &self.users.len()).finish_non_exhaustive()
    }
}

/// Why a file was rejected.
#[derive(Debug)]
#[non_exhaustive]
pub enum HtpasswdError {
    /// A line is invalid.
    Line {
        /// The line number, from 1.
        number: usize,
        /// The cause.
        why: BadLine,
    },
    /// The kernel has no random bytes.
    Random(io::Error),
}

/// Why a line is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadLine {
    /// There is no colon between user and password.
    NoColon,
    /// The line has a control character.
    Control,
    /// The user is listed twice.
    Duplicate,
    /// The password has the prefix of a bcrypt hash, but is not one.
    Hash,
    /// The password is a hash of another algorithm.
    OtherHash,
}

impl fmt::Display for HtpasswdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { number, why } => write!(f, "line {number}: {why}"),
            Self::Random(error) => write!(f, "cannot read random bytes: {error}"),
        }
    }
}

impl std::error::Error for HtpasswdError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Line { .. } => None,
            Self::Random(error) => Some(error),
        }
    }
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoColon => f.write_str("expected user:password"),
            Self::Control => f.write_str("control character in line"),
            Self::Duplicate => f.write_str("duplicate user"),
            Self::Hash => f.write_str("invalid bcrypt hash; create it with htpasswd -B"),
            Self::OtherHash => {
                f.write_str("unsupported hash algorithm; create a bcrypt hash with htpasswd -B")
            }
        }
    }
}

/// The maximum bcrypt cost without a warning: a hash takes about a second. Each increment doubles
/// it.
pub const COST_WARN: u32 = 14;
/// The valid bcrypt costs.
const COSTS: RangeInclusive<u32> = 4..=31;

#[cfg(test)]
mod tests {
    use super::*;

    /// A hash of `secret`, with a cost of 4.
    fn hash() -> String {
        bcrypt::hash("secret", 4).unwrap().replacen("$2b$", "$2y$", 1)
    }

    #[test]
    fn passwords_are_plain_or_hashed() {
        let text = format!("# users\n\nme:open:sesame\r\nyou:{}\nZoë:\n", hash());
        let users = Htpasswd::parse(&text).unwrap();
        assert_eq!(users.len(), 3);
        assert_eq!(format!("{users:?}"), "Htpasswd { users: 3, .. }");
        for (user, password, is_right) in [
            ("me", "open:sesame", true),
            ("me", "open", false),
            ("you", "secret", true),
            ("you", "secret", true),
            ("you", "Secret", false),
            ("you", "", false),
            ("Zoë", "", true),
            ("nobody", "secret", false),
            ("nobody", "", false),
            ("", "", false),
        ] {
            assert_eq!(users.verify(user, password), is_right, "{user}:{password}");
        }
        assert_eq!(users.password("me").as_deref(), Some("open:sesame"));
        assert_eq!(users.password("you"), None, "Digest needs the password itself");
    }

    #[test]
    fn correct_passwords_are_remembered() {
        let users = Htpasswd::parse(&format!("you:{}", hash())).unwrap();
        assert_eq!(users.verify_at_once("you", "secret"), None);
        assert!(!users.verify("you", "wrong") && users.right.lock().unwrap().is_empty());
        assert_eq!(users.verify_at_once("you", "wrong"), None);
        assert!(users.verify("you", "secret"));
        assert_eq!(users.verify_at_once("you", "secret"), Some(true));
        assert_eq!(users.verify_at_once("you", "wrong"), None);
        assert!(!users.verify("you", "wrong") && !users.verify_hash("you", "no hash", "secret"));
        assert_eq!(users.verify_at_once("you", "secret"), Some(true), "still remembered");
    }

    #[test]
    fn unknown_users_are_checked_like_known_ones() {
        let users = Htpasswd::parse(&format!("you:{}\nme:open", hash())).unwrap();
        for (user, password) in [("you", "wrong"), ("nobody", "wrong"), ("nobody", "secret")] {
            assert_eq!(users.verify_at_once(user, password), None, "{user}");
            assert!(!users.verify(user, password), "{user}");
        }
        assert_eq!(users.verify_at_once("me", "open"), Some(true));
        assert_eq!(users.verify_at_once("me", "wrong"), Some(false));
        let plain = Htpasswd::parse("me:open").unwrap();
        assert_eq!(plain.verify_at_once("nobody", "open"), Some(false), "there are no hashes");
    }

    #[test]
    fn all_costs_are_accepted_and_high_ones_reported() {
        let with = |cost: &str| hash().replacen("$04$", &format!("${cost}$"), 1);
        let text: String =
            ["11", "12", "14", "15", "31"].map(|cost| format!("u{cost}:{}\n", with(cost))).concat();
        let users = Htpasswd::parse(&text).unwrap();
        assert_eq!(users.slow_users().collect::<Vec<_>>(), [("u15", 15), ("u31", 31)]);
    }

    #[test]
    fn invalid_lines_are_reported_without_their_content() {
        let [low, high] = ["$03$", "$32$"].map(|cost| hash().replacen("$04$", cost, 1));
        for (text, number, why) in [
            ("a:b\nsecret", 2, BadLine::NoColon),
            ("a:b\u{7}", 1, BadLine::Control),
            ("a:b\na:c", 2, BadLine::Duplicate),
            ("\n\na:$2y$05$short", 3, BadLine::Hash),
            ("a:$apr1$x$y", 1, BadLine::OtherHash),
            ("a:{SHA}x", 1, BadLine::OtherHash),
            (&format!("a:{low}"), 1, BadLine::Hash),
            (&format!("a:{high}"), 1, BadLine::Hash),
        ] {
            let error = Htpasswd::parse(text).unwrap_err();
            let HtpasswdError::Line { number: line, why: because } = &error else {
                panic!("{error}")
            };
            assert_eq!((*line, *because), (number, why), "{text}");
            assert!(!error.to_string().contains("secret"));
        }
    }
}
