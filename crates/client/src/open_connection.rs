//! Opens connections: tries several addresses at a time until one is connected (RFC 8305).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use fulmar_engine::{End, Endpoint, LocalAddress, Peer, ResolveError, Resolved, SocketId};
use fulmar_proto::h1::Leniency;
use fulmar_proto::{ClientConnection, HeaderBuf, Layer, LayerError};
use fulmar_semantics::proxy::ProxyKind;
use fulmar_semantics::tunnel::{HttpConnect, Socks4, Socks5};
use fulmar_tls::{ClientTls, HTTP2};
use url::Host;

use crate::application::Application;
use crate::attempt::Attempt;
use crate::client::{Client, timeouts};
use crate::coalescing::{CoalesceResult, Wanted};
use crate::connection_data::{ConnectionData, ConnectionProgress};
use crate::connection_key::{Key, Protocol, Route};
use crate::deadline::later;
use crate::error::{ConnectError, Error, ProxyResolveError, Tried, Waiting};
use crate::first_hop::{FirstHop, first_hop, first_name, leads_to_proxy, target, target_name};
use crate::pool::{AddressState, Candidates};
use crate::proxy_line::ProxyLine;
use crate::request::basic;
use crate::state::{CONNECTED, Command, WAITED_FOR, lookup, position};
use crate::timestamps::micros;
use crate::transfer_stage::TransferStage;

impl<A: Application> Client<A> {
    /// Opens as many connections as transfers wait for, within the limits. The addresses are
    /// `found`, or the name is resolved first.
    pub(crate) fn open(&mut self, now: Instant, origin: usize, found: Option<&Found>) {
        loop {
            let waits = self.awaits_multiplexing(origin);
            let state = &mut self.core.state;
            let Some(known) = state.pool.get(origin) else { return }; // a failure has swept it
            let allowed = state.pool.hosts.allowance(known.host, now, &state.config);
            let wanted = state.pool.waiting(origin).min(allowed);
            if !known.needs_connection(wanted, waits)
                || known.connections >= state.config.per_host_max
            {
                return;
            }
            if let Route::Opened(_) = known.key.key().route {
                return self.fail_all(now, origin, || Error::NoTunnel);
            }
            // Before others are closed for a new one: one of them may serve the origin.
            let addresses = found.and_then(|found| found.first_hop.as_deref());
            match self.coalesce(now, origin, addresses, Wanted::FreeStream) {
                CoalesceResult::Coalesced => {
                    return self.core.state.commands.push_back(Command::Dispatch(origin));
                }
                CoalesceResult::NeedsAddresses => return self.core.state.ask(now, origin),
                CoalesceResult::NoConnection => {}
            }
            let state = &mut self.core.state;
            if let Some(until) = state.exhausted_until.filter(|until| *until > now) {
                return state.set_origin_timer(origin, until);
            }
            if !self.has_room_at_authority(now, origin) {
                return;
            }
            if self.connections.len() >= self.core.state.config.connections_max && !self.evict(now)
            {
                let is_coalesced = self.core.state.pool.is_coalesced(origin);
                if !is_coalesced {
                    self.coalesce(now, origin, addresses, Wanted::NextStream);
                }
                return self.core.state.pool.wait_for_connection(origin);
            }
            let state = &mut self.core.state;
            let known = state.pool.get(origin).expect(WAITED_FOR);
            let Some(candidates) = candidates(known.key.key(), found) else {
                return state.ask(now, origin);
            };
            if !self.attempt(now, origin, candidates, found) {
                return;
            }
        }
    }

    /// The resolver has returned.
    pub(crate) fn handle_resolved(&mut self, now: Instant, origin: usize, addresses: Resolved<'_>) {
        let Some((asked, first_hop)) = self.take_resolving(origin) else { return }; // timed out
        let Some(known) = self.core.state.pool.get_mut(origin) else { return }; // it was swept
        let key = known.key.key();
        let family = key.family;
        let is_first = first_hop.is_none() && first_name(key).is_some();
        let needs_more = is_first && target_name(key).is_some();
        let of_family: Vec<_>;
        let addresses = match (addresses, family) {
            (Ok(addresses), Some(family)) => {
                let addresses = addresses.iter().copied();
                of_family = addresses.filter(|address| family.has(*address)).collect();
                Ok(&of_family[..])
            }
            (addresses, _) => addresses,
        };
        match addresses {
            Ok([]) => self.fail_name(now, origin, is_first, ResolveError::NoAddress),
            Ok(addresses) if needs_more => {
                known.first_hop = Some(Arc::from(addresses));
                self.core.state.ask(now, origin);
                if let Some(known) = self.core.state.pool.get_mut(origin) {
                    known.addresses = AddressState::Resolving(asked);
                }
            }
            Ok(addresses) => {
                let name = micros(now - asked);
                let addresses = Some(Arc::from(addresses));
                let found = match is_first {
                    true => Found { first_hop: addresses, target: None, name },
                    false => Found { first_hop, target: addresses, name },
                };
                self.open(now, origin, Some(&found));
            }
            Err(error) => self.fail_name(now, origin, is_first, error),
        }
    }

