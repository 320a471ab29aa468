//! Authentication as libcurl 7.88 does it: which scheme is used, and the bytes of the fields.
//!
//! - [`AuthChoice`] picks a scheme from the mask of the application and the challenges;
//! - [`basic`] and [`bearer`] are values of `Authorization` or `Proxy-Authorization`;
//! - [`DigestState`] keeps a challenge and answers it;
//! - [`ntlm_negotiate`] and [`NtlmChallenge`] are the messages of NTLM;
//! - [`SigV4`] signs requests for AWS.
//!
//! The order of the parameters is libcurl's, and its parser is more lenient than that of
//! `semantics`. Random bytes and the time are arguments.

mod choice;
mod digest;
mod ntlm;
mod sigv4;

pub(crate) use choice::{AuthChoice, method};
pub(crate) use digest::{DigestRequest, DigestState};
pub(crate) use ntlm::{NtlmChallenge, NtlmLogin, ntlm_negotiate};
pub(crate) use sigv4::{SigV4, SigV4Error, SignedRequest};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The value of Basic.
pub(crate) fn basic(user: &[u8], password: &[u8]) -> Vec<u8> {
    let pair = STANDARD.encode([user, b":", password].concat());
    format!("Basic {pair}").into_bytes()
}

/// The value of Bearer.
pub(crate) fn bearer(token: &[u8]) -> Vec<u8> {
    [b"Bearer ", token].concat()
}

/// The client nonce of Digest: the base64 form of 32 hexadecimal digits.
pub(crate) fn client_nonce(random: &[u8; 24]) -> Vec<u8> {
    STANDARD.encode(hex(&random[8..])).into_bytes()
}

/// Lower-case hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
