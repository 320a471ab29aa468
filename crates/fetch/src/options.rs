//! What a run is told.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fulmar_drive::LoopOptions;

use crate::feed::{Sink, Source};

/// What a run is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// URLs to begin with.
    pub urls: Vec<String>,
    /// A list of more.
    pub list: Option<Source>,
    /// Where files go.
    pub output: Output,
    /// Names are made of host and path, instead of the last segment.
    pub mirror: bool,
    /// What exists is left out, and no failure.
    pub skip_existing: bool,
    /// Beginnings are kept and gone on with.
    pub resume: bool,
    /// A file counts as done once it is on the disk (`fsync(2)`).
    pub sync: bool,
    /// The journal; by default in the output directory.
    pub journal: Option<PathBuf>,
    /// Where a line of JSON goes for each URL.
    pub records: Option<Sink>,
    /// Connections in all.
    pub connections: usize,
    /// Connections to one host.
    pub per_host: usize,
    /// Requests a second to one host.
    pub rate: Option<u32>,
    /// How often a URL is tried again.
    pub retries: u32,
    /// Fields of every request.
    pub headers: Vec<(String, String)>,
    /// Addresses of hosts that are known without asking: `HOST:PORT:ADDRESS[,ADDRESS...]`.
    pub resolve: Vec<String>,
    /// Where the proxies are said.
    pub proxy: Proxy,
    /// Whose certificates are good enough for `https`.
    pub trust: Trust,
    /// Until a connection stands.
    pub connect_timeout: Duration,
    /// For a server that says nothing.
    pub stall_timeout: Duration,
    /// For one attempt, from when its connection is there.
    pub max_time: Option<Duration>,
    /// A body without a head is accepted as a response of HTTP/0.9.
    pub http09: bool,
    /// How its loop works.
    pub loop_options: LoopOptions,
    /// [`crate::Progress`] is kept up to date.
    pub watched: bool,
}

/// Where files go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Into this directory, which is made if it does not exist.
    Dir(PathBuf),
    /// The first URL into this file.
    File(PathBuf),
    /// To standard output, one after the other.
    Stdout,
}

impl Output {
    /// The directory that holds the files, if they go into one.
    pub(crate) fn dir(&self) -> Option<&Path> {
        match self {
            Self::Stdout => None,
            Self::Dir(dir) => Some(dir),
            Self::File(path) => {
                let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
                Some(dir.unwrap_or_else(|| Path::new(".")))
            }
        }
    }

    /// The name of the first file in it, if it is given.
    pub(crate) fn name(&self) -> Option<String> {
        match self {
            Self::File(path) => Some(path.file_name()?.to_string_lossy().into_owned()),
            Self::Dir(_) | Self::Stdout => None,
        }
    }
}

/// Where the proxies are said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proxy {
    /// Nowhere: everything is reached directly.
    None,
    /// In the environment: `http_proxy`, `https_proxy`, `all_proxy`, `no_proxy`.
    Environment,
    /// This URL, for everything.
    Given(String),
}

/// Whose certificates are good enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Those that the system trusts.
    System,
    /// Those in this file, in PEM, and no others.
    File(PathBuf),
    /// These, in PEM, and no others.
    Pem(Vec<u8>),
    /// Anybody: nothing is verified.
    Anybody,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            urls: Vec::new(),
            list: None,
            output: Output::Dir(PathBuf::from(".")),
            mirror: false,
            skip_existing: false,
            resume: false,
            sync: true,
            journal: None,
            records: None,
            connections: 64,
            per_host: 16,
            rate: None,
            retries: 3,
            headers: Vec::new(),
            resolve: Vec::new(),
            proxy: Proxy::Environment,
            trust: Trust::System,
            connect_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(60),
            max_time: None,
            http09: false,
            loop_options: LoopOptions::default(),
            watched: false,
        }
    }
}
