//! The HSTS cache and the alternative services of an easy handle.

use crate::altsvc::{AltCache, AltProtocol};
use crate::hsts::HstsCache;
use crate::rare::ConstDefault;

/// HSTS state of an easy handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct EasyHsts {
    /// `CURLOPT_HSTS`, in the order of the calls.
    pub(crate) files: Vec<Vec<u8>>,
    /// The last file that was loaded: it is written at the end, unless the option names another.
    pub(crate) loaded: Option<Vec<u8>>,
    pub(crate) source: HstsSource,
    /// The next request was to be one without TLS; verbose output reports it.
    pub(crate) has_switched: bool,
}

impl ConstDefault for EasyHsts {
    const DEFAULT: &'static Self =
        &Self { files: Vec::new(), loaded: None, source: HstsSource::Off, has_switched: false };
}

/// Where the cache of an easy handle is.
#[derive(Clone, Debug, Default)]
pub(crate) enum HstsSource {
    /// There is none.
    #[default]
    Off,
    Own(Box<HstsCache>),
    /// In the share.
    Shared,
}

impl EasyHsts {
    /// True if no request depends on it.
    pub(crate) fn is_unused(&self) -> bool {
        self.files.is_empty() && matches!(self.source, HstsSource::Off)
    }

    /// Makes a cache if there is none.
    pub(crate) fn enable(&mut self) {
        if matches!(self.source, HstsSource::Off) {
            self.source = HstsSource::Own(Box::new(HstsCache::new()));
        }
    }
}

/// The alternative services of an easy handle. They are not shared.
#[derive(Clone, Debug)]
pub(crate) struct EasyAltServices {
    pub(crate) cache: AltCache,
    /// The last file that was loaded.
    pub(crate) loaded: Option<Vec<u8>>,
    /// `CURLOPT_ALTSVC_CTRL`.
    pub(crate) control: i64,
}

impl EasyAltServices {
    pub(crate) fn new() -> Self {
        Self {
            cache: AltCache::new(),
            loaded: None,
            control: AltProtocol::H1 as i64 | AltProtocol::H2 as i64,
        }
    }
}
