//! A server of test endpoints.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Instant, UNIX_EPOCH};

use fulmar_engine::End;
use fulmar_proto::Request;
use fulmar_serve::Files;
use fulmar_serve::endpoints::Endpoints;
use fulmar_server::{
    Handler, HandlerApp, HandlerResult, Layers, Limits, Observer, Responder, ServerEngine, Stop,
};
use fulmar_sys as sys;

use crate::loops::{LISTENER, OwnLoop};

/// A server of [`App`] in our own loop.
pub type AppServer = OwnLoop<ServerEngine<App>>;

/// A server of the test endpoints without an observer.
pub type EndpointsEngine = ServerEngine<HandlerApp<Endpoints>>;

/// A server of a directory.
pub type FilesEngine = ServerEngine<HandlerApp<Files>>;

/// The test endpoints, and nothing else.
pub type App = HandlerApp<EndpointsHandler>;

/// What answers.
#[derive(Debug, Default)]
pub struct EndpointsHandler {
    endpoints: Endpoints,
    gone: EndCounter,
}

impl EndpointsHandler {
    /// The number of connections with a reported end.
    pub fn gone(&self) -> u64 {
        self.gone.0.get()
    }
}

impl Handler for EndpointsHandler {
    fn handle(&mut self, responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
        self.endpoints.handle(responder, request)
    }
}

/// Counts connections that are gone.
#[derive(Clone, Debug, Default)]
struct EndCounter(Rc<Cell<u64>>);

impl Observer for EndCounter {
    fn gone(&mut self, _: Instant, _: SocketAddr, _: &End) {
        self.0.set(self.0.get() + 1);
    }
}

/// The application. Its clock is fixed.
pub fn app() -> App {
    let shop = EndpointsHandler::default();
    let gone = shop.gone.clone();
    HandlerApp::new(shop, sys::now(), || UNIX_EPOCH).with_observer(gone)
}

/// A server that answers with it.
pub fn server(limits: Limits) -> ServerEngine<App> {
    server_on(limits, None)
}

/// The same, with a layer below each connection.
pub fn server_on(limits: Limits, layers: Option<Layers>) -> ServerEngine<App> {
    let mut engine = ServerEngine::new(sys::now(), app(), limits, Stop::new());
    engine.add_listener(LISTENER, layers);
    engine
}
