//! Sending: heads, bodies, tunnels. Everything is checked before anything is queued.

use bytes::Bytes;

use crate::body_len::BodyLen;
use crate::errors::UsageError;
use crate::event::StreamId;
use crate::head::{Headers, Request, Response};
use crate::outgoing;
use crate::side::{Head, Side};
use crate::transmit::Segment;

use super::encode::{self, EncodedRequest, LengthField, OwnFields};
use super::verbatim::VerbatimHead;
use super::{BodyLeft, BodyReader, DRAIN_SIZE_MAX, H1, H1Client, Handover, Recv, Reuse, Send};

impl<S: Side> H1<S> {
    pub(super) fn queue_head(
        &mut self,
        stream: StreamId,
        head: Head<'_>,
        len: BodyLen,
    ) -> Result<(), UsageError> {
        self.expect_head(stream)?;
        match head {
            Head::Request(request) => self.queue_request(&request, len)?,
            Head::Response(response) if response.status < 200 => self.queue_interim(&response)?,
            Head::Response(response) => self.queue_response(&response, len)?,
        }
        self.note_room();
        Ok(())
    }

    pub(super) fn expect_head(&self, stream: StreamId) -> Result<(), UsageError> {
        match self.send {
            _ if stream != self.sending() => Err(UsageError::NoSuchStream),
            Send::Head => Ok(()),
            Send::Rest | Send::Closed | Send::Cut => Err(UsageError::NoSuchStream),
            Send::Body(_) | Send::Done | Send::Tunnel => Err(UsageError::HeadAlreadySent),
        }
    }

    fn queue_request(&mut self, request: &Request<'_>, len: BodyLen) -> Result<(), UsageError> {
        outgoing::check_request(request, len)?;
        let hop = outgoing::survey(request.headers, request.added)?;
        if hop.close {
            self.close_after_this();
        }
        let own = OwnFields {
            length: encode::request_length(request.method, len),
            close: self.reuse != Reuse::Yes,
            keep_alive: false,
            expects_continue: (request.expects_continue || hop.expects_continue)
                && len != BodyLen::Empty,
            hop,
        };
        self.exchange.waiting = own.expects_continue;
        self.outbox.compose(|out| encode::request(out, request, own));
        let is_connect = request.method == b"CONNECT";
        self.note_request(request.method == b"HEAD", is_connect, hop.upgrade);
        self.send = Send::Body(body_left(len));
        Ok(())
    }

    /// Records the facts on which the response depends.
    fn note_request(&mut self, is_head: bool, is_connect: bool, requests_upgrade: bool) {
        self.heads |= u64::from(is_head) << (self.outstanding - 1);
        // On a new connection a server may send first: that it is too busy, and closes.
        self.unsent_request = self.outstanding == 1 && self.stream.0 > 0;
        self.exchange.handover = match (is_connect, requests_upgrade) {
            (true, _) => Handover::Connect,
            (false, true) => Handover::Upgrade,
            (false, false) => Handover::Nothing,
        };
    }

    fn close_after_this(&mut self) {
        if self.reuse == Reuse::Yes {
            self.reuse = Reuse::AfterOutstanding;
        }
    }

    /// 1xx: 101 begins the tunnel; others are not sent to peers that do not know them.
    fn queue_interim(&mut self, response: &Response<'_>) -> Result<(), UsageError> {
        let hop = outgoing::survey(response.headers, response.added)?;
        let handover = response.status == 101;
        let granted = self.exchange.handover == Handover::Upgrade && hop.upgrade;
        if response.status < 100 || (handover && !granted) {
            return Err(UsageError::BadHead);
        }
        if response.status == 100 {
            self.exchange.waiting = false;
        }
        if self.exchange.http10 {
            return Ok(());
        }
        let own = OwnFields {
            length: LengthField::Absent,
            close: false,
            keep_alive: false,
            expects_continue: false,
            hop,
        };
        self.queue_response_head(response, own);
        if handover {
            self.send = Send::Tunnel;
            self.advance();
        }
        Ok(())
    }

