//! An address to listen on, as an argument.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use fulmar_host::Listen;

/// A listen address: `ADDR`, `http://ADDR` or `unix:PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ListenAddress {
    /// An address without TLS, even with a certificate.
    Plain(SocketAddr),
    /// An address; with TLS if a certificate is given.
    Usual(SocketAddr),
    /// A Unix socket, without TLS: its clients are on this machine.
    Unix(PathBuf),
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err("missing path after unix:".into()),
                path => Ok(Self::Unix(path.into())),
            };
        }
        let (rest, make): (&str, fn(SocketAddr) -> Self) = match text.strip_prefix("http://") {
            Some(rest) => (rest.trim_end_matches('/'), Self::Plain),
            None => (text, Self::Usual),
        };
        rest.parse().map(make).map_err(|_| {
            "expected a numeric ADDRESS:PORT such as 127.0.0.1:8080 or [::]:8080, or unix:PATH"
                .into()
        })
    }
}

impl ListenAddress {
    pub(super) fn listen(&self) -> Listen {
        match self {
            Self::Plain(address) | Self::Usual(address) => Listen::tcp(*address),
            Self::Unix(path) => Listen::unix(path),
        }
    }

    /// True if other machines can connect, so that traffic without TLS can be read on the network.
    pub(super) fn is_public(&self) -> bool {
        match self {
            Self::Plain(address) | Self::Usual(address) => !address.ip().is_loopback(),
            Self::Unix(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_placesare_numeric_or_paths() {
        let address: SocketAddr = "[::1]:80".parse().unwrap();
        assert_eq!("[::1]:80".parse(), Ok(ListenAddress::Usual(address)));
        assert_eq!("http://[::1]:80".parse(), Ok(ListenAddress::Plain(address)));
        assert_eq!("http://[::1]:80/".parse(), Ok(ListenAddress::Plain(address)));
        assert_eq!("unix:./a:1".parse(), Ok(ListenAddress::Unix("./a:1".into())));
        for bad in ["", "80", "localhost:80", "https://[::1]:80", "unix:", "127.0.0.1:65536"] {
            assert!(bad.parse::<ListenAddress>().is_err(), "{bad}");
        }
    }
}
