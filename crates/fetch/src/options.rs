//! The options of a run.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fulmar_client::Protocol;
use fulmar_drive::LoopOptions;
use fulmar_tls::Identity;

use crate::list_reader::{ListSource, RecordSink};

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The first URLs.
    pub urls: Vec<String>,
    /// A list of further URLs.
    pub list: Option<ListSource>,
    /// The destination of files.
    pub output: OutputTarget,
    /// File names are host and path of the URL instead of the last segment.
    pub mirror: bool,
    /// Existing files are skipped without a failure.
    pub skip_existing: bool,
    /// Partial files are kept and resumed.
    pub resume: bool,
    /// A file counts as finished once it is on the disk (`fsync(2)`).
    pub sync: bool,
    /// The journal; default: in the output directory.
    pub journal: Option<PathBuf>,
    /// The destination of records: a line of JSON for each URL.
    pub records: Option<RecordSink>,
    /// Maximum number of connections.
    pub connections: usize,
    /// Maximum number of connections to one host.
    pub per_host: usize,
    /// Maximum number of requests per second to one host.
    pub rate: Option<u32>,
    /// Number of retries for each URL.
    pub retries: u32,
    /// Header fields of every request.
    pub headers: Vec<(String, String)>,
    /// Addresses used instead of DNS: `HOST:PORT:ADDRESS[,ADDRESS...]`.
    pub resolve: Vec<String>,
    /// The choice of proxies.
    pub proxy: ProxyChoice,
    /// Trusted certificates for `https`.
    pub trust: Trust,
    /// The certificate for servers that require one.
    pub identity: Option<Identity>,
    /// Connect timeout, including the TLS handshake.
    pub connect_timeout: Duration,
    /// Timeout without received data.
    pub stall_timeout: Duration,
    /// Timeout of each attempt, from the established connection on.
    pub max_time: Option<Duration>,
    /// The protocols to use.
    pub protocol: Protocol,
    /// Accept a response of HTTP/0.9: a body without a head.
    pub http09: bool,
    /// Options of the event loop.
    pub loop_options: LoopOptions,
    /// Whether [`crate::FetchProgress`] is updated.
    pub watched: bool,
}

/// The destination of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputTarget {
    /// A directory, which is created if missing.
    Dir(PathBuf),
    /// A file for the first URL.
    File(PathBuf),
    /// Standard output, one body after the other.
    Stdout,
}

impl OutputTarget {
    /// The directory of the files, if any.
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

    /// The name of the first file, if given.
    pub(crate) fn name(&self) -> Option<Box<[u8]>> {
        match self {
            Self::File(path) => Some(path.file_name()?.as_bytes().into()),
            Self::Dir(_) | Self::Stdout => None,
        }
    }
}

/// The choice of proxies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyChoice {
    /// No proxies.
    None,
    /// From the environment: `http_proxy`, `https_proxy`, `all_proxy`, `no_proxy`.
    Environment,
    /// This proxy URL for all requests.
    Given(String),
}

/// Trusted certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The certificates trusted by the system.
    System,
    /// Only those in this PEM file.
    File(PathBuf),
    /// Only these, in PEM.
    Pem(Vec<u8>),
    /// Any certificate: nothing is verified.
    Any,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            urls: Vec::new(),
            list: None,
            output: OutputTarget::Dir(PathBuf::from(".")),
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
            proxy: ProxyChoice::Environment,
            trust: Trust::System,
            identity: None,
            connect_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(60),
            max_time: None,
            protocol: Protocol::Negotiated,
            http09: false,
            loop_options: LoopOptions::default(),
            watched: false,
        }
    }
}
