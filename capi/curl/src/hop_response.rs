//! The response to a request of a transfer.

use crate::rare::ConstDefault;

/// State of the current response.
#[derive(Debug, Default)]
pub(crate) struct HopResponse {
    pub(crate) status: i64,
    pub(crate) has_head: bool,
    /// An interim response has arrived.
    pub(crate) has_interim: bool,
    /// The first bytes of a malformed head.
    pub(crate) malformed: Option<Vec<u8>>,
    pub(crate) location: Option<Vec<u8>>,
    pub(crate) content_length: Option<u64>,
    /// The request is sent again, with other credentials.
    pub(crate) repeats: bool,
    /// Cookies that its fields have set.
    pub(crate) cookies_set: usize,
    /// The body is not delivered: another request follows.
    pub(crate) ignores_body: bool,
}

impl ConstDefault for HopResponse {
    const DEFAULT: &'static Self = &Self {
        status: 0,
        has_head: false,
        has_interim: false,
        malformed: None,
        location: None,
        content_length: None,
        repeats: false,
        cookies_set: 0,
        ignores_body: false,
    };
}
