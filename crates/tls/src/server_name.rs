//! The names for which server certificates are issued.

use std::net::IpAddr;

use rustls::pki_types::ServerName;

use crate::error::TlsError;

/// The server name for certificates: without trailing dot (RFC 6066 §3), and without brackets
/// around an address.
pub(crate) fn server_name(host: &str) -> Result<ServerName<'static>, TlsError> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(ServerName::from(address));
    }
    let name = host.strip_suffix('.').unwrap_or(host).to_owned();
    ServerName::try_from(name).map_err(|_| TlsError::BadServerName)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_names_are_normalized() {
        for (host, name) in [
            ("example.com", "example.com"),
            ("example.com.", "example.com"),
            ("127.0.0.1", "127.0.0.1"),
            ("::1", "::1"),
            ("[::1]", "::1"),
        ] {
            assert_eq!(server_name(host).unwrap().to_str(), name, "{host}");
        }
        for host in ["", ".", "a b", "a..b", "[a]", "ex\u{e4}mple.com"] {
            assert!(matches!(server_name(host), Err(TlsError::BadServerName)), "{host:?}");
        }
    }
}
