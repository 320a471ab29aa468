//! What `option` lines and their relatives say to both sides.

use std::net::IpAddr;
use std::time::Duration;

/// Options that frontends and backends have alike. What a frontend does not say may be said by the
/// backend that an exchange ends up in: `None` is "not said".
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `option http-keep-alive`, `httpclose`, `http-server-close`. The stronger of both sides
    /// counts: close, then server-close, then keep-alive.
    pub http_mode: Option<HttpMode>,
    /// `option forwardfor`.
    pub forward_for: Option<ForwardFor>,
    /// `option originalto`: the name of its field.
    pub original_to: Option<String>,
    /// `option abortonclose`: a client that leaves while its request waits takes it back.
    pub abort_on_close: bool,
    /// `option redispatch`: after so many failed attempts at one server (a negative number counts
    /// from the last one backwards, 0 is off), another is tried.
    pub redispatch: i32,
    /// `option prefer-last-server`.
    pub prefer_last_server: bool,
    /// `option splice-auto`, `splice-request`, `splice-response`.
    pub splice: Splice,
    /// `option clitcpka`, `tcpka`: probes on clients' connections.
    pub client_probes: bool,
    /// `option srvtcpka`, `tcpka`.
    pub server_probes: bool,
    /// `clitcpka-cnt`, `-idle`, `-intvl`.
    pub client_probe_times: ProbeTimes,
    /// `srvtcpka-cnt`, `-idle`, `-intvl`.
    pub server_probe_times: ProbeTimes,
    /// `option http-no-delay`, `tcp-smart-accept`, `tcp-smart-connect`, `nolinger`,
    /// `http-use-htx` and their like: accepted, and always so or without meaning here.
    pub contstats: bool,
    /// `option accept-invalid-http-request` and its sibling are refused; this is the switch for
    /// `option http-buffer-request`: the request waits until its body, or a buffer full, is there.
    pub buffer_request: bool,
    /// `option http-ignore-probes`: connections that end without a word are not answered.
    pub ignore_probes: bool,
    /// `option independent-streams`.
    pub independent_streams: bool,
    /// `option socket-stats`: listeners are counted, and shown, one by one.
    pub socket_stats: bool,
}

/// TCP's probes on a silent connection (tcp(7)); `None`: as the kernel has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeTimes {
    /// Probes without an answer.
    pub count: Option<u8>,
    /// Silence before the first.
    pub idle: Option<Duration>,
    /// Between two.
    pub interval: Option<Duration>,
}

/// What becomes of connections between exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HttpMode {
    /// Both are kept.
    KeepAlive,
    /// The server's is closed, the client's kept.
    ServerClose,
    /// Both are closed.
    Close,
}

/// `X-Forwarded-For`, or as it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardFor {
    /// The name of the field.
    pub field: String,
    /// Clients from there are not told of: address and bits of its network.
    pub except: Option<(IpAddr, u8)>,
    /// Only if there is none yet.
    pub if_none: bool,
}

/// Where bytes may pass by without being seen; `None`: it is not said, and they may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Splice {
    /// Both ways.
    pub auto: Option<bool>,
    /// From clients to servers; counts more than `auto`.
    pub request: Option<bool>,
    /// From servers to clients; counts more than `auto`.
    pub response: Option<bool>,
}

impl Splice {
    /// Bytes from clients to servers may.
    pub fn allows_request(&self) -> bool {
        self.request.or(self.auto).unwrap_or(true)
    }

    /// Bytes from servers to clients may.
    pub fn allows_response(&self) -> bool {
        self.response.or(self.auto).unwrap_or(true)
    }
}
