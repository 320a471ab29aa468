//! The client's credentials for one realm, across challenges.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::challenge::{Challenge, info};
use super::credentials::{CredentialSecret, Credentials};
use super::digest::Digest;
use super::hash::Hex;
use super::scheme::{AuthRequest, Scheme, Unsigned};

/// The proof of one request; identifies the nonce that a server refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthAttempt {
    generation: u64,
    count: u32,
}

/// The meaning of another 401 or 407.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthVerdict {
    /// The nonce has expired and there is a newer one: send the request again.
    Retry,
    /// The server refused the credentials.
    Refused,
}

/// Credentials for one origin or one proxy, in one realm.
#[derive(Clone)]
pub struct AuthSession {
    proof: Proof,
    /// Number of nonces so far.
    generation: u64,
}

#[derive(Clone)]
enum Proof {
    /// The same value for all requests.
    Fixed(Scheme, Box<[u8]>),
    Digest(Box<Digest>),
}

impl AuthSession {
    /// Selects the strongest scheme that these credentials support and that is not weaker than
    /// `weakest`; of equal ones, the first. `None` if there is none.
    ///
    /// `random` must be 16 unpredictable bytes.
    pub fn begin(
        challenges: &[Challenge<'_>],
        credentials: &Credentials,
        weakest: Scheme,
        random: [u8; 16],
    ) -> Option<Self> {
        let proofs = challenges.iter().rev().filter_map(|challenge| match &credentials.secret {
            CredentialSecret::Password { user, password } if challenge.is("Digest") => {
                Digest::new(challenge, user, password, Hex::new(&random).as_bytes())
                    .map(|digest| Proof::Digest(Box::new(digest)))
            }
            CredentialSecret::Password { .. } if challenge.is("Basic") => fixed(credentials),
            CredentialSecret::Token(_) if challenge.is("Bearer") => fixed(credentials),
            _ => None,
        });
        let proof = proofs.filter(|proof| proof.scheme() >= weakest).max_by_key(Proof::scheme)?;
        Some(Self { proof, generation: 0 })
    }

    /// Basic or Bearer without a challenge, for callers that know the server. `None` if the user
    /// name has a colon, which Basic does not permit (RFC 7617 §2).
    pub fn preemptive(credentials: &Credentials) -> Option<Self> {
        Some(Self { proof: fixed(credentials)?, generation: 0 })
    }

    /// The selected scheme.
    pub fn scheme(&self) -> Scheme {
        self.proof.scheme()
    }

    /// Appends the value of `Authorization` for a request.
    ///
    /// # Errors
    /// [`Unsigned`]; nothing was appended.
    pub fn authorize(
        &mut self,
        request: AuthRequest<'_>,
        out: &mut Vec<u8>,
    ) -> Result<AuthAttempt, Unsigned> {
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
        Ok(AuthAttempt { generation: self.generation, count })
    }

    /// Handles the challenges of a 401 or 407 for an attempt.
    ///
    /// A server that has forgotten a nonce should set `stale`, but some do not. So a nonce that is
    /// refused after an earlier use is replaced too; only the refusal of a new nonce is final.
    /// After [`AuthVerdict::Refused`], a new session can handle challenges for another realm.
    pub fn handle_challenges(
        &mut self,
        attempt: AuthAttempt,
        challenges: &[Challenge<'_>],
        random: [u8; 16],
    ) -> AuthVerdict {
        let Proof::Digest(digest) = &mut self.proof else { return AuthVerdict::Refused };
        if attempt.generation != self.generation {
            return AuthVerdict::Retry; // another response brought a newer nonce meanwhile
        }
        let Some(challenge) = challenges.iter().find(|challenge| digest.continues(challenge))
        else {
            return AuthVerdict::Refused;
        };
        let is_stale =
            challenge.get("stale").is_some_and(|stale| stale.eq_ignore_ascii_case(b"true"));
        let is_new = challenge.get("nonce") != Some(digest.nonce());
        if !is_new || !(is_stale || attempt.count > 1) {
            return AuthVerdict::Refused;
        }
        digest.renew(challenge, Hex::new(&random).as_bytes());
        self.generation += 1;
        AuthVerdict::Retry
    }

    /// Handles `Authentication-Info` or `Proxy-Authentication-Info` (RFC 7616 §3.5): the nonce for
    /// the next request.
    pub fn handle_info(&mut self, field: &[u8]) {
        let Proof::Digest(digest) = &mut self.proof else { return };
        if let Some(nonce) = info(field, "nextnonce").filter(|nonce| **nonce != *digest.nonce()) {
            digest.follow(&nonce);
            self.generation += 1;
        }
    }
}

impl fmt::Debug for AuthSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthSession").field("scheme", &self.scheme()).finish_non_exhaustive()
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

/// Credentials without a nonce. Names and passwords are sent in UTF-8, which `charset` can request,
/// and which most servers without it expect.
fn fixed(credentials: &Credentials) -> Option<Proof> {
    let (scheme, value) = match &credentials.secret {
        CredentialSecret::Password { user, .. } if user.contains(':') => return None,
        CredentialSecret::Password { user, password } => {
            let pair = STANDARD.encode(format!("{user}:{password}"));
            (Scheme::Basic, format!("Basic {pair}"))
        }
        CredentialSecret::Token(token) => (Scheme::Bearer, format!("Bearer {token}")),
    };
    Some(Proof::Fixed(scheme, value.into_bytes().into()))
}

#[cfg(test)]
mod tests;