    /// Checks the name timeout.
    pub(crate) fn check_name(&mut self, now: Instant, origin: usize) {
        let state = &self.core.state;
        let Some(known) = state.pool.get(origin) else { return }; // swept: the timer is stale
        let AddressState::Resolving(asked) = known.addresses else { return };
        let key = known.key.key();
        let is_first = known.first_hop.is_none() && first_name(key).is_some();
        let waiting = match is_first && leads_to_proxy(key) {
            true => Waiting::ProxyName,
            false => Waiting::Name,
        };
        let Some(span) = state.config.name_timeout else { return };
        let due = later(asked, span);
        if due > now {
            return self.core.state.set_origin_timer(origin, due);
        }
        self.take_resolving(origin);
        self.core
            .state
            .actions
            .push_back(fulmar_engine::Action::Abandon { lookup: lookup(origin) });
        self.fail_all(now, origin, || Error::TimedOut(waiting));
    }

    /// When the resolver was started, if it runs, and what it has found before; it counts as
    /// finished from now on.
    fn take_resolving(&mut self, origin: usize) -> Option<(Instant, Option<Arc<[IpAddr]>>)> {
        let known = self.core.state.pool.get_mut(origin)?;
        let AddressState::Resolving(asked) = known.addresses else { return None };
        known.addresses = AddressState::Unknown;
        Some((asked, known.first_hop.take()))
    }

    fn fail_name(&mut self, now: Instant, origin: usize, is_first: bool, cause: ResolveError) {
        let known = self.core.state.pool.get(origin).expect("its addresses were just looked up");
        let key = known.key.clone();
        self.fail_all(now, origin, || match first_hop(key.key()) {
            FirstHop::Name(host, port) if is_first && leads_to_proxy(key.key()) => {
                Error::ResolveProxy(ProxyResolveError { host: host.into(), port, cause })
            }
            _ => Error::Resolve(cause),
        });
    }

    fn fail_all(&mut self, now: Instant, origin: usize, error: impl Fn() -> Error) {
        // Only transfers that wait now. The application may start others meanwhile, and the origin
        // may be another one by then.
        for id in self.core.state.pool.waiters(origin) {
            let transfer = self.core.state.transfers.get(id.0);
            if transfer.is_some_and(|transfer| transfer.stage == TransferStage::Queued) {
                self.core.finish_transfer(now, id, Err(error()));
            }
        }
    }

    /// Begins to open one connection. False if that failed at once.
    fn attempt(
        &mut self,
        now: Instant,
        origin: usize,
        candidates: Candidates,
        found: Option<&Found>,
    ) -> bool {
        let state = &mut self.core.state;
        let shuffles = state.front_options(origin).is_some_and(|it| it.shuffles_addresses);
        let candidates = if shuffles { candidates.shuffled() } else { candidates };
        state.pool.add_connection(origin);
        state.pool.get_mut(origin).expect(WAITED_FOR).connecting += 1;
        state.stats.connections += 1;
        let attempt = Attempt {
            origin,
            candidates,
            next: 0,
            racing: Vec::new(),
            tried: Vec::new(),
            began: now,
            beyond: found.and_then(|found| found.target.clone()),
            name: found.map_or(0, |found| found.name),
        };
        if state.attempts.capacity() == 0 {
            state.attempts.reserve_exact(1); // clients of one transfer are many
        }
        let at = position(state.attempts.insert(attempt));
        self.race(now, at)
    }

