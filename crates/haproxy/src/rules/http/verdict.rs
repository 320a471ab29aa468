//! What comes of a set of rules, and of one change.

use std::time::Duration;

use super::BuiltinService;
use crate::rules::format::FormatString;
use crate::rules::head::ResponseHead;
use crate::rules::reply::ReplyTemplate;

/// The result of a rule set.
#[derive(Clone, Debug)]
pub enum HttpVerdict<'a> {
    /// All rules were evaluated.
    Continue,
    /// `allow`: as `Continue`, but the rest of the set was skipped.
    Allow,
    /// Send this response, counted as denied.
    Deny(&'a ReplyTemplate),
    /// The same after `timeout tarpit`.
    Tarpit(&'a ReplyTemplate),
    /// Send this response, not counted as denied.
    Return(&'a ReplyTemplate),
    /// Send this response without a body.
    Redirect(Box<ResponseHead>),
    /// Request authentication: [`ReplyTemplate::challenge`] builds the response. The default realm
    /// is the name of the proxy.
    Auth(Option<&'a FormatString>),
    /// A built-in service responds.
    Service(BuiltinService),
    /// Close the connection without a response.
    Reject,
    /// Drop the connection without notifying the client.
    SilentDrop,
    /// Call [`run`](super::run) again, with the same progress, when enough of the body was
    /// received, or as much as is kept, or after a time; at once if the body is there already.
    WaitForBody {
        /// The longest wait.
        time: Duration,
        /// Size in bytes; 0: all of the body.
        at_least: u64,
    },
    /// A change failed in `strict-mode`: the exchange fails with status 500. The index of the rule,
    /// from 0.
    Failed(usize),
}

/// A change failed: HTTP does not allow its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InvalidChange;
