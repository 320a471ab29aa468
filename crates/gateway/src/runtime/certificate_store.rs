//! The certificates of listeners, and started replacements.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use fulmar_tls::{ConfigError, Pem, ServerOptions, ServerTls};

use crate::bind::has_key;

/// The certificates of the listeners, by file.
#[derive(Debug, Default)]
pub(crate) struct CertificateStore {
    /// Each listener with TLS, and the files of its identities, in order.
    shown: Vec<(ServerTls, Vec<PathBuf>)>,
    /// Started transactions: the new contents of files.
    with_transactions: Mutex<BTreeMap<PathBuf, Bytes>>,
}

impl CertificateStore {
    pub(crate) fn new(shown: Vec<(ServerTls, Vec<PathBuf>)>) -> Self {
        Self { shown, with_transactions: Mutex::default() }
    }

    /// The listeners' identities with the file's contents replaced.
    pub(super) fn with<'a>(
        &'a self,
        file: &'a Path,
        pem: &'a Bytes,
    ) -> impl Iterator<Item = (&'a ServerTls, ServerOptions)> {
        let concerned =
            self.shown.iter().filter(move |(_, files)| files.iter().any(|it| it == file));
        concerned.map(move |(tls, files)| {
            let mut options = tls.options();
            let places = files.iter().zip(&mut options.identities);
            for (_, identity) in places.filter(|(it, _)| *it == file) {
                let pem = Pem::Read(file.to_owned(), pem.clone());
                if has_key(&pem) {
                    identity.key = pem.clone();
                }
                identity.cert = pem;
            }
            (tls, options)
        })
    }

    /// Checks that the listeners can use the new contents.
    pub(super) fn check_contents(&self, file: &Path, pem: &Bytes) -> Result<(), ConfigError> {
        self.with(file, pem).try_for_each(|(_, options)| ServerTls::new(options).map(drop))
    }

    pub(super) fn with_transactions<R>(
        &self,
        act: impl FnOnce(&mut BTreeMap<PathBuf, Bytes>) -> R,
    ) -> R {
        act(&mut self.with_transactions.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn files(&self) -> Vec<&PathBuf> {
        let mut files: Vec<&PathBuf> = self.shown.iter().flat_map(|(_, files)| files).collect();
        files.sort();
        files.dedup();
        files
    }
}
