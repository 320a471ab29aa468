//! An HTTP engine for servers and clients inside a program, with few system calls.
//!
//! A server with two threads:
//!
//! ```no_run
//! use fulmar::host::{Host, Listen};
//! use fulmar::proto::Request;
//! use fulmar::server::{HandlerResult, Responder};
//!
//! fn hello(responder: &mut Responder<'_>, _: &Request<'_>) -> HandlerResult {
//!     responder.text(200, "hello\n")
//! }
//!
//! fn main() -> Result<(), fulmar::host::Error> {
//!     let address = "127.0.0.1:8080".parse().expect("an address");
//!     Host::of(|_| Ok(hello)).listen(Listen::tcp(address)).threads(2).start()?.join().map(drop)
//! }
//! ```
//!
//! A client, with the feature `client`:
//!
//! ```no_run
//! use fulmar::client::{
//!     Application, Client, Config, Context, Request, TransferEvent, TransferId,
//! };
//! use fulmar::drive::{Epoll, Reactor};
//!
//! struct Printer;
//!
//! impl Application for Printer {
//!     fn handle(&mut self, _: &mut Context<'_>, _: TransferId, event: TransferEvent<'_>) {
//!         match event {
//!             TransferEvent::Data(bytes) => print!("{}", String::from_utf8_lossy(&bytes)),
//!             TransferEvent::Done(done) => println!("{:?}", done.result),
//!             _ => {}
//!         }
//!     }
//! }
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let now = fulmar::sys::now();
//!     let client = Client::new(now, fulmar::sys::wall_clock(), Printer, Config::default());
//!     let mut reactor = Reactor::new(client, Epoll::new()?);
//!     let request = Request::get("http://127.0.0.1:8080/").build()?;
//!     reactor.with(|client, now| client.start(now, &request));
//!     while reactor.engine.running() > 0 {
//!         reactor.turn()?;
//!     }
//!     Ok(())
//! }
//! ```
//!
//! [`server`] has the engine of a server and the traits of its applications, [`host`] its threads
//! and listeners, `client` the client, and [`drive`] the loops, including an application's own.
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
