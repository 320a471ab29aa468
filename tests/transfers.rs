//! A client's application for tests: it records every event, and runs a test's closure at each.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use fulmar_client::{
    Application, Client, Config, Context, Done, Request, TransferEvent, TransferId,
};
use fulmar_sys as sys;

use crate::app::{App, server};
use crate::loops::Loop;
use crate::process::PATIENCE;
use crate::scripted::{Scripted, ScriptedRequest, ServerStep};
use fulmar_server::{Limits, ServerEngine};

/// A loop that drives a client.
pub trait ClientLoop: Loop<Engine = Client<TransferRecorder>> {}

impl<L: Loop<Engine = Client<TransferRecorder>>> ClientLoop for L {}

/// The action of a test at an event, besides recording it.
pub type EventAction = Box<dyn FnMut(&mut Context<'_>, TransferId, &TransferEvent<'_>)>;

/// The action of a test at a wake-up or a deadline; the next deadline.
pub type TickAction = Box<dyn FnMut(&mut Context<'_>) -> Option<Instant>>;

/// Transfers of which certain events must not be reported.
pub type Named = Rc<RefCell<HashSet<TransferId>>>;

/// Records the events.
#[derive(Default)]
pub struct TransferRecorder {
    /// The bytes that every transfer delivered so far.
    pub bodies: HashMap<TransferId, Vec<u8>>,
    /// Ended transfers, in order.
    pub done: Vec<(TransferId, Done)>,
    /// Each event as a letter, by transfer: `I`nformational, `M`alformed head, `R`edirect, `H`ead,
    /// `d`ata, `t`railers, `w`ritable, `U`pgraded, `D`one.
    pub traces: HashMap<TransferId, String>,
    /// What is done at each event.
    pub act: Option<EventAction>,
    /// The action at a wake-up, and when `due` has come.
    pub tick: Option<TickAction>,
    /// When `tick` is due.
    pub due: Option<Instant>,
    /// Removed transfers: no event of them is reported.
    pub removed: Named,
    /// Paused transfers: no event of their responses is reported, except a failure.
    pub paused: Named,
}

impl fmt::Debug for TransferRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("done", &self.done.len()).finish_non_exhaustive()
    }
}

impl Application for TransferRecorder {
    fn handle(
        &mut self,
        context: &mut Context<'_>,
        transfer: TransferId,
        event: TransferEvent<'_>,
    ) {
        assert!(!self.removed.borrow().contains(&transfer), "it was removed: {event:?}");
        let of_request = match &event {
            TransferEvent::Writable => true,
            TransferEvent::Done(done) => done.result.is_err(),
            _ => false,
        };
        assert!(of_request || !self.paused.borrow().contains(&transfer), "it pauses: {event:?}");
        if let Some(act) = &mut self.act {
            act(context, transfer, &event);
        }
        let trace = self.traces.entry(transfer).or_default();
        assert!(!trace.ends_with('D'), "nothing is told of a transfer that is over");
        trace.push(match &event {
            TransferEvent::Connected(_) => 'C',
            TransferEvent::Informational(_) => 'I',
            TransferEvent::MalformedHead { .. } => 'M',
            TransferEvent::Trailers(_) => 't',
            TransferEvent::Redirect { .. } => 'R',
            TransferEvent::Head { .. } => 'H',
            TransferEvent::Data(_) => 'd',
            TransferEvent::Writable => 'w',
            TransferEvent::Upgraded => 'U',
            TransferEvent::Done(_) => 'D',
        });
        match event {
            TransferEvent::Data(bytes) => self.bodies.entry(transfer).or_default().extend(&bytes),
            TransferEvent::Done(done) => self.done.push((transfer, done)),
            _ => {}
        }
    }

    fn handle_wake(&mut self, context: &mut Context<'_>) {
        self.due = self.tick.as_mut().and_then(|tick| tick(context));
    }

    fn handle_timeout(&mut self, context: &mut Context<'_>) {
        self.due = self.tick.as_mut().and_then(|tick| tick(context));
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }
}

impl TransferRecorder {
    /// A recorder that does `act` at each event.
    pub fn with(
        act: impl FnMut(&mut Context<'_>, TransferId, &TransferEvent<'_>) + 'static,
    ) -> Self {
        Self { act: Some(Box::new(act)), ..Self::default() }
    }

