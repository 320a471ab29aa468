//! In which order the addresses of a host are tried, and when the next one is.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use fulmar_client::{
    Application, Client, Config, Context, Options, Request, TransferEvent, TransferId,
};
use fulmar_engine::{Action, DriverEvent, Engine, Peer};

#[derive(Debug)]
struct IgnoresEvents;

impl Application for IgnoresEvents {
    fn handle(&mut self, _: &mut Context<'_>, _: TransferId, _: TransferEvent<'_>) {}
}

/// A client that connects to one of many addresses, none of which responds.
struct Racing {
    client: Client<IgnoresEvents>,
    now: Instant,
    tried: Vec<u16>,
}

impl Racing {
    fn start(options: Options) -> Self {
        let now = a_moment();
        let addresses = ADDRESSES.map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let options = Options { addresses: Some(Arc::from(addresses)), ..options };
        let request = Request::get("http://h.test/").options(Arc::new(options)).build();
        let mut client = Client::new(now, SystemTime::UNIX_EPOCH, IgnoresEvents, Config::default());
        client.start(now, &request.expect("a request"));
        let mut racing = Self { client, now, tried: Vec::new() };
        racing.note_attempts();
        racing
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.client.handle(self.now, DriverEvent::Timeout);
        self.note_attempts();
    }

    fn note_attempts(&mut self) {
        while let Some(action) = self.client.poll_action() {
            if let Action::Connect { endpoint, .. } = action {
                let Peer::Ip(address) = &endpoint.peer else { panic!("{endpoint:?}") };
                self.tried.push(address.port());
            }
        }
    }
}

#[test]
fn the_next_address_is_tried_after_the_delay_of_the_transfer() {
    for (delay, before, after) in [(None, 240, 20), (Some(7_000), 6_900, 200), (Some(20), 10, 20)] {
        let attempt_delay = delay.map(Duration::from_millis);
        let mut racing = Racing::start(Options { attempt_delay, ..Options::default() });
        racing.pass(Duration::from_millis(before));
        assert_eq!(racing.tried, ADDRESSES[..1], "{delay:?}");
        racing.pass(Duration::from_millis(after));
        assert_eq!(racing.tried, ADDRESSES[..2], "{delay:?}");
    }
}

/// Eight of 64 addresses are in their own order once in 10^14 times.
#[test]
fn shuffled_addresses_are_tried_in_another_order() {
    let mut racing = Racing::start(Options { shuffles_addresses: true, ..Options::default() });
    for _ in 1..8 {
        racing.pass(Duration::from_millis(300));
    }
    assert_eq!(racing.tried.len(), 8);
    assert_ne!(racing.tried, ADDRESSES[..8]);
    let mut ports = racing.tried.clone();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 8, "each one once");
}

#[expect(clippy::disallowed_methods, reason = "a test needs some moment to start from")]
fn a_moment() -> Instant {
    Instant::now()
}

/// Their ports.
const ADDRESSES: [u16; 64] = {
    let mut ports = [0; 64];
    let mut at = 0;
    while at < 64 {
        ports[at as usize] = 1_000 + at;
        at += 1;
    }
    ports
};
