//! Compression of header fields, which `fulmar-proto` does not export: its sources are compiled
//! here once more.

pub mod hpack;

#[path = "../../crates/proto/src/h2/hpack/mod.rs"]
#[allow(dead_code)]
mod codec;

use codec::{HpackDecoder, HpackEncoder};
