//! What only clients, or only servers, have.

use super::{
    DEPTH_MAX, H1Client, H1Server, Handover, Leniency, Recv, ResponseProfile, StatusAliases,
};
use crate::event::StreamId;
#[cfg(doc)]
use crate::{connection::Connection, h1::H1, h1::RESPONSE_BUFFER_MAX};

impl H1Client {
    /// A client that has up to `depth` requests outstanding: pipelining (RFC 9112 §9.3.2).
    ///
    /// # Panics
    /// If `depth` is 0 or more than [`DEPTH_MAX`].
    pub fn with_depth(depth: u32) -> Self {
        assert!((1..=DEPTH_MAX).contains(&depth), "the depth is 1 to {DEPTH_MAX}");
        let depth = u8::try_from(depth).expect("DEPTH_MAX fits");
        Self { depth, ..Self::default() }
    }

    /// Sets the rules by which responses are read. Call it after [`H1::set_leniency`], before the
    /// first input.
    pub fn set_profile(&mut self, profile: ResponseProfile) {
        self.leniency = match profile {
            ResponseProfile::Grammar => self.leniency.without(Leniency::LIBCURL),
            ResponseProfile::Libcurl => self.leniency.with(Leniency::LIBCURL),
        };
    }

    /// With [`ResponseProfile::Libcurl`]: lines that count as status lines, too. Call it before the
    /// first input.
    pub fn set_status_aliases(&mut self, aliases: StatusAliases) {
        self.status_aliases = aliases;
    }

    /// With [`ResponseProfile::Libcurl`], after an error in a head: the bytes of its lines that
    /// were sound, at the front of the refused message. The line that follows is the refused one,
    /// unless the head is too large as a whole.
    pub fn judged_len(&self) -> usize {
        self.passed as usize
    }

    /// True if bytes followed the last expected response. They belong to no request, and the
    /// connection accepts no more requests.
    pub fn has_excess(&self) -> bool {
        self.excess
    }

    /// Requests without a complete response. Those that remain when the connection is closed
    /// never receive one.
    pub fn outstanding(&self) -> u32 {
        self.outstanding.into()
    }
}

impl H1Server {
    /// As [`crate::ServerConnection::watch_sent`].
    pub(crate) fn watch_sent(&mut self, stream: StreamId) {
        self.outbox.mark(stream, self.outbox.size());
    }

    /// As [`crate::ServerConnection::has_sent`].
    #[inline]
    pub(crate) fn has_sent(&self) -> bool {
        self.outbox.has_passed_mark()
    }

    /// As [`crate::ServerConnection::poll_sent`].
    pub(crate) fn poll_sent(&mut self) -> Option<StreamId> {
        self.outbox.poll_marked()
    }

    /// As [`crate::ServerConnection::unsent_message`].
    pub(crate) fn unsent_message(&self, stream: StreamId) -> u64 {
        self.outbox.unsent_before_mark(stream).unwrap_or_else(|| self.outbox.size())
    }

    /// True if the peer may be waiting for a 100 before it sends the body of the current request
    /// (RFC 9110 §10.1.1).
    pub fn expects_continue(&self, _: StreamId) -> bool {
        self.exchange.waiting
    }

    /// True if a response with this status makes a tunnel of the connection.
    pub fn makes_tunnel(&self, _: StreamId, status: u16) -> bool {
        match self.exchange.handover {
            Handover::Nothing => false,
            Handover::Upgrade => status == 101,
            Handover::Connect => (200..300).contains(&status),
        }
    }

    /// Whether [`Connection::handle_late`] sends a 408 to a client that has not begun its first
    /// request. By default it does not: most such clients have connected in advance.
    pub fn set_responds_to_silence(&mut self, on: bool) {
        self.responds_to_silence = on;
    }

    /// No further request is parsed while so many bytes of responses are queued in memory, here and
    /// in a layer below: [`RESPONSE_BUFFER_MAX`] by default. One response may be longer.
    pub fn set_response_buffer_max(&mut self, bytes: u32) {
        self.response_buffer_max = bytes;
    }

    /// True until the head of the first request is complete.
    pub fn is_new(&self) -> bool {
        self.stream == StreamId(0) && matches!(self.recv, Recv::Head(_))
    }
}
