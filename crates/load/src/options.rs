//! The options of a run.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use fulmar_client::RequestUrl;
use fulmar_drive::LoopOptions;
use fulmar_tls::{ClientOptions, HTTP1};

use crate::sources::Sources;

/// The options of a run: plain data.
///
/// Connection `i` goes to destination `i mod n`. The destinations are the different hosts and ports
/// among the URLs, in the order of their first mention. The requests to a destination use its URLs
/// in turn.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `http` and `https` URLs to request.
    pub urls: Vec<String>,
    /// Connections in all.
    pub connections: u32,
    /// The end of the run.
    pub until: RunUntil,
    /// Threads, one reactor each, which share connections and rate.
    pub threads: u32,
    /// The options of the threads' loops.
    pub loop_options: LoopOptions,
    /// Requests per second in total, at planned times (an open loop); `None`: each connection sends
    /// the next request as soon as it has a response (a closed loop).
    pub rate: Option<u64>,
    /// The protocol, with the number of requests outstanding on one connection.
    pub protocol: LoadProtocol,
    /// The method.
    pub method: String,
    /// Fields in addition to `Host` (which they may replace) and `Content-Length`.
    pub headers: Vec<(String, String)>,
    /// The body of every request.
    pub body: Vec<u8>,
    /// A new connection for every request.
    pub reconnect: bool,
    /// Source addresses, which connections use in turn.
    pub bind: Sources,
    /// TLS options. By default every handshake is a full one.
    pub tls: ClientOptions,
    /// A Unix socket that every connection goes to, instead of the hosts of the URLs.
    pub unix_socket: Option<PathBuf>,
    /// Timeout for connecting, for the TLS handshake, and for each complete response.
    pub timeout: Duration,
}

/// The protocol of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadProtocol {
    /// HTTP/1.1.
    Http1 {
        /// Pipelined requests of a connection, 1 to 64.
        pipelined: u16,
    },
    /// HTTP/2: by ALPN over TLS, otherwise with prior knowledge (RFC 9113 §3.3).
    Http2 {
        /// Concurrent streams of a connection, 1 to 10,000, and at most as many as the server
        /// accepts.
        streams: u16,
    },
}

impl LoadProtocol {
    /// Requests outstanding on one connection.
    pub fn depth(self) -> u16 {
        match self {
            Self::Http1 { pipelined: depth } | Self::Http2 { streams: depth } => depth,
        }
    }
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunUntil {
    /// After this time. Outstanding requests are neither answered nor failed.
    Elapsed(Duration),
    /// After so many responses and failures.
    Requests(u64),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            urls: Vec::new(),
            connections: 64,
            until: RunUntil::Elapsed(Duration::from_secs(10)),
            threads: 1,
            loop_options: LoopOptions::default(),
            rate: None,
            protocol: LoadProtocol::Http1 { pipelined: 1 },
            method: "GET".to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            reconnect: false,
            bind: Sources::default(),
            tls: ClientOptions {
                resumption_len: 0,
                alpn: vec![HTTP1.to_vec()],
                ..ClientOptions::default()
            },
            unix_socket: None,
            timeout: Duration::from_secs(30),
        }
    }
}

impl Options {
    /// The number of destinations among the valid URLs. With fewer connections, some URLs are not
    /// requested.
    pub fn destinations(&self) -> usize {
        let targets = self.urls.iter().filter_map(|url| RequestUrl::parse(url).ok());
        let keys: BTreeSet<_> =
            targets.map(|target| (target.authority().to_owned(), target.is_tls())).collect();
        keys.len()
    }

