//! The types of the `http` crate, for handlers that use them.
//!
//! [`Service`] makes a handler of a function from `http::Request<Bytes>` to `http::Response`.
//! [`request()`] and [`response()`] convert single heads.
//!
//! ```
//! use bytes::Bytes;
//! use fulmar_server::http::Service;
//!
//! let service = Service::new(64 * 1024, |request: http::Request<Bytes>| {
//!     let agent = request.headers().get(http::header::USER_AGENT);
//!     let text = format!("{} {}: {agent:?}\n", request.method(), request.uri().path());
//!     http::Response::new(text.into())
//! });
//! # fulmar_server::HandlerApp::new(service, std::time::Instant::now(), || std::time::UNIX_EPOCH);
//! ```

mod convert;
mod service;

pub use convert::{request, response};
pub use service::Service;
