//! What a run is asked to do.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use fulmar_drive::LoopOptions;
use fulmar_tls::ClientOptions;

use crate::sources::Sources;

/// What a run is asked to do: plain data.
///
/// Connection `i` goes to destination `i mod n`, where the destinations are the different hosts
/// and ports among the URLs in the order of their first mention; the requests to a destination
/// take turns over its URLs.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is requested: `http` and `https` URLs.
    pub urls: Vec<String>,
    /// Connections in all.
    pub connections: u32,
    /// When it ends.
    pub until: Until,
    /// Threads, one reactor each; connections and rate are shared out over them.
    pub threads: u32,
    /// How the threads' loops work.
    pub loop_options: LoopOptions,
    /// Requests per second in all, at planned times (an open loop); `None`: each connection asks
    /// again as soon as it is answered (a closed loop).
    pub rate: Option<u64>,
    /// Requests outstanding on one connection, 1 to 64.
    pub depth: u32,
    /// The method.
    pub method: String,
    /// Fields beside `Host` (which they may replace) and `Content-Length`.
    pub headers: Vec<(String, String)>,
    /// The body of every request.
    pub body: Vec<u8>,
    /// A new connection for every request.
    pub reconnect: bool,
    /// Source addresses; connections take turns over them.
    pub bind: Sources,
    /// How `https` is spoken. By default every handshake is a full one.
    pub tls: ClientOptions,
    /// A Unix socket that every connection goes to, instead of the hosts of the URLs.
    pub unix_socket: Option<PathBuf>,
    /// Timeout for connecting, for the TLS handshake, and for each complete response.
    pub timeout: Duration,
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// After this time; what is outstanding then is neither answered nor failed.
    Elapsed(Duration),
    /// After so many requests were answered or failed.
    Requests(u64),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            urls: Vec::new(),
            connections: 64,
            until: Until::Elapsed(Duration::from_secs(10)),
            threads: 1,
            loop_options: LoopOptions::default(),
            rate: None,
            depth: 1,
            method: "GET".to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            reconnect: false,
            bind: Sources::default(),
            tls: ClientOptions { resumption_len: 0, ..ClientOptions::default() },
            unix_socket: None,
            timeout: Duration::from_secs(30),
        }
    }
}

impl Options {
    /// Checks what can be checked without the world.
    ///
    /// # Errors
    /// The first setting that makes no sense.
    pub fn check(&self) -> Result<(), OptionsError> {
        use OptionsError as E;
        let rules = [
            (!self.urls.is_empty(), E::NoUrl),
            (self.urls.len() <= URLS_LEN_MAX, E::TooManyUrls),
            ((1..=CONNECTIONS_MAX).contains(&self.connections), E::Connections),
            ((1..=THREADS_MAX).contains(&self.threads), E::Threads),
            (self.threads <= self.connections, E::MoreThreadsThanConnections),
            (self.rate.is_none_or(|rate| (1..=RATE_MAX).contains(&rate)), E::Rate),
            ((1..=64).contains(&self.depth), E::Depth),
            (!self.reconnect || self.depth == 1, E::ReconnectDepth),
            (!self.timeout.is_zero(), E::Timeout),
            (self.unix_socket.is_none() || self.bind.is_empty(), E::BindUnix),
            (self.method != "CONNECT", E::Connect),
            (self.until != Until::Requests(0), E::Nothing),
            (self.until != Until::Elapsed(Duration::ZERO), E::Nothing),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }
}

/// A setting that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionsError {
    /// There is nothing to request.
    NoUrl,
    /// More URLs than 1,024.
    TooManyUrls,
    /// Not 1 to 1,000,000 connections.
    Connections,
    /// Not 1 to 1,024 threads.
    Threads,
    /// Threads that would have no connection.
    MoreThreadsThanConnections,
    /// Not 1 to 1,000,000,000 requests per second.
    Rate,
    /// Not 1 to 64.
    Depth,
    /// A connection for every request cannot be pipelined.
    ReconnectDepth,
    /// No time at all.
    Timeout,
    /// Unix sockets have no source addresses.
    BindUnix,
    /// Tunnels are not load.
    Connect,
    /// No request or no time.
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
            Self::ReconnectDepth => "a connection for every request cannot be pipelined",
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
        assert_eq!(with(|o| o.depth = 65), OptionsError::Depth);
        assert_eq!(with(|o| (o.depth, o.reconnect) = (2, true)), OptionsError::ReconnectDepth);
        assert_eq!(with(|o| o.timeout = Duration::ZERO), OptionsError::Timeout);
        let unix = |o: &mut Options| {
            (o.unix_socket, o.bind) = (Some("s".into()), "127.0.0.1".parse().unwrap());
        };
        assert_eq!(with(unix), OptionsError::BindUnix);
        assert_eq!(with(|o| o.until = Until::Requests(0)), OptionsError::Nothing);
    }
}
