//! A running check: a conversation, and its connection.

use std::io;
use std::time::Instant;

use bytes::Bytes;
use fulmar_engine::{ConnectionEvent, End, Handler, SocketId};
use fulmar_haproxy::model::CheckKind;
use fulmar_proto::{Connection, Event, Raw, RawConnection, Reset};

use super::check_context::Checked;
use super::conversation::Conversation;
use super::status::{CheckStatus, Finding};
use super::step::{CheckStep, ConnectSettings};
use super::target::CheckTarget;
use crate::live::Live;

/// A running check.
#[derive(Debug)]
pub(super) struct CheckJob {
    /// Index of its target.
    pub(super) target: usize,
    pub(super) conversation: Conversation,
    pub(super) began: Instant,
    pub(super) stage: CheckStage,
    pub(super) tls: bool,
    /// The action after all bytes were sent.
    next: Option<AfterSend>,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckStage {
    Connecting,
    /// The socket is connected, the TLS handshake is running.
    Securing,
    Talking,
}

#[derive(Debug)]
enum AfterSend {
    Reconnect(ConnectSettings),
    Report(Finding),
}

/// A finished step, for the engine.
#[derive(Debug)]
pub(super) enum StepEnd {
    /// The check is complete.
    Found(CheckJob, Finding),
    /// It continues on another connection.
    Reconnect(CheckJob, ConnectSettings),
}

impl CheckJob {
    pub(super) fn new(target: usize, conversation: Conversation, now: Instant, tls: bool) -> Self {
        Self { target, conversation, began: now, stage: CheckStage::Connecting, tls, next: None }
    }

    /// Executes a step of the conversation.
    fn take(&mut self, connection: &mut RawConnection, step: CheckStep) {
        let (say, next) = match step {
            CheckStep::Send(say) => (say, None),
            CheckStep::Reconnect(say, way) => (say, Some(AfterSend::Reconnect(way))),
            CheckStep::Done(say, finding) => (say, Some(AfterSend::Report(finding))),
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
            CheckStage::Connecting => (CheckStatus::Layer4Timeout, self.connect_position(kind)),
            CheckStage::Securing => (CheckStatus::Layer6Timeout, self.connect_position(kind)),
            CheckStage::Talking => (CheckStatus::Layer7Timeout, self.conversation.place(kind)),
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
            (CheckStage::Connecting, _) => {
                (CheckStatus::Layer4Failure, self.connect_position(kind))
            }
            (CheckStage::Securing, _) => (CheckStatus::Layer6Failure, self.connect_position(kind)),
            (CheckStage::Talking, End::Failed(_)) => {
                (CheckStatus::SocketError, self.conversation.place(kind))
            }
            (CheckStage::Talking, _) => (CheckStatus::Layer7Invalid, self.conversation.place(kind)),
        };
        Finding::new(status, reason + &place)
    }

    fn connect_position(&self, kind: &CheckKind) -> String {
        match (&self.conversation, kind) {
            (Conversation::Tcp(check), CheckKind::Tcp { steps }) => check.connect_position(steps),
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
pub(super) struct JobEvents<'e> {
    pub(super) live: &'e Live,
    pub(super) targets: &'e [CheckTarget],
    pub(super) done: &'e mut Vec<StepEnd>,
}

impl<'e> JobEvents<'e> {
    fn server(&self, job: &CheckJob) -> Checked<'e> {
        self.targets[job.target].checked(self.live)
    }
}

impl Handler<RawConnection, CheckJob> for JobEvents<'_> {
    fn handle(
        &mut self,
        _: Instant,
        _: SocketId,
        (connection, job): (&mut RawConnection, &mut CheckJob),
        event: ConnectionEvent<'_, Raw>,
    ) {
        match event {
            ConnectionEvent::Established { .. } => {
                job.stage = CheckStage::Talking;
                let server = self.server(job);
                let step = job.conversation.begin(&server, job.tls);
                job.take(connection, step);
            }
            ConnectionEvent::Event(event) => self.handle_event((connection, job), event),
            ConnectionEvent::Timer => {
                let server = self.server(job);
                let finding = job.late(&server.backend.config.check.kind);
                job.next.get_or_insert(AfterSend::Report(finding));
                connection.reset(RawConnection::STREAM, Reset::Cancelled);
            }
            // A check has one timer for all phases, and a PROXY header of ours has no content.
            ConnectionEvent::Replaced { .. }
            | ConnectionEvent::Received
            | ConnectionEvent::InputUsed
            | ConnectionEvent::Sent
            | ConnectionEvent::Ending
            | ConnectionEvent::DeadlinePassed { .. }
            | ConnectionEvent::Fault { .. } => {}
            ConnectionEvent::Piped(_) => unreachable!("no pipe was requested"),
        }
    }

    fn handle_closed(&mut self, _: Instant, _: SocketId, mut job: CheckJob, end: End) {
        let done = match job.next.take() {
            Some(AfterSend::Report(finding)) => StepEnd::Found(job, finding),
            Some(AfterSend::Reconnect(way)) => StepEnd::Reconnect(job, way),
            None => {
                let server = self.server(&job);
                let finding = job.broken(&server.backend.config.check.kind, &end);
                StepEnd::Found(job, finding)
            }
        };
        self.done.push(done);
    }
}

impl JobEvents<'_> {
    fn handle_event(
        &self,
        (connection, job): (&mut RawConnection, &mut CheckJob),
        event: Event<'_, Raw>,
    ) {
        if job.next.is_some() {
            return;
        }
        let server = self.server(job);
        let step = match event {
            Event::Data { stream, bytes } => {
                connection.release(stream, bytes.len());
                job.conversation.handle_input(&server, &bytes, false)
            }
            Event::End { .. } => job.conversation.handle_input(&server, &[], true),
            _ => return,
        };
        job.take(connection, step);
    }
}