    /// Checks the options without system calls.
    ///
    /// # Errors
    /// The first invalid setting.
    pub fn check(&self) -> Result<(), OptionsError> {
        use OptionsError as E;
        let (depths, depth_error) = match self.protocol {
            LoadProtocol::Http1 { .. } => (1..=DEPTH_MAX, E::Depth),
            LoadProtocol::Http2 { .. } => (1..=STREAMS_MAX, E::Streams),
        };
        let rules = [
            (!self.urls.is_empty(), E::NoUrl),
            (self.urls.len() <= URLS_LEN_MAX, E::TooManyUrls),
            ((1..=CONNECTIONS_MAX).contains(&self.connections), E::Connections),
            ((1..=THREADS_MAX).contains(&self.threads), E::Threads),
            (self.threads <= self.connections, E::MoreThreadsThanConnections),
            (self.rate.is_none_or(|rate| (1..=RATE_MAX).contains(&rate)), E::Rate),
            (depths.contains(&self.protocol.depth()), depth_error),
            (!self.reconnect || self.protocol.depth() == 1, E::ReconnectDepth),
            (!self.timeout.is_zero(), E::Timeout),
            (self.unix_socket.is_none() || self.bind.is_empty(), E::BindUnix),
            (self.method != "CONNECT", E::Connect),
            (self.until != RunUntil::Requests(0), E::Nothing),
            (self.until != RunUntil::Elapsed(Duration::ZERO), E::Nothing),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }
}

/// An invalid setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionsError {
    /// There is no URL.
    NoUrl,
    /// More URLs than 1,024.
    TooManyUrls,
    /// Not 1 to 1,000,000 connections.
    Connections,
    /// Not 1 to 1,024 threads.
    Threads,
    /// More threads than connections.
    MoreThreadsThanConnections,
    /// Not 1 to 1,000,000,000 requests per second.
    Rate,
    /// Not 1 to 64.
    Depth,
    /// Not 1 to 10,000.
    Streams,
    /// A connection for every request has one request at a time.
    ReconnectDepth,
    /// The timeout is zero.
    Timeout,
    /// Unix sockets have no source addresses.
    BindUnix,
    /// CONNECT opens tunnels, which are no load.
    Connect,
    /// Zero requests or zero time.
    Nothing,
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoUrl => "there is no URL",
            Self::TooManyUrls => "there are more than 1,024 URLs",
            Self::Connections => "connections must be 1 to 1,000,000",
            Self::Threads => "threads must be 1 to 1,024",
            Self::MoreThreadsThanConnections => "there are more threads than connections",
            Self::Rate => "the rate must be 1 to 1,000,000,000 requests per second",
            Self::Depth => "the pipelining depth must be 1 to 64",
            Self::Streams => "the streams of a connection must be 1 to 10,000",
            Self::ReconnectDepth => {
                "a connection for every request has one request at a time: omit -p and -m"
            }
            Self::Timeout => "the timeout must be longer than nothing",
            Self::BindUnix => "connections to a Unix socket have no source addresses",
            Self::Connect => "CONNECT opens a tunnel, which is no load",
            Self::Nothing => "there must be at least one request, or some time",
        })
    }
}

impl std::error::Error for OptionsError {}

const URLS_LEN_MAX: usize = 1_024;
const CONNECTIONS_MAX: u32 = 1_000_000;
const THREADS_MAX: u32 = 1_024;
const DEPTH_MAX: u16 = 64;
const STREAMS_MAX: u16 = 10_000;
const RATE_MAX: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let good = Options { urls: vec!["http://a/".to_owned()], ..Options::default() };
        assert_eq!(good.check(), Ok(()));
        let with = |change: fn(&mut Options)| {
            let mut options = good.clone();
            change(&mut options);
            options.check().unwrap_err()
        };
        assert_eq!(with(|o| o.urls.clear()), OptionsError::NoUrl);
        assert_eq!(with(|o| o.connections = 0), OptionsError::Connections);
        assert_eq!(with(|o| o.threads = 0), OptionsError::Threads);
        assert_eq!(with(|o| o.threads = 65), OptionsError::MoreThreadsThanConnections);
        assert_eq!(with(|o| o.rate = Some(0)), OptionsError::Rate);
        let protocol = |protocol, reconnect| {
            Options { protocol, reconnect, ..good.clone() }.check().unwrap_err()
        };
        use LoadProtocol::{Http1, Http2};
        assert_eq!(protocol(Http1 { pipelined: 0 }, false), OptionsError::Depth);
        assert_eq!(protocol(Http1 { pipelined: 65 }, false), OptionsError::Depth);
        assert_eq!(protocol(Http2 { streams: 0 }, false), OptionsError::Streams);
        assert_eq!(protocol(Http2 { streams: 10_001 }, false), OptionsError::Streams);
        assert_eq!(protocol(Http1 { pipelined: 2 }, true), OptionsError::ReconnectDepth);
        assert_eq!(with(|o| o.timeout = Duration::ZERO), OptionsError::Timeout);
        let unix = |o: &mut Options| {
            (o.unix_socket, o.bind) = (Some("s".into()), "127.0.0.1".parse().unwrap());
        };
        assert_eq!(with(unix), OptionsError::BindUnix);
        assert_eq!(with(|o| o.until = RunUntil::Requests(0)), OptionsError::Nothing);
    }

    #[test]
    fn destinations_are_counted_once() {
        let urls = ["http://a/", "http://a/b", "https://a/", "http://a:81/", "http://a:80/", "?"];
        let urls = urls.map(str::to_owned).to_vec();
        assert_eq!(Options { urls, ..Options::default() }.destinations(), 3);
    }
}
