//! Forwards bodies between a client and a server. Pieces are shared, not copied; a full receiver
//! pauses the sender. Long bodies pass through pipes, unless either side has a layer.

use fulmar_proto::h1::H1Client;
use fulmar_proto::h1::H1Server;
use fulmar_proto::{Connection, Reset, Segment, StreamId};

use crate::http::exchange::HttpExchange;

/// Forwards the received body of a request, as far as the server has room. Sends the end after the
/// last byte.
pub(super) fn up(
    client: &mut H1Server,
    id: StreamId,
    exchange: &mut HttpExchange,
    server: &mut H1Client,
    stream: StreamId,
) {
    client.set_held(id, false);
    let body = &mut exchange.body;
    while server.room(stream) > 0
        && let Some(piece) = body.waiting.pop_front()
    {
        let size = size_of(&piece);
        body.passed = true;
        if server.send_data(stream, piece).is_err() {
            return server.reset(stream, Reset::Internal); // more than declared: cannot happen
        }
        match server.room(stream) {
            0 => body.owed += size,
            _ => client.release(id, size),
        }
    }
    if body.ended && body.waiting.is_empty() && !exchange.handed_over {
        exchange.handed_over = true;
        if server.send_end(stream, body.trailers.as_headers()).is_err() {
            server.reset(stream, Reset::Internal);
        }
    }
}

/// Forwards a piece of a response to the client. True if the client has room for more.
pub(super) fn down(client: &mut H1Server, id: StreamId, piece: Segment) -> bool {
    if client.send_data(id, piece).is_err() {
        client.reset(id, Reset::Internal); // more than declared: cannot happen
    }
    client.room(id) > 0
}

/// The length of a piece of a body.
pub(super) fn size_of(piece: &Segment) -> usize {
    usize::try_from(piece.len()).expect("it was received")
}
