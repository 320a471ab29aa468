//! Where it listens, and what lies below each connection: a PROXY header, TLS.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use fulmar_host::{Address, Listen};
use fulmar_proto::Layer;
use fulmar_semantics::proxy_protocol::{ProxyProtocol, TrustedSources};
use fulmar_server::Layers;
use fulmar_tls::{ClientAuth, Identity, ServerOptions, ServerTls};

use super::arguments::{Arguments, Clients};
use super::usage;
use crate::files::{self, InputFile};
use crate::output::Failure;

/// Where to listen, as it is written: `ADDR`, `http://ADDR` or `unix:PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// An address, without TLS even if there is a certificate.
    Plain(SocketAddr),
    /// An address; with TLS if there is a certificate.
    Usual(SocketAddr),
    /// A Unix socket, without TLS: who can reach it is on this machine.
    Unix(PathBuf),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err("a path follows unix:".into()),
                path => Ok(Self::Unix(path.into())),
            };
        }
        let (rest, make): (&str, fn(SocketAddr) -> Self) = match text.strip_prefix("http://") {
            Some(rest) => (rest.trim_end_matches('/'), Self::Plain),
            None => (text, Self::Usual),
        };
        rest.parse().map(make).map_err(|_| {
            "an address and a port as numbers, such as 127.0.0.1:8080 or [::]:8080, or unix:PATH"
                .into()
        })
    }
}

impl Place {
    pub(super) fn listen(&self) -> Listen {
        match self {
            Self::Plain(address) | Self::Usual(address) => Listen::tcp(*address),
            Self::Unix(path) => Listen::unix(path),
        }
    }

    /// Whoever listens on the way to it reads everything, if there is no TLS.
    pub(super) fn is_public(&self) -> bool {
        match self {
            Self::Plain(address) | Self::Usual(address) => !address.ip().is_loopback(),
            Self::Unix(_) => false,
        }
    }
}

/// All places, and what is needed there.
#[derive(Debug)]
pub(super) struct Doors {
    places: Vec<Place>,
    tls: Option<ServerTls>,
    proxies: Option<TrustedSources>,
}

impl Doors {
    /// Reads certificates and keys.
    pub(super) fn new(arguments: &Arguments) -> Result<Self, Failure> {
        let clients = &arguments.clients;
        Ok(Self {
            places: arguments.listen.clone(),
            tls: tls(clients)?,
            proxies: clients.accept_proxy.clone(),
        })
    }

    pub(super) fn tls(&self) -> Option<ServerTls> {
        self.tls.clone()
    }

    /// With TLS or without, as each place wants it.
    fn tls_of(&self, place: &Place) -> Option<&ServerTls> {
        self.tls.as_ref().filter(|_| matches!(place, Place::Usual(_)))
    }

    pub(super) fn listens(&self) -> Vec<Listen> {
        let listen = |place: &Place| match self.layers(self.tls_of(place)) {
            Some(layers) => place.listen().layers(layers),
            None => place.listen(),
        };
        self.places.iter().map(listen).collect()
    }

    fn layers(&self, tls: Option<&ServerTls>) -> Option<Layers> {
        let (tls, proxies) = (tls.cloned(), self.proxies.clone());
        if tls.is_none() && proxies.is_none() {
            return None;
        }
        Some(Layers::new(move |peer| {
            let session =
                || -> Option<Box<dyn Layer>> { Some(Box::new(tls.as_ref()?.session().ok()?)) };
            match &proxies {
                None => session(),
                Some(trusted) if !trusted.allows(peer.ip()) => None,
                // Without randomness there is no session, and no connection either.
                Some(_) if tls.is_some() => Some(Box::new(ProxyProtocol::new(Some(session()?)))),
                Some(_) => Some(Box::new(ProxyProtocol::new(None))),
            }
        }))
    }

    /// As people write them, once it is known where it listens.
    pub(super) fn urls(&self, addresses: &[Address]) -> Vec<String> {
        let url = |(place, address)| url(address, self.tls_of(place).is_some(), "");
        self.places.iter().zip(addresses).map(url).collect()
    }
}

/// Of a listener, and what is found there.
pub(super) fn url(address: &Address, tls: bool, path: &str) -> String {
    match address {
        Address::Tcp(address) if tls => format!("https://{address}/{path}"),
        Address::Tcp(address) => format!("http://{address}/{path}"),
        unix @ Address::Unix(_) => unix.to_string(),
    }
}

fn tls(clients: &Clients) -> Result<Option<ServerTls>, Failure> {
    let (certs, keys) = (&clients.tls_cert, &clients.tls_key);
    if certs.len() != keys.len() {
        let (certs, keys) = (certs.len(), keys.len());
        let message = format!(
            "{certs} certificates and {keys} keys: each --tls-cert needs its --tls-key, in the \
             same order"
        );
        return Err(usage("--tls-cert", message));
    }
    if certs.is_empty() {
        return Ok(None);
    }
    let users = clients.auth.as_deref().filter(|auth| *auth == "-").map(|_| InputFile::Stdin);
    let inputs =
        [("--tls-cert", certs), ("--tls-key", keys), ("--tls-client-ca", &clients.tls_client_ca)];
    let inputs =
        inputs.iter().flat_map(|(name, files)| files.iter().map(|file| (*name, Some(file))));
    files::check_inputs(inputs.chain([("--auth", users.as_ref())]))?;
    let authorities = clients.tls_client_ca.iter().map(InputFile::pem);
    let authorities = authorities.collect::<Result<Vec<_>, _>>()?;
    let client_auth = match clients.tls_client_ca.is_empty() {
        true => ClientAuth::None,
        false => ClientAuth::Required(authorities.into()),
    };
    let identities = certs.iter().zip(keys);
    let identities = identities.map(|(cert, key)| Ok(Identity::new(cert.pem()?, key.pem()?)));
    let identities = identities.collect::<Result<_, Failure>>()?;
    let options = ServerOptions { identities, client_auth, ..ServerOptions::default() };
    ServerTls::new(options).map(Some).map_err(|error| Failure::Message(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_addresses_or_paths() {
        let address: SocketAddr = "[::1]:80".parse().unwrap();
        assert_eq!("[::1]:80".parse(), Ok(Place::Usual(address)));
        assert_eq!("http://[::1]:80".parse(), Ok(Place::Plain(address)));
        assert_eq!("http://[::1]:80/".parse(), Ok(Place::Plain(address)));
        assert_eq!("unix:./a:1".parse(), Ok(Place::Unix("./a:1".into())));
        for bad in ["", "80", "localhost:80", "https://[::1]:80", "unix:", "127.0.0.1:65536"] {
            assert!(bad.parse::<Place>().is_err(), "{bad}");
        }
    }
}
