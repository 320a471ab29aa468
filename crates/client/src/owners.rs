//! The transfers of a connection, by their streams.

use std::collections::VecDeque;

use fulmar_proto::StreamId;

use crate::transfer::TransferId;

/// The transfers that wait for responses of a connection, in the order of their requests. One needs
/// no allocation.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    first: Option<Owner>,
    #[expect(
        clippy::box_collection,
        reason = "few connections have more than one: a word, not four"
    )]
    rest: Option<Box<VecDeque<Owner>>>,
}

type Owner = (StreamId, TransferId);

impl Owners {
    /// Adds the transfer of a new stream.
    pub(crate) fn push(&mut self, stream: StreamId, id: TransferId) {
        debug_assert!(self.last().is_none_or(|(last, _)| last < stream), "streams count up");
        match self.first {
            None => self.first = Some((stream, id)),
            Some(_) => self.rest.get_or_insert_default().push_back((stream, id)),
        }
    }

    /// The transfer of a stream.
    pub(crate) fn get(&self, stream: StreamId) -> Option<TransferId> {
        match self.first? {
            (first, id) if first == stream => Some(id),
            _ => {
                let rest = self.rest.as_ref()?;
                let at = rest.binary_search_by_key(&stream, |(stream, _)| *stream).ok()?;
                Some(rest[at].1)
            }
        }
    }

    /// Removes the transfer of a stream.
    pub(crate) fn remove(&mut self, stream: StreamId) -> Option<TransferId> {
        if self.first?.0 == stream {
            return self.pop().map(|(_, id)| id);
        }
        let rest = self.rest.as_mut()?;
        let at = rest.binary_search_by_key(&stream, |(stream, _)| *stream).ok()?;
        rest.remove(at).map(|(_, id)| id)
    }

    /// Removes the first one.
    pub(crate) fn pop(&mut self) -> Option<Owner> {
        let next = self.rest.as_mut().and_then(|rest| rest.pop_front());
        std::mem::replace(&mut self.first, next)
    }

    /// The transfer whose request was sent first.
    pub(crate) fn first(&self) -> Option<TransferId> {
        self.first.map(|(_, id)| id)
    }

    /// The last request, and its transfer.
    pub(crate) fn last(&self) -> Option<Owner> {
        self.rest.as_ref().and_then(|rest| rest.back().copied()).or(self.first)
    }

    /// All of them, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Owner> {
        self.first.into_iter().chain(self.rest.iter().flat_map(|rest| rest.iter().copied()))
    }

    /// The stream of a transfer, if it waits for a response.
    pub(crate) fn stream_of(&self, id: TransferId) -> Option<StreamId> {
        self.iter().find(|(_, owner)| *owner == id).map(|(stream, _)| stream)
    }

    /// True if no transfer waits for a response.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// True if exactly one does.
    pub(crate) fn is_single(&self) -> bool {
        self.first.is_some() && self.rest.as_ref().is_none_or(|rest| rest.is_empty())
    }

    /// Frees the memory for more than one transfer.
    pub(crate) fn release_memory(&mut self) {
        self.rest.take_if(|rest| rest.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use fulmar_engine::SocketId;

    use super::*;

    /// Compares with a simple list.
    #[test]
    fn owners_are_found_by_their_streams() {
        let mut random = fastrand::Rng::with_seed(5);
        let (mut owners, mut model) = (Owners::default(), Vec::new());
        for n in 0..5_000 {
            if random.bool() && model.len() < 6 {
                let id = TransferId(SocketId { index: n, generation: 0 });
                owners.push(StreamId(n), id);
                model.push((StreamId(n), id));
            } else if random.bool() || model.is_empty() {
                let first = (!model.is_empty()).then(|| model.remove(0));
                assert_eq!(owners.pop(), first);
            } else {
                let (stream, id) = model.remove(random.usize(..model.len()));
                assert_eq!(owners.remove(stream), Some(id));
                assert_eq!(owners.remove(stream), None);
            }
            assert_eq!(owners.first(), model.first().map(|(_, id)| *id));
            assert_eq!(owners.last(), model.last().copied());
            assert_eq!(
                (owners.is_empty(), owners.is_single()),
                (model.is_empty(), model.len() == 1)
            );
            assert!(owners.iter().eq(model.iter().copied()));
            for (stream, id) in &model {
                assert_eq!(owners.get(*stream), Some(*id));
                assert_eq!(owners.stream_of(*id), Some(*stream));
            }
            assert_eq!(owners.get(StreamId(n + 1)), None);
            let unknown = TransferId(SocketId { index: n + 1, generation: 0 });
            assert_eq!(owners.stream_of(unknown), None);
        }
    }
}
