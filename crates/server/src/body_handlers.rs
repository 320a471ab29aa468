//! Body handlers that many handlers have: collecting a body, producing one.

use bytes::{Bytes, BytesMut};
use fulmar_proto::Headers;

use crate::handler::{BodyHandler, HandlerResult};
use crate::responder::Responder;

/// What a producer says when it has been asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Produced {
    /// It has sent something; it is asked again while there is room.
    More,
    /// It has nothing now; it is asked again when [`Responder::wake_at`] or a [`crate::Resumer`] says
    /// so.
    Nothing,
    /// That was all: the answer ends.
    All,
}

/// An answer that is made while it is sent: see [`Responder::produce`].
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

/// A body that is kept until it is complete: see [`Responder::collect`].
#[derive(Debug)]
pub(crate) struct Collect<F> {
    size_max: usize,
    first: Bytes, // most bodies are one piece, and are not copied
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

/// Shorter pieces are copied: a share of them would keep the whole block that they arrived in.
const SHARED_SIZE_MIN: usize = 16 * 1024;
