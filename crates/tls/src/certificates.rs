//! Selects a server certificate by the requested server name (SNI, RFC 6066 §3). Names are matched
//! as in RFC 9525 §6.3.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};
use webpki::EndEntityCert;

use crate::error::{ConfigError, ConfigErrorKind};
use crate::identity::Identity;
use crate::options::UnknownNames;
use crate::pem;

/// The certificates of a server, indexed by name.
#[derive(Debug)]
pub(crate) struct CertificatesByName {
    all: Vec<Arc<CertifiedKey>>,
    exact: ByName,
    wild: ByName, // the part behind `*.`
    except: ByName,
    unknown: UnknownNames,
}

/// Certificates for a name in configured order, for example one for each type of key.
type ByName = HashMap<Box<str>, Vec<Arc<CertifiedKey>>>;

impl CertificatesByName {
    /// Reads and parses all identities.
    pub(crate) fn read(
        identities: &[Identity],
        unknown: UnknownNames,
        provider: &CryptoProvider,
    ) -> Result<Self, ConfigError> {
        let (exact, wild, except) = Default::default();
        let mut these = Self { all: Vec::new(), exact, wild, except, unknown };
        for identity in identities {
            these.add(identity, provider)?;
        }
        match these.all.is_empty() {
            true => Err(ConfigError::of_options(ConfigErrorKind::NoIdentity)),
            false => Ok(these),
        }
    }

    fn add(&mut self, identity: &Identity, provider: &CryptoProvider) -> Result<(), ConfigError> {
        let (chain, key) = pem::identity(identity)?;
        let bad_cert = |kind| ConfigError::new(&identity.cert, kind);
        let bad_key = |error| ConfigError::new(&identity.key, ConfigErrorKind::Rustls(error));
        let names = names(&chain[0]).map_err(bad_cert)?;
        if !is_complete(&chain) {
            return Err(ConfigError::new(&identity.cert, ConfigErrorKind::IncompleteChain));
        }
        let key = provider.key_provider.load_private_key(key).map_err(bad_key)?;
        let pair = CertifiedKey::new(chain, key);
        match pair.keys_match() {
            Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            Err(error @ Error::InconsistentKeys(_)) => {
                return Err(ConfigError::of_key(identity, error));
            }
            Err(error) => return Err(bad_cert(ConfigErrorKind::Rustls(error))),
        }
        let pair = Arc::new(pair);
        for name in &identity.names {
            if let Some(name) = name.strip_prefix('!') {
                self.except.entry(name.into()).or_default().push(pair.clone());
            }
        }
        let configured: Vec<String> =
            identity.names.iter().filter(|name| !name.starts_with('!')).cloned().collect();
        for name in if configured.is_empty() { names } else { configured } {
            let (by_name, name) = match name.strip_prefix("*.") {
                Some(rest) => (&mut self.wild, rest),
                None => (&mut self.exact, &name[..]),
            };
            by_name.entry(name.into()).or_default().push(pair.clone());
        }
        self.all.push(pair);
        Ok(())
    }

    /// The certificates for `name`, which is in lower case.
    fn of(&self, name: &str) -> Vec<&Arc<CertifiedKey>> {
        // A wildcard matches exactly one label.
        let wild = || self.wild.get(name.split_once('.')?.1);
        let found = self.exact.get(name).or_else(wild).into_iter().flatten();
        let except = self.except.get(name).map_or(&[][..], Vec::as_slice);
        found.filter(|pair| !except.iter().any(|it| Arc::ptr_eq(it, pair))).collect()
    }
}

impl ResolvesServerCert for CertificatesByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name();
        let found = match (name.map(|name| self.of(name)).unwrap_or_default(), self.unknown) {
            (found, _) if !found.is_empty() => Some(found),
            (_, UnknownNames::First) => Some(self.all.iter().collect()),
            (_, UnknownNames::Refused) => None,
        };
        let name = name.map(Box::from);
        let result = if found.is_some() {
            ReceivedHello::Accepted(name)
        } else {
            ReceivedHello::Refused(name)
        };
        LAST_HELLO.with_borrow_mut(|last| *last = result);
        let found = found?;
        let schemes = hello.signature_schemes();
        let fits = |pair: &&Arc<CertifiedKey>| pair.key.choose_scheme(schemes).is_some();
        // If none fits, the handshake fails and reports it.
        found.iter().copied().find(fits).or_else(|| found.first().copied()).cloned()
    }
}

/// True if the chain has a single certificate, or if one of the others is the issuer of the first.
/// Additional cross-signed certificates are allowed: clients ignore them if they do not need them.
fn is_complete(chain: &[CertificateDer<'_>]) -> bool {
    let parsed: Vec<_> = chain.iter().map(EndEntityCert::try_from).collect();
    match &parsed[..] {
        [Ok(own), others @ ..] if !others.is_empty() => others
            .iter()
            .any(|other| other.as_ref().is_ok_and(|other| other.subject() == own.issuer())),
        _ => true,
    }
}

/// The names of a certificate, in lower case.
fn names(der: &CertificateDer<'_>) -> Result<Vec<String>, ConfigErrorKind> {
    match EndEntityCert::try_from(der) {
        Ok(cert) => Ok(cert.valid_dns_names().map(str::to_ascii_lowercase).collect()),
        // webpki has an error of its own for malformed certificates.
        Err(webpki::Error::UnsupportedCertVersion) => Err(ConfigErrorKind::CertificateVersion),
        Err(_) => Err(ConfigErrorKind::Rustls(rustls::CertificateError::BadEncoding.into())),
    }
}

/// The result of certificate selection for a ClientHello.
#[derive(Debug, Default)]
pub(crate) enum ReceivedHello {
    /// No ClientHello was received yet.
    #[default]
    Awaited,
    /// The requested server name, if any.
    Accepted(Option<Box<str>>),
    /// The requested server name, if any. No certificate matches it.
    Refused(Option<Box<str>>),
}

/// Takes the result of the last certificate selection on this thread. rustls passes the server name
/// only to the certificate resolver, which does not know the session.
pub(crate) fn take_hello() -> ReceivedHello {
    LAST_HELLO.with_borrow_mut(std::mem::take)
}

thread_local!(static LAST_HELLO: RefCell<ReceivedHello> = RefCell::default());
