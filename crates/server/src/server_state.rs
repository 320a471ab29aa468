//! State that the exchanges of one server share.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::SocketAddr;
use std::time::{Instant, SystemTime};

use fulmar_engine::End;
use fulmar_proto::{HeaderBuf, PeerError, Request};
use fulmar_semantics::clock::Clock;

use crate::exchange::{ExchangeState, HandlerSession};
use crate::handler::HandlerError;
use crate::mailbox::Mailbox;
use crate::observer::{ExchangeSummary, HandlerFailure, Observer, RequestId, RequestSummary};
use crate::panics::{Panic, catch};
use crate::suspended::HandlerMessage;

/// State that the exchanges of one server share.
pub(crate) struct ServerState {
    pub(crate) mailbox: Mailbox<HandlerMessage>,
    pub(crate) clock: Clock,
    wall_clock: fn() -> SystemTime,
    observers: Observers,
    /// At least one observer observes requests.
    pub(crate) observes_requests: bool,
    pub(crate) first_panic: Option<Panic>,
    /// Added to every response.
    pub(crate) fields: HeaderBuf,
    /// Responses carry the identifier of their request.
    pub(crate) sends_ids: bool,
    server: u64,
    requests: u64,
    #[expect(clippy::vec_box, reason = "a connection holds the box: an idle one costs a pointer")]
    spare: Vec<Box<ExchangeState>>,
}

impl ServerState {
    pub(crate) fn new(now: Instant, wall_clock: fn() -> SystemTime) -> Self {
        Self {
            mailbox: Mailbox::new(),
            clock: Clock::new(wall_clock(), now),
            wall_clock,
            observers: Observers(Vec::new()),
            observes_requests: false,
            first_panic: None,
            fields: HeaderBuf::new(),
            sends_ids: false,
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
        mut report: impl FnMut(&mut dyn Observer, &Clock),
    ) {
        if self.observers.0.is_empty() {
            return;
        }
        self.clock.advance(now);
        if let Err(panic) = self.observers.each(|observer| report(observer, &self.clock)) {
            self.failed(now, None, None, &HandlerError::Panic(panic));
        }
    }

    /// The application failed to respond to a request: the cause is kept for the end of the
    /// exchange.
    #[cold]
    pub(crate) fn exchange_failed(
        &mut self,
        now: Instant,
        session: &HandlerSession,
        state: &mut ExchangeState,
        request: Option<&Request<'_>>,
        error: HandlerError,
    ) {
        let request = Some((self.id(state), state.request_summary(request)));
        self.failed(now, Some(session.peer), request, &error);
        state.error.get_or_insert_with(|| Box::new(error));
    }

    /// Reports a failure of the application to the observers. If one panics here, that panic is not
    /// reported to them, as it might panic again.
    #[cold]
    pub(crate) fn failed(
        &mut self,
        now: Instant,
        peer: Option<SocketAddr>,
        request: Option<(RequestId, RequestSummary<'_>)>,
        error: &HandlerError,
    ) {
        self.clock.advance(now);
        let failure = HandlerFailure { error, peer, request };
        let result = self.observers.each(|one| one.handler_failed(now, &self.clock, &failure));
        if self.first_panic.is_none() {
            self.first_panic = error.panic().cloned().or_else(|| result.err());
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.observers.0.iter().filter_map(|observer| observer.poll_timeout()).min()
    }

    /// Begins an exchange.
    pub(crate) fn open(&mut self, now: Instant) -> Box<ExchangeState> {
        self.requests += 1;
        if self.clock.wants_resync(now) {
            self.clock.resync((self.wall_clock)(), now);
        }
        let state = self.spare.pop().unwrap_or_default();
        debug_assert!(state.status == 0 && !state.over, "a recycled state is empty");
        state
    }

    pub(crate) fn number(&self) -> u64 {
        self.requests
    }

    pub(crate) fn id(&self, state: &ExchangeState) -> RequestId {
        RequestId { server: self.server, number: state.number }
    }

    /// Ends an exchange: reports it to the observers and recycles its state.
    pub(crate) fn close(
        &mut self,
        now: Instant,
        session: &HandlerSession,
        mut state: Box<ExchangeState>,
        request: Option<&Request<'_>>,
        complete: bool,
    ) {
        if let Err(panic) = state.drop_handlers() {
            self.exchange_failed(now, session, &mut state, request, HandlerError::Panic(panic));
        }
        if self.observes_requests {
            let answered = ExchangeSummary {
                peer: session.peer,
                request: state.request_summary(request),
                id: self.id(&state),
                status: state.status,
                bytes: state.sent,
                duration: now.saturating_duration_since(state.began.unwrap_or(now)),
                complete,
                error: state.error.as_deref(),
                fault: state.fault,
            };
            self.observe(now, |observer, clock| observer.exchange_ended(now, clock, &answered));
        }
        if self.spare.len() < SPARE_LEN_MAX {
            *state = ExchangeState::default();
            self.spare.push(state);
        }
    }

    /// A connection sent a malformed request.
    pub(crate) fn malformed(&mut self, now: Instant, session: &HandlerSession, error: PeerError) {
        let peer = session.peer;
        self.observe(now, |observer, clock| observer.malformed(now, clock, peer, error));
    }

    /// A connection is closed.
    pub(crate) fn gone(&mut self, now: Instant, session: &HandlerSession, end: &End) {
        self.observe(now, |observer, _| observer.gone(now, session.peer, end));
    }
}

/// The observers of one server.
struct Observers(Vec<Box<dyn Observer>>);

impl Observers {
    /// Calls each of them, also after a panic of another one.
    ///
    /// # Errors
    /// The first panic.
    fn each(&mut self, mut report: impl FnMut(&mut dyn Observer)) -> Result<(), Panic> {
        let (mut at, mut result) = (0, Ok(()));
        while at < self.0.len() {
            let all = catch(|| {
                while let Some(observer) = self.0.get_mut(at) {
                    at += 1;
                    report(&mut **observer);
                }
            });
            result = result.and(all);
        }
        result
    }
}

impl fmt::Debug for ServerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerState").field("requests", &self.requests).finish_non_exhaustive()
    }
}

/// A turn rarely ends with more exchanges in progress than this.
const SPARE_LEN_MAX: usize = 256;
