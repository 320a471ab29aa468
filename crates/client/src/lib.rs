//! The client library: transfers on connections that they share.
//!
//! A [`Client`] is an engine. A reactor drives it, in a loop of its own or in the application's. It
//! executes [`Request`]s, which are compiled once and started any number of times, and reports
//! their events to an [`Application`]. It selects connections, queues transfers, retries, and
//! follows redirects.
//!
//! ```
//! use std::time::{Instant, SystemTime};
//!
//! use fulmar_client::{Application, Client, Config, Context, Request, TransferEvent, TransferId};
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
//! let now = Instant::now();
//! let mut client = Client::new(now, SystemTime::now(), Printer, Config::default());
//! client.start(now, &Request::get("http://127.0.0.1/").build()?);
//! // `fulmar_drive::Reactor::new(client, Epoll::new()?)` drives it.
//! # Ok::<(), fulmar_client::BuildError>(())
//! ```
#![forbid(unsafe_code)]

mod deadline;
mod request_url;
mod timestamps;
mod transfer_stage;

mod connection_key;
mod options;
mod request;

mod error;
mod transfer;

mod application;
mod client;

mod action_memory;
mod attempt;
mod auth_sessions;
mod authority_limits;
mod body;
mod coalescing;
mod connection_data;
mod connection_handler;
mod cookies_and_auth;
mod keep_alive;
mod lost_exchange;
mod open_connection;
mod owners;
mod proxy_line;
mod report_connection;
mod response;
mod state;
mod tunnel;

mod authorities;
mod coalescing_index;
mod first_hop;
mod host_limits;
mod pool;

pub use action_memory::ClientMemory;
pub use application::{Application, Context, TransferEvent};
pub use client::{Client, ConnectionUse};
pub use connection_key::{IpVersion, Key, OpenedTunnel, Protocol, Route};
pub use error::{BuildError, ConnectError, Error, ProxyResolveError, Tried, Waiting};
pub use fulmar_engine::KeepAlive;
pub use fulmar_proto::h1::{ResponseProfile, StatusAliases, VerbatimHead};
pub use fulmar_semantics::proxy;
pub use fulmar_semantics::tunnel::{Socks4Error, Socks5Error};
pub use options::{Config, Options, RateLimit};
pub use request::{CompiledOrigin, Request, RequestBody, RequestBuilder};
pub use request_url::{RequestUrl, UrlError, UrlResolveError};
pub use state::Stats;
pub use timestamps::Timings;
pub use transfer::{
    ConnectedFacts, Done, ExchangeFacts, NegotiatedTls, Progress, TransferHop, TransferId,
};
