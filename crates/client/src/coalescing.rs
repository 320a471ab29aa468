//! Connections of HTTP/2 that serve several origins (connection coalescing, RFC 9113 §9.1.1).
//!
//! An origin that needs a connection is coalesced onto one of another origin instead, if that one
//! has the same key except for the host, is connected to an address of the origin's name, and has a
//! certificate with this name. It remains the other origin's connection. The coalesced origin keeps
//! its own queue, limits and connections; it is only another source of transfers. It remains
//! coalesced until the connection closes, a response is 421, or its own connection speaks HTTP/1.1.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use fulmar_engine::SocketId;
use fulmar_proto::Connection;
use fulmar_tls::Info;

use crate::application::Application;
use crate::client::Client;
use crate::connection_data::{ConnectionData, ConnectionProgress};
use crate::pool::{AddressState, Multiplexing};
use crate::state::{CONNECTED, ClientState, Command, WAITED_FOR};
use crate::transfer::TransferId;

/// Whether an origin can do without a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CoalesceResult {
    /// It has been coalesced onto a connection that accepts a request.
    Coalesced,
    /// Its addresses must be known first.
    NeedsAddresses,
    /// No connection can serve it.
    NoConnection,
}

/// The connection that an origin looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// One that accepts a request now.
    FreeStream,
    /// One that is full: the origin takes turns with those that it serves.
    NextStream,
}

impl<A: Application> Client<A> {
    /// Looks for a connection of another origin that can serve `origin`, which needs one. The
    /// addresses are those that its name was resolved to, unless its key has others.
    pub(crate) fn coalesce(
        &mut self,
        now: Instant,
        origin: usize,
        addresses: Option<&[IpAddr]>,
        wanted: Wanted,
    ) -> CoalesceResult {
        let front = self.core.state.front_options(origin);
        if front.is_some_and(|options| options.fresh_connection) {
            return CoalesceResult::NoConnection;
        }
        let pool = &self.core.state.pool;
        let known = pool.get(origin).expect(WAITED_FOR);
        // A server that has chosen HTTP/1.1 for this name does not want it on HTTP/2.
        let may_multiplex = match known.multiplexing {
            Multiplexing::Unknown | Multiplexing::Failed | Multiplexing::Yes => true,
            Multiplexing::No | Multiplexing::OneExchange => false,
        };
        if pool.coalescing.is_empty() || !known.coalesces || !may_multiplex {
            return CoalesceResult::NoConnection;
        }
        let literal;
        let given: Vec<IpAddr>;
        let addresses: &[IpAddr] = match (known.addresses, addresses) {
            _ if let Some(to) = &known.key.key().addresses => {
                given = to.iter().map(SocketAddr::ip).collect();
                &given
            }
            (AddressState::Literal(address), _) => {
                literal = [address];
                &literal
            }
            (_, Some(addresses)) => addresses,
            (AddressState::Local, None) => return CoalesceResult::NoConnection,
            // Its turn comes later, and then its name is resolved in any case.
            (_, None) if known.waits_for_connection => return CoalesceResult::NoConnection,
            (AddressState::Unknown | AddressState::Resolving(_), None) => {
                return CoalesceResult::NeedsAddresses;
            }
        };
        let candidates =
            addresses.iter().flat_map(|peer| pool.coalescing.candidates(&known.key, *peer));
        let found = candidates.take(CANDIDATES_MAX).find_map(|at| self.serving(at, origin, wanted));
        match found {
            Some((at, home)) if self.core.state.coalesce(now, origin, at, home) => {
                CoalesceResult::Coalesced
            }
            _ => CoalesceResult::NoConnection,
        }
    }

    /// The connection at a position and its own origin, if it can serve a request of `origin`.
    fn serving(&self, at: u32, origin: usize, wanted: Wanted) -> Option<(u32, usize)> {
        let (socket, home) = match wanted {
            Wanted::FreeStream => self.accepting(at)?,
            Wanted::NextStream => self.full(at)?,
        };
        let pool = &self.core.state.pool;
        let key = pool.get(origin).expect(WAITED_FOR).key.key();
        let same_but_host = pool.get(home).expect(CONNECTED).key.key().equals_without_host(key);
        let info = self.connections.info(socket).and_then(Info::of);
        let serves = home != origin
            && same_but_host
            && info.is_some_and(|info| info.is_valid_for(&key.host));
        serves.then_some((at, home))
    }

