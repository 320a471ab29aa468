//! A `bind` line at run time: the listener, and the layers below each connection.

use std::path::PathBuf;

use fulmar_drive::ListenOptions;
use fulmar_haproxy::model::{BindAddress, BindCertificate, BindTls, ClientVerify, TlsVersion};
use fulmar_haproxy::{Bind, Config, FrontendConfig};
use fulmar_host::{Address, Listen};
use fulmar_proto::Layer;
use fulmar_proxy::{BindId, MakeLayer, probes};
use fulmar_semantics::proxy_protocol::ProxyProtocol;
use fulmar_sys as sys;
use fulmar_tls::{
    Authorities, ClientAuth, ConfigError, Identity, Pem, ServerOptions, ServerTls, UnknownNames,
    Version,
};

use crate::error::Error;

/// Settings for the connections of one `bind` line.
#[derive(Clone, Debug)]
pub(crate) struct BindLayers {
    pub(crate) bind: BindId,
    tls: Option<ServerTls>,
    accepts_proxy: bool,
}

impl BindLayers {
    /// Reads certificates and keys.
    pub(crate) fn new(id: BindId, frontend: &FrontendConfig, bind: &Bind) -> Result<Self, Error> {
        let tls = bind.tls.as_ref().map(tls).transpose().map_err(|error| Error::Tls {
            place: bind.place.clone(),
            frontend: frontend.name.clone(),
            error: Box::new(error),
        })?;
        Ok(Self { bind: id, tls, accepts_proxy: bind.accepts_proxy })
    }

    /// TLS of the clients.
    pub(crate) fn tls(&self) -> Option<&ServerTls> {
        self.tls.as_ref()
    }

    /// The layers below each connection: PROXY header, then TLS. `None` without both.
    pub(crate) fn layers(&self) -> Option<MakeLayer> {
        let (tls, accepts_proxy) = (self.tls.clone(), self.accepts_proxy);
        if tls.is_none() && !accepts_proxy {
            return None;
        }
        Some(Box::new(move |_| {
            // Creating a session fails only without randomness; the connection is then closed.
            let session: Option<Box<dyn Layer>> = match &tls {
                Some(tls) => Some(Box::new(tls.session().ok()?)),
                None => None,
            };
            match accepts_proxy {
                true => Some(Box::new(ProxyProtocol::new(session))),
                false => session,
            }
        }))
    }
}

/// All `bind` lines, in the order of the configuration.
pub(crate) fn binds(config: &Config) -> impl Iterator<Item = (BindId, &FrontendConfig, &Bind)> {
    let frontends = config.frontends.iter().enumerate();
    frontends.filter(|(_, frontend)| !frontend.disabled).flat_map(|(number, frontend)| {
        let binds = frontend.binds.iter().enumerate();
        binds.map(move |(at, bind)| (BindId { frontend: number, bind: at }, &**frontend, bind))
    })
}

/// The listener of a `bind` line.
pub(crate) fn listen(frontend: &FrontendConfig, bind: &Bind) -> Result<Listen, Error> {
    let listen = match &bind.address {
        BindAddress::Tcp(address) => Listen::tcp(*address),
        BindAddress::Unix(path) => Listen::unix(path),
        BindAddress::Abstract(name) => Listen::unix(format!("@{name}")),
        BindAddress::Inherited(number) => Listen::inherited(
            sys::inherited(*number).map_err(|error| bind_error(frontend, bind, error))?,
        ),
    };
    let options = &frontend.options;
    let options = ListenOptions {
        reuse_port: true, // the next process may bind the same address
        defer_accept: bind.defer_accept,
        v6_only: bind.v6only,
        interface: bind.interface.as_deref().map(Box::from),
        keep_alive: options.client_probes.then(|| probes(options.client_probe_times)),
        user_timeout: bind.user_timeout,
        segment_size_max: bind.segment_size_max,
        fast_open: bind.fast_open,
        ..ListenOptions::default()
    };
    let listen = listen.tcp_options(options).owner(bind.owner.0, bind.owner.1);
    let listen = match bind.permissions {
        Some(permissions) => listen.permissions(permissions),
        None => listen.usual_permissions(), // as with HAProxy
    };
    Ok(match bind.backlog.or(frontend.backlog) {
        Some(backlog) => listen.backlog(backlog),
        None => listen,
    })
}

