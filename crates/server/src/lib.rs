//! A server engine: links, limits, and an [`Application`] that answers. Still no I/O.
//!
//! Most programs write a [`Handler`] and give it to [`Calls`], which is an application that lends
//! every request as a [`Call`]:
//!
//! ```
//! use fulmar_proto::Request;
//! use fulmar_server::{Call, Calls, Limits, Outcome, ServerEngine, Stop};
//!
//! fn hello(call: &mut Call<'_>, _: &Request<'_>) -> Outcome {
//!     call.text(200, "hello\n")
//! }
//!
//! # fn server(now: std::time::Instant, wall_clock: fn() -> std::time::SystemTime) {
//! let calls = Calls::new(hello, now, wall_clock);
//! let engine = ServerEngine::new(now, calls, Limits::default(), Stop::new());
//! # }
//! ```
//!
//! An [`Application`] hears the events of the connections themselves:
//!
//! ```
//! use fulmar_proto::{BodyLen, Connection, Event, Headers, Response, Server, ServerConnection};
//! use fulmar_server::{Application, Context};
//!
//! struct Hello;
//!
//! impl Application for Hello {
//!     type Data = ();
//!     type Message = std::convert::Infallible;
//!     fn handle(
//!         &mut self,
//!         _: &mut Context,
//!         reply: &mut ServerConnection,
//!         _: &mut (),
//!         event: Event<'_, Server>,
//!     ) {
//!         if let Event::End { stream, .. } = event {
//!             let head = Response::new(200, Headers::EMPTY);
//!             reply.send_head(stream, head, BodyLen::Exact(5)).expect("the first answer");
//!             reply.send_data(stream, b"hello"[..].into()).expect("five bytes");
//!             reply.send_end(stream, Headers::EMPTY).expect("they were all");
//!         }
//!     }
//! }
//! ```
#![forbid(unsafe_code)]

mod addresses;
mod limits;
mod listener;
mod mailbox;
mod panics;
mod proxied;

mod application;
mod server;

mod handler;

mod body;
mod call;
mod work;

mod observer;
mod suspended;

mod deferred;

mod calls;
mod desk;
mod task;

#[cfg(feature = "http")]
pub mod http;

pub use application::{Application, Context};
pub use body::{Answer, Body};
pub use call::Call;
pub use calls::Calls;
pub use deferred::Deferred;
pub use handler::{Handler, HandlerError, Outcome, Work};
pub use limits::Limits;
pub use listener::Layers;
pub use mailbox::Mailbox;
pub use observer::{Answered, Asked, HandlerFailure, Observer, RequestId};
pub use panics::Panic;
pub use server::ServerEngine;

pub use fulmar_engine::{Rate, Stop};
pub use suspended::{Errand, Resumer, Suspended};
pub use task::Session;
pub use work::Produced;
