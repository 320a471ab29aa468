//! A running check: a conversation, and its connection.

use std::io;
use std::time::Instant;

use bytes::Bytes;
use fulmar_engine::{ConnectionEvent, End, Handler, SocketId};
use fulmar_haproxy::model::CheckKind;
use fulmar_proto::{Connection, Event, Raw, RawConnection};

use super::status::{CheckStatus, Finding};
use super::step::{Step, Way};
use super::subject::Checked;
use super::talk::Talk;
use super::target::Target;
use crate::live::Live;

/// A running check.
#[derive(Debug)]
pub(super) struct Job {
    /// Index of its target.
    pub(super) target: usize,
    pub(super) talk: Talk,
    pub(super) began: Instant,
    pub(super) stage: Stage,
    pub(super) tls: bool,
    /// The action after all bytes were sent.
    next: Option<Next>,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Connecting,
    /// The socket is connected, the TLS handshake is running.
    Securing,
    Talking,
}

#[derive(Debug)]
enum Next {
    Leave(Way),
    Report(Finding),
}

/// A finished step, for the engine.
#[derive(Debug)]
pub(super) enum Done {
    /// The check is complete.
    Found(Job, Finding),
    /// It continues on another connection.
    Goes(Job, Way),
}

impl Job {
    pub(super) fn new(target: usize, talk: Talk, now: Instant, tls: bool) -> Self {
        Self { target, talk, began: now, stage: Stage::Connecting, tls, next: None }
    }

    /// Executes a step of the conversation.
    fn take(&mut self, connection: &mut RawConnection, step: Step) {
        let (say, next) = match step {
            Step::Say(say) => (say, None),
            Step::Leave(say, way) => (say, Some(Next::Leave(way))),
            Step::Done(say, finding) => (say, Some(Next::Report(finding))),
        };
        if !say.is_empty() {
            let sent = connection.send_data(RawConnection::STREAM, Bytes::from(say).into());
            sent.expect("nothing was ended before");
        }
        if next.is_some() {
            self.next = next;
            connection.finish();
        }
    }

    /// The result of a timeout.
    fn late(&self, kind: &CheckKind) -> Finding {
        let (status, info) = match self.stage {
            Stage::Connecting => (CheckStatus::Layer4Timeout, self.place_of_connect(kind)),
            Stage::Securing => (CheckStatus::Layer6Timeout, self.place_of_connect(kind)),
            Stage::Talking => (CheckStatus::Layer7Timeout, self.talk.place(kind)),
        };
        Finding::new(status, info)
    }

    /// The result of a connection that ended before the conversation.
    fn broken(&self, kind: &CheckKind, end: &End) -> Finding {
        let reason = match end {
            End::Failed(error) => reason(error),
            End::Layer(_) => "SSL handshake failure".to_string(),
            _ => String::new(),
        };
        let (status, place) = match (self.stage, end) {
            (_, End::TimedOut(_)) => return self.late(kind),
            (Stage::Connecting, _) => (CheckStatus::Layer4Failure, self.place_of_connect(kind)),
            (Stage::Securing, _) => (CheckStatus::Layer6Failure, self.place_of_connect(kind)),
            (Stage::Talking, End::Failed(_)) => (CheckStatus::SocketError, self.talk.place(kind)),
            (Stage::Talking, _) => (CheckStatus::Layer7Invalid, self.talk.place(kind)),
        };
        Finding::new(status, reason + &place)
    }

    fn place_of_connect(&self, kind: &CheckKind) -> String {
        match (&self.talk, kind) {
            (Talk::Tcp(dialogue), CheckKind::Tcp { steps }) => dialogue.place_of_connect(steps),
            _ => String::new(),
        }
    }
}

/// The system's error text, without the error number.
pub(super) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_string()
}

/// Handles the events of connections.
pub(super) struct On<'e> {
    pub(super) live: &'e Live,
    pub(super) targets: &'e [Target],
    pub(super) done: &'e mut Vec<Done>,
}

impl<'e> On<'e> {
    fn server(&self, job: &Job) -> Checked<'e> {
        self.targets[job.target].checked(self.live)
    }
}

impl Handler<RawConnection, Job> for On<'_> {
    fn handle(
        &mut self,
        _: Instant,
        _: SocketId,
        (connection, job): (&mut RawConnection, &mut Job),
        event: ConnectionEvent<'_, Raw>,
    ) {
        match event {
            ConnectionEvent::Established { .. } => {
                job.stage = Stage::Talking;
                let server = self.server(job);
                let step = job.talk.begin(&server, job.tls);
                job.take(connection, step);
            }
            ConnectionEvent::Event(event) => self.handle_event((connection, job), event),
            ConnectionEvent::Timer => {
                let server = self.server(job);
                let finding = job.late(&server.backend.config.check.kind);
                job.next.get_or_insert(Next::Report(finding));
                connection.reset(RawConnection::STREAM, 0);
            }
            // A check has one timer for all phases, and a PROXY header of ours has no content.
            ConnectionEvent::Replaced { .. }
            | ConnectionEvent::Received
            | ConnectionEvent::InputUsed
            | ConnectionEvent::DeadlinePassed { .. }
            | ConnectionEvent::Fault { .. } => {}
            ConnectionEvent::Piped(_) => unreachable!("no pipe was requested"),
        }
    }

    fn handle_closed(&mut self, _: Instant, _: SocketId, mut job: Job, end: End) {
        let done = match job.next.take() {
            Some(Next::Report(finding)) => Done::Found(job, finding),
            Some(Next::Leave(way)) => Done::Goes(job, way),
            None => {
                let server = self.server(&job);
                let finding = job.broken(&server.backend.config.check.kind, &end);
                Done::Found(job, finding)
            }
        };
        self.done.push(done);
    }
}

impl On<'_> {
    fn handle_event(
        &self,
        (connection, job): (&mut RawConnection, &mut Job),
        event: Event<'_, Raw>,
    ) {
        if job.next.is_some() {
            return;
        }
        let server = self.server(job);
        let step = match event {
            Event::Data { stream, bytes } => {
                connection.release(stream, bytes.len());
                job.talk.hear(&server, &bytes, false)
            }
            Event::End { .. } => job.talk.hear(&server, &[], true),
            _ => return,
        };
        job.take(connection, step);
    }
}
