//! What a program needs around a server engine: listeners, threads, and a good end.
//!
//! A [`Host`] runs a [`ServerApp`](fulmar_server::ServerApp) in threads of its own, each with
//! a reactor, until it is stopped:
//!
//! ```
//! use fulmar_host::{Host, Listen};
//! # use fulmar_proto::{Event, Server, ServerConnection};
//! # use fulmar_server::{ExchangeContext, ServerApp};
//! # struct Hello;
//! # impl ServerApp for Hello {
//! #     type Data = ();
//! #     type Message = std::convert::Infallible;
//! #     fn handle(
//! #         &mut self,
//! #         _: &mut ExchangeContext,
//! #         _: &mut ServerConnection,
//! #         _: &mut (),
//! #         _: Event<'_, Server>,
//! #     ) {
//! #     }
//! # }
//!
//! let running = Host::new(|_| Ok(Hello))
//!     .listen(Listen::tcp("127.0.0.1:0".parse().unwrap()))
//!     .threads(2)
//!     .start()?;
//! println!("listening on {}", running.addresses()[0]);
//! running.stop(); // for example at a signal: see `Running::stopper`
//! let outcomes = running.join()?;
//! assert_eq!(outcomes.len(), 2);
//! # Ok::<(), fulmar_host::Error>(())
//! ```
//!
//! **What is listened on.** [`Listen`] is a TCP address, a Unix socket, or a socket that this
//! process was given: by its parent, or by systemd ([`Activation`]). With several threads each has
//! a TCP listener of its own (`SO_REUSEPORT`), and the kernel spreads the connections. A socket
//! that cannot be opened more than once is shared: all idle threads are woken for a connection, one
//! gets it, and each of the others has tried once in vain. `EPOLLEXCLUSIVE` would wake fewer. But
//! if a woken thread may not accept (its connections are at their limit, or it is ending), the
//! connection would wait until another one arrives.
//!
//! **The end** is graceful, with a deadline: [`Running::stop`]. No signal is handled here: a
//! program decides what its signals mean.
//!
//! **A new version of the program** takes the listeners over without losing a connection that
//! waits to be accepted: [`Host::hand_over`].
//!
//! **A panic** of a handler ends one request: [`Host::on_panic`].
//!
//! **Other engines** than servers, and several kinds of threads in one program: an
//! [`EngineFactory`] each, in a [`Program`]. A host is a program with server engines.
//!
//! An engine in the application's own loop needs no host: it takes what [`Listen::open`] returns.
#![forbid(unsafe_code)]

mod address;
mod error;
mod listen;
mod opened;
mod socket_file;

mod activation;

mod engine_factory;
mod host;
mod outcome;
mod program;
mod running;
mod thread;
mod worker;

mod handover;

pub use activation::{Activation, ActivationError};
pub use address::Address;
pub use engine_factory::EngineFactory;
pub use error::Error;
pub use fulmar_drive::{Driver, DriverInfo, LoopOptions, Spin};
pub use host::{Host, OnPanic};
pub use listen::Listen;
pub use opened::OpenListener;
pub use outcome::{Outcome, Usage};
pub use program::{Bound, Program};
pub use running::{Running, Stopper};
pub use worker::Worker;
