//! The client side: transfers on connections that they share.
//!
//! A [`Client`] is an engine, to be driven by a reactor in our loop or in the application's. It
//! carries out [`Request`]s, each compiled once and started as often as one likes, and tells an
//! [`Application`] what comes of them. Whatever can be decided without the kernel is decided here:
//! which connection is used, who waits, what is asked again and where an answer leads.
//!
//! The modules stand in reading order.
#![forbid(unsafe_code)]

mod moment;
mod target;

mod key;
mod options;
mod request;

mod error;
mod marks;
mod transfer;

mod application;
mod client;

mod answer;
mod body;
mod connect;
mod core;
mod identity;
mod seat;
mod state;

mod hosts;
mod pool;

pub use application::{Application, Context, Event};
pub use client::Client;
pub use error::{BuildError, ConnectError, Error, ProxyResolveError, Tried, Waiting};
pub use key::{Key, Protocol, Route};
pub use marks::Timings;
pub use options::{Config, Options, Rate};
pub use request::{Body, Request, RequestBuilder};
pub use state::Stats;
pub use target::{ResolveError, Target, TargetError};
pub use transfer::{Done, Hop, Progress, TransferId};
