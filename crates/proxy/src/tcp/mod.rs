//! Relays of mode tcp: clients on one side, servers on the other.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use fulmar_engine::{Action, End, Endpoint, Handler, Links, SocketId, Timeouts};
use fulmar_proto::{
    ClientConnection, Connection, Event, FileRange, Input, Layer, ServerConnection, Transmit,
};

use crate::relay::{LANES, Relay, TCP_CLIENTS, TCP_SERVERS};
use crate::shared::{BindId, Shared};

/// Relays of mode tcp.
#[derive(Debug)]
pub(crate) struct Tcp {
    clients: Links<ServerConnection, ()>,
    servers: Links<ClientConnection, ()>,
}

impl Tcp {
    pub(crate) fn new(now: Instant, _: &Shared) -> Self {
        let timeouts = Timeouts::default();
        Self {
            clients: Links::new(now, timeouts, TCP_CLIENTS, LANES),
            servers: Links::new(now, timeouts, TCP_SERVERS, LANES),
        }
    }
}

/// Nobody is listened to.
struct Deaf;

impl<C: Connection> Handler<C, ()> for Deaf {
    fn handle(&mut self, _: Instant, _: SocketId, _: (&mut C, &mut ()), _: Event<'_, C::Role>) {}
    fn handle_gone(&mut self, _: Instant, _: SocketId, (): (), _: End) {}
}

impl Relay for Tcp {
    fn accept(
        &mut self,
        _now: Instant,
        _shared: &mut Shared,
        _bind: BindId,
        _peer: SocketAddr,
        _layer: Option<Box<dyn Layer>>,
    ) -> Option<SocketId> {
        None
    }

    fn handle_connected(&mut self, now: Instant, _: &mut Shared, socket: SocketId) {
        self.servers.handle_connected(now, socket, &mut Deaf);
    }

    fn handle_input(
        &mut self,
        now: Instant,
        _: &mut Shared,
        socket: SocketId,
        input: &mut Input<'_>,
    ) {
        match self.clients.owns(socket) {
            true => self.clients.handle_input(now, socket, input, &mut Deaf),
            false => self.servers.handle_input(now, socket, input, &mut Deaf),
        }
    }

    fn handle_sent(&mut self, now: Instant, _: &mut Shared, socket: SocketId, bytes: u64) {
        match self.clients.owns(socket) {
            true => self.clients.handle_sent(now, socket, bytes, &mut Deaf),
            false => self.servers.handle_sent(now, socket, bytes, &mut Deaf),
        }
    }

    fn handle_loaded(&mut self, now: Instant, _: &mut Shared, socket: SocketId, bytes: &[u8]) {
        match self.clients.owns(socket) {
            true => self.clients.handle_loaded(now, socket, bytes, &mut Deaf),
            false => self.servers.handle_loaded(now, socket, bytes, &mut Deaf),
        }
    }

    fn handle_hangup(&mut self, now: Instant, _: &mut Shared, socket: SocketId) {
        match self.clients.owns(socket) {
            true => self.clients.handle_hangup(now, socket),
            false => self.servers.handle_hangup(now, socket),
        }
    }

    fn handle_failed(&mut self, now: Instant, _: &mut Shared, socket: SocketId, error: io::Error) {
        match self.clients.owns(socket) {
            true => self.clients.handle_failed(now, socket, error, &mut Deaf),
            false => self.servers.handle_failed(now, socket, error, &mut Deaf),
        }
    }

    fn handle_timeout(&mut self, now: Instant, _: &mut Shared) {
        self.clients.handle_timeout(now, &mut Deaf);
        self.servers.handle_timeout(now, &mut Deaf);
    }

    fn begin_to_end(&mut self, _: Instant, _: &mut Shared) {}

    fn cut_all(&mut self, now: Instant, _: &mut Shared) {
        for socket in self.clients.sockets() {
            self.clients.cut(now, socket, &mut Deaf);
        }
    }

    fn clients(&self) -> usize {
        self.clients.len()
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.clients.poll_action().or_else(|| self.servers.poll_action())
    }

    fn poll_transmit(&mut self, socket: SocketId) -> Option<Transmit<'_>> {
        match self.clients.owns(socket) {
            true => self.clients.poll_transmit(socket),
            false => self.servers.poll_transmit(socket),
        }
    }

    fn is_last(&self, socket: SocketId) -> bool {
        self.clients.owns(socket) && self.clients.is_last(socket)
    }

    fn poll_endpoint(&mut self, socket: SocketId) -> Option<Endpoint> {
        self.servers.poll_endpoint(socket)
    }

    fn poll_load(&mut self, socket: SocketId) -> Option<FileRange> {
        match self.clients.owns(socket) {
            true => self.clients.poll_load(socket),
            false => self.servers.poll_load(socket),
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        [self.clients.poll_timeout(), self.servers.poll_timeout()].into_iter().flatten().min()
    }
}
