//! A client in its loop, without a server of its own: peers are elsewhere.

use std::time::Duration;

use fulmar_client::{Client, Config, Context, Done, Options, Request, TransferEvent, TransferId};
use fulmar_sys as sys;

use crate::loops::Loop;
use crate::process::PATIENCE;
use crate::transfers::TransferRecorder;

/// A client, in the thread of the test.
#[derive(Debug)]
pub struct ClientInLoop<L> {
    /// Its loop.
    pub client: L,
}

impl<L: Loop<Engine = Client<TransferRecorder>>> ClientInLoop<L> {
    /// A client that records.
    pub fn new() -> Self {
        Self::with(TransferRecorder::default(), Config::default())
    }

    /// A client that does `act` at each event.
    pub fn acting(
        act: impl FnMut(&mut Context<'_>, TransferId, &TransferEvent<'_>) + 'static,
    ) -> Self {
        Self::with(TransferRecorder::with(act), Config::default())
    }

    /// A client.
    pub fn with(recorder: TransferRecorder, config: Config) -> Self {
        let client = Client::new(sys::now(), sys::wall_clock(), recorder, config);
        Self { client: L::start(client).0 }
    }

    /// Starts a transfer.
    pub fn start(&mut self, request: &Request) -> TransferId {
        self.client.with(|client, now| client.start(now, request))
    }

    /// Starts a GET with these options.
    ///
    /// # Panics
    /// It is no URL.
    pub fn get(&mut self, url: &str, options: Options) -> TransferId {
        self.start(&Request::get(url).options(options.into()).build().expect("a request"))
    }

    /// Turns until `done`.
    ///
    /// # Panics
    /// Nothing happens any more.
    pub fn run_until(&mut self, mut done: impl FnMut(&mut Client<TransferRecorder>) -> bool) {
        let start = sys::now();
        while !done(self.client.engine()) {
            assert!(sys::now() - start < PATIENCE, "nothing happens any more");
            self.client.turn(Duration::from_millis(20));
        }
    }

    /// Turns until no transfer is left.
    pub fn run(&mut self) {
        self.run_until(|client| client.running() == 0);
    }

    /// Carries out one request: how it ended.
    pub fn fetch(&mut self, request: &Request) -> &Done {
        let id = self.start(request);
        self.run();
        self.recorder().ended(id)
    }

    /// Carries out one GET: how it ended.
    pub fn fetch_url(&mut self, url: &str, options: Options) -> &Done {
        let id = self.get(url, options);
        self.run();
        self.recorder().ended(id)
    }

    /// What was recorded.
    pub fn recorder(&mut self) -> &TransferRecorder {
        self.client.engine().application()
    }
}

impl<L: Loop<Engine = Client<TransferRecorder>>> Default for ClientInLoop<L> {
    fn default() -> Self {
        Self::new()
    }
}
