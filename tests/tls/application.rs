//! The TLS details of clients that an application receives, over real sockets in every kind of
//! loop.

use std::any::Any;
use std::convert::Infallible;
use std::time::Instant;

use bytes::Bytes;
use fulmar_engine::{End, SocketId};
use fulmar_proto::{BodyLen, Connection, Event, Headers, Response, Server, ServerConnection};
use fulmar_server::{ExchangeContext, Limits, ServerApp, ServerEngine, Stop};
use fulmar_sys as sys;
use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::https::{http1_tls, layers, trusting_over_http1};
use fulmar_tests::in_every_loop;
use fulmar_tests::loops::{LISTENER, Loop};
use fulmar_tests::tls_end::TlsPeer;
use fulmar_tls::{
    Authorities, ClientAuth, ClientOptions, ClientTls, Info, ServerOptions, ServerTls, TlsError,
};

/// Responds with the known identity of the client.
#[derive(Default)]
struct Doorman {
    ends: Vec<Option<TlsError>>,
}

impl ServerApp for Doorman {
    type Data = String;
    type Message = Infallible;

    fn handle_established(
        &mut self,
        _: &mut ExchangeContext,
        known: &mut String,
        layer: Option<&dyn Any>,
    ) {
        let info = layer.and_then(Info::of).expect("there is TLS, and it stands");
        let name = b"client.example";
        let named = |der: &[u8]| der.windows(name.len()).any(|window| window == name);
        let own = info.certificates().next().map(named);
        let (version, resumed) = (info.version.as_str(), info.resumed);
        let alpn = info.alpn.map(String::from_utf8_lossy);
        *known = format!("{version} {alpn:?} {:?} {own:?} {resumed}", info.server_name);
    }

    fn handle(
        &mut self,
        _: &mut ExchangeContext,
        reply: &mut ServerConnection,
        known: &mut String,
        event: Event<'_, Server>,
    ) {
        if let Event::End { stream, .. } = event {
            let body = Bytes::from(known.clone());
            let head = Response::new(200, Headers::EMPTY);
            let len = BodyLen::Exact(body.len() as u64);
            reply.send_head(stream, head, len).expect("the first answer");
            reply.send_data(stream, body.into()).expect("as long as it says");
            reply.send_end(stream, Headers::EMPTY).expect("that was all");
        }
    }

    fn handle_gone(&mut self, _: Instant, _: SocketId, _: String, end: &End) {
        self.ends.push(match end {
            End::Layer(error) => error.downcast_ref().cloned(),
            _ => None,
        });
    }
}

fn server(tls: ServerTls) -> ServerEngine<Doorman> {
    let stop = Stop::new();
    let mut engine = ServerEngine::new(sys::now(), Doorman::default(), Limits::default(), stop);
    engine.add_listener(LISTENER, Some(layers(tls)));
    engine
}

#[test]
fn an_application_receives_client_identities() {
    fn check<L: Loop<Engine = ServerEngine<Doorman>>>() {
        let certs = Certs::new();
        let roots = Authorities::from(vec![certs.ca().into()]);
        let options = ServerOptions {
            client_auth: ClientAuth::Optional(roots),
            ..ServerOptions::from(certs.identity(CertOwner::Server))
        };
        let (mut server, address) = L::start(server(ServerTls::new(options).expect("files")));
        let mut send_request = |tls: &ClientTls| {
            let mut peer = TlsPeer::connect(tls, address);
            server.turn_until(|_| {
                peer.turn();
                peer.end.established
            });
            peer.get("/");
            server.turn_until(|_| {
                peer.turn();
                peer.end.above.ends_with(b"true") || peer.end.above.ends_with(b"false")
            });
            let text = String::from_utf8_lossy(&peer.end.above).into_owned();
            text.rsplit_once("\r\n\r\n").expect("a head").1.to_owned()
        };
        let anonymous = http1_tls(&certs);
        let known = ClientOptions {
            identity: Some(certs.identity(CertOwner::Client)),
            ..trusting_over_http1(&certs)
        };
        let known = ClientTls::new(known).expect("files");
        for resumed in [false, true] {
            let common = "TLS 1.3 Some(\"http/1.1\") Some(\"localhost\")";
            assert_eq!(send_request(&anonymous), format!("{common} None {resumed}"));
            assert_eq!(send_request(&known), format!("{common} Some(true) {resumed}"));
        }
    }
    in_every_loop!(check);
}

#[test]
fn the_cause_of_a_refused_client_is_reported_at_its_end() {
    fn check<L: Loop<Engine = ServerEngine<Doorman>>>() {
        let certs = Certs::new();
        let roots = Authorities::from(vec![certs.ca().into()]);
        let options = ServerOptions {
            client_auth: ClientAuth::Required(roots),
            ..ServerOptions::from(certs.identity(CertOwner::Server))
        };
        let (mut server, address) = L::start(server(ServerTls::new(options).expect("files")));
        let stranger = certs.identity(CertOwner::StrangerClient);
        let stranger = ClientOptions { identity: Some(stranger), ..trusting_over_http1(&certs) };
        for (tls, why) in [
            (http1_tls(&certs), TlsError::NoCertificate),
            (ClientTls::new(stranger).expect("files"), TlsError::UnknownIssuer),
        ] {
            let mut peer = TlsPeer::connect(&tls, address);
            server.turn_until(|server| {
                if !peer.end.established {
                    peer.turn(); // its handshake is complete: the server verifies last
                }
                if peer.end.established {
                    std::io::Write::write_all(&mut peer.stream, &peer.end.take()).expect("room");
                }
                server.engine().connections() == 0
                    && server.stats().accepted > 0
                    && !server.engine().application().ends.is_empty()
            });
            let ends = std::mem::take(&mut server.engine().application_mut().ends);
            assert_eq!(ends, [Some(why)]);
        }
    }
    in_every_loop!(check);
}
