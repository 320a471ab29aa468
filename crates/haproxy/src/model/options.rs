//! `option` lines of both frontends and backends.

use std::net::IpAddr;
use std::time::Duration;

/// Options of frontends and backends. `None` is unset: an option that the frontend does not set may
/// be set by the backend of the exchange.
#[derive(Clone, Debug, Default)]
pub struct ProxyOptions {
    /// `option http-keep-alive`, `httpclose`, `http-server-close`. The stricter of both sides
    /// applies: close, then server-close, then keep-alive.
    pub http_mode: Option<HttpMode>,
    /// `option forwardfor`.
    pub forward_for: Option<ForwardFor>,
    /// `option originalto`: the field name.
    pub original_to: Option<String>,
    /// `option abortonclose`: a queued request is dropped when its client closes.
    pub abort_on_close: bool,
    /// `option redispatch`: the number of failed attempts after which another server is tried. A
    /// negative number counts back from the last attempt; 0 disables it.
    pub redispatch: i32,
    /// `option prefer-last-server`.
    pub prefer_last_server: bool,
    /// `option splice-auto`, `splice-request`, `splice-response`.
    pub splice: Splice,
    /// `option clitcpka`, `tcpka`: TCP keep-alive on client connections.
    pub client_probes: bool,
    /// `option srvtcpka`, `tcpka`: TCP keep-alive on server connections.
    pub server_probes: bool,
    /// `clitcpka-cnt`, `-idle`, `-intvl`.
    pub client_probe_times: ProbeTimes,
    /// `srvtcpka-cnt`, `-idle`, `-intvl`.
    pub server_probe_times: ProbeTimes,
    /// `option contstats`. `option http-no-delay`, `tcp-smart-accept`, `tcp-smart-connect`,
    /// `nolinger`, `http-use-htx` and so on are accepted: always on, or without effect here.
    pub contstats: bool,
    /// `option http-buffer-request`: the request waits until its body is complete or the buffer is
    /// full. `option accept-invalid-http-request` and `-response` are rejected.
    pub buffer_request: bool,
    /// `option http-ignore-probes`: connections closed without data get no response.
    pub ignore_probes: bool,
    /// `option independent-streams`.
    pub independent_streams: bool,
    /// `option socket-stats`: statistics per listener.
    pub socket_stats: bool,
}

/// TCP keep-alive settings (tcp(7)); `None`: the kernel's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeTimes {
    /// Number of unacknowledged probes.
    pub count: Option<u8>,
    /// Idle time before the first probe.
    pub idle: Option<Duration>,
    /// Time between probes.
    pub interval: Option<Duration>,
}

/// Connection handling between exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HttpMode {
    /// Both connections are kept.
    KeepAlive,
    /// The server connection is closed, the client connection kept.
    ServerClose,
    /// Both connections are closed.
    Close,
}

/// `option forwardfor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardFor {
    /// The name of the field.
    pub field: String,
    /// No field for clients in this network: address and prefix length.
    pub except: Option<(IpAddr, u8)>,
    /// Only if the request has no such field.
    pub if_none: bool,
}

/// Directions in which splicing is allowed; `None`: unset, allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Splice {
    /// Both directions.
    pub auto: Option<bool>,
    /// From clients to servers; overrides `auto`.
    pub request: Option<bool>,
    /// From servers to clients; overrides `auto`.
    pub response: Option<bool>,
}

impl Splice {
    /// True if splicing from clients to servers is allowed.
    pub fn allows_request(&self) -> bool {
        self.request.or(self.auto).unwrap_or(true)
    }

    /// True if splicing from servers to clients is allowed.
    pub fn allows_response(&self) -> bool {
        self.response.or(self.auto).unwrap_or(true)
    }
}
