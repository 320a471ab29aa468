//! Requests that are encoded once and sent any number of times.

use bytes::Bytes;

use crate::body_len::BodyLen;
use crate::errors::UsageError;
use crate::event::{Client, StreamId};
use crate::head::Request;
use crate::outgoing;
use crate::target::UrlScheme;
use crate::transmit::Segment;

use super::H2;
use super::hpack::HpackEncoder;
use super::send::PseudoFields;
use super::stream::{SendHalf, StreamPurpose};
use super::table::Turn;

/// A request for any number of streams of any connections: nothing is encoded, checked or allocated
/// when it is sent. [`crate::h1::EncodedRequest`] is the same for HTTP/1.
///
/// Its header block refers to the static table and has literals without indexing, so it does not
/// depend on the dynamic table of a connection.
///
/// ```
/// use fulmar_proto::h2::{H2, RequestBlock};
/// use fulmar_proto::{Client, Connection, HeaderBuf, Request, UrlScheme};
///
/// let mut headers = HeaderBuf::new();
/// headers.push("Host", b"example.com").unwrap();
/// let request = Request::new(b"GET", b"/", headers.as_headers());
/// let request = RequestBlock::new(&request, b"", UrlScheme::Http).unwrap();
///
/// let mut connection = H2::<Client>::default();
/// let stream = connection.open().unwrap();
/// connection.send_encoded(stream, &request).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct RequestBlock {
    block: Box<[u8]>,
    body: Bytes,
    purpose: StreamPurpose,
    requests_close: bool,
}

impl RequestBlock {
    /// Encodes a request and the whole of its body.
    ///
    /// # Errors
    /// [`UsageError::BadHead`] if the method, the target or a field is not valid, or if the method
    /// is CONNECT.
    pub fn new(head: &Request<'_>, body: &[u8], scheme: UrlScheme) -> Result<Self, UsageError> {
        let len = match body.len() as u64 {
            0 => BodyLen::Empty,
            n => BodyLen::Exact(n),
        };
        if head.method == b"CONNECT" {
            return Err(UsageError::BadHead);
        }
        outgoing::check_request(head, len)?;
        let hop = outgoing::survey(head.headers, head.added)?;
        let mut block = Vec::new();
        let mut encoder = HpackEncoder::without_table();
        PseudoFields::new(head, scheme)?.encode_request(&mut encoder, &mut block, head, len);
        Ok(Self {
            block: block.into(),
            body: Bytes::copy_from_slice(body),
            purpose: StreamPurpose::of(head.method),
            requests_close: hop.close,
        })
    }
}

impl H2<Client> {
    /// The request of `stream` was sent with HTTP/1.1, and has upgraded the connection (RFC 7540
    /// §3.2): only its response is outstanding. It is the first stream.
    ///
    /// # Errors
    /// As for `send_head`, and [`UsageError::NoSuchStream`] for another stream.
    pub fn begin_upgraded(&mut self, stream: StreamId, method: &[u8]) -> Result<(), UsageError> {
        if stream != StreamId(1) {
            return Err(UsageError::NoSuchStream);
        }
        let slot = self.slot_for_head(stream)?;
        let stream = &mut self.streams[slot];
        stream.purpose = StreamPurpose::of(method);
        stream.send = SendHalf::Ended;
        stream.moved = true;
        Ok(())
    }

    /// Queues a whole request in one step: head, body and end. It does not wait for a 100.
    ///
    /// # Errors
    /// As for `send_head`; nothing was queued.
    pub fn send_encoded(
        &mut self,
        stream: StreamId,
        request: &RequestBlock,
    ) -> Result<(), UsageError> {
        let slot = self.slot_for_head(stream)?;
        let ends = request.body.is_empty();
        self.queue_block(slot, ends, |_, out| out.extend_from_slice(&request.block));
        let stream = &mut self.streams[slot];
        stream.purpose = request.purpose;
        stream.send = if ends { SendHalf::Ended } else { SendHalf::Queued };
        match ends {
            true => self.budget.refill(&self.limits),
            false => {
                stream.queue.push(Segment::Bytes(request.body.clone()));
                self.streams.update_ready(slot, Turn::Last);
            }
        }
        if request.requests_close {
            self.queue_close();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Connection;
    use crate::head::Headers;

    #[test]
    fn the_last_id_of_a_stream_ends_the_connection() {
        let next_opened = StreamId(0x7fff_fffd);
        let mut connection = H2::<Client> { next_opened, ..H2::default() };
        let request = Request::new(b"GET", b"/", Headers::EMPTY);
        let request = RequestBlock::new(&request, b"", UrlScheme::Http).unwrap();
        assert_eq!(connection.vacancy(), 1);
        let stream = connection.open().unwrap();
        connection.send_encoded(stream, &request).unwrap();
        assert_eq!((connection.vacancy(), connection.open()), (0, None));
        assert!(!connection.io_state().finished);
        connection.reset(stream, crate::connection::Reset::Cancelled);
        assert!(connection.io_state().finished);
    }
}
