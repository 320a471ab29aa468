//! What a client sends to prove itself, from one challenge to the next.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::challenge::{Challenge, info};
use super::credentials::{Credentials, Secret};
use super::digest::Digest;
use super::hash::Hex;

/// How a client proves itself; better ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    /// The password itself, for everybody to read who sees the request.
    Basic,
    /// Digest with MD5.
    DigestMd5,
    /// Digest with SHA-256.
    DigestSha256,
    /// Digest with SHA-512/256.
    DigestSha512,
    /// A token.
    Bearer,
}

/// What Digest's proof is about.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// As it is sent.
    pub method: &'a [u8],
    /// As it is sent.
    pub target: &'a [u8],
    /// The whole body if it is at hand; an empty one if there is none.
    pub body: Option<&'a [u8]>,
}

/// One proof that was sent: which of its nonces a server refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    generation: u64,
    count: u32,
}

/// Why there is no proof. The request goes without one, and the next challenge starts anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsigned {
    /// The server wants the body covered, and it is not at hand.
    BodyUnknown,
    /// The nonce was used 2^32 - 1 times.
    Spent,
}

impl fmt::Display for Unsigned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BodyUnknown => "the server wants a digest of the body, which is not at hand",
            Self::Spent => "the server's nonce has been used too often",
        })
    }
}

impl std::error::Error for Unsigned {}

/// What a further 401 or 407 means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The nonce was too old. There is a newer one now: send the request again.
    Retry,
    /// The server does not want these credentials.
    Refused,
}

/// What to send to one origin, or one proxy, in one realm.
#[derive(Clone)]
pub struct Session {
    proof: Proof,
    /// Counts the nonces.
    generation: u64,
}

#[derive(Clone)]
enum Proof {
    /// The same for all requests.
    Fixed(Scheme, Box<[u8]>),
    Digest(Box<Digest>),
}

impl Session {
    /// Answers challenges with the best scheme that these credentials are for, and that is not
    /// worse than `weakest`; of equal ones, the first. `None` if there is none.
    ///
    /// `random` are 16 bytes that nobody can foretell.
    pub fn begin(
        challenges: &[Challenge<'_>],
        credentials: &Credentials,
        weakest: Scheme,
        random: [u8; 16],
    ) -> Option<Self> {
        let proofs = challenges.iter().rev().filter_map(|challenge| match &credentials.secret {
            Secret::Password { user, password } if challenge.is("Digest") => {
                Digest::new(challenge, user, password, Hex::new(&random).as_bytes())
                    .map(|digest| Proof::Digest(Box::new(digest)))
            }
            Secret::Password { .. } if challenge.is("Basic") => fixed(credentials),
            Secret::Token(_) if challenge.is("Bearer") => fixed(credentials),
            _ => None,
        });
        let proof = proofs.filter(|proof| proof.scheme() >= weakest).max_by_key(Proof::scheme)?;
        Some(Self { proof, generation: 0 })
    }

    /// Basic or Bearer without being asked: what a caller wants who knows the server. `None` if
    /// the user's name has a colon, which Basic cannot carry (RFC 7617 §2).
    pub fn unasked(credentials: &Credentials) -> Option<Self> {
        Some(Self { proof: fixed(credentials)?, generation: 0 })
    }

    /// How it proves itself.
    pub fn scheme(&self) -> Scheme {
        self.proof.scheme()
    }

    /// Appends the value of `Authorization` for one request.
    ///
    /// # Errors
    /// [`Unsigned`]; nothing was appended.
    pub fn authorize(
        &mut self,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Attempt, Unsigned> {
        let count = match &mut self.proof {
            Proof::Fixed(_, value) => {
                out.extend_from_slice(value);
                1
            }
            Proof::Digest(digest) => {
                digest.authorize(request, out)?;
                digest.count()
            }
        };
        Ok(Attempt { generation: self.generation, count })
    }

    /// Takes the challenges of the 401 or 407 that answered an attempt.
    ///
    /// A server that has forgotten a nonce should say `stale`. Some do not: so a nonce that is
    /// refused after it has been used before is replaced too, and only the refusal of a new one
    /// is taken for an answer. After [`Verdict::Refused`], challenges for another realm can still
    /// be answered by a new session.
    pub fn handle_challenges(
        &mut self,
        attempt: Attempt,
        challenges: &[Challenge<'_>],
        random: [u8; 16],
    ) -> Verdict {
        let Proof::Digest(digest) = &mut self.proof else { return Verdict::Refused };
        if attempt.generation != self.generation {
            return Verdict::Retry; // another answer brought a newer nonce meanwhile
        }
        let Some(challenge) = challenges.iter().find(|challenge| digest.continues(challenge))
        else {
            return Verdict::Refused;
        };
        let is_stale =
            challenge.get("stale").is_some_and(|stale| stale.eq_ignore_ascii_case(b"true"));
        let is_new = challenge.get("nonce") != Some(digest.nonce());
        if !is_new || !(is_stale || attempt.count > 1) {
            return Verdict::Refused;
        }
        digest.renew(challenge, Hex::new(&random).as_bytes());
        self.generation += 1;
        Verdict::Retry
    }

    /// Takes `Authentication-Info` or `Proxy-Authentication-Info` (RFC 7616 §3.5): the nonce that
    /// the next request shall use.
    pub fn handle_info(&mut self, field: &[u8]) {
        let Proof::Digest(digest) = &mut self.proof else { return };
        if let Some(nonce) = info(field, "nextnonce").filter(|nonce| **nonce != *digest.nonce()) {
            digest.follow(&nonce);
            self.generation += 1;
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("scheme", &self.scheme()).finish_non_exhaustive()
    }
}

impl Proof {
    fn scheme(&self) -> Scheme {
        match self {
            Self::Fixed(scheme, _) => *scheme,
            Self::Digest(digest) => digest.scheme(),
        }
    }
}

/// What needs no nonce. Names and passwords go as UTF-8, which is what `charset` can ask for, and
/// what servers that do not ask most often expect.
fn fixed(credentials: &Credentials) -> Option<Proof> {
    let (scheme, value) = match &credentials.secret {
        Secret::Password { user, .. } if user.contains(':') => return None,
        Secret::Password { user, password } => {
            let pair = STANDARD.encode(format!("{user}:{password}"));
            (Scheme::Basic, format!("Basic {pair}"))
        }
        Secret::Token(token) => (Scheme::Bearer, format!("Bearer {token}")),
    };
    Some(Proof::Fixed(scheme, value.into_bytes().into()))
}

#[cfg(test)]
mod tests;
