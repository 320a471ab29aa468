//! The test endpoints over TLS, on our own reactor.

use std::net::SocketAddr;
use std::thread::JoinHandle;

use fulmar_drive::{ListenOptions, Reactor, Waker, listen};
use fulmar_server::{Layers, Limits, ServerEngine, Stop};
use fulmar_sys as sys;
use fulmar_tls::{ClientOptions, ClientTls, Roots, ServerTls};

use crate::app::{self, App};
use crate::certs::{CertOwner, Certs};
use crate::loops::{LISTENER, requested_options};

/// A server over TLS.
pub fn server(tls: ServerTls, limits: Limits) -> ServerEngine<App> {
    app::server_on(limits, Some(layers(tls)))
}

/// A session of its own for each connection.
pub fn layers(tls: ServerTls) -> Layers {
    Layers::new(move |_| Some(Box::new(tls.session().ok()?)))
}

/// As a server with this certificate speaks TLS.
///
/// # Panics
/// The files cannot be used.
pub fn server_tls(certs: &Certs, owner: CertOwner) -> ServerTls {
    ServerTls::new(certs.identity(owner).into()).expect("a certificate and its key")
}

/// Options of a client that trusts the authority of `certs` only.
pub fn trusting(certs: &Certs) -> ClientOptions {
    ClientOptions { roots: Roots::empty().file(certs.ca()), ..ClientOptions::default() }
}

/// Options of such a client that speaks HTTP/1.1 only.
pub fn trusting_over_http1(certs: &Certs) -> ClientOptions {
    ClientOptions { alpn: vec![b"http/1.1".to_vec()], ..trusting(certs) }
}

/// As a client that speaks HTTP/1.1 only speaks TLS.
///
/// # Panics
/// The files cannot be used.
pub fn http1_tls(certs: &Certs) -> ClientTls {
    ClientTls::new(trusting_over_http1(certs)).expect("an authority")
}

/// As a client of both protocols speaks TLS.
///
/// # Panics
/// The files cannot be used.
pub fn client_tls(certs: &Certs) -> ClientTls {
    ClientTls::new(trusting(certs)).expect("an authority")
}

/// A server in a thread of its own; it ends when dropped.
#[derive(Debug)]
pub struct Https {
    /// Where it listens, on loopback.
    pub address: SocketAddr,
    stop: Stop,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Https {
    /// Starts it with the certificate of `owner`.
    pub fn start(certs: &Certs, owner: CertOwner) -> Self {
        Self::start_with(server_tls(certs, owner))
    }

    /// Starts it.
    ///
    /// # Panics
    /// There is no free port or descriptor.
    pub fn start_with(tls: ServerTls) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let (listener, address) = listen(any, ListenOptions::default()).expect("a port");
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let stop = Stop::new();
            let app = app::app();
            let mut engine = ServerEngine::new(sys::now(), app, Limits::default(), stop.clone());
            engine.add_listener(LISTENER, Some(layers(tls)));
            let mut reactor =
                Reactor::with_options(engine, requested_options()).expect("descriptors");
            reactor.listen(listener).expect("a listener");
            sender.send((stop, reactor.waker().expect("a descriptor"))).expect("it waits");
            while !reactor.engine.is_done() {
                reactor.turn().expect("a turn");
            }
        });
        let (stop, waker) = receiver.recv().expect("the thread begins");
        Self { address, stop, waker, thread: Some(thread) }
    }

    /// The URL of a target, unchanged.
    pub fn url(&self, target: &str) -> String {
        format!("https://localhost:{}{target}", self.address.port())
    }
}

impl Drop for Https {
    fn drop(&mut self) {
        self.stop.set();
        self.waker.wake();
        // A test that has failed reports that itself.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
