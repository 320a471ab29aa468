//! Bodies between a client and a server: pieces are shared, not copied, and whoever is full makes
//! the other side wait. Of long bodies nothing is seen at all: they pass through pipes, unless
//! there is a layer on either side.

use fulmar_proto::{ClientConnection, Connection, Segment, ServerConnection, StreamId};

use crate::http::exchange::Exchange;

/// What has come of a request goes to its server, as far as that takes it. Once all of it has been
/// handed over, it is ended.
pub(super) fn up(
    client: &mut ServerConnection,
    asked: StreamId,
    exchange: &mut Exchange,
    server: &mut ClientConnection,
    stream: StreamId,
) {
    client.set_held(false);
    let body = &mut exchange.body;
    while server.room(stream) > 0
        && let Some(piece) = body.waiting.pop_front()
    {
        let size = size_of(&piece);
        body.passed = true;
        if server.send_data(stream, piece).is_err() {
            return server.reset(stream, 0); // the client says more than it declared: never so
        }
        match server.room(stream) {
            0 => body.owed += size,
            _ => client.release(asked, size),
        }
    }
    if body.ended && body.waiting.is_empty() && !exchange.handed_over {
        exchange.handed_over = true;
        if server.send_end(stream, body.trailers.as_headers()).is_err() {
            server.reset(stream, 0);
        }
    }
}

/// A piece of a response goes to the client. True if it wants more now.
pub(super) fn down(client: &mut ServerConnection, asked: StreamId, piece: Segment) -> bool {
    if client.send_data(asked, piece).is_err() {
        client.reset(asked, 0); // the server says more than it declared: never so
    }
    client.room(asked) > 0
}

/// How much of a body there is in a piece of it.
pub(super) fn size_of(piece: &Segment) -> usize {
    usize::try_from(piece.len()).expect("it was received")
}
