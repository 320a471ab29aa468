//! Digest authentication: `MHD_digest_auth_check2`, `MHD_digest_auth_check_digest2`,
//! `MHD_queue_auth_fail_response2` (RFC 7616 with `qop=auth`).
//!
//! Differences from the original, each to the safe side: nonces of one second differ; a nonce
//! count of 0, repeated parameters and texts that are no parameters are refused; a count is used
//! up by a correct proof only. The scheme is compared without case.

mod nonces;

use std::fmt;

use fulmar_semantics::auth::{Challenge, challenges, is_same_secret};
use md5::{Digest, Md5};
use sha2::Sha256;

pub use nonces::{DigestNonces, NonceVerdict};

use crate::basic::quote;
use crate::percent::{digit, unescape};
use crate::target::{path_of, query_of};

/// `enum MHD_DigestAuthAlgorithm`; `MHD_DIGEST_ALG_AUTO` is SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestFunction {
    /// `MHD_DIGEST_ALG_MD5`.
    Md5,
    /// `MHD_DIGEST_ALG_SHA256`.
    Sha256,
}

/// What a proof must prove.
#[derive(Clone, Copy, Debug)]
pub struct DigestCheck<'a> {
    /// The realm of the challenge.
    pub realm: &'a [u8],
    /// The user.
    pub user: &'a [u8],
    /// What the client must know.
    pub secret: DigestSecret<'a>,
    /// The algorithm of the challenge.
    pub hash: DigestFunction,
    /// Seconds until a nonce is stale.
    pub nonce_timeout_s: u64,
}

/// What a client must know. `Debug` does not print it.
#[derive(Clone, Copy)]
pub enum DigestSecret<'a> {
    /// The password.
    Password(&'a [u8]),
    /// The hash of `USER:REALM:PASSWORD`, as bytes.
    Hashed(&'a [u8]),
}

/// The request of a proof.
#[derive(Clone, Copy, Debug)]
pub struct ProvenRequest<'a> {
    /// The value of `Authorization`.
    pub authorization: &'a [u8],
    /// The method.
    pub method: &'a [u8],
    /// The target, as it was sent.
    pub target: &'a [u8],
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestVerdict {
    /// `MHD_YES`.
    Valid,
    /// `MHD_NO`.
    Invalid,
    /// `MHD_INVALID_NONCE`: the response should be a challenge with `stale="true"`.
    InvalidNonce,
}

impl DigestFunction {
    fn name(self) -> &'static str {
        match self {
            Self::Md5 => "md5",
            Self::Sha256 => "sha-256",
        }
    }

    /// Size of a hash in bytes.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::Md5 => 16,
            Self::Sha256 => 32,
        }
    }

    /// The hash of parts that are joined with colons, in lower-case hexadecimal.
    fn of(self, parts: &[&[u8]]) -> String {
        let text = parts.join(&b':');
        match self {
            Self::Md5 => hex(&Md5::digest(text)),
            Self::Sha256 => hex(&Sha256::digest(text)),
        }
    }
}

