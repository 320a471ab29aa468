//! A lazy timing wheel: one entry per slot, however often its deadline moves.
//!
//! Moving a deadline later costs a store in the owner's record. The entry stays in its bucket;
//! when the bucket is due, the owner arms it again. Only moving a deadline earlier changes the
//! wheel. Four levels of 64 buckets hold 1 ms to 4.6 hours; a bucket of a coarse
//! level comes due when its span begins, and the same rule takes its entries to a finer one.

use std::ops::Range;
use std::time::{Duration, Instant};

/// Milliseconds since the wheel began. 64 bits: they do not wrap after 49.7 days.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tick(u64);

impl Tick {
    /// Later than every other.
    pub const NEVER: Self = Self(u64::MAX);

    /// When a wheel began.
    pub const START: Self = Self(0);

    /// Ticks since the wheel began.
    pub fn number(self) -> u64 {
        self.0
    }

    /// The reverse of [`Tick::number`].
    pub fn from_number(ticks: u64) -> Self {
        Self(ticks)
    }

    /// From `earlier` to this one; nothing if that is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> TickSpan {
        TickSpan(self.0.saturating_sub(earlier.0))
    }

    /// Later by `span`.
    #[must_use]
    pub fn after(self, span: TickSpan) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

/// A length of time in ticks, reckoned once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TickSpan(u64);

impl TickSpan {
    /// Its ticks.
    pub fn number(self) -> u64 {
        self.0
    }

    /// For ever.
    pub const ENDLESS: Self = Self(u64::MAX);

    /// In milliseconds.
    pub fn millis(self) -> u64 {
        self.0
    }
}

impl From<Duration> for TickSpan {
    /// Rounded up to milliseconds.
    fn from(duration: Duration) -> Self {
        Self(millis(duration))
    }
}

/// Deadlines of slots, found in constant time.
#[derive(Debug)]
pub struct Wheel {
    start: Instant,
    latest: (Range<Instant>, Tick), // the tick of the last request, and the time that it covers
    next: Option<Instant>,          // when the first entry is due: read every turn, rarely changed
    done: u64,                      // every tick up to this one has been handled
    heads: [Option<Box<[u32; BUCKETS]>>; LEVELS], // of the lists in buckets, once one was used
    occupied: [u64; LEVELS],
    nodes: Vec<Node>, // by slot
}

/// A slot's place in the list of a bucket.
#[derive(Clone, Debug)]
struct Node {
    due: u64, // when its bucket comes due, or `UNARMED`
    level: u8,
    bucket: u8,
    next: u32,
    previous: u32,
}

impl Wheel {
    /// An empty wheel; `start` is its first tick.
    pub fn new(start: Instant) -> Self {
        let latest = (start..start, Tick::START);
        Self {
            start,
            latest,
            next: None,
            done: 0,
            heads: Default::default(),
            occupied: [0; LEVELS],
            nodes: Vec::new(),
        }
    }

    /// The tick that `time` falls in; what is due at it has come.
    pub fn tick(&mut self, time: Instant) -> Tick {
        if !self.latest.0.contains(&time) {
            let since = time.saturating_duration_since(self.start);
            let millis = since.as_secs().saturating_mul(1_000);
            let tick = Tick(millis.saturating_add(since.subsec_millis().into()));
            let left = Duration::new(0, 1_000_000 - since.subsec_nanos() % 1_000_000);
            self.latest = (time..time + left, tick);
        }
        self.latest.1
    }

    /// The first tick that is not before `time`: for deadlines.
    pub fn tick_from(&self, time: Instant) -> Tick {
        Tick(millis(time.saturating_duration_since(self.start)))
    }

    /// Slot `at` comes due at `tick` at the latest. Does nothing if it does so earlier anyway.
    pub fn arm(&mut self, at: u32, tick: Tick) {
        if tick == Tick::NEVER {
            return;
        }
        if self.nodes.len() <= at as usize {
            if self.nodes.capacity() == 0 {
                self.nodes.reserve_exact(at as usize + 1); // wheels of one slot are many
            }
            self.nodes.resize(at as usize + 1, Node::UNARMED);
        }
        let tick = tick.0.clamp(self.done + 1, self.done + SPAN - 1);
        if self.nodes[at as usize].due <= tick {
            return;
        }
        self.unlink(at);
        self.link(at, tick);
        self.look_ahead();
    }

    /// There are only so many slots now: entries of others are forgotten, and so is their memory,
    /// if it is much.
    pub fn keep(&mut self, slots: u32) {
        let kept = slots.max(KEPT_LEN) as usize;
        if self.nodes.len() > 4 * kept {
            let from = slots as usize;
            for at in from..self.nodes.len() {
                self.unlink(u32::try_from(at).expect("slots are numbered by a word"));
            }
            self.nodes.truncate(from);
            self.nodes.shrink_to(2 * kept);
            self.look_ahead();
        }
    }

