//! Changes that rules make to an exchange or a connection.

use std::net::SocketAddr;
use std::time::Duration;

use crate::rules::eval_context::{EvalContext, Variable};
use crate::rules::head::{RequestHead, ResponseHead};
use crate::rules::sample::Sample;

/// A [`EvalContext`] that rules may change.
pub trait EvalContextMut: EvalContext {
    /// The request to forward.
    fn request_mut(&mut self) -> Option<&mut RequestHead>;
    /// The response to forward. Once it exists, rules change its fields instead of those of the
    /// request.
    fn response_mut(&mut self) -> Option<&mut ResponseHead>;
    /// Applies an effect in the proxy. Effects that do not apply here are ignored.
    fn apply(&mut self, effect: Effect<'_>);
}

/// An effect of a rule, applied by the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect<'a> {
    /// Sets a variable.
    SetVariable(&'a Variable, Sample<'static>),
    /// Removes a variable.
    UnsetVariable(&'a Variable),
    /// Stores a captured value. It has the rule's maximum length; the slot may have a shorter one.
    Capture(CaptureSlot, Vec<u8>),
    /// The log level of this exchange; `None`: no log line.
    LogLevel(Option<u8>),
    /// Sets `src`.
    Source(SocketAddr),
    /// Sets `dst`.
    Destination(SocketAddr),
    /// Sets a timeout of this exchange.
    Timeout(Deadline, Duration),
    /// The request is not retried (`disable-l7-retry`).
    NoRetry,
    /// A field of the 103 response (Early Hints, RFC 8297) that is sent before the rules end. Name
    /// and value are valid for [`fulmar_proto::HeaderBuf`].
    EarlyHint(&'a str, Vec<u8>),
    /// A PROXY header is read first.
    ExpectProxy,
}

/// A capture slot, declared by `capture request header` and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureSlot {
    /// Of the request, from 0.
    Request(usize),
    /// Of the response, from 0.
    Response(usize),
}

/// Timeouts that a rule can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// `timeout server`.
    Server,
    /// `timeout tunnel`.
    Tunnel,
}
