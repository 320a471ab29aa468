//! Digest, the client's side (RFC 7616 §3.4): one nonce of a server, and the proofs made with it.

use std::io::Write as _;

use percent_encoding::{NON_ALPHANUMERIC, percent_encode};

use super::challenge::Challenge;
use super::hash::{Hash, Hex};
use super::session::{Request, Scheme, Unsigned};

/// What one challenge asked for, and how often it has been answered.
///
/// One `cnonce` serves all requests of a nonce, which the count tells apart: so servers that
/// compute the key of a `-sess` algorithm once, as the RFC says, and those that compute it for
/// each request come to the same.
#[derive(Clone)]
pub(super) struct Digest {
    algorithm: Algorithm,
    /// The server named it, so we do too.
    is_named: bool,
    protection: Protection,
    realm: Box<[u8]>,
    /// `username` or `username*`.
    user: Vec<u8>,
    is_user_hashed: bool,
    /// Of user, realm and password: the only form in which the password is kept.
    secret: Hex,
    /// `H(A1)`.
    key: Hex,
    cnonce: Box<[u8]>,
    nonce: Box<[u8]>,
    opaque: Option<Box<[u8]>>,
    /// How often the nonce was used.
    count: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Algorithm {
    name: &'static str,
    hash: Hash,
    /// The key depends on the first nonces of the session.
    is_session: bool,
}

/// What the proof covers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Protection {
    /// Method and target, as in RFC 2069: no `qop` was offered.
    Legacy,
    /// Method, target, and how often the nonce was used.
    Auth,
    /// The body too.
    AuthInt,
}

impl Digest {
    /// `None` if the challenge is not Digest's, is incomplete, or asks for what we do not know.
    pub(super) fn new(
        challenge: &Challenge<'_>,
        user: &str,
        password: &str,
        cnonce: &[u8],
    ) -> Option<Self> {
        let algorithm = algorithm(challenge)?;
        let (realm, nonce) = (challenge.get("realm")?, challenge.get("nonce")?);
        let is = |name: &str, expected: &[u8]| {
            challenge.get(name).is_some_and(|value| value.eq_ignore_ascii_case(expected))
        };
        let is_user_hashed = is("userhash", b"true");
        let secret = algorithm.hash.of(&[user.as_bytes(), realm, password.as_bytes()]);
        let mut digest = Self {
            algorithm,
            is_named: challenge.get("algorithm").is_some(),
            protection: protection(challenge)?,
            realm: realm.into(),
            user: Vec::new(),
            is_user_hashed,
            secret,
            key: secret,
            cnonce: cnonce.into(),
            nonce: nonce.into(),
            opaque: None,
            count: 0,
        };
        if is_user_hashed {
            let hash = algorithm.hash.of(&[user.as_bytes(), realm]);
            digest.user.extend_from_slice(b"username=");
            quote(hash.as_bytes(), &mut digest.user);
        } else if user.is_ascii() || !is("charset", b"utf-8") {
            digest.user.extend_from_slice(b"username=");
            quote(user.as_bytes(), &mut digest.user);
        } else {
            let user = percent_encode(user.as_bytes(), NON_ALPHANUMERIC);
            write!(digest.user, "username*=UTF-8''{user}").expect(WRITES);
        }
        digest.renew(challenge, cnonce).then_some(digest)
    }

    pub(super) fn scheme(&self) -> Scheme {
        match self.algorithm.hash {
            Hash::Md5 => Scheme::DigestMd5,
            Hash::Sha256 => Scheme::DigestSha256,
            Hash::Sha512_256 => Scheme::DigestSha512,
        }
    }

