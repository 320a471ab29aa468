//! The structure of `curl_easy_getinfo` about TLS. Programs read through the pointer unchecked.

use std::ffi::{c_int, c_void};

/// `struct curl_tlssessioninfo`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct CurlTlsSession {
    backend: c_int,
    /// An `SSL *` in libcurl: there is none.
    internals: *mut c_void,
}

impl Default for CurlTlsSession {
    fn default() -> Self {
        Self { backend: CURLSSLBACKEND_OPENSSL, internals: std::ptr::null_mut() }
    }
}

/// What `curl_version` names, too.
const CURLSSLBACKEND_OPENSSL: c_int = 1;
