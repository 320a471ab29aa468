//! The prepared run: hosts are resolved and requests compiled, once for all threads.

use std::net::SocketAddr;
use std::time::Duration;

use fulmar_client::RequestUrl;
use fulmar_engine::{Endpoint, Peer};
use fulmar_proto::h1::EncodedRequest;
use fulmar_proto::h2::RequestBlock;
use fulmar_proto::{HeaderBuf, Layer, Request, UrlScheme};
use fulmar_tls::{ClientOptions, ClientTls, HTTP2};

use crate::error::LoadError;
use crate::flights::Flights;
use crate::options::{LoadProtocol, Options, RunUntil};
use crate::outstanding::Outstanding;
use crate::schedule::planned_within;
use crate::sources::Sources;
use crate::stream_flights::StreamFlights;

/// The data that all threads share.
#[derive(Debug)]
pub(crate) struct RunPlan {
    pub(crate) origins: Vec<Destination>,
    pub(crate) connections: u32,
    pub(crate) threads: u32,
    pub(crate) protocol: LoadProtocol,
    /// Each request has a connection of its own.
    pub(crate) reconnect: bool,
    pub(crate) rate: Option<u64>,
    pub(crate) until: RunUntil,
    pub(crate) timeout: Duration,
    pub(crate) bind: Sources,
}

/// A destination and its requests.
#[derive(Debug)]
pub(crate) struct Destination {
    pub(crate) authority: String,
    pub(crate) addresses: Vec<Peer>,
    pub(crate) requests: Vec<PlannedRequest>,
    tls: Option<(ClientTls, String)>, // with the host name to verify
}

/// A request, encoded for the protocol of the run.
#[derive(Debug)]
pub(crate) enum PlannedRequest {
    Http1(EncodedRequest),
    Http2(RequestBlock),
}

impl Destination {
    /// Where its connections go, for messages: host and port, or the Unix socket.
    pub(crate) fn place(&self) -> String {
        match self.addresses.first() {
            Some(Peer::Unix(path)) => format!("the Unix socket {}", path.display()),
            Some(Peer::Ip(_)) | None => self.authority.clone(),
        }
    }

    /// The layer of a new connection: TLS, or none.
    pub(crate) fn layer(&self) -> Option<Box<dyn Layer>> {
        let (tls, host) = self.tls.as_ref()?;
        let session = tls.session(host);
        Some(Box::new(session.expect("the host was tried, and there is randomness")))
    }
}

impl RunPlan {
    /// Blocks while names are resolved.
    pub(crate) fn new(options: &Options) -> Result<Self, LoadError> {
        options.check().map_err(LoadError::Options)?;
        let mut origins: Vec<(RequestUrl, Vec<PlannedRequest>)> = Vec::new();
        for url in &options.urls {
            let error = |cause| LoadError::Target { url: url.clone(), cause };
            let target = RequestUrl::parse(url).map_err(error)?;
            let request = compile(&target, options)?;
            let same = |(known, _): &&mut (RequestUrl, _)| {
                known.authority() == target.authority() && known.is_tls() == target.is_tls()
            };
            match origins.iter_mut().find(same) {
                Some((_, requests)) => requests.push(request),
                None => origins.push((target, vec![request])),
            }
        }
        let tls = match origins.iter().any(|(target, _)| target.is_tls()) {
            true => Some(ClientTls::new(tls_options(options)).map_err(LoadError::Tls)?),
            false => None,
        };
        let origins: Result<_, _> = origins
            .into_iter()
            .map(|(target, requests)| reach(&target, requests, tls.as_ref(), options))
            .collect();
        Ok(Self {
            origins: origins?,
            connections: options.connections,
            threads: options.threads,
            protocol: options.protocol,
            reconnect: options.reconnect,
            rate: options.rate,
            until: options.until,
            timeout: options.timeout.min(TIMEOUT_MAX),
            bind: options.bind.clone(),
        })
    }

    /// The number of connections of thread `thread`.
    pub(crate) fn share(&self, thread: u32) -> u32 {
        self.connections / self.threads + u32::from(thread < self.connections % self.threads)
    }

    /// The number in the run of connection `number` of `thread`.
    fn overall(&self, thread: u32, number: u32) -> u64 {
        u64::from(thread) + u64::from(number) * u64::from(self.threads)
    }

    /// The destination of connection `number` of `thread`.
    pub(crate) fn gate(&self, thread: u32, number: u32) -> u16 {
        let at = self.overall(thread, number) % self.origins.len() as u64;
        u16::try_from(at).expect("the number of URLs is checked")
    }

    /// The endpoint of a connection to the destination's address number `address`.
    pub(crate) fn endpoint(&self, thread: u32, number: u32, address: usize) -> Endpoint {
        let origin = &self.origins[usize::from(self.gate(thread, number))];
        let peer = origin.addresses[address].clone();
        Endpoint { local: self.source(thread, number), ..peer.into() }
    }

    /// True if a URL is `https`.
    pub(crate) fn has_tls(&self) -> bool {
        self.origins.iter().any(|origin| origin.tls.is_some())
    }

    /// The source address of a connection. The connections of each destination use all addresses in
    /// turn.
    fn source(&self, thread: u32, number: u32) -> Option<SocketAddr> {
        let address = self.bind.at(self.overall(thread, number) / self.origins.len() as u64)?;
        Some(SocketAddr::new(address, 0))
    }

    /// The memory for the outstanding requests of one connection.
    pub(crate) fn flights(&self) -> Outstanding {
        match self.protocol {
            LoadProtocol::Http1 { pipelined } => {
                Outstanding::InOrder(Flights::new(u8::try_from(pipelined).expect("checked")))
            }
            LoadProtocol::Http2 { streams } => {
                Outstanding::ByStream(Box::new(StreamFlights::new(streams)))
            }
        }
    }

