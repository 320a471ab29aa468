//! The cookies of an easy handle, which may be those of its share.

use crate::cookies::CookieEngine;
use crate::rare::ConstDefault;

/// Cookie state of an easy handle.
#[derive(Debug, Default)]
pub(crate) struct EasyCookies {
    /// `CURLOPT_COOKIEFILE`, in the order of the calls.
    pub(crate) files: Vec<Vec<u8>>,
    pub(crate) source: CookieSource,
    /// Cookies are sent and stored. A share alone does not enable this.
    pub(crate) is_enabled: bool,
    /// The host of the current request's custom `Host` field.
    pub(crate) host: Option<Vec<u8>>,
}

impl ConstDefault for EasyCookies {
    const DEFAULT: &'static Self =
        &Self { files: Vec::new(), source: CookieSource::Off, is_enabled: false, host: None };
}

/// Where the cookies of an easy handle are.
#[derive(Debug, Default)]
pub(crate) enum CookieSource {
    /// There are none.
    #[default]
    Off,
    Own(Box<CookieEngine>),
    /// In the share.
    Shared,
}
