//! HTTP/2 (RFC 9113).

#[expect(dead_code, reason = "the machine follows")]
mod hpack;
