//! The interface through which rules see an exchange or a connection.

use std::net::{IpAddr, SocketAddr};

use fulmar_proto::Headers;

use crate::rules::head::{RequestHead, ResponseHead};
use crate::rules::sample::Sample;

/// An exchange or a connection. Missing values are `None`: their expressions have no value, and
/// conditions on them are false. The default methods return no value.
pub trait EvalContext {
    /// The request, as changed by rules.
    fn request(&self) -> Option<&RequestHead> {
        None
    }
    /// The response, as changed by rules.
    fn response(&self) -> Option<&ResponseHead> {
        None
    }
    /// The client's address.
    fn source(&self) -> Option<SocketAddr> {
        None
    }
    /// The destination address of the client's connection.
    fn destination(&self) -> Option<SocketAddr> {
        None
    }
    /// The first bytes from the client received so far, before anything was forwarded: for TCP
    /// content rules.
    fn payload(&self) -> Payload<'_> {
        Payload { bytes: &[], complete: true }
    }
    /// The first bytes from the server received so far, before anything was forwarded.
    fn response_payload(&self) -> Payload<'_> {
        Payload { bytes: &[], complete: true }
    }
    /// The request body, as far as it is buffered.
    fn body(&self) -> Payload<'_> {
        Payload::default()
    }
    /// Hop-by-hop fields of the request, which are not in its head: `Content-Length`, `Upgrade` and
    /// so on, as the client sent them.
    fn request_hop_fields(&self) -> Headers<'_> {
        Headers::EMPTY
    }
    /// The same for the response and the server.
    fn response_hop_fields(&self) -> Headers<'_> {
        Headers::EMPTY
    }
    /// The value of a variable.
    fn variable(&self, variable: &Variable) -> Option<Sample<'_>> {
        let _ = variable;
        None
    }
    /// A fact that only the proxy knows.
    fn fact(&self, fact: &Fact) -> Option<Sample<'_>> {
        let _ = fact;
        None
    }
}

/// The first bytes of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Payload<'a> {
    /// The bytes received so far.
    pub bytes: &'a [u8],
    /// No more bytes will arrive before the rules decide.
    pub complete: bool,
}

/// A variable (HAProxy's configuration manual, §2.8).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Variable {
    /// Its lifetime.
    pub scope: VariableScope,
    /// Its name, without the scope.
    pub name: Box<str>,
}

/// The lifetime of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum VariableScope {
    /// The process.
    Proc,
    /// The client's connection.
    Sess,
    /// The exchange, request and response.
    Txn,
    /// Processing of the request.
    Req,
    /// Processing of the response.
    Res,
}

/// State of the proxy. Names of proxies and servers are as in the configuration; without a name,
/// the current one is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// `be_name`, `fe_name`, `srv_name`: text.
    BackendName,
    /// `fe_name`.
    FrontendName,
    /// `srv_name`.
    ServerName,
    /// `be_conn([name])`: connections, including queued ones.
    BackendConnections(Option<Box<str>>),
    /// `be_sess_rate([name])`: sessions over the last second.
    BackendRate(Option<Box<str>>),
    /// `fe_conn([name])`.
    FrontendConnections(Option<Box<str>>),
    /// `fe_sess_rate([name])`.
    FrontendRate(Option<Box<str>>),
    /// `fe_req_rate([name])`.
    FrontendRequestRate(Option<Box<str>>),
    /// `be_conn_free([name])`: free connection slots of servers; -1: unlimited.
    BackendFree(Option<Box<str>>),
    /// `srv_conn_free([backend/]server)`; -1: unlimited.
    ServerFree(Option<Box<str>>, Box<str>),
    /// `srv_sess_rate([backend/]server)`.
    ServerRate(Option<Box<str>>, Box<str>),
    /// `srv_weight([backend/]server)`: the effective weight.
    ServerWeight(Option<Box<str>>, Box<str>),
    /// `fe_id`, `be_id`, `srv_id`, `so_id`: the number.
    FrontendId,
    /// `be_id`.
    BackendId,
    /// `srv_id`.
    ServerId,
    /// `so_id`: the number of the listener.
    ListenerId,
    /// `so_name`: the name of the listener.
    ListenerName,
    /// `fe_defbe`: the name of the frontend's default backend.
    DefaultBackend,
    /// `fc_src`: of the connection itself, regardless of PROXY headers and rules.
    ConnectionSource,
    /// `fc_dst`: of the connection itself, regardless of PROXY headers and rules.
    ConnectionDestination,
    /// `fc_rcvd_proxy`: a PROXY header was received.
    ReceivedProxy,
    /// `bc_src`: local address of the server connection.
    ServerLocalAddress,
    /// `bc_src_port`: local port of the server connection.
    ServerLocalPort,
    /// `src_is_local`, `dst_is_local`: true if the address is local to this machine.
    IsLocal(IpAddr),
    /// `stopping`: a stop has begun.
    Stopping,
    /// `connslots([name])`: free slots, including the queue.
    ConnectionSlots(Option<Box<str>>),
    /// `nbsrv([name])`: number of usable servers.
    UsableServers(Option<Box<str>>),
    /// `queue([name])`.
    Queue(Option<Box<str>>),
    /// `avg_queue([name])`.
    AverageQueue(Option<Box<str>>),
    /// `srv_is_up([backend/]server)`.
    ServerIsUp(Option<Box<str>>, Box<str>),
    /// `srv_conn([backend/]server)`.
    ServerConnections(Option<Box<str>>, Box<str>),
    /// `srv_queue([backend/]server)`.
    ServerQueue(Option<Box<str>>, Box<str>),
    /// `dst_conn`: connections of the listener.
    ListenerConnections,
    /// `nbthread`.
    Threads,
    /// `thread`: from 0.
    Thread,
    /// `date`: seconds since 1970.
    Date,
    /// `date_us`: the microseconds of the date.
    DateMicros,
    /// `rand`: a random number below this.
    Random(u32),
    /// `uuid`: a new UUID (version 4), as text.
    Uuid,
    /// `hostname`.
    Hostname,
    /// `pid`.
    Process,
    /// `ssl_fc`: true if the client connection uses TLS.
    Tls,
    /// `ssl_fc_sni`, in the client's case.
    TlsServerName,
    /// `ssl_fc_protocol`: `TLSv1.3`.
    TlsProtocol,
    /// `ssl_fc_cipher`.
    TlsCipher,
    /// `ssl_fc_alpn`.
    TlsAlpn,
    /// `ssl_c_used`: true if the client sent a certificate.
    ClientCertificate,
    /// `ssl_c_verify`: 0 if the certificate was verified.
    ClientCertificateVerified,
    /// `ssl_c_der`: the client certificate in DER.
    ClientCertificateDer,
    /// `ssl_fc_is_resumed`.
    TlsResumed,
    /// `ssl_bc`: true if the server connection uses TLS.
    ServerTls,
    /// `bc_dst`: address of the server.
    ServerAddress,
    /// `bc_dst_port`: port of the server.
    ServerPort,
    /// `unique-id`.
    UniqueId,
    /// `capture.req.hdr(n)`.
    CapturedRequest(usize),
    /// `capture.res.hdr(n)`.
    CapturedResponse(usize),
    /// `http_auth(userlist)`: true if the request has valid credentials of a user.
    Authenticated(Box<str>),
    /// `http_auth_group(userlist)`: the comma-separated groups of the authenticated user.
    AuthenticatedGroups(Box<str>),
    /// `http_first_req`.
    FirstRequest,
    /// A log variable.
    Log(LogField),
}

