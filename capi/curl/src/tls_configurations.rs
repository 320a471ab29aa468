//! The TLS configurations of a multi handle or a share, by the options that they were made from.
//!
//! Transfers with equal options have one configuration, and with it connections and sessions. Files
//! and folders are read when a configuration is made, not for each request. A file that has changed
//! since makes another one, as libcurl reads its files for each connection.

use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use fulmar_tls::{ClientTls, Verify, Version};

/// The options that a configuration depends on.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct TlsKey {
    pub(crate) texts: [Option<Arc<[u8]>>; 16],
    pub(crate) curves: Option<Arc<[u8]>>,
    /// The files that the texts name.
    pub(crate) files: [Option<FileStamp>; 7],
    pub(crate) verify: Verify,
    /// The lowest and the highest one.
    pub(crate) versions: (Version, Version),
    pub(crate) alpn: &'static [&'static [u8]],
    /// Sessions are kept for resumption.
    pub(crate) resumes: bool,
    /// Chains have to end at a self-signed certificate.
    pub(crate) ends_at_root: bool,
}

/// Which file it is, its length, and when it was changed: in seconds and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp([u64; 3], [i64; 2]);

impl FileStamp {
    /// `None` if there is no such file.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let data = std::fs::metadata(path).ok()?;
        Some(Self([data.dev(), data.ino(), data.len()], [data.ctime(), data.ctime_nsec()]))
    }
}

/// The configurations that were used last, at most [`KNOWN_MAX`].
#[derive(Default)]
pub(crate) struct TlsConfigurations(Vec<(TlsKey, ClientTls)>);

impl TlsConfigurations {
    /// The known configuration, or the one that `make` returns.
    pub(crate) fn get_or_make<E>(
        &mut self,
        key: TlsKey,
        make: impl FnOnce(&TlsKey) -> Result<ClientTls, E>,
    ) -> Result<ClientTls, E> {
        if let Some(at) = self.0.iter().position(|(known, _)| *known == key) {
            self.0[at..].rotate_left(1); // the last one is the newest
        } else {
            let made = make(&key)?;
            if self.0.len() == KNOWN_MAX {
                self.0.remove(0);
            }
            self.0.push((key, made));
        }
        Ok(self.0[self.0.len() - 1].1.clone())
    }
}

/// Without the keys and passwords.
impl fmt::Debug for TlsConfigurations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TlsConfigurations({})", self.0.len())
    }
}

/// Configurations with certificates of their own are large.
const KNOWN_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use fulmar_tls::ClientOptions;

    use super::*;

    fn key(alpn: &'static [&'static [u8]], path: &Path) -> TlsKey {
        TlsKey {
            texts: Default::default(),
            curves: None,
            files: [FileStamp::of(path); 7],
            verify: Verify::Nothing,
            versions: (Version::Tls12, Version::Tls13),
            alpn,
            resumes: true,
            ends_at_root: false,
        }
    }

    #[test]
    fn configurations_used_last_are_kept() {
        const NAMES: [&[u8]; KNOWN_MAX] = [b"h"; KNOWN_MAX];
        let mut known = TlsConfigurations::default();
        let mut made = 0;
        // Each has another number of protocols.
        let mut get = |number: usize| {
            let make = |_: &TlsKey| {
                made += 1;
                let verify = Verify::Nothing;
                ClientTls::new(ClientOptions { verify, ..ClientOptions::default() })
            };
            let key = key(&NAMES[..number], Path::new("/absent"));
            known.get_or_make(key, make).expect("a valid configuration");
            made
        };
        for number in 0..KNOWN_MAX {
            assert_eq!(get(number), number + 1);
        }
        assert_eq!(get(0), KNOWN_MAX, "it is known");
        assert_eq!(get(KNOWN_MAX), KNOWN_MAX + 1, "this one replaces number 1");
        assert_eq!(get(0), KNOWN_MAX + 1);
        assert_eq!(get(1), KNOWN_MAX + 2);
        assert_eq!(known.0.len(), KNOWN_MAX);
    }

    #[test]
    fn a_file_that_has_changed_is_another_one() {
        let path = std::env::temp_dir().join(format!("fulmar-stamp-{}", std::process::id()));
        std::fs::write(&path, "one").expect("written");
        let before = key(&[], &path);
        assert!(before == key(&[], &path));
        std::fs::write(&path, "three").expect("written");
        assert!(before != key(&[], &path));
        std::fs::remove_file(&path).expect("removed");
        assert!(before != key(&[], &path));
    }
}
