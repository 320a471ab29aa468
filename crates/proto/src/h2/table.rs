//! The open streams of a connection, and the order in which they are framed.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use crate::event::StreamId;

use super::priority::URGENCIES;
use super::stream::{Readiness, Stream};

/// The place of an open stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamSlot(u16);

/// The open streams. Without any, it holds no memory but itself.
#[derive(Debug, Default)]
pub(super) struct StreamTable {
    places: Vec<StreamPlace>,
    /// Sorted by id: ids only grow.
    ids: Vec<(StreamId, StreamSlot)>,
    free: Option<StreamSlot>,
    ready: ReadyLists,
}

#[derive(Debug)]
struct StreamPlace {
    stream: Option<Stream>,
    /// The list that this place is in, if any.
    listed: Option<ListId>,
    /// The next place of the list, or the next free place.
    next: Option<StreamSlot>,
    previous: Option<StreamSlot>,
}

/// The lists of streams with something to frame.
#[derive(Debug, Default)]
struct ReadyLists {
    /// Ends of messages, which no window limits.
    ends: SlotList,
    /// Bytes, by urgency.
    data: [SlotList; URGENCIES],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListId {
    Ends,
    Data(u8),
}

#[derive(Clone, Copy, Debug, Default)]
struct SlotList {
    first: Option<StreamSlot>,
    last: Option<StreamSlot>,
}

/// The end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Before the others of its urgency.
    Next,
    /// After the others of its urgency.
    Last,
}

impl ReadyLists {
    fn list(&mut self, id: ListId) -> &mut SlotList {
        match id {
            ListId::Ends => &mut self.ends,
            ListId::Data(urgency) => &mut self.data[usize::from(urgency)],
        }
    }
}

impl StreamTable {
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The place of a stream; `None` if it is closed, or was never open.
    pub(super) fn find(&self, id: StreamId) -> Option<StreamSlot> {
        // The newest stream is the most frequent one.
        match self.ids.last() {
            Some((last, slot)) if *last == id => Some(*slot),
            _ => {
                let at = self.ids.binary_search_by_key(&id, |(id, _)| *id).ok()?;
                Some(self.ids[at].1)
            }
        }
    }

    pub(super) fn get_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        self.find(id).map(|slot| &mut self[slot])
    }

    /// Adds a stream, whose id is larger than all before.
    pub(super) fn insert(&mut self, stream: Stream) -> StreamSlot {
        debug_assert!(self.ids.last().is_none_or(|(last, _)| *last < stream.id), "ids grow");
        let id = stream.id;
        let slot = match self.free {
            Some(slot) => {
                let place = &mut self.places[usize::from(slot.0)];
                self.free = place.next.take();
                place.stream = Some(stream);
                slot
            }
            None => {
                let slot =
                    StreamSlot(u16::try_from(self.places.len()).expect("streams are limited"));
                let stream = Some(stream);
                self.places.push(StreamPlace { stream, listed: None, next: None, previous: None });
                slot
            }
        };
        self.ids.push((id, slot));
        slot
    }

    /// Removes a stream.
    pub(super) fn remove(&mut self, slot: StreamSlot) -> Stream {
        self.unlist(slot);
        let place = &mut self.places[usize::from(slot.0)];
        let stream = place.stream.take().expect("a slot of an open stream");
        place.next = self.free.replace(slot);
        let at = self.ids.binary_search_by_key(&stream.id, |(id, _)| *id);
        self.ids.remove(at.expect("every open stream has an entry"));
        if self.ids.is_empty() {
            *self = Self::default();
        }
        stream
    }

    /// The slots of all streams, by their ids.
    pub(super) fn slots(&self) -> impl Iterator<Item = StreamSlot> {
        self.ids.iter().map(|(_, slot)| *slot)
    }

    /// All streams, by their ids.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.slots().map(|slot| &self[slot])
    }

    /// All streams, in no order.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.places.iter_mut().filter_map(|place| place.stream.as_mut())
    }

    /// The slot of the `n`th stream.
    pub(super) fn nth(&self, n: usize) -> Option<StreamSlot> {
        self.ids.get(n).map(|(_, slot)| *slot)
    }

    /// The newest of the streams that are older than this one.
    pub(super) fn before(&self, id: StreamId) -> Option<&Stream> {
        let at = self.ids.partition_point(|(it, _)| *it < id).checked_sub(1)?;
        Some(&self[self.ids[at].1])
    }

    /// The slot of the newest stream.
    pub(super) fn last(&self) -> Option<StreamSlot> {
        self.ids.last().map(|(_, slot)| *slot)
    }

    /// True if a stream can be framed. `window_open`: the window of the connection is.
    pub(super) fn has_ready(&self, window_open: bool) -> bool {
        let has_data = || self.ready.data.iter().any(|list| list.first.is_some());
        self.ready.ends.first.is_some() || (window_open && has_data())
    }

    /// Removes the next stream to frame from its list: ends first, then the most urgent bytes.
    pub(super) fn next_ready(&mut self, window_open: bool) -> Option<StreamSlot> {
        let data = || self.ready.data.iter().find_map(|list| list.first);
        let slot = self.ready.ends.first.or_else(|| data().filter(|_| window_open))?;
        self.unlist(slot);
        Some(slot)
    }

    /// Lists a stream that has something to frame, or removes it if it has nothing.
    pub(super) fn update_ready(&mut self, slot: StreamSlot, turn: Turn) {
        let stream = &self[slot];
        let wanted = match stream.readiness() {
            Readiness::Nothing => None,
            Readiness::Data => Some(ListId::Data(stream.priority.urgency)),
            Readiness::End => Some(ListId::Ends),
        };
        if self.places[usize::from(slot.0)].listed == wanted {
            return;
        }
        self.unlist(slot);
        if let Some(list) = wanted {
            self.list(slot, list, turn);
        }
    }

    fn list(&mut self, slot: StreamSlot, id: ListId, turn: Turn) {
        let Self { places, ready, .. } = self;
        let list = ready.list(id);
        let (next, previous) = match turn {
            Turn::Next => (list.first.replace(slot), None),
            Turn::Last => (None, list.last.replace(slot)),
        };
        match next {
            Some(next) => places[usize::from(next.0)].previous = Some(slot),
            None => list.last = Some(slot),
        }
        match previous {
            Some(previous) => places[usize::from(previous.0)].next = Some(slot),
            None => list.first = Some(slot),
        }
        let place = &mut places[usize::from(slot.0)];
        (place.next, place.previous, place.listed) = (next, previous, Some(id));
    }

    fn unlist(&mut self, slot: StreamSlot) {
        let Self { places, ready, .. } = self;
        let place = &mut places[usize::from(slot.0)];
        let Some(id) = place.listed.take() else { return };
        let (next, previous) = (place.next.take(), place.previous.take());
        let list = ready.list(id);
        match next {
            Some(next) => places[usize::from(next.0)].previous = previous,
            None => list.last = previous,
        }
        match previous {
            Some(previous) => places[usize::from(previous.0)].next = next,
            None => list.first = next,
        }
    }
}

