//! What all exchanges of a thread share, and what is to be done once it can be.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fulmar_balance::Queue;
use fulmar_engine::{Exchange as Asked, Links, SocketId, Timeouts, TimeoutsId};
use fulmar_haproxy::{Backend, Frontend, Server};
use fulmar_proto::{ClientConnection, ServerConnection};

use crate::http::exchange::Exchange;
use crate::http::pool::Pool;
use crate::http::seat::Seat;
use crate::http::session::Session;
use crate::live::{Live, LiveBackend, LiveServer};

/// What all exchanges of a thread share.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) pool: Pool,
    pub(super) frontends: Vec<Entrance>,
    /// By backend, then by server.
    pub(super) servers: Vec<Vec<Exit>>,
    /// Of each backend, those who wait for a place.
    pub(super) queues: Vec<Queue<Asked>>,
    /// Memory for lines of the log.
    pub(super) line: Vec<u8>,
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
}

/// The connections of a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exit {
    pub(super) timeouts: TimeoutsId,
    /// Where its idle connections are.
    pub(super) shelf: u32,
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
    /// The connection of a server is free.
    Free(SocketId),
    /// The connection of a server is of no more use.
    Close(SocketId),
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
        let frontends = live.frontends.iter().map(|it| entrance(&it.config, clients)).collect();
        let mut exit = |backend: &LiveBackend, server: &LiveServer| Exit {
            timeouts: servers.add_timeouts(server_timeouts(&backend.config, &server.config)),
            shelf: pool.add(),
        };
        let exits = |backend: &LiveBackend| -> Vec<_> {
            backend.servers.iter().map(|it| exit(backend, it)).collect()
        };
        let servers = live.backends.iter().map(exits).collect();
        let queues = live.backends.iter().map(|it| Queue::new(thread, &it.group)).collect();
        let (errands, spare) = (VecDeque::new(), Vec::new());
        Self { pool, frontends, servers, queues, line: Vec::new(), errands, spare }
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

fn entrance(frontend: &Frontend, clients: &mut Links<ServerConnection, Session>) -> Entrance {
    let times = &frontend.timeouts;
    let head = times.http_request.or(times.client);
    let kept = Timeouts {
        handshake: times.client,
        idle: times.http_keep_alive.or(head),
        head,
        body: times.client,
        send: times.client,
        linger: Some(times.client_fin.or(times.client).map_or(LINGER, |it| it.min(LINGER))),
        tunnel: times.client,
        ..Timeouts::default()
    };
    let fresh = Timeouts { idle: head, ..kept };
    Entrance { fresh: clients.add_timeouts(fresh), kept: clients.add_timeouts(kept) }
}

fn server_timeouts(backend: &Backend, server: &Server) -> Timeouts {
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
        ..Timeouts::default()
    }
}

/// More than this many exchanges are rarely in hand at the end of a turn.
const SPARE_LEN_MAX: usize = 1024;
/// From our last word to the peer's end.
const LINGER: Duration = Duration::from_secs(2);
