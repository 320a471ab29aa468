//! Which scheme is used.

use super::DigestState;
use crate::text::Reader;

/// The bits of `CURLOPT_HTTPAUTH`.
pub(crate) mod method {
    /// `CURLAUTH_BASIC`.
    pub(crate) const BASIC: u32 = 1;
    /// `CURLAUTH_DIGEST`.
    pub(crate) const DIGEST: u32 = 1 << 1;
    /// `CURLAUTH_NEGOTIATE`.
    pub(crate) const NEGOTIATE: u32 = 1 << 2;
    /// `CURLAUTH_NTLM`.
    pub(crate) const NTLM: u32 = 1 << 3;
    /// `CURLAUTH_DIGEST_IE`.
    pub(crate) const DIGEST_IE: u32 = 1 << 4;
    /// `CURLAUTH_NTLM_WB`.
    pub(crate) const NTLM_WB: u32 = 1 << 5;
    /// `CURLAUTH_BEARER`.
    pub(crate) const BEARER: u32 = 1 << 6;
    /// `CURLAUTH_AWS_SIGV4`.
    pub(crate) const AWS_SIGV4: u32 = 1 << 7;
}

/// The choice for a server or a proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AuthChoice {
    /// The methods that the application permits.
    pub wanted: u32,
    /// The methods in use. Several bits before the first response mean that nothing is sent.
    pub picked: u32,
    /// The methods that the response offers.
    pub offered: u32,
    /// All that responses have offered: `CURLINFO_HTTPAUTH_AVAIL`.
    pub available: u32,
}

/// Result of a field with challenges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChallengeInput {
    /// The credentials were refused, or a challenge is invalid: no other attempt.
    pub is_problem: bool,
    /// The data behind `NTLM`, if that scheme is in use.
    pub ntlm: Option<Vec<u8>>,
}

impl AuthChoice {
    /// For a transfer. `DIGEST_IE` is Digest.
    pub(crate) fn new(wanted: u32) -> Self {
        let is_ie = wanted & method::DIGEST_IE != 0;
        let digest = if is_ie { method::DIGEST } else { 0 };
        Self { wanted: (wanted | digest) & !method::DIGEST_IE, ..Self::default() }
    }

    /// The scheme whose field a request gets. A single wanted one is used at once; several ones
    /// need a challenge first, and so the result is `None`.
    pub(crate) fn scheme(&mut self) -> Option<u32> {
        if self.picked == 0 {
            self.picked = self.wanted;
        }
        (self.picked.is_power_of_two() && self.picked != PICKED_NONE).then_some(self.picked)
    }

    /// Handles a `WWW-Authenticate` or `Proxy-Authenticate` field. Schemes may follow each other,
    /// separated by commas. Only the first Digest challenge of a response counts.
    pub(crate) fn handle_challenge(
        &mut self,
        value: &[u8],
        digest: &mut DigestState,
    ) -> ChallengeInput {
        let mut input = ChallengeInput::default();
        let mut reader = Reader::new(value);
        reader.take(|byte| byte.is_ascii_whitespace());
        while !reader.is_empty() {
            for (name, bit) in SCHEMES {
                let mut rest = reader;
                let is_scheme = rest.skip_word(name.as_bytes())
                    && rest.first().is_none_or(|byte| byte == b',' || byte.is_ascii_whitespace());
                if is_scheme {
                    self.handle_scheme(*bit, rest.rest(), digest, &mut input);
                }
            }
            reader.take(|byte| byte != b',');
            reader.skip_word(b",");
            reader.take(|byte| byte.is_ascii_whitespace());
        }
        input
    }

    fn handle_scheme(
        &mut self,
        bit: u32,
        rest: &[u8],
        digest: &mut DigestState,
        input: &mut ChallengeInput,
    ) {
        let is_known = self.offered & bit != 0;
        self.available |= bit;
        self.offered |= bit;
        match bit {
            method::DIGEST if !is_known => {
                input.is_problem |= digest.handle_challenge(rest).is_err();
            }
            // The credentials were sent and refused.
            method::BASIC | method::BEARER if self.picked == bit => {
                self.offered = 0;
                input.is_problem = true;
            }
            method::NTLM if self.picked == bit => {
                input.ntlm = Some(rest.trim_ascii().to_vec());
            }
            _ => {}
        }
    }

    /// Picks the preferred scheme of those that are offered and wanted, after a response. False if
    /// there is none. Bearer needs a token.
    pub(crate) fn pick(&mut self, has_token: bool) -> bool {
        let mask = if has_token { !0 } else { !method::BEARER };
        let usable = self.offered & self.wanted & mask;
        let best = PREFERENCE.iter().find(|bit| usable & **bit != 0);
        self.picked = best.copied().unwrap_or(PICKED_NONE);
        self.offered = 0;
        best.is_some()
    }
}

const SCHEMES: &[(&str, u32)] = &[
    ("Negotiate", method::NEGOTIATE),
    ("NTLM", method::NTLM),
    ("Digest", method::DIGEST),
    ("Basic", method::BASIC),
    ("Bearer", method::BEARER),
];

const PREFERENCE: &[u32] = &[
    method::NEGOTIATE,
    method::BEARER,
    method::DIGEST,
    method::NTLM,
    method::NTLM_WB,
    method::BASIC,
    method::AWS_SIGV4,
];

/// After a response without a usable scheme.
const PICKED_NONE: u32 = 1 << 30;
