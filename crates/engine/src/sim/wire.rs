//! One simulated connection: two directions, each a queue of bytes and an end.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::SocketId;
use bytes::BytesMut;
use fulmar_proto::{FileRange, Segment, Transmit};

/// Which of the two engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

impl Side {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Wire {
    halves: [Half; 2],
}

/// One engine's end of it.
#[derive(Debug)]
pub(crate) struct Half {
    pub(crate) id: SocketId,
    pub(crate) reading: bool,
    pub(crate) resumed: bool,
    pub(crate) sending: bool,
    pub(crate) splicing: bool,
    /// A FIN follows what was sent.
    pub(crate) finished: bool,
    pub(crate) closed: bool,
    pub(crate) unread: BytesMut,
    eof_told: bool,
    sent: VecDeque<u8>,
}

impl Half {
    fn new(id: SocketId) -> Self {
        Self {
            id,
            reading: true,
            resumed: false,
            sending: false,
            splicing: false,
            finished: false,
            closed: false,
            unread: BytesMut::new(),
            eof_told: false,
            sent: VecDeque::new(),
        }
    }
}

impl Wire {
    pub(crate) fn new(client: SocketId, server: SocketId) -> Self {
        Self { halves: [Half::new(client), Half::new(server)] }
    }

    pub(crate) fn half(&self, side: Side) -> &Half {
        &self.halves[side as usize]
    }

    pub(crate) fn half_mut(&mut self, side: Side) -> &mut Half {
        &mut self.halves[side as usize]
    }

    /// Bytes on the way to `side`.
    pub(crate) fn incoming(&self, side: Side) -> &VecDeque<u8> {
        &self.half(side.other()).sent
    }

    /// Bytes on the way from `side`.
    pub(crate) fn outgoing(&self, side: Side) -> &VecDeque<u8> {
        &self.half(side).sent
    }

    pub(crate) fn can_receive(&self, side: Side) -> bool {
        let half = self.half(side);
        let peer = self.half(side.other());
        let ended = (peer.finished || peer.closed) && !half.eof_told;
        !half.closed && half.reading && (half.resumed || ended || !peer.sent.is_empty())
    }

    pub(crate) fn can_send(&self, side: Side, capacity: usize) -> bool {
        let half = self.half(side);
        !half.closed && half.sending && half.sent.len() < capacity
    }

    pub(crate) fn is_over(&self) -> bool {
        self.halves.iter().all(|half| half.closed)
    }

    /// What was left unread and `n` bytes more; whether the peer's end has been reached.
    pub(crate) fn take(&mut self, side: Side, n: usize) -> (BytesMut, bool) {
        let mut bytes = std::mem::take(&mut self.half_mut(side).unread);
        let peer = self.half_mut(side.other());
        for run in first(&peer.sent, n) {
            bytes.extend_from_slice(run);
        }
        peer.sent.drain(..n);
        let eof = (peer.finished || peer.closed) && peer.sent.is_empty();
        let half = self.half_mut(side);
        half.resumed = false;
        half.eof_told |= eof;
        (bytes, half.eof_told)
    }

    /// `n` bytes on the way to `side`, past what it left unread; the end is still to come.
    pub(crate) fn take_away(&mut self, side: Side, n: usize) -> Vec<u8> {
        self.half_mut(side.other()).sent.drain(..n).collect()
    }

    pub(crate) fn put(&mut self, side: Side, bytes: &[u8]) {
        self.half_mut(side).sent.extend(bytes);
    }
}

/// Puts bytes where a range begins.
pub(crate) fn write(range: &FileRange, bytes: &[u8]) -> io::Result<()> {
    File::from(range.file.try_clone()?).write_all_at(bytes, range.offset)
}

/// The first `n` bytes of a queue; there are as many.
fn first(queue: &VecDeque<u8>, n: usize) -> [&[u8]; 2] {
    let (front, back) = queue.as_slices();
    let split = n.min(front.len());
    [&front[..split], &back[..n - split]]
}

/// How many bytes a transmit stands for.
pub(crate) fn len(transmit: Transmit<'_>) -> usize {
    let queued: u64 = transmit.segments.iter().map(Segment::len).sum();
    transmit.inline.len() + usize::try_from(queued).expect("what a test sends is small")
}

/// The first `n` bytes that a transmit stands for, or all of them; files are read.
pub(crate) fn flatten(transmit: Transmit<'_>, n: usize) -> Vec<u8> {
    let mut bytes = transmit.inline[..n.min(transmit.inline.len())].to_vec();
    for segment in transmit.segments {
        let left = n - bytes.len();
        match segment {
            Segment::Bytes(run) => bytes.extend_from_slice(&run[..left.min(run.len())]),
            Segment::File(range) => {
                let len = range.len.min(left as u64);
                bytes.extend(read(&FileRange { len, ..range.clone() }));
            }
            Segment::Pipe(_) => unreachable!("this network has no pipes"),
        }
    }
    bytes
}

/// The bytes of a part of a file.
pub(crate) fn read(range: &FileRange) -> Vec<u8> {
    let file = File::from(range.file.try_clone().expect("a spare descriptor"));
    let mut content = vec![0; usize::try_from(range.len).expect("a file for a test is small")];
    file.read_exact_at(&mut content, range.offset).expect("the file is there");
    content
}
