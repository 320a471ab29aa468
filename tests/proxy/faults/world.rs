//! The proxy in a time of its own, and what must be left of it in the end: nothing.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fulmar_engine::{Accepted, Action, DriverEvent, Engine, Limit, Passage, SocketEvent, SocketId};
use fulmar_proto::Transmit;
use fulmar_proxy::{Live, Proxy, Stat};
use fulmar_sys as sys;
use fulmar_tests::loops::{Loop, OwnLoop};
use fulmar_tests::test_proxy::{LogLines, configured};

/// An engine whose time passes when it is told so.
#[derive(Debug)]
pub(crate) struct Timed {
    proxy: Proxy,
    now: Instant,
    /// How often it was told something.
    news: u64,
    /// Connections that do not stand yet.
    coming: HashSet<SocketId>,
}

/// The proxy, and all that looks at it.
#[derive(Debug)]
pub(crate) struct World {
    proxy: OwnLoop<Timed>,
    pub(crate) address: SocketAddr,
    pub(crate) lines: LogLines,
    live: Arc<Live>,
    quiet: u32,
}

impl World {
    pub(crate) fn new(text: &str) -> Self {
        let (proxy, live, lines, _) = configured(text);
        let timed = Timed { proxy, now: sys::now(), news: 0, coming: HashSet::new() };
        let (proxy, address) = OwnLoop::start(timed);
        Self { proxy, address, lines, live, quiet: 0 }
    }

    /// Turns the proxy; if nobody does anything any more, its time passes until something does.
    /// False if nothing will.
    pub(crate) fn turn(&mut self, others_moved: bool, somebody_is_stuck: bool) -> bool {
        let before = self.proxy.engine().news;
        // What is in the kernel is on its way on loopback, and there soon, but for what waits for
        // a delayed acknowledgement.
        let patience = match (self.quiet, somebody_is_stuck) {
            (0, _) => Duration::ZERO,
            (_, false) => Duration::from_millis(10),
            (_, true) => Duration::from_millis(50),
        };
        self.proxy.turn(patience);
        if others_moved || self.proxy.engine().news != before {
            self.quiet = 0;
            return true;
        }
        self.quiet += 1;
        // What the driver has in mind itself, it does in the time of the machine.
        let is_driving = self.proxy.deadline().is_some();
        let is_coming = !self.proxy.engine().coming.is_empty();
        let is_waiting = (is_driving || is_coming) && self.quiet < 20;
        self.quiet < 3 || is_waiting || self.pass()
    }

    /// Until the next deadline; false if there is none.
    fn pass(&mut self) -> bool {
        let Some(next) = self.proxy.engine().proxy.poll_timeout() else { return false };
        self.quiet = 0;
        self.proxy.engine().coming.clear(); // who was closed before it was opened
        self.proxy.with(|timed, _| {
            timed.now = timed.now.max(next);
            timed.proxy.handle(timed.now, DriverEvent::Timeout);
        });
        true
    }

    pub(crate) fn clients(&mut self) -> usize {
        self.proxy.engine().proxy.clients()
    }

    /// Everything that was counted up is counted down again, and every place is free.
    pub(crate) fn assert_idle(&self, what: &str) {
        let gauges = [Stat::Sessions, Stat::Queued, Stat::IdleConnections];
        let name = |kind: &str, name: &str| format!("{what}: {kind} {name}");
        let check = |whose: &str, counters: &fulmar_proxy::Counters| {
            for gauge in gauges {
                assert_eq!(counters.get(gauge), 0, "{whose}: {gauge:?}");
            }
        };
        for frontend in &self.live.frontends {
            check(&name("frontend", &frontend.config.name), &frontend.counters[0]);
            for listener in &frontend.listeners {
                check(&name("a listener of", &frontend.config.name), &listener[0]);
            }
        }
        for backend in &self.live.backends {
            check(&name("backend", &backend.config.name), &backend.counters[0]);
            assert_eq!((backend.group.queued(), backend.group.load()), (0, 0), "{what}");
            for (at, server) in backend.servers.iter().enumerate() {
                let whose = name(&backend.config.name, &server.config.name);
                check(&whose, &server.counters[0]);
                let member = &backend.group.members()[at];
                assert_eq!((member.queued(), member.sessions()), (0, 0), "{whose}");
            }
        }
    }
}

/// Descriptors of this process.
pub(crate) fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

impl Engine for Timed {
    const SENDS_EARLY: bool = Proxy::SENDS_EARLY;

    fn accept(&mut self, _: Instant, from: Accepted) -> Option<SocketId> {
        self.news += 1;
        self.proxy.accept(self.now, from)
    }

    fn handle(&mut self, _: Instant, event: DriverEvent<'_>) {
        match &event {
            DriverEvent::Timeout => return, // in its own time
            DriverEvent::Socket(socket, SocketEvent::Connected | SocketEvent::Failed(_)) => {
                self.coming.remove(socket);
            }
            _ => {}
        }
        let is_news = !matches!(
            event,
            DriverEvent::Wake
                | DriverEvent::Socket(_, SocketEvent::Unread | SocketEvent::Loaded(_))
        );
        self.news += u64::from(is_news);
        self.proxy.handle(self.now, event);
    }

    fn poll_action(&mut self) -> Option<Action> {
        let action = self.proxy.poll_action();
        match &action {
            Some(Action::Connect { socket, .. }) => self.coming.insert(*socket),
            Some(Action::Close { socket, .. }) => self.coming.remove(socket),
            _ => false,
        };
        action
    }

    fn poll_transmit(&mut self, socket: SocketId) -> Option<Transmit<'_>> {
        self.proxy.poll_transmit(socket)
    }

    fn poll_passage(&mut self, socket: SocketId) -> Option<Passage> {
        self.proxy.poll_passage(socket)
    }

    fn limit(&self, of: Limit) -> usize {
        self.proxy.limit(of)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None // its time is not that of its driver
    }
}
