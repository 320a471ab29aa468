//! The calls of the access handler for one request (`MHD_AccessHandlerCallback`).
//!
//! ```text
//! First ─▶ Upload ─▶ Last ─▶ Replying
//!   └────────┬────────┘ ▲ a response in the first call is early
//!            ▼
//!          Failed         the handler returned `MHD_NO`
//! ```
//!
//! No socket, and no call of the program: [`AccessExchange::next_step`] returns what to do. The
//! program calls functions of the library from within its handler, and from any thread while the
//! connection is suspended. So the state is behind a lock, which is never held during a call: the
//! uploaded bytes are moved out for its duration.

use std::fmt;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A request between its head and its response.
#[derive(Debug)]
pub struct AccessExchange {
    inner: Mutex<AccessInner>,
    upload_size_max: usize,
}

#[derive(Debug)]
struct AccessInner {
    state: AccessState,
    /// Received bytes of the body that the handler has not processed.
    upload: Vec<u8>,
    /// True if the handler has to see the upload: it grew, or a part of it was processed.
    upload_due: bool,
    is_upload_complete: bool,
    /// `Expect: 100-continue`, until it was sent or the body arrived.
    continue_due: bool,
    /// The call that runs, or the latest one.
    call: Option<CallKind>,
    is_calling: bool,
    is_suspended: bool,
    is_reply_queued: bool,
    /// The last call left without a response, and is repeated later.
    retry_due: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AccessState {
    /// The handler was not called.
    First,
    /// The body is received and processed.
    Upload,
    /// The request is complete.
    Last,
    /// The response is sent.
    Replying(ReplyTiming),
    /// The connection closes without a response.
    Failed,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessStep {
    /// Call the handler: [`AccessExchange::begin_call`].
    Call(CallKind),
    /// Send `100 Continue`.
    SendContinue,
    /// Nothing until more of the body arrives, or the connection is resumed.
    Wait,
    /// Nothing for a short time, then [`AccessExchange::retry`]: the handler was called for the
    /// complete request, and neither queued a response nor suspended the connection.
    Retry,
    /// Send the queued response.
    Reply(ReplyTiming),
    /// Close the connection.
    Close,
}

/// The place of a call of the handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// With the head, without data.
    First,
    /// With data of the body.
    Data,
    /// After the body, without data.
    Last,
}

/// When a response was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyTiming {
    /// In the first call: the body was not read, so the connection closes, even without a body.
    Early,
    /// After the request.
    Complete,
}

/// A running call: the data for the handler.
#[derive(Debug)]
pub struct AccessCall {
    kind: CallKind,
    data: Vec<u8>,
}

/// Why `MHD_queue_response` returns `MHD_NO` for any response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueRefusal {
    /// There is one already, or the connection closes.
    TooLate,
    /// The body is being received.
    DuringUpload,
    /// Neither within the handler, nor suspended.
    OutsideOfHandler,
}

/// The handler set `*upload_data_size` to more than it was. The original calls its panic function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessViolation;

impl AccessExchange {
    /// For a request of which the head is complete.
    #[must_use]
    pub fn new(expects_continue: bool, upload_size_max: usize) -> Self {
        let inner = AccessInner {
            state: AccessState::First,
            upload: Vec::new(),
            upload_due: false,
            is_upload_complete: false,
            continue_due: expects_continue,
            call: None,
            is_calling: false,
            is_suspended: false,
            is_reply_queued: false,
            retry_due: false,
        };
        Self { inner: Mutex::new(inner), upload_size_max }
    }

    /// Number of bytes of the body that may be added.
    #[must_use]
    pub fn upload_room(&self) -> usize {
        self.upload_size_max.saturating_sub(self.lock().upload.len())
    }

    /// Adds received bytes of the body to those that were not processed. Returns the number of
    /// added bytes: at most the room.
    pub fn add_upload(&self, bytes: &[u8]) -> usize {
        let mut inner = self.lock();
        let size = bytes.len().min(self.upload_size_max.saturating_sub(inner.upload.len()));
        inner.upload.extend_from_slice(&bytes[..size]);
        inner.upload_due |= size > 0;
        inner.continue_due &= size == 0;
        size
    }

    /// The body is complete.
    pub fn end_upload(&self) {
        let mut inner = self.lock();
        inner.is_upload_complete = true;
        inner.continue_due = false;
    }

    /// What to do next. Nothing while the handler runs or the connection is suspended.
    pub fn next_step(&self) -> AccessStep {
        let mut inner = self.lock();
        if inner.is_calling || inner.is_suspended {
            return AccessStep::Wait;
        }
        let state = inner.state;
        match state {
            AccessState::First => AccessStep::Call(CallKind::First),
            AccessState::Upload if mem::take(&mut inner.continue_due) => AccessStep::SendContinue,
            AccessState::Upload if inner.upload_due => AccessStep::Call(CallKind::Data),
            AccessState::Upload if inner.is_upload_complete && inner.upload.is_empty() => {
                inner.state = AccessState::Last;
                AccessStep::Call(CallKind::Last)
            }
            AccessState::Upload => AccessStep::Wait,
            AccessState::Last if inner.retry_due => AccessStep::Retry,
            AccessState::Last => AccessStep::Call(CallKind::Last),
            AccessState::Replying(timing) => AccessStep::Reply(timing),
            AccessState::Failed => AccessStep::Close,
        }
    }

