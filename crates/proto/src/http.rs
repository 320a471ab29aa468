//! A connection of the protocol that its peer uses: HTTP/1 or HTTP/2.

use crate::body_len::BodyLen;
use crate::connection::{Connection, IoState, Reset, SpliceTarget};
use crate::errors::{PeerError, UsageError};
use crate::event::{Client, Event, Server, StreamId};
use crate::h1::{H1, H1Client, Leniency, ResponseProfile, StatusAliases};
use crate::h2::{H2, PREFACE, SharedHttp2Limits};
use crate::head::{Headers, Scratch};
use crate::input::Input;
use crate::side::Side;
use crate::target::UrlScheme;
use crate::transmit::{Segment, Transmit};

/// One HTTP connection, which begins as HTTP/1.
///
/// A server's becomes HTTP/2 if ALPN has chosen it (RFC 9113 §3.2), otherwise with the preface of
/// the client ("prior knowledge", §3.3). So one port serves both, unless its owner switches HTTP/2
/// off: [`ServerConnection::set_http2`]. A client's becomes HTTP/2 when its owner decides so:
/// [`ClientConnection::start_http2`].
#[derive(Debug)]
pub enum HttpConnection<S: Side> {
    /// HTTP/1.1 or 1.0. Server: what holds if the client chooses HTTP/2.
    Http1(H1<S>, SharedHttp2Limits),
    /// HTTP/2; its memory is allocated with its first byte.
    Http2(Box<H2<S>>),
}

impl<S: Side> Default for HttpConnection<S> {
    fn default() -> Self {
        Self::Http1(H1::default(), SharedHttp2Limits::default())
    }
}

/// The side that receives requests and sends responses.
pub type ServerConnection = HttpConnection<Server>;

/// The side that sends requests and receives responses.
pub type ClientConnection = HttpConnection<Client>;

/// Calls the same method of either protocol.
macro_rules! either {
    ($connection:expr, $it:ident => $call:expr) => {
        match $connection {
            Self::Http1($it, _) => $call,
            Self::Http2($it) => $call,
        }
    };
}

impl<S: Side> HttpConnection<S> {
    /// True once the connection is one of HTTP/2.
    pub fn is_http2(&self) -> bool {
        matches!(self, Self::Http2(_))
    }

    /// As [`H1::set_leniency`]. HTTP/2 has no deviations.
    pub fn set_leniency(&mut self, leniency: Leniency) {
        if let Self::Http1(it, _) = self {
            it.set_leniency(leniency);
        }
    }

    /// As [`H1::set_queue_max`] and [`H2::set_queue_max`].
    pub fn set_queue_max(&mut self, bytes: u32) {
        either!(self, it => it.set_queue_max(bytes));
    }

    /// Ends an exchange in the middle of a message, so that the peer does not take it for complete.
    /// In HTTP/1 this ends the connection.
    pub fn cut_off(&mut self, stream: StreamId) {
        either!(self, it => it.cut_off(stream));
    }
}

impl ServerConnection {
    /// Resets all exchanges but one. HTTP/1 has no other.
    pub fn reset_others(&mut self, kept: StreamId) {
        if let Self::Http2(it) = self {
            it.reset_others(kept);
        }
    }

    /// [`ServerConnection::poll_sent`] returns `stream` once its last byte is sent. Called at most
    /// once for a stream, behind [`Connection::send_end`].
    pub fn watch_sent(&mut self, stream: StreamId) {
        either!(self, it => it.watch_sent(stream));
    }

    /// True if [`ServerConnection::poll_sent`] has a stream.
    #[inline(always)]
    pub fn has_sent(&self) -> bool {
        either!(self, it => it.has_sent())
    }

    /// The next watched stream whose message was sent as a whole: all bytes up to its end, also
    /// while others are queued behind it.
    pub fn poll_sent(&mut self) -> Option<StreamId> {
        either!(self, it => it.poll_sent())
    }

    /// An upper bound of the unsent bytes of the message of `stream`, without those queued behind
    /// its last byte. HTTP/1 includes those queued in front of it, HTTP/2 those framed in front of
    /// it and the headers of frames.
    /// Valid as [`Connection::unsent`] is.
    pub fn unsent_message(&self, stream: StreamId) -> u64 {
        either!(self, it => it.unsent_message(stream))
    }

    /// True if the peer may be waiting for a 100 before it sends the body of this request
    /// (RFC 9110 §10.1.1).
    pub fn expects_continue(&self, stream: StreamId) -> bool {
        either!(self, it => it.expects_continue(stream))
    }

