//! Bodies: sends a request's body, and decodes a response's.

use bytes::{Buf, Bytes, BytesMut};
use fulmar_proto::{ClientConnection, Connection, Headers, Segment, StreamId, UsageError};
use fulmar_semantics::coding::{CodingError, ContentDecoder};

use crate::request::RequestBody;

/// The result of queueing a request's body.
pub(crate) enum Sent {
    /// All of it is queued: its length.
    All(u64),
    /// The application sends it.
    ByApplication,
}

/// Queues the body of a request after its head.
pub(crate) fn send(
    body: &RequestBody,
    connection: &mut ClientConnection,
    stream: StreamId,
) -> Result<Sent, UsageError> {
    let mut len = 0;
    let mut send = |segment: Segment| {
        len += segment.len();
        connection.send_data(stream, segment)
    };
    match body {
        RequestBody::Stream(_) => return Ok(Sent::ByApplication),
        RequestBody::Empty => {}
        RequestBody::Bytes(bytes) => send(bytes.clone().into())?,
        RequestBody::File(range) => send(range.clone().into())?,
        RequestBody::Segments(segments) => segments.iter().cloned().try_for_each(send)?,
    }
    connection.send_end(stream, Headers::EMPTY)?;
    Ok(Sent::All(len))
}

/// A piece of a body that is being decoded.
pub(crate) struct Decoding {
    decoder: ContentDecoder,
    input: Bytes,
    pending: bool,
    spare: BytesMut,
}

impl Decoding {
    pub(crate) fn new(decoder: ContentDecoder, input: Bytes) -> Self {
        Self { decoder, input, pending: true, spare: BytesMut::new() }
    }

    /// The next decoded piece; `None` if more input is needed.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, CodingError> {
        while self.pending {
            self.spare.resize(PIECE_SIZE, 0);
            let step = self.decoder.decode(&self.input, &mut self.spare)?;
            self.input.advance(step.consumed);
            self.pending = step.pending;
            if step.produced > 0 {
                return Ok(Some(self.spare.split_to(step.produced).freeze()));
            }
        }
        Ok(None)
    }

    /// The decoder, and the input that it has not consumed.
    pub(crate) fn into_parts(self) -> (Option<ContentDecoder>, Bytes) {
        (Some(self.decoder), self.input)
    }
}

/// The size of a decoded piece at most: a compression bomb is delivered piece by piece.
const PIECE_SIZE: usize = 64 * 1024;