    /// The slots with due entries; the caller arms those again that are not due yet.
    pub fn expire(&mut self, now: Instant, due: &mut Vec<u32>) {
        if self.next.is_some_and(|next| next > now) {
            return;
        }
        let until = self.tick(now).0;
        if self.next.is_none() {
            self.done = self.done.max(until);
            return;
        }
        while let Some(tick) = self.next_tick().filter(|tick| *tick <= until) {
            self.done = tick;
            for level in 0..LEVELS {
                if tick & (span_of(level) - 1) == 0 {
                    self.empty(level, due);
                }
            }
        }
        self.done = self.done.max(until);
        self.look_ahead();
    }

    /// When the next entry comes due.
    pub fn next(&self) -> Option<Instant> {
        self.next
    }

    fn look_ahead(&mut self) {
        self.next = self.next_tick().map(|tick| self.start + Duration::from_millis(tick));
    }

    /// Four words are looked at.
    fn next_tick(&self) -> Option<u64> {
        let of_level = |level: usize| {
            let bits = self.occupied[level];
            let current = self.done >> (level * BITS);
            let first = u32::try_from((current + 1) % BUCKETS as u64).expect("below 64");
            let ahead = u64::from(bits.rotate_right(first).trailing_zeros());
            (bits != 0).then(|| (current + 1 + ahead) << (level * BITS))
        };
        (0..LEVELS).filter_map(of_level).min()
    }

    /// Empties the bucket of `level` that begins now.
    fn empty(&mut self, level: usize, due: &mut Vec<u32>) {
        let bucket = bucket_of(level, self.done);
        if self.occupied[level] & 1 << bucket == 0 {
            return;
        }
        let heads = self.heads[level].as_mut().expect(OCCUPIED);
        let mut at = std::mem::replace(&mut heads[bucket], NIL);
        self.occupied[level] &= !(1 << bucket);
        while at != NIL {
            due.push(at);
            let node = std::mem::replace(&mut self.nodes[at as usize], Node::UNARMED);
            at = node.next;
        }
    }

    fn link(&mut self, at: u32, tick: u64) {
        let ahead = tick - self.done;
        let level = (0..LEVELS).find(|l| ahead < span_of(l + 1)).expect("clamped to the span");
        let bucket = bucket_of(level, tick);
        let heads = self.heads[level].get_or_insert_with(|| Box::new([NIL; BUCKETS]));
        let head = std::mem::replace(&mut heads[bucket], at);
        if head != NIL {
            self.nodes[head as usize].previous = at;
        }
        self.occupied[level] |= 1 << bucket;
        self.nodes[at as usize] = Node {
            due: tick & !(span_of(level) - 1),
            level: u8::try_from(level).expect("few levels"),
            bucket: u8::try_from(bucket).expect("64 buckets"),
            next: head,
            previous: NIL,
        };
    }

    fn unlink(&mut self, at: u32) {
        let node = std::mem::replace(&mut self.nodes[at as usize], Node::UNARMED);
        if node.due == UNARMED {
            return;
        }
        if node.next != NIL {
            self.nodes[node.next as usize].previous = node.previous;
        }
        if node.previous != NIL {
            self.nodes[node.previous as usize].next = node.next;
            return;
        }
        let (level, bucket) = (usize::from(node.level), usize::from(node.bucket));
        self.heads[level].as_mut().expect(OCCUPIED)[bucket] = node.next;
        if node.next == NIL {
            self.occupied[level] &= !(1 << bucket);
        }
    }
}

impl Node {
    const UNARMED: Self = Self { due: UNARMED, level: 0, bucket: 0, next: NIL, previous: NIL };
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX - 1)
}

fn span_of(level: usize) -> u64 {
    1 << (level * BITS)
}

#[expect(clippy::cast_possible_truncation, reason = "the remainder is below 64")]
fn bucket_of(level: usize, tick: u64) -> usize {
    ((tick >> (level * BITS)) % BUCKETS as u64) as usize
}

const BITS: usize = 6;
const BUCKETS: usize = 1 << BITS;
const LEVELS: usize = 4;
/// Deadlines further away come due early, and are armed again.
const SPAN: u64 = 1 << (LEVELS * BITS);
const UNARMED: u64 = u64::MAX;
/// So many nodes are not worth giving back.
const KEPT_LEN: u32 = 256;
const NIL: u32 = u32::MAX;
const OCCUPIED: &str = "a level with entries has lists";

