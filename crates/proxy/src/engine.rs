//! The engine of one thread: its listeners, and the relays of both modes.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fulmar_engine::{
    Accepted, Action, DriverEvent, Engine, Limit, ListenerId, Passage, SocketId, Stop,
};
use fulmar_haproxy::model::BackendTarget;
use fulmar_haproxy::{BackendId, Config, Mode};
use fulmar_proto::{Layer, PipeCounts, Transmit};

use crate::accept_failure;
use crate::admission::{self, Admission};
use crate::http::HttpRelay;
use crate::live::Live;
use crate::needs::needs_destination;
use crate::orders::{Order, OrderReply, PORTION, SessionView};
use crate::pipe_use::pipes_max;
use crate::proxy_log::ProxyLog;
use crate::relay::{HTTP_CLIENTS, HTTP_SERVERS, Relay, STRIDE};
use crate::services::Services;
use crate::shared::{BindId, ThreadContext};
use crate::tcp::TcpRelay;

/// The proxy on one thread; a reactor drives it.
#[derive(Debug)]
pub struct Proxy {
    shared: ThreadContext,
    http: HttpRelay,
    tcp: TcpRelay,
    listeners: Vec<BoundListener>,
    stop: Stop,
    stop_state: StopState,
    closed: bool,                  // listeners are closed for lack of room
    revision: u64,                 // of limits and states of frontends, which operators set
    rate_room_at: Option<Instant>, // when the rate limit of a closed listener permits a client
    actions: VecDeque<Action>,
}

/// The progress of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopState {
    Running,
    /// Clients finish; at this time, if it is set, they are closed.
    Stopping {
        hard_stop_at: Option<Instant>,
    },
}

/// Makes the layer below each connection of a listener: TLS, a PROXY header, or both. `None`: the
/// connection is refused.
pub type MakeLayer = Box<dyn Fn(SocketAddr) -> Option<Box<dyn Layer>> + Send>;

/// A listening socket of this thread.
struct BoundListener {
    id: ListenerId,
    bind: BindId,
    spoken: Mode,
    layer: Option<MakeLayer>,
    open: bool,
}

impl fmt::Debug for BoundListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundListener").field("id", &self.id).field("bind", &self.bind).finish()
    }
}

impl Proxy {
    /// The engine of thread number `thread` of those that share `live`.
    pub fn new(
        now: Instant,
        live: Arc<Live>,
        thread: usize,
        proxy_log: Box<dyn ProxyLog>,
        services: Box<dyn Services>,
        stop: Stop,
    ) -> Self {
        let mut shared = ThreadContext::new(live, thread, proxy_log, services);
        shared.set_now(now);
        Self {
            http: HttpRelay::new(now, &shared),
            tcp: TcpRelay::new(now, &shared),
            shared,
            listeners: Vec::new(),
            stop,
            stop_state: StopState::Running,
            closed: false,
            revision: 0,
            rate_room_at: None,
            actions: VecDeque::new(),
        }
    }

    /// Adds a listener; the frontend of `bind` handles its clients.
    pub fn add_listener(&mut self, id: ListenerId, bind: BindId, layer: Option<MakeLayer>) {
        let config = &self.shared.live.config;
        if needs_destination(config, bind) {
            self.actions.push_back(Action::ReportLocal { listener: id });
        }
        let spoken = spoken(config, bind);
        self.listeners.push(BoundListener { id, bind, spoken, layer, open: true });
    }

    /// Number of connected clients.
    pub fn clients(&self) -> usize {
        self.http.clients() + self.tcp.clients()
    }

    /// True after a requested stop once the last client has left.
    pub fn is_done(&self) -> bool {
        self.stop_state != StopState::Running && self.clients() == 0
    }

    fn hard_stop_at(&self) -> Option<Instant> {
        match self.stop_state {
            StopState::Running => None,
            StopState::Stopping { hard_stop_at } => hard_stop_at,
        }
    }

    fn begin_soft_stop(&mut self, now: Instant) {
        let after = self.shared.live.config.global.hard_stop_after;
        let hard_stop_at = after.map(|after| now + after.min(FOREVER));
        self.stop_state = StopState::Stopping { hard_stop_at };
        self.shared.ending = true;
        for listener in self.listeners.drain(..) {
            self.actions.push_back(Action::Unlisten { listener: listener.id });
        }
        self.http.begin_soft_stop(now, &mut self.shared);
        self.tcp.begin_soft_stop(now, &mut self.shared);
    }

