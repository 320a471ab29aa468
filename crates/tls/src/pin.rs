//! Fingerprints of public keys (RFC 7469 §2.4), in the format of `curl --pinnedpubkey`.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The SHA-256 of a public key in DER (`SubjectPublicKeyInfo`).
///
/// ```
/// let text = "sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
/// let pin: fulmar_tls::Pin = text.parse().unwrap();
/// assert_eq!(pin.to_string(), text);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pin(pub [u8; 32]);

impl Pin {
    /// The pin of a public key in DER.
    pub(crate) fn of(public_key: &[u8]) -> Self {
        let hash = digest::digest(&digest::SHA256, public_key);
        Self(hash.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }
}

impl FromStr for Pin {
    type Err = PinError;

    fn from_str(text: &str) -> Result<Self, PinError> {
        let encoded = text.strip_prefix(PREFIX).ok_or(PinError)?;
        let bytes = STANDARD.decode(encoded).map_err(|_| PinError)?;
        bytes.try_into().map(Self).map_err(|_| PinError)
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", STANDARD.encode(self.0))
    }
}

/// The text is not a valid pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinError;

impl fmt::Display for PinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid pin: expected {PREFIX} and the SHA-256 of the public key in base64")
    }
}

impl std::error::Error for PinError {}

const PREFIX: &str = "sha256//";
