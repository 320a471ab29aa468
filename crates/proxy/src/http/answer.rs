//! Answers of our own.

use bytes::Bytes;
use fulmar_proto::{BodyLen, Connection, Headers, Response, Segment, ServerConnection};

use crate::http::exchange::Exchange;

/// Answers with a status, and the page that says what it means.
pub(super) fn status(client: &mut ServerConnection, exchange: &mut Exchange, status: u16) {
    let text = page(status);
    let added = [("Cache-Control", &b"no-cache"[..]), ("Content-Type", b"text/html")];
    let head = Response { added: &added, ..Response::new(status, Headers::EMPTY) };
    whole(client, exchange, head, Bytes::from(text));
}

/// Answers with all there is at once. Nothing has been answered so far.
pub(super) fn whole(
    client: &mut ServerConnection,
    exchange: &mut Exchange,
    head: Response<'_>,
    body: Bytes,
) {
    let stream = exchange.stream;
    let len = match body.len() as u64 {
        0 => BodyLen::Empty,
        len => BodyLen::Exact(len),
    };
    exchange.status = head.status;
    exchange.bytes_out += body.len() as u64;
    let sent = client
        .send_head(stream, head, len)
        .and_then(|()| client.send_data(stream, Segment::Bytes(body)))
        .and_then(|()| client.send_end(stream, Headers::EMPTY));
    if sent.is_err() {
        client.reset(stream, 0); // a rule has made fields that cannot be sent
    }
}

/// The page of a status, for people.
fn page(status: u16) -> String {
    let (title, text) = match status {
        400 => ("400 Bad request", "Your browser sent an invalid request."),
        401 => ("401 Unauthorized", "You need a valid user and password to access this content."),
        403 => ("403 Forbidden", "Request forbidden by administrative rules."),
        404 => ("404 Not Found", "The resource could not be found."),
        407 => ("407 Unauthorized", "You need a valid user and password to access this content."),
        408 => ("408 Request Time-out", "Your browser didn't send a complete request in time."),
        410 => ("410 Gone", "The resource is no longer available and will not be available again."),
        413 => ("413 Payload Too Large", "The request entity exceeds the maximum allowed."),
        429 => {
            ("429 Too Many Requests", "You have sent too many requests in a given amount of time.")
        }
        500 => ("500 Internal Server Error", "An internal server error occurred."),
        501 => (
            "501 Not Implemented",
            "The server does not support the functionality required to fulfill the request.",
        ),
        502 => ("502 Bad Gateway", "The server returned an invalid or incomplete response."),
        503 => ("503 Service Unavailable", "No server is available to handle this request."),
        504 => ("504 Gateway Time-out", "The server didn't respond in time."),
        _ => return String::new(),
    };
    format!("<html><body><h1>{title}</h1>\n{text}\n</body></html>\n")
}