    /// True if a response with this status makes a tunnel of the connection (HTTP/1) or of the
    /// stream (HTTP/2), as its request allows (RFC 9110 §7.8, §9.3.6).
    pub fn makes_tunnel(&self, stream: StreamId, status: u16) -> bool {
        either!(self, it => it.makes_tunnel(stream, status))
    }

    /// As [`H1::set_responds_to_silence`]. HTTP/2 has GOAWAY for it.
    pub fn set_responds_to_silence(&mut self, on: bool) {
        if let Self::Http1(it, _) = self {
            it.set_responds_to_silence(on);
        }
    }

    /// As [`H1::set_response_buffer_max`]. HTTP/2 has a share of the queue for each stream.
    pub fn set_response_buffer_max(&mut self, bytes: u32) {
        if let Self::Http1(it, _) = self {
            it.set_response_buffer_max(bytes);
        }
    }

    /// Sets the limits that hold if the client chooses HTTP/2; by default those of
    /// [`crate::h2::Http2Limits::default`]. Without limits, the response to its preface is 505.
    /// Called before anything is received.
    pub fn set_http2(&mut self, limits: SharedHttp2Limits) {
        if let Self::Http1(_, http2) = self {
            *http2 = limits;
        }
    }

    /// True until the head of the first request is complete.
    pub fn is_new(&self) -> bool {
        either!(self, it => it.is_new())
    }
}

impl ClientConnection {
    /// As [`H1Client::with_depth`], as long as the connection is one of HTTP/1.
    pub fn with_depth(depth: u32) -> Self {
        Self::Http1(H1Client::with_depth(depth), SharedHttp2Limits::default())
    }

    /// Becomes HTTP/2: ALPN has chosen it, or the owner knows that the server speaks it.
    /// `scheme` is that of the requests. Called before anything is sent.
    pub fn start_http2(&mut self, scheme: UrlScheme) {
        let mut connection = H2::default();
        connection.set_scheme(scheme);
        *self = Self::Http2(Box::new(connection));
    }

    /// As [`H1Client::set_profile`]. HTTP/2 has one grammar.
    pub fn set_profile(&mut self, profile: ResponseProfile) {
        if let Self::Http1(it, _) = self {
            it.set_profile(profile);
        }
    }

    /// As [`H1Client::set_status_aliases`]. HTTP/2 has no status lines.
    pub fn set_status_aliases(&mut self, aliases: StatusAliases) {
        if let Self::Http1(it, _) = self {
            it.set_status_aliases(aliases);
        }
    }

    /// As [`H1Client::judged_len`]; 0 in HTTP/2.
    pub fn judged_len(&self) -> usize {
        match self {
            Self::Http1(it, _) => it.judged_len(),
            Self::Http2(_) => 0,
        }
    }

    /// As [`H2::eof_error`]. A connection of HTTP/1 ends as a whole.
    pub fn eof_error(&self) -> Option<PeerError> {
        match self {
            Self::Http1(..) => None,
            Self::Http2(it) => it.eof_error(),
        }
    }

    /// As [`H1::has_excess`]. HTTP/2 has no byte outside of streams.
    pub fn has_excess(&self) -> bool {
        match self {
            Self::Http1(it, _) => it.has_excess(),
            Self::Http2(_) => false,
        }
    }
}

impl<S: Side> HttpConnection<S> {
    /// Becomes HTTP/2 if the first bytes are its preface. False: more bytes are needed.
    #[cold]
    #[inline(never)]
    fn recognize(&mut self, input: &Input<'_>) -> bool {
        let len = input.len().min(PREFACE_LINE);
        if input.bytes()[..len] != PREFACE[..len] {
            return true;
        }
        if len < PREFACE_LINE {
            return input.has_eof();
        }
        self.become_http2();
        true
    }

    #[cold]
    fn become_http2(&mut self) {
        if let Self::Http1(it, http2) = self
            && let Some(limits) = http2.get()
        {
            let mut connection = H2::new(limits);
            connection.set_queue_max(it.queue_max());
            *self = Self::Http2(Box::new(connection));
        }
    }
}

impl<S: Side> Connection for HttpConnection<S> {
    type Role = S;