#[cfg(test)]
mod tests {
    use super::*;

    fn at(wheel: &Wheel, ms: u64) -> Instant {
        wheel.start + Duration::from_millis(ms)
    }

    /// Runs the wheel as its owner does: what is not due yet is armed again.
    fn expired(wheel: &mut Wheel, deadlines: &[u64], ms: u64) -> Vec<u32> {
        let (mut due, mut really) = (Vec::new(), Vec::new());
        loop {
            wheel.expire(at(wheel, ms), &mut due);
            if due.is_empty() {
                really.sort_unstable();
                return really;
            }
            for slot in due.drain(..) {
                match deadlines[slot as usize] {
                    deadline if deadline <= ms => really.push(slot),
                    deadline => wheel.arm(slot, Tick(deadline)),
                }
            }
        }
    }

    #[expect(clippy::disallowed_methods, reason = "a test needs some moment to start from")]
    fn wheel() -> Wheel {
        Wheel::new(Instant::now())
    }

    #[test]
    fn a_tick_does_not_depend_on_the_previous_request() {
        let mut wheel = wheel();
        let start = wheel.start;
        let nanos = [0, 999_999, 1_000_000, 1_999_999, 1_000_000, 999_999, 2_000_000, 0, 3_500_000];
        for time in nanos {
            assert_eq!(wheel.tick(start + Duration::from_nanos(time)), Tick(time / 1_000_000));
        }
        let early = start.checked_sub(Duration::from_nanos(1)).expect("the clock has run a while");
        assert_eq!([early, start, early].map(|time| wheel.tick(time)), [Tick::START; 3]);
    }

    #[test]
    fn a_crowd_that_left_is_forgotten() {
        let mut wheel = wheel();
        let deadlines = vec![75_000; 10_000];
        for slot in 0..10_000 {
            wheel.arm(slot, Tick(75_000));
        }
        wheel.keep(10);
        assert!(wheel.nodes.capacity() <= 512);
        wheel.arm(20, Tick(75_000));
        let due = (0..10).chain([20]).collect::<Vec<_>>();
        assert_eq!(expired(&mut wheel, &deadlines, 75_000), due);
        assert_eq!(wheel.next(), None);
    }

    #[test]
    fn deadlines_that_move_later_cost_nothing_and_are_kept() {
        let mut wheel = wheel();
        let mut deadlines = vec![60_000; 10_000];
        for slot in 0..10_000 {
            wheel.arm(slot, Tick(30_000));
            wheel.arm(slot, Tick(60_000)); // later: no news
        }
        assert!(expired(&mut wheel, &deadlines, 59_999).is_empty());
        deadlines[7] = 60_010;
        assert_eq!(expired(&mut wheel, &deadlines, 60_000).len(), 9_999);
        assert_eq!(expired(&mut wheel, &deadlines, 60_010), [7]);
        assert_eq!(wheel.next(), None);
    }

    #[test]
    fn earlier_deadlines_come_first_and_to_the_millisecond() {
        let mut wheel = wheel();
        let deadlines = [5_000_000, 17_000_000_000, 70, 64, 1];
        for (slot, deadline) in (0..).zip(deadlines) {
            wheel.arm(slot, Tick(deadline + 1_000));
            wheel.arm(slot, Tick(deadline));
        }
        assert_eq!(wheel.next(), Some(at(&wheel, 1)));
        for (ms, expected) in
            [(1, &[4][..]), (63, &[]), (64, &[3]), (69, &[]), (70, &[2]), (4_999_999, &[])]
        {
            assert_eq!(expired(&mut wheel, &deadlines, ms), expected, "at {ms} ms");
        }
        assert_eq!(expired(&mut wheel, &deadlines, 5_000_000), [0]);
        assert!(wheel.next().is_some(), "a deadline beyond the span is waited for in steps");
    }

    #[test]
    fn any_order_of_arming_gives_the_order_of_deadlines() {
        let mut wheel = wheel();
        let mut state = 88_172_645_463_325_252_u64;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let deadlines: Vec<u64> = (0..2_000).map(|_| 1 + next() % 300_000).collect();
        for (slot, deadline) in (0..).zip(&deadlines) {
            wheel.arm(slot, Tick(*deadline));
        }
        let mut now = 0;
        let mut seen = 0;
        while let Some(next) = wheel.next_tick() {
            now = next.max(now + 1);
            for slot in expired(&mut wheel, &deadlines, now) {
                assert_eq!(deadlines[slot as usize], now);
                seen += 1;
            }
        }
        assert_eq!(seen, deadlines.len());
    }
}
