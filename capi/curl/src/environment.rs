//! Environment variables, as `curl_getenv` returns them.

use std::env;
use std::ffi::{OsStr, OsString};

/// The value of a variable. One that is set to nothing is as one that is not set.
#[must_use]
pub fn getenv(name: &OsStr) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}
