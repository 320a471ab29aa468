//! `struct curl_ws_frame`.

use std::ffi::c_int;

use fulmar_curl::WebSocketMeta;

/// The part of a frame that a function returned.
#[derive(Debug)]
#[repr(C)]
pub struct CurlFrame {
    age: c_int,
    flags: c_int,
    offset: i64,
    left: i64,
    len: usize,
}

impl CurlFrame {
    pub(crate) fn new(meta: WebSocketMeta) -> Self {
        let number = |number| i64::try_from(number).unwrap_or(i64::MAX);
        Self {
            age: 0,
            flags: meta.flags.cast_signed(),
            offset: number(meta.offset),
            left: number(meta.left),
            len: meta.len,
        }
    }
}
