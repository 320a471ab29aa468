//! The command line.

use std::error::Error;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// What is to be done.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) mode: Mode,
    /// Transfers at a time.
    pub(super) clients: usize,
    pub(super) urls: Vec<String>,
    /// Whom to trust.
    pub(super) cacert: Option<PathBuf>,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Transfers, one after the other.
    Requests(Until),
    /// Transfers that are never answered.
    Waiting,
    /// Connections that wait in the pool.
    Pooled,
}

/// How long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    Requests(u64),
    Time(Duration),
}

impl Options {
    pub(super) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let (mut mode, mut until) = (None, Until::Time(Duration::from_secs(5)));
        let (mut clients, mut urls, mut cacert) = (1, Vec::new(), None);
        while let Some(flag) = words.next() {
            let value = words.next().ok_or_else(|| format!("{flag} needs a value"))?;
            match flag.as_str() {
                "--mode" => mode = Some(value),
                "--clients" => clients = number(&flag, &value)?,
                "--seconds" => until = Until::Time(Duration::from_secs_f64(number(&flag, &value)?)),
                "--requests" => until = Until::Requests(number(&flag, &value)?),
                "--cacert" => cacert = Some(value.into()),
                "--url" => urls.push(value),
                _ => return Err(format!("unknown option {flag}").into()),
            }
        }
        let mode = match mode.as_deref() {
            Some("requests") => Mode::Requests(until),
            Some("waiting") => Mode::Waiting,
            Some("pooled") => Mode::Pooled,
            other => return Err(format!("--mode: {other:?} is not one").into()),
        };
        if urls.is_empty() {
            return Err("--url is missing".into());
        }
        Ok(Self { mode, clients, urls, cacert })
    }
}

fn number<T: FromStr>(flag: &str, text: &str) -> Result<T, Box<dyn Error>> {
    text.parse().map_err(|_| format!("{flag}: {text:?} is not what it takes").into())
}
