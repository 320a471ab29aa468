//! Where a program is to listen.

use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use fulmar_client::Target;
use fulmar_load::Options;

use crate::output::Failure;

/// A place where a load will connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// The addresses of a host; one that answers is enough.
    Tcp { authority: String, addresses: Vec<SocketAddr> },
    /// A socket in the file system.
    Unix(PathBuf),
}

impl Door {
    /// All that a load goes to. Blocks while names are resolved.
    pub(crate) fn all(options: &Options) -> Result<Vec<Self>, Failure> {
        if let Some(path) = &options.unix_socket {
            return Ok(vec![Self::Unix(path.clone())]);
        }
        let mut doors = Vec::new();
        for url in &options.urls {
            let target =
                Target::parse(url).map_err(|error| Failure::Usage(format!("{url}: {error}")))?;
            let addresses =
                target.resolve().map_err(|error| Failure::Message(error.to_string()))?;
            let authority = format!("{}:{}", target.url().host_str().unwrap_or(""), target.port());
            let door = Self::Tcp { authority, addresses };
            if !doors.contains(&door) {
                doors.push(door);
            }
        }
        Ok(doors)
    }

    /// True if somebody listens: a connection stands, and is closed.
    pub(crate) fn is_open(&self) -> bool {
        match self {
            Self::Tcp { addresses, .. } => {
                addresses.iter().any(|to| TcpStream::connect_timeout(to, ANSWER_TIME).is_ok())
            }
            Self::Unix(path) => UnixStream::connect(path).is_ok(),
        }
    }
}

impl std::fmt::Display for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp { authority, .. } => f.write_str(authority),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A host that does not even refuse may still be starting.
const ANSWER_TIME: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    fn options(urls: &[String]) -> Options {
        Options { urls: urls.to_vec(), ..Options::default() }
    }

    #[test]
    fn a_door_opens_with_its_listener() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let urls = [format!("http://{address}/a"), format!("http://{address}/b")];
        let doors = Door::all(&options(&urls)).unwrap();
        assert_eq!((doors.len(), doors[0].to_string()), (1, address.to_string()));
        assert!(doors[0].is_open());
        drop(listener);
        // Children that other tests start have it too, until they execute.
        assert!((0..1_000_000).any(|_| !doors[0].is_open()));
    }

    #[test]
    fn a_unix_socket_is_the_only_door() {
        let options = Options {
            unix_socket: Some("/nonexistent/socket".into()),
            ..options(&["http://a/".into(), "http://b/".into()])
        };
        let doors = Door::all(&options).unwrap();
        assert_eq!(doors, [Door::Unix("/nonexistent/socket".into())]);
        assert!(!doors[0].is_open());
    }

    #[test]
    fn a_url_that_is_none_is_said() {
        assert!(matches!(Door::all(&options(&["ftp://a/".into()])), Err(Failure::Usage(_))));
    }
}
