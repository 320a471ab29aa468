//! Executes deferred actions, and decides whether a server's connection is kept after an exchange.
//!
//! Connections may close before their actions are executed: actions on closed connections are
//! ignored.

use std::time::{Duration, Instant};

use fulmar_engine::{CloseKind, SocketId, Timeouts};
use fulmar_proto::{Connection, SpliceTarget};

use crate::counters::Stat;
use crate::http::HttpRelay;
use crate::http::client_events::ClientEvents;
use crate::http::server_events::ServerEvents;
use crate::http::state::{self, DeferredAction};
use crate::pipe_use::PASSED_FROM;
use crate::shared::ThreadContext;

impl HttpRelay {
    /// Executes the deferred actions.
    pub(super) fn run_deferred(&mut self, now: Instant, shared: &mut ThreadContext) {
        while let Some(action) = self.state.next_deferred() {
            self.run(now, shared, action);
        }
    }

    fn run(&mut self, now: Instant, shared: &mut ThreadContext, action: DeferredAction) {
        let Self { clients, servers, state, .. } = self;
        match action {
            DeferredAction::Touch(socket) if clients.owns(socket) => {
                clients.touch(now, socket, &mut ClientEvents { servers, state, shared });
            }
            DeferredAction::Touch(socket) => {
                servers.touch(now, socket, &mut ServerEvents { clients, state, shared });
            }
            DeferredAction::Pass(socket) if clients.owns(socket) => {
                if clients.splice_len(socket, SpliceTarget::Pipe) >= PASSED_FROM {
                    clients.splice(socket, SpliceTarget::Pipe);
                }
            }
            DeferredAction::Pass(socket) => {
                if servers.splice_len(socket, SpliceTarget::Pipe) >= PASSED_FROM {
                    servers.splice(socket, SpliceTarget::Pipe);
                }
            }
            DeferredAction::Continue(id) => {
                let mut requests = ClientEvents { servers, state, shared };
                if let Some(client) = clients.get_mut(id.socket) {
                    requests.go_on(now, id, client);
                    clients.touch(now, id.socket, &mut requests);
                }
            }
            DeferredAction::Serve(backend, server) => {
                let mut requests = ClientEvents { servers, state, shared };
                while let Some((id, server)) = requests.next(backend, server) {
                    let client = clients.get_mut(id.socket);
                    if !client.is_some_and(|it| requests.admit(now, id, it, server)) {
                        requests.shared.live.backends[backend].group.leave(server);
                    }
                    clients.touch(now, id.socket, &mut requests);
                }
            }
            DeferredAction::Free(socket) => self.free(now, shared, socket),
            DeferredAction::Close(socket) if clients.owns(socket) => {
                clients.cut(now, socket, &mut ClientEvents { servers, state, shared });
            }
            DeferredAction::Close(socket) => {
                servers.cut(now, socket, &mut ServerEvents { clients, state, shared });
            }
            DeferredAction::DropSilently(socket) => {
                clients.cut_as(
                    now,
                    socket,
                    CloseKind::Silent,
                    &mut ClientEvents { servers, state, shared },
                );
            }
            DeferredAction::Limit(socket, time) => self.limit(shared, socket, time),
            DeferredAction::Tunnel(socket, time) => self.limit_tunnel(shared, socket, time),
            DeferredAction::Timer(socket, deadline) => clients.set_timer(socket, deadline),
            DeferredAction::Deadlines(socket, timeouts) => clients.set_timeouts(socket, timeouts),
        }
    }

    /// Sets the server's timeout for this exchange.
    fn limit(&mut self, shared: &ThreadContext, socket: SocketId, time: Duration) {
        let Some((_, conn)) = self.servers.get(socket) else { return };
        let (backend, server) = conn.place();
        let live = &shared.live.backends[backend];
        let usual = state::server_timeouts(&live.config, &live.servers[server].config);
        let limit = Some(time);
        let own = Timeouts { response: limit, body: limit, send: limit, ..usual };
        self.servers.set_own_timeouts(socket, own);
    }

    /// Sets the timeout of a tunnel, for a client or a server.
    fn limit_tunnel(&mut self, shared: &ThreadContext, socket: SocketId, time: Duration) {
        let tunnel = Some(time);
        let Self { clients, servers, .. } = self;
        if clients.owns(socket) {
            let Some((_, session)) = clients.get(socket) else { return };
            let frontend = &shared.live.frontends[session.bind().frontend].config;
            let usual = state::client_timeouts(frontend);
            clients.set_own_timeouts(socket, Timeouts { tunnel, ..usual });
        } else if let Some((_, conn)) = servers.get(socket) {
            let (backend, server) = conn.place();
            let live = &shared.live.backends[backend];
            let usual = state::server_timeouts(&live.config, &live.servers[server].config);
            servers.set_own_timeouts(socket, Timeouts { tunnel, ..usual });
        }
    }

    /// A server's connection has completed an exchange: keeps it for reuse, if permitted.
    fn free(&mut self, now: Instant, shared: &mut ThreadContext, socket: SocketId) {
        let at = self.servers.position(socket);
        let Some((connection, conn)) = self.servers.get_mut(socket) else { return };
        if conn.client.is_some() {
            return;
        }
        let (backend, server) = conn.place();
        let live = &shared.live.backends[backend];
        let (config, member) = (&live.servers[server].config, &live.group.members()[server]);
        let counters = &live.servers[server].counters;
        let idle = || counters.iter().map(|of_thread| of_thread.get(Stat::IdleConnections)).sum();
        let used_up = config.reuse_max.is_some_and(|max| conn.uses > max);
        let full = config.idle_max.is_some_and(|max| max as u64 <= idle());
        let kill_sessions = conn.kills != member.kills() || conn.moved != member.moved();
        let ends = used_up || kill_sessions || shared.ending || (full && !conn.is_private());
        if ends {
            connection.close_after();
        } else if connection.vacancy() > 0 && !conn.is_private() {
            self.state.pool.insert_idle(conn.idle_group, at, conn.is_proven());
            counters[shared.thread].add(Stat::IdleConnections, 1);
        }
        let usual = self.state.servers[backend][server].timeouts;
        self.servers.set_timeouts(socket, usual);
        let Self { clients, servers, state, .. } = self;
        servers.touch(now, socket, &mut ServerEvents { clients, state, shared });
    }

    /// Closes the connections to servers with a request to close their sessions.
    pub(super) fn kill_sessions(&mut self, now: Instant, shared: &mut ThreadContext) {
        for socket in self.servers.sockets() {
            let Some((_, conn)) = self.servers.get(socket) else { continue };
            let (backend, server) = conn.place();
            if shared.live.backends[backend].group.members()[server].kills() != conn.kills {
                let Self { clients, servers, state, .. } = self;
                servers.cut(now, socket, &mut ServerEvents { clients, state, shared });
            }
        }
    }
}
