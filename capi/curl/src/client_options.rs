//! Options of the client for a request.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fulmar_client::proxy::{Login, ProxyKind, ProxyUrl, Settings};
use fulmar_client::{OpenedTunnel, Options, Protocol};
use fulmar_proto::h1::{Leniency, ResponseProfile};
use fulmar_sys as sys;
use fulmar_tls::ClientTls;

use crate::auth::method;
use crate::auth_state::LoginPair;
use crate::code::CurlCode;
use crate::connection_name::{connection_name, tunnel_name};
use crate::easy_options::HTTP_VERSION_2_PRIOR_KNOWLEDGE;
use crate::failure::Failure;
use crate::handles::{EasyState, Multi};
use crate::option::OptionId as Id;
use crate::proxy_choice::{ProxyScheme, ProxyServer};
use crate::socket_options::socket_options;
use crate::tls_options::TlsRole;
use crate::transfer::EasyTransfer;
use crate::values::OptionValues;

impl Multi {
    /// The options of the current request.
    pub(crate) fn client_options(&self, state: &EasyState) -> Result<Options, Failure> {
        let values = &state.options.values;
        let transfer = state.transfer.as_ref().expect("its request is being started");
        // In whole milliseconds, so that first requests have equal options.
        let elapsed = sys::now().saturating_duration_since(transfer.started).as_millis();
        let elapsed = Duration::from_millis(u64::try_from(elapsed).unwrap_or(u64::MAX));
        let positive = |id| u64::try_from(values.number(id)).ok().filter(|number| *number > 0);
        let timeout = positive(Id::TIMEOUT_MS);
        let span = |id| positive(id).map(Duration::from_millis);
        let seconds = |id| positive(id).map(Duration::from_secs);
        let http2 = values.number(Id::HTTP_VERSION) == HTTP_VERSION_2_PRIOR_KNOWLEDGE;
        let is_ntlm = state.auth.server.choice.picked == method::NTLM;
        let protocol = match http2 {
            _ if is_ntlm || transfer.target.is_websocket => Protocol::Http1,
            true => Protocol::Http2,
            false => Protocol::Negotiated,
        };
        let proxy = transfer.route.http.as_ref();
        let is_https_proxy = proxy.is_some_and(|proxy| proxy.kind == ProxyScheme::Https);
        let proxy_tls = is_https_proxy.then(|| self.tls(state, TlsRole::Proxy)).transpose()?;
        let (tls, tunnel) = match transfer.route.tunnels {
            true => (self.target_tls(state)?, Some(tunnel(transfer, proxy_tls))),
            // TLS to a proxy that forwards is the proxy's own.
            false if transfer.route.http.is_some() => (proxy_tls, None),
            false => (self.target_tls(state)?, None),
        };
        let leniency = match values.is_on(Id::HTTP09_ALLOWED) {
            true => Leniency::HTTP_09,
            false => Leniency::strict(),
        };
        let leniency = match values.is_on(Id::HTTP_TRANSFER_DECODING) {
            true => leniency,
            false => leniency.with(Leniency::RAW_CHUNKS),
        };
        refuse_hidden_header(transfer, values)?;
        let options = socket_options(values, transfer.target.zone.as_deref());
        let leniency = match values.is_on(Id::IGNORE_CONTENT_LENGTH) {
            true => leniency.with(Leniency::IGNORED_LENGTH),
            false => leniency,
        };
        Ok(Options {
            cookies: false,
            idle_timeout: None,
            expect_continue_from: None,
            continue_timeout: Duration::from_millis(
                u64::try_from(values.number(Id::EXPECT_100_TIMEOUT_MS)).unwrap_or(0),
            ),
            queue_timeout: span(Id::CONNECTTIMEOUT_MS),
            idle_age_max: u64::try_from(values.number(Id::MAXAGE_CONN))
                .ok()
                .map(Duration::from_secs),
            lifetime_max: seconds(Id::MAXLIFETIME_CONN),
            awaits_multiplexing: self.options.borrow().multiplexes && values.is_on(Id::PIPEWAIT),
            fresh_connection: values.is_on(Id::FRESH_CONNECT) && transfer.redirects == 0,
            highest_speed: positive(Id::MAX_RECV_SPEED_LARGE),
            connection_name: connection_name(transfer, values),
            tunnel,
            proxies: transfer
                .route
                .socks
                .as_ref()
                .map(|it| socks_settings(it, values))
                .transpose()?,
            total_timeout: timeout.map(|ms| Duration::from_millis(ms).saturating_sub(elapsed)),
            tls,
            reports_certificates: values.is_on(Id::CERTINFO),
            reports_connection: values.is_on(Id::VERBOSE),
            protocol,
            unix_socket: unix_socket(values)?,
            leniency,
            profile: ResponseProfile::Libcurl,
            ..options
        })
    }

