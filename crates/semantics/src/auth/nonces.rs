//! Nonces of a server, and their used counts (RFC 7616 §3.3, §5.4, §5.5).
//!
//! A nonce contains its time and a message authentication code, so issuing nonces needs no memory.
//! The first valid proof allocates memory, which is bounded: the oldest nonces are forgotten and
//! refused from then on, so no proof is accepted twice.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::hash::Hex;

/// The nonces of a gate, for all its threads.
pub(super) struct Nonces {
    key: Hmac<Sha256>,
    issued: AtomicU64,
    lifetime_s: u64,
    nonces_max: usize,
    book: Mutex<NonceTable>,
}

#[derive(Default)]
struct NonceTable {
    /// Used counts, by the time of the nonce.
    used: BTreeMap<Made, Window>,
    /// Nonces up to this one that are not in `used` were forgotten.
    forgotten: Option<Made>,
}

/// The time of a nonce: seconds since 1970, and a sequence number.
type Made = (u64, u64);

/// The used counts of a nonce. Counts of parallel connections arrive out of order.
#[derive(Clone, Copy, Default)]
struct Window {
    highest: u32,
    /// A bit for each count: the lowest bit is the highest count, the next bit the count below it.
    used: u64,
}

impl Nonces {
    pub(super) fn new(secret: [u8; 32], lifetime_s: u64, nonces_max: usize) -> Self {
        Self {
            key: Hmac::new_from_slice(&secret).expect("HMAC keys may have any length"),
            issued: AtomicU64::new(0),
            lifetime_s,
            nonces_max: nonces_max.max(1),
            book: Mutex::default(),
        }
    }

    /// Issues a nonce.
    pub(super) fn issue(&self, unix_now: i64) -> String {
        let number = self.issued.fetch_add(1, Ordering::Relaxed);
        self.write((unix_now.max(0).unsigned_abs(), number))
    }

    /// Marks the `count`th use of a nonce. Returns false if it was used before, or if the nonce is
    /// not ours, too old, or forgotten: the client may retry with a new one.
    pub(super) fn take(&self, unix_now: i64, nonce: &[u8], count: u32) -> bool {
        let Some(made) = self.read(nonce) else { return false };
        let now = unix_now.max(0).unsigned_abs();
        let age = now.checked_sub(made.0); // `None` if the clock was set back
        if count == 0 || age.is_none_or(|age| age > self.lifetime_s) {
            return false;
        }
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        book.forget_before(now.saturating_sub(self.lifetime_s));
        book.window(made, self.nonces_max).is_some_and(|window| window.take(count))
    }

    fn write(&self, made: Made) -> String {
        let made = [made.0.to_be_bytes(), made.1.to_be_bytes()].concat();
        let code = self.key.clone().chain_update(&made).finalize().into_bytes();
        let all = [&made[..], &code[..CODE_SIZE]].concat();
        String::from_utf8_lossy(Hex::new(&all).as_bytes()).into_owned()
    }

    /// `None` if the nonce is not ours.
    fn read(&self, nonce: &[u8]) -> Option<Made> {
        let text = str::from_utf8(nonce).ok().filter(|text| text.len() == NONCE_LEN)?;
        let mut bytes = [0; NONCE_LEN / 2];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(at * 2..at * 2 + 2)?, 16).ok()?;
        }
        let (made, code) = bytes.split_at(NONCE_LEN / 2 - CODE_SIZE);
        self.key.clone().chain_update(made).verify_truncated_left(code).ok()?;
        let (seconds, number) = made.split_at(8);
        let number_of = |bytes: &[u8]| Some(u64::from_be_bytes(bytes.try_into().ok()?));
        Some((number_of(seconds)?, number_of(number)?))
    }
}

impl NonceTable {
    /// Older nonces are refused by their age and need no memory.
    fn forget_before(&mut self, unix: u64) {
        while self.used.first_key_value().is_some_and(|(made, _)| made.0 < unix) {
            self.used.pop_first();
        }
    }

    /// The used counts of a nonce; `None` if it was forgotten.
    fn window(&mut self, made: Made, nonces_max: usize) -> Option<&mut Window> {
        if !self.used.contains_key(&made) {
            if self.forgotten.is_some_and(|last| made <= last) {
                return None;
            }
            self.used.insert(made, Window::default());
            if self.used.len() > nonces_max {
                self.forgotten = self.used.pop_first().map(|(oldest, _)| oldest);
            }
        }
        self.used.get_mut(&made)
    }
}

