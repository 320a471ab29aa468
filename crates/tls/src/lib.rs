//! TLS between a socket and its connection, without I/O: rustls, and what is decided around it.
//!
//! A [`ClientTls`] or [`ServerTls`] is built once from files and options; it makes a session for
//! each connection, which is a [`fulmar_proto::Layer`]. Making one reads files; a session does
//! nothing but reckon. rustls asks the system for the date (certificates expire) and for
//! randomness.
//!
//! A client:
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
//!
//! A server with two certificates, of which each client is shown the one that it asks for by
//! name. [`ServerTls::reload`] reads them again while it serves:
//!
//! ```
//! use fulmar_tls::{Identity, ServerOptions, ServerTls};
//!
//! # let dir = std::env::temp_dir().join(format!("fulmar-tls-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir)?;
//! # for name in ["com", "org"] {
//! #     let made = rcgen::generate_simple_self_signed([format!("example.{name}")])?;
//! #     std::fs::write(dir.join(format!("{name}.pem")), made.cert.pem())?;
//! #     std::fs::write(dir.join(format!("{name}.key")), made.signing_key.serialize_pem())?;
//! # }
//! let tls = ServerTls::new(ServerOptions {
//!     identities: vec![
//!         Identity::files(dir.join("com.pem"), dir.join("com.key")),
//!         Identity::files(dir.join("org.pem"), dir.join("org.key")),
//!     ],
//!     ..ServerOptions::default()
//! })?;
//! let accepted = tls.session()?; // a layer for the connection, on any thread
//! assert!(accepted.info().is_none()); // nobody has said anything so far
//!
//! std::fs::write(dir.join("org.key"), "")?;
//! let error = tls.reload().unwrap_err(); // what was good is still served
//! assert!(error.to_string().contains("org.key: no private key in PEM"));
//! # std::fs::remove_dir_all(dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod options;
mod roots;

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
    Authorities, ClientAuth, ClientOptions, Identity, Pem, ServerOptions, UnknownNames, Verify,
    Version,
};
pub use pin::{Pin, PinError};
pub use roots::Roots;
pub use server::ServerTls;
pub use session::{ClientSession, ServerSession, Session};
pub use side::{ServerEnd, Side, Status};
