//! SETTINGS (RFC 9113 §6.5): ours, and those of the peer.

use crate::error_code::ErrorCode;
use crate::outbox::Outbox;
use crate::side::Side;

use super::HEADER_LIST_SIZE_MAX;
use super::frame::{self, ID_MAX, PREFACE, kind};
use super::limits::Http2Limits;
use super::window::WINDOW_DEFAULT;

/// The size of the dynamic table of HPACK, ours and at most the peer's (RFC 7541 §4.2).
pub(super) const TABLE_SIZE: usize = 4_096;

/// The settings of the peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerSettings {
    /// Streams that we may have open.
    pub(super) streams_max: u32,
    /// The send window of new streams.
    pub(super) window: u32,
    /// The largest payload of a frame.
    pub(super) frame_size_max: u32,
    /// The server supports extended CONNECT (RFC 8441).
    pub(super) connect_protocol: bool,
}

impl Default for PeerSettings {
    fn default() -> Self {
        Self {
            streams_max: STREAMS_UNKNOWN,
            window: WINDOW_DEFAULT,
            frame_size_max: FRAME_SIZE_MIN,
            connect_protocol: false,
        }
    }
}

/// A setting of the peer that changes more than [`PeerSettings`].
#[derive(Clone, Copy, Debug)]
pub(super) enum SettingChange {
    /// The size of the encoder's table.
    TableSize(u32),
    /// The difference between the old and the new window of each stream.
    Windows(i64),
}

impl PeerSettings {
    /// Applies one setting. Checks those that only clients, or only servers, may send.
    pub(super) fn apply<S: Side>(
        &mut self,
        id: u16,
        value: u32,
    ) -> Result<Option<SettingChange>, ErrorCode> {
        match id {
            id::HEADER_TABLE_SIZE => return Ok(Some(SettingChange::TableSize(value))),
            id::ENABLE_PUSH if value > u32::from(S::SERVER) => {
                return Err(ErrorCode::ProtocolError);
            }
            id::MAX_CONCURRENT_STREAMS => self.streams_max = value,
            id::INITIAL_WINDOW_SIZE if value > ID_MAX => return Err(ErrorCode::FlowControlError),
            id::INITIAL_WINDOW_SIZE => {
                let change = i64::from(value) - i64::from(self.window);
                self.window = value;
                return Ok(Some(SettingChange::Windows(change)));
            }
            id::MAX_FRAME_SIZE if !(FRAME_SIZE_MIN..=FRAME_SIZE_MAX).contains(&value) => {
                return Err(ErrorCode::ProtocolError);
            }
            id::MAX_FRAME_SIZE => self.frame_size_max = value.min(FRAME_SIZE_USED),
            id::ENABLE_CONNECT_PROTOCOL if value > 1 => return Err(ErrorCode::ProtocolError),
            id::ENABLE_CONNECT_PROTOCOL => self.connect_protocol = value == 1,
            _ => {}
        }
        Ok(None)
    }
}

/// Queues the first frames of our side. A value that is the default of RFC 9113 is not sent.
pub(super) fn queue_preface<S: Side>(outbox: &mut Outbox, limits: &Http2Limits) {
    let list_size = u32::try_from(HEADER_LIST_SIZE_MAX).expect("it fits");
    let stream_window = (id::INITIAL_WINDOW_SIZE, limits.stream_window);
    let has_window = limits.stream_window != WINDOW_DEFAULT;
    let settings: &[(u16, u32)] = match S::SERVER {
        true => &[
            (id::MAX_CONCURRENT_STREAMS, limits.streams_max),
            (id::MAX_HEADER_LIST_SIZE, list_size),
            (id::ENABLE_CONNECT_PROTOCOL, 1),
            (id::NO_RFC7540_PRIORITIES, 1),
        ],
        false => &[(id::ENABLE_PUSH, 0), (id::MAX_HEADER_LIST_SIZE, list_size)],
    };
    let settings = settings.iter().chain(has_window.then_some(&stream_window));
    let mut payload = Vec::with_capacity(SETTINGS_SENT_MAX * SETTING_SIZE);
    for (id, value) in settings {
        payload.extend_from_slice(&id.to_be_bytes());
        payload.extend_from_slice(&value.to_be_bytes());
    }
    if !S::SERVER {
        outbox.compose(|out| out.extend_from_slice(PREFACE));
    }
    frame::queue(outbox, kind::SETTINGS, 0, 0, &payload);
    if limits.window > WINDOW_DEFAULT {
        frame::queue_number(outbox, kind::WINDOW_UPDATE, 0, limits.window - WINDOW_DEFAULT);
    }
}

/// The settings of a payload.
pub(super) fn parse(payload: &[u8]) -> Result<impl Iterator<Item = (u16, u32)>, ErrorCode> {
    let (settings, []) = payload.as_chunks::<SETTING_SIZE>() else {
        return Err(ErrorCode::FrameSizeError);
    };
    Ok(settings
        .iter()
        .map(|[a, b, value @ ..]| (u16::from_be_bytes([*a, *b]), u32::from_be_bytes(*value))))
}

mod id {
    pub(super) const HEADER_TABLE_SIZE: u16 = 1;
    pub(super) const ENABLE_PUSH: u16 = 2;
    pub(super) const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub(super) const INITIAL_WINDOW_SIZE: u16 = 4;
    pub(super) const MAX_FRAME_SIZE: u16 = 5;
    pub(super) const MAX_HEADER_LIST_SIZE: u16 = 6;
    /// RFC 8441 §3.
    pub(super) const ENABLE_CONNECT_PROTOCOL: u16 = 8;
    /// RFC 9218 §2.1.
    pub(super) const NO_RFC7540_PRIORITIES: u16 = 9;
}

const SETTING_SIZE: usize = 6;
/// Settings that a server sends, the most of both sides.
const SETTINGS_SENT_MAX: usize = 5;
/// The payload that each peer accepts, and the largest that one may accept (RFC 9113 §4.2).
pub(super) const FRAME_SIZE_MIN: u32 = 1 << 14;
const FRAME_SIZE_MAX: u32 = (1 << 24) - 1;
/// Longer frames would delay those of other streams.
const FRAME_SIZE_USED: u32 = 1 << 16;
/// Streams that a client opens before it knows the limit of the server.
const STREAMS_UNKNOWN: u32 = 100;