    #[inline(always)]
    fn poll_event<'a>(
        &mut self,
        input: &mut Input<'_>,
        scratch: &'a mut Scratch,
    ) -> Result<Option<Event<'a, S>>, PeerError> {
        if S::SERVER
            && let Self::Http1(it, _) = self
            && it.has_received_nothing()
            && input.bytes().first() == Some(&PREFACE[0])
            && !self.recognize(input)
        {
            return Ok(None);
        }
        either!(self, it => it.poll_event(input, scratch))
    }

    #[inline(always)]
    fn has_event(&self) -> bool {
        either!(self, it => it.has_event())
    }

    #[inline(always)]
    fn splice_len(&self, target: SpliceTarget) -> u64 {
        either!(self, it => it.splice_len(target))
    }

    fn handle_spliced(&mut self, bytes: u64, target: SpliceTarget) {
        either!(self, it => it.handle_spliced(bytes, target));
    }

    #[inline(always)]
    fn release(&mut self, stream: StreamId, bytes: usize) {
        either!(self, it => it.release(stream, bytes));
    }

    fn vacancy(&self) -> u32 {
        either!(self, it => it.vacancy())
    }

    fn open(&mut self) -> Option<StreamId> {
        either!(self, it => it.open())
    }

    #[inline(always)]
    fn send_head(
        &mut self,
        stream: StreamId,
        head: S::Send<'_>,
        len: BodyLen,
    ) -> Result<(), UsageError> {
        either!(self, it => it.send_head(stream, head, len))
    }

    #[inline(always)]
    fn send_data(&mut self, stream: StreamId, data: Segment) -> Result<(), UsageError> {
        either!(self, it => it.send_data(stream, data))
    }

    #[inline(always)]
    fn send_end(&mut self, stream: StreamId, trailers: Headers<'_>) -> Result<(), UsageError> {
        either!(self, it => it.send_end(stream, trailers))
    }

    fn reset(&mut self, stream: StreamId, reason: Reset) {
        either!(self, it => it.reset(stream, reason));
    }

    #[inline]
    fn set_held(&mut self, stream: StreamId, held: bool) {
        either!(self, it => it.set_held(stream, held));
    }

    fn unsent(&self, stream: StreamId) -> u64 {
        either!(self, it => it.unsent(stream))
    }

    #[inline(always)]
    fn has_unsent(&self) -> bool {
        either!(self, it => it.has_unsent())
    }

    fn close_after(&mut self) {
        either!(self, it => it.close_after());
    }

    fn ping(&mut self, now: u64, span: u64) -> bool {
        either!(self, it => it.ping(now, span))
    }

    fn handle_unread(&mut self) {
        either!(self, it => it.handle_unread());
    }

    fn handle_late(&mut self) -> bool {
        either!(self, it => it.handle_late())
    }

    fn sweep(&mut self, now: u64, span: u64, is_late: bool) -> u64 {
        either!(self, it => it.sweep(now, span, is_late))
    }

    #[inline(always)]
    fn room(&self, stream: StreamId) -> u64 {
        either!(self, it => it.room(stream))
    }

    #[inline(always)]
    fn poll_transmit(&mut self) -> Option<Transmit<'_>> {
        either!(self, it => it.poll_transmit())
    }

    #[inline(always)]
    fn handle_sent(&mut self, bytes: u64) {
        either!(self, it => it.handle_sent(bytes));
    }

    fn handle_alpn(&mut self, protocol: &[u8]) {
        if S::SERVER && protocol == ALPN_HTTP2 {
            self.become_http2();
        }
    }

    fn handle_layer_queue(&mut self, bytes: u64) {
        either!(self, it => it.handle_layer_queue(bytes));
    }

    #[inline(always)]
    fn unread_max(&self) -> usize {
        either!(self, it => it.unread_max())
    }

    #[inline(always)]
    fn expects_no_more_requests(&self) -> bool {
        either!(self, it => it.expects_no_more_requests())
    }

    #[inline(always)]
    fn io_state(&self) -> IoState {
        either!(self, it => it.io_state())
    }
}

/// The identifier of HTTP/2 over TLS (RFC 9113 §3.2).
pub const ALPN_HTTP2: &[u8] = b"h2";
/// The first line of the preface, `PRI * HTTP/2.0`: no request of HTTP/1 begins so.
const PREFACE_LINE: usize = 14;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_of_http1_is_hardly_larger_for_http2() {
        assert!(size_of::<HttpConnection<Server>>() <= size_of::<H1<Server>>() + 8);
        assert!(size_of::<HttpConnection<Server>>() <= 128);
    }
}
