//! The error of a socket that a function of the application has refused.

use std::{error, fmt};

use crate::code::CurlCode;

/// A function of the application has refused a socket, with this result for its transfer.
#[derive(Debug)]
pub(crate) struct RefusedSocket(pub(crate) CurlCode);

impl fmt::Display for RefusedSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.text())
    }
}

impl error::Error for RefusedSocket {}
