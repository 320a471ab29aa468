//! What rules are asked about: an exchange or a connection, as the proxy shows it.

use std::net::{IpAddr, SocketAddr};

use fulmar_proto::Headers;

use crate::rules::head::{RequestHead, ResponseHead};
use crate::rules::sample::Sample;

/// An exchange or a connection. Whatever does not exist, or not yet, is `None`: the expression
/// that asks for it then has no value, and a condition on it is false. Without a method of its own,
/// a subject has nothing of what that method is about.
pub trait Subject {
    /// The request, with what rules have changed so far.
    fn request(&self) -> Option<&RequestHead> {
        None
    }
    /// The response, with what rules have changed so far.
    fn response(&self) -> Option<&ResponseHead> {
        None
    }
    /// Where the client connects from.
    fn source(&self) -> Option<SocketAddr> {
        None
    }
    /// What the client connected to.
    fn destination(&self) -> Option<SocketAddr> {
        None
    }
    /// The first bytes of a connection, as far as they have arrived, before anything was
    /// forwarded: what content rules of TCP look at.
    fn payload(&self) -> Payload<'_> {
        Payload { bytes: &[], complete: true }
    }
    /// The first bytes of a server's answer, as far as they have arrived, before anything was
    /// forwarded.
    fn response_payload(&self) -> Payload<'_> {
        Payload { bytes: &[], complete: true }
    }
    /// The body of the request, as far as it was buffered.
    fn body(&self) -> Payload<'_> {
        Payload::default()
    }
    /// Fields of the request that concern the client's connection alone, and so are not in its
    /// head: `Content-Length`, `Upgrade` and their like, as the client sent them.
    fn request_hop_fields(&self) -> Headers<'_> {
        Headers::EMPTY
    }
    /// The same of the response and the server.
    fn response_hop_fields(&self) -> Headers<'_> {
        Headers::EMPTY
    }
    /// The value of a variable.
    fn variable(&self, variable: &Variable) -> Option<Sample<'_>> {
        let _ = variable;
        None
    }
    /// Everything that only the proxy knows.
    fn fact(&self, fact: &Fact) -> Option<Sample<'_>> {
        let _ = fact;
        None
    }
}

/// The first bytes of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Payload<'a> {
    /// As far as they have arrived.
    pub bytes: &'a [u8],
    /// No more will come before the rules decide: what is missing is missing.
    pub complete: bool,
}

/// A variable's name (HAProxy's configuration manual, §2.8).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Variable {
    /// How long it lives.
    pub scope: Scope,
    /// Its name, without the scope.
    pub name: Box<str>,
}

/// How long a variable lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// As long as the process.
    Proc,
    /// As long as the client's connection.
    Sess,
    /// Through request and response of one exchange.
    Txn,
    /// While the request is dealt with.
    Req,
    /// While the response is dealt with.
    Res,
}

/// What only the proxy knows. Names of proxies and servers are as in the configuration; without a
/// name, the one in hand is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fact {
    /// `be_name`, `fe_name`, `srv_name`: text.
    BackendName,
    /// See above.
    FrontendName,
    /// See above.
    ServerName,
    /// `be_conn([name])`: connections, queued ones too.
    BackendConnections(Option<Box<str>>),
    /// `be_sess_rate([name])`: sessions in the last second.
    BackendRate(Option<Box<str>>),
    /// `fe_conn([name])`.
    FrontendConnections(Option<Box<str>>),
    /// `fe_sess_rate([name])`.
    FrontendRate(Option<Box<str>>),
    /// `fe_req_rate([name])`.
    FrontendRequestRate(Option<Box<str>>),
    /// `be_conn_free([name])`: connections that servers would still take, -1 without a limit.
    BackendFree(Option<Box<str>>),
    /// `srv_conn_free([backend/]server)`, -1 without a limit.
    ServerFree(Option<Box<str>>, Box<str>),
    /// `srv_sess_rate([backend/]server)`.
    ServerRate(Option<Box<str>>, Box<str>),
    /// `srv_weight([backend/]server)`: the effective weight.
    ServerWeight(Option<Box<str>>, Box<str>),
    /// `fe_id`, `be_id`, `srv_id`, `so_id`: the number.
    FrontendId,
    /// See above.
    BackendId,
    /// See above.
    ServerId,
    /// See above: of the listening socket.
    ListenerId,
    /// `so_name`: the name of the listening socket.
    ListenerName,
    /// `fe_defbe`: the name of the frontend's default backend.
    DefaultBackend,
    /// `fc_src`, `fc_dst`: of the connection itself, whatever a PROXY header or a rule said.
    ConnectionSource,
    /// See above.
    ConnectionDestination,
    /// `fc_rcvd_proxy`: the connection began with a PROXY header.
    ReceivedProxy,
    /// `bc_src`, `bc_src_port`: our side of the server's connection.
    ServerLocalAddress,
    /// See above.
    ServerLocalPort,
    /// `src_is_local`, `dst_is_local`: whether an address is one of this machine's.
    IsLocal(IpAddr),
    /// `stopping`: the process is about to end.
    Stopping,
    /// `connslots([name])`: free places, queue included.
    ConnectionSlots(Option<Box<str>>),
    /// `nbsrv([name])`: servers that are usable.
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
    /// `dst_conn`: connections of the listening socket.
    ListenerConnections,
    /// `nbproc`, `nbthread`, `proc`, `thread`, `date`, `date_us`, `uuid`, `hostname`, `pid`.
    Threads,
    /// The number of this thread, from 0.
    Thread,
    /// Seconds since 1970.
    Date,
    /// And the microseconds beyond.
    DateMicros,
    /// A random number below this.
    Random(u32),
    /// A new UUID (version 4), as text.
    Uuid,
    /// The name of this machine.
    Hostname,
    /// The process's number.
    Process,
    /// `ssl_fc`: the client's connection is TLS.
    Tls,
    /// `ssl_fc_sni`, lower case as clients write it.
    TlsServerName,
    /// `ssl_fc_protocol`: `TLSv1.3`.
    TlsProtocol,
    /// `ssl_fc_cipher`.
    TlsCipher,
    /// `ssl_fc_alpn`.
    TlsAlpn,
    /// `ssl_c_used`: the client gave a certificate.
    ClientCertificate,
    /// `ssl_c_verify`: 0 if it was believed.
    ClientCertificateVerified,
    /// `ssl_c_der`: it, as binary.
    ClientCertificateDer,
    /// `ssl_fc_is_resumed`, `ssl_fc_has_sni`.
    TlsResumed,
    /// `ssl_bc`: the server's connection is TLS.
    ServerTls,
    /// `bc_dst`, `bc_src`: of the server's connection.
    ServerAddress,
    /// And the port.
    ServerPort,
    /// `unique-id`.
    UniqueId,
    /// `capture.req.hdr(n)`.
    CapturedRequest(usize),
    /// `capture.res.hdr(n)`.
    CapturedResponse(usize),
    /// `http_auth(userlist)`: the request's credentials are those of one of its users.
    Authenticated(Box<str>),
    /// `http_auth_group(userlist)`: the groups of the user, with commas between them, if the
    /// credentials are right.
    AuthenticatedGroups(Box<str>),
    /// `http_first_req`.
    FirstRequest,
    /// `txn.id`... what a line of the log tells: `format`'s aliases.
    Log(LogField),
}

