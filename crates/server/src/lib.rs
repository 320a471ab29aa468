//! A server engine: connections, limits, and an application that handles requests, without I/O.
//!
//! Most programs write a [`Handler`] and run it in a [`HandlerApp`]. It receives every request with
//! a [`Responder`]:
//!
//! ```
//! use fulmar_proto::Request;
//! use fulmar_server::{HandlerApp, HandlerResult, Limits, Responder, ServerEngine, Stop};
//!
//! fn hello(responder: &mut Responder<'_>, _: &Request<'_>) -> HandlerResult {
//!     responder.text(200, "hello\n")
//! }
//!
//! # fn server(now: std::time::Instant, wall_clock: fn() -> std::time::SystemTime) {
//! let app = HandlerApp::new(hello, now, wall_clock);
//! let engine = ServerEngine::new(now, app, Limits::default(), Stop::new());
//! # }
//! ```
//!
//! A [`ServerApp`] receives the events of the connections themselves.
#![forbid(unsafe_code)]

mod address_counts;
mod limits;
mod listener;
mod mailbox;
mod panics;
mod proxied;

mod application;
mod server;

mod handler;

mod body;
mod body_handlers;
mod responder;

mod observer;
mod suspended;

mod deferred;

mod exchange;
mod handler_app;
mod server_state;

#[cfg(feature = "http")]
pub mod http;

pub use application::{ExchangeContext, ServerApp};
pub use body::{OwnedResponse, ResponseBody};
pub use deferred::Deferred;
pub use handler::{BodyHandler, Handler, HandlerError, HandlerResult};
pub use handler_app::HandlerApp;
pub use limits::Limits;
pub use listener::Layers;
pub use mailbox::Mailbox;
pub use observer::{ExchangeSummary, HandlerFailure, Observer, RequestId, RequestSummary};
pub use panics::Panic;
pub use responder::Responder;
pub use server::ServerEngine;

pub use body_handlers::Produced;
pub use exchange::HandlerSession;
pub use fulmar_engine::{End, Rate, Stop, Timeouts};
pub use suspended::{HandlerMessage, Resumer, Suspended};
