//! The columns of a row, in HAProxy's order (its management guide, §9.1).

use super::kind::{Kind, Tags};

macro_rules! columns {
    ($($name:ident $tags:literal $text:literal),* $(,)?) => {
        /// A column. Each is named as HAProxy names it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "each has a description, as text")]
        #[expect(non_camel_case_types, reason = "HAProxy's names")]
        pub enum Column { $($name),* }

        impl Column {
            /// Every one of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// As it is called.
            pub fn name(self) -> &'static str {
                let name = match self { $(Self::$name => stringify!($name)),* };
                name.trim_start_matches("r#")
            }

            /// What it tells.
            pub fn text(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            /// Where it comes from, what it is, and for whom it holds.
            pub fn tags(self, kind: Kind) -> Tags {
                let tags = match self { $(Self::$name => $tags),* };
                match (self, kind) {
                    (Self::act | Self::bck, Kind::Server) => Tags(*b"SGP"),
                    (Self::rate | Self::rate_max, Kind::Backend) => Tags(*b"MGP"),
                    _ => Tags(*tags),
                }
            }
        }
    };
}

columns!(
    pxname b"KNS" "Name of the proxy",
    svname b"KNS" "FRONTEND, BACKEND, or the name of the server or listener",
    qcur b"MGP" "Requests that wait in a queue now",
    qmax b"MMP" "The most that have waited at a time",
    scur b"MGP" "Sessions now",
    smax b"MMP" "The most sessions that there have been at a time",
    slim b"CLP" "Sessions that are allowed at a time",
    stot b"MCP" "Sessions since the start",
    bin b"MCP" "Bytes received from clients",
    bout b"MCP" "Bytes sent to clients",
    dreq b"MCP" "Requests that rules have denied",
    dresp b"MCP" "Responses that rules have denied",
    ereq b"MCP" "Requests that could not be understood or did not become complete",
    econ b"MCP" "Attempts to connect to a server that failed for good",
    eresp b"MCP" "Responses that failed",
    wretr b"MCP" "Attempts after the first one",
    wredis b"MCP" "Attempts at another server than the first one",
    status b"SGP" "The state",
    weight b"MaP" "Weight now; of a backend, that of its usable servers",
    act b"MGP" "Active servers that are usable",
    bck b"MGP" "Backup servers that are usable",
    chkfail b"MCP" "Checks that failed while the server was up",
    chkdown b"MCP" "Times that it went from up to down",
    lastchg b"MAP" "Seconds since it last went up or down",
    downtime b"MCP" "Seconds that it has been down in all",
    qlimit b"CGS" "Requests that may wait for this server",
    pid b"KGP" "Number of the process among its like: always 1",
    iid b"KGS" "Number of the proxy",
    sid b"KGS" "Number of the server or listener in its proxy",
    throttle b"MaP" "Percentage of its weight that a server has while it starts slowly",
    lbtot b"MCP" "Times that balancing has chosen it",
    tracked b"CNS" "The server whose state this one follows",
    r#type b"CGS" "0: frontend, 1: backend, 2: server, 3: listener",
    rate b"MRP" "Sessions in the last second",
    rate_lim b"CLP" "Sessions that are allowed in a second",
    rate_max b"MMP" "The most sessions that there have been in a second",
    check_status b"MOP" "How the last check ended",
    check_code b"MOP" "The status that the last check was answered with",
    check_duration b"MDP" "Milliseconds that the last check took",
    hrsp_1xx b"MCP" "Responses with status 100 to 199",
    hrsp_2xx b"MCP" "Responses with status 200 to 299",
    hrsp_3xx b"MCP" "Responses with status 300 to 399",
    hrsp_4xx b"MCP" "Responses with status 400 to 499",
    hrsp_5xx b"MCP" "Responses with status 500 to 599",
    hrsp_other b"MCP" "Responses with other statuses",
    hanafail b"MCP" "Failures that observation has found",
    req_rate b"MRP" "Requests in the last second",
    req_rate_max b"MMP" "The most requests that there have been in a second",
    req_tot b"MCP" "Requests since the start",
    cli_abrt b"MCP" "Transfers that the client gave up",
    srv_abrt b"MCP" "Transfers that the server gave up",
    comp_in b"MCP" "Bytes given to compression",
    comp_out b"MCP" "Bytes that compression made of them",
    comp_byp b"MCP" "Bytes that passed compression by",
    comp_rsp b"MCP" "Responses that were compressed",
    lastsess b"MAP" "Seconds since the last session began; -1: there was none",
    last_chk b"MOP" "What the last check heard",
    last_agt b"MOP" "What the last agent check heard",
    qtime b"MaP" "Mean time in the queue over the last 1,024 requests, in milliseconds",
    ctime b"MaP" "Mean time to connect over the last 1,024 requests, in milliseconds",
    rtime b"MaP" "Mean time to a response over the last 1,024 requests, in milliseconds",
    ttime b"MaP" "Mean time of everything over the last 1,024 requests, in milliseconds",
    agent_status b"MOP" "How the last agent check ended",
    agent_code b"MOP" "The status of the last agent check",
    agent_duration b"MDP" "Milliseconds that the last agent check took",
    check_desc b"MOP" "The state of the last check, in words",
    agent_desc b"MOP" "The state of the last agent check, in words",
    check_rise b"CGS" "Checks that have to pass until it is up",
    check_fall b"CGS" "Checks that have to fail until it is down",
    check_health b"CGS" "Where it stands between: 0 to rise + fall - 1",
    agent_rise b"CGS" "Agent checks that have to pass until it is up",
    agent_fall b"CGS" "Agent checks that have to fail until it is down",
    agent_health b"CGS" "Where it stands between",
    addr b"CGS" "Its address",
    cookie b"CNS" "The value of the cookie that leads to it, or the name of the cookie",
    mode b"CGS" "tcp or http",
    algo b"CGS" "How servers are chosen",
    conn_rate b"MRP" "Connections in the last second",
    conn_rate_max b"MMP" "The most connections that there have been in a second",
    conn_tot b"MCP" "Connections since the start",
    intercepted b"MCP" "Requests that the proxy answered itself",
    dcon b"MCP" "Connections that tcp-request connection has denied",
    dses b"MCP" "Sessions that tcp-request session has denied",
    wrew b"MCP" "Changes of fields that could not be made",
    connect b"MCP" "Connections to a server that were tried",
    reuse b"MCP" "Requests over a connection that was there already",
    cache_lookups b"MCP" "Requests that a cache was asked for",
    cache_hits b"MCP" "Of these, those that it could answer",
    srv_icur b"MGP" "Idle connections to the server now",
    src_ilim b"CLP" "Idle connections that are allowed",
    qtime_max b"MMP" "The longest time in the queue, in milliseconds",
    ctime_max b"MMP" "The longest time to connect, in milliseconds",
    rtime_max b"MMP" "The longest time to a response, in milliseconds",
    ttime_max b"MMP" "The longest time of everything, in milliseconds",
    eint b"MCP" "Errors of the proxy itself",
    idle_conn_cur b"MGP" "Idle connections that have not been used twice",
    safe_conn_cur b"MGP" "Idle connections that have",
    used_conn_cur b"MGP" "Connections to the server in use",
    need_conn_est b"MGP" "Connections to the server that are likely to be needed",
    uweight b"MaP" "Weight without slow start; of a backend, that of its usable servers",
    agg_server_status b"MGP" "Servers of a backend, by state",
    agg_server_check_status b"MGP" "The same, by its name of old",
    agg_check_status b"MGP" "Servers of a backend, by how their last check ended",
    ssl_sess b"MCP" "Handshakes of TLS that succeeded",
    ssl_reused_sess b"MCP" "Of these, those that resumed a session",
    ssl_failed_handshake b"MCP" "Handshakes of TLS that failed",
    h2_headers_rcvd b"MCP" "Frames of HTTP/2 with fields received",
    h2_data_rcvd b"MCP" "Frames of HTTP/2 with data received",
    h2_settings_rcvd b"MCP" "Frames of HTTP/2 with settings received",
    h2_rst_stream_rcvd b"MCP" "Resets of streams of HTTP/2 received",
    h2_goaway_rcvd b"MCP" "GOAWAY frames of HTTP/2 received",
    h2_detected_conn_protocol_errors b"MCP" "Connections of HTTP/2 that broke the protocol",
    h2_detected_strm_protocol_errors b"MCP" "Streams of HTTP/2 that broke the protocol",
    h2_rst_stream_resp b"MCP" "Resets of streams of HTTP/2 sent",
    h2_goaway_resp b"MCP" "GOAWAY frames of HTTP/2 sent",
    h2_open_connections b"MGP" "Connections of HTTP/2 now",
    h2_backend_open_streams b"MGP" "Streams of HTTP/2 now",
    h2_total_connections b"MCP" "Connections of HTTP/2 since the start",
    h2_backend_total_streams b"MCP" "Streams of HTTP/2 since the start",
    h1_open_connections b"MGP" "Connections of HTTP/1 now",
    h1_open_streams b"MGP" "Exchanges of HTTP/1 now",
    h1_total_connections b"MCP" "Connections of HTTP/1 since the start",
    h1_total_streams b"MCP" "Exchanges of HTTP/1 since the start",
    h1_bytes_in b"MCP" "Bytes received by HTTP/1",
    h1_bytes_out b"MCP" "Bytes sent by HTTP/1",
    h1_spliced_bytes_in b"MCP" "Bytes received by HTTP/1 that passed through the kernel alone",
    h1_spliced_bytes_out b"MCP" "Bytes sent by HTTP/1 that passed through the kernel alone",
);

impl Column {
    /// How many there are.
    pub const LEN: usize = Self::ALL.len();
    /// After this one, lines of CSV have a column `-`: what follows belongs to TLS and HTTP.
    pub const LAST_GENERAL: Self = Self::agg_check_status;
}
