//! TLS options of a handle for the client.
//!
//! Configurations are kept by the multi handle, or by a share of TLS sessions: transfers with equal
//! options share one, and with it connections and sessions.

use std::path::PathBuf;
use std::sync::PoisonError;

use fulmar_tls::{ClientOptions, ClientTls, HTTP1, HTTP2, Identity, Roots, Verify};

use crate::code::CurlCode;
use crate::easy_options::EasyOptions;
use crate::failure::Failure;
use crate::handles::{EasyState, Multi};
use crate::option::OptionId as Id;
use crate::share_kind::SharedKind;

impl Multi {
    /// The configuration for the options of a transfer to an `https` URL.
    pub(crate) fn tls(&self, state: &EasyState) -> Result<ClientTls, Failure> {
        let share = state.share.as_ref().filter(|share| share.has(SharedKind::SslSession));
        match share {
            Some(share) => {
                let mut known = share.tls.lock().unwrap_or_else(PoisonError::into_inner);
                configuration(&mut known, &state.options)
            }
            None => configuration(&mut self.tls.borrow_mut(), &state.options),
        }
    }
}

/// The known configuration for these options, or a new one.
fn configuration(known: &mut Vec<ClientTls>, options: &EasyOptions) -> Result<ClientTls, Failure> {
    let wanted = client_options(options);
    if let Some(tls) = known.iter().find(|tls| *tls.options() == wanted) {
        return Ok(tls.clone());
    }
    let has_own_roots = options.values.bytes(Id::CAINFO).is_some();
    let tls = ClientTls::new(wanted).map_err(|error| {
        let code = match has_own_roots {
            true => CurlCode::SslCaCertBadFile,
            false => CurlCode::SslCertProblem,
        };
        Failure::new(code, error.to_string())
    })?;
    known.push(tls.clone());
    Ok(tls)
}

fn client_options(options: &EasyOptions) -> ClientOptions {
    let values = &options.values;
    let path = |id| values.bytes(id).map(|path| PathBuf::from(&*String::from_utf8_lossy(path)));
    let verify = match (values.is_on(Id::SSL_VERIFYPEER), values.is_on(Id::SSL_VERIFYHOST)) {
        (true, true) => Verify::Full,
        (true, false) => Verify::Chain,
        (false, _) => Verify::Nothing,
    };
    let roots = path(Id::CAINFO).map_or_else(Roots::platform, |file| Roots::empty().file(file));
    let (cert, key) = (path(Id::SSLCERT), path(Id::SSLKEY));
    let identity = cert.map(|cert| Identity::files(cert.clone(), key.unwrap_or(cert)));
    let alpn = match (values.is_on(Id::SSL_ENABLE_ALPN), values.number(Id::HTTP_VERSION)) {
        (false, _) => Vec::new(),
        (true, HTTP_VERSION_1_0 | HTTP_VERSION_1_1) => vec![HTTP1.to_vec()],
        (true, _) => vec![HTTP2.to_vec(), HTTP1.to_vec()],
    };
    ClientOptions { roots, verify, identity, alpn, ..ClientOptions::default() }
}

/// `CURL_HTTP_VERSION_1_0`.
const HTTP_VERSION_1_0: i64 = 1;
/// `CURL_HTTP_VERSION_1_1`.
const HTTP_VERSION_1_1: i64 = 2;
