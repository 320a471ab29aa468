//! A machine in memory, and helpers to load a text.
#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use fulmar_haproxy::{
    Config, ConfigLeniency, ConfigSource, Diagnostics, Environment, Loaded, Machine, Options,
    Severity, load,
};

/// Files by path, directories as prefixes of paths, and host names with their addresses.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) files: BTreeMap<PathBuf, Vec<u8>>,
    pub(crate) names: BTreeMap<String, Vec<IpAddr>>,
}

impl Memory {
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| (path.into(), text.as_bytes().to_vec()));
        let names = [("app.example".to_owned(), vec![[192, 0, 2, 1].into()])];
        Self { files: files.collect(), names: names.into() }
    }
}

impl Machine for Memory {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.files.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&self, path: &Path) -> io::Result<Option<Vec<PathBuf>>> {
        if self.files.contains_key(path) {
            return Ok(None);
        }
        let inside = self.files.keys().filter(|file| file.parent() == Some(path));
        let inside: Vec<PathBuf> = inside.rev().cloned().collect();
        match inside.is_empty() {
            true => Err(io::ErrorKind::NotFound.into()),
            false => Ok(Some(inside)),
        }
    }

    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.names.get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Loads a text on a machine with some common files.
pub(crate) fn read(text: &str, lenient: ConfigLeniency) -> Result<Loaded, Diagnostics> {
    let machine = Memory::with(&[
        ("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nproxy:x:13:13::/:\n"),
        ("/etc/group", "root:x:0:\nproxy:x:13:\n"),
        ("/certs/a.pem", "a certificate"),
        ("/certs/a.pem.key", "its key"),
        ("/certs/b.pem", "another"),
        ("/list", "a.pem\n# nothing\n/certs/b.pem\n"),
        ("/503.http", "HTTP/1.0 503 Sorry\r\nX-A: b\r\n\r\nsorry"),
        ("/words", "one\ntwo\n"),
    ]);
    let sources = [ConfigSource::text("a.cfg", text)];
    load(&sources, &Environment::default(), &machine, &Options { lenient })
}

/// Loads a valid text without warnings.
pub(crate) fn config(text: &str) -> Config {
    let (config, warnings) = warned(text);
    assert!(warnings.is_empty(), "{text}\n{warnings:?}");
    config
}

/// Loads a valid text, and returns its warnings.
pub(crate) fn warned(text: &str) -> (Config, Vec<String>) {
    match read(text, ConfigLeniency::default()) {
        Ok(loaded) => {
            let warnings = loaded.warnings.iter().map(ToString::to_string).collect();
            (loaded.config, warnings)
        }
        Err(found) => panic!("{text}\n{found}"),
    }
}

/// The errors of a text: line, column and message.
pub(crate) fn alerts(text: &str) -> Vec<(u32, u32, String)> {
    let Err(Diagnostics(found)) = read(text, ConfigLeniency::default()) else {
        panic!("no error in:\n{text}");
    };
    let alerts = found.into_iter().filter(|found| found.severity == Severity::Alert);
    let alerts = alerts.map(|found| {
        let line = found.place.as_ref().map_or(0, |place| place.line);
        (line, found.column.unwrap_or(0), found.message)
    });
    alerts.collect()
}

/// A `defaults` section that avoids warnings.
pub(crate) const DEFAULTS: &str = "\
defaults
    mode http
    timeout connect 1s
    timeout client 2s
    timeout server 3s
";
