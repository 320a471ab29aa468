//! The application: transfers that restart when they are done.

use std::time::Instant;

use fulmar_client::{Application, Context, Request, TransferEvent, TransferId};

use super::TransferMode;

/// N transfers and their results.
#[derive(Debug)]
pub(super) struct Transfers {
    requests: Vec<Request>,
    mode: TransferMode,
    clients: usize,
    /// The connections that they use.
    connections: usize,
    started: usize,
    /// Connections that have had a response.
    responded: usize,
    done: u64,
    last: Option<Instant>,
    bytes: u64,
    errors: u64,
    failure: String,
    limit: u64,
}

impl Transfers {
    pub(super) fn new(
        requests: Vec<Request>,
        mode: TransferMode,
        clients: usize,
        connections: usize,
    ) -> Self {
        Self {
            requests,
            mode,
            clients,
            connections,
            started: 0,
            responded: 0,
            done: 0,
            last: None,
            bytes: 0,
            errors: 0,
            failure: String::new(),
            limit: u64::MAX,
        }
    }

    /// Starts at most `room` of the N; false if all are started.
    pub(super) fn start(&mut self, context: &mut Context<'_>, room: usize) -> bool {
        for _ in 0..room.min(self.clients - self.started) {
            context.start(&self.requests[self.started % self.requests.len()]);
            self.started += 1;
        }
        self.started < self.clients
    }

    /// Whether responses are expected.
    pub(super) fn wants_responses(&self) -> bool {
        self.mode != TransferMode::Waiting
    }

    /// True once all are started, and each of their connections had a response.
    pub(super) fn all_responded(&self) -> bool {
        self.started == self.clients && self.responded >= self.connections
    }

    /// Sets how many more transfers are to be done.
    pub(super) fn limit(&mut self, requests: u64) {
        self.limit = self.done + requests;
    }

    pub(super) fn is_at_its_limit(&self) -> bool {
        self.done >= self.limit
    }

    /// When the last one was done, by the clock of its turn.
    pub(super) fn last(&self) -> Option<Instant> {
        self.last
    }

    pub(super) fn done(&self) -> u64 {
        self.done
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn errors(&self) -> u64 {
        self.errors
    }

    /// The first error.
    pub(super) fn failure(&self) -> String {
        self.failure.clone()
    }
}

impl Application for Transfers {
    fn handle(&mut self, context: &mut Context<'_>, _: TransferId, event: TransferEvent<'_>) {
        match event {
            TransferEvent::Data(bytes) => self.bytes += bytes.len() as u64,
            TransferEvent::Done(done) => {
                self.done += 1;
                self.last = Some(context.now);
                if done.status != 200 || done.result.is_err() {
                    self.errors += 1;
                    if self.failure.is_empty() {
                        self.failure = format!("status {}: {:?}", done.status, done.result);
                    }
                }
                if !done.reused {
                    self.responded += 1;
                }
                if matches!(self.mode, TransferMode::Requests(_)) {
                    context.start(&done.request);
                }
            }
            _ => {}
        }
    }
}
