//! What all exchanges of a thread share, and what is to be done once it can be.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fulmar_engine::{Exchange as Asked, Links, SocketId, Timeouts, TimeoutsId};
use fulmar_haproxy::{BackendConfig, Config, FrontendConfig, Mode, ServerConfig};
use fulmar_proto::{ClientConnection, ServerConnection};

use crate::asks::asks_line;
use crate::http::exchange::Exchange;
use crate::http::names::Names;
use crate::http::pool::Pool;
use crate::http::seat::Seat;
use crate::http::session::Session;
use crate::live::{Live, LiveBackend, LiveServer};
use crate::queues::Queues;

/// What all exchanges of a thread share.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) pool: Pool,
    pub(super) frontends: Vec<Entrance>,
    /// By backend, then by server.
    pub(super) servers: Vec<Vec<Exit>>,
    /// Of servers that are asked for different names.
    names: Names,
    /// Those who wait for a place.
    pub(super) queues: Queues<Asked>,
    /// How often sessions of servers were to be shut down, in all.
    pub(super) sheds: u64,
    /// Memory for lines of the log.
    pub(super) line: Vec<u8>,
    /// Bytes of responses in memory at which no further request of a client is parsed.
    pub(super) response_buffer_max: u32,
    errands: VecDeque<Errand>,
    #[expect(clippy::vec_box, reason = "a client holds the box: an idle one costs a pointer")]
    spare: Vec<Box<Exchange>>,
}

/// The deadlines of a frontend's clients.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entrance {
    /// Before the first request.
    pub(super) fresh: TimeoutsId,
    /// From the first request on.
    pub(super) kept: TimeoutsId,
    /// The same at the end of the proxy: who has been idle for a while is not about to ask.
    pub(super) parting: TimeoutsId,
    /// The first line of requests is kept, as somebody asks for it.
    pub(super) keeps_line: bool,
}

/// The connections of a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exit {
    pub(super) timeouts: TimeoutsId,
    /// Where its idle connections are.
    pub(super) shelf: u32,
    /// The body of its last response was one that passes unseen: so may that of the next be.
    pub(super) passes: bool,
}

/// Something to be done on a connection that is not at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Errand {
    /// Something was done with the connection of a client, or of a server: its driver has to know.
    Touch(SocketId),
    /// An exchange goes on, at whatever stage it is.
    GoOn(Asked),
    /// Places have become free in a backend, at one server or at any.
    Serve(usize, Option<usize>),
    /// What comes next on the connection of a client, or of a server, may come in pipes, if it is
    /// much.
    Pass(SocketId),
    /// The connection of a server is free.
    Free(SocketId),
    /// The connection of a server is of no more use, or that of a client is not wanted.
    Close(SocketId),
    /// A client is forgotten, and does not hear of it.
    Vanish(SocketId),
    /// The deadline of one exchange on a server's connection.
    Limit(SocketId, Duration),
    /// The deadline of a tunnel, on the connection of a client or of a server.
    Tunnel(SocketId, Duration),
    /// The timer of a client.
    Timer(SocketId, Option<Instant>),
    /// The deadlines of a client.
    Deadlines(SocketId, TimeoutsId),
}

impl Desk {
    pub(super) fn new(
        live: &Live,
        thread: usize,
        clients: &mut Links<ServerConnection, Session>,
        servers: &mut Links<ClientConnection, Seat>,
    ) -> Self {
        let mut pool = Pool::default();
        let frontends = live.frontends.iter();
        let frontends = frontends.map(|it| entrance(&live.config, &it.config, clients)).collect();
        let mut exit = |backend: &LiveBackend, server: &LiveServer| Exit {
            timeouts: servers.add_timeouts(server_timeouts(&backend.config, &server.config)),
            shelf: pool.add(),
            passes: false,
        };
        let exits = |backend: &LiveBackend| -> Vec<_> {
            backend.servers.iter().map(|it| exit(backend, it)).collect()
        };
        let servers = live.backends.iter().map(exits).collect();
        let queues = Queues::new(live, thread, Mode::Http);
        let (errands, spare) = (VecDeque::new(), Vec::new());
        let (names, line) = (Names::default(), Vec::new());
        let buffer = live.config.global.tune.response_buffer_max;
        Self {
            pool,
            frontends,
            servers,
            names,
            queues,
            sheds: live.sheds(),
            line,
            response_buffer_max: buffer.unwrap_or(RESPONSE_BUFFER_MAX),
            errands,
            spare,
        }
    }

