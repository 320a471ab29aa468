//! What comes of a set of rules, and of one change.

use std::time::Duration;

use super::Service;
use crate::rules::format::Format;
use crate::rules::head::ResponseHead;
use crate::rules::reply::Reply;

/// What came of a set of rules.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Verdict<'a> {
    /// All rules have been looked at.
    Continue,
    /// `allow`: the same, as no further rule of this set is looked at.
    Allow,
    /// This answer, which counts as a denial.
    Deny(&'a Reply),
    /// The same, after `timeout tarpit`.
    Tarpit(&'a Reply),
    /// This answer, which is a normal one.
    Return(&'a Reply),
    /// This answer, without a body.
    Redirect(Box<ResponseHead>),
    /// The client is asked who it is: [`Reply::challenge`] makes the answer. Without a realm, it
    /// is the name of the proxy.
    Auth(Option<&'a Format>),
    /// Somebody else answers.
    Service(Service),
    /// The connection ends without an answer.
    Reject,
    /// The connection vanishes, and the client hears nothing of it.
    SilentDrop,
    /// [`run`](super::run) is to be called again, with the same progress, when so many bytes of the body are
    /// there (0: all of it), or as many as are kept, or when this time has passed; at once, if it
    /// is so already.
    WaitForBody {
        /// See above.
        time: Duration,
        /// In bytes.
        at_least: u64,
    },
    /// A change could not be made, and the rules say that it has to be (`strict-mode`): this
    /// exchange fails, with status 500. The rule is this one of the set, from 0.
    Failed(usize),
}

/// A change could not be made: what it would have made is not what HTTP allows there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused;