    /// The number of requests, if it ends the run.
    pub(crate) fn count(&self) -> Option<u64> {
        match self.until {
            RunUntil::Requests(n) => Some(n),
            RunUntil::Elapsed(_) => None,
        }
    }

    /// The most requests that the run plans, if its options limit them. The last turn of a run ends
    /// behind its duration, and requests that would be due in between are not planned.
    pub(crate) fn planned_max(&self) -> Option<u64> {
        match self.until {
            RunUntil::Requests(n) => Some(n),
            RunUntil::Elapsed(duration) => {
                let elapsed = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
                self.rate.map(|rate| planned_within(rate, elapsed, None))
            }
        }
    }
}

fn tls_options(options: &Options) -> ClientOptions {
    let mut tls = options.tls.clone();
    if let LoadProtocol::Http2 { .. } = options.protocol {
        tls.alpn = vec![HTTP2.to_vec()];
    }
    tls
}

fn compile(target: &RequestUrl, options: &Options) -> Result<PlannedRequest, LoadError> {
    let mut headers = HeaderBuf::new();
    let is_host = |(name, _): &&(String, String)| name.eq_ignore_ascii_case("host");
    let push = |headers: &mut HeaderBuf, name: &str, value: &str| {
        let cause = headers.push(name, value.as_bytes());
        cause.map_err(|_| LoadError::Header { name: name.to_owned(), value: value.to_owned() })
    };
    if !options.headers.iter().any(|field| is_host(&field)) {
        push(&mut headers, "Host", target.authority())?;
    }
    for (name, value) in &options.headers {
        push(&mut headers, name, value)?;
    }
    let (method, path) = (options.method.as_bytes(), target.path().as_bytes());
    let mut request = Request::new(method, path, headers.as_headers());
    if options.reconnect {
        request.added = &[("Connection", b"close")];
    }
    let planned = match options.protocol {
        LoadProtocol::Http2 { .. } => {
            let scheme = if target.is_tls() { UrlScheme::Https } else { UrlScheme::Http };
            RequestBlock::new(&request, &options.body, scheme).map(PlannedRequest::Http2)
        }
        LoadProtocol::Http1 { .. } => {
            EncodedRequest::new(&request, &options.body).map(PlannedRequest::Http1)
        }
    };
    planned.map_err(LoadError::Request)
}

fn reach(
    target: &RequestUrl,
    requests: Vec<PlannedRequest>,
    tls: Option<&ClientTls>,
    options: &Options,
) -> Result<Destination, LoadError> {
    let host = target.host();
    let addresses = match &options.unix_socket {
        Some(path) => vec![Peer::Unix(path.clone())],
        None => {
            let mut addresses = target.resolve().map_err(LoadError::Resolve)?;
            addresses.retain(|address| options.bind.reach(address.ip()));
            addresses.into_iter().map(Peer::Ip).collect()
        }
    };
    if addresses.is_empty() {
        return Err(LoadError::Family { host });
    }
    let tls = tls.filter(|_| target.is_tls());
    if let Some(Err(cause)) = tls.map(|tls| tls.session(&host)) {
        return Err(LoadError::TlsHost { host, cause });
    }
    let tls = tls.map(|tls| (tls.clone(), host));
    Ok(Destination { authority: target.authority().to_owned(), addresses, requests, tls })
}

/// Longer timeouts could overflow an `Instant`; this is a year.
const TIMEOUT_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    fn options(urls: &[&str]) -> Options {
        let urls = urls.iter().map(|url| (*url).to_owned()).collect();
        Options { urls, ..Options::default() }
    }

    #[test]
    fn connections_take_turns_over_destinations_and_sources() {
        let urls = ["http://127.0.0.1:1/a", "http://127.0.0.1:2/", "http://127.0.0.1:1/b"];
        let mut options = options(&urls);
        (options.connections, options.threads) = (7, 2);
        options.bind = "127.0.0.5-127.0.0.6".parse().unwrap();
        let plan = RunPlan::new(&options).unwrap();
        let requests: Vec<_> = plan.origins.iter().map(|o| o.requests.len()).collect();
        assert_eq!((requests, plan.share(0), plan.share(1)), (vec![2, 1], 4, 3));
        let place = |thread, number| {
            let source = plan.source(thread, number).unwrap().to_string();
            (plan.gate(thread, number), source)
        };
        assert_eq!(place(0, 0), (0, "127.0.0.5:0".to_owned()));
        assert_eq!(place(1, 0), (1, "127.0.0.5:0".to_owned()));
        assert_eq!(place(0, 1), (0, "127.0.0.6:0".to_owned()));
        assert_eq!(place(1, 2), (1, "127.0.0.5:0".to_owned()));
    }

    #[test]
    fn what_cannot_be_asked_is_an_error_before_the_run() {
        let error = |change: fn(&mut Options)| {
            let mut options = options(&["http://127.0.0.1:1/"]);
            change(&mut options);
            RunPlan::new(&options).unwrap_err()
        };
        assert!(matches!(error(|o| o.method = "G T".into()), LoadError::Request(_)));
        let http2 = |o: &mut Options| {
            (o.protocol, o.method) = (LoadProtocol::Http2 { streams: 1 }, "G T".into());
        };
        assert!(matches!(error(http2), LoadError::Request(_)));
        let split = |o: &mut Options| o.headers.push(("A".into(), "b\r\nC: d".into()));
        assert!(matches!(error(split), LoadError::Header { .. }));
        assert!(matches!(error(|o| o.bind = "::1".parse().unwrap()), LoadError::Family { .. }));
        assert!(matches!(error(|o| o.urls[0] = "ftp://a/".into()), LoadError::Target { .. }));
    }
}
