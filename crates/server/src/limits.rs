//! The limits and timeouts of a server.

use std::time::Duration;

use fulmar_engine::{Rate, Timeouts};
use fulmar_proto::h1::RESPONSE_BUFFER_MAX;
use fulmar_proto::h2::Http2Limits;

/// The limits and timeouts of a server. The defaults are safe towards slow and hostile clients.
///
/// They hold for both protocols. Where a timeout ends a connection of HTTP/1, it resets a stream of
/// HTTP/2 that has stalled while other streams move, after one to two times its value. HTTP/2 has
/// limits of its own besides: `http2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time. Further clients wait in the kernel's queue.
    pub connections_max: usize,
    /// Connections from one IPv4 address or one /64 of IPv6. A further one is closed as soon as it
    /// is accepted. Unix sockets have no addresses.
    pub address_connections_max: usize,
    /// The same for an address of this machine (loopback), from which a proxy may connect for all
    /// clients.
    pub loopback_connections_max: usize,
    /// Bytes that one connection can occupy at most: received bytes that were not taken or not
    /// released, and bytes that wait to be sent, together; at least 384 KiB.
    /// [`fulmar_proto::Connection::room`] starts at a quarter of it. Bytes that an application
    /// queues beyond its room are not limited, and neither are the few blocks of memory that all
    /// connections of a thread share.
    pub connection_memory_max: usize,
    /// HTTP/1: bytes of responses in memory at which no further request of a connection is parsed.
    /// It limits a client that pipelines requests and does not read; in HTTP/2 each stream has a
    /// share of `connection_memory_max`. Heads and bodies in memory count,
    /// also encrypted ones; files do not. One response may be longer. In addition up to 12 KiB of
    /// requests wait unparsed, and over TLS up to three records more.
    pub response_buffer_max: usize,
    /// The limits of HTTP/2. `None`: every connection is one of HTTP/1, and the response to the
    /// preface of HTTP/2 is 505. Then the ALPN list of a TLS layer should not offer `h2`.
    pub http2: Option<Http2Limits>,
    /// Timeout until the layer below a connection, such as TLS, is established.
    pub handshake_timeout: Duration,
    /// Timeout of an idle connection.
    pub idle_timeout: Duration,
    /// From the first byte of a head to its last. Then the response is 408; in HTTP/2 the
    /// connection ends with GOAWAY.
    pub head_timeout: Duration,
    /// Between two bytes of a request's body. HTTP/1: then the response is 408, unless a response
    /// has begun. HTTP/2: then the stream is reset.
    pub body_timeout: Duration,
    /// Between two bytes that the client reads, as far as the kernel reports it: when about a third
    /// of its buffer is free. HTTP/2: also between two openings of a stream's window.
    pub send_timeout: Duration,
    /// The minimum rate at which a client sends a body or reads a response, in addition to those
    /// two timeouts. It ends clients that are slow without being silent. The application's time
    /// does not count.
    pub rate_min: Option<Rate>,
    /// From a client's close to ours, while the application owes it a response: the client may have
    /// closed one direction only, or be gone.
    pub abandoned_timeout: Duration,
    /// From the last byte that we send to the client's close.
    pub linger_timeout: Duration,
    /// From a graceful stop to a hard one.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: usize::MAX,
            address_connections_max: 1_024,
            loopback_connections_max: usize::MAX,
            connection_memory_max: 1024 * 1024,
            response_buffer_max: RESPONSE_BUFFER_MAX as usize,
            http2: Some(Http2Limits::default()),
            handshake_timeout: Duration::from_secs(20),
            idle_timeout: Duration::from_secs(75),
            head_timeout: Duration::from_secs(20),
            body_timeout: Duration::from_secs(30),
            send_timeout: Duration::from_secs(30),
            rate_min: Some(Rate { bytes_per_second: 250, grace: Duration::from_secs(30) }),
            abandoned_timeout: Duration::from_secs(60),
            linger_timeout: Duration::from_secs(2),
            drain_timeout: Duration::from_secs(10),
        }
    }
}

/// The shares of a connection's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    /// Received and not taken.
    pub(crate) unread: usize,
    /// Queued by application and protocol. As much again may be delivered and not released.
    pub(crate) queue: u32,
    /// The part of it that several responses may occupy in memory.
    pub(crate) responses: u32,
    /// Queued by a layer. As much again may be decrypted and not taken.
    pub(crate) sealed: usize,
}

impl Limits {
    pub(crate) fn shares(&self) -> Shares {
        let quarter = self.connection_memory_max.max(MEMORY_MIN) / 4;
        let queue = u32::try_from(quarter).unwrap_or(u32::MAX);
        let responses = u32::try_from(self.response_buffer_max).unwrap_or(u32::MAX);
        Shares { unread: quarter, queue, responses, sealed: quarter / 2 }
    }

    /// The timeouts of a connection, for [`crate::ServerEngine::set_timeouts`]. A tunnel has the
    /// timeout of an idle connection.
    pub fn timeouts(&self) -> Timeouts {
        Timeouts {
            connect: None,
            handshake: Some(self.handshake_timeout),
            idle: Some(self.idle_timeout),
            head: Some(self.head_timeout),
            body: Some(self.body_timeout),
            response: None,
            send: Some(self.send_timeout),
            abandoned: Some(self.abandoned_timeout),
            linger: Some(self.linger_timeout),
            tunnel: Some(self.idle_timeout),
            rate_min: self.rate_min,
            receive_only: false,
        }
    }
}

/// An eighth is what a layer has decrypted, which is at most a head and a record.
const MEMORY_MIN: usize = 8 * (32 + 16) * 1024;
