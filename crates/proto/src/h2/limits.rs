//! Limits against peers that cost more than they request.
//!
//! A frame that makes no progress has a price. The budget of a connection is refilled by each
//! message that is sent to its end, so a peer that makes use of the connection never exhausts it.

use crate::error_code::ErrorCode;

/// Streams that a peer may have open at a time (SETTINGS_MAX_CONCURRENT_STREAMS).
pub const STREAMS_MAX: u32 = 128;
/// Frames of one header block: HEADERS and its CONTINUATIONs.
pub const BLOCK_FRAMES_MAX: u32 = 8;
/// Streams that the peer may reset before their responses were sent, besides one for each response
/// that was sent to its end (CVE-2023-44487).
pub const PEER_RESETS_MAX: u32 = 100;
/// Frames without progress: PING, SETTINGS, PRIORITY, empty DATA, frames of closed streams.
pub const IDLE_FRAMES_MAX: u32 = 1_000;
/// A closed window that is opened by fewer bytes, and what is then sent, is no progress.
pub(super) const PROGRESS_SIZE_MIN: u64 = 256;

/// What a peer may still spend.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerBudget {
    frames: u32,
    resets: u32,
}

impl Default for PeerBudget {
    fn default() -> Self {
        Self { frames: IDLE_FRAMES_MAX, resets: PEER_RESETS_MAX }
    }
}

impl PeerBudget {
    /// A frame made no progress.
    pub(super) fn spend(&mut self, price: u32) -> Result<(), ErrorCode> {
        self.frames = self.frames.checked_sub(price).ok_or(ErrorCode::EnhanceYourCalm)?;
        Ok(())
    }

    /// The peer reset a stream whose response was not complete, or caused us to reset it.
    pub(super) fn spend_reset(&mut self) -> Result<(), ErrorCode> {
        self.resets = self.resets.checked_sub(1).ok_or(ErrorCode::EnhanceYourCalm)?;
        Ok(())
    }

    /// A span of time has passed: connections without messages, such as those of tunnels, may send
    /// a PING from time to time.
    pub(super) fn note_sweep(&mut self) {
        self.frames = IDLE_FRAMES_MAX.min(self.frames + price::REFILL);
    }

    /// A frame was received or sent; `has_data`: with bytes of a message.
    pub(super) fn note_progress(&mut self, has_data: bool) {
        self.frames = IDLE_FRAMES_MAX.min(self.frames + u32::from(has_data));
    }

    /// The last frame of a message is on its way.
    pub(super) fn refill(&mut self) {
        self.frames = IDLE_FRAMES_MAX.min(self.frames + price::REFILL);
        self.resets = PEER_RESETS_MAX.min(self.resets + 1);
    }
}

/// Prices of frames.
pub(super) mod price {
    /// PING, PRIORITY, frames of unknown types or of closed streams.
    pub(in crate::h2) const SMALL: u32 = 1;
    /// DATA without a byte that does not end its stream: 250 of them.
    pub(in crate::h2) const EMPTY_DATA: u32 = 4;
    /// SETTINGS: 200 of them.
    pub(in crate::h2) const SETTINGS: u32 = 5;
    /// HEADERS of a stream that is refused or was reset.
    pub(in crate::h2) const HEADERS: u32 = 10;
    /// A header block over the limit: its decoding can cost as much as that of many.
    pub(in crate::h2) const OVERSIZED: u32 = 100;
    /// What a message returns.
    pub(in crate::h2) const REFILL: u32 = 20;
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn messages_refill_the_budget_up_to_its_size() {
        let mut budget = PeerBudget::default();
        budget.refill();
        assert_eq!(budget.spend(IDLE_FRAMES_MAX + 1), Err(ErrorCode::EnhanceYourCalm));
        budget.spend(IDLE_FRAMES_MAX).unwrap();
        assert_eq!(budget.spend(1), Err(ErrorCode::EnhanceYourCalm));
        budget.refill();
        budget.spend(price::REFILL).unwrap();
        for _ in 0..PEER_RESETS_MAX {
            budget.spend_reset().unwrap();
        }
        assert_eq!(budget.spend_reset(), Err(ErrorCode::EnhanceYourCalm));
    }
}
