//! The engine of the thread that answers at runtime sockets.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fulmar_engine::{Action, End, Engine, Handler, Links, ListenerId, SocketId, Stop, Timeouts};
use fulmar_haproxy::model::Level;
use fulmar_proto::{Connection, Event, Input, Raw, RawConnection, Transmit};

use super::console::Console;
use super::world::World;

/// Answers at runtime sockets.
#[derive(Debug)]
pub struct Runtime {
    links: Links<RawConnection, Console>,
    world: World,
    levels: Vec<(ListenerId, Level)>,
    timeout: Duration,
    stop: Stop,
    /// A soft stop has begun; when it becomes a hard one.
    ending: Option<Option<Instant>>,
    is_cut: bool, // the hard one has begun
    actions: VecDeque<Action>,
}

impl Runtime {
    /// Nobody is listened to yet.
    pub fn new(now: Instant, world: World, stop: Stop) -> Self {
        let timeout = world.live.config.global.stats_timeout.unwrap_or(TIMEOUT);
        let links = Links::new(now, Timeouts::default(), 0, 1);
        let (levels, actions) = (Vec::new(), VecDeque::new());
        Self { links, world, levels, timeout, stop, ending: None, is_cut: false, actions }
    }

    /// Who connects to this listener may do what `level` allows.
    pub fn add_listener(&mut self, listener: ListenerId, level: Level) {
        self.levels.push((listener, level));
    }

    /// The world it answers for.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// True once a stop was asked for and nobody is connected any more: who watches how a soft stop
    /// goes stays until then, or until the hard one.
    pub fn is_done(&self) -> bool {
        self.ending.is_some() && (self.links.is_empty() || self.is_cut)
    }

    /// From now on the sockets are those of the next process.
    fn begin_to_end(&mut self, now: Instant) {
        let after = self.world.live.config.global.hard_stop_after;
        self.ending = Some(after.and_then(|after| now.checked_add(after)));
        let listeners = self.levels.drain(..);
        self.actions.extend(listeners.map(|(listener, _)| Action::Unlisten { listener }));
    }

    /// Who says nothing, and hears nothing, for so long is closed.
    fn rest(&mut self, now: Instant, socket: SocketId) {
        let deadline = self.links.get(socket).map(|(_, console)| now + console.timeout());
        self.links.set_timer(socket, deadline);
    }
}

struct Ears<'a> {
    world: &'a World,
}

impl Handler<RawConnection, Console> for Ears<'_> {
    fn handle(
        &mut self,
        now: Instant,
        _: SocketId,
        (connection, console): (&mut RawConnection, &mut Console),
        event: Event<'_, Raw>,
    ) {
        match event {
            Event::Data { bytes, .. } => {
                console.hear(&bytes);
                connection.release(RawConnection::STREAM, bytes.len());
            }
            Event::End { .. } => console.end(),
            _ => {}
        }
        console.work(now, self.world, connection);
        connection.set_held(!console.is_idle(connection));
    }

    fn handle_timer(
        &mut self,
        _: Instant,
        _: SocketId,
        (connection, _): (&mut RawConnection, &mut Console),
    ) {
        connection.reset(RawConnection::STREAM, 0);
    }

    fn handle_gone(&mut self, _: Instant, _: SocketId, _: Console, _: End) {}
}

impl Engine for Runtime {
    fn handle_accepted(
        &mut self,
        now: Instant,
        listener: ListenerId,
        _: SocketAddr,
    ) -> Option<SocketId> {
        let level = self.levels.iter().find(|known| known.0 == listener)?.1;
        if self.links.len() >= CONSOLES_MAX {
            return None;
        }
        let console = Console::new(level, self.timeout);
        let mut ears = Ears { world: &self.world };
        let socket = self.links.insert(now, None, RawConnection::default(), console, &mut ears);
        if let Some((_, console)) = self.links.get_mut(socket) {
            console.set_name(socket.to_bits());
        }
        self.rest(now, socket);
        Some(socket)
    }

    fn handle_connected(&mut self, _: Instant, _: SocketId) {}

    fn handle_input(&mut self, now: Instant, socket: SocketId, input: &mut Input<'_>) {
        self.links.handle_input(now, socket, input, &mut Ears { world: &self.world });
        self.rest(now, socket);
    }

    fn handle_sent(&mut self, now: Instant, socket: SocketId, bytes: u64) {
        self.links.handle_sent(now, socket, bytes, &mut Ears { world: &self.world });
        if bytes > 0 {
            self.rest(now, socket);
        }
    }

    fn handle_hangup(&mut self, now: Instant, socket: SocketId) {
        self.links.handle_hangup(now, socket);
    }

    fn handle_failed(&mut self, now: Instant, socket: SocketId, error: io::Error) {
        self.links.handle_failed(now, socket, error, &mut Ears { world: &self.world });
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.links.handle_timeout(now, &mut Ears { world: &self.world });
        self.is_cut |= self.ending.flatten().is_some_and(|deadline| deadline <= now);
    }

    fn handle_wake(&mut self, now: Instant) {
        if self.stop.is_set() && self.ending.is_none() {
            self.begin_to_end(now);
        }
        for (console, answer) in self.world.take_news() {
            let socket = SocketId::from_bits(console);
            let Some((connection, console)) = self.links.get_mut(socket) else { continue };
            console.hear_news(now, &self.world, answer, connection);
            connection.set_held(!console.is_idle(connection));
            self.links.touch(now, socket, &mut Ears { world: &self.world });
            self.rest(now, socket);
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front().or_else(|| self.links.poll_action())
    }

    fn poll_transmit(&mut self, socket: SocketId) -> Option<Transmit<'_>> {
        self.links.poll_transmit(socket)
    }

    fn is_last(&self, socket: SocketId) -> bool {
        self.links.is_last(socket)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let ending = self.ending.flatten().filter(|_| !self.is_cut);
        [self.links.poll_timeout(), ending].into_iter().flatten().min()
    }
}

/// `stats timeout`, if nothing is said (HAProxy's configuration manual, §3.1).
const TIMEOUT: Duration = Duration::from_secs(10);
/// Scripts come one after the other; more at a time is a mistake that must not cost memory.
const CONSOLES_MAX: usize = 256;
