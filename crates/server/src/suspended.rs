//! Exchanges that wait for another thread.

use std::any::Any;
use std::fmt;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};

use fulmar_engine::Exchange;

use crate::body::OwnedResponse;
use crate::handler::HandlerResult;
use crate::mailbox::Mailbox;
use crate::responder::Responder;

/// A message that another thread posts for an exchange.
pub struct HandlerMessage(pub(crate) MessageKind);

pub(crate) enum MessageKind {
    /// The body handler is called.
    Ready,
    /// The exchange was dropped without a response: it is 500.
    Dropped,
    /// This is called, and the exchange is suspended no longer.
    Run(Box<dyn FnOnce(&mut Responder<'_>) -> HandlerResult + Send>),
    /// The handler is called again, with this note, and the exchange is suspended no longer.
    Again(Box<dyn Any + Send>),
}

impl fmt::Debug for HandlerMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            MessageKind::Ready => "HandlerMessage::Ready",
            MessageKind::Dropped => "HandlerMessage::Dropped",
            MessageKind::Run(_) => "HandlerMessage::Run",
            MessageKind::Again(_) => "HandlerMessage::Again",
        })
    }
}

/// An exchange that any thread responds to later. It costs nothing meanwhile.
///
/// If it is dropped without a response, the response is 500.
#[derive(Debug)]
pub struct Suspended {
    pub(crate) mailbox: Mailbox<HandlerMessage>,
    pub(crate) exchange: Exchange,
    pub(crate) alive: Weak<AtomicBool>,
    pub(crate) done: bool,
}

impl Suspended {
    /// Sends the response.
    pub fn reply(self, response: OwnedResponse) {
        self.resume(move |responder| responder.respond(response));
    }

    /// Calls `act` for the exchange, on its own thread.
    pub fn resume(self, act: impl FnOnce(&mut Responder<'_>) -> HandlerResult + Send + 'static) {
        self.post(MessageKind::Run(Box::new(act)));
    }

    pub(crate) fn post(mut self, doing: MessageKind) {
        debug_assert!(!self.done, "a suspended exchange is continued once");
        self.done = true;
        self.mailbox.post(self.exchange, HandlerMessage(doing));
    }

    /// True if the client is gone: no response is needed.
    pub fn is_gone(&self) -> bool {
        self.alive.strong_count() == 0
    }
}

impl Drop for Suspended {
    fn drop(&mut self) {
        if !self.done && !self.is_gone() {
            self.mailbox.post(self.exchange, HandlerMessage(MessageKind::Dropped));
        }
    }
}

/// Has the body handler of one exchange called, from any thread: see [`crate::BodyHandler::ready`].
/// The server is woken once, even if [`Resumer::resume`] is called many times before.
#[derive(Clone, Debug)]
pub struct Resumer {
    pub(crate) mailbox: Mailbox<HandlerMessage>,
    pub(crate) exchange: Exchange,
    pub(crate) alive: Weak<AtomicBool>,
}

impl Resumer {
    /// Has the body handler called.
    pub fn resume(&self) {
        if let Some(notified) = self.alive.upgrade()
            && !notified.swap(true, Ordering::AcqRel)
        {
            self.mailbox.post(self.exchange, HandlerMessage(MessageKind::Ready));
        }
    }

    /// True if the exchange is over.
    pub fn is_gone(&self) -> bool {
        self.alive.strong_count() == 0
    }
}
