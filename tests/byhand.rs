//! A client in the simulator, with scripted servers: all times are virtual and exact.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use fulmar_client::{Client, Config, Context, Done, Request, TransferId};
use fulmar_engine::sim::{NodeId, PeerId, PeerStep, Sim};
use fulmar_sys as sys;

use crate::threads::RequestRecord;
use crate::transfers::TransferRecorder;

/// A response: the delay of each piece after the request, and its bytes; `None`: the end.
pub type Says = Vec<(Duration, Option<Vec<u8>>)>;

/// A response without a delay.
pub fn at_once(bytes: Vec<u8>) -> Says {
    vec![(Duration::ZERO, Some(bytes))]
}

/// A response after so many milliseconds.
pub fn after(ms: u64, bytes: Vec<u8>) -> Says {
    vec![(Duration::from_millis(ms), Some(bytes))]
}

/// The client, its clock and its network.
#[derive(Debug)]
pub struct ByHand {
    /// The network and the clock.
    pub sim: Sim,
    node: NodeId<Client<TransferRecorder>>,
    served: Rc<RefCell<Served>>,
}

/// What the servers have received.
#[derive(Debug, Default)]
struct Served {
    /// The requests, and when each was complete, from the start.
    requests: Vec<(Duration, RequestRecord)>,
    /// The connections, in order.
    connections: Vec<PeerId>,
}

impl ByHand {
    /// A client, and servers at all addresses, which respond with what `script` returns.
    pub fn new(config: Config, script: impl FnMut(&RequestRecord) -> Says + 'static) -> Self {
        Self::with(TransferRecorder::default(), config, script)
    }

    /// As [`ByHand::new`], with a recorder that acts.
    pub fn with(
        recorder: TransferRecorder,
        config: Config,
        mut script: impl FnMut(&RequestRecord) -> Says + 'static,
    ) -> Self {
        let start = sys::now();
        let wall = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777); // RFC 9110 §5.6.7
        let mut sim = Sim::in_order(start);
        let node = sim.add(Client::new(start, wall, recorder, config));
        let served = Rc::new(RefCell::new(Served::default()));
        let seen = Rc::clone(&served);
        let servers = sim.script(Box::new(move |id, peer, now| {
            let mut seen = seen.borrow_mut();
            if !seen.connections.contains(&id) {
                seen.connections.push(id);
            }
            while let Some(mut asked) = take_request(&mut peer.received) {
                asked.connection = seen.connections.iter().position(|it| *it == id).expect("above");
                for (after, bytes) in script(&asked) {
                    let does = bytes.map_or(PeerStep::Fin, PeerStep::Send);
                    peer.steps.extend([PeerStep::At(now + after), does]);
                }
                seen.requests.push((now - start, asked));
            }
        }));
        sim.default_route(servers);
        Self { sim, node, served }
    }

    /// The engine.
    pub fn client(&self) -> &Client<TransferRecorder> {
        &self.sim[self.node]
    }

    /// Since the start.
    pub fn elapsed(&self) -> Duration {
        self.sim.elapsed()
    }

    /// Starts a transfer.
    pub fn start(&mut self, request: &Request) -> TransferId {
        let now = self.sim.now();
        self.sim[self.node].start(now, request)
    }

    /// Does something with transfers.
    pub fn act<O>(&mut self, act: impl FnOnce(&mut Context<'_>) -> O) -> O {
        let now = self.sim.now();
        self.sim[self.node].with(now, |_, context| act(context))
    }

    /// Lets time pass until `elapsed`, with all that happens meanwhile.
    pub fn run_until(&mut self, elapsed: Duration) {
        self.sim.pass(elapsed.saturating_sub(self.elapsed()));
    }

    /// Runs until no transfer is left.
    ///
    /// # Panics
    /// Nothing can happen any more, or the run does not end.
    pub fn run(&mut self) {
        let node = self.node;
        assert!(self.sim.run(100_000, |sim| sim[node].running() == 0), "a livelock");
        assert_eq!(self.client().running(), 0, "a stall");
    }

    /// How a transfer ended.
    pub fn ended(&self, id: TransferId) -> &Done {
        self.client().application().ended(id)
    }

    /// The number of requests.
    pub fn requests(&self) -> usize {
        self.served.borrow().requests.len()
    }

    /// The number of connections.
    pub fn connections(&self) -> usize {
        self.served.borrow().connections.len()
    }

    /// When requests for this target arrived, in milliseconds.
    pub fn arrivals(&self, target: &str) -> Vec<u128> {
        let served = self.served.borrow();
        let requests = served.requests.iter().filter(|(_, asked)| asked.target == target);
        requests.map(|(at, _)| at.as_millis()).collect()
    }
}

/// The first request, if it is complete.
fn take_request(received: &mut Vec<u8>) -> Option<RequestRecord> {
    let mut from = &received[..];
    let mut asked = RequestRecord::read_head(&mut from).ok()??;
    asked.read_body(&mut from).ok()?;
    let len = received.len() - from.len();
    received.drain(..len);
    Some(asked)
}
