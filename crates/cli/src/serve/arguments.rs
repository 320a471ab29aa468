//! The command line of `fulmar serve`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use fulmar_semantics::proxy_protocol::TrustedSources;

use super::listen::Place;
use crate::files::{InputFile, OutputFile};
use crate::loops;
use crate::{durations, fields, sizes};

/// Serve the files of a directory.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// The directory
    #[arg(default_value = ".")]
    pub(super) dir: PathBuf,

    /// Where to listen: an address and a port, or unix:PATH; may be given several times. Port 0
    /// asks for a free one, which is printed
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub(super) listen: Vec<Place>,

    /// Threads, each with a listener of its own (SO_REUSEPORT)
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) threads: u16,

    #[command(flatten)]
    pub(super) loops: loops::LoopArguments,

    /// Take the listeners over from the process that answers at PATH, and answer the next one there
    #[arg(long, value_name = "PATH")]
    pub(super) hand_over: Option<PathBuf>,

    /// Answer /bytes/N, /stream/CHUNK, /delay/MS, /status/CODE, /echo, /idle and /.ledger
    #[arg(long)]
    pub(super) test_endpoints: bool,

    #[command(flatten)]
    pub(super) answers: Answers,

    #[command(flatten)]
    pub(super) clients: Clients,

    #[command(flatten)]
    pub(super) watching: Watching,

    #[command(flatten)]
    pub(super) limits: Limits,
}

/// What is answered.
#[derive(Debug, Args)]
#[command(next_help_heading = "What is answered")]
pub(super) struct Answers {
    /// List directories that have no index.html
    #[arg(long)]
    pub(super) list: bool,

    /// Serve and list names that begin with a dot
    #[arg(long)]
    pub(super) hidden: bool,

    /// Send NAME.br, NAME.zst or NAME.gz for NAME to clients that take it
    #[arg(long)]
    pub(super) precompressed: bool,

    /// Answer with the root's index.html where there is no such name, if it has no extension
    #[arg(long)]
    pub(super) spa: bool,

    /// Let clients put files into directories that are there, and replace files (PUT)
    #[arg(long)]
    pub(super) upload: bool,

    /// Bytes of one such file, at most: 512, 64K, 10M, 1G
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = sizes::parse)]
    pub(super) upload_max: u64,

    /// A field of every answer, `Name: value`; may be given several times
    #[arg(long = "header", value_name = "FIELD", value_parser = fields::parse)]
    pub(super) headers: Vec<(String, String)>,

    /// Let pages of ORIGIN read the answers; `*` for all. May be given several times
    #[arg(long, value_name = "ORIGIN")]
    pub(super) cors: Vec<String>,

    /// Tell every request its identifier in X-Request-Id
    #[arg(long)]
    pub(super) request_ids: bool,
}

/// Who may ask, and how.
#[derive(Debug, Args)]
#[command(next_help_heading = "Who may ask")]
pub(super) struct Clients {
    /// Speak TLS with this certificate (PEM, with those that vouch for it); may be given several
    /// times, each with its key: clients are shown the one for the name that they ask for
    #[arg(long, value_name = "FILE")]
    pub(super) tls_cert: Vec<InputFile>,

    /// The private key of the certificate in the same place (PEM)
    #[arg(long, value_name = "FILE")]
    pub(super) tls_key: Vec<InputFile>,

    /// Let in only clients that show a certificate which one of these authorities vouches for (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(super) tls_client_ca: Vec<InputFile>,

    /// Ask for a user and a password (Basic): these, or those of a file made by htpasswd
    #[arg(long, value_name = "USER:PASSWORD|FILE")]
    pub(super) auth: Option<String>,

    /// Let in only these networks, and believe their PROXY header about who asks: 10.0.0.0/8,::1
    #[arg(long, value_name = "NETWORKS")]
    pub(super) accept_proxy: Option<TrustedSources>,
}

/// What is told of it.
#[derive(Debug, Args)]
#[command(next_help_heading = "What is told of it")]
pub(super) struct Watching {
    /// Append a line for each answer to FILE; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub(super) access_log: Option<OutputFile>,

    /// How the lines of the access log look
    #[arg(long, value_enum, default_value_t = LogFormat::Combined)]
    pub(super) log_format: LogFormat,

    /// Show figures for Prometheus at /metrics, on a listener of their own
    #[arg(long, value_name = "ADDR")]
    pub(super) metrics: Option<Place>,

    /// Print the system calls per request at the end
    #[arg(long)]
    pub(super) ledger: bool,
}

/// What clients are allowed.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(super) struct Limits {
    /// Connections at a time; beyond it clients wait. As many as there are descriptors by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) max_connections: Option<u32>,

    /// Of them, from one IPv4 address or one /64 of IPv6; one more is closed. 1024 for each thread
    /// by default, and no limit for this machine itself
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) max_connections_per_address: Option<u32>,

    /// Responses queued in memory for a client that does not read: no further request of its
    /// connection is parsed beyond this size. 8K, 64K, 1M
    #[arg(long, value_name = "SIZE", default_value = "32K", value_parser = sizes::parse)]
    pub(super) response_buffer: u64,

    /// Bytes per second that a client has to send or take, over 30 s; 0: it may be as slow as it likes
    #[arg(long, value_name = "N", default_value_t = 250)]
    pub(super) min_rate: u32,

    /// Close a connection that has no request for so long
    #[arg(long, value_name = "TIME", default_value = "75s", value_parser = durations::parse)]
    pub(super) idle_timeout: Duration,

    /// From the first byte of a request's head to its last
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = durations::parse)]
    pub(super) head_timeout: Duration,

    /// Between two bytes of a request's body
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = durations::parse)]
    pub(super) body_timeout: Duration,

    /// Between two bytes that the client takes
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = durations::parse)]
    pub(super) send_timeout: Duration,

    /// From SIGTERM or SIGINT to the end of connections that are still busy
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = durations::parse)]
    pub(super) drain_timeout: Duration,
}

/// How lines look.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum LogFormat {
    /// As Apache and nginx write it
    Combined,
    /// An object a line
    Json,
}

const HELP: &str = "\
SIGHUP reads certificates anew and reopens the access log, where there are any.

Exit status: 0 after SIGTERM, 130 after SIGINT, 1 if it could not serve, 2 if the command line is
wrong. A second signal ends it at once.";