    /// Tries the next address, if there is one.
    pub(crate) fn race(&mut self, now: Instant, at: u32) -> bool {
        let state = &mut self.core.state;
        let moment = state.moment(now);
        // The attempt may have ended since its timer expired.
        let Some(attempt) = state.attempts.get_mut(at as usize) else { return false };
        let origin = attempt.origin;
        let known = state.pool.get(origin).expect(CONNECTED);
        if attempt.racing.len() >= RACING_MAX {
            return true; // the next failure makes room
        }
        let key = known.key.key();
        let (address, peer) = match (key.route.unix_path(), attempt.candidates.get(attempt.next)) {
            (Some(path), _) if attempt.next == 0 => (None, Peer::Unix(path.to_owned())),
            (_, Some(address)) => (Some(address), Peer::Ip(address)),
            (_, None) => return false,
        };
        attempt.next += 1;
        let peer = in_scope(peer, key.address_scope);
        let header = key.proxy_header.then(|| ProxyLine::new(&peer, LocalAddress::default()));
        let data = ConnectionData::new(position(attempt.origin), at, address, moment);
        let mut connection = ClientConnection::with_depth(state.config.pipelining);
        connection.set_leniency(key.leniency);
        connection.set_profile(key.profile);
        connection.set_status_aliases(key.status_aliases.clone());
        let mut endpoint = endpoint(key, peer);
        endpoint.reports_local = header.as_ref().map(|header| header.local().clone());
        let layer = match layer(key, &attempt.beyond, header) {
            Ok(layer) => layer,
            Err(error) => return self.fail_layer(now, at, error),
        };
        let socket = self.connections.connect(now, endpoint, layer, connection, data);
        let state = &mut self.core.state;
        let options = state.front_options(origin);
        let timeouts = timeouts(&state.config, options.as_deref());
        if timeouts != self.usual_timeouts {
            self.connections.set_own_timeouts(socket, timeouts);
        }
        let attempt = state.attempts.get_mut(at as usize).expect("it was found above");
        // Only the newest one has a timer. Otherwise each would start others, and those more.
        if let Some(before) = attempt.racing.last() {
            self.connections.set_timer(*before, None);
        }
        attempt.racing.push(socket);
        if attempt.candidates.get(attempt.next).is_some() {
            let delay = options.as_ref().and_then(|options| options.attempt_delay);
            let delay = delay.unwrap_or(state.config.attempt_delay);
            self.connections.set_timer(socket, Some(later(now, delay)));
        }
        true
    }

    /// The layers of the connection cannot be made.
    fn fail_layer(&mut self, now: Instant, at: u32, error: LayerError) -> bool {
        let attempt = self.core.state.attempts.remove(at as usize);
        self.core.fail_front(now, attempt.origin, Error::Layer(error));
        self.on_connection_removed(now, attempt.origin, ConnectionProgress::Opening);
        false
    }

    /// An address is connected: the attempt has succeeded.
    pub(crate) fn connected(&mut self, now: Instant, socket: SocketId) {
        // Another address of the attempt may have been connected meanwhile.
        let Some((_, data)) = self.connections.get_mut(socket) else { return };
        let opening = data.opening.as_mut().expect("the first exchange takes it");
        let at = opening.attempt.take().expect("a socket connects once");
        let attempt = self.core.state.attempts.remove(at as usize);
        self.core.state.stats.established += 1;
        opening.setup.name = attempt.name;
        opening.setup.connect = micros(now - attempt.began);
        opening.setup.handshake = self.core.state.stamp(now);
        for other in attempt.racing {
            if other != socket {
                self.connections.close(other);
            }
        }
        self.connections.set_timer(socket, None);
    }

    /// An address failed.
    pub(crate) fn handle_refused(
        &mut self,
        now: Instant,
        (at, peer): (u32, Option<SocketAddr>),
        socket: SocketId,
        end: End,
    ) {
        let state = &mut self.core.state;
        // Another address of the attempt may have been connected meanwhile.
        let Some(attempt) = state.attempts.get_mut(at as usize) else { return };
        attempt.racing.retain(|other| *other != socket);
        let error = match end {
            End::Failed(error) => error,
            End::TimedOut(_) => io::ErrorKind::TimedOut.into(),
            other => io::Error::other(format!("{other:?}")),
        };
        let origin = attempt.origin;
        let known = state.pool.get(origin).expect(CONNECTED);
        let exhausted = is_exhausted(&error);
        let is_proxy = leads_to_proxy(known.key.key());
        let tried = match (known.key.key().route.unix_path(), peer) {
            (Some(path), _) => Tried::Unix(path.to_owned()),
            (_, Some(address)) => Tried::Ip(address),
            (_, None) => unreachable!("only a Unix path has no address"),
        };
        attempt.tried.push((tried, error));
        if !exhausted && self.race(now, at) {
            return;
        }
        let state = &mut self.core.state;
        if !state.attempts[at as usize].racing.is_empty() {
            return;
        }
        let attempt = state.attempts.remove(at as usize);
        if exhausted {
            // Transfers continue to wait, for a connection to close or for the end of the pause.
            state.exhausted_until = Some(now + EXHAUSTED_REST);
        } else {
            let error = Error::Connect(ConnectError { tried: attempt.tried, is_proxy });
            self.core.fail_front(now, origin, error);
        }
        self.on_connection_removed(now, origin, ConnectionProgress::Opening);
    }
}

/// Addresses as the resolver returned them.
#[derive(Debug)]
pub(crate) struct Found {
    first_hop: Option<Arc<[IpAddr]>>,
    /// Those of the host, for a proxy that gets one.
    target: Option<Arc<[IpAddr]>>,
    /// The time that this took, in microseconds.
    name: u32,
}

