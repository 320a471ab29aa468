//! Who hears of what happens on links.

use std::any::Any;
use std::time::Instant;

use fulmar_proto::{Connection, Event, PeerError, Piped};

use crate::SocketId;
use crate::links::End;

/// Who hears of events.
pub trait Handler<C: Connection, T> {
    /// The connection stands and every layer below it is open: told once, before anything is
    /// sent. `info` is what [`fulmar_proto::Layer::info`] tells of the layer, if there is one.
    fn handle_established(
        &mut self,
        _now: Instant,
        _socket: SocketId,
        _link: (&mut C, &mut T),
        _info: Option<&dyn Any>,
    ) {
    }

    /// A layer of the connection has done its work and is about to go; told before the connection
    /// stands, and only if [`fulmar_proto::Layer::info`] tells something of it: `info`.
    fn handle_replaced(
        &mut self,
        _now: Instant,
        _socket: SocketId,
        _link: (&mut C, &mut T),
        _info: &dyn Any,
    ) {
    }

    /// Bytes have arrived for the connection, above all layers: told before its events.
    fn handle_heard(&mut self, _data: &mut T) {}

    /// Something arrived on `socket`; it may be answered on `connection` at once.
    fn handle(
        &mut self,
        now: Instant,
        socket: SocketId,
        link: (&mut C, &mut T),
        event: Event<'_, C::Role>,
    );

    /// The next bytes of a body or a tunnel have come in a pipe: only to who has asked for that
    /// with [`crate::Links::pass`]. They have to be released, as `Data`.
    fn handle_piped(
        &mut self,
        _now: Instant,
        _socket: SocketId,
        _link: (&mut C, &mut T),
        _piped: Piped,
    ) {
        unreachable!("who asks for pipes takes them");
    }

    /// The moment that [`crate::Links::set_timer`] named has come.
    fn handle_timer(&mut self, _now: Instant, _socket: SocketId, _link: (&mut C, &mut T)) {}

    /// Its deadline has passed. True: it goes on all the same, and the deadline begins again.
    /// False: it ends, with [`End::TimedOut`].
    fn handle_late(&mut self, _now: Instant, _socket: SocketId, _link: (&mut C, &mut T)) -> bool {
        false
    }

    /// The peer has broken the protocol, with the bytes that `message` begins with: behind them may
    /// stand others. It has been told so, if it can be; `handle_gone` follows in its time.
    fn handle_fault(
        &mut self,
        _now: Instant,
        _socket: SocketId,
        _link: (&mut C, &mut T),
        _message: &[u8],
        _error: PeerError,
    ) {
    }

    /// The connection is gone; its name is stale from now on.
    fn handle_gone(&mut self, now: Instant, socket: SocketId, data: T, end: End);
}