/// What the lines of a log tell about an exchange (HAProxy's configuration manual, §8.2.6): the
/// name of each alias is given. Those that other facts or the message tell are not among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LogField {
    /// `%B`: bytes sent to the client.
    BytesRead,
    /// `%U`: bytes received from the client.
    BytesUploaded,
    /// `%CC`: the cookie that the client sent.
    CapturedRequestCookie,
    /// `%CS`: the cookie that the server sent.
    CapturedResponseCookie,
    /// `%H`, hostname is a fact; `%ID` unique id too. `%ST`: status, -1 without one.
    Status,
    /// `%Ta`: from the first byte of the request to the last of the response, ms.
    TimeActive,
    /// `%Tc`: until the server's connection stood, ms; -1: it never did.
    TimeConnect,
    /// `%Td`: of the data, ms.
    TimeData,
    /// `%Th`: of handshakes, ms.
    TimeHandshake,
    /// `%Ti`: idle before the request, ms.
    TimeIdle,
    /// `%Tq`: until the request was there, ms.
    TimeQuery,
    /// `%TR`: of receiving the request, ms.
    TimeRequest,
    /// `%Tr`: of the server to begin its response, ms.
    TimeResponse,
    /// `%Tt`: of everything, ms.
    TimeTotal,
    /// `%Tu`: as `%Ta`, with what precedes it, ms.
    TimeUser,
    /// `%Tw`: in queues, ms.
    TimeWait,
    /// `%ac`: connections of the process.
    ProcessConnections,
    /// `%fc`: of the frontend.
    FrontendConnections,
    /// `%bc`: of the backend.
    BackendConnections,
    /// `%sc`: of the server.
    ServerConnections,
    /// `%rc`: retries; `+` in front after a redispatch.
    Retries,
    /// `%bq`: position in the backend's queue.
    BackendQueue,
    /// `%sq`: position in the server's queue.
    ServerQueue,
    /// `%lc`: requests of this log counter.
    LogCounter,
    /// `%ts`: two letters: how it ended.
    TerminationState,
    /// `%tsc`: four letters, with what became of cookies.
    TerminationStateCookie,
    /// `%b`: the backend's name.
    Backend,
    /// `%f`: the frontend's name.
    Frontend,
    /// `%ft`: the same, with `~` behind it for TLS.
    FrontendTransport,
    /// `%s`: the server's name, or `<NOSRV>`, `<STATS>`.
    Server,
    /// `%bi`, `%bp`: our address toward the server.
    ServerLocalAddress,
    /// And its port.
    ServerLocalPort,
    /// `%si`: the server's address.
    ServerAddress,
    /// `%sp`: the server's port.
    ServerPort,
    /// `%fi`: the address that the client connected to.
    FrontendAddress,
    /// `%fp`: its port.
    FrontendPort,
    /// `%ci`: the client's address.
    ClientAddress,
    /// `%cp`: the client's port.
    ClientPort,
    /// `%hr`, `%hrl`: how many captures of requests the frontend has; each of them is a
    /// [`Fact::CapturedRequest`].
    RequestCaptures,
    /// `%hs`, `%hsl`: the same of responses ([`Fact::CapturedResponse`]).
    ResponseCaptures,
    /// `%r` and its parts: the first line of the request as it arrived, before rules changed it:
    /// `GET /a?b HTTP/1.1`.
    RequestLine,
    /// `%rt`: requests, or sessions of mode `tcp`, that this process has had before this one.
    RequestCounter,
    /// `%sslc`: the cipher.
    TlsCipher,
    /// `%sslv`: the version.
    TlsVersion,
    /// When the request (`%tr`) began, milliseconds since 1970.
    RequestBegan,
    /// When the connection (`%t`) was accepted, milliseconds since 1970.
    Accepted,
}
