//! The engine of the thread that serves runtime sockets.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fulmar_engine::{
    Accepted, Action, ConnectionEvent, Connections, DriverEvent, End, Engine, Handler, ListenerId,
    SocketEvent, SocketId, Stop, Timeouts,
};
use fulmar_haproxy::model::SocketLevel;
use fulmar_proto::{Connection, Event, Raw, RawConnection, Reset, Transmit};

use super::console::Console;
use super::context::RuntimeContext;

/// Serves runtime sockets.
#[derive(Debug)]
pub struct Runtime {
    connections: Connections<RawConnection, Console>,
    context: RuntimeContext,
    levels: Vec<(ListenerId, SocketLevel)>,
    timeout: Duration,
    stop: Stop,
    /// A soft stop has begun; the deadline of the hard stop, if one is configured.
    ending: Option<Option<Instant>>,
    is_cut: bool, // the hard stop has begun
    actions: VecDeque<Action>,
}

impl Runtime {
    /// An engine without listeners.
    pub fn new(now: Instant, context: RuntimeContext, stop: Stop) -> Self {
        let timeout = context.live.config.global.stats_timeout.unwrap_or(TIMEOUT);
        let connections = Connections::new(now, Timeouts::default(), 0, 1);
        let (levels, actions) = (Vec::new(), VecDeque::new());
        Self { connections, context, levels, timeout, stop, ending: None, is_cut: false, actions }
    }

    /// Connections of this listener have this level.
    pub fn add_listener(&mut self, listener: ListenerId, level: SocketLevel) {
        self.levels.push((listener, level));
    }

    /// The proxy and process that commands act on.
    pub fn context(&self) -> &RuntimeContext {
        &self.context
    }

    /// True after a stop when no client is connected, or after the hard stop. Clients may watch a
    /// soft stop until then.
    pub fn is_done(&self) -> bool {
        self.ending.is_some() && (self.connections.is_empty() || self.is_cut)
    }

    /// Closes the listeners: the sockets now belong to the next process.
    fn begin_stop(&mut self, now: Instant) {
        let after = self.context.live.config.global.hard_stop_after;
        self.ending = Some(after.and_then(|after| now.checked_add(after)));
        let listeners = self.levels.drain(..);
        self.actions.extend(listeners.map(|(listener, _)| Action::Unlisten { listener }));
    }

    /// Restarts the idle timeout of a connection.
    fn restart_timeout(&mut self, now: Instant, socket: SocketId) {
        let deadline = self.connections.get(socket).map(|(_, console)| now + console.timeout());
        self.connections.set_timer(socket, deadline);
    }
}

struct ConsoleHandler<'a> {
    context: &'a RuntimeContext,
}

impl Handler<RawConnection, Console> for ConsoleHandler<'_> {
    fn handle(
        &mut self,
        now: Instant,
        _: SocketId,
        (connection, console): (&mut RawConnection, &mut Console),
        event: ConnectionEvent<'_, Raw>,
    ) {
        match event {
            ConnectionEvent::Event(event) => self.handle_event(now, (connection, console), event),
            ConnectionEvent::Timer => connection.reset(RawConnection::STREAM, Reset::Cancelled),
            ConnectionEvent::Established { .. }
            | ConnectionEvent::Replaced { .. }
            | ConnectionEvent::Received
            | ConnectionEvent::InputUsed
            | ConnectionEvent::Sent
            | ConnectionEvent::Ending
            | ConnectionEvent::DeadlinePassed { .. }
            | ConnectionEvent::Fault { .. } => {}
            ConnectionEvent::Piped(_) => unreachable!("no pipe was requested"),
        }
    }

    fn handle_closed(&mut self, _: Instant, _: SocketId, _: Console, _: End) {}
}

impl ConsoleHandler<'_> {
    fn handle_event(
        &self,
        now: Instant,
        (connection, console): (&mut RawConnection, &mut Console),
        event: Event<'_, Raw>,
    ) {
        match event {
            Event::Data { bytes, .. } => {
                console.push_input(&bytes);
                connection.release(RawConnection::STREAM, bytes.len());
            }
            Event::End { .. } => console.close_input(),
            _ => {}
        }
        console.run_commands(now, self.context, connection);
        connection.set_held(RawConnection::STREAM, !console.is_idle(connection));
    }
}

impl Engine for Runtime {
    fn accept(&mut self, now: Instant, from: Accepted) -> Option<SocketId> {
        let listener = from.listener;
        let level = self.levels.iter().find(|known| known.0 == listener)?.1;
        if self.connections.len() >= CONSOLES_MAX {
            return None;
        }
        let console = Console::new(level, self.timeout);
        let mut ears = ConsoleHandler { context: &self.context };
        let socket =
            self.connections.insert(now, None, RawConnection::default(), console, &mut ears);
        if let Some((_, console)) = self.connections.get_mut(socket) {
            console.set_name(socket.to_bits());
        }
        self.restart_timeout(now, socket);
        Some(socket)
    }

    fn handle(&mut self, now: Instant, event: DriverEvent<'_>) {
        match event {
            DriverEvent::Socket(socket, event) => {
                let moves = match event {
                    SocketEvent::Input(_) => true,
                    SocketEvent::Sent(bytes) => bytes > 0,
                    _ => false,
                };
                self.connections.handle(
                    now,
                    socket,
                    event,
                    &mut ConsoleHandler { context: &self.context },
                );
                if moves {
                    self.restart_timeout(now, socket);
                }
            }
            DriverEvent::Timeout => {
                self.connections
                    .handle_timeout(now, &mut ConsoleHandler { context: &self.context });
                self.is_cut |= self.ending.flatten().is_some_and(|deadline| deadline <= now);
            }
            DriverEvent::Wake => self.handle_wake(now),
            // Consoles that cannot be accepted wait.
            DriverEvent::AcceptFailed(..) | DriverEvent::Resolved(..) | DriverEvent::Flush => {}
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front().or_else(|| self.connections.poll_action())
    }

    fn poll_transmit(&mut self, socket: SocketId) -> Option<Transmit<'_>> {
        self.connections.poll_transmit(socket)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let ending = self.ending.flatten().filter(|_| !self.is_cut);
        [self.connections.poll_timeout(), ending].into_iter().flatten().min()
    }
}

impl Runtime {
    fn handle_wake(&mut self, now: Instant) {
        if self.stop.is_set() && self.ending.is_none() {
            self.begin_stop(now);
        }
        for (console, answer) in self.context.take_answers() {
            let socket = SocketId::from_bits(console);
            let Some((connection, console)) = self.connections.get_mut(socket) else { continue };
            console.handle_answer(now, &self.context, answer, connection);
            connection.set_held(RawConnection::STREAM, !console.is_idle(connection));
            self.connections.touch(now, socket, &mut ConsoleHandler { context: &self.context });
            self.restart_timeout(now, socket);
        }
    }
}

/// Default of `stats timeout` (HAProxy's configuration manual, §3.1).
const TIMEOUT: Duration = Duration::from_secs(10);
/// Scripts usually connect one after the other; the limit bounds memory.
const CONSOLES_MAX: usize = 256;
