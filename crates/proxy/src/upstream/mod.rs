//! What both kinds of relays need in order to reach a server.

mod destination;
mod header;
mod tls;

pub use destination::probes;
pub(crate) use destination::{Client, Destination, Opening, endpoint, is_mapped};
pub(crate) use tls::client_tls;
