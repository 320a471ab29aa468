//! The error of a socket that a function of the application has refused, or that cannot be used.

use std::borrow::Cow;
use std::{error, fmt, io};

use crate::code::CurlCode;

/// A socket was refused, with this result for its transfer.
#[derive(Debug)]
pub(crate) struct RefusedSocket {
    pub(crate) code: CurlCode,
    /// The text of the failure, if it is not that of a failed connect.
    pub(crate) text: Option<String>,
}

impl RefusedSocket {
    /// A function of the application has refused it.
    pub(crate) fn new(code: CurlCode) -> Self {
        Self { code, text: None }
    }

    /// Its local address is not available.
    pub(crate) fn unbound(error: &io::Error) -> Self {
        let number = error.raw_os_error().unwrap_or(0);
        let text = error.to_string();
        let reason = text.split(" (os error").next().unwrap_or(&text);
        let text = format!("bind failed with errno {number}: {reason}");
        Self { code: CurlCode::InterfaceFailed, text: Some(text) }
    }
}

impl fmt::Display for RefusedSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text.as_deref().map_or_else(|| self.code.text().into(), Cow::Borrowed);
        f.write_str(&text)
    }
}

impl error::Error for RefusedSocket {}
