//! Doing less at a time than the kernel would: for tests, with the feature `testing`.
//!
//! A machine's own network hands over whole messages. What real networks do (one byte, then
//! nothing, then the rest) comes from here, at every place and in seconds.

use std::io;

use fastrand::Rng;
use fulmar_sys::errno::EAGAIN;

use crate::throttle::Direction;

/// How little one call does. By default as much as it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portions {
    /// Bytes of one receive.
    pub receive: usize,
    /// Bytes of one send.
    pub send: usize,
    /// How many of a thousand calls are not made: they answer `EAGAIN` instead.
    pub again: u32,
    /// Which ones: the same seed gives the same ones.
    pub seed: u64,
}

impl Default for Portions {
    fn default() -> Self {
        Self { receive: usize::MAX, send: usize::MAX, again: 0, seed: 0 }
    }
}

/// Portions in use.
#[derive(Debug)]
pub(crate) struct Throttle {
    portions: Portions,
    random: Rng,
}

impl Throttle {
    pub(crate) fn new(portions: Portions) -> Self {
        let least_one = |bytes: usize| bytes.max(1); // 0 would look like the end
        let (receive, send) = (least_one(portions.receive), least_one(portions.send));
        let random = Rng::with_seed(portions.seed);
        Self { portions: Portions { receive, send, ..portions }, random }
    }

    pub(crate) fn portion(&mut self, way: Direction, len: usize) -> io::Result<usize> {
        if self.random.u32(0..1000) < self.portions.again {
            return Err(io::Error::from_raw_os_error(EAGAIN));
        }
        Ok(len.min(match way {
            Direction::Receive => self.portions.receive,
            Direction::Send => self.portions.send,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_limited_by_default_and_a_seed_gives_the_same_again() {
        let mut whole = Throttle::new(Portions::default());
        assert_eq!(whole.portion(Direction::Send, 7).unwrap(), 7);
        let portions = Portions { receive: 2, send: 0, again: 500, seed: 1 };
        let run = || {
            let mut throttle = Throttle::new(portions);
            let mut one = |_| throttle.portion(Direction::Receive, 7).ok();
            (0..100).map(&mut one).collect::<Vec<_>>()
        };
        let first = run();
        assert_eq!(first, run());
        assert!(first.contains(&None) && first.iter().flatten().all(|n| *n == 2));
    }
}