    /// Where idle connections are that ask a server for this name; `None`: there are connections for
    /// too many others.
    pub(super) fn shelf(
        &mut self,
        backend: usize,
        server: usize,
        name: Option<&str>,
    ) -> Option<u32> {
        let Some(name) = name else { return Some(self.servers[backend][server].shelf) };
        let Self { names, pool, .. } = self;
        names.shelf(pool, (backend, server, name.into()))
    }

    /// An exchange begins.
    pub(super) fn open(&mut self) -> Box<Exchange> {
        self.spare.pop().unwrap_or_default()
    }

    /// An exchange is over.
    pub(super) fn give_back(&mut self, mut exchange: Box<Exchange>) {
        if self.spare.len() < SPARE_LEN_MAX && !exchange.is_large() {
            exchange.clear();
            self.spare.push(exchange);
        }
    }

    /// Something is to be done as soon as it can be; not twice in a row.
    pub(super) fn ask(&mut self, errand: Errand) {
        if self.errands.back() != Some(&errand) {
            self.errands.push_back(errand);
        }
    }

    /// The next thing to be done.
    pub(super) fn next(&mut self) -> Option<Errand> {
        self.errands.pop_front()
    }
}

fn entrance(
    config: &Config,
    frontend: &FrontendConfig,
    clients: &mut Links<ServerConnection, Session>,
) -> Entrance {
    let kept = client_timeouts(frontend);
    let times = &frontend.timeouts;
    let fresh = Timeouts { idle: times.http_request.or(times.client), ..kept };
    let idle = kept.idle.map_or(PARTING, |idle| idle.min(PARTING));
    let parting = Timeouts { idle: Some(idle), ..kept };
    Entrance {
        fresh: clients.add_timeouts(fresh),
        kept: clients.add_timeouts(kept),
        parting: clients.add_timeouts(parting),
        keeps_line: asks_line(config, frontend),
    }
}

/// The deadlines of a frontend's clients, from their first request on.
pub(super) fn client_timeouts(frontend: &FrontendConfig) -> Timeouts {
    let times = &frontend.timeouts;
    let head = times.http_request.or(times.client);
    Timeouts {
        handshake: times.client,
        idle: times.http_keep_alive.or(head),
        head,
        body: times.client,
        send: times.client,
        linger: Some(times.client_fin.or(times.client).map_or(LINGER, |it| it.min(LINGER))),
        tunnel: times.client,
        hears_only: frontend.options.independent_streams,
        ..Timeouts::default()
    }
}

/// The deadlines of a server's connections.
pub(super) fn server_timeouts(backend: &BackendConfig, server: &ServerConfig) -> Timeouts {
    let times = &backend.timeouts;
    Timeouts {
        connect: times.connect,
        handshake: times.connect,
        idle: Some(server.idle_timeout),
        head: times.server,
        body: times.server,
        answer: times.server,
        send: times.server,
        linger: Some(LINGER),
        tunnel: times.tunnel.or(times.server),
        hears_only: backend.options.independent_streams,
        ..Timeouts::default()
    }
}

/// Who has had an answer a moment ago may have asked again already: closing under a request loses
/// it. Whoever asks within this time is answered, and told that it was the last time.
const PARTING: Duration = Duration::from_secs(1);
/// As large as a buffer of HAProxy is by default (`tune.bufsize`).
const RESPONSE_BUFFER_MAX: u32 = 16 * 1024;
/// More than this many exchanges are rarely in hand at the end of a turn.
const SPARE_LEN_MAX: usize = 256;
/// From our last word to the peer's end.
const LINGER: Duration = Duration::from_secs(2);
