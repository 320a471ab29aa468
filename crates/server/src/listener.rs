//! The listeners of a server, and the layers of their connections.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use fulmar_engine::ListenerId;
use fulmar_proto::Layer;

/// Makes a layer, such as TLS, for each connection of a listener.
#[derive(Clone)]
pub struct Layers(Arc<Make>);

type Make = dyn Fn(SocketAddr) -> Option<Box<dyn Layer>> + Send + Sync;

impl Layers {
    /// `make` is called for every connection, with its peer's address. If it returns no layer, or
    /// panics, the connection is closed.
    pub fn new(
        make: impl Fn(SocketAddr) -> Option<Box<dyn Layer>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(make))
    }

    pub(crate) fn make(&self, peer: SocketAddr) -> Option<Box<dyn Layer>> {
        (self.0)(peer)
    }
}

impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Layers")
    }
}

/// A listener of the server.
#[derive(Debug)]
pub(crate) struct ServerListener {
    pub(crate) id: ListenerId,
    pub(crate) layers: Option<Layers>,
}
