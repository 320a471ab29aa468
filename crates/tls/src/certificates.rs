//! Which certificate a client is shown: by the name that it asks for (RFC 6066 §3), compared with
//! the names in the certificates as clients compare them (RFC 9525 §6.3).

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};
use webpki::EndEntityCert;

use crate::error::{ConfigError, Flaw};
use crate::options::{Identity, UnknownNames};
use crate::pem;

/// The certificates of a server, by name.
#[derive(Debug)]
pub(crate) struct Certificates {
    all: Vec<Arc<CertifiedKey>>,
    exact: ByName,
    wild: ByName, // what stands behind `*.`
    except: ByName,
    unknown: UnknownNames,
}

/// Several for a name, in their order: of different kinds of keys.
type ByName = HashMap<Box<str>, Vec<Arc<CertifiedKey>>>;

impl Certificates {
    /// Reads them.
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
            true => Err(ConfigError::of_options(Flaw::NoIdentity)),
            false => Ok(these),
        }
    }

    fn add(&mut self, identity: &Identity, provider: &CryptoProvider) -> Result<(), ConfigError> {
        let (chain, key) = pem::identity(identity)?;
        let bad_cert = |flaw| ConfigError::new(&identity.cert, flaw);
        let bad_key = |error| ConfigError::new(&identity.key, Flaw::Unfit(error));
        let names = names(&chain[0]).map_err(bad_cert)?;
        if !is_chain(&chain) {
            return Err(ConfigError::new(&identity.cert, Flaw::NoChain));
        }
        let key = provider.key_provider.load_private_key(key).map_err(bad_key)?;
        let pair = CertifiedKey::new(chain, key);
        match pair.keys_match() {
            Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            Err(Error::InconsistentKeys(_)) => {
                let flaw = Flaw::OtherKey(identity.cert.clone());
                return Err(ConfigError::new(&identity.key, flaw));
            }
            Err(error) => return Err(bad_cert(Flaw::Unfit(error))),
        }
        let pair = Arc::new(pair);
        for name in &identity.names {
            if let Some(name) = name.strip_prefix('!') {
                self.except.entry(name.into()).or_default().push(pair.clone());
            }
        }
        let said: Vec<String> =
            identity.names.iter().filter(|name| !name.starts_with('!')).cloned().collect();
        for name in if said.is_empty() { names } else { said } {
            let (by_name, name) = match name.strip_prefix("*.") {
                Some(rest) => (&mut self.wild, rest),
                None => (&mut self.exact, &name[..]),
            };
            by_name.entry(name.into()).or_default().push(pair.clone());
        }
        self.all.push(pair);
        Ok(())
    }

    /// Those that are for `name`, which is in lower case.
    fn of(&self, name: &str) -> Vec<&Arc<CertifiedKey>> {
        let wild = || self.wild.get(name.split_once('.')?.1); // one label, and not more
        let found = self.exact.get(name).or_else(wild).into_iter().flatten();
        let except = self.except.get(name).map_or(&[][..], Vec::as_slice);
        found.filter(|pair| !except.iter().any(|it| Arc::ptr_eq(it, pair))).collect()
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name();
        let found = match (name.map(|name| self.of(name)).unwrap_or_default(), self.unknown) {
            (found, _) if !found.is_empty() => Some(found),
            (_, UnknownNames::First) => Some(self.all.iter().collect()),
            (_, UnknownNames::Refused) => None,
        };
        let name = name.map(Box::from);
        let heard = if found.is_some() { Hello::Heard(name) } else { Hello::Refused(name) };
        HEARD.with_borrow_mut(|last| *last = heard);
        let found = found?;
        let schemes = hello.signature_schemes();
        let fits = |pair: &&Arc<CertifiedKey>| pair.key.choose_scheme(schemes).is_some();
        // If none fits, the handshake says so.
        found.iter().copied().find(fits).or_else(|| found.first().copied()).cloned()
    }
}

/// True if the first stands alone, or one of the others is its issuer's: more of them, as
/// authorities hand out that vouch for each other, are the clients' business.
fn is_chain(chain: &[CertificateDer<'_>]) -> bool {
    let parsed: Vec<_> = chain.iter().map(EndEntityCert::try_from).collect();
    match &parsed[..] {
        [Ok(own), others @ ..] if !others.is_empty() => others
            .iter()
            .any(|other| other.as_ref().is_ok_and(|other| other.subject() == own.issuer())),
        _ => true,
    }
}

/// The names of a certificate, in lower case.
fn names(der: &CertificateDer<'_>) -> Result<Vec<String>, Flaw> {
    match EndEntityCert::try_from(der) {
        Ok(cert) => Ok(cert.valid_dns_names().map(str::to_ascii_lowercase).collect()),
        // It has a word of its own for what is malformed.
        Err(webpki::Error::UnsupportedCertVersion) => Err(Flaw::CertificateVersion),
        Err(_) => Err(Flaw::Unfit(rustls::CertificateError::BadEncoding.into())),
    }
}

/// What a client has said first.
#[derive(Debug, Default)]
pub(crate) enum Hello {
    /// Nothing yet.
    #[default]
    Awaited,
    /// The name that it asks for, if any.
    Heard(Option<Box<str>>),
    /// The same, and there is no certificate for it.
    Refused(Option<Box<str>>),
}

/// What the thread's session has heard in this step. rustls tells the name only to who chooses a
/// certificate, who does not know for which session.
pub(crate) fn take_heard() -> Hello {
    HEARD.with_borrow_mut(std::mem::take)
}

thread_local!(static HEARD: RefCell<Hello> = RefCell::default());
