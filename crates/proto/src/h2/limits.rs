//! Limits against peers that cost more than they request.
//!
//! A frame that makes no progress has a price. The budget of a connection is refilled by each
//! message that is sent to its end, so a peer that makes use of the connection never exhausts it.

use std::sync::Arc;

use crate::error_code::ErrorCode;
use crate::side::Side;

use super::frame::ID_MAX;
use super::window::WINDOW_DEFAULT;

/// The limits of a server's connections. The defaults are safe towards hostile clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http2Limits {
    /// Streams that a client may have open at a time (SETTINGS_MAX_CONCURRENT_STREAMS): 1 to
    /// 65,535. A further one is refused with REFUSED_STREAM.
    pub streams_max: u32,
    /// The receive window of a stream in bytes (SETTINGS_INITIAL_WINDOW_SIZE): 65,535 to
    /// 2,147,483,647. A smaller one would not hold for the first streams of a connection, whose
    /// client has not received SETTINGS yet.
    pub stream_window: u32,
    /// The receive window of a connection in bytes: 65,535 to 2,147,483,647. It limits the bytes
    /// of request bodies that a connection keeps for handlers that do not read.
    pub window: u32,
    /// Frames of one header block, HEADERS and its CONTINUATIONs: 1 to 65,535. Together they have
    /// at most 32 KiB. Beyond it the connection ends with ENHANCE_YOUR_CALM.
    pub block_frames_max: u32,
    /// Streams that the client may reset before their responses were sent, or cause the server to
    /// reset, besides one for each response that was sent to its end (CVE-2023-44487,
    /// CVE-2025-8671): at least 1. Beyond it the connection ends with ENHANCE_YOUR_CALM.
    pub peer_resets_max: u32,
    /// The budget of frames without progress, such as PING, PRIORITY and frames of closed streams:
    /// at least 100. SETTINGS and empty DATA cost several of it; a response returns 20. Beyond it
    /// the connection ends with ENHANCE_YOUR_CALM.
    pub idle_frames_max: u32,
}

impl Default for Http2Limits {
    fn default() -> Self {
        Self {
            streams_max: 128,
            stream_window: WINDOW_DEFAULT,
            window: 1 << 20,
            block_frames_max: 8,
            peer_resets_max: 100,
            idle_frames_max: 1_000,
        }
    }
}

impl Http2Limits {
    /// A client keeps what it has requested, so its windows are larger.
    pub(super) fn of_side<S: Side>() -> Self {
        match S::SERVER {
            true => Self::default(),
            false => Self { stream_window: 1 << 20, window: 1 << 24, ..Self::default() },
        }
    }

    /// # Panics
    /// A limit is out of its range.
    pub(super) fn assert_valid(&self) {
        let windows = WINDOW_DEFAULT..=ID_MAX;
        assert!((1..=COUNT_MAX).contains(&self.streams_max), "streams_max is 1 to 65,535");
        assert!(windows.contains(&self.stream_window), "stream_window is 65,535 to 2^31 - 1");
        assert!(windows.contains(&self.window), "window is 65,535 to 2^31 - 1");
        assert!(
            (1..=COUNT_MAX).contains(&self.block_frames_max),
            "block_frames_max is 1 to 65,535"
        );
        assert!(self.peer_resets_max > 0, "peer_resets_max is at least 1");
        assert!(self.idle_frames_max >= price::OVERSIZED, "idle_frames_max is at least 100");
    }
}

/// The limits that the connections of a server share, or the choice to have no HTTP/2. Cheap to
/// clone.
#[derive(Clone, Debug, Default)]
pub struct SharedHttp2Limits(Option<Arc<Option<Http2Limits>>>);

impl SharedHttp2Limits {
    /// Without limits a connection stays one of HTTP/1.
    ///
    /// # Panics
    /// A limit is out of its range.
    pub fn new(limits: Option<Http2Limits>) -> Self {
        if let Some(limits) = &limits {
            limits.assert_valid();
        }
        let is_default = limits == Some(Http2Limits::default());
        Self((!is_default).then(|| Arc::new(limits)))
    }

