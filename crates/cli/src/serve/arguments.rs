//! The command line of `fulmar serve`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::UnknownArgumentValueParser;
use clap::{Args, ValueEnum};
use fulmar_proto::h2::Http2Limits;
use fulmar_semantics::proxy_protocol::TrustedSources;

use super::listen_address::ListenAddress;
use crate::files::{InputFile, OutputFile};
use crate::{durations, fields, loops, numbers, sizes};

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
          value_parser = numbers::within(1..=1_024_u16))]
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

    #[command(flatten)]
    pub(super) http2: Http2Arguments,
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

    /// Not an option: its error names the one that is meant.
    #[arg(long = "put", hide = true, num_args = 0, default_missing_value = "",
          value_parser = UnknownArgumentValueParser::suggest_arg("--upload"))]
    pub(super) _put: Option<String>,

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
    #[arg(long, value_name = "N", value_parser = numbers::within(1..=u32::MAX))]
    pub(super) max_connections: Option<u32>,

    /// Maximum number of connections from one IPv4 address or IPv6 /64; further ones are closed
    /// [default: 1024 for each thread; loopback: no limit]
    #[arg(long, value_name = "N", value_parser = numbers::within(1..=u32::MAX))]
    pub(super) max_connections_per_address: Option<u32>,

    /// Maximum size of responses queued for a client that does not read; beyond it, no further
    /// request of the connection is parsed: 8K, 64K, 1M
    #[arg(long, value_name = "SIZE", default_value = "32K", value_parser = sizes::parse)]
    pub(super) response_buffer: u64,

    /// Minimum rate of a client in bytes per second, sent or received, over 30 s; 0: no minimum
    #[arg(long, value_name = "N", default_value_t = 250, value_parser = numbers::parse::<u32>)]
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

/// HTTP/2 options. The defaults are those of [`Http2Limits`].
#[derive(Debug, Args)]
#[command(next_help_heading = "HTTP/2")]
pub(super) struct Http2Arguments {
    /// Serve HTTP/1.1 and 1.0 only
    #[arg(long, conflicts_with_all = ["http2_streams", "http2_stream_window", "http2_window",
          "http2_block_frames", "http2_resets", "http2_idle_frames"])]
    pub(super) no_http2: bool,

    /// Maximum number of concurrent streams of a connection; further ones are refused
    #[arg(long, value_name = "N", default_value_t = 128,
          value_parser = numbers::within(1..=65_535_u32))]
    pub(super) http2_streams: u32,

    /// Receive window of a stream in bytes, 65535 to 2147483647: 128K, 1M
    #[arg(long, value_name = "SIZE", default_value = "65535", value_parser = window)]
    pub(super) http2_stream_window: u32,

    /// Receive window of a connection in bytes, 65535 to 2147483647: 128K, 1M
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = window)]
    pub(super) http2_window: u32,

    /// Maximum number of frames of a header block: HEADERS and its CONTINUATIONs
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = numbers::within(1..=65_535_u32))]
    pub(super) http2_block_frames: u32,

    /// Maximum number of streams that a client resets before their responses are sent; each sent
    /// response allows one more
    #[arg(long, value_name = "N", default_value_t = 100,
          value_parser = numbers::within(1..=u32::MAX))]
    pub(super) http2_resets: u32,

    /// Maximum number of frames without progress, such as PING; each sent response allows 20 more
    #[arg(long, value_name = "N", default_value_t = 1_000,
          value_parser = numbers::within(100..=u32::MAX))]
    pub(super) http2_idle_frames: u32,
}

impl Http2Arguments {
    /// The limits of HTTP/2; `None` without it.
    pub(super) fn limits(&self) -> Option<Http2Limits> {
        (!self.no_http2).then_some(Http2Limits {
            streams_max: self.http2_streams,
            stream_window: self.http2_stream_window,
            window: self.http2_window,
            block_frames_max: self.http2_block_frames,
            peer_resets_max: self.http2_resets,
            idle_frames_max: self.http2_idle_frames,
        })
    }
}

/// A window: the least is the one that HTTP/2 begins with (RFC 9113 §6.9.2).
fn window(text: &str) -> Result<u32, String> {
    let size = u32::try_from(sizes::parse(text)?).ok();
    let size = size.filter(|size| (65_535..=WINDOW_MAX).contains(size));
    size.ok_or_else(|| format!("must be 65535 to {WINDOW_MAX} bytes"))
}

/// The largest window (RFC 9113 §6.9.1).
const WINDOW_MAX: u32 = (1 << 31) - 1;

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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Http2Line {
        #[command(flatten)]
        http2: Http2Arguments,
    }

    #[derive(Debug, Parser)]
    struct ServeLine {
        #[command(flatten)]
        serve: ServeArguments,
    }

    #[test]
    fn the_error_of_put_names_upload() {
        for line in [&["serve", "--put"][..], &["serve", "--put", "."]] {
            let error = ServeLine::try_parse_from(line).expect_err("unknown");
            assert_eq!(error.kind(), clap::error::ErrorKind::UnknownArgument);
            let message = error.to_string();
            assert!(message.contains("unexpected argument '--put'"), "{message}");
            assert!(message.contains("'--upload'"), "{message}");
        }
        let line = ServeLine::try_parse_from(["serve", "--upload"]).expect("valid");
        assert!(line.serve.content.upload);
    }

    fn limits(line: &str) -> Result<Option<Http2Limits>, clap::Error> {
        let words = std::iter::once("serve").chain(line.split_whitespace());
        Http2Line::try_parse_from(words).map(|line| line.http2.limits())
    }

    #[test]
    fn http2_limits_default_to_those_of_the_library() {
        assert_eq!(limits("").expect("valid"), Some(Http2Limits::default()));
        assert_eq!(limits("--no-http2").expect("valid"), None);
        let line = "--http2-streams 1 --http2-stream-window 64K --http2-window 65535 \
                    --http2-block-frames 2 --http2-resets 3 --http2-idle-frames 100";
        let expected = Http2Limits {
            streams_max: 1,
            stream_window: 65_536,
            window: 65_535,
            block_frames_max: 2,
            peer_resets_max: 3,
            idle_frames_max: 100,
        };
        assert_eq!(limits(line).expect("valid"), Some(expected));
    }

    #[test]
    fn http2_limits_out_of_range_are_refused() {
        for (option, values) in [
            ("--http2-streams", &["0", "65536"][..]),
            ("--http2-stream-window", &["0", "65534", "2G", "x"]),
            ("--http2-window", &["65534", "2G", "9G"]),
            ("--http2-block-frames", &["0", "65536"]),
            ("--http2-resets", &["0", "4294967296"]),
            ("--http2-idle-frames", &["99"]),
        ] {
            for value in values {
                let message = limits(&format!("{option} {value}")).expect_err(value).to_string();
                assert!(message.contains(&format!("'{value}' for '{option} ")), "{message}");
                assert!(message.contains(": must be "), "{message}");
            }
        }
    }

    #[test]
    fn limits_without_http2_are_refused() {
        for option in
            ["streams", "stream-window", "window", "block-frames", "resets", "idle-frames"]
        {
            let line = format!("--no-http2 --http2-{option} 65535");
            let message = limits(&line).expect_err("a conflict").to_string();
            assert!(message.contains("'--no-http2' cannot be used with '--http2-"), "{message}");
        }
    }
}
