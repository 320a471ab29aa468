//! A server of test endpoints.

use std::convert::Infallible;
use std::time::Instant;

use fulmar_engine::{End, SocketId};
use fulmar_proto::{Event, Server, ServerConnection};
use fulmar_serve::endpoints::{Asked, Endpoint, Endpoints, Task};
use fulmar_server::{Application, Context, Layers, Limits, ServerEngine, Stop};
use fulmar_sys as sys;

use crate::loops::LISTENER;

/// The test endpoints, and nothing else.
#[derive(Debug, Default)]
pub struct App {
    endpoints: Endpoints,
    /// Requests whose answer began.
    pub requests: u64,
    /// Connections that were told gone.
    pub gone: u64,
}

impl Application for App {
    type Data = Task;
    type Message = Infallible;

    fn handle(
        &mut self,
        context: &mut Context,
        reply: &mut ServerConnection,
        task: &mut Task,
        event: Event<'_, Server>,
    ) {
        let result = match event {
            Event::Head { head, len, .. } => {
                self.requests += 1;
                let endpoint = Endpoint::parse(head.target).expect("a test asks for an endpoint");
                let asked = Asked { request: &head, len, requests: self.requests, date: DATE };
                self.endpoints.begin(endpoint, asked, context, reply, task).map(drop)
            }
            event => self.endpoints.handle(event, reply, task),
        };
        result.expect("endpoints use the connection as it wants");
    }

    fn handle_timer(&mut self, _: &mut Context, reply: &mut ServerConnection, task: &mut Task) {
        self.endpoints.handle_timer(reply, task, DATE).expect("as above");
    }

    fn handle_gone(&mut self, _: Instant, _: SocketId, _: Task, _: &End) {
        self.gone += 1;
    }
}

/// A server that answers with them.
pub fn server(limits: Limits) -> ServerEngine<App> {
    server_on(limits, None)
}

/// The same, with a layer below each connection.
pub fn server_on(limits: Limits, layers: Option<Layers>) -> ServerEngine<App> {
    let mut engine = ServerEngine::new(sys::now(), App::default(), limits, Stop::new());
    engine.add_listener(LISTENER, layers);
    engine
}

/// Time stands still here.
const DATE: &[u8] = b"Thu, 01 Jan 1970 00:00:00 GMT";
