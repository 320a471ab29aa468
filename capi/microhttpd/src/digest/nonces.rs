//! Nonces and their used counts.
//!
//! A nonce contains its time, a number and a message authentication code, so that issuing one
//! needs no memory. Memory is bounded by `MHD_OPTION_NONCE_NC_SIZE`: if too many nonces are in use,
//! the oldest is forgotten and refused from then on.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::hex;
use crate::percent::digit;

/// The nonces of a daemon, for all its threads.
pub struct DigestNonces {
    key: Hmac<Sha256>,
    issued: AtomicU64,
    nonces_max: usize,
    used: Mutex<UsedNonces>,
}

/// The result of using a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NonceVerdict {
    /// The count is used now.
    New,
    /// The count was used, or is too far below the highest one.
    Used,
    /// The nonce is not ours, too old, or forgotten.
    Unknown,
}

/// Seconds, and a number.
type MadeAt = (u64, u64);

#[derive(Default)]
struct UsedNonces {
    windows: BTreeMap<MadeAt, CountWindow>,
    /// Nonces up to this one that have no window were forgotten.
    forgotten: Option<MadeAt>,
}

#[derive(Clone, Copy, Default)]
struct CountWindow {
    highest: u64,
    /// A bit for each count: the lowest bit is the highest count, the next bit the count below it.
    used: u64,
}

impl DigestNonces {
    /// With a secret of at least 16 random bytes, and `MHD_OPTION_NONCE_NC_SIZE`.
    #[must_use]
    pub fn new(secret: &[u8], nonces_max: usize) -> Self {
        Self {
            key: Hmac::new_from_slice(secret).expect("HMAC keys may have any length"),
            issued: AtomicU64::new(0),
            nonces_max: nonces_max.max(1),
            used: Mutex::default(),
        }
    }

    /// Issues a nonce.
    pub fn issue(&self, now_s: u64) -> String {
        let number = self.issued.fetch_add(1, Ordering::Relaxed);
        let made = [now_s.to_be_bytes(), number.to_be_bytes()].concat();
        let code = self.key.clone().chain_update(&made).finalize().into_bytes();
        hex(&[&made[..], &code[..CODE_SIZE]].concat())
    }

    /// True if the nonce is ours and not too old.
    pub(super) fn is_fresh(&self, now_s: u64, timeout_s: u64, nonce: &[u8]) -> bool {
        self.made_at(now_s, timeout_s, nonce).is_some()
    }

    pub(super) fn use_count(
        &self,
        now_s: u64,
        timeout_s: u64,
        nonce: &[u8],
        count: u64,
    ) -> NonceVerdict {
        let Some(made) = self.made_at(now_s, timeout_s, nonce) else {
            return NonceVerdict::Unknown;
        };
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        match used.window(made, self.nonces_max).map(|window| window.take(count)) {
            Some(true) => NonceVerdict::New,
            Some(false) => NonceVerdict::Used,
            None => NonceVerdict::Unknown,
        }
    }

    fn made_at(&self, now_s: u64, timeout_s: u64, nonce: &[u8]) -> Option<MadeAt> {
        if nonce.len() != NONCE_LEN {
            return None;
        }
        let mut bytes = [0; NONCE_LEN / 2];
        for (byte, pair) in bytes.iter_mut().zip(nonce.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        let (made, code) = bytes.split_at(NONCE_LEN / 2 - CODE_SIZE);
        self.key.clone().chain_update(made).verify_truncated_left(code).ok()?;
        let (seconds, number) = made.split_at(8);
        let number_of = |bytes: &[u8]| Some(u64::from_be_bytes(bytes.try_into().ok()?));
        let made = (number_of(seconds)?, number_of(number)?);
        let age = now_s.checked_sub(made.0)?;
        (age <= timeout_s).then_some(made)
    }
}

impl UsedNonces {
    /// `None` if the nonce was forgotten.
    fn window(&mut self, made: MadeAt, nonces_max: usize) -> Option<&mut CountWindow> {
        if !self.windows.contains_key(&made) {
            if self.forgotten.is_some_and(|last| made <= last) {
                return None;
            }
            self.windows.insert(made, CountWindow::default());
            if self.windows.len() > nonces_max {
                self.forgotten = self.windows.pop_first().map(|(oldest, _)| oldest);
            }
        }
        self.windows.get_mut(&made)
    }
}

impl CountWindow {
    /// Counts of parallel connections arrive out of order.
    fn take(&mut self, count: u64) -> bool {
        if count > self.highest {
            let distance = u32::try_from(count - self.highest).unwrap_or(u32::MAX);
            self.used = self.used.checked_shl(distance).unwrap_or(0) | 1;
            self.highest = count;
            return true;
        }
        let below = u32::try_from(self.highest - count).unwrap_or(u32::MAX);
        let bit = 1_u64.checked_shl(below).unwrap_or(0);
        let is_new = bit != 0 && self.used & bit == 0;
        self.used |= bit;
        is_new
    }
}

impl fmt::Debug for DigestNonces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DigestNonces").field("nonces_max", &self.nonces_max).finish_non_exhaustive()
    }
}

/// Size of the code in bytes: too large for guessing.
const CODE_SIZE: usize = 16;
/// Two numbers and a code, in hexadecimal.
const NONCE_LEN: usize = 2 * (8 + 8 + CODE_SIZE);
