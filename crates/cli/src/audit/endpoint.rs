//! The address where a program should listen.

use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use fulmar_client::RequestUrl;
use fulmar_load::Options;

use crate::output::ToolFailure;

/// An address that a load will connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LoadEndpoint {
    /// The addresses of a host. One that accepts is enough.
    Tcp { authority: String, addresses: Vec<SocketAddr> },
    /// A Unix socket.
    Unix(PathBuf),
}

impl LoadEndpoint {
    /// The endpoints of a load. Blocks while names are resolved.
    pub(crate) fn all(options: &Options) -> Result<Vec<Self>, ToolFailure> {
        if let Some(path) = &options.unix_socket {
            return Ok(vec![Self::Unix(path.clone())]);
        }
        let mut endpoints = Vec::new();
        for url in &options.urls {
            let target = RequestUrl::parse(url)
                .map_err(|error| ToolFailure::Usage(format!("{url}: {error}")))?;
            let addresses =
                target.resolve().map_err(|error| ToolFailure::Message(error.to_string()))?;
            let authority = format!("{}:{}", target.url().host_str().unwrap_or(""), target.port());
            let endpoint = Self::Tcp { authority, addresses };
            if !endpoints.contains(&endpoint) {
                endpoints.push(endpoint);
            }
        }
        Ok(endpoints)
    }

    /// True if a connection can be established. It is closed at once.
    pub(crate) fn is_open(&self) -> bool {
        match self {
            Self::Tcp { addresses, .. } => {
                addresses.iter().any(|to| TcpStream::connect_timeout(to, CONNECT_TIMEOUT).is_ok())
            }
            Self::Unix(path) => UnixStream::connect(path).is_ok(),
        }
    }
}

impl std::fmt::Display for LoadEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp { authority, .. } => f.write_str(authority),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Connect timeout. A host that does not even refuse may still be starting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    fn options(urls: &[String]) -> Options {
        Options { urls: urls.to_vec(), ..Options::default() }
    }

    #[test]
    fn an_endpoint_is_open_while_its_listener_exists() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let urls = [format!("http://{address}/a"), format!("http://{address}/b")];
        let endpoints = LoadEndpoint::all(&options(&urls)).unwrap();
        assert_eq!((endpoints.len(), endpoints[0].to_string()), (1, address.to_string()));
        assert!(endpoints[0].is_open());
        drop(listener);
        // Children of other tests inherit the listener until their execve.
        assert!((0..1_000_000).any(|_| !endpoints[0].is_open()));
    }

    #[test]
    fn a_unix_socket_replaces_the_host() {
        let options = Options {
            unix_socket: Some("/nonexistent/socket".into()),
            ..options(&["http://a/".into(), "http://b/".into()])
        };
        let endpoints = LoadEndpoint::all(&options).unwrap();
        assert_eq!(endpoints, [LoadEndpoint::Unix("/nonexistent/socket".into())]);
        assert!(!endpoints[0].is_open());
    }

    #[test]
    fn an_invalid_url_is_reported() {
        assert!(matches!(
            LoadEndpoint::all(&options(&["ftp://a/".into()])),
            Err(ToolFailure::Usage(_))
        ));
    }
}
