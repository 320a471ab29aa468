//! Admission of clients.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use fulmar_engine::{CloseKind, SocketId};
use fulmar_haproxy::BackendId;
use fulmar_proto::{Layer, RawConnection};
use fulmar_semantics::proxy_protocol::ProxyProtocol;

use super::across::{Seat, Way};
use super::session::{Introduction, Session, Stage};
use super::subject::Visit;
use super::{Tcp, Work};
use crate::counters::Counter;
use crate::gate;
use crate::shared::{BindId, Shared};
use crate::unborn::{self, Refusal, refuses};

impl Tcp {
    /// Accepts a client, unless a rule refuses it: then nothing is read from it.
    pub(super) fn admit(
        &mut self,
        now: Instant,
        shared: &Shared,
        bind: BindId,
        peer: SocketAddr,
        layer: Option<Box<dyn Layer>>,
    ) -> Option<SocketId> {
        let live = Arc::clone(&shared.live);
        let frontend = &live.frontends[bind.frontend];
        gate::counters(shared, bind).iter().for_each(|it| it.add(Counter::Connections, 1));
        // A client over a Unix socket has no address.
        let source = (peer.port() != 0).then_some(peer);
        let mut session = Session::new(now, bind, source);
        if let Some(local) = shared.local {
            session.set_local(local);
        }
        let binds = &frontend.config.binds;
        if binds.get(bind.bind).is_some_and(|it| it.accepts_proxy) {
            session.introduction = Introduction::Awaited;
        }
        let before = session.introduction;
        let refusal = refuses(
            &frontend.config.connection_rules,
            &mut Visit { shared, session: &mut session, now, complete: true },
        );
        if refusal.is_some() {
            unborn::count(shared, bind, Counter::DeniedConnections);
        }
        match refusal {
            Some(Refusal::Closed) => return None,
            Some(Refusal::Silent) => return Some(self.vanish_at_once(now)),
            None => {}
        }
        let layer = match session.introduction == before {
            true => layer,
            false => Some(Box::new(ProxyProtocol::new(layer)) as Box<dyn Layer>),
        };
        for counters in gate::counters(shared, bind) {
            counters.add(Counter::SessionsTotal, 1);
            counters.add(Counter::Sessions, 1);
        }
        let number = self.desk.sessions.insert(session);
        let limits = self.limits.of_client(bind.frontend);
        let (clients, mut across) = self.side_of(Way::Client);
        let connection = RawConnection::default();
        let socket = clients.insert(now, layer, connection, Seat::new(number), &mut across);
        clients.set_timeouts(socket, limits);
        if let Some(session) = self.desk.sessions.get_mut(number) {
            session.client = Some(socket);
        }
        Some(socket)
    }

    /// The client's connection was established.
    pub(super) fn handle_opened(&mut self, now: Instant, shared: &mut Shared, number: u32) {
        let Some(session) = self.desk.sessions.get_mut(number) else { return };
        let bind = session.bind;
        session.times.opened = Some(session.age(now));
        let live = Arc::clone(&shared.live);
        let frontend = &live.frontends[bind.frontend];
        if let Some(tls) = session.traits.as_ref().and_then(|it| it.tls.as_ref()) {
            unborn::count_handshake(shared, bind, tls);
        }
        let refusal = refuses(
            &frontend.config.session_rules,
            &mut Visit { shared, session, now, complete: true },
        );
        if let Some(refusal) = refusal {
            session.stage = Stage::Opening; // so that it is not logged
            unborn::count(shared, bind, Counter::DeniedSessions);
            return match refusal {
                Refusal::Closed => self.cut_client(now, number),
                Refusal::Silent => self.vanish(now, number),
            };
        }
        self.begin_to_inspect(now, shared, number);
    }

    /// Drops a client silently, before its first byte.
    fn vanish_at_once(&mut self, now: Instant) -> SocketId {
        let (clients, mut across) = self.side_of(Way::Client);
        let connection = RawConnection::default();
        let socket = clients.insert(now, None, connection, Seat::new(u32::MAX), &mut across);
        clients.cut_as(now, socket, CloseKind::Silent, &mut across);
        socket
    }

    /// Drops the client silently. The reason was recorded before.
    pub(super) fn vanish(&mut self, now: Instant, number: u32) {
        let Some(client) = self.desk.sessions.get(number).and_then(|it| it.client) else { return };
        let (clients, mut across) = self.side_of(Way::Client);
        clients.cut_as(now, client, CloseKind::Silent, &mut across);
    }

    /// A client ended its side while reading was paused.
    pub(super) fn handle_client_hangup(&mut self, _: Instant, shared: &Shared, socket: SocketId) {
        let Some((_, seat)) = self.clients.get(socket) else { return };
        let number = seat.session;
        if self.takes_back(shared, number) {
            self.desk.work.push_back(Work::Left(number));
        }
    }

    /// True if the end of the client's side aborts the session now (`abortonclose`).
    pub(super) fn takes_back(&self, shared: &Shared, number: u32) -> bool {
        let Some(session) = self.desk.sessions.get(number) else { return false };
        let aborts = |it: BackendId| shared.live.backends[it.0].config.options.abort_on_close;
        matches!(session.stage, Stage::Queued | Stage::Pausing | Stage::Connecting)
            && session.backend.is_some_and(aborts)
    }
}
