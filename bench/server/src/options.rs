//! The command line.

use std::error::Error;
use std::path::PathBuf;

use fulmar::tls::Identity;

/// What is to be served.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Where the files are.
    pub(crate) site: PathBuf,
    /// Over TLS, as this one.
    pub(crate) identity: Option<Identity>,
    /// Connections are told when their first bytes are there.
    pub(crate) defer_accept: bool,
}

impl Options {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let (mut site, mut cert, mut key, mut defer_accept) = (None, None, None, false);
        while let Some(flag) = words.next() {
            let value = words.next().ok_or_else(|| format!("{flag} needs a value"))?;
            match flag.as_str() {
                "--site" => site = Some(PathBuf::from(value)),
                "--cert" => cert = Some(PathBuf::from(value)),
                "--key" => key = Some(PathBuf::from(value)),
                "--defer-accept" => defer_accept = value == "on",
                _ => return Err(format!("unknown option {flag}").into()),
            }
        }
        let identity = match (cert, key) {
            (Some(cert), Some(key)) => Some(Identity::files(cert, key)),
            (None, None) => None,
            _ => return Err("--cert and --key go together".into()),
        };
        Ok(Self { site: site.ok_or("--site is missing")?, identity, defer_accept })
    }
}
