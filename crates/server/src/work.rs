//! Work that many handlers have: collecting a body, producing one.

use bytes::{Bytes, BytesMut};
use fulmar_proto::Headers;

use crate::call::Call;
use crate::handler::{Outcome, Work};

/// What a producer says when it has been asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Produced {
    /// It has sent something; it is asked again while there is room.
    More,
    /// It has nothing now; it is asked again when [`Call::wake_at`] or a [`crate::Resumer`] says
    /// so.
    Nothing,
    /// That was all: the answer ends.
    All,
}

/// An answer that is made while it is sent: see [`Call::produce`].
#[derive(Debug)]
pub(crate) struct Produce<F>(pub(crate) F);

impl<F> Work for Produce<F>
where
    F: FnMut(&mut Call<'_>) -> Result<Produced, fulmar_proto::UsageError> + 'static,
{
    fn ready(&mut self, call: &mut Call<'_>) -> Outcome {
        while call.room() > 0 {
            match (self.0)(call)? {
                Produced::More => {}
                Produced::Nothing => break,
                Produced::All => return call.end(),
            }
        }
        Ok(())
    }
}

/// A body that is kept until it is complete: see [`Call::collect`].
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

impl<F: FnOnce(&mut Call<'_>, Bytes) -> Outcome + 'static> Work for Collect<F> {
    fn data(&mut self, call: &mut Call<'_>, bytes: Bytes) -> Outcome {
        if self.then.is_none() {
            return Ok(());
        }
        if self.first.len() + self.rest.len() + bytes.len() > self.size_max {
            self.then = None;
            (self.first, self.rest) = (Bytes::new(), BytesMut::new());
            return call.too_large();
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

    fn end(&mut self, call: &mut Call<'_>, _: Headers<'_>) -> Outcome {
        let body = match self.first.is_empty() {
            true => std::mem::take(&mut self.rest).freeze(),
            false => std::mem::take(&mut self.first),
        };
        self.then.take().map_or(Ok(()), |then| then(call, body))
    }
}

/// Shorter pieces are copied: a share of them would keep the whole block that they arrived in.
const SHARED_SIZE_MIN: usize = 16 * 1024;
