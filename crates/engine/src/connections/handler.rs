//! The receiver of the events of connections.

use std::any::Any;
use std::time::Instant;

use fulmar_proto::{Connection, Event, PeerError, Piped, Role};

use crate::SocketId;
use crate::connections::End;

/// Receives the events of the connections of a [`crate::Connections`].
///
/// `handle` is called while its connection is borrowed, so the handler can send on it at once. The
/// engine then applies what the connection requires: reading, sending, its deadline.
///
/// An implementation matches on the event, names each variant, and calls one function for each that
/// it uses. With `#[inline(always)]` on `handle` the match costs nothing: every call site passes
/// one known variant.
pub trait Handler<C: Connection, T> {
    /// Handles an event of the connection of `socket`, and of the data attached to it.
    fn handle(
        &mut self,
        now: Instant,
        socket: SocketId,
        entry: (&mut C, &mut T),
        event: ConnectionEvent<'_, C::Role>,
    );

    /// The connection is closed, for the reason `end`. Its name is stale from now on. Called once
    /// for each connection, but not for one that its owner closes with
    /// [`crate::Connections::close`].
    fn handle_closed(&mut self, now: Instant, socket: SocketId, data: T, end: End);
}

/// What happened on a connection.
#[derive(Debug)]
pub enum ConnectionEvent<'a, R: Role> {
    /// The connection is established, and so is every layer below it. Delivered once, before
    /// anything is sent.
    Established {
        /// The description of the layer ([`fulmar_proto::Layer::info`]), if there is a layer.
        info: Option<&'a dyn Any>,
    },
    /// A layer has done its work and is about to be replaced, for example after a PROXY header.
    /// Delivered before `Established`, and only if the layer has a description.
    Replaced {
        /// The description of the layer ([`fulmar_proto::Layer::info`]).
        info: &'a dyn Any,
    },
    /// Bytes for the connection have arrived, above all layers. Delivered before their events.
    Received,
    /// A step of a received message ([`Connection::poll_event`]).
    Event(Event<'a, R>),
    /// All events of an input have been delivered, and their effects are not applied yet. What is
    /// sent now leaves with what the events caused. Not delivered for bytes that went through a
    /// pipe or into a file.
    InputUsed,
    /// Bytes were sent, perhaps none. The layer below, if there is one, may hold some of them.
    Sent,
    /// The connection ends, and [`Handler::handle_closed`] follows: the last chance to read its
    /// state, such as [`Connection::unsent`].
    Ending,
    /// The next bytes of a body or a tunnel, in a pipe. Delivered only after
    /// [`crate::Connections::splice`]. They have to be released, as those of `Event::Data`.
    Piped(Piped),
    /// The time that was set with [`crate::Connections::set_timer`] has come.
    Timer,
    /// The deadline of the connection's phase has passed. Without an extension the connection ends
    /// with [`End::TimedOut`].
    DeadlinePassed {
        /// False; set to true, the connection continues and the deadline starts again.
        extend: &'a mut bool,
    },
    /// The peer broke the protocol. The reply to it, if one is possible, is queued; `handle_closed`
    /// follows later.
    Fault {
        /// The received bytes that begin with the malformed message. Other bytes may follow it.
        message: &'a [u8],
        /// What is wrong with it.
        error: PeerError,
    },
}
