//! Executes deferred actions.

use std::time::{Duration, Instant};

use fulmar_engine::{CloseKind, SocketId, Timeouts};
use fulmar_proto::{Connection, SpliceTarget};

use crate::counters::Counter;
use crate::http::Http;
use crate::http::desk::{self, Errand};
use crate::http::replies::Replies;
use crate::http::requests::Requests;
use crate::passing::PASSED_FROM;
use crate::shared::Shared;

impl Http {
    /// Executes the deferred actions.
    pub(super) fn settle(&mut self, now: Instant, shared: &mut Shared) {
        while let Some(errand) = self.desk.next() {
            self.run(now, shared, errand);
        }
    }

    fn run(&mut self, now: Instant, shared: &mut Shared, errand: Errand) {
        let Self { clients, servers, desk, .. } = self;
        match errand {
            Errand::Touch(socket) if clients.owns(socket) => {
                clients.touch(now, socket, &mut Requests { servers, desk, shared });
            }
            Errand::Touch(socket) => {
                servers.touch(now, socket, &mut Replies { clients, desk, shared });
            }
            Errand::Pass(socket) if clients.owns(socket) => {
                if clients.splice_len(socket, SpliceTarget::Pipe) >= PASSED_FROM {
                    clients.splice(socket, SpliceTarget::Pipe);
                }
            }
            Errand::Pass(socket) => {
                if servers.splice_len(socket, SpliceTarget::Pipe) >= PASSED_FROM {
                    servers.splice(socket, SpliceTarget::Pipe);
                }
            }
            Errand::GoOn(asked) => {
                let mut requests = Requests { servers, desk, shared };
                if let Some(client) = clients.get_mut(asked.socket) {
                    requests.go_on(now, asked, client);
                    clients.touch(now, asked.socket, &mut requests);
                }
            }
            Errand::Serve(backend, server) => {
                let mut requests = Requests { servers, desk, shared };
                while let Some((asked, server)) = requests.next(backend, server) {
                    let client = clients.get_mut(asked.socket);
                    if !client.is_some_and(|it| requests.admit(now, asked, it, server)) {
                        requests.shared.live.backends[backend].group.leave(server);
                    }
                    clients.touch(now, asked.socket, &mut requests);
                }
            }
            Errand::Free(socket) => self.free(now, shared, socket),
            Errand::Close(socket) if clients.owns(socket) => {
                clients.cut(now, socket, &mut Requests { servers, desk, shared });
            }
            Errand::Close(socket) => {
                servers.cut(now, socket, &mut Replies { clients, desk, shared });
            }
            Errand::Vanish(socket) => {
                clients.cut_as(
                    now,
                    socket,
                    CloseKind::Silent,
                    &mut Requests { servers, desk, shared },
                );
            }
            Errand::Limit(socket, time) => self.limit(shared, socket, time),
            Errand::Tunnel(socket, time) => self.limit_tunnel(shared, socket, time),
            Errand::Timer(socket, deadline) => clients.set_timer(socket, deadline),
            Errand::Deadlines(socket, timeouts) => clients.set_timeouts(socket, timeouts),
        }
    }

    /// Sets the server's timeout for this exchange.
    fn limit(&mut self, shared: &Shared, socket: SocketId, time: Duration) {
        let Some((_, seat)) = self.servers.get(socket) else { return };
        let (backend, server) = seat.place();
        let live = &shared.live.backends[backend];
        let usual = desk::server_timeouts(&live.config, &live.servers[server].config);
        let limit = Some(time);
        let own = Timeouts { response: limit, body: limit, send: limit, ..usual };
        self.servers.set_own_timeouts(socket, own);
    }

    /// Sets the timeout of a tunnel, for a client or a server.
    fn limit_tunnel(&mut self, shared: &Shared, socket: SocketId, time: Duration) {
        let tunnel = Some(time);
        let Self { clients, servers, .. } = self;
        if clients.owns(socket) {
            let Some((_, session)) = clients.get(socket) else { return };
            let frontend = &shared.live.frontends[session.bind().frontend].config;
            let usual = desk::client_timeouts(frontend);
            clients.set_own_timeouts(socket, Timeouts { tunnel, ..usual });
        } else if let Some((_, seat)) = servers.get(socket) {
            let (backend, server) = seat.place();
            let live = &shared.live.backends[backend];
            let usual = desk::server_timeouts(&live.config, &live.servers[server].config);
            servers.set_own_timeouts(socket, Timeouts { tunnel, ..usual });
        }
    }

    /// A server's connection has completed an exchange: keeps it for reuse, if permitted.
    fn free(&mut self, now: Instant, shared: &mut Shared, socket: SocketId) {
        let at = self.servers.position(socket);
        let Some((connection, seat)) = self.servers.get_mut(socket) else { return };
        if seat.client.is_some() {
            return;
        }
        let (backend, server) = seat.place();
        let live = &shared.live.backends[backend];
        let (config, member) = (&live.servers[server].config, &live.group.members()[server]);
        let counters = &live.servers[server].counters;
        let idle =
            || counters.iter().map(|of_thread| of_thread.get(Counter::IdleConnections)).sum();
        let used_up = config.reuse_max.is_some_and(|max| seat.uses > max);
        let full = config.idle_max.is_some_and(|max| max as u64 <= idle());
        let shed = seat.sheds != member.sheds() || seat.moved != member.moved();
        let ends = used_up || shed || shared.ending || (full && !seat.is_private());
        if ends {
            connection.close_after();
        } else if connection.vacancy() > 0 && !seat.is_private() {
            self.desk.pool.park(seat.shelf, at, seat.is_proven());
            counters[shared.thread].add(Counter::IdleConnections, 1);
        }
        let usual = self.desk.servers[backend][server].timeouts;
        self.servers.set_timeouts(socket, usual);
        let Self { clients, servers, desk, .. } = self;
        servers.touch(now, socket, &mut Replies { clients, desk, shared });
    }

    /// Closes connections to servers whose sessions have to be closed.
    pub(super) fn shed(&mut self, now: Instant, shared: &mut Shared) {
        for socket in self.servers.sockets() {
            let Some((_, seat)) = self.servers.get(socket) else { continue };
            let (backend, server) = seat.place();
            if shared.live.backends[backend].group.members()[server].sheds() != seat.sheds {
                let Self { clients, servers, desk, .. } = self;
                servers.cut(now, socket, &mut Replies { clients, desk, shared });
            }
        }
    }
}