/// The address as the threads name it.
pub(crate) fn address(bind: &BindAddress) -> Option<Address> {
    match bind {
        BindAddress::Tcp(address) => Some(Address::Tcp(*address)),
        BindAddress::Unix(path) => Some(Address::Unix(path.clone())),
        BindAddress::Abstract(name) => Some(Address::Unix(format!("@{name}").into())),
        BindAddress::Inherited(_) => None,
    }
}

/// The error for a listener that cannot be created.
pub(crate) fn bind_error(frontend: &FrontendConfig, bind: &Bind, error: std::io::Error) -> Error {
    Error::Bind {
        place: bind.place.clone(),
        frontend: frontend.name.clone(),
        address: text(&bind.address),
        error,
    }
}

/// The address as written in the configuration.
fn text(address: &BindAddress) -> String {
    match address {
        BindAddress::Tcp(address) => address.to_string(),
        BindAddress::Unix(path) => path.display().to_string(),
        BindAddress::Abstract(name) => format!("abns@{name}"),
        BindAddress::Inherited(number) => format!("fd@{number}"),
    }
}

/// Reads all files, here and only here. Later they may be unreachable (`chroot`, `user`), or be
/// half replaced, and `set ssl cert` needs the other files too.
fn tls(bind: &BindTls) -> Result<ServerTls, ConfigError> {
    let authorities = || -> Result<Authorities, ConfigError> {
        let read =
            |path: &Option<PathBuf>| path.iter().map(Pem::read).collect::<Result<Vec<_>, _>>();
        Ok(Authorities { roots: read(&bind.ca_file)?, revoked: read(&bind.crl_file)? })
    };
    let version = |version: TlsVersion| match version {
        TlsVersion::Tls12 => Version::Tls12,
        TlsVersion::Tls13 => Version::Tls13,
    };
    let defaults = ServerOptions::default();
    ServerTls::new(ServerOptions {
        identities: bind.certificates.iter().map(identity).collect::<Result<_, _>>()?,
        unknown_names: match bind.strict_sni {
            true => UnknownNames::Refused,
            false => UnknownNames::First,
        },
        client_auth: match bind.verify {
            ClientVerify::None => ClientAuth::None,
            ClientVerify::Optional => ClientAuth::Optional(authorities()?),
            ClientVerify::Required => ClientAuth::Required(authorities()?),
        },
        version_min: bind.version_min.map_or(defaults.version_min, version),
        version_max: bind.version_max.map_or(defaults.version_max, version),
        ciphers: bind.suites.clone(),
        alpn: bind.alpn.iter().map(|name| name.as_bytes().to_vec()).collect(),
        tickets: if bind.no_tickets { 0 } else { defaults.tickets },
        ..defaults
    })
}

/// A certificate and its key, which is in the same file or in `site.pem.key` or `site.key`.
fn identity(certificate: &BindCertificate) -> Result<Identity, ConfigError> {
    let path = &*certificate.file;
    let cert = Pem::read(path)?;
    let mut beside = path.as_os_str().to_owned();
    beside.push(".key");
    let others = [PathBuf::from(beside), path.with_extension("key")];
    let key = others.into_iter().find(|other| !has_key(&cert) && other.is_file());
    let key = key.map(Pem::read).transpose()?.unwrap_or_else(|| cert.clone());
    Ok(Identity { names: certificate.names.clone(), ..Identity::new(cert, key) })
}

/// True if the data contains a private key.
pub(crate) fn has_key(pem: &Pem) -> bool {
    match pem {
        Pem::Bytes(bytes) | Pem::Read(_, bytes) => {
            bytes.windows(KEY_MARK.len()).any(|window| window == KEY_MARK)
        }
        Pem::File(_) => false,
    }
}

/// In the first line of a PEM private key (RFC 7468 §10, §11).
const KEY_MARK: &[u8] = b"PRIVATE KEY-----";