    /// Executes the orders of operators.
    fn execute_orders(&mut self, now: Instant) {
        let live = Arc::clone(&self.shared.live);
        for order in live.orders[self.shared.thread].take() {
            match order {
                Order::ListSessions { from, to } => {
                    to.0(OrderReply::Sessions(self.sessions(now, from)))
                }
                Order::CloseSession { socket, to } => {
                    let (relay, shared) = self.relay(socket);
                    let was_there = relay.close_client(now, shared, socket);
                    to.0(OrderReply::Closed(was_there));
                }
                Order::Clear { all } => live.counters(self.shared.thread, |it| it.clear(all)),
            }
        }
    }

    /// The next sessions after position `from`, of both modes.
    fn sessions(&self, now: Instant, from: Option<u64>) -> Vec<SessionView> {
        let mut sessions = self.http.sessions(now, from);
        sessions.extend(self.tcp.sessions(now, from));
        sessions.sort_by_key(SessionView::place);
        sessions.truncate(PORTION);
        sessions
    }

    /// Closes the listeners of frontends that were shut down.
    fn close_stopped(&mut self) {
        let frontends = &self.shared.live.frontends;
        let is_over =
            |it: &BoundListener| frontends[it.bind.frontend].stopped.load(Ordering::Relaxed);
        for listener in self.listeners.extract_if(.., |it| is_over(it)) {
            self.actions.push_back(Action::Unlisten { listener: listener.id });
        }
    }

    /// Opens and closes listeners by the limits and states of their frontends.
    fn regulate(&mut self, now: Instant) {
        let Self { shared, closed, rate_room_at, .. } = self;
        (*closed, *rate_room_at) = (false, None);
        for listener in &mut self.listeners {
            let admission = admission::check_or_wait(shared, listener.bind);
            match admission {
                Admission::Open | Admission::Paused => {}
                Admission::FrontendFull | Admission::ProcessFull => *closed = true,
                Admission::RateLimited(millis) => {
                    let at = now + Duration::from_millis(millis);
                    *rate_room_at = Some(rate_room_at.map_or(at, |known| known.min(at)));
                }
            }
            let open = admission == Admission::Open;
            if open != listener.open {
                listener.open = open;
                self.actions.push_back(Action::Accept { listener: listener.id, on: open });
            }
        }
    }

    fn relay(&mut self, socket: SocketId) -> (&mut dyn Relay, &mut ThreadContext) {
        match is_http(socket) {
            true => (&mut self.http, &mut self.shared),
            false => (&mut self.tcp, &mut self.shared),
        }
    }
}

/// The mode of a listener's connections. A frontend of mode tcp handles HTTP if all of its
/// backends have mode http (HAProxy's manual, `mode`).
fn spoken(config: &Config, bind: BindId) -> Mode {
    let frontend = &config.frontends[bind.frontend];
    let named = |target: &BackendTarget| match target {
        BackendTarget::Backend(backend) => Some(*backend),
        BackendTarget::Named(_) => None, // known only at run time
    };
    let ruled = frontend.use_backends.iter().map(|rule| named(&rule.target));
    let mut all = ruled.chain(frontend.default_backend.map(Some)).peekable();
    let some = all.peek().is_some();
    let is_http =
        |it: Option<BackendId>| it.is_some_and(|it| config.backends[it.0].mode == Mode::Http);
    match some && all.all(is_http) {
        true => Mode::Http,
        false => frontend.mode,
    }
}

fn is_http(socket: SocketId) -> bool {
    matches!(socket.index % STRIDE, HTTP_CLIENTS | HTTP_SERVERS)
}

impl Engine for Proxy {
    const SENDS_EARLY: bool = true;

    fn accept(&mut self, now: Instant, from: Accepted) -> Option<SocketId> {
        let Accepted { listener, peer, local } = from;
        self.shared.set_now(now);
        self.shared.local = local;
        let known = self.listeners.iter().find(|known| known.id == listener)?;
        let layer = match &known.layer {
            None => None,
            Some(make) => Some(make(peer)?),
        };
        let bind = known.bind;
        let accepted = match known.spoken {
            Mode::Http => self.http.accept(now, &mut self.shared, bind, peer, layer),
            Mode::Tcp => self.tcp.accept(now, &mut self.shared, bind, peer, layer),
        };
        self.shared.local = None;
        if admission::check(&self.shared, bind) != Admission::Open {
            self.regulate(now);
        }
        accepted
    }