    /// TLS to the server, if its URL requires it.
    fn target_tls(&self, state: &EasyState) -> Result<Option<ClientTls>, Failure> {
        let transfer = state.transfer.as_ref().expect("its request is being started");
        transfer.target.is_secure.then(|| self.tls(state, TlsRole::Server)).transpose()
    }
}

/// `CURLOPT_UNIX_SOCKET_PATH`, or `CURLOPT_ABSTRACT_UNIX_SOCKET` behind an `@`. A path that begins
/// with that character is no abstract name.
///
/// # Errors
/// It is too long.
fn unix_socket(values: &OptionValues) -> Result<Option<PathBuf>, Failure> {
    let names = (values.bytes(Id::ABSTRACT_UNIX_SOCKET), values.bytes(Id::UNIX_SOCKET_PATH));
    let (prefix, name) = match names {
        (Some(name), _) => (&b"@"[..], name),
        (None, Some(name)) if name.starts_with(b"@") => (&b"./"[..], name),
        (None, Some(name)) => (&b""[..], name),
        (None, None) => return Ok(None),
    };
    refuse_long_path(name)?;
    Ok(Some(OsStr::from_bytes(&[prefix, name].concat()).into()))
}

/// An address has room for [`UNIX_PATH_LEN_MAX`] bytes.
///
/// # Errors
/// The path is longer.
pub(crate) fn refuse_long_path(path: &[u8]) -> Result<(), Failure> {
    match path.len() > UNIX_PATH_LEN_MAX {
        true => {
            let text = format!("Unix socket path too long: '{}'", String::from_utf8_lossy(path));
            Err(Failure::new(CurlCode::CouldntResolveHost, text))
        }
        false => Ok(()),
    }
}

/// The PROXY header would be within the TLS of a proxy.
fn refuse_hidden_header(transfer: &EasyTransfer, values: &OptionValues) -> Result<(), Failure> {
    let proxy = transfer.route.http.as_ref();
    let has_tls = proxy.is_some_and(|proxy| proxy.kind == ProxyScheme::Https);
    match has_tls && values.is_on(Id::HAPROXYPROTOCOL) {
        true => Err(Failure::new(
            CurlCode::UnsupportedProtocol,
            "haproxy protocol not support with SSL encryption in place (QUIC?)",
        )),
        false => Ok(()),
    }
}

/// The tunnel of the current request.
fn tunnel(transfer: &EasyTransfer, tls: Option<ClientTls>) -> OpenedTunnel {
    OpenedTunnel { name: tunnel_name(transfer), tls }
}

/// All connections lead through the SOCKS proxy.
fn socks_settings(server: &ProxyServer, values: &OptionValues) -> Result<Arc<Settings>, Failure> {
    let refused = || {
        Failure::new(
            CurlCode::CouldntResolveProxy,
            format!("Unsupported proxy syntax in '{}'", server.host),
        )
    };
    let kind = match server.kind {
        ProxyScheme::Socks4 => ProxyKind::Socks4,
        ProxyScheme::Socks4a => ProxyKind::Socks4a,
        ProxyScheme::Socks5 => ProxyKind::Socks5,
        ProxyScheme::Socks5h => ProxyKind::Socks5h,
        ProxyScheme::Http | ProxyScheme::Http10 | ProxyScheme::Https => {
            unreachable!("only SOCKS proxies are in that place")
        }
    };
    let text = |text: &Option<Vec<u8>>| text.clone().unwrap_or_default();
    let LoginPair { user, password } = &server.login;
    let mut proxy = ProxyUrl::parse(&server.url("socks5")).map_err(|_| refused())?;
    proxy.kind = kind;
    let offers_login = match kind {
        ProxyKind::Socks5 | ProxyKind::Socks5h => {
            values.number(Id::SOCKS5_AUTH) & i64::from(method::BASIC) != 0
        }
        ProxyKind::Http | ProxyKind::Socks4 | ProxyKind::Socks4a => true,
    };
    proxy.login = (user.is_some() && offers_login)
        .then(|| Login { user: text(user), password: text(password) });
    Ok(Arc::new(Settings { http: Some(proxy.clone()), https: Some(proxy), ..Settings::default() }))
}

/// unix(7): `sun_path` without the NUL at its end.
const UNIX_PATH_LEN_MAX: usize = 107;

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from libcurl.
    #[test]
    fn a_long_path_of_a_socket_is_refused() {
        let path = [b'p'; UNIX_PATH_LEN_MAX + 1];
        assert!(refuse_long_path(&path[1..]).is_ok());
        let refused = refuse_long_path(&path).expect_err("no address has room for it");
        assert_eq!(refused.code, CurlCode::CouldntResolveHost);
        assert!(refused.text.starts_with("Unix socket path too long: 'ppp"), "{}", refused.text);
    }
}
