//! The options that shape a load: those of every tool that makes one.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fulmar_load::tls::{ClientOptions, Identity, Roots, Verify};
use fulmar_load::{LoadError, Options, Sources, Until};

use crate::files::{self, InputFile};
use crate::output::{Failure, complain};
use crate::{descriptors, durations, fields, numbers};

/// What a load is like; where it goes is not among it.
#[derive(Debug, Args)]
pub(crate) struct Traffic {
    /// Connections in all
    #[arg(short, long, value_name = "N", default_value_t = 64,
          value_parser = numbers::parse::<u32>)]
    pub(crate) connections: u32,

    /// How long: 10, 500ms, 2m
    #[arg(short, long, value_name = "TIME", value_parser = durations::parse)]
    pub(crate) duration: Option<Duration>,

    /// How many requests, instead of how long
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "duration",
          value_parser = numbers::parse::<u64>)]
    pub(crate) requests: Option<u64>,

    /// Threads, which share the connections
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = numbers::parse::<u32>)]
    pub(crate) threads: u32,

    /// Requests per second in all, at planned times: an open loop, whose latency counts from the
    /// planned time
    #[arg(short = 'R', long, value_name = "N", value_parser = numbers::parse::<u64>)]
    pub(crate) rate: Option<u64>,

    /// Requests outstanding on one connection
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = numbers::parse::<u32>)]
    pub(crate) pipelining: u32,

    /// The method
    #[arg(short, long, value_name = "METHOD", default_value = "GET")]
    pub(crate) method: String,

    /// A header field, `Name: value`; may be given several times
    #[arg(short = 'H', long = "header", value_name = "FIELD", value_parser = fields::parse)]
    pub(crate) headers: Vec<(String, String)>,

    /// The body of every request; `@FILE` reads it from a file, `@-` from standard input
    #[arg(long, value_name = "TEXT")]
    pub(crate) body: Option<String>,

    /// A new connection for every request
    #[arg(long)]
    pub(crate) reconnect: bool,

    /// Source addresses: 127.0.0.2-127.0.0.9, 10.1.0.0/24, or several with commas. Each has its
    /// own 28,000 ports towards a server
    #[arg(long, value_name = "ADDR-RANGE")]
    pub(crate) bind: Option<Sources>,

    /// Do not check the server's certificate
    #[arg(short = 'k', long)]
    pub(crate) insecure: bool,

    /// Trust the certificates in FILE (PEM), and no others; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) cacert: Option<InputFile>,

    /// The name asked for in TLS, and looked for in the certificate, instead of the URL's host
    #[arg(long, value_name = "NAME")]
    pub(crate) sni: Option<String>,

    /// A client certificate (PEM), for servers that ask for one
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<InputFile>,

    /// Its private key (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<InputFile>,

    /// Connect to this Unix socket, whatever the URL's host
    #[arg(long, value_name = "PATH", conflicts_with = "bind")]
    pub(crate) unix_socket: Option<PathBuf>,

    /// Timeout for connecting, for the TLS handshake, and for each complete response
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = durations::parse)]
    pub(crate) timeout: Duration,
}

impl Traffic {
    /// The load on these URLs. Without a number of requests or a time it ends as `usual` says.
    pub(crate) fn options(&self, urls: &[String], usual: Until) -> Result<Options, Failure> {
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
            (Some(requests), _) => Until::Requests(requests),
            (None, Some(duration)) => Until::Elapsed(duration),
            (None, None) => usual,
        };
        Ok(Options {
            urls: urls.to_vec(),
            connections: self.connections,
            until,
            threads: self.threads,
            rate: self.rate,
            depth: self.pipelining,
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

    fn tls(&self) -> Result<ClientOptions, Failure> {
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

/// Why there was no load: what it was asked for makes no sense, or something came in the way.
pub(crate) fn failure(error: &LoadError) -> Failure {
    let message = error.to_string();
    match error {
        LoadError::Options(_)
        | LoadError::Target { .. }
        | LoadError::Header { .. }
        | LoadError::Request(_) => Failure::Usage(message),
        _ => Failure::Message(message),
    }
}

/// As many connections as there are descriptors; an embedded server needs one for each too.
pub(crate) fn fit(options: &mut Options, embedded: bool) -> Result<(), Failure> {
    let threads = usize::try_from(options.threads).unwrap_or(usize::MAX);
    let budget = descriptors::for_connections(threads)?;
    let budget = budget.shared(if embedded { 2 } else { 1 });
    let wanted = usize::try_from(options.connections).unwrap_or(usize::MAX);
    let (fits, message) = budget.fit(wanted);
    message.iter().for_each(|message| complain(message));
    options.connections = u32::try_from(fits).unwrap_or(u32::MAX);
    Ok(())
}
