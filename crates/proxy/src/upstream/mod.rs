//! What both kinds of relays need in order to reach a server.

mod destination;
mod header;
mod tls;

pub use destination::probes;
pub(crate) use destination::{is_mapped, Client, Destination, Opening, endpoint};
pub(crate) use tls::client_tls;
