//! Bodies that go straight from a socket into a file, past their connection.

use std::io;
use std::time::Instant;

use bytes::BytesMut;
use fulmar_proto::{Connection, Input};

use crate::links::{End, Handler, Links};
use crate::{Action, SocketId};

impl<C: Connection, T> Links<C, T> {
    /// How many of the next bytes on `socket` may go straight into a file: none if a layer has to
    /// open them first. Bounds what [`crate::Engine::poll_splice`] answers.
    pub fn direct(&self, socket: SocketId) -> u64 {
        match self.slots.get(socket) {
            // What a layer has on the wire are not the body's bytes.
            Some(link) if link.between.is_none() => link.connection.direct(),
            _ => 0,
        }
    }

    /// Asks the driver to move them, if there are any; the owner tells where with
    /// [`crate::Engine::poll_splice`]. Bytes may come as `Data` all the same, at any time: what
    /// arrived together with the head does, and so does everything where splicing is impossible.
    pub fn splice(&mut self, socket: SocketId) {
        if self.direct(socket) > 0 {
            self.desk.actions.push_back(Action::Splice { socket });
        }
    }

    /// So many bytes of the body went into the file: as good as `Data` that was released.
    pub fn handle_spliced(
        &mut self,
        now: Instant,
        socket: SocketId,
        bytes: u64,
        on: &mut impl Handler<C, T>,
    ) {
        let Some(link) = self.slots.get_mut(socket) else { return };
        link.connection.handle_direct(bytes);
        let mut nothing = BytesMut::new();
        let mut nothing = Input::all(&mut nothing, false);
        while let Ok(Some(event)) = link.connection.poll_event(&mut nothing, &mut self.scratch) {
            on.handle(now, socket, (&mut link.connection, &mut link.data), event); // `End`
        }
        self.settle(now, socket, bytes, on);
    }

    /// The file failed, and the bytes that were on their way to it are lost: so is their
    /// connection.
    pub fn handle_splice_failed(
        &mut self,
        now: Instant,
        socket: SocketId,
        error: io::Error,
        on: &mut impl Handler<C, T>,
    ) {
        self.end(now, socket, End::File(error), on);
    }
}