    fn queue_response(&mut self, response: &Response<'_>, len: BodyLen) -> Result<(), UsageError> {
        if response.status > STATUS_MAX {
            return Err(UsageError::BadHead);
        }
        let hop = outgoing::survey(response.headers, response.added)?;
        let tunnel = response.status < 300 && self.exchange.handover == Handover::Connect;
        let (length, owed) = if tunnel {
            (LengthField::Absent, BodyLeft::UntilClose)
        } else {
            self.response_body(response.status, len)
        };
        if owed == BodyLeft::UntilClose || hop.close || !self.rest_is_small() {
            self.reuse = Reuse::No;
        }
        let own = OwnFields {
            length,
            close: !tunnel && self.reuse != Reuse::Yes,
            keep_alive: !tunnel && self.reuse == Reuse::Yes && self.exchange.http10,
            expects_continue: false,
            hop,
        };
        self.queue_response_head(response, own);
        self.send = if tunnel { Send::Tunnel } else { Send::Body(owed) };
        self.advance();
        Ok(())
    }

    fn queue_response_head(&mut self, response: &Response<'_>, own: OwnFields) {
        let Response { status, headers, added, .. } = *response;
        self.outbox.compose(|out| encode::response(out, status, headers, added, own));
    }

    /// How a final response declares its length, and what is sent of its body (RFC 9112 §6.3).
    pub(super) fn response_body(&self, status: u16, len: BodyLen) -> (LengthField, BodyLeft) {
        let to_head = self.heads & 1 == 1;
        let silent = BodyLeft::Silent(match len {
            BodyLen::Empty => 0,
            BodyLen::Exact(n) => n,
            BodyLen::Unknown => u64::MAX,
        });
        match len {
            _ if status == 204 => (LengthField::Absent, silent),
            BodyLen::Exact(n) if status == 304 => (LengthField::Exact(n), silent),
            _ if status == 304 => (LengthField::Absent, silent),
            BodyLen::Empty => (LengthField::Exact(0), silent),
            BodyLen::Exact(n) if to_head => (LengthField::Exact(n), silent),
            BodyLen::Exact(n) => (LengthField::Exact(n), BodyLeft::Exact(n)),
            BodyLen::Unknown if to_head && self.exchange.http10 => (LengthField::Absent, silent),
            BodyLen::Unknown if to_head => (LengthField::Chunked, silent),
            // A 1.0 peer does not know chunks (§6.1).
            BodyLen::Unknown if self.exchange.http10 => (LengthField::Absent, BodyLeft::UntilClose),
            BodyLen::Unknown => (LengthField::Chunked, BodyLeft::Chunked),
        }
    }

    /// True if the rest of the request is short enough to be drained for another exchange. A peer
    /// that waits for a 100 may send the body or the next request: that is unknown.
    pub(super) fn rest_is_small(&self) -> bool {
        match self.recv {
            Recv::Body(_) if self.exchange.waiting => false,
            Recv::Body(BodyReader::Exact(left)) => left <= DRAIN_SIZE_MAX.into(),
            _ => true,
        }
    }

    pub(super) fn queue_data(&mut self, stream: StreamId, data: Segment) -> Result<(), UsageError> {
        let sending = stream == self.sending();
        if !S::SERVER && !data.is_empty() {
            self.exchange.waiting = false; // the sender has waited long enough
        }
        match &mut self.send {
            _ if !sending => return Err(UsageError::NoSuchStream),
            Send::Body(BodyLeft::Exact(left)) => {
                *left = left.checked_sub(data.len()).ok_or(UsageError::BodyLongerThanDeclared)?;
                self.outbox.push(data);
            }
            Send::Body(BodyLeft::Silent(left)) => {
                *left = left.checked_sub(data.len()).ok_or(UsageError::BodyLongerThanDeclared)?;
            }
            // An empty chunk would be the last one.
            Send::Body(BodyLeft::Chunked) if data.is_empty() => {}
            Send::Body(BodyLeft::Chunked) => {
                self.outbox.compose(|out| encode::chunk_size(out, data.len()));
                self.outbox.push(data);
                self.outbox.push(Segment::Bytes(Bytes::from_static(b"\r\n")));
            }
            Send::Body(BodyLeft::UntilClose) | Send::Tunnel => self.outbox.push(data),
            Send::Rest | Send::Head | Send::Done | Send::Closed | Send::Cut => {
                return Err(UsageError::NoSuchStream);
            }
        }
        self.note_room();
        Ok(())
    }

