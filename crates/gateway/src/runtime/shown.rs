//! The certificates of listeners, and those that are to replace them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use fulmar_tls::{ConfigError, Pem, ServerOptions, ServerTls};

use crate::doors::has_key;

/// What listeners show, by the files that it came from.
#[derive(Debug, Default)]
pub(crate) struct Certificates {
    /// Of each listener with TLS: the files of its identities, in their order.
    shown: Vec<(ServerTls, Vec<PathBuf>)>,
    /// What is to take a file's place.
    begun: Mutex<BTreeMap<PathBuf, Bytes>>,
}

impl Certificates {
    pub(crate) fn new(shown: Vec<(ServerTls, Vec<PathBuf>)>) -> Self {
        Self { shown, begun: Mutex::default() }
    }

    /// How listeners would be set up with this in a file's place.
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

    /// True if it can be shown.
    pub(super) fn try_out(&self, file: &Path, pem: &Bytes) -> Result<(), ConfigError> {
        self.with(file, pem).try_for_each(|(_, options)| ServerTls::new(options).map(drop))
    }

    pub(super) fn begun<R>(&self, act: impl FnOnce(&mut BTreeMap<PathBuf, Bytes>) -> R) -> R {
        act(&mut self.begun.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn files(&self) -> Vec<&PathBuf> {
        let mut files: Vec<&PathBuf> = self.shown.iter().flat_map(|(_, files)| files).collect();
        files.sort();
        files.dedup();
        files
    }
}
