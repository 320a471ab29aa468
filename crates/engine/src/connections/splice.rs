//! Bytes that bypass their connection: from a socket into a file, or through a pipe to another
//! socket.

use std::io;
use std::time::Instant;

use bytes::BytesMut;
use fulmar_proto::{Connection, Input, Piped, SpliceTarget};

use crate::connections::{ConnectionEvent, Connections, End, Handler};
use crate::{Action, CloseKind, SocketId};

impl<C: Connection, T> Connections<C, T> {
    /// The number of the next bytes on `socket` that may go into `target` and bypass their
    /// connection; 0 if there is a layer. Limits the result of [`crate::Engine::poll_passage`].
    pub fn splice_len(&self, socket: SocketId, target: SpliceTarget) -> u64 {
        match self.slots.get(socket) {
            // Bytes on the wire of a layer are not those of the body.
            Some(entry) if entry.transport.is_none() => entry.connection.splice_len(target),
            _ => 0,
        }
    }

    /// Requests that the driver moves them, if there are any. The destination is the result of
    /// [`crate::Engine::poll_passage`]. Bytes may still arrive as `Data` at any time: those that
    /// arrive with the head, all where splicing is not supported, and all once too few arrive at a
    /// time for a pipe. Then pipes can be requested again.
    pub fn splice(&mut self, socket: SocketId, target: SpliceTarget) {
        if self.splice_len(socket, target) > 0 {
            self.outputs.actions.push_back(Action::Splice { socket });
        }
    }

    /// True if the bytes sent on `socket` may be in a pipe: no layer has to read them first.
    pub fn takes_pipes(&self, socket: SocketId) -> bool {
        self.slots.get(socket).is_some_and(|entry| entry.transport.is_none())
    }

    /// Bytes arrived in a pipe. They have to be released, as `Data`.
    pub(super) fn handle_piped(
        &mut self,
        now: Instant,
        socket: SocketId,
        piped: Piped,
        handler: &mut impl Handler<C, T>,
    ) {
        let Some(entry) = self.slots.get_mut(socket) else { return };
        let bytes = piped.len;
        entry.connection.handle_spliced(bytes, SpliceTarget::Pipe);
        let entry = (&mut entry.connection, &mut entry.data);
        handler.handle(now, socket, entry, ConnectionEvent::Piped(piped));
        self.end_passage(now, socket, bytes, handler);
    }

    /// Bytes of the body went into the file. They count as `Data` that was released.
    pub(super) fn handle_spliced(
        &mut self,
        now: Instant,
        socket: SocketId,
        bytes: u64,
        handler: &mut impl Handler<C, T>,
    ) {
        let Some(entry) = self.slots.get_mut(socket) else { return };
        entry.connection.handle_spliced(bytes, SpliceTarget::File);
        self.end_passage(now, socket, bytes, handler);
    }

    /// Delivers `End` if the bytes that bypassed the connection were the last of their message.
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

    /// The file failed. The bytes on their way to it are lost, so the connection ends.
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
