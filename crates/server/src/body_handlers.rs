//! The body handlers of [`Responder`]: one collects a request's body, one produces a response's.

use bytes::{Bytes, BytesMut};
use fulmar_proto::Headers;

use crate::handler::{BodyHandler, HandlerResult};
use crate::responder::Responder;

/// What a producer has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Produced {
    /// It has sent bytes. It is called again while there is room.
    More,
    /// It has no bytes now. It is called again after [`Responder::wake_at`] or a
    /// [`crate::Resumer`].
    Nothing,
    /// The body is complete: the response ends.
    All,
}

/// Produces a response's body while it is sent: see [`Responder::produce`].
#[derive(Debug)]
pub(crate) struct Produce<F>(pub(crate) F);

impl<F> BodyHandler for Produce<F>
where
    F: FnMut(&mut Responder<'_>) -> Result<Produced, fulmar_proto::UsageError> + 'static,
{
    fn ready(&mut self, responder: &mut Responder<'_>) -> HandlerResult {
        while responder.room() > 0 {
            match (self.0)(responder)? {
                Produced::More => {}
                Produced::Nothing => break,
                Produced::All => return responder.end(),
            }
        }
        Ok(())
    }
}

/// Collects a request's body until it is complete: see [`Responder::collect`].
#[derive(Debug)]
pub(crate) struct Collect<F> {
    size_max: usize,
    first: Bytes, // most bodies are one piece, which is not copied
    rest: BytesMut,
    then: Option<F>,
}

impl<F> Collect<F> {
    pub(crate) fn new(size_max: usize, then: F) -> Self {
        Self { size_max, first: Bytes::new(), rest: BytesMut::new(), then: Some(then) }
    }
}

impl<F: FnOnce(&mut Responder<'_>, Bytes) -> HandlerResult + 'static> BodyHandler for Collect<F> {
    fn data(&mut self, responder: &mut Responder<'_>, bytes: Bytes) -> HandlerResult {
        if self.then.is_none() {
            return Ok(());
        }
        if self.first.len() + self.rest.len() + bytes.len() > self.size_max {
            self.then = None;
            (self.first, self.rest) = (Bytes::new(), BytesMut::new());
            return responder.too_large();
        }
        if self.first.is_empty() && self.rest.is_empty() && bytes.len() >= SHARED_SIZE_MIN {
            self.first = bytes;
            return Ok(());
        }
        if !self.first.is_empty() {
            self.rest.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.rest.extend_from_slice(&bytes);
        Ok(())
    }

    fn end(&mut self, responder: &mut Responder<'_>, _: Headers<'_>) -> HandlerResult {
        let body = match self.first.is_empty() {
            true => std::mem::take(&mut self.rest).freeze(),
            false => std::mem::take(&mut self.first),
        };
        self.then.take().map_or(Ok(()), |then| then(responder, body))
    }
}

/// Shorter pieces are copied: sharing one would keep the whole block in which it arrived.
const SHARED_SIZE_MIN: usize = 16 * 1024;