    /// True if some transfer had exactly these events so far.
    pub fn trace_of_any(&self, trace: &str) -> bool {
        self.traces.values().any(|told| told == trace)
    }

    /// What a transfer delivered.
    pub fn body(&self, transfer: TransferId) -> &[u8] {
        self.bodies.get(&transfer).map_or(&[], Vec::as_slice)
    }

    /// The events of a transfer, with one `d` for consecutive pieces.
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
pub struct ClientAndServer<L, M> {
    /// The client's loop.
    pub client: L,
    /// The server's.
    pub server: M,
    /// Where the server listens.
    pub address: SocketAddr,
}

impl<L, M> ClientAndServer<L, M>
where
    L: Loop<Engine = Client<TransferRecorder>>,
    M: Loop<Engine = ServerEngine<App>>,
{
    /// Both, with nothing to do.
    pub fn new(recorder: TransferRecorder, config: Config) -> Self {
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
    pub fn run_until(&mut self, mut done: impl FnMut(&mut Client<TransferRecorder>) -> bool) {
        let start = sys::now();
        while !done(self.client.engine()) {
            assert!(sys::now() - start < PATIENCE, "nothing happens any more");
            self.client.turn(Duration::from_millis(1));
            self.server.turn(Duration::ZERO);
        }
    }

    /// Turns both until no transfer is left.
    pub fn run(&mut self) {
        self.run_until(|client| client.running() == 0);
    }
}

/// A client in a loop, and a scripted server, in one thread.
#[derive(Debug)]
pub struct Staged<L> {
    /// The client's loop.
    pub client: L,
    /// The server.
    pub peer: Scripted,
}

impl<L: ClientLoop> Staged<L> {
    /// Both, with nothing to do.
    pub fn new(
        recorder: TransferRecorder,
        config: Config,
        script: impl FnMut(&ScriptedRequest) -> Vec<ServerStep> + 'static,
    ) -> Self {
        let client = Client::new(sys::now(), sys::wall_clock(), recorder, config);
        Self { client: L::start(client).0, peer: Scripted::new(script) }
    }

    /// A URL of the server's.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.peer.address())
    }

    /// A GET.
    ///
    /// # Panics
    /// If the path makes no URL.
    pub fn request(&self, path: &str) -> Request {
        Request::get(&self.url(path)).build().expect("a request")
    }

    /// Starts a GET.
    pub fn get(&mut self, path: &str) -> TransferId {
        let request = self.request(path);
        self.start(&request)
    }

    /// Starts a transfer.
    pub fn start(&mut self, request: &Request) -> TransferId {
        self.client.with(|client, now| client.start(now, request))
    }

    /// Performs an action with transfers.
    pub fn with<O>(&mut self, act: impl FnOnce(&mut Context<'_>) -> O) -> O {
        self.client.with(|client, now| client.with(now, |_, context| act(context)))
    }

    /// The client's application.
    pub fn recorder(&mut self) -> &TransferRecorder {
        self.client.engine().application()
    }

    /// Both have a turn.
    pub fn turn(&mut self) {
        self.client.turn(Duration::from_millis(1));
        self.peer.turn();
    }

    /// Turns both until `done`.
    ///
    /// # Panics
    /// If nothing happens any more.
    pub fn run_until(&mut self, mut done: impl FnMut(&mut Client<TransferRecorder>) -> bool) {
        let start = sys::now();
        while !done(self.client.engine()) {
            let time = sys::now() - start;
            assert!(time < PATIENCE, "nothing happens any more");
            self.turn();
        }
    }

    /// Turns both until no transfer is left.
    pub fn run(&mut self) {
        self.run_until(|client| client.running() == 0);
    }

    /// Turns both until nothing happens for a while.
    ///
    /// # Panics
    /// Events never end.
    pub fn rest(&mut self) {
        let mut quiet = 0;
        let start = sys::now();
        while quiet < 8 {
            let time = sys::now() - start;
            assert!(time < PATIENCE, "no rest: {:?}", self.client.stats());
            let before = (self.client.stats().events, self.client.stats().timeouts);
            self.turn();
            let after = (self.client.stats().events, self.client.stats().timeouts);
            quiet = if before == after && self.peer.is_quiet() { quiet + 1 } else { 0 };
        }
    }
}
