//! Accepts a client, unless a rule refuses it, and handles a client that closes early.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use fulmar_engine::{CloseKind, SocketId};
use fulmar_haproxy::BackendId;
use fulmar_proto::{Layer, RawConnection};
use fulmar_semantics::proxy_protocol::ProxyProtocol;

use super::context::SessionContextMut;
use super::forward::{RelayConn, SideKind};
use super::session::{ProxyHeaderState, TcpSession, TcpStage};
use super::{SessionWork, TcpRelay};
use crate::admission;
use crate::counters::Stat;
use crate::early_close::{self, ClientRefusal, refuses};
use crate::shared::{BindId, ThreadContext};

impl TcpRelay {
    /// Accepts a client, unless a rule refuses it: then nothing is read from it.
    pub(super) fn admit(
        &mut self,
        now: Instant,
        shared: &ThreadContext,
        bind: BindId,
        peer: SocketAddr,
        layer: Option<Box<dyn Layer>>,
    ) -> Option<SocketId> {
        let live = Arc::clone(&shared.live);
        let frontend = &live.frontends[bind.frontend];
        admission::counters(shared, bind).iter().for_each(|it| it.add(Stat::Connections, 1));
        // A client over a Unix socket has no address.
        let source = (peer.port() != 0).then_some(peer);
        let mut session = TcpSession::new(now, bind, source);
        if let Some(local) = shared.local {
            session.set_local(local);
        }
        let binds = &frontend.config.binds;
        if binds.get(bind.bind).is_some_and(|it| it.accepts_proxy) {
            session.proxy_header = ProxyHeaderState::Awaited;
        }
        let before = session.proxy_header;
        let refusal = refuses(
            &frontend.config.connection_rules,
            &mut SessionContextMut { shared, session: &mut session, now, complete: true },
        );
        if refusal.is_some() {
            early_close::count(shared, bind, Stat::DeniedConnections);
        }
        match refusal {
            Some(ClientRefusal::Closed) => return None,
            Some(ClientRefusal::Silent) => return Some(self.drop_at_once(now)),
            None => {}
        }
        let layer = match session.proxy_header == before {
            true => layer,
            false => Some(Box::new(ProxyProtocol::new(layer)) as Box<dyn Layer>),
        };
        for counters in admission::counters(shared, bind) {
            counters.add(Stat::SessionsTotal, 1);
            counters.add(Stat::Sessions, 1);
        }
        let number = self.state.sessions.insert(session);
        let limits = self.limits.of_client(bind.frontend);
        let (clients, mut handler) = self.side_of(SideKind::Client);
        let connection = RawConnection::default();
        let socket = clients.insert(now, layer, connection, RelayConn::new(number), &mut handler);
        clients.set_timeouts(socket, limits);
        self.state.sessions.of_mut(number).client = Some(socket);
        Some(socket)
    }

    /// The client's connection was established.
    pub(super) fn handle_opened(&mut self, now: Instant, shared: &mut ThreadContext, number: u32) {
        let session = self.state.sessions.of_mut(number);
        let bind = session.bind;
        session.times.opened = Some(session.age(now));
        let live = Arc::clone(&shared.live);
        let frontend = &live.frontends[bind.frontend];
        if let Some(tls) = session.rare.as_ref().and_then(|it| it.tls.as_ref()) {
            early_close::count_handshake(shared, bind, tls);
        }
        let refusal = refuses(
            &frontend.config.session_rules,
            &mut SessionContextMut { shared, session, now, complete: true },
        );
        if let Some(refusal) = refusal {
            session.stage = TcpStage::Opening; // so that it is not logged
            early_close::count(shared, bind, Stat::DeniedSessions);
            return match refusal {
                ClientRefusal::Closed => self.cut_client(now, number),
                ClientRefusal::Silent => self.drop_silently(now, number),
            };
        }
        self.begin_inspection(now, shared, number);
    }

    /// Drops a client silently, before its first byte.
    fn drop_at_once(&mut self, now: Instant) -> SocketId {
        let (clients, mut handler) = self.side_of(SideKind::Client);
        let connection = RawConnection::default();
        let socket =
            clients.insert(now, None, connection, RelayConn::new(NO_SESSION), &mut handler);
        clients.cut_as(now, socket, CloseKind::Silent, &mut handler);
        socket
    }

    /// Drops the client silently. The reason was recorded before.
    pub(super) fn drop_silently(&mut self, now: Instant, number: u32) {
        // The client may have closed since.
        let Some(client) = self.state.sessions.of(number).client else { return };
        let (clients, mut handler) = self.side_of(SideKind::Client);
        clients.cut_as(now, client, CloseKind::Silent, &mut handler);
    }

    /// A client ended its side while reading was paused.
    pub(super) fn handle_client_hangup(
        &mut self,
        _: Instant,
        shared: &ThreadContext,
        socket: SocketId,
    ) {
        // The driver may report a connection that was closed meanwhile.
        let Some((_, conn)) = self.clients.get(socket) else { return };
        let number = conn.session;
        if self.aborts_on_close(shared, number) {
            self.state.work.push_back(SessionWork::Aborted(number));
        }
    }

    /// True if the end of the client's side aborts the session now (`abortonclose`).
    pub(super) fn aborts_on_close(&self, shared: &ThreadContext, number: u32) -> bool {
        // A client that is dropped silently has no session.
        let Some(session) = self.state.sessions.get(number) else { return false };
        let aborts = |it: BackendId| shared.live.backends[it.0].config.options.abort_on_close;
        matches!(session.stage, TcpStage::Queued | TcpStage::Pausing | TcpStage::Connecting)
            && session.backend.is_some_and(aborts)
    }
}

/// The number of a connection without a session: it is dropped silently, and its events are
/// ignored.
const NO_SESSION: u32 = u32::MAX;