    #[inline]
    fn handle(&mut self, now: Instant, event: DriverEvent<'_>) {
        self.shared.set_now(now);
        match event {
            DriverEvent::Socket(socket, event) => {
                let (relay, shared) = self.relay(socket);
                relay.handle(now, shared, socket, event);
            }
            DriverEvent::Timeout => self.handle_timeout(now),
            DriverEvent::Wake => self.handle_wake(now),
            DriverEvent::AcceptFailed(listener, error) => {
                if let Some(known) = self.listeners.iter().find(|known| known.id == listener) {
                    accept_failure::log_shortage(&mut self.shared, now, known.bind.frontend, error);
                }
            }
            // Its addresses are known, and it does not measure the time of sends.
            DriverEvent::Resolved(..) | DriverEvent::Flush => {}
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        let own = self.actions.pop_front();
        let action = own.or_else(|| self.http.poll_action()).or_else(|| self.tcp.poll_action());
        if action.is_none()
            && self.closed
            && self.shared.left.take()
            && let Some(now) = self.shared.now()
        {
            self.regulate(now); // a client that left has made room
            return self.actions.pop_front();
        }
        if action.is_none() {
            self.shared.proxy_log.flush();
        }
        action
    }

    fn poll_transmit(&mut self, socket: SocketId) -> Option<Transmit<'_>> {
        match is_http(socket) {
            true => self.http.poll_transmit(socket),
            false => self.tcp.poll_transmit(socket),
        }
    }

    fn poll_passage(&mut self, socket: SocketId) -> Option<Passage> {
        match is_http(socket) {
            true => self.http.poll_passage(socket),
            false => self.tcp.poll_passage(socket),
        }
    }

    fn limit(&self, of: Limit) -> usize {
        match of {
            Limit::Unread(socket) if socket.index % STRIDE == HTTP_CLIENTS => {
                self.http.unread_max(socket)
            }
            Limit::Receive(socket) if socket.index % STRIDE == HTTP_SERVERS => {
                self.http.receive_max(socket)
            }
            Limit::Unread(_) | Limit::Receive(_) => of.default_value(),
            Limit::Accepts(listener) => {
                let known = self.listeners.iter().find(|known| known.id == listener);
                known.map_or(1, |known| admission::accepts_max(&self.shared, known.bind))
            }
            Limit::Pipes => pipes_max(&self.shared.live),
        }
    }

    fn pipe_counts(&self) -> Option<Arc<PipeCounts>> {
        Some(Arc::clone(&self.shared.live.pipes[self.shared.thread]))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let hard_stop_at = self.hard_stop_at().filter(|_| !self.is_done());
        let own = [hard_stop_at, self.rate_room_at].into_iter().flatten().min();
        [self.http.poll_timeout(), self.tcp.poll_timeout(), own].into_iter().flatten().min()
    }
}

impl Proxy {
    fn handle_timeout(&mut self, now: Instant) {
        self.http.handle_timeout(now, &mut self.shared);
        self.tcp.handle_timeout(now, &mut self.shared);
        if self.hard_stop_at().is_some_and(|deadline| deadline <= now) {
            self.http.close_all(now, &mut self.shared);
            self.tcp.close_all(now, &mut self.shared);
        }
        if self.rate_room_at.is_some_and(|at| at <= now) {
            self.regulate(now);
        }
    }

    fn handle_wake(&mut self, now: Instant) {
        if self.stop.is_set() && self.stop_state == StopState::Running {
            self.begin_soft_stop(now);
        }
        self.execute_orders(now);
        self.shared.woken = self.shared.live.take_woken(self.shared.thread);
        self.http.handle_wake(now, &mut self.shared);
        self.tcp.handle_wake(now, &mut self.shared);
        let revision = self.shared.live.revision();
        if std::mem::replace(&mut self.revision, revision) != revision {
            self.close_stopped();
            self.regulate(now);
        } else if self.closed {
            self.regulate(now); // a client that left has made room
        }
    }
}

/// Longer than any proxy runs; keeps `Instant` arithmetic from overflowing.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);
