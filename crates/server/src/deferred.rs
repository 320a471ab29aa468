//! Requests that wait for another thread and are then passed to their handler again.
//!
//! ```text
//! handle(request) ─▶ Responder::defer ─▶ another thread works ─▶ Deferred::handle_again(note)
//!        ▲                                                                 │
//!        └────────── the same request, Responder::notes has the note ◀─────┘
//! ```

use std::any::Any;
use std::fmt;
use std::rc::Rc;

use fulmar_proto::{HeaderBuf, Request, UsageError, Version};

use crate::suspended::{MessageKind, Suspended};

/// A request that waits for its handler to be called again: see [`crate::Responder::defer`].
///
/// If it is dropped, the response is 500.
#[derive(Debug)]
pub struct Deferred {
    pub(crate) suspended: Suspended,
}

impl Deferred {
    /// Calls [`crate::Handler::handle`] again with the same request, on the thread of its
    /// connection. From then on [`crate::Responder::notes`] returns `note`. If the request was
    /// deferred twice and has a response already, the call has no effect.
    pub fn handle_again(self, note: impl Any + Send) {
        self.suspended.post(MessageKind::Again(Box::new(note)));
    }

    /// True if the client has closed: the work that the request waits for may be skipped.
    pub fn is_gone(&self) -> bool {
        self.suspended.is_gone()
    }
}

/// The request and the notes of a deferred exchange.
pub(crate) struct Replay {
    pub(crate) request: Rc<KeptRequest>,
    pub(crate) notes: Vec<Box<dyn Any + Send>>,
}

impl Replay {
    pub(crate) fn of(request: &Request<'_>) -> Result<Self, UsageError> {
        Ok(Self { request: Rc::new(KeptRequest::of(request)?), notes: Vec::new() })
    }
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay").field("notes", &self.notes.len()).finish_non_exhaustive()
    }
}

/// The head of a request, owned.
#[derive(Debug)]
pub(crate) struct KeptRequest {
    method: Box<[u8]>,
    target: Box<[u8]>,
    version: Version,
    headers: HeaderBuf,
    expects_continue: bool,
}

impl KeptRequest {
    fn of(request: &Request<'_>) -> Result<Self, UsageError> {
        let mut headers = HeaderBuf::new();
        for (name, value) in request.headers.iter() {
            headers.push(str::from_utf8(name).map_err(|_| UsageError::BadHead)?, value)?;
        }
        Ok(Self {
            method: request.method.into(),
            target: request.target.into(),
            version: request.version,
            headers,
            expects_continue: request.expects_continue,
        })
    }

    pub(crate) fn as_request(&self) -> Request<'_> {
        Request {
            version: self.version,
            expects_continue: self.expects_continue,
            ..Request::new(&self.method, &self.target, self.headers.as_headers())
        }
    }
}
