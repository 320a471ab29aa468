//! What a server allows.

use std::time::Duration;

use fulmar_engine::{Rate, Timeouts};
use fulmar_proto::h1::RESPONSE_BUFFER_MAX;

/// What a server allows. The defaults are safe towards slow and hostile clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time; beyond it, clients wait in the kernel's queue.
    pub connections_max: usize,
    /// Of them, from one IPv4 address or one /64 of IPv6; one more is closed as soon as it is
    /// accepted. Unix sockets have no addresses.
    pub address_connections_max: usize,
    /// The same for an address of this machine (loopback), from which a proxy may connect for
    /// everybody.
    pub loopback_connections_max: usize,
    /// Bytes that one client can make us keep for its connection, at most: what it sent that
    /// nobody took or gave back, and what waits to be sent to it, together; 384 KiB at least. A
    /// quarter of it is what [`fulmar_proto::Connection::room`] says is free at first. An
    /// application that queues more than there is room for keeps that beside it, and so does a
    /// thread the few blocks of memory that all its connections share.
    pub connection_memory_max: usize,
    /// Bytes of responses in memory at which no further request of a connection is parsed. It
    /// limits a client that pipelines requests and does not read. Heads and bodies in memory count,
    /// also encrypted ones; files do not. One response may be longer. Besides, up to 12 KiB of
    /// requests wait unparsed, and over TLS up to three records more.
    pub response_buffer_max: usize,
    /// Until the layer below a connection, such as TLS, is open.
    pub handshake_timeout: Duration,
    /// A kept connection without a request.
    pub idle_timeout: Duration,
    /// From the first byte of a head to its last; then the client is answered 408.
    pub head_timeout: Duration,
    /// Between two bytes of a request's body; then the client is answered 408, unless an answer
    /// has begun.
    pub body_timeout: Duration,
    /// Between two bytes that the client takes, as far as the kernel tells: it says so when about
    /// a third of its buffer is free.
    pub send_timeout: Duration,
    /// While a client sends a body or takes an answer, beside those two timeouts: who is slower
    /// ends, though never silent for long. The application's time does not count.
    pub rate_min: Option<Rate>,
    /// From a client's end to ours, if the application owes it an answer all the while: the client
    /// may have closed one side only, or be gone.
    pub abandoned_timeout: Duration,
    /// From our last word to the client's end.
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

/// How a connection's memory is divided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    /// Received, and not taken.
    pub(crate) unread: usize,
    /// Queued by application and protocol; and as much given out and not given back.
    pub(crate) queue: u32,
    /// Of it, the bytes that several responses may have in memory.
    pub(crate) responses: u32,
    /// Queued by a layer; as much again may be opened and not taken.
    pub(crate) sealed: usize,
}

impl Limits {
    pub(crate) fn shares(&self) -> Shares {
        let quarter = self.connection_memory_max.max(MEMORY_MIN) / 4;
        let queue = u32::try_from(quarter).unwrap_or(u32::MAX);
        let responses = u32::try_from(self.response_buffer_max).unwrap_or(u32::MAX);
        Shares { unread: quarter, queue, responses, sealed: quarter / 2 }
    }

    pub(crate) fn timeouts(&self) -> Timeouts {
        Timeouts {
            connect: None,
            handshake: Some(self.handshake_timeout),
            idle: Some(self.idle_timeout),
            head: Some(self.head_timeout),
            body: Some(self.body_timeout),
            answer: None,
            send: Some(self.send_timeout),
            abandoned: Some(self.abandoned_timeout),
            linger: Some(self.linger_timeout),
            tunnel: Some(self.idle_timeout),
            rate_min: self.rate_min,
            hears_only: false,
        }
    }
}

/// An eighth is what a layer has opened, which is at most a head and a record.
const MEMORY_MIN: usize = 8 * (32 + 16) * 1024;
