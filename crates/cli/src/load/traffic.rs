//! The options of a load, shared by all tools that generate one.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fulmar_load::tls::{ClientOptions, Identity, Roots, Verify};
use fulmar_load::{LoadError, LoadProtocol, Options, RunUntil, Sources};

use crate::files::{self, InputFile};
use crate::output::{ToolFailure, warn};
use crate::{descriptors, durations, fields, numbers};

/// The options of a load, except its URLs.
#[derive(Debug, Args)]
pub(crate) struct TrafficArguments {
    /// Number of connections, at least one for each host and port among the URLs
    #[arg(short, long, value_name = "N", default_value_t = 64,
          value_parser = numbers::parse::<u32>)]
    pub(crate) connections: u32,

    /// Duration: 10, 500ms, 2m
    #[arg(short, long, value_name = "TIME", value_parser = durations::parse)]
    pub(crate) duration: Option<Duration>,

    /// Number of requests, instead of a duration
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "duration",
          value_parser = numbers::parse::<u64>)]
    pub(crate) requests: Option<u64>,

    /// Number of threads, which share the connections
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = numbers::parse::<u32>)]
    pub(crate) threads: u32,

    /// Total requests per second at scheduled times (open loop); latency is measured from the
    /// scheduled time
    #[arg(short = 'R', long, value_name = "N", value_parser = numbers::parse::<u64>)]
    pub(crate) rate: Option<u64>,

    /// Number of outstanding requests on each connection of HTTP/1.1
    #[arg(short, long, value_name = "N", default_value_t = 1, conflicts_with = "http2",
          value_parser = numbers::within(1..=64_u16))]
    pub(crate) pipelining: u16,

    /// Use HTTP/2: by ALPN over TLS, otherwise with prior knowledge [default: HTTP/1.1]
    #[arg(long)]
    pub(crate) http2: bool,

    /// Number of concurrent streams on each connection of HTTP/2, at most those that the server
    /// accepts
    #[arg(short = 'm', long, value_name = "N", default_value_t = 1, requires = "http2",
          value_parser = numbers::within(1..=10_000_u16))]
    pub(crate) streams: u16,

    /// Request method
    #[arg(short = 'X', long, value_name = "METHOD", default_value = "GET")]
    pub(crate) method: String,

    /// Add a header field, `Name: value`; repeatable
    #[arg(short = 'H', long = "header", value_name = "FIELD", value_parser = fields::parse)]
    pub(crate) headers: Vec<(String, String)>,

    /// Request body; `@FILE`: read it from a file, `@-`: from standard input
    #[arg(long, value_name = "TEXT")]
    pub(crate) body: Option<String>,

    /// Open a new connection for each request
    #[arg(long)]
    pub(crate) reconnect: bool,

    /// Source addresses: 127.0.0.2-127.0.0.9, 10.1.0.0/24, or a list with commas. Each address has
    /// 28,000 ports for connections to a server
    #[arg(long, value_name = "ADDR-RANGE")]
    pub(crate) bind: Option<Sources>,

    /// Do not verify server certificates
    #[arg(short = 'k', long)]
    pub(crate) insecure: bool,

    /// Trust only the CA certificates in FILE (PEM); `-`: standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) cacert: Option<InputFile>,

    /// Server name for SNI and certificate verification, instead of the URL's host
    #[arg(long, value_name = "NAME")]
    pub(crate) sni: Option<String>,

    /// Client certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<InputFile>,

    /// Private key of the client certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<InputFile>,

    /// Connect to this Unix socket instead of the URL's host
    #[arg(long, value_name = "PATH", conflicts_with = "bind")]
    pub(crate) unix_socket: Option<PathBuf>,

    /// Timeout for the connect, for the TLS handshake, and for each complete response
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = durations::parse)]
    pub(crate) timeout: Duration,
}

impl TrafficArguments {
    /// The load on these URLs. `usual` is the end without a number of requests or a duration.
    pub(crate) fn options(&self, urls: &[String], usual: RunUntil) -> Result<Options, ToolFailure> {
        let body_file = self.body.as_deref().and_then(|text| text.strip_prefix('@'));
        let body_file = body_file.map(|path| InputFile::from(OsString::from(path)));
        let inputs = [
            ("--body", &body_file),
            ("--cacert", &self.cacert),
            ("--cert", &self.cert),
            ("--key", &self.key),
        ];
        files::check_inputs(inputs.map(|(name, file)| (name, file.as_ref())))?;
        let body = match (&self.body, &body_file) {
            (_, Some(file)) => file.read()?,
            (Some(text), None) => text.as_bytes().to_vec(),
            (None, None) => Vec::new(),
        };
        let until = match (self.requests, self.duration) {
            (Some(requests), _) => RunUntil::Requests(requests),
            (None, Some(duration)) => RunUntil::Elapsed(duration),
            (None, None) => usual,
        };
        Ok(Options {
            urls: urls.to_vec(),
            connections: self.connections,
            until,
            threads: self.threads,
            rate: self.rate,
            protocol: match self.http2 {
                true => LoadProtocol::Http2 { streams: self.streams },
                false => LoadProtocol::Http1 { pipelined: self.pipelining },
            },
            method: self.method.clone(),
            headers: self.headers.clone(),
            body,
            reconnect: self.reconnect,
            bind: self.bind.clone().unwrap_or_default(),
            tls: self.tls()?,
            unix_socket: self.unix_socket.clone(),
            timeout: self.timeout,
            ..Options::default()
        })
    }

    fn tls(&self) -> Result<ClientOptions, ToolFailure> {
        let roots = match &self.cacert {
            None => Roots::platform(),
            Some(InputFile::Path(path)) => Roots::empty().file(path),
            Some(file @ InputFile::Stdin) => Roots::empty().pem(file.read()?),
        };
        let identity = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Some(Identity::new(cert.pem()?, key.pem()?)),
            _ => None,
        };
        Ok(ClientOptions {
            roots,
            verify: if self.insecure { Verify::Nothing } else { Verify::Full },
            server_name: self.sni.clone(),
            identity,
            ..Options::default().tls
        })
    }
}

/// Converts an error. Invalid options are usage errors.
pub(crate) fn failure(error: &LoadError) -> ToolFailure {
    let message = error.to_string();
    match error {
        LoadError::Options(_)
        | LoadError::Target { .. }
        | LoadError::Tls(_)
        | LoadError::TlsHost { .. }
        | LoadError::Header { .. }
        | LoadError::Request(_) => ToolFailure::Usage(message),
        _ => ToolFailure::Message(message),
    }
}

/// Reduces the connections to the descriptor limit. An embedded server needs a descriptor for each
/// too.
pub(crate) fn fit(options: &mut Options, embedded: bool) -> Result<(), ToolFailure> {
    let threads = usize::try_from(options.threads).unwrap_or(usize::MAX);
    let budget = descriptors::for_connections(threads)?;
    let budget = budget.shared(if embedded { 2 } else { 1 });
    let wanted = usize::try_from(options.connections).unwrap_or(usize::MAX);
    let (fits, message) = budget.fit(wanted);
    message.iter().for_each(|message| warn(message));
    options.connections = u32::try_from(fits).unwrap_or(u32::MAX);
    let destinations = options.destinations();
    if fits < destinations {
        return Err(ToolFailure::Usage(format!(
            "too few connections ({fits}) for URLs of {destinations} destinations: each needs one \
             (use --connections {destinations} or more)"
        )));
    }
    Ok(())
}
