//! The command line of `fulmar serve`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use fulmar_semantics::proxy_protocol::TrustedSources;

use super::listen_address::ListenAddress;
use crate::files::{InputFile, OutputFile};
use crate::loops;
use crate::{durations, fields, sizes};

/// Serve the files of a directory over HTTP.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct ServeArguments {
    /// Directory to serve
    #[arg(default_value = ".")]
    pub(super) dir: PathBuf,

    /// Listen address: ADDRESS:PORT or unix:PATH; repeatable. Port 0 selects a free port, which is
    /// printed
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub(super) listen: Vec<ListenAddress>,

    /// Number of threads, each with its own listener (SO_REUSEPORT)
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) threads: u16,

    #[command(flatten)]
    pub(super) loops: loops::LoopArguments,

    /// Take over the listeners of the running process through the Unix socket PATH, and hand them
    /// over to the next process there
    #[arg(long, value_name = "PATH")]
    pub(super) hand_over: Option<PathBuf>,

    /// Provide /bytes/N, /stream/CHUNK, /delay/MS, /status/CODE, /echo, /idle and /.ledger
    #[arg(long)]
    pub(super) test_endpoints: bool,

    #[command(flatten)]
    pub(super) content: ContentArguments,

    #[command(flatten)]
    pub(super) access: AccessArguments,

    #[command(flatten)]
    pub(super) logging: LoggingArguments,

    #[command(flatten)]
    pub(super) limits: LimitArguments,
}

/// Content options.
#[derive(Debug, Args)]
#[command(next_help_heading = "Content")]
pub(super) struct ContentArguments {
    /// List directories without index.html
    #[arg(long)]
    pub(super) list: bool,

    /// Serve and list names that start with a dot
    #[arg(long)]
    pub(super) hidden: bool,

    /// Send NAME.br, NAME.zst or NAME.gz instead of NAME to clients that accept the coding
    #[arg(long)]
    pub(super) precompressed: bool,

    /// Send the root's index.html for unknown names without an extension (single-page application)
    #[arg(long)]
    pub(super) spa: bool,

    /// Accept uploads: PUT creates and replaces files in existing directories
    #[arg(long)]
    pub(super) upload: bool,

    /// Maximum size of an uploaded file: 512, 64K, 10M, 1G
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = sizes::parse)]
    pub(super) upload_max: u64,

    /// Add a header field to every response, `Name: value`; repeatable
    #[arg(long = "header", value_name = "FIELD", value_parser = fields::parse)]
    pub(super) headers: Vec<(String, String)>,

    /// Allow cross-origin requests (CORS) from ORIGIN; `*`: from all; repeatable
    #[arg(long, value_name = "ORIGIN")]
    pub(super) cors: Vec<String>,

    /// Send a request identifier in X-Request-Id with every response
    #[arg(long)]
    pub(super) request_ids: bool,
}

/// Access control options.
#[derive(Debug, Args)]
#[command(next_help_heading = "Access control")]
pub(super) struct AccessArguments {
    /// TLS certificate with its chain (PEM); repeatable, each with a --tls-key. SNI selects the
    /// certificate
    #[arg(long, value_name = "FILE")]
    pub(super) tls_cert: Vec<InputFile>,

    /// Private key of the certificate at the same position (PEM)
    #[arg(long, value_name = "FILE")]
    pub(super) tls_key: Vec<InputFile>,

    /// Require client certificates issued by one of these CAs (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(super) tls_client_ca: Vec<InputFile>,

    /// Require HTTP Basic authentication: one user, or the users of a file written by htpasswd
    #[arg(long, value_name = "USER:PASSWORD|FILE")]
    pub(super) auth: Option<String>,

    /// Accept connections only from these networks, with a PROXY protocol header: 10.0.0.0/8,::1
    #[arg(long, value_name = "NETWORKS")]
    pub(super) accept_proxy: Option<TrustedSources>,
}

/// Logging and metrics options.
#[derive(Debug, Args)]
#[command(next_help_heading = "Logging and metrics")]
pub(super) struct LoggingArguments {
    /// Append a line for each response to FILE; `-`: standard output
    #[arg(long, value_name = "FILE")]
    pub(super) access_log: Option<OutputFile>,

    /// Format of the access log
    #[arg(long, value_enum, default_value_t = AccessLogFormat::Combined)]
    pub(super) log_format: AccessLogFormat,

    /// Serve Prometheus metrics at /metrics on a separate listener
    #[arg(long, value_name = "ADDR")]
    pub(super) metrics: Option<ListenAddress>,

    /// Print system calls per request at the end
    #[arg(long)]
    pub(super) ledger: bool,
}

/// Limits of clients.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(super) struct LimitArguments {
    /// Maximum number of connections; further clients wait [default: by the descriptor limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) max_connections: Option<u32>,

    /// Maximum number of connections from one IPv4 address or IPv6 /64; further ones are closed
    /// [default: 1024 for each thread; loopback: no limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) max_connections_per_address: Option<u32>,

    /// Maximum size of responses queued for a client that does not read; beyond it, no further
    /// request of the connection is parsed: 8K, 64K, 1M
    #[arg(long, value_name = "SIZE", default_value = "32K", value_parser = sizes::parse)]
    pub(super) response_buffer: u64,

    /// Minimum rate of a client in bytes per second, sent or received, over 30 s; 0: no minimum
    #[arg(long, value_name = "N", default_value_t = 250)]
    pub(super) min_rate: u32,

    /// Timeout of connections without a request
    #[arg(long, value_name = "TIME", default_value = "75s", value_parser = durations::parse)]
    pub(super) idle_timeout: Duration,

    /// Timeout for a request head, from its first byte to its last
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = durations::parse)]
    pub(super) head_timeout: Duration,

    /// Timeout between received bytes of a request body
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = durations::parse)]
    pub(super) body_timeout: Duration,

    /// Timeout between sent bytes of a response
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = durations::parse)]
    pub(super) send_timeout: Duration,

    /// Timeout for busy connections after SIGTERM or SIGINT
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = durations::parse)]
    pub(super) drain_timeout: Duration,
}

/// Format of the access log.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum AccessLogFormat {
    /// combined log format of Apache and nginx
    Combined,
    /// one JSON object per line
    Json,
}

const HELP: &str = "\
SIGHUP reloads certificates and reopens the access log.

Exit status: 0 after SIGTERM, 130 after SIGINT, 1 on failure, 2 if the command line or an input
that it names is invalid. A second signal exits at once.";