impl Index<StreamSlot> for StreamTable {
    type Output = Stream;

    fn index(&self, slot: StreamSlot) -> &Stream {
        self.places[usize::from(slot.0)].stream.as_ref().expect("a slot of an open stream")
    }
}

impl IndexMut<StreamSlot> for StreamTable {
    fn index_mut(&mut self, slot: StreamSlot) -> &mut Stream {
        self.places[usize::from(slot.0)].stream.as_mut().expect("a slot of an open stream")
    }
}

/// Streams that this side has reset: frames of them may still arrive (RFC 9113 §5.1).
#[derive(Debug, Default)]
pub(super) struct ResetStreams {
    ids: VecDeque<StreamId>,
    /// The largest one that is not remembered any more.
    forgotten: StreamId,
}

impl ResetStreams {
    pub(super) fn note(&mut self, id: StreamId) {
        if self.ids.len() == REMEMBERED_MAX
            && let Some(oldest) = self.ids.pop_front()
        {
            self.forgotten = self.forgotten.max(oldest);
        }
        self.ids.push_back(id);
    }

    /// True if this side has reset the stream, or may have.
    pub(super) fn contains(&self, id: StreamId) -> bool {
        id <= self.forgotten || self.ids.contains(&id)
    }
}

/// Streams that are remembered after this side has reset them. Frames of all streams up to the
/// oldest forgotten one are accepted as late.
const REMEMBERED_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h2::stream::SendHalf;

    fn ended(id: u32) -> Stream {
        let mut stream = Stream::new(StreamId(id), 0, 0);
        stream.send = SendHalf::Queued;
        stream
    }

    fn with_data(id: u32, urgency: u8) -> Stream {
        let mut stream = Stream::new(StreamId(id), 0, 100);
        stream.send = SendHalf::Queued;
        stream.queue.push((&b"x"[..]).into());
        stream.priority.urgency = urgency;
        stream
    }

    #[test]
    fn ends_come_first_then_bytes_by_urgency_and_turn() {
        let mut table = StreamTable::default();
        for stream in [with_data(1, 3), with_data(3, 0), ended(5), with_data(7, 3), with_data(9, 3)]
        {
            let slot = table.insert(stream);
            table.update_ready(slot, Turn::Last);
        }
        let last = table.find(StreamId(9)).unwrap();
        table.unlist(last);
        table.update_ready(last, Turn::Next);
        assert!(table.has_ready(false));
        let mut order = Vec::new();
        while let Some(slot) = table.next_ready(true) {
            order.push(table[slot].id.0);
        }
        assert_eq!(order, [5, 3, 9, 1, 7]);
        assert!(!table.has_ready(true));
    }

    #[test]
    fn places_are_used_again_and_freed_with_the_last_stream() {
        let mut table = StreamTable::default();
        let slots: Vec<StreamSlot> = [1, 3, 5].map(|id| table.insert(with_data(id, 3))).into();
        for slot in &slots {
            table.update_ready(*slot, Turn::Last);
        }
        assert_eq!(table.remove(slots[1]).id, StreamId(3));
        assert_eq!(table.find(StreamId(3)), None);
        let again = table.insert(ended(7));
        assert_eq!(again, slots[1]);
        assert_eq!(table.iter().map(|stream| stream.id.0).collect::<Vec<_>>(), [1, 5, 7]);
        assert_eq!(table.next_ready(false), None, "the window is closed, and 7 is not listed");
        assert_eq!(table.next_ready(true), Some(slots[0]));
        for id in [1, 5, 7] {
            let slot = table.find(StreamId(id)).unwrap();
            table.remove(slot);
        }
        assert!(table.is_empty() && table.places.capacity() == 0);
    }
}