    /// How often the nonce was used.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn nonce(&self) -> &[u8] {
        &self.nonce
    }

    /// True if the challenge is for the same user with the same means, so that only the nonce may
    /// differ.
    pub(super) fn continues(&self, challenge: &Challenge<'_>) -> bool {
        challenge.get("realm") == Some(&self.realm)
            && algorithm(challenge) == Some(self.algorithm)
            && protection(challenge) == Some(self.protection)
            && challenge.get("nonce").is_some()
    }

    /// Takes the nonce of a further challenge. False if it has none.
    pub(super) fn renew(&mut self, challenge: &Challenge<'_>, cnonce: &[u8]) -> bool {
        let Some(nonce) = challenge.get("nonce") else { return false };
        self.cnonce = cnonce.into();
        self.opaque = challenge.get("opaque").map(Into::into);
        if self.algorithm.is_session {
            self.key = self.algorithm.hash.of(&[self.secret.as_bytes(), nonce, cnonce]);
        }
        self.follow(nonce);
        true
    }

    /// Takes the next nonce without a challenge: the key of a session stays (§3.4.2).
    pub(super) fn follow(&mut self, nonce: &[u8]) {
        self.nonce = nonce.into();
        self.count = 0;
    }

    /// Appends the value of `Authorization`; nothing on errors.
    pub(super) fn authorize(
        &mut self,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Unsigned> {
        let Algorithm { name, hash, is_session } = self.algorithm;
        let message = match (self.protection, request.body) {
            (Protection::AuthInt, None) => return Err(Unsigned::BodyUnknown),
            (Protection::AuthInt, Some(body)) => {
                let body = hash.of(&[body]);
                hash.of(&[request.method, request.target, body.as_bytes()])
            }
            _ => hash.of(&[request.method, request.target]),
        };
        let count = self.count.checked_add(1).ok_or(Unsigned::Spent)?;
        self.count = count;
        let digits = count.to_be_bytes();
        let nc = Hex::new(&digits);
        let (key, message) = (self.key.as_bytes(), message.as_bytes());
        let qop = self.protection.name();
        let response = match self.protection {
            Protection::Legacy => hash.of(&[key, &self.nonce, message]),
            _ => {
                let (nc, qop) = (nc.as_bytes(), qop.as_bytes());
                hash.of(&[key, &self.nonce, nc, &self.cnonce, qop, message])
            }
        };
        out.extend_from_slice(b"Digest ");
        out.extend_from_slice(&self.user);
        parameter("realm", &self.realm, out);
        parameter("uri", request.target, out);
        if self.is_named {
            write!(out, ", algorithm={name}").expect(WRITES);
        }
        parameter("nonce", &self.nonce, out);
        if self.protection != Protection::Legacy {
            write!(out, ", nc={count:08x}, qop={qop}").expect(WRITES);
        }
        if self.protection != Protection::Legacy || is_session {
            parameter("cnonce", &self.cnonce, out);
        }
        parameter("response", response.as_bytes(), out);
        if let Some(opaque) = &self.opaque {
            parameter("opaque", opaque, out);
        }
        if self.is_user_hashed {
            out.extend_from_slice(b", userhash=true");
        }
        Ok(())
    }
}

impl Protection {
    fn name(self) -> &'static str {
        match self {
            Self::Legacy => "",
            Self::Auth => "auth",
            Self::AuthInt => "auth-int",
        }
    }
}

/// MD5 if none is named (§3.3).
fn algorithm(challenge: &Challenge<'_>) -> Option<Algorithm> {
    if !challenge.is("Digest") {
        return None;
    }
    let name = challenge.get("algorithm").unwrap_or(b"MD5");
    let mut all = ALGORITHMS.iter();
    all.find(|known| name.eq_ignore_ascii_case(known.name.as_bytes())).copied()
}

/// `auth` before `auth-int`, which needs the whole body before its head can be sent.
fn protection(challenge: &Challenge<'_>) -> Option<Protection> {
    let Some(offered) = challenge.get("qop") else { return Some(Protection::Legacy) };
    let offers = |wanted: Protection| {
        let mut options = offered.split(|byte| matches!(byte, b',' | b' ' | b'\t'));
        options.any(|option| option.eq_ignore_ascii_case(wanted.name().as_bytes()))
    };
    [Protection::Auth, Protection::AuthInt].into_iter().find(|wanted| offers(*wanted))
}

fn parameter(name: &str, value: &[u8], out: &mut Vec<u8>) {
    write!(out, ", {name}=").expect(WRITES);
    quote(value, out);
}

/// A quoted string (RFC 9110 §5.6.4).
pub(super) fn quote(value: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in value {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

const ALGORITHMS: &[Algorithm] = &[
    Algorithm { name: "MD5", hash: Hash::Md5, is_session: false },
    Algorithm { name: "MD5-sess", hash: Hash::Md5, is_session: true },
    Algorithm { name: "SHA-256", hash: Hash::Sha256, is_session: false },
    Algorithm { name: "SHA-256-sess", hash: Hash::Sha256, is_session: true },
    Algorithm { name: "SHA-512-256", hash: Hash::Sha512_256, is_session: false },
    Algorithm { name: "SHA-512-256-sess", hash: Hash::Sha512_256, is_session: true },
];

const WRITES: &str = "a Vec takes all that is written";

#[cfg(test)]
mod tests;
