//! What both kinds of relays need in order to reach a server.

mod destination;
mod header;
mod tls;

pub(crate) use destination::{Client, Destination, Opening};
pub(crate) use tls::client_tls;
