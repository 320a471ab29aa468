//! What the exchanges of one server share.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Instant, SystemTime};

use fulmar_engine::End;
use fulmar_proto::{HeaderBuf, PeerError, Request};
use fulmar_semantics::clock::Clock;

use crate::mailbox::Mailbox;
use crate::observer::{Answered, Asked, Observer, RequestId};
use crate::suspended::Errand;
use crate::task::{Session, Task};

/// What the exchanges of one server share.
pub(crate) struct Desk {
    pub(crate) mailbox: Mailbox<Errand>,
    pub(crate) clock: Clock,
    wall_clock: fn() -> SystemTime,
    pub(crate) observers: Vec<Box<dyn Observer>>,
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
            observers: Vec::new(),
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
        if !self.observers.is_empty() {
            let kept = task.asked.take();
            let asked =
                request.map(Asked::of).or_else(|| kept.as_ref().map(|kept| kept.as_asked()));
            self.clock.advance(now);
            let answered = Answered {
                peer: session.peer,
                asked: asked.unwrap_or_default(),
                id: self.id(&task),
                status: task.status,
                bytes: task.sent,
                duration: now.saturating_duration_since(task.began.unwrap_or(now)),
                complete,
            };
            for observer in &mut self.observers {
                observer.answered(now, &self.clock, &answered);
            }
        }
        if self.spare.len() < SPARE_LEN_MAX {
            *task = Task::default();
            self.spare.push(task);
        }
    }

    /// What arrived was no request.
    pub(crate) fn malformed(&mut self, now: Instant, session: &Session, error: PeerError) {
        self.clock.advance(now);
        for observer in &mut self.observers {
            observer.malformed(now, &self.clock, session.peer, error);
        }
    }

    /// A connection is gone.
    pub(crate) fn gone(&mut self, now: Instant, session: &Session, end: &End) {
        self.observers.iter_mut().for_each(|observer| observer.gone(now, session.peer, end));
    }
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").field("requests", &self.requests).finish_non_exhaustive()
    }
}

/// More than this many exchanges are rarely in hand at the end of a turn.
const SPARE_LEN_MAX: usize = 256;
