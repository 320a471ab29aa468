//! An HTTP engine that moves bytes with hardly a system call, and counts every one.
//!
//! This crate is the roof over the others: add it, and use what you need.
//!
//! A server is a [`server::ServerApp`], an engine around it, and a reactor that drives it. One
//! turn waits once, receives from everything that is ready, and sends everything that came of it:
//!
//! ```
//! use fulmar::drive::{Epoll, ListenOptions, Reactor, listen};
//! use fulmar::proto::{
//!     BodyLen, Connection, Event, Headers, Response, Server, ServerConnection,
//! };
//! use fulmar::server::{ExchangeContext, Limits, ServerApp, ServerEngine, Stop};
//!
//! struct Hello;
//!
//! impl ServerApp for Hello {
//!     type Data = ();
//!     type Message = std::convert::Infallible;
//!     fn handle(
//!         &mut self,
//!         _: &mut ExchangeContext,
//!         reply: &mut ServerConnection,
//!         _: &mut (),
//!         event: Event<'_, Server>,
//!     ) {
//!         if let Event::End { stream, .. } = event {
//!             let head = Response::new(200, Headers::EMPTY);
//!             reply.send_head(stream, head, BodyLen::Exact(6)).expect("the first answer");
//!             reply.send_data(stream, b"hello\n"[..].into()).expect("six bytes");
//!             reply.send_end(stream, Headers::EMPTY).expect("they were all");
//!         }
//!     }
//! }
//!
//! # fn main() -> std::io::Result<()> {
//! let (listener, address) = listen("127.0.0.1:0".parse().unwrap(), ListenOptions::default())?;
//! let engine = ServerEngine::new(fulmar::sys::now(), Hello, Limits::default(), Stop::new());
//! let mut reactor = Reactor::new(engine, Epoll::new()?);
//! let listener = reactor.listen(listener)?;
//! reactor.engine.add_listener(listener, None);
//! # use std::io::{Read, Write};
//! # let mut client = std::net::TcpStream::connect(address)?;
//! # client.write_all(b"GET / HTTP/1.1\r\nHost: me\r\nConnection: close\r\n\r\n")?;
//! # while reactor.stats().accepted == 0 || reactor.engine.connections() > 0 {
//! // In a program: while !reactor.engine.is_done() { .. }
//! reactor.turn()?;
//! # }
//! # let mut answer = String::new();
//! # client.read_to_string(&mut answer)?;
//! # assert!(answer.ends_with("hello\n"));
//! # let ledger = fulmar::sys::Ledger::here();
//! # assert_eq!(ledger.count(fulmar::sys::Call::send).calls, 1);
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! `drive`, `engine`, `proto`, `sys` and the rest of `semantics` are always there. The default is
//! the server without TLS: at most 25 packages, and no C compiler.
//!
//! | feature | brings | depends on (C: needs a C compiler) |
//! |---|---|---|
//! | `server`, the default | `server`, `host`, `observe` | no package in C |
//! | `tls` | `tls`: certificates, and TLS for connections | rustls, aws-lc (C) |
//! | `client` | `client`, `tls`, `auth`, `cookies`, `decoding`, `form`, `url` | `getrandom` |
//! | `names` | `names`: the resolver | c-ares (C, built with cmake) |
//! | `web` | `web`: forms, uploads, users; and `server`, `auth`, `form` | `bcrypt` |
//! | `serve` | `serve`: files and directories; and `web` | `mime_guess` |
//! | `http` | `http`: the types of the `http` crate; and `server` | `http` |
//! | `auth` | `semantics::auth`: Basic and Digest | hashes, `base64` |
//! | `cookies` | `semantics::cookies` | `psl`, `time` |
//! | `decoding` | `semantics::coding::ContentDecoder` | zstd (C), `flate2`, Brotli |
//! | `form` | `semantics::form`: multipart and urlencoded | `form_urlencoded` |
//! | `proxy-protocol` | `semantics::proxy_protocol`, also for `server` | `crc`, `ipnet` |
//! | `url` | `semantics::proxy`, `redirect`, `tunnel`, `userinfo` | `url`, tables of Unicode |
//! | `full` | all of the above | |
#![forbid(unsafe_code)]

/// Needs the feature `client`.
///
#[cfg(feature = "client")]
#[doc(inline)]
pub use fulmar_client as client;
#[doc(inline)]
pub use fulmar_drive as drive;
#[doc(inline)]
pub use fulmar_engine as engine;
/// Needs the feature `server`.
///
#[cfg(feature = "server")]
#[doc(inline)]
pub use fulmar_host as host;
/// Needs the feature `names`.
///
#[cfg(feature = "names")]
#[doc(inline)]
pub use fulmar_names as names;
/// Needs the feature `server`.
///
#[cfg(feature = "server")]
#[doc(inline)]
pub use fulmar_observe as observe;
#[doc(inline)]
pub use fulmar_proto as proto;
#[doc(inline)]
pub use fulmar_semantics as semantics;
/// Needs the feature `serve`.
///
#[cfg(feature = "serve")]
#[doc(inline)]
pub use fulmar_serve as serve;
/// Needs the feature `server`.
///
#[cfg(feature = "server")]
#[doc(inline)]
pub use fulmar_server as server;
/// Needs the feature `http`.
///
#[cfg(feature = "http")]
#[doc(inline)]
pub use fulmar_server::http;
#[doc(inline)]
pub use fulmar_sys as sys;
/// Needs the feature `tls`.
///
#[cfg(feature = "tls")]
#[doc(inline)]
pub use fulmar_tls as tls;
/// Needs the feature `web`.
///
#[cfg(feature = "web")]
#[doc(inline)]
pub use fulmar_web as web;

// The code on these pages compiles and runs. `tests/programs/docs.rs` checks this list. The pages
// are not in the package of this crate, and only its doc tests need them.

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/architecture.md")]
mod architecture_page {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/client.md")]
mod client_page {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/host.md")]
mod host_page {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/server.md")]
mod server_page {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
mod embedding_page {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/loops.md")]
mod loops_page {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/libmicrohttpd.md")]
mod libmicrohttpd_page {}
