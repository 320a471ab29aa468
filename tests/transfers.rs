//! A client's application for tests: it records, and does what a test wants at each event.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use fulmar_client::{Application, Client, Config, Context, Done, Event, Request, TransferId};
use fulmar_sys as sys;

use crate::app::{App, server};
use crate::loops::Loop;
use fulmar_server::{Limits, ServerEngine};

/// What a test does at an event, besides recording it.
pub type Act = Box<dyn FnMut(&mut Context<'_>, TransferId, &Event<'_>)>;

/// Records what it is told.
#[derive(Default)]
pub struct Recorder {
    /// What every transfer delivered so far.
    pub bodies: HashMap<TransferId, Vec<u8>>,
    /// Transfers that are over, in order.
    pub done: Vec<(TransferId, Done)>,
    /// Each event as a letter, by transfer: `I`nformational, `R`edirect, `H`ead, `d`ata,
    /// `w`ritable, `U`pgraded, `D`one.
    pub traces: HashMap<TransferId, String>,
    /// What is done at each event.
    pub act: Option<Act>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("done", &self.done.len()).finish_non_exhaustive()
    }
}

impl Application for Recorder {
    fn handle(&mut self, context: &mut Context<'_>, transfer: TransferId, event: Event<'_>) {
        if let Some(act) = &mut self.act {
            act(context, transfer, &event);
        }
        let trace = self.traces.entry(transfer).or_default();
        assert!(!trace.ends_with('D'), "nothing is told of a transfer that is over");
        trace.push(match &event {
            Event::Informational(_) => 'I',
            Event::Redirect { .. } => 'R',
            Event::Head { .. } => 'H',
            Event::Data(_) => 'd',
            Event::Writable => 'w',
            Event::Upgraded => 'U',
            Event::Done(_) => 'D',
        });
        match event {
            Event::Data(bytes) => self.bodies.entry(transfer).or_default().extend(&bytes),
            Event::Done(done) => self.done.push((transfer, done)),
            _ => {}
        }
    }
}

impl Recorder {
    /// A recorder that does `act` at each event.
    pub fn with(act: impl FnMut(&mut Context<'_>, TransferId, &Event<'_>) + 'static) -> Self {
        Self { act: Some(Box::new(act)), ..Self::default() }
    }

    /// What a transfer delivered.
    pub fn body(&self, transfer: TransferId) -> &[u8] {
        self.bodies.get(&transfer).map_or(&[], Vec::as_slice)
    }

    /// What a transfer was told, with one `d` for all pieces that came one after another.
    pub fn trace(&self, transfer: TransferId) -> String {
        let mut trace: Vec<char> =
            self.traces.get(&transfer).map_or("", String::as_str).chars().collect();
        trace.dedup_by(|a, b| *a == 'd' && *b == 'd');
        trace.into_iter().collect()
    }

    /// How a transfer ended.
    ///
    /// # Panics
    /// If it has not.
    pub fn ended(&self, transfer: TransferId) -> &Done {
        let found = self.done.iter().find(|(id, _)| *id == transfer);
        &found.expect("the transfer is over").1
    }
}

/// A client and a server of endpoints, each in a loop, in one thread.
#[derive(Debug)]
pub struct Pair<L, M> {
    /// The client's loop.
    pub client: L,
    /// The server's.
    pub server: M,
    /// Where the server listens.
    pub address: SocketAddr,
}

impl<L, M> Pair<L, M>
where
    L: Loop<Engine = Client<Recorder>>,
    M: Loop<Engine = ServerEngine<App>>,
{
    /// Both, with nothing to do.
    pub fn new(recorder: Recorder, config: Config) -> Self {
        let (server, address) = M::start(server(Limits::default()));
        let client = Client::new(sys::now(), sys::wall_clock(), recorder, config);
        let (client, _) = L::start(client);
        Self { client, server, address }
    }

    /// A URL of the server's.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Starts a GET.
    ///
    /// # Panics
    /// If the path makes no URL.
    pub fn get(&mut self, path: &str) -> TransferId {
        let request = Request::get(&self.url(path)).build().expect("a request");
        self.start(&request)
    }

    /// Starts a transfer.
    pub fn start(&mut self, request: &Request) -> TransferId {
        self.client.with(|client, now| client.start(now, request))
    }

    /// Turns both until `done`.
    ///
    /// # Panics
    /// If nothing happens any more.
    pub fn run_until(&mut self, mut done: impl FnMut(&mut Client<Recorder>) -> bool) {
        let start = sys::now();
        while !done(self.client.engine()) {
            assert!(sys::now() - start < Duration::from_secs(20), "nothing happens any more");
            self.client.turn(Duration::from_millis(1));
            self.server.turn(Duration::ZERO);
        }
    }

    /// Turns both until no transfer is left.
    pub fn run(&mut self) {
        self.run_until(|client| client.running() == 0);
    }
}