/// Log variables about an exchange (HAProxy's configuration manual, §8.2.6), except those that
/// other facts or the message contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogField {
    /// `%B`: bytes sent to the client.
    BytesRead,
    /// `%U`: bytes received from the client.
    BytesUploaded,
    /// `%CC`: the captured cookie of the request.
    CapturedRequestCookie,
    /// `%CS`: the captured cookie of the response.
    CapturedResponseCookie,
    /// `%ST`: status; -1 without one.
    Status,
    /// `%Ta`: from the first byte of the request to the last byte of the response, in ms.
    TimeActive,
    /// `%Tc`: until the server connection was established, in ms; -1: never.
    TimeConnect,
    /// `%Td`: data transfer, in ms.
    TimeData,
    /// `%Th`: handshakes, in ms.
    TimeHandshake,
    /// `%Ti`: idle time before the request, in ms.
    TimeIdle,
    /// `%Tq`: until the request was complete, in ms.
    TimeQuery,
    /// `%TR`: receiving the request, in ms.
    TimeRequest,
    /// `%Tr`: waiting for the response, in ms.
    TimeResponse,
    /// `%Tt`: total, in ms.
    TimeTotal,
    /// `%Tu`: `%Ta` plus the time before it, in ms.
    TimeUser,
    /// `%Tw`: queues, in ms.
    TimeWait,
    /// `%ac`: current connections of the process.
    ProcessConnections,
    /// `%fc`: current connections of the frontend.
    FrontendConnections,
    /// `%bc`: current connections of the backend.
    BackendConnections,
    /// `%sc`: current connections of the server.
    ServerConnections,
    /// `%rc`: retries; with a leading `+` after a redispatch.
    Retries,
    /// `%bq`: position in the backend's queue.
    BackendQueue,
    /// `%sq`: position in the server's queue.
    ServerQueue,
    /// `%lc`: log counter.
    LogCounter,
    /// `%ts`: termination state, two letters.
    TerminationState,
    /// `%tsc`: termination state with cookie status, four letters.
    TerminationStateCookie,
    /// `%b`: the backend's name.
    Backend,
    /// `%f`: the frontend's name.
    Frontend,
    /// `%ft`: the frontend's name, with `~` for TLS.
    FrontendTransport,
    /// `%s`: the server's name, or `<NOSRV>`, `<STATS>`.
    Server,
    /// `%bi`: local address of the server connection.
    ServerLocalAddress,
    /// `%bp`: local port of the server connection.
    ServerLocalPort,
    /// `%si`: the server's address.
    ServerAddress,
    /// `%sp`: the server's port.
    ServerPort,
    /// `%fi`: destination address of the client connection.
    FrontendAddress,
    /// `%fp`: destination port of the client connection.
    FrontendPort,
    /// `%ci`: the client's address.
    ClientAddress,
    /// `%cp`: the client's port.
    ClientPort,
    /// `%hr`, `%hrl`: the number of request captures of the frontend; each is a
    /// [`Fact::CapturedRequest`].
    RequestCaptures,
    /// `%hs`, `%hsl`: the number of response captures ([`Fact::CapturedResponse`]).
    ResponseCaptures,
    /// `%r` and its parts: the first line of the request as received, before changes by rules: `GET
    /// /a?b HTTP/1.1`.
    RequestLine,
    /// `%rt`: number of earlier requests, or sessions in mode `tcp`, of this process.
    RequestCounter,
    /// `%sslc`: TLS cipher.
    TlsCipher,
    /// `%sslv`: TLS version.
    TlsVersion,
    /// `%tr`: start of the request, in milliseconds since 1970.
    RequestBegan,
    /// `%t`: time of accept, in milliseconds since 1970.
    Accepted,
}
