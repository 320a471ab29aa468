//! The formula of Digest (RFC 7616 §3.4.1), for clients and servers.

use super::challenge::Challenge;
use super::hash::{Hash, Hex};
use super::scheme::{AuthRequest, Scheme, Unsigned};

/// A Digest algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DigestAlgorithm {
    pub(super) name: &'static str,
    pub(super) hash: Hash,
    /// The key depends on the first nonces of the session (`-sess`).
    pub(super) is_session: bool,
}

/// The part of the request that the proof covers (`qop`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protection {
    /// Method and target, as in RFC 2069: the challenge has no `qop`.
    Legacy,
    /// Method, target, and the count of the nonce.
    Auth,
    /// The same, and the body.
    AuthInt,
}

/// The inputs of a proof besides the key and the request.
#[derive(Clone, Copy)]
pub(super) struct Formula<'a> {
    pub(super) hash: Hash,
    pub(super) protection: Protection,
    pub(super) nonce: &'a [u8],
    /// The count as text: eight digits.
    pub(super) nc: &'a [u8],
    pub(super) cnonce: &'a [u8],
}

impl DigestAlgorithm {
    /// MD5 if none is named (§3.3). `None` if the algorithm is unknown or the scheme is not Digest.
    pub(super) fn of(challenge: &Challenge<'_>) -> Option<Self> {
        if !challenge.is("Digest") {
            return None;
        }
        let name = challenge.get("algorithm").unwrap_or(b"MD5");
        let mut all = ALGORITHMS.iter();
        all.find(|known| name.eq_ignore_ascii_case(known.name.as_bytes())).copied()
    }

    /// The algorithm of a scheme; `None` if the scheme is not Digest.
    pub(super) fn of_scheme(scheme: Scheme) -> Option<Self> {
        let mut all = ALGORITHMS.iter().filter(|known| !known.is_session);
        all.find(|known| known.scheme() == scheme).copied()
    }

    pub(super) fn scheme(self) -> Scheme {
        match self.hash {
            Hash::Md5 => Scheme::DigestMd5,
            Hash::Sha256 => Scheme::DigestSha256,
            Hash::Sha512_256 => Scheme::DigestSha512,
        }
    }

    /// The hash that replaces the password.
    pub(super) fn secret(self, user: &str, realm: &[u8], password: &str) -> Hex {
        self.hash.of(&[user.as_bytes(), realm, password.as_bytes()])
    }

    /// `H(A1)`.
    pub(super) fn key(self, secret: &Hex, nonce: &[u8], cnonce: &[u8]) -> Hex {
        match self.is_session {
            true => self.hash.of(&[secret.as_bytes(), nonce, cnonce]),
            false => *secret,
        }
    }
}

impl Protection {
    /// `auth` is preferred to `auth-int`, which needs the complete body before the head is sent.
    pub(super) fn of(challenge: &Challenge<'_>) -> Option<Self> {
        let Some(offered) = challenge.get("qop") else { return Some(Self::Legacy) };
        let offers = |wanted: Self| {
            let mut options = offered.split(|byte| matches!(byte, b',' | b' ' | b'\t'));
            options.any(|option| option.eq_ignore_ascii_case(wanted.name().as_bytes()))
        };
        [Self::Auth, Self::AuthInt].into_iter().find(|wanted| offers(*wanted))
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Legacy => "",
            Self::Auth => "auth",
            Self::AuthInt => "auth-int",
        }
    }
}

impl Formula<'_> {
    pub(super) fn response(&self, key: &Hex, request: AuthRequest<'_>) -> Result<Hex, Unsigned> {
        let Self { hash, protection, nonce, nc, cnonce } = *self;
        let message = match (protection, request.body) {
            (Protection::AuthInt, None) => return Err(Unsigned::BodyUnknown),
            (Protection::AuthInt, Some(body)) => {
                let body = hash.of(&[body]);
                hash.of(&[request.method, request.target, body.as_bytes()])
            }
            _ => hash.of(&[request.method, request.target]),
        };
        let (key, message) = (key.as_bytes(), message.as_bytes());
        let qop = protection.name().as_bytes();
        Ok(match protection {
            Protection::Legacy => hash.of(&[key, nonce, message]),
            _ => hash.of(&[key, nonce, nc, cnonce, qop, message]),
        })
    }
}

const ALGORITHMS: &[DigestAlgorithm] = &[
    DigestAlgorithm { name: "MD5", hash: Hash::Md5, is_session: false },
    DigestAlgorithm { name: "MD5-sess", hash: Hash::Md5, is_session: true },
    DigestAlgorithm { name: "SHA-256", hash: Hash::Sha256, is_session: false },
    DigestAlgorithm { name: "SHA-256-sess", hash: Hash::Sha256, is_session: true },
    DigestAlgorithm { name: "SHA-512-256", hash: Hash::Sha512_256, is_session: false },
    DigestAlgorithm { name: "SHA-512-256-sess", hash: Hash::Sha512_256, is_session: true },
];
