//! HTTP without I/O: bytes in, events out; messages in, transmits out.
//!
//! Nothing here opens a socket, reads a clock or needs `unsafe`. A [`Connection`] is one HTTP
//! connection as a pure state machine. The owner of the socket passes [`Input`] to it, receives
//! [`Event`]s, calls `send_*`, and sends the result of [`Connection::poll_transmit`].
//!
//! The modules are in reading order; [`connection`] has the trait of all protocols.
#![forbid(unsafe_code)]

mod body_len;
pub mod connection;
mod error_code;
mod errors;
pub mod event;
mod fields;
pub mod head;
pub mod input;
pub mod layer;
mod layer_stack;
pub mod pipe;
pub mod transmit;

pub mod plan;

mod block;
mod outbox;
mod outgoing;
mod side;
mod spare;
mod status_aliases;
mod target;

pub mod raw;

pub mod h1;

pub mod h2;

mod http;

pub use block::Block;
pub use body_len::BodyLen;
pub use connection::{Connection, IoState, Phase, Reset, SpliceTarget};
pub use errors::{PeerError, UsageError};
pub use event::{Client, Event, Raw, Role, Server, StreamId};
pub use fields::HeaderBuf;
pub use head::{Added, Headers, Request, Response, Scratch, Version, is_token};
pub use http::{ALPN_HTTP2, ClientConnection, HttpConnection, ServerConnection};
pub use input::Input;
pub use layer::{Layer, LayerError, Opened, Sealed};
pub use layer_stack::LayerStack;
pub use outbox::Outbox;
pub use pipe::{Pipe, PipeCounts, Piped};
pub use plan::{Abilities, Files, Part, Run, Signals, Step, Weave, WeavePiece};
pub use raw::RawConnection;
pub use side::{Head, Side};
pub use target::{UrlScheme, is_request_target};
pub use transmit::{FileRange, Segment, Transmit};
