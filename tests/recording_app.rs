//! An application that records requests, and responds once a request is complete.

use std::any::Any;
use std::net::SocketAddr;
use std::time::Instant;

use fulmar_engine::{End, ListenerId, SocketId};
use fulmar_proto::{
    BodyLen, Connection, Event, Headers, PeerError, Response, Server, ServerConnection,
};
use fulmar_semantics::proxy_protocol::ProxyProtocolHeader;
use fulmar_server::{ExchangeContext, Layers, Limits, ServerApp, ServerEngine, Stop};
use fulmar_sys as sys;

use crate::loops::LISTENER;

/// The requests on all connections of an application.
///
/// `/early` has its response at the head, `/continue` gets 100, `/never` has no response;
/// everything else has its response at the end of the request.
#[derive(Debug, Default)]
pub struct RecordingApp {
    /// Heads, as `METHOD target`.
    pub heads: Vec<String>,
    /// Complete requests, as `METHOD target length-of-body`.
    pub complete: Vec<String>,
    /// Connections so far.
    pub accepted: usize,
    /// Connections with established layers.
    pub established: usize,
    /// Headers of the PROXY protocol, in order.
    pub proxied: Vec<ProxyProtocolHeader>,
    /// How each connection ended.
    pub gone: Vec<ConnectionEnd>,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// In order.
    Closed,
    /// Its client broke the protocol.
    Peer(PeerError),
    /// A layer below it failed.
    Layer,
    /// A deadline passed.
    TimedOut,
    /// Its socket failed.
    Failed,
}

/// The request in hand.
#[derive(Debug, Default)]
pub struct PartialRequest {
    head: String,
    len: usize,
    early: bool,
}

impl ServerApp for RecordingApp {
    type Data = PartialRequest;
    type Message = std::convert::Infallible;

    fn accept(&mut self, _: Instant, _: ListenerId, _: SocketAddr) -> PartialRequest {
        self.accepted += 1;
        PartialRequest::default()
    }

    fn handle_replaced(&mut self, _: &mut ExchangeContext, _: &mut PartialRequest, info: &dyn Any) {
        self.proxied
            .push(info.downcast_ref::<ProxyProtocolHeader>().expect("no other layer goes").clone());
    }

    fn handle_established(
        &mut self,
        _: &mut ExchangeContext,
        _: &mut PartialRequest,
        _: Option<&dyn Any>,
    ) {
        self.established += 1;
    }

    fn handle(
        &mut self,
        _: &mut ExchangeContext,
        reply: &mut ServerConnection,
        request: &mut PartialRequest,
        event: Event<'_, Server>,
    ) {
        match event {
            Event::Head { stream, head, .. } => {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let line = format!("{} {}", text(head.method), text(head.target));
                self.heads.push(line.clone());
                *request = PartialRequest { head: line, len: 0, early: head.target == b"/early" };
                if head.target == b"/continue" && head.expects_continue {
                    let head = Response::new(100, Headers::EMPTY);
                    reply.send_head(stream, head, BodyLen::Empty).expect("an interim answer");
                }
                if request.early {
                    answer(reply, stream);
                }
            }
            Event::Data { stream, bytes } => {
                request.len += bytes.len();
                reply.release(stream, bytes.len());
            }
            Event::End { stream, .. } => {
                self.complete.push(format!("{} {}", request.head, request.len));
                if !request.early && request.head != "GET /never" {
                    answer(reply, stream);
                }
            }
            _ => {}
        }
    }

    fn handle_gone(&mut self, _: Instant, _: SocketId, _: PartialRequest, end: &End) {
        self.gone.push(match end {
            End::Closed => ConnectionEnd::Closed,
            End::Peer(error) => ConnectionEnd::Peer(*error),
            End::Layer(_) => ConnectionEnd::Layer,
            End::TimedOut(_) => ConnectionEnd::TimedOut,
            _ => ConnectionEnd::Failed,
        });
    }
}

/// A server with [`RecordingApp`].
pub type RecordingEngine = ServerEngine<RecordingApp>;

/// A server with this application.
pub fn server(limits: Limits, layers: Option<Layers>) -> ServerEngine<RecordingApp> {
    let mut engine = ServerEngine::new(sys::now(), RecordingApp::default(), limits, Stop::new());
    engine.add_listener(LISTENER, layers);
    engine
}

fn answer(reply: &mut ServerConnection, stream: fulmar_proto::StreamId) {
    let head = Response::new(200, Headers::EMPTY);
    reply.send_head(stream, head, BodyLen::Exact(3)).expect("the first answer");
    reply.send_data(stream, b"ok\n"[..].into()).expect("three bytes");
    reply.send_end(stream, Headers::EMPTY).expect("all of it");
}
