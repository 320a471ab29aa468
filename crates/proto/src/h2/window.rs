//! Flow control (RFC 9113 §5.2).

use crate::error_code::ErrorCode;

use super::frame::ID_MAX;

/// The window of streams and connections before any other is announced (RFC 9113 §6.9.2).
pub(super) const WINDOW_DEFAULT: u32 = 65_535;

/// What this side may send.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendWindow(i64);

impl SendWindow {
    pub(super) fn new(size: u32) -> Self {
        Self(size.into())
    }

    /// Bytes that may be sent.
    pub(super) fn available(self) -> u64 {
        u64::try_from(self.0).unwrap_or(0)
    }

    pub(super) fn is_open(self) -> bool {
        self.0 > 0
    }

    /// `bytes` of the available ones were framed.
    pub(super) fn take(&mut self, bytes: u64) {
        self.0 -= i64::try_from(bytes).expect("at most what is available");
        debug_assert!(self.0 >= 0, "more than the window was sent");
    }

    /// WINDOW_UPDATE, or a change of SETTINGS_INITIAL_WINDOW_SIZE: then it can become negative
    /// (RFC 9113 §6.9.2).
    pub(super) fn widen(&mut self, bytes: i64) -> Result<(), ErrorCode> {
        self.0 += bytes;
        if self.0 > ID_MAX.into() { Err(ErrorCode::FlowControlError) } else { Ok(()) }
    }
}

/// What the peer may send.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecvWindow {
    /// The size that updates restore.
    size: u32,
    /// Bytes that may still arrive.
    available: u32,
    /// Bytes that were consumed since the last update.
    consumed: u32,
}

impl RecvWindow {
    pub(super) fn new(size: u32) -> Self {
        Self { size, available: size, consumed: 0 }
    }

    /// Bytes that may still arrive.
    pub(super) fn available(self) -> u32 {
        self.available
    }

    /// `bytes` have arrived.
    pub(super) fn receive(&mut self, bytes: u32) -> Result<(), ErrorCode> {
        let left = self.available.checked_sub(bytes);
        self.available = left.ok_or(ErrorCode::FlowControlError)?;
        Ok(())
    }

    /// `bytes` were consumed. Returns the increment of a WINDOW_UPDATE once it is half of the
    /// window: an update for each piece would cost more than the data.
    pub(super) fn consume(&mut self, bytes: u32) -> Option<u32> {
        self.consumed += bytes;
        if self.consumed < self.size / 2 {
            return None;
        }
        self.available += self.consumed;
        debug_assert!(self.available <= self.size, "bytes were consumed that never arrived");
        Some(std::mem::take(&mut self.consumed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_restore_the_window_by_halves() {
        let mut window = RecvWindow::new(100);
        window.receive(60).unwrap();
        assert_eq!(window.consume(49), None);
        assert_eq!(window.consume(1), Some(50));
        assert_eq!(window.available(), 90);
        assert_eq!(window.receive(91), Err(ErrorCode::FlowControlError));
        window.receive(90).unwrap();
        assert_eq!(window.consume(100), Some(100));
        assert_eq!(window.available(), 100);
    }

    #[test]
    fn a_send_window_can_be_negative_and_never_exceeds_31_bits() {
        let mut window = SendWindow::new(10);
        window.take(10);
        window.widen(-5).unwrap();
        assert_eq!((window.available(), window.is_open()), (0, false));
        window.widen(6).unwrap();
        assert_eq!(window.available(), 1);
        window.widen(i64::from(ID_MAX) - 1).unwrap();
        assert_eq!(window.widen(1), Err(ErrorCode::FlowControlError));
    }
}
