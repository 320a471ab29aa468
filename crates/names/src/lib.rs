//! Name resolution (RFC 1034, RFC 1035), driven by fulmar's event loop.
//!
//! [`Names`] is the [`Resolver`](fulmar_drive::Resolver) of a reactor. It resolves an engine's
//! `Action::Resolve` from the configured [`Overrides`], its cache, the hosts file, or the name
//! servers. c-ares sends the queries; the event loop watches its sockets. Only reading the hosts
//! file and `resolv.conf` blocks, and there is no thread. The ledger does not count the system
//! calls of c-ares; a cache hit makes none.
//!
//! ```
//! use fulmar_names::{Names, Options, Overrides};
//!
//! let mut overrides = Overrides::default();
//! overrides.add("example.com:443:192.0.2.1,192.0.2.2").unwrap();
//! let names = Names::new(Options { overrides, ..Options::default() });
//! // reactor.set_resolver(Box::new(names));
//! # drop(names);
//! ```
#![forbid(unsafe_code)]

mod names;

mod options;
mod overrides;

mod cache;
mod choice;
mod hostname;
mod question;
mod reply;
mod servers;
mod sockets;

pub use names::Names;
pub use options::{Family, Options};
pub use overrides::{OverrideError, Overrides};
