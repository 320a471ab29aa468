//! Alternative services of an easy handle: its options, its file, the fields of responses.

use fulmar_proto::Version;
use fulmar_sys as sys;

use crate::altsvc::{AltEndpoint, AltProtocol};
use crate::cache_file::{read_cache, write_cache};
use crate::cache_store::EasyAltServices;
use crate::handles::{Easy, EasyState};
use crate::option::OptionId as Id;
use crate::stamp::unix_time;

impl EasyState {
    /// Follows `CURLOPT_ALTSVC`, which was set: the file is loaded at once.
    pub(crate) fn set_alt_file(&mut self, file: Option<&[u8]>) {
        let alt = self.alt.get_or_insert_with(|| Box::new(EasyAltServices::new()));
        if let Some(file) = file {
            alt.cache.load(&read_cache(file).unwrap_or_default());
            alt.loaded = Some(file.to_vec());
        }
    }

    /// Follows `CURLOPT_ALTSVC_CTRL`, which was set.
    pub(crate) fn set_alt_control(&mut self, bits: i64) {
        self.alt.get_or_insert_with(|| Box::new(EasyAltServices::new())).control = bits;
    }

    /// What a copy of the handle begins with: the services of the file, if there are services.
    pub(crate) fn copied_alt(&self) -> Option<EasyAltServices> {
        self.alt.as_ref()?;
        let mut alt = EasyAltServices::new();
        if let Some(file) = self.options.values.bytes(Id::ALTSVC) {
            alt.cache.load(&read_cache(file).unwrap_or_default());
            alt.loaded = Some(file.to_vec());
        }
        Some(alt)
    }
}

impl Easy {
    /// Stores the value of `Alt-Svc`, if it was received over TLS.
    pub(crate) fn store_alt(&self, value: &[u8], version: Option<Version>) {
        let now = unix_time(sys::wall_clock());
        self.with_state(|state| {
            let (Some(transfer), Some(alt)) = (&state.transfer, &mut state.alt) else { return };
            let target = &transfer.target;
            if target.is_secure {
                let protocol = match version {
                    Some(Version::Http2) => AltProtocol::H2,
                    _ => AltProtocol::H1,
                };
                let host = target.host.clone().into_bytes();
                let origin = AltEndpoint { protocol, host, port: target.port };
                alt.cache.add_header(value, &origin, now);
            }
        });
    }

    /// Writes the file.
    pub(crate) fn save_alt(&self) {
        let saved = self.with_state(|state| {
            let alt = state.alt.as_ref()?;
            let named = state.options.values.bytes(Id::ALTSVC).map(|file| file.to_vec());
            let file = named.or_else(|| alt.loaded.clone()).filter(|file| !file.is_empty())?;
            (alt.control & READ_ONLY_FILE == 0).then(|| (file, alt.cache.file()))
        });
        if let Some((file, text)) = saved {
            let _ = write_cache(&file, text.as_bytes()); // libcurl reports no error here
        }
    }
}

/// `CURLALTSVC_READONLYFILE`.
const READ_ONLY_FILE: i64 = 1 << 2;