/// The addresses to connect to; `None`: a name has to be resolved first.
fn candidates(key: &Key, found: Option<&Found>) -> Option<Candidates> {
    if target_name(key).is_some() && found.is_none_or(|found| found.target.is_none()) {
        return None;
    }
    let first_hop = first_hop(key);
    match (first_hop, &key.addresses, found.and_then(|found| found.first_hop.as_ref())) {
        (FirstHop::Local, ..) => Some(Candidates::Local),
        (_, Some(given), _) => Some(Candidates::Given(Arc::clone(given))),
        (FirstHop::Address(address), ..) => Some(Candidates::One(address)),
        (FirstHop::Name(_, port), _, Some(found)) => {
            Some(Candidates::Many(Arc::clone(found), port))
        }
        (FirstHop::Name(..), _, None) => None,
    }
}

fn endpoint(key: &Key, peer: Peer) -> Endpoint {
    Endpoint {
        local: key.local,
        interface: key.interface.clone(),
        keep_alive: key.keep_alive,
        nagle: key.nagle,
        fast_open: key.fast_open,
        ..peer.into()
    }
}

/// An IPv6 address without a zone gets this one.
fn in_scope(mut peer: Peer, scope: u32) -> Peer {
    if let Peer::Ip(SocketAddr::V6(address)) = &mut peer
        && address.scope_id() == 0
    {
        address.set_scope_id(scope);
    }
    peer
}

/// The layers between the socket and HTTP: a tunnel, a PROXY header, TLS, or none.
pub(crate) fn layer(
    key: &Key,
    beyond: &Option<Arc<[IpAddr]>>,
    header: Option<ProxyLine>,
) -> Result<Option<Box<dyn Layer>>, LayerError> {
    let tls: Option<Box<dyn Layer>> = match &key.tls {
        Some(tls) => Some(Box::new(tls.session_with_alpn(&key.host, &alpn(key.protocol, tls))?)),
        None => None,
    };
    let tls = match header {
        Some(header) => Some(Box::new(header.followed_by(tls)) as Box<dyn Layer>),
        None => tls,
    };
    let Some(proxy) = key.route.proxy() else { return Ok(tls) };
    let (name, port) = target(key);
    let addresses = key.target_addresses.as_deref().or(beyond.as_deref());
    let host = match (name.parse(), proxy.kind, addresses) {
        (Ok(address), _, _) => host(address),
        (Err(_), ProxyKind::Socks5, Some([address, ..])) => host(*address),
        (Err(_), ProxyKind::Socks4, Some(addresses)) => {
            let ipv4 = addresses.iter().copied().find(IpAddr::is_ipv4);
            match ipv4 {
                Some(address) => host(address),
                None => Host::Domain(name),
            }
        }
        (Err(_), _, _) => Host::Domain(name),
    };
    let login = proxy.login.as_ref();
    Ok(Some(match proxy.kind {
        ProxyKind::Http => {
            let mut headers = HeaderBuf::new();
            if let Some(login) = login {
                headers.push("Proxy-Authorization", &basic(login)?)?;
            }
            let tunnel = HttpConnect::new(&host, port, headers.as_headers(), tls)?;
            // A response without a head has no status that opens a tunnel.
            Box::new(tunnel.with_leniency(key.leniency.without(Leniency::HTTP_09)))
        }
        ProxyKind::Socks4 | ProxyKind::Socks4a => {
            let user = login.map(|login| &login.user[..]).unwrap_or_default();
            Box::new(Socks4::new(&host, port, user, tls)?)
        }
        ProxyKind::Socks5 | ProxyKind::Socks5h => Box::new(Socks5::new(&host, port, login, tls)?),
    }))
}

/// The application protocols to offer, by preference.
fn alpn(protocol: Protocol, tls: &ClientTls) -> Vec<Vec<u8>> {
    let usual = &tls.options().alpn;
    match protocol {
        Protocol::Negotiated => usual.clone(),
        Protocol::Http1 => usual.iter().filter(|name| *name != HTTP2).cloned().collect(),
        Protocol::Http2 => unreachable!("over TLS it is negotiated"),
    }
}

fn host(address: IpAddr) -> Host<&'static str> {
    match address {
        IpAddr::V4(address) => Host::Ipv4(address),
        IpAddr::V6(address) => Host::Ipv6(address),
    }
}

/// True if the process or the machine has no resources for another socket.
fn is_exhausted(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(EMFILE | ENFILE | ENOBUFS | ENOBUFS_BSD | ENOMEM))
}

/// Addresses that are tried at a time for one connection.
const RACING_MAX: usize = 8;
// errno(3). Only `ENOBUFS` differs; its values have no other meaning for a socket elsewhere.
const ENOMEM: i32 = 12;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const ENOBUFS: i32 = 105;
const ENOBUFS_BSD: i32 = 55;
/// The pause after descriptors have run out.
const EXHAUSTED_REST: std::time::Duration = std::time::Duration::from_millis(100);
