//! The stages of a transfer.

/// The state of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransferStage {
    /// In a queue, for a connection.
    Queued,
    /// On no connection and in no queue: backing off from a server, or paused by the application
    /// after the response was complete.
    Detached,
    /// The head is queued; the body waits for 100 Continue.
    Expecting,
    /// The request is sent, and no response has begun.
    Sending,
    /// The response has begun.
    Receiving,
}
