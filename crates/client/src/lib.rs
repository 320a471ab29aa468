//! The client side: transfers on connections that they share.
//!
//! A [`Client`] is an engine, to be driven by a reactor in our loop or in the application's. It
//! carries out [`Request`]s, each compiled once and started as often as one likes, and tells an
//! [`Application`] what comes of them. Whatever can be decided without the kernel is decided here:
//! which connection is used, who waits, what is asked again and where an answer leads.
//!
//! The modules stand in reading order.
#![forbid(unsafe_code)]

mod deadline;
mod request_url;

mod key;
mod options;
mod request;

mod error;
mod timestamps;
mod transfer;

mod application;
mod client;

mod body;
mod connect;
mod connection_handler;
mod identity;
mod response;
mod seat;
mod state;

mod hosts;
mod pool;

pub use application::{Application, Context, TransferEvent};
pub use client::Client;
pub use error::{BuildError, ConnectError, Error, ProxyResolveError, Tried, Waiting};
pub use key::{Key, Protocol, Route};
pub use options::{Config, Options, RateLimit};
pub use request::{Request, RequestBody, RequestBuilder};
pub use request_url::{RequestUrl, UrlError, UrlResolveError};
pub use state::Stats;
pub use timestamps::Timings;
pub use transfer::{Done, Progress, TransferHop, TransferId};
