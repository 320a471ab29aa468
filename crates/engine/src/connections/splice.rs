//! Bytes that go past their connection: straight from a socket into a file, or through a pipe to
//! another socket.

use std::io;
use std::time::Instant;

use bytes::BytesMut;
use fulmar_proto::{Connection, Input, Piped};

use crate::connections::{ConnectionEvent, Connections, End, Handler};
use crate::{Action, CloseKind, SocketId};

impl<C: Connection, T> Connections<C, T> {
    /// How many of the next bytes on `socket` may go straight into a file: none if a layer has to
    /// open them first. Bounds what [`crate::Engine::poll_passage`] returns.
    pub fn direct(&self, socket: SocketId) -> u64 {
        match self.slots.get(socket) {
            // What a layer has on the wire are not the body's bytes.
            Some(entry) if entry.transport.is_none() => entry.connection.direct(),
            _ => 0,
        }
    }

    /// Asks the driver to move them, if there are any; the owner tells where with
    /// [`crate::Engine::poll_passage`]. Bytes may come as `Data` all the same, at any time: what
    /// arrived together with the head does, and so does everything where splicing is impossible.
    pub fn splice(&mut self, socket: SocketId) {
        if self.direct(socket) > 0 {
            self.outputs.actions.push_back(Action::Splice { socket });
        }
    }

    /// How many of the next bytes on `socket` may come in a pipe: none if a layer has to open them
    /// first. Bounds what [`crate::Engine::poll_passage`] returns.
    pub fn passing(&self, socket: SocketId) -> u64 {
        match self.slots.get(socket) {
            Some(entry) if entry.transport.is_none() => entry.connection.passing(),
            _ => 0,
        }
    }

    /// True if what is sent on `socket` may be in a pipe: nothing has to see it first.
    pub fn takes_pipes(&self, socket: SocketId) -> bool {
        self.slots.get(socket).is_some_and(|entry| entry.transport.is_none())
    }

    /// Asks the driver for what comes next in pipes, if it may come so. It may come as `Data` all
    /// the same, at any time, and does from the moment on that too little comes at a time to be
    /// worth it: then it can be asked for again.
    pub fn pass(&mut self, socket: SocketId) {
        if self.passing(socket) > 0 {
            self.outputs.actions.push_back(Action::Splice { socket });
        }
    }

    /// Bytes have come in a pipe: as good as `Data`, which has to be released.
    pub(super) fn handle_piped(
        &mut self,
        now: Instant,
        socket: SocketId,
        piped: Piped,
        handler: &mut impl Handler<C, T>,
    ) {
        let Some(entry) = self.slots.get_mut(socket) else { return };
        let bytes = piped.len;
        entry.connection.handle_passed(bytes);
        let entry = (&mut entry.connection, &mut entry.data);
        handler.handle(now, socket, entry, ConnectionEvent::Piped(piped));
        self.end_passage(now, socket, bytes, handler);
    }

    /// So many bytes of the body went into the file: as good as `Data` that was released.
    pub(super) fn handle_spliced(
        &mut self,
        now: Instant,
        socket: SocketId,
        bytes: u64,
        handler: &mut impl Handler<C, T>,
    ) {
        let Some(entry) = self.slots.get_mut(socket) else { return };
        entry.connection.handle_direct(bytes);
        self.end_passage(now, socket, bytes, handler);
    }

    /// The connection has been told of bytes that it has not seen: perhaps they were the last.
    fn end_passage(
        &mut self,
        now: Instant,
        socket: SocketId,
        bytes: u64,
        handler: &mut impl Handler<C, T>,
    ) {
        let Some(entry) = self.slots.get_mut(socket) else { return };
        let mut nothing = BytesMut::new();
        let mut nothing = Input::all(&mut nothing, false);
        while let Ok(Some(event)) = entry.connection.poll_event(&mut nothing, &mut self.scratch) {
            let entry = (&mut entry.connection, &mut entry.data);
            handler.handle(now, socket, entry, ConnectionEvent::Event(event)); // `End`
        }
        self.note_moved(now, socket, bytes, handler);
    }

    /// The file failed, and the bytes that were on their way to it are lost: so is their
    /// connection.
    pub(super) fn handle_file_failed(
        &mut self,
        now: Instant,
        socket: SocketId,
        error: io::Error,
        handler: &mut impl Handler<C, T>,
    ) {
        self.end(now, socket, End::File(error), CloseKind::Normal, handler);
    }
}