    /// The limits; `None` without HTTP/2.
    pub fn get(&self) -> Option<Http2Limits> {
        self.0.as_deref().copied().unwrap_or_else(|| Some(Http2Limits::default()))
    }
}

/// A closed window that is opened by fewer bytes, and what is then sent, is no progress.
pub(super) const PROGRESS_SIZE_MIN: u64 = 256;

/// What a peer may still spend.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerBudget {
    frames: u32,
    resets: u32,
}

impl PeerBudget {
    pub(super) fn new(limits: &Http2Limits) -> Self {
        Self { frames: limits.idle_frames_max, resets: limits.peer_resets_max }
    }

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
    pub(super) fn note_sweep(&mut self, limits: &Http2Limits) {
        self.earn(limits, price::REFILL);
    }

    /// A frame was received or sent; `has_data`: with bytes of a message.
    pub(super) fn note_progress(&mut self, limits: &Http2Limits, has_data: bool) {
        self.earn(limits, u32::from(has_data));
    }

    /// The last frame of a message is on its way.
    pub(super) fn refill(&mut self, limits: &Http2Limits) {
        self.earn(limits, price::REFILL);
        self.resets = limits.peer_resets_max.min(self.resets.saturating_add(1));
    }

    fn earn(&mut self, limits: &Http2Limits, frames: u32) {
        self.frames = limits.idle_frames_max.min(self.frames.saturating_add(frames));
    }
}

/// The largest number of streams, and of frames of a block, that may be set.
const COUNT_MAX: u32 = u16::MAX as u32;

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
        let limits = Http2Limits::default();
        let mut budget = PeerBudget::new(&limits);
        budget.refill(&limits);
        assert_eq!(budget.spend(limits.idle_frames_max + 1), Err(ErrorCode::EnhanceYourCalm));
        budget.spend(limits.idle_frames_max).unwrap();
        assert_eq!(budget.spend(1), Err(ErrorCode::EnhanceYourCalm));
        budget.refill(&limits);
        budget.spend(price::REFILL).unwrap();
        for _ in 0..limits.peer_resets_max {
            budget.spend_reset().unwrap();
        }
        assert_eq!(budget.spend_reset(), Err(ErrorCode::EnhanceYourCalm));
    }

    /// The default costs no memory, and no access to memory that connections share.
    #[test]
    fn only_other_limits_are_shared() {
        let set = |limits| SharedHttp2Limits::new(limits);
        let other = Http2Limits { streams_max: 7, ..Http2Limits::default() };
        for limits in [Some(Http2Limits::default()), Some(other), None] {
            assert_eq!(set(limits).get(), limits);
        }
        assert!(set(Some(Http2Limits::default())).0.is_none());
        assert_eq!(SharedHttp2Limits::default().get(), Some(Http2Limits::default()));
    }

    #[test]
    fn limits_without_bounds_do_not_overflow() {
        let limits = Http2Limits {
            peer_resets_max: u32::MAX,
            idle_frames_max: u32::MAX,
            ..Http2Limits::default()
        };
        limits.assert_valid();
        let mut budget = PeerBudget::new(&limits);
        budget.refill(&limits);
        budget.spend(u32::MAX).unwrap();
    }

    #[test]
    fn limits_out_of_range_are_refused() {
        let usual = Http2Limits::default();
        let rows = [
            Http2Limits { streams_max: 0, ..usual },
            Http2Limits { streams_max: 65_536, ..usual },
            Http2Limits { stream_window: 65_534, ..usual },
            Http2Limits { stream_window: 1 << 31, ..usual },
            Http2Limits { window: 65_534, ..usual },
            Http2Limits { window: 1 << 31, ..usual },
            Http2Limits { block_frames_max: 0, ..usual },
            Http2Limits { block_frames_max: 65_536, ..usual },
            Http2Limits { peer_resets_max: 0, ..usual },
            Http2Limits { idle_frames_max: 99, ..usual },
        ];
        for limits in rows {
            assert!(std::panic::catch_unwind(|| limits.assert_valid()).is_err(), "{limits:?}");
        }
    }
}
