//! Digest on the client side (RFC 7616 §3.4): the current nonce of a server, and the proofs for it.

use std::io::Write as _;

use percent_encoding::{NON_ALPHANUMERIC, percent_encode};

use super::challenge::Challenge;
use super::formula::{DigestAlgorithm, Formula, Protection};
use super::hash::Hex;
use super::scheme::{AuthRequest, Scheme, Unsigned};

/// The state for one challenge, with the count of its uses.
///
/// All requests of a nonce use the same `cnonce`, and differ in the count. So servers that compute
/// the key of a `-sess` algorithm once (as in the RFC), and servers that compute it for each
/// request, get the same key.
#[derive(Clone)]
pub(super) struct Digest {
    algorithm: DigestAlgorithm,
    /// The server named the algorithm, so the response names it too.
    is_named: bool,
    protection: Protection,
    realm: Box<[u8]>,
    /// `username` or `username*`.
    user: Vec<u8>,
    is_user_hashed: bool,
    /// The hash of user, realm and password; the password itself is not kept.
    secret: Hex,
    /// `H(A1)`.
    key: Hex,
    cnonce: Box<[u8]>,
    nonce: Box<[u8]>,
    opaque: Option<Box<[u8]>>,
    /// Number of uses of the nonce.
    count: u32,
}

impl Digest {
    /// `None` if the challenge is not for Digest, is incomplete, or requires an unknown option.
    pub(super) fn new(
        challenge: &Challenge<'_>,
        user: &str,
        password: &str,
        cnonce: &[u8],
    ) -> Option<Self> {
        let algorithm = DigestAlgorithm::of(challenge)?;
        let (realm, nonce) = (challenge.get("realm")?, challenge.get("nonce")?);
        let is = |name: &str, expected: &[u8]| {
            challenge.get(name).is_some_and(|value| value.eq_ignore_ascii_case(expected))
        };
        let is_user_hashed = is("userhash", b"true");
        let secret = algorithm.secret(user, realm, password);
        let mut digest = Self {
            algorithm,
            is_named: challenge.get("algorithm").is_some(),
            protection: Protection::of(challenge)?,
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
        self.algorithm.scheme()
    }

    /// Number of uses of the nonce.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn nonce(&self) -> &[u8] {
        &self.nonce
    }

    /// True if the challenge is for the same user and realm with the same options, so that only the
    /// nonce differs.
    pub(super) fn continues(&self, challenge: &Challenge<'_>) -> bool {
        challenge.get("realm") == Some(&self.realm)
            && DigestAlgorithm::of(challenge) == Some(self.algorithm)
            && Protection::of(challenge) == Some(self.protection)
            && challenge.get("nonce").is_some()
    }

    /// Takes the nonce of another challenge. Returns false if it has none.
    pub(super) fn renew(&mut self, challenge: &Challenge<'_>, cnonce: &[u8]) -> bool {
        let Some(nonce) = challenge.get("nonce") else { return false };
        self.cnonce = cnonce.into();
        self.opaque = challenge.get("opaque").map(Into::into);
        self.key = self.algorithm.key(&self.secret, nonce, cnonce);
        self.follow(nonce);
        true
    }

    /// Takes the next nonce without a challenge; the key of a session stays (§3.4.2).
    pub(super) fn follow(&mut self, nonce: &[u8]) {
        self.nonce = nonce.into();
        self.count = 0;
    }

    /// Appends the value of `Authorization`; appends nothing on errors.
    pub(super) fn authorize(
        &mut self,
        request: AuthRequest<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Unsigned> {
        let DigestAlgorithm { name, hash, is_session } = self.algorithm;
        let count = self.count.checked_add(1).ok_or(Unsigned::NonceExhausted)?;
        let nc = Hex::new(&count.to_be_bytes());
        let formula = Formula {
            hash,
            protection: self.protection,
            nonce: &self.nonce,
            nc: nc.as_bytes(),
            cnonce: &self.cnonce,
        };
        let response = formula.response(&self.key, request)?;
        self.count = count;
        let qop = self.protection.name();
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

fn parameter(name: &str, value: &[u8], out: &mut Vec<u8>) {
    write!(out, ", {name}=").expect(WRITES);
    quote(value, out);
}

/// Appends a quoted string (RFC 9110 §5.6.4).
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

const WRITES: &str = "writing to a Vec cannot fail";

#[cfg(test)]
mod tests;
