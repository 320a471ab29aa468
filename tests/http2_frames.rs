//! Frames of HTTP/2 as bytes: what no client of ours would send.

use std::iter;

use fulmar_proto::h2::{ErrorCode, PREFACE};

/// DATA.
pub const DATA: u8 = 0;
/// HEADERS.
pub const HEADERS: u8 = 1;
/// PRIORITY.
pub const PRIORITY: u8 = 2;
/// RST_STREAM.
pub const RST_STREAM: u8 = 3;
/// SETTINGS.
pub const SETTINGS: u8 = 4;
/// PING.
pub const PING: u8 = 6;
/// GOAWAY.
pub const GOAWAY: u8 = 7;
/// WINDOW_UPDATE.
pub const WINDOW_UPDATE: u8 = 8;
/// CONTINUATION.
pub const CONTINUATION: u8 = 9;

/// The flag of the last frame of a message; of SETTINGS and PING, the one of an acknowledgement.
pub const END_STREAM: u8 = 1;
/// The flag of the last frame of a header block.
pub const END_HEADERS: u8 = 4;

/// A frame that was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedFrame {
    /// Its type.
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// Its stream.
    pub stream: u32,
    /// What follows its header.
    pub payload: Vec<u8>,
}

/// A frame as bytes.
///
/// # Panics
/// The payload is 16 MB or longer.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: impl AsRef<[u8]>) -> Vec<u8> {
    let payload = payload.as_ref();
    let len = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// SETTINGS.
pub fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let setting = |(id, value): &(u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
    frame(SETTINGS, 0, 0, values.iter().flat_map(setting).collect::<Vec<_>>())
}

/// The first bytes of a client.
pub fn preface(values: &[(u16, u32)]) -> Vec<u8> {
    [&PREFACE[..], &settings(values)].concat()
}

/// PING.
pub fn ping() -> Vec<u8> {
    frame(PING, 0, 0, b"pingpong")
}

/// WINDOW_UPDATE.
pub fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, increment.to_be_bytes())
}

/// RST_STREAM with CANCEL.
pub fn cancel(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, ErrorCode::Cancel.code().to_be_bytes())
}

/// The header block of a request: literals without an index.
///
/// # Panics
/// A text has 127 bytes or more.
pub fn request_block(method: &str, path: &str, more: &[(&str, &[u8])]) -> Vec<u8> {
    let lead: [(&str, &[u8]); 4] = [
        (":method", method.as_bytes()),
        (":scheme", b"http"),
        (":path", path.as_bytes()),
        (":authority", b"test"),
    ];
    let text = |text: &[u8]| {
        assert!(text.len() < 127, "a short text");
        [&text.len().to_le_bytes()[..1], text].concat()
    };
    let field =
        |(name, value): &(&str, &[u8])| [vec![0], text(name.as_bytes()), text(value)].concat();
    lead.iter().chain(more).flat_map(field).collect()
}

/// HEADERS of a request without a body.
pub fn get(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, request_block("GET", path, &[]))
}

/// HEADERS of a request whose body follows.
pub fn post(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, request_block("POST", path, &[]))
}

/// The stream of the n-th request.
pub fn stream(n: u32) -> u32 {
    2 * n + 1
}

/// The whole frames at the front of `bytes`, which are taken.
pub fn take_frames(bytes: &mut Vec<u8>) -> Vec<ReceivedFrame> {
    iter::from_fn(|| {
        let [a, b, c, kind, flags, d, e, f, g, ..] = *bytes.as_slice() else { return None };
        let end = 9 + u32::from_be_bytes([0, a, b, c]) as usize;
        let payload = bytes.get(9..end)?.to_vec();
        bytes.drain(..end);
        Some(ReceivedFrame { kind, flags, stream: u32::from_be_bytes([d, e, f, g]), payload })
    })
    .collect()
}

impl ReceivedFrame {
    /// The error code of RST_STREAM or GOAWAY.
    pub fn code(&self) -> Option<u32> {
        let at = match self.kind {
            RST_STREAM => 0,
            GOAWAY => 4,
            _ => return None,
        };
        let code = self.payload.get(at..at + 4)?;
        Some(u32::from_be_bytes(code.try_into().expect("four bytes")))
    }
}
