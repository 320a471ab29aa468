//! Exchanges that wait for something elsewhere.

use std::any::Any;
use std::fmt;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};

use fulmar_engine::Exchange;

use crate::body::OwnedResponse;
use crate::handler::HandlerResult;
use crate::mailbox::Mailbox;
use crate::responder::Responder;

/// What is to be done with an exchange on its server's thread.
pub struct HandlerMessage(pub(crate) MessageKind);

pub(crate) enum MessageKind {
    /// Its work may go on.
    Ready,
    /// 500: it was dropped without a response.
    Dropped,
    /// This; it is `suspended` no more.
    Run(Box<dyn FnOnce(&mut Responder<'_>) -> HandlerResult + Send>),
    /// Its handler is called again, with this note; it is `suspended` no more.
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

/// An exchange that is answered later, from any thread. It costs nothing meanwhile.
///
/// Dropped without an answer, the client is told 500.
#[derive(Debug)]
pub struct Suspended {
    pub(crate) mailbox: Mailbox<HandlerMessage>,
    pub(crate) exchange: Exchange,
    pub(crate) alive: Weak<AtomicBool>,
    pub(crate) done: bool,
}

impl Suspended {
    /// Answers.
    pub fn reply(self, response: OwnedResponse) {
        self.resume(move |responder| responder.respond(response));
    }

    /// Has `act` go on with the exchange, on the thread that it belongs to.
    pub fn resume(self, act: impl FnOnce(&mut Responder<'_>) -> HandlerResult + Send + 'static) {
        self.post(MessageKind::Run(Box::new(act)));
    }

    pub(crate) fn post(mut self, doing: MessageKind) {
        self.done = true;
        self.mailbox.post(self.exchange, HandlerMessage(doing));
    }

    /// True if the client is gone: there is nobody to answer any more.
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

/// Tells the work of one exchange, from any thread, that it may go on: see
/// [`crate::BodyHandler::ready`]. However often it is told before the server looks, the server is woken
/// once.
#[derive(Clone, Debug)]
pub struct Resumer {
    pub(crate) mailbox: Mailbox<HandlerMessage>,
    pub(crate) exchange: Exchange,
    pub(crate) alive: Weak<AtomicBool>,
}

impl Resumer {
    /// The work may go on.
    pub fn resume(&self) {
        if let Some(notified) = self.alive.upgrade()
            && !notified.swap(true, Ordering::AcqRel)
        {
            self.mailbox.post(self.exchange, HandlerMessage(MessageKind::Ready));
        }
    }

    /// True if the exchange is over: there is nothing to go on with any more.
    pub fn is_gone(&self) -> bool {
        self.alive.strong_count() == 0
    }
}
