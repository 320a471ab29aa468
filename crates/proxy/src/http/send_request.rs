//! Sends a request on a server's connection.

use std::time::Instant;

use fulmar_engine::{Exchange as ExchangeId, SocketId};
use fulmar_haproxy::model::HttpMode;
use fulmar_proto::h1::H1Client;
use fulmar_proto::h1::H1Server;
use fulmar_proto::{Connection, Request, UsageError, Version};
use smallvec::SmallVec;

use crate::http::credentials;
use crate::http::exchange::{ExchangeStage, HttpExchange, ServerStream};
use crate::http::forward_body;
use crate::http::server_conn::{ConnectionUsers, ServerConn};

/// Begins the exchange on an established, free connection. `host`: the server as written in the
/// configuration.
///
/// # Errors
/// Rules made the request invalid.
pub(super) fn begin(
    now: Instant,
    id: ExchangeId,
    client: &mut H1Server,
    exchange: &mut HttpExchange,
    (server, conn): (&mut H1Client, &mut ServerConn),
    (socket, host): (SocketId, &str),
) -> Result<(), UsageError> {
    debug_assert!(conn.client.is_none_or(|it| it == id), "a connection has one exchange");
    let stream = server.open().expect("a free connection takes a request");
    let mut added: SmallVec<[(&str, &[u8]); 3]> = SmallVec::new();
    if exchange.mode.is_some_and(|mode| mode != HttpMode::KeepAlive) {
        added.push(("Connection", b"close"));
    }
    if exchange.takes_trailers {
        added.push(("TE", b"trailers"));
    }
    let fields = exchange.request.fields.as_headers();
    if credentials::authenticates_connection(fields) {
        conn.users = ConnectionUsers::Authenticated;
    }
    // A request of HTTP/1.0 may lack Host; the forwarded one is HTTP/1.1, and requires it (RFC 9112
    // §3.2). The server's own address is used.
    if exchange.request.version == Version::Http10 && !fields.has("Host") {
        added.push(("Host", host.as_bytes()));
    }
    let head = Request {
        added: &added,
        expects_continue: exchange.expects_continue,
        ..Request::new(&exchange.request.method, &exchange.request.target, fields)
    };
    server.send_head(stream, head, exchange.len)?;
    drop(added);
    (conn.client, conn.sent, conn.response_begun) = (Some(id), false, false);
    conn.uses = conn.uses.saturating_add(1);
    exchange.times.connected.get_or_insert(now);
    exchange.handed_over = false;
    let up = ServerStream { socket, stream };
    exchange.stage = ExchangeStage::Waiting(up);
    forward_body::up(client, id.stream, exchange, server, stream);
    Ok(())
}
