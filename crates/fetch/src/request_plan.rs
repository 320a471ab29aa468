//! The parts that all requests share, and the options of the client and of the resolver.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use fulmar_client::{BuildError, Config, Options as Manner, RateLimit, Request};
use fulmar_names::Overrides;
use fulmar_proto::Headers;
use fulmar_proto::h1::Leniency;
use fulmar_semantics::content_range::Resume;
use fulmar_semantics::proxy::{ProxyUrl, Settings};
use fulmar_semantics::redirect;
use fulmar_semantics::retry_after::retry_after;
use fulmar_tls::{ClientOptions, ClientTls, Identity, Roots, Verify};

use crate::error::FetchError;
use crate::options::{Options, ProxyChoice, Trust};

/// The parts that all requests share.
#[derive(Debug)]
pub(crate) struct RequestPlan {
    pub(crate) mirror: bool,
    pub(crate) skip_existing: bool,
    pub(crate) resume: bool,
    pub(crate) sync: bool,
    pub(crate) retries: u32,
    headers: Vec<(String, String)>,
    manner: Arc<Manner>,
    /// The same time on both clocks.
    epoch: (Instant, SystemTime),
}

impl RequestPlan {
    pub(crate) fn new(options: &Options, epoch: (Instant, SystemTime)) -> Result<Self, FetchError> {
        let manner = Manner {
            redirects: Some(redirect::Policy::default()),
            first_byte_timeout: Some(options.stall_timeout),
            idle_timeout: Some(options.stall_timeout),
            exchange_timeout: options.max_time,
            tls: tls(&options.trust, options.identity.clone())?,
            proxies: proxies(&options.proxy)?.map(Arc::new),
            protocol: options.protocol,
            leniency: leniency(options),
            ..Manner::default()
        };
        let plan = Self {
            mirror: options.mirror,
            skip_existing: options.skip_existing,
            resume: options.resume,
            sync: options.sync,
            retries: options.retries,
            headers: options.headers.clone(),
            manner: Arc::new(manner),
            epoch,
        };
        plan.request("http://localhost/", None).map_err(FetchError::Header)?;
        Ok(plan)
    }

    /// A request for the whole file, or for the rest of a kept part.
    pub(crate) fn request(
        &self,
        url: &str,
        resume: Option<&Resume>,
    ) -> Result<Request, BuildError> {
        let mut builder = Request::get(url).options(Arc::clone(&self.manner));
        for (name, value) in &self.headers {
            builder = builder.header(name, value.as_bytes());
        }
        for (name, value) in resume.map(Resume::fields).into_iter().flatten() {
            builder = builder.header(name, &value);
        }
        builder.build()
    }

    /// The delay that a server requests.
    pub(crate) fn rest(&self, now: Instant, status: u16, headers: Headers<'_>) -> Duration {
        let value = headers.get("retry-after").filter(|_| matches!(status, 429 | 503));
        let wall = self.epoch.1 + now.saturating_duration_since(self.epoch.0);
        value.and_then(|value| retry_after(value, wall, REST_MAX)).unwrap_or_default()
    }
}

fn proxies(proxy: &ProxyChoice) -> Result<Option<Settings>, FetchError> {
    match proxy {
        ProxyChoice::None => Ok(None),
        ProxyChoice::Environment => Settings::from_env(|name| std::env::var(name).ok())
            .map(Some)
            .map_err(FetchError::ProxyVariable),
        ProxyChoice::Given(text) => {
            let proxy = ProxyUrl::parse(text).map_err(FetchError::Proxy)?;
            let https = Some(proxy.clone());
            Ok(Some(Settings { http: Some(proxy), https, ..Settings::default() }))
        }
    }
}

/// The client's default, and HTTP/0.9 if requested.
fn leniency(options: &Options) -> Leniency {
    let usual = Leniency::lenient();
    if options.http09 { usual.with(Leniency::HTTP_09) } else { usual }
}

/// `None`: the client's default, created when needed.
fn tls(trust: &Trust, identity: Option<Identity>) -> Result<Option<ClientTls>, FetchError> {
    let usual = ClientOptions { identity, ..ClientOptions::default() };
    let options = match trust {
        Trust::System if usual.identity.is_none() => return Ok(None),
        Trust::System => usual,
        Trust::File(path) => ClientOptions { roots: Roots::empty().file(path), ..usual },
        Trust::Pem(bytes) => ClientOptions { roots: Roots::empty().pem(bytes.clone()), ..usual },
        Trust::Any => ClientOptions { verify: Verify::Nothing, ..usual },
    };
    ClientTls::new(options).map(Some).map_err(FetchError::Tls)
}

/// The options of the resolver: the system's, plus given addresses.
pub(crate) fn names(options: &Options) -> Result<fulmar_names::Options, FetchError> {
    let mut overrides = Overrides::default();
    for text in &options.resolve {
        let wrong = |error| FetchError::Resolve(text.clone(), error);
        overrides.add(&ascii_host(text)).map_err(wrong)?;
    }
    Ok(fulmar_names::Options { overrides, ..Default::default() })
}

/// `HOST:...` with the host in ASCII form, because URLs may contain hosts in any script (RFC 5890).
fn ascii_host(text: &str) -> String {
    match text.split_once(':') {
        Some((host, rest)) if !host.is_ascii() => match url::Host::parse(host) {
            Ok(url::Host::Domain(ascii)) => format!("{ascii}:{rest}"),
            _ => text.to_owned(), // not a name: the error quotes it
        },
        _ => text.to_owned(),
    }
}

/// The options of the client.
pub(crate) fn config(options: &Options) -> Config {
    Config {
        connections_max: options.connections,
        per_host_max: options.per_host,
        per_host_active: Some(options.per_host),
        idle_max: options.connections,
        connect_timeout: Some(options.connect_timeout),
        rate: options.rate.map(|n| RateLimit {
            requests: n,
            per: Duration::from_secs(1),
            burst: 1,
        }),
        retry_after_max: REST_MAX,
        ..Config::default()
    }
}

/// The longest accepted delay.
const REST_MAX: Duration = Duration::from_secs(300);
