//! A server engine: links, limits, and an [`Application`] that answers. Still no I/O.
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
mod application;
mod limits;
mod listener;
mod mailbox;
mod server;

pub use application::{Application, Context};
pub use limits::Limits;
pub use listener::Layers;
pub use mailbox::Mailbox;
pub use server::{ServerEngine, Stop};