    pub(super) fn queue_end(
        &mut self,
        stream: StreamId,
        trailers: Headers<'_>,
    ) -> Result<(), UsageError> {
        match self.send {
            _ if stream != self.sending() => return Err(UsageError::NoSuchStream),
            Send::Body(BodyLeft::Exact(1..)) => return Err(UsageError::BodyShorterThanDeclared),
            Send::Body(BodyLeft::Chunked) => {
                outgoing::check_trailers(trailers)?;
                self.outbox.compose(|out| encode::last_chunk(out, trailers));
            }
            Send::Body(_) => {}
            Send::Tunnel => {
                self.send = Send::Closed;
                return Ok(());
            }
            Send::Rest | Send::Head | Send::Done | Send::Closed | Send::Cut => {
                return Err(UsageError::NoSuchStream);
            }
        }
        self.note_room();
        self.send = if S::SERVER { Send::Done } else { Send::Rest };
        self.advance();
        Ok(())
    }
}

impl H1Client {
    /// Queues a whole request in one step: head, body and end.
    ///
    /// # Errors
    /// As for `send_head`; nothing was queued.
    pub fn send_encoded(
        &mut self,
        stream: StreamId,
        request: &EncodedRequest,
    ) -> Result<(), UsageError> {
        self.expect_head(stream)?;
        let wire = &request.wire;
        if request.requests_close {
            self.close_after_this();
        } else if self.reuse != Reuse::Yes && !request.is_verbatim {
            let (head, body) = wire.split_at(request.head_size);
            self.outbox.compose(|out| {
                out.extend_from_slice(&head[..head.len() - 2]);
                out.extend_from_slice(b"Connection: close\r\n\r\n");
                out.extend_from_slice(body);
            });
            return self.sent_encoded(request);
        }
        self.push_shared(wire);
        self.sent_encoded(request)
    }

    /// Queues a head of the caller, byte for byte. Its fields have to declare a body of this
    /// length. The body follows as after `send_head`, in chunks if the length is unknown.
    ///
    /// # Errors
    /// As for `send_head`; nothing was queued.
    pub fn send_verbatim(
        &mut self,
        stream: StreamId,
        head: &VerbatimHead,
        len: BodyLen,
    ) -> Result<(), UsageError> {
        self.expect_head(stream)?;
        if head.closes {
            self.close_after_this();
        }
        self.exchange.waiting = head.expects_continue && len != BodyLen::Empty;
        self.push_shared(head.bytes());
        self.note_request(head.is_bodiless, head.is_connect(), head.upgrades);
        self.note_room();
        self.send = Send::Body(match (len, head.is_unframed) {
            (BodyLen::Unknown, true) => BodyLeft::UntilClose,
            (len, _) => body_left(len),
        });
        Ok(())
    }

    /// Makes the connection a tunnel without a request: from now on it carries bytes both ways.
    ///
    /// # Errors
    /// As for `send_head`.
    pub fn begin_tunnel(&mut self, stream: StreamId) -> Result<(), UsageError> {
        self.expect_head(stream)?;
        self.outstanding = 0;
        (self.recv, self.send) = (Recv::Tunnel, Send::Tunnel);
        Ok(())
    }

    /// Queues bytes that others may share.
    #[inline(always)]
    fn push_shared(&mut self, bytes: &Bytes) {
        if bytes.len() <= COPY_SIZE_MAX {
            self.outbox.compose(|out| out.extend_from_slice(bytes));
        } else {
            self.outbox.push(Segment::Bytes(bytes.clone()));
        }
    }

    fn sent_encoded(&mut self, request: &EncodedRequest) -> Result<(), UsageError> {
        self.note_request(request.is_head, request.is_connect, request.requests_upgrade);
        self.note_room();
        self.send = Send::Rest;
        self.advance();
        Ok(())
    }
}

/// What is left to send of a request's body.
fn body_left(len: BodyLen) -> BodyLeft {
    match len {
        BodyLen::Empty => BodyLeft::Exact(0),
        BodyLen::Exact(n) => BodyLeft::Exact(n),
        BodyLen::Unknown => BodyLeft::Chunked,
    }
}

pub(super) const STATUS_MAX: u16 = 999;
/// Copying this much costs less than sharing it.
const COPY_SIZE_MAX: usize = 4096;
