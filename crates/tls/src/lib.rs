//! TLS between a socket and its connection, without I/O: rustls, and what is decided around it.
//!
//! A [`ClientTls`] or [`ServerTls`] is built once from files and options; it makes a session for
//! each connection, which is a [`fulmar_proto::Layer`]. Making one reads files; a session does
//! nothing but reckon. rustls asks the system for the date (certificates expire) and for
//! randomness.
//!
//! ```
//! use fulmar_proto::Layer;
//! use fulmar_tls::{ClientOptions, ClientTls};
//!
//! let tls = ClientTls::new(ClientOptions::default())?;
//! let mut session = tls.session("example.com")?;
//! assert!(session.poll_transmit().is_some()); // its ClientHello
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod options;

mod client;
mod pin;
mod server;
mod verify;

mod certificates;
mod ciphers;
mod pem;

mod error;
mod info;
mod session;

mod buffers;
mod keylog;
mod side;

pub use client::ClientTls;
pub use error::{ConfigError, TlsError};
pub use info::Info;
pub use options::{
    Authorities, ClientAuth, ClientOptions, Identity, Pem, Roots, ServerOptions, UnknownNames,
    Verify, Version,
};
pub use pin::{Pin, PinError};
pub use server::ServerTls;
pub use session::{ClientSession, ServerSession, Session};
pub use side::{ServerEnd, Side, Status};
