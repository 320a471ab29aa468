//! What the exchanges of one server share.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::SocketAddr;
use std::time::{Instant, SystemTime};

use fulmar_engine::End;
use fulmar_proto::{HeaderBuf, PeerError, Request};
use fulmar_semantics::clock::Clock;

use crate::handler::HandlerError;
use crate::mailbox::Mailbox;
use crate::observer::{Answered, Asked, HandlerFailure, Observer, RequestId};
use crate::panics::{Panic, catch};
use crate::suspended::Errand;
use crate::task::{Session, Task};

/// What the exchanges of one server share.
pub(crate) struct Desk {
    pub(crate) mailbox: Mailbox<Errand>,
    pub(crate) clock: Clock,
    wall_clock: fn() -> SystemTime,
    observers: Observers,
    /// At least one observer observes requests.
    pub(crate) observes_requests: bool,
    pub(crate) first_panic: Option<Panic>,
    /// Every answer carries these.
    pub(crate) fields: HeaderBuf,
    /// Answers carry their request's identifier.
    pub(crate) tells_ids: bool,
    server: u64,
    requests: u64,
    #[expect(clippy::vec_box, reason = "a connection holds the box: an idle one costs a pointer")]
    spare: Vec<Box<Task>>,
}

impl Desk {
    pub(crate) fn new(now: Instant, wall_clock: fn() -> SystemTime) -> Self {
        Self {
            mailbox: Mailbox::new(),
            clock: Clock::new(wall_clock(), now),
            wall_clock,
            observers: Observers(Vec::new()),
            observes_requests: false,
            first_panic: None,
            fields: HeaderBuf::new(),
            tells_ids: false,
            server: RandomState::new().build_hasher().finish(),
            requests: 0,
            spare: Vec::new(),
        }
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests
    }

    pub(crate) fn add_observer(&mut self, observer: Box<dyn Observer>) {
        self.observes_requests |= observer.observes_requests();
        self.observers.0.push(observer);
    }

    /// Calls every observer. If one panics, all receive the panic as a failure.
    pub(crate) fn observe(
        &mut self,
        now: Instant,
        mut tell: impl FnMut(&mut dyn Observer, &Clock),
    ) {
        if self.observers.0.is_empty() {
            return;
        }
        self.clock.advance(now);
        if let Err(panic) = self.observers.each(|observer| tell(observer, &self.clock)) {
            self.failed(now, None, None, &HandlerError::Panic(panic));
        }
    }

    /// The application failed to respond to a request: the cause is kept for the end of the
    /// exchange.
    #[cold]
    pub(crate) fn task_failed(
        &mut self,
        now: Instant,
        session: &Session,
        task: &mut Task,
        request: Option<&Request<'_>>,
        error: HandlerError,
    ) {
        let request = Some((self.id(task), task.asked(request)));
        self.failed(now, Some(session.peer), request, &error);
        task.error.get_or_insert_with(|| Box::new(error));
    }

    /// Reports a failure of the application to the observers. If one panics here, that panic is not
    /// reported to them, as it might panic again.
    #[cold]
    pub(crate) fn failed(
        &mut self,
        now: Instant,
        peer: Option<SocketAddr>,
        request: Option<(RequestId, Asked<'_>)>,
        error: &HandlerError,
    ) {
        self.clock.advance(now);
        let failure = HandlerFailure { error, peer, request };
        let told = self.observers.each(|one| one.handler_failed(now, &self.clock, &failure));
        if self.first_panic.is_none() {
            self.first_panic = error.panic().cloned().or_else(|| told.err());
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.observers.0.iter().filter_map(|observer| observer.poll_timeout()).min()
    }

    /// An exchange begins.
    pub(crate) fn open(&mut self, now: Instant) -> Box<Task> {
        self.requests += 1;
        if self.clock.wants_resync(now) {
            self.clock.resync((self.wall_clock)(), now);
        }
        self.spare.pop().unwrap_or_default()
    }

    pub(crate) fn number(&self) -> u64 {
        self.requests
    }

    pub(crate) fn id(&self, task: &Task) -> RequestId {
        RequestId { server: self.server, number: task.number }
    }

    /// An exchange is over.
    pub(crate) fn close(
        &mut self,
        now: Instant,
        session: &Session,
        mut task: Box<Task>,
        request: Option<&Request<'_>>,
        complete: bool,
    ) {
        if let Err(panic) = task.drop_work() {
            self.task_failed(now, session, &mut task, request, HandlerError::Panic(panic));
        }
        if self.observes_requests {
            let answered = Answered {
                peer: session.peer,
                asked: task.asked(request),
                id: self.id(&task),
                status: task.status,
                bytes: task.sent,
                duration: now.saturating_duration_since(task.began.unwrap_or(now)),
                complete,
                error: task.error.as_deref(),
            };
            self.observe(now, |observer, clock| observer.answered(now, clock, &answered));
        }
        if self.spare.len() < SPARE_LEN_MAX {
            *task = Task::default();
            self.spare.push(task);
        }
    }

    /// What arrived was no request.
    pub(crate) fn malformed(&mut self, now: Instant, session: &Session, error: PeerError) {
        let peer = session.peer;
        self.observe(now, |observer, clock| observer.malformed(now, clock, peer, error));
    }

    /// A connection is gone.
    pub(crate) fn gone(&mut self, now: Instant, session: &Session, end: &End) {
        self.observe(now, |observer, _| observer.gone(now, session.peer, end));
    }
}

/// The observers of one server.
struct Observers(Vec<Box<dyn Observer>>);

impl Observers {
    /// Calls each of them, whatever the others do.
    ///
    /// # Errors
    /// The first panic.
    fn each(&mut self, mut tell: impl FnMut(&mut dyn Observer)) -> Result<(), Panic> {
        let (mut at, mut result) = (0, Ok(()));
        while at < self.0.len() {
            let all = catch(|| {
                while let Some(observer) = self.0.get_mut(at) {
                    at += 1;
                    tell(&mut **observer);
                }
            });
            result = result.and(all);
        }
        result
    }
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").field("requests", &self.requests).finish_non_exhaustive()
    }
}

/// More than this many exchanges are rarely in hand at the end of a turn.
const SPARE_LEN_MAX: usize = 256;