impl DigestCheck<'_> {
    /// Checks the proof of a request at this time, in seconds of a clock that does not go back.
    #[must_use]
    pub fn verify(
        &self,
        nonces: &DigestNonces,
        now_s: u64,
        request: ProvenRequest<'_>,
    ) -> DigestVerdict {
        self.try_verify(nonces, now_s, request).unwrap_or(DigestVerdict::Invalid)
    }

    /// `None` if a parameter is missing or wrong.
    fn try_verify(
        &self,
        nonces: &DigestNonces,
        now_s: u64,
        request: ProvenRequest<'_>,
    ) -> Option<DigestVerdict> {
        let proof = proof_of(request.authorization)?;
        let is = |name: &str, value: &[u8]| proof.get(name).filter(|found| *found == value);
        is("username", self.user)?;
        is("realm", self.realm)?;
        is("qop", b"auth")?;
        let nonce = proof.get("nonce").filter(|nonce| !nonce.is_empty())?;
        let (uri, nc, cnonce) = (proof.get("uri")?, proof.get("nc")?, proof.get("cnonce")?);
        let response = str::from_utf8(proof.get("response")?).ok()?;
        let count = count_of(nc)?;
        if !nonces.is_fresh(now_s, self.nonce_timeout_s, nonce) {
            return Some(DigestVerdict::InvalidNonce);
        }
        let key = self.key()?;
        let target = self.hash.of(&[request.method, uri]);
        let parts = [key.as_bytes(), nonce, nc, cnonce, b"auth", target.as_bytes()];
        let is_proven = is_same_secret(&self.hash.of(&parts), response);
        if !is_proven || !is_same_target(uri, request.target) {
            return None;
        }
        match nonces.use_count(now_s, self.nonce_timeout_s, nonce, count) {
            NonceVerdict::Used => Some(DigestVerdict::Invalid),
            NonceVerdict::Unknown => Some(DigestVerdict::InvalidNonce),
            NonceVerdict::New => Some(DigestVerdict::Valid),
        }
    }

    /// The hash of user, realm and password.
    fn key(&self) -> Option<String> {
        match self.secret {
            DigestSecret::Password(password) => {
                Some(self.hash.of(&[self.user, self.realm, password]))
            }
            DigestSecret::Hashed(hash) => (hash.len() == self.hash.size()).then(|| hex(hash)),
        }
    }
}

impl fmt::Debug for DigestSecret<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Password(_) => "Password",
            Self::Hashed(_) => "Hashed",
        })
    }
}

/// `MHD_digest_auth_get_username`.
#[must_use]
pub fn digest_user(authorization: &[u8]) -> Option<Vec<u8>> {
    Some(proof_of(authorization)?.get("username")?.to_vec())
}

/// The value of `WWW-Authenticate`.
#[must_use]
pub fn digest_challenge(
    realm: &[u8],
    opaque: Option<&[u8]>,
    nonce: &str,
    hash: DigestFunction,
    is_stale: bool,
) -> Vec<u8> {
    let mut value = b"Digest realm=".to_vec();
    quote(realm, &mut value);
    value.extend_from_slice(format!(",qop=\"auth\",nonce=\"{nonce}\"").as_bytes());
    if let Some(opaque) = opaque {
        value.extend_from_slice(b",opaque=");
        quote(opaque, &mut value);
    }
    value.extend_from_slice(format!(",algorithm={}", hash.name()).as_bytes());
    if is_stale {
        value.extend_from_slice(b",stale=\"true\"");
    }
    value
}

fn proof_of(authorization: &[u8]) -> Option<Challenge<'_>> {
    let mut found = challenges([authorization]);
    let proof = found.pop().filter(|_| found.is_empty())?;
    proof.is("Digest").then_some(proof)
}

/// Up to 16 hexadecimal digits; RFC 7616 §3.4 has eight.
fn count_of(nc: &[u8]) -> Option<u64> {
    if nc.is_empty() || nc.len() > 16 {
        return None;
    }
    let add = |count: u64, byte: &u8| Some(count << 4 | u64::from(digit(*byte)?));
    nc.iter().try_fold(0, add).filter(|count| *count > 0)
}

/// True if path and arguments are the same after decoding.
fn is_same_target(uri: &[u8], target: &[u8]) -> bool {
    let mut decode = |text: &mut Vec<u8>| {
        unescape(text);
    };
    path_of(uri, &mut decode) == path_of(target, &mut decode)
        && query_of(uri, &mut decode) == query_of(target, &mut decode)
}

fn hex(bytes: &[u8]) -> String {
    let digits = b"0123456789abcdef";
    let pair = |byte: &u8| [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]];
    bytes.iter().flat_map(pair).map(char::from).collect()
}

#[cfg(test)]
mod tests;
