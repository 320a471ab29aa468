//! Configurations.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use fulmar_haproxy::{ConfigLeniency, ConfigSource, Environment, Machine, Options, Severity, load};

/// A text is accepted or refused; a refusal has a position.
pub fn configuration(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let sources = [ConfigSource::text("a.cfg", &text)];
    for lenient in
        [ConfigLeniency::default(), ConfigLeniency { keywords: true, sections: true, names: true }]
    {
        let options = Options { lenient };
        if let Err(found) = load(&sources, &Environment::default(), &Empty, &options) {
            let mut alerts = found.0.iter().filter(|found| found.severity == Severity::Alert);
            assert!(alerts.clone().count() > 0, "a refusal has a reason");
            assert!(alerts.all(|found| found.place.is_some()), "{found}");
        }
    }
}

/// Every file exists, with the same content; no name has an address.
#[derive(Debug)]
struct Empty;

impl Machine for Empty {
    fn read(&self, _path: &Path) -> io::Result<Vec<u8>> {
        Ok(b"root:x:0:0\n".to_vec())
    }

    fn list(&self, _path: &Path) -> io::Result<Option<Vec<PathBuf>>> {
        Ok(None)
    }

    fn resolve(&self, _name: &str) -> io::Result<Vec<IpAddr>> {
        Err(io::ErrorKind::NotFound.into())
    }
}
