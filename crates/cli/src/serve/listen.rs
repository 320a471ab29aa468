//! Listeners, and the layers below each connection: PROXY header, TLS.

use fulmar_host::{Address, Listen};
use fulmar_proto::Layer;
use fulmar_semantics::proxy_protocol::{ProxyProtocol, TrustedSources};
use fulmar_server::Layers;
use fulmar_tls::{ClientAuth, HTTP2, Identity, ServerOptions, ServerTls};

use super::arguments::{AccessArguments, ServeArguments};
use super::listen_address::ListenAddress;
use crate::files::{self, InputFile};
use crate::output::ToolFailure;

/// All listen addresses with their layers.
#[derive(Debug)]
pub(super) struct Listeners {
    places: Vec<ListenAddress>,
    tls: Option<ServerTls>,
    proxies: Option<TrustedSources>,
}

impl Listeners {
    /// Reads certificates and keys.
    pub(super) fn new(arguments: &ServeArguments) -> Result<Self, ToolFailure> {
        let access = &arguments.access;
        Ok(Self {
            places: arguments.listen.clone(),
            tls: tls(access, arguments.http2.no_http2)?,
            proxies: access.accept_proxy.clone(),
        })
    }

    pub(super) fn tls(&self) -> Option<ServerTls> {
        self.tls.clone()
    }

    /// The TLS options of an address, if it uses TLS.
    fn tls_of(&self, place: &ListenAddress) -> Option<&ServerTls> {
        self.tls.as_ref().filter(|_| matches!(place, ListenAddress::Usual(_)))
    }

    pub(super) fn listens(&self) -> Vec<Listen> {
        let listen = |place: &ListenAddress| match self.layers(self.tls_of(place)) {
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
                // Without random bytes no session can be created, so the connection is closed.
                Some(_) if tls.is_some() => Some(Box::new(ProxyProtocol::new(Some(session()?)))),
                Some(_) => Some(Box::new(ProxyProtocol::new(None))),
            }
        }))
    }

    /// The URLs of the listeners, with their actual ports.
    pub(super) fn urls(&self, addresses: &[Address]) -> Vec<String> {
        let url = |(place, address)| url(address, self.tls_of(place).is_some(), "");
        self.places.iter().zip(addresses).map(url).collect()
    }
}

/// The URL of a path on a listener.
pub(super) fn url(address: &Address, tls: bool, path: &str) -> String {
    match address {
        Address::Tcp(address) if tls => format!("https://{address}/{path}"),
        Address::Tcp(address) => format!("http://{address}/{path}"),
        unix @ Address::Unix(_) => unix.to_string(),
    }
}

fn tls(access: &AccessArguments, no_http2: bool) -> Result<Option<ServerTls>, ToolFailure> {
    let (certs, keys) = (&access.tls_cert, &access.tls_key);
    if certs.len() != keys.len() {
        let (certs, keys) = (certs.len(), keys.len());
        let message = format!(
            "{certs} certificates and {keys} keys: each --tls-cert needs a --tls-key, in the \
             same order"
        );
        return Err(ToolFailure::usage("--tls-cert", message));
    }
    if certs.is_empty() {
        return Ok(None);
    }
    let users = access.auth.as_deref().filter(|auth| *auth == "-").map(|_| InputFile::Stdin);
    let inputs =
        [("--tls-cert", certs), ("--tls-key", keys), ("--tls-client-ca", &access.tls_client_ca)];
    let inputs =
        inputs.iter().flat_map(|(name, files)| files.iter().map(|file| (*name, Some(file))));
    files::check_inputs(inputs.chain([("--auth", users.as_ref())]))?;
    let authorities = access.tls_client_ca.iter().map(InputFile::pem);
    let authorities = authorities.collect::<Result<Vec<_>, _>>()?;
    let client_auth = match access.tls_client_ca.is_empty() {
        true => ClientAuth::None,
        false => ClientAuth::Required(authorities.into()),
    };
    let identities = certs.iter().zip(keys);
    let identities = identities.map(|(cert, key)| Ok(Identity::new(cert.pem()?, key.pem()?)));
    let identities = identities.collect::<Result<_, ToolFailure>>()?;
    let mut options = ServerOptions { identities, client_auth, ..ServerOptions::default() };
    options.alpn.retain(|protocol| !(no_http2 && protocol == HTTP2));
    ServerTls::new(options).map(Some).map_err(|error| ToolFailure::Usage(error.to_string()))
}