    /// Begins the call of this kind, which `next_step` returned.
    pub fn begin_call(&self, kind: CallKind) -> AccessCall {
        let mut inner = self.lock();
        assert!(!inner.is_calling && !inner.is_suspended, "a handler is called once at a time");
        inner.is_calling = true;
        inner.call = Some(kind);
        let data = match kind {
            CallKind::Data => mem::take(&mut inner.upload),
            CallKind::First | CallKind::Last => Vec::new(),
        };
        inner.upload_due = false;
        AccessCall { kind, data }
    }

    /// Ends a call: what the handler returned, and `*upload_data_size`, the number of bytes that it
    /// left. A queued response is dropped if the handler failed.
    ///
    /// # Errors
    /// [`AccessViolation`]; the connection closes.
    pub fn finish_call(
        &self,
        call: AccessCall,
        succeeded: bool,
        left: usize,
    ) -> Result<(), AccessViolation> {
        let mut inner = self.lock();
        inner.is_calling = false;
        let is_violation = call.kind == CallKind::Data && left > call.data.len();
        if is_violation || !succeeded {
            inner.state = AccessState::Failed;
            inner.is_reply_queued = false;
            return if is_violation { Err(AccessViolation) } else { Ok(()) };
        }
        match call.kind {
            CallKind::First => {
                inner.state = AccessState::Upload;
                inner.upload_due = !inner.upload.is_empty();
            }
            CallKind::Data => inner.keep(call.data, left),
            CallKind::Last => inner.retry_due = !inner.is_reply_queued && !inner.is_suspended,
        }
        inner.start_reply();
        Ok(())
    }

    /// The last call is due again.
    pub fn retry(&self) {
        self.lock().retry_due = false;
    }

    /// `MHD_queue_response`: a response is queued if its other conditions hold.
    ///
    /// # Errors
    /// [`QueueRefusal`].
    pub fn queue_reply(&self) -> Result<ReplyTiming, QueueRefusal> {
        let mut inner = self.lock();
        let is_over = matches!(inner.state, AccessState::Replying(_) | AccessState::Failed);
        if inner.is_reply_queued || is_over {
            return Err(QueueRefusal::TooLate);
        }
        if !inner.is_calling && !inner.is_suspended {
            return Err(QueueRefusal::OutsideOfHandler);
        }
        let timing = inner.timing().ok_or(QueueRefusal::DuringUpload)?;
        inner.is_reply_queued = true;
        Ok(timing)
    }

    /// `MHD_suspend_connection`.
    pub fn suspend(&self) {
        self.lock().is_suspended = true;
    }

    /// `MHD_resume_connection`. Data that the handler left are due again. False if the connection
    /// was not suspended.
    pub fn resume(&self) -> bool {
        let mut inner = self.lock();
        let was_suspended = mem::take(&mut inner.is_suspended);
        if was_suspended && inner.is_calling {
            inner.upload_due = true; // `keep` checks that there are data
        } else if was_suspended {
            inner.upload_due = !inner.upload.is_empty();
            inner.start_reply();
        }
        was_suspended
    }

    /// `MHD_CONNECTION_INFO_CONNECTION_SUSPENDED`.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.lock().is_suspended
    }

    fn lock(&self) -> MutexGuard<'_, AccessInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AccessInner {
    /// Keeps the end of the data before what arrived during the call. They are due again if the
    /// handler processed a part; otherwise with the next bytes, so that no loop is busy.
    fn keep(&mut self, mut data: Vec<u8>, left: usize) {
        let processed = data.len() - left;
        data.drain(..processed);
        data.append(&mut self.upload);
        self.upload = data;
        self.upload_due = !self.upload.is_empty() && (self.upload_due || processed > 0);
    }

    /// Unless the connection is suspended, a queued response is next.
    fn start_reply(&mut self) {
        if !self.is_reply_queued || self.is_suspended {
            return;
        }
        let timing = self.timing().expect("no response is queued during an upload");
        self.is_reply_queued = false;
        self.state = AccessState::Replying(timing);
    }

    /// `None` if the latest call had data.
    fn timing(&self) -> Option<ReplyTiming> {
        match self.call? {
            CallKind::First => Some(ReplyTiming::Early),
            CallKind::Data => None,
            CallKind::Last => Some(ReplyTiming::Complete),
        }
    }
}

impl AccessCall {
    /// The bytes for the handler; empty unless the call has data.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The place of the call.
    #[must_use]
    pub fn kind(&self) -> CallKind {
        self.kind
    }
}

impl fmt::Display for QueueRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLate => "the request has a response already",
            Self::DuringUpload => "a response must be queued before or after the upload",
            Self::OutsideOfHandler => {
                "a response must be queued in the access handler, or while suspended"
            }
        })
    }
}

impl fmt::Display for AccessViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the access handler left more upload data than it received")
    }
}

impl std::error::Error for QueueRefusal {}

impl std::error::Error for AccessViolation {}

#[cfg(test)]
mod tests;
