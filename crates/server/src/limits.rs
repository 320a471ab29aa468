//! What a server allows.

use std::time::Duration;

use fulmar_engine::Timeouts;

/// What a server allows. The defaults are safe towards slow and hostile clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time; beyond it, clients wait in the kernel's queue.
    pub connections_max: usize,
    /// Until the layer below a connection, such as TLS, is open.
    pub handshake_timeout: Duration,
    /// A kept connection without a request.
    pub idle_timeout: Duration,
    /// From the first byte of a head to its last.
    pub head_timeout: Duration,
    /// Between two bytes of a request's body.
    pub body_timeout: Duration,
    /// Between two bytes that the client takes.
    pub send_timeout: Duration,
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
            handshake_timeout: Duration::from_secs(20),
            idle_timeout: Duration::from_secs(75),
            head_timeout: Duration::from_secs(20),
            body_timeout: Duration::from_secs(30),
            send_timeout: Duration::from_secs(30),
            abandoned_timeout: Duration::from_secs(60),
            linger_timeout: Duration::from_secs(2),
            drain_timeout: Duration::from_secs(10),
        }
    }
}

impl Limits {
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
        }
    }
}
