//! The application: transfers that begin again when they are done.

use std::time::Instant;

use fulmar_client::{Application, Context, Event, Request, TransferId};

use super::options::{Mode, Options};

/// N transfers, and what came of them.
#[derive(Debug)]
pub(super) struct Transfers {
    requests: Vec<Request>,
    mode: Mode,
    clients: usize,
    started: usize,
    /// Connections that have brought an answer.
    answered: usize,
    done: u64,
    last: Option<Instant>,
    bytes: u64,
    errors: u64,
    complaint: String,
    limit: u64,
}

impl Transfers {
    pub(super) fn new(requests: Vec<Request>, options: &Options) -> Self {
        Self {
            requests,
            mode: options.mode,
            clients: options.clients,
            started: 0,
            answered: 0,
            done: 0,
            last: None,
            bytes: 0,
            errors: 0,
            complaint: String::new(),
            limit: u64::MAX,
        }
    }

    /// Starts more of the N, at most `room`; false if all are.
    pub(super) fn start(&mut self, context: &mut Context<'_>, room: usize) -> bool {
        for _ in 0..room.min(self.clients - self.started) {
            context.start(&self.requests[self.started % self.requests.len()]);
            self.started += 1;
        }
        self.started < self.clients
    }

    /// Whether there is an answer to wait for.
    pub(super) fn wants_answers(&self) -> bool {
        self.mode != Mode::Waiting
    }

    /// True once each of the N has been answered on a connection of its own.
    pub(super) fn all_answered(&self) -> bool {
        self.answered >= self.clients
    }

    /// From now on, so many more.
    pub(super) fn limit(&mut self, requests: u64) {
        self.limit = self.done + requests;
    }

    pub(super) fn is_at_its_limit(&self) -> bool {
        self.done >= self.limit
    }

    /// When the last one was done, by the clock of its turn: nobody else needs to read one.
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

    /// What the first error was.
    pub(super) fn complaint(&self) -> String {
        self.complaint.clone()
    }
}

impl Application for Transfers {
    fn handle(&mut self, context: &mut Context<'_>, _: TransferId, event: Event<'_>) {
        match event {
            Event::Data(bytes) => self.bytes += bytes.len() as u64,
            Event::Done(done) => {
                self.done += 1;
                self.last = Some(context.now);
                if done.status != 200 || done.result.is_err() {
                    self.errors += 1;
                    if self.complaint.is_empty() {
                        self.complaint = format!("status {}: {:?}", done.status, done.result);
                    }
                }
                if !done.reused {
                    self.answered += 1;
                }
                if matches!(self.mode, Mode::Requests(_)) {
                    context.start(&done.request);
                }
            }
            _ => {}
        }
    }
}
