//! TLS as a layer between a socket and its connection (rustls), without I/O.
//!
//! A [`ClientTls`] or [`ServerTls`] is built once from files and options. It makes a session, which
//! is a [`fulmar_proto::Layer`], for each connection. Only building reads files. In sessions,
//! rustls reads the date (certificates expire) and randomness from the system.
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
//! A server with two certificates: the server name that the client requests (SNI) selects one.
//! [`ServerTls::reload`] reads the files again while the server runs:
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
//! assert!(accepted.info().is_none()); // no handshake yet
//!
//! std::fs::write(dir.join("org.key"), "")?;
//! let error = tls.reload().unwrap_err(); // the previous certificates stay in use
//! assert!(error.to_string().contains("org.key: no private key in PEM"));
//! # std::fs::remove_dir_all(dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod identity;
mod options;
mod roots;

mod client;
mod issuer;
mod pin;
mod server;
mod verify;

mod certificates;
mod ciphers;
mod pem;
mod server_name;

mod error;
mod info;
mod session;

mod buffers;
mod keylog;
mod plain_http;
mod side;

pub use client::ClientTls;
pub use error::{ConfigError, TlsError};
pub use identity::{Identity, Pem};
pub use info::Info;
pub use keylog::KeyLogFile;
pub use options::{
    Authorities, ClientAuth, ClientOptions, HTTP1, HTTP2, ServerOptions, UnknownNames, Verify,
    Version,
};
pub use pin::{Pin, PinError};
pub use roots::Roots;
pub use rustls::AlertDescription;
pub use server::ServerTls;
pub use session::{ClientSession, ServerSession, Session};
pub use side::{ProcessStatus, ServerSide, TlsSide};