    /// The connection that an origin is coalesced onto, if it accepts a transfer's request.
    pub(crate) fn choose_coalesced(
        &mut self,
        now: Instant,
        connection: u32,
        id: TransferId,
    ) -> Option<SocketId> {
        let (socket, home) = self.accepting(connection)?;
        let (_, data) = self.connections.get(socket)?;
        if !self.core.state.may_follow(now, id, data) {
            return None;
        }
        self.core.state.pool.remove_idle(home, connection);
        self.core.state.set_watched(socket, true);
        Some(socket)
    }

    /// The connection at a position and its own origin, if that would get it for a request now.
    fn accepting(&self, at: u32) -> Option<(SocketId, usize)> {
        let socket = self.connections.key(at);
        let (connection, data) = self.connections.get(socket)?;
        let is_listed = data.shared || self.core.state.pool.is_idle(at);
        (is_listed && connection.vacancy() > 0).then(|| (socket, data.origin()))
    }

    /// The connection at a position and its own origin, if it has as many streams as its server
    /// accepts. If it is about to close instead, its origins continue when it does.
    fn full(&self, at: u32) -> Option<(SocketId, usize)> {
        let socket = self.connections.key(at);
        let (connection, data) = self.connections.get(socket)?;
        let is_full = connection.vacancy() == 0 && !data.owners.is_empty();
        (is_full && data.stage.is_http2()).then(|| (socket, data.origin()))
    }

    /// A connection may accept requests again: if it serves several origins, they take turns.
    pub(crate) fn assign_in_turn(&mut self, now: Instant, socket: SocketId) {
        let at = self.connections.position(socket);
        while self.core.state.pool.coalescing.is_shared(at)
            && let Some((connection, data)) = self.connections.get(socket)
            && data.stage != ConnectionProgress::Opening
            && connection.vacancy() > 0
        {
            let home = data.origin();
            let Some((origin, id)) = self.core.state.next_in_turn(now, at, data) else { return };
            self.core.state.pool.remove_idle(home, at);
            self.core.state.set_watched(socket, true);
            self.core.state.pool.pop(origin);
            self.assign(now, socket, id);
        }
    }
}

impl ClientState {
    /// Coalesces an origin onto a connection of the origin `home`. False if the connection serves
    /// too many already, all of which have transfers.
    fn coalesce(&mut self, now: Instant, origin: usize, connection: u32, home: usize) -> bool {
        if !self.pool.coalescing.has_room(connection) {
            let Some(unused) = self.pool.unused_origin_of(connection, home) else { return false };
            self.pool.separate(unused);
            self.sweep(now, unused);
        }
        self.pool.coalesce(origin, connection, home);
        self.pool.stop_waiting(origin);
        true
    }

    /// A connection of `home` may serve others from now on: origins that wait until they may open
    /// one, and whose name its certificate has, try it first. Meanwhile they keep their places.
    pub(crate) fn retry_coalescing(&mut self, now: Instant, home: usize, info: &Info<'_>) {
        let pool = &self.pool;
        let key = pool.get(home).expect(CONNECTED).key.key();
        let may_join = |at: &usize| {
            let known = pool.get(*at)?.key.key(); // it may have been swept
            let agrees = pool.get(*at)?.coalesces && known.equals_without_host(key);
            agrees.then_some((*at, known))
        };
        let waiting = pool.waiting_origins.iter().filter_map(may_join).take(CANDIDATES_MAX);
        let named = waiting.filter(|(_, key)| info.is_valid_for(&key.host));
        let found: Vec<_> = named.map(|(at, key)| (at, key.addresses.is_some())).collect();
        for (at, has_addresses) in found {
            match self.pool.get(at).expect(WAITED_FOR).addresses {
                AddressState::Unknown | AddressState::Resolving(_) if !has_addresses => {
                    self.ask(now, at);
                }
                _ => self.commands.push_back(Command::Dispatch(at)),
            }
        }
    }

    /// The next transfer for a connection that serves several origins, and its origin.
    fn next_in_turn(
        &mut self,
        now: Instant,
        connection: u32,
        data: &ConnectionData,
    ) -> Option<(usize, TransferId)> {
        for _ in 0..self.pool.coalescing.origins(connection).count() {
            let origin = self.pool.coalescing.next_turn(connection)?;
            let is_served =
                origin == data.origin() || self.pool.get(origin).expect(LISTED).coalesces;
            if is_served
                && let Some(id) = self.front(origin)
                && self.may_follow(now, id, data)
                && self.permit(now, origin)
            {
                return Some((origin, id));
            }
        }
        None
    }
}

/// Connections that are examined for one that an origin needs, and waiting origins that are
/// examined for a new connection. Examining is parsing a certificate; opening a connection costs
/// about as much as a hundred of these.
const CANDIDATES_MAX: usize = 16;
const LISTED: &str = "a connection keeps its origins in the pool";
