//! Names to addresses (RFC 1034, RFC 1035), driven by fulmar's loop.
//!
//! [`Names`] is the [`Resolver`](fulmar_drive::Resolver) of a reactor: it answers an engine's
//! `Action::Resolve` from what was given ([`Overrides`]), from its cache, from the hosts file, or
//! by asking the name servers through c-ares, whose sockets are watched in our loop. Nothing blocks
//! but reading the hosts file and `resolv.conf`, and there is no thread. c-ares makes system calls
//! of its own, which are in nobody's ledger; an answer from the cache makes none.
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