impl Window {
    /// Returns false if the count was used, or is older than the window.
    fn take(&mut self, count: u32) -> bool {
        if count > self.highest {
            self.used = self.used.checked_shl(count - self.highest).unwrap_or(0) | 1;
            self.highest = count;
            return true;
        }
        let bit = 1_u64.checked_shl(self.highest - count).unwrap_or(0);
        let is_new = bit != 0 && self.used & bit == 0;
        self.used |= bit;
        is_new
    }
}

/// Size of the code in bytes: too large for guessing.
const CODE_SIZE: usize = 16;
/// Two numbers and a code, in hexadecimal.
const NONCE_LEN: usize = 2 * (8 + 8 + CODE_SIZE);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn nonces(nonces_max: usize) -> Nonces {
        Nonces::new([7; 32], 300, nonces_max)
    }

    #[test]
    fn a_nonce_is_valid_until_it_expires() {
        let ours = nonces(10);
        let nonce = ours.issue(1_000);
        assert_eq!(nonce.len(), NONCE_LEN);
        assert_ne!(nonce, ours.issue(1_000));
        let take = |now, nonce: &str, count| ours.take(now, nonce.as_bytes(), count);
        assert!(take(1_000, &nonce, 1));
        assert!(take(1_300, &nonce, 2));
        assert!(!take(1_301, &nonce, 3), "too old");
        assert!(!take(999, &nonce, 4), "from the future");
        assert!(!take(1_000, &nonce, 0));
        assert!(take(1_000, &nonce, 5));
        let other = Nonces::new([8; 32], 300, 10).issue(1_000);
        for foreign in
            [&other, "", "nonsense", &nonce[1..], &nonce.replace('0', "é"), &"+".repeat(64)]
        {
            assert!(!take(1_000, foreign, 1), "{foreign}");
        }
        for at in 0..NONCE_LEN {
            let mut bytes = nonce.clone().into_bytes();
            bytes[at] = if bytes[at] == b'0' { b'1' } else { b'0' };
            assert!(!ours.take(1_000, &bytes, 1), "digit {at}");
        }
        assert!(!take(-5, &ours.issue(-5), 0) && take(-5, &ours.issue(-5), 1));
    }

    #[test]
    fn no_count_is_used_twice() {
        let ours = nonces(10);
        let nonce = ours.issue(0);
        let take = |count| ours.take(0, nonce.as_bytes(), count);
        assert_eq!(
            [1, 2, 2, 1, 5, 4, 3, 3, 4].map(take),
            [true, true, false, false, true, true, true, false, false]
        );
        assert!(take(70) && take(7) && !take(6), "the window has 64 counts");
        assert!(!take(7) && take(8));
        assert!(take(u32::MAX) && !take(u32::MAX) && !take(70) && take(u32::MAX - 1));
    }

    #[test]
    fn the_oldest_nonce_is_forgotten_and_refused() {
        let ours = nonces(3);
        let all: Vec<_> = (0..5).map(|_| ours.issue(0)).collect();
        let take = |at: usize, count| ours.take(0, all[at].as_bytes(), count);
        assert!(take(0, 1) && take(1, 1) && take(2, 1));
        assert!(take(4, 1), "makes room");
        assert!(!take(0, 2) && !take(0, 1), "forgotten");
        assert!(take(1, 2) && take(2, 2) && !take(1, 1));
        assert!(take(3, 1), "unused, and newer than the forgotten ones");
        assert!(!take(1, 3));
        let book = ours.book.lock().unwrap();
        assert_eq!(book.used.len(), 3);
    }

    #[test]
    fn expired_nonces_are_removed() {
        let ours = nonces(10);
        for now in 0..10 {
            assert!(ours.take(now, ours.issue(now).as_bytes(), 1));
        }
        assert!(ours.take(306, ours.issue(306).as_bytes(), 1));
        assert_eq!(ours.book.lock().unwrap().used.len(), 5);
    }

    proptest! {
        #[test]
        fn no_proof_is_accepted_twice(
            uses in prop::collection::vec((0..6_usize, 1..80_u32), 0..200),
        ) {
            let ours = nonces(3);
            let all: Vec<_> = (0..6).map(|_| ours.issue(0)).collect();
            let mut accepted = HashSet::new();
            for (at, count) in uses {
                if ours.take(0, all[at].as_bytes(), count) {
                    prop_assert!(accepted.insert((at, count)));
                }
            }
        }
    }
}
