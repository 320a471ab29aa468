//! Random bytes: nonces, masks, and boundaries of forms.

use crate::code::CurlCode;
use crate::failure::Failure;

/// Fills a buffer.
///
/// # Errors
/// The system has no random bytes.
pub(crate) fn fill(bytes: &mut [u8]) -> Result<(), Failure> {
    getrandom::fill(bytes)
        .map_err(|_| Failure::new(CurlCode::FailedInit, "the system has no random bytes"))
}
