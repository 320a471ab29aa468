//! How much a call may move: all that it can, but for tests that want less.

use std::io;

#[cfg(feature = "testing")]
pub(crate) use crate::portions::Throttle;

/// There is none.
#[cfg(not(feature = "testing"))]
#[derive(Debug)]
pub(crate) enum Throttle {}

#[cfg(not(feature = "testing"))]
impl Throttle {
    fn portion(&self, _: Direction, _: usize) -> io::Result<usize> {
        match *self {}
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Receive,
    Send,
}

/// How many of `len` bytes a call may move.
pub(crate) fn portion(
    throttle: &mut Option<Box<Throttle>>,
    way: Direction,
    len: usize,
) -> io::Result<usize> {
    match throttle {
        Some(throttle) => throttle.portion(way, len),
        None => Ok(len),
    }
}
