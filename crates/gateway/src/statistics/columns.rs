//! The columns of a row, in HAProxy's order (its management guide, §9.1).

use super::kind::{RowKind, Tags};

macro_rules! columns {
    ($($name:ident $tags:literal $text:literal),* $(,)?) => {
        /// A column, with HAProxy's name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "`text` describes each column")]
        #[expect(non_camel_case_types, reason = "HAProxy's names")]
        pub enum Column { $($name),* }

        impl Column {
            /// All columns.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The name.
            pub fn name(self) -> &'static str {
                let name = match self { $(Self::$name => stringify!($name)),* };
                name.trim_start_matches("r#")
            }

            /// The description.
            pub fn text(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            /// Origin, nature and scope of the value.
            pub fn tags(self, kind: RowKind) -> Tags {
                let tags = match self { $(Self::$name => $tags),* };
                match (self, kind) {
                    (Self::act | Self::bck, RowKind::Server) => Tags(*b"SGP"),
                    (Self::rate | Self::rate_max, RowKind::Backend) => Tags(*b"MGP"),
                    _ => Tags(*tags),
                }
            }
        }
    };
}

columns!(
    pxname b"KNS" "Proxy name",
    svname b"KNS" "Server name, FRONTEND, BACKEND, or listener name",
    qcur b"MGP" "Number of current queued connections",
    qmax b"MMP" "Highest value of queued connections encountered since process started",
    scur b"MGP" "Number of current sessions",
    smax b"MMP" "Highest value of current sessions encountered since process started",
    slim b"CLP" "Limit on the number of concurrent sessions (maxconn)",
    stot b"MCP" "Total number of sessions since process started",
    bin b"MCP" "Total number of request bytes since process started",
    bout b"MCP" "Total number of response bytes since process started",
    dreq b"MCP" "Total number of denied requests since process started",
    dresp b"MCP" "Total number of denied responses since process started",
    ereq b"MCP" "Total number of invalid requests since process started",
    econ b"MCP" "Total number of failed connections to server since process started",
    eresp b"MCP" "Total number of invalid responses since process started",
    wretr b"MCP" "Total number of server connection retries since process started",
    wredis b"MCP" "Total number of server redispatches due to connection failures",
    status b"SGP" "Frontend: OPEN/FULL/STOP; backend: UP/DOWN; server: state",
    weight b"MaP" "Server's effective weight, or sum of usable servers' effective weights",
    act b"MGP" "Number of active UP servers with a non-zero weight",
    bck b"MGP" "Number of backup UP servers with a non-zero weight",
    chkfail b"MCP" "Total number of failed health checks while the server was up",
    chkdown b"MCP" "Total number of UP to DOWN server transitions",
    lastchg b"MAP" "How long ago the last server state changed, in seconds",
    downtime b"MCP" "Total time spent in DOWN state, in seconds",
    qlimit b"CGS" "Limit on the number of connections in queue (maxqueue)",
    pid b"KGP" "Relative process number (always 1)",
    iid b"KGS" "Frontend or backend numeric identifier",
    sid b"KGS" "Server or listener numeric identifier",
    throttle b"MaP" "Percentage of the weight used during slowstart (0 to 100)",
    lbtot b"MCP" "Total number of requests routed by load balancing",
    tracked b"CNS" "Name of the other server this server tracks for its state",
    r#type b"CGS" "0: frontend, 1: backend, 2: server, 3: listener",
    rate b"MRP" "Number of sessions processed over the last second",
    rate_lim b"CLP" "Limit on the number of sessions accepted in a second",
    rate_max b"MMP" "Highest value of sessions per second observed since process started",
    check_status b"MOP" "Status report of the latest health check",
    check_code b"MOP" "Status code reported by the latest health check",
    check_duration b"MDP" "Duration of the latest health check, in milliseconds",
    hrsp_1xx b"MCP" "Total number of HTTP responses with status 100-199",
    hrsp_2xx b"MCP" "Total number of HTTP responses with status 200-299",
    hrsp_3xx b"MCP" "Total number of HTTP responses with status 300-399",
    hrsp_4xx b"MCP" "Total number of HTTP responses with status 400-499",
    hrsp_5xx b"MCP" "Total number of HTTP responses with status 500-599",
    hrsp_other b"MCP" "Total number of HTTP responses with other status",
    hanafail b"MCP" "Total number of failures detected by 'observe'",
    req_rate b"MRP" "Number of HTTP requests processed over the last second",
    req_rate_max b"MMP" "Highest value of HTTP requests per second observed since process started",
    req_tot b"MCP" "Total number of HTTP requests since process started",
    cli_abrt b"MCP" "Total number of requests or connections aborted by the client",
    srv_abrt b"MCP" "Total number of requests or connections aborted by the server",
    comp_in b"MCP" "Total number of bytes submitted to the HTTP compressor",
    comp_out b"MCP" "Total number of bytes emitted by the HTTP compressor",
    comp_byp b"MCP" "Total number of bytes that bypassed HTTP compression",
    comp_rsp b"MCP" "Total number of HTTP responses that were compressed",
    lastsess b"MAP" "How long ago the last session began, in seconds (-1: never)",
    last_chk b"MOP" "Short description of the latest health check report",
    last_agt b"MOP" "Short description of the latest agent check report",
    qtime b"MaP" "Time spent in the queue, in milliseconds, averaged over the last 1024 requests",
    ctime b"MaP" "Time spent connecting, in milliseconds, averaged over the last 1024 requests",
    rtime b"MaP" "Server response time, in milliseconds, averaged over the last 1024 requests",
    ttime b"MaP" "Total time, in milliseconds, averaged over the last 1024 requests",
    agent_status b"MOP" "Status report of the latest agent check",
    agent_code b"MOP" "Status code reported by the latest agent check",
    agent_duration b"MDP" "Duration of the latest agent check, in milliseconds",
    check_desc b"MOP" "Textual description of the latest health check report",
    agent_desc b"MOP" "Textual description of the latest agent check report",
    check_rise b"CGS" "Number of successful health checks before declaring a server UP (rise)",
    check_fall b"CGS" "Number of failed health checks before declaring a server DOWN (fall)",
    check_health b"CGS" "Current health check level: 0 to rise + fall - 1",
    agent_rise b"CGS" "Number of successful agent checks before declaring a server UP",
    agent_fall b"CGS" "Number of failed agent checks before declaring a server DOWN",
    agent_health b"CGS" "Current agent check level: 0 to rise + fall - 1",
    addr b"CGS" "Server's address:port",
    cookie b"CNS" "Server's cookie value, or backend's cookie name",
    mode b"CGS" "Mode of the proxy (tcp or http)",
    algo b"CGS" "Backend's load balancing algorithm",
    conn_rate b"MRP" "Number of new connections accepted over the last second",
    conn_rate_max b"MMP" "Highest value of connections per second observed since process started",
    conn_tot b"MCP" "Total number of new connections accepted since process started",
    intercepted b"MCP" "Total number of HTTP requests answered by the proxy (redirects, services)",
    dcon b"MCP" "Total number of connections denied by tcp-request connection rules",
    dses b"MCP" "Total number of sessions denied by tcp-request session rules",
    wrew b"MCP" "Total number of failed HTTP header rewrites",
    connect b"MCP" "Total number of outgoing connection attempts",
    reuse b"MCP" "Total number of reused connections",
    cache_lookups b"MCP" "Total number of HTTP requests looked up in the cache",
    cache_hits b"MCP" "Total number of HTTP requests found in the cache",
    srv_icur b"MGP" "Number of idle connections available for reuse",
    src_ilim b"CLP" "Limit on the number of idle connections (pool-max-conn)",
    qtime_max b"MMP" "Maximum observed time spent in the queue, in milliseconds",
    ctime_max b"MMP" "Maximum observed time spent connecting, in milliseconds",
    rtime_max b"MMP" "Maximum observed server response time, in milliseconds",
    ttime_max b"MMP" "Maximum observed total time, in milliseconds",
    eint b"MCP" "Total number of internal errors since process started",
    idle_conn_cur b"MGP" "Number of unsafe idle connections (used by one request only)",
    safe_conn_cur b"MGP" "Number of safe idle connections",
    used_conn_cur b"MGP" "Number of connections in use",
    need_conn_est b"MGP" "Estimated needed number of connections",
    uweight b"MaP" "Server's user weight, or sum of usable servers' user weights",
    agg_server_status b"MGP" "Backend's number of servers by state",
    agg_server_check_status b"MGP" "Same as agg_server_status (deprecated name)",
    agg_check_status b"MGP" "Backend's number of servers by result of the latest check",
    ssl_sess b"MCP" "Total number of TLS sessions established",
    ssl_reused_sess b"MCP" "Total number of TLS sessions reused",
    ssl_failed_handshake b"MCP" "Total number of failed TLS handshakes",
    h2_headers_rcvd b"MCP" "Total number of received HTTP/2 HEADERS frames",
    h2_data_rcvd b"MCP" "Total number of received HTTP/2 DATA frames",
    h2_settings_rcvd b"MCP" "Total number of received HTTP/2 SETTINGS frames",
    h2_rst_stream_rcvd b"MCP" "Total number of received HTTP/2 RST_STREAM frames",
    h2_goaway_rcvd b"MCP" "Total number of received HTTP/2 GOAWAY frames",
    h2_detected_conn_protocol_errors b"MCP" "Total number of HTTP/2 connection protocol errors",
    h2_detected_strm_protocol_errors b"MCP" "Total number of HTTP/2 stream protocol errors",
    h2_rst_stream_resp b"MCP" "Total number of HTTP/2 RST_STREAM frames sent",
    h2_goaway_resp b"MCP" "Total number of HTTP/2 GOAWAY frames sent",
    h2_open_connections b"MGP" "Number of open HTTP/2 connections",
    h2_backend_open_streams b"MGP" "Number of open HTTP/2 streams",
    h2_total_connections b"MCP" "Total number of HTTP/2 connections",
    h2_backend_total_streams b"MCP" "Total number of HTTP/2 streams",
    h1_open_connections b"MGP" "Number of open HTTP/1 connections",
    h1_open_streams b"MGP" "Number of open HTTP/1 streams",
    h1_total_connections b"MCP" "Total number of HTTP/1 connections",
    h1_total_streams b"MCP" "Total number of HTTP/1 streams",
    h1_bytes_in b"MCP" "Total number of bytes received by HTTP/1",
    h1_bytes_out b"MCP" "Total number of bytes sent by HTTP/1",
    h1_spliced_bytes_in b"MCP" "Total number of bytes received by HTTP/1 with splice()",
    h1_spliced_bytes_out b"MCP" "Total number of bytes sent by HTTP/1 with splice()",
);

impl Column {
    /// The number of columns.
    pub const LEN: usize = Self::ALL.len();
    /// After this column, lines of CSV have a column `-`: the columns behind it concern TLS and
    /// HTTP.
    pub const LAST_GENERAL: Self = Self::agg_check_status;
}
