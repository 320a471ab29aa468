//! The application that lends every exchange to a handler as a [`Call`].

use std::any::Any;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime};

use fulmar_engine::{End, ListenerId, SocketId};
use fulmar_proto::{
    BodyLen, Connection, Event, HeaderBuf, Headers, PeerError, Request, Server, ServerConnection,
    StreamId,
};

use crate::application::{Application, Context};
use crate::call::Call;
use crate::desk::Desk;
use crate::handler::{Handler, HandlerError, Outcome, Work};
use crate::mailbox::Mailbox;
use crate::observer::Observer;
use crate::panics::{Panic, catch};
use crate::proxied;
use crate::suspended::{Doing, Errand};
use crate::task::{Session, Task, Tunnel};

/// An application that lends every exchange to a [`Handler`].
#[derive(Debug)]
pub struct Calls<H> {
    handler: H,
    desk: Desk,
}

impl<H: Handler> Calls<H> {
    /// `wall_clock` tells the time of day; it is asked now, and about once a minute.
    pub fn new(handler: H, now: Instant, wall_clock: fn() -> SystemTime) -> Self {
        Self { handler, desk: Desk::new(now, wall_clock) }
    }

    /// The same; `observer` hears of everything.
    #[must_use]
    pub fn with_observer(mut self, observer: impl Observer) -> Self {
        self.desk.add_observer(Box::new(observer));
        self
    }

    /// The same; every answer carries these fields too.
    #[must_use]
    pub fn with_fields(mut self, fields: HeaderBuf) -> Self {
        self.desk.fields = fields;
        self
    }

    /// The same; every answer tells the identifier of its request in `X-Request-Id`.
    #[must_use]
    pub fn with_request_ids(mut self) -> Self {
        self.desk.tells_ids = true;
        self
    }

    /// Who answers.
    pub fn handler(&self) -> &H {
        &self.handler
    }

    /// Who answers, to be changed.
    pub fn handler_mut(&mut self) -> &mut H {
        &mut self.handler
    }

    /// Requests so far.
    pub fn requests(&self) -> u64 {
        self.desk.requests()
    }

    fn begin(
        &mut self,
        lent: &mut Lent<'_>,
        stream: StreamId,
        request: &Request<'_>,
        len: BodyLen,
    ) {
        let now = lent.context.now;
        let mut task = self.desk.open(now);
        task.begin(stream, self.desk.number(), now, len);
        task.bodiless = request.method == b"HEAD";
        let mut call = lent.call(&mut self.desk, &mut task);
        let result = call_handler(&mut self.handler, &mut call, request);
        self.go_on(lent, task, result, Some(request));
    }

    /// Calls the handler again with a request that it deferred.
    fn handle_again(&mut self, lent: &mut Lent<'_>, note: Box<dyn Any + Send>) {
        let Some(mut task) = lent.session.task.take() else { return };
        let is_waiting = task.status == 0 && task.work.is_none() && task.error.is_none();
        let Some(replay) = task.replay.as_mut().filter(|_| is_waiting) else {
            lent.session.task = Some(task); // deferred twice, and handled already
            return self.drop_message(lent.context.now, lent.session.peer, note);
        };
        replay.notes.push(note);
        let request = Rc::clone(&replay.request);
        task.claimed = false;
        task.fields.clear();
        let mut call = lent.call(&mut self.desk, &mut task);
        call.unpause();
        let result = call_handler(&mut self.handler, &mut call, &request.as_request());
        self.go_on(lent, task, result, None);
    }

    /// Drops a message that came too late; its destructor may panic.
    fn drop_message<T>(&mut self, now: Instant, peer: SocketAddr, message: T) {
        if let Err(panic) = catch(|| drop(message)) {
            self.desk.failed(now, Some(peer), None, &HandlerError::Panic(panic));
        }
    }

    /// Has something happen to the exchange in hand.
    fn with_task(
        &mut self,
        lent: &mut Lent<'_>,
        act: impl FnOnce(&mut Call<'_>) -> Result<(), HandlerError>,
    ) {
        let Some(mut task) = lent.session.task.take() else { return };
        let result = match task.error {
            None => act(&mut lent.call(&mut self.desk, &mut task)),
            // Not called after a failure.
            Some(_) => catch(|| drop(act)).map_err(HandlerError::Panic),
        };
        self.go_on(lent, task, result, None);
    }

    /// Tells fresh work that it may begin; files the task, or closes it.
    fn go_on(
        &mut self,
        lent: &mut Lent<'_>,
        mut task: Box<Task>,
        mut result: Result<(), HandlerError>,
        request: Option<&Request<'_>>,
    ) {
        while result.is_ok() && task.fresh && !task.over {
            let mut call = lent.call(&mut self.desk, &mut task);
            call.task.fresh = false;
            result = tell(&mut call, |work, call| work.ready(call));
            if result.is_ok() && !call.task.over && std::mem::take(&mut call.task.unheard_end) {
                result = tell(&mut call, |work, call| work.end(call, Headers::EMPTY));
            }
        }
        if let Err(error) = result {
            self.fail(lent, &mut task, error, request);
        }
        if !task.over {
            if let Some(request) = request
                && self.desk.observes_requests
            {
                task.keep(request);
            }
            lent.session.task = Some(task);
            return;
        }
        if task.timed {
            lent.context.set_timer(None);
        }
        if task.held {
            lent.reply.set_held(false);
        }
        self.desk.close(lent.context.now, lent.session, task, request, true);
    }

    /// Application code failed: it is not called for this exchange any more. The client receives
    /// 500 if no response has begun. An incomplete response is sent as far as it is queued, and
    /// then the connection is cut off, so that the client does not take it for a complete one.
    #[cold]
    fn fail(
        &mut self,
        lent: &mut Lent<'_>,
        task: &mut Task,
        error: HandlerError,
        request: Option<&Request<'_>>,
    ) {
        let now = lent.context.now;
        self.desk.task_failed(now, lent.session, task, request, error);
        if let Err(panic) = task.drop_work() {
            let error = HandlerError::Panic(panic);
            self.desk.task_failed(now, lent.session, task, request, error);
        }
        task.fresh = false;
        let mut call = lent.call(&mut self.desk, task);
        call.unpause();
        if !call.task.over
            && (call.is_answered() || call.text(500, "something went wrong here\n").is_err())
        {
            call.reply.cut_off();
        }
    }
}

/// What is lent for one event.
struct Lent<'a> {
    context: &'a mut Context,
    reply: &'a mut ServerConnection,
    session: &'a mut Session,
}

impl Lent<'_> {
    fn call<'a>(&'a mut self, desk: &'a mut Desk, task: &'a mut Task) -> Call<'a> {
        Call {
            context: &mut *self.context,
            reply: &mut *self.reply,
            peer: self.session.peer,
            kept: self.session.kept.as_deref_mut(),
            task,
            desk,
        }
    }
}

/// Calls a handler with a request. It has to respond, or to leave work that will.
fn call_handler(
    handler: &mut impl Handler,
    call: &mut Call<'_>,
    request: &Request<'_>,
) -> Result<(), HandlerError> {
    attempt(|| handler.handle(call, request))?;
    match call.task.claimed || call.task.over {
        true => Ok(()),
        false => Err(HandlerError::NoResponse),
    }
}

/// Calls application code for an exchange. State that a panic may have left inconsistent is reached
/// through the call, and `fail` drops it.
fn attempt(act: impl FnOnce() -> Outcome) -> Result<(), HandlerError> {
    match catch(act) {
        Ok(outcome) => outcome.map_err(HandlerError::Usage),
        Err(panic) => Err(HandlerError::Panic(panic)),
    }
}

/// Tells the work of an exchange; afterwards it is where it was, unless it has been replaced.
fn tell(
    call: &mut Call<'_>,
    event: impl FnOnce(&mut dyn Work, &mut Call<'_>) -> Outcome,
) -> Result<(), HandlerError> {
    let Some(mut work) = call.task.work.take() else { return Ok(()) };
    let result = attempt(|| event(&mut *work, call));
    if call.task.work.is_none() {
        call.task.work = Some(work);
        return result;
    }
    let dropped = catch(|| drop(work)).map_err(HandlerError::Panic);
    result.and(dropped)
}

impl<H: Handler> Application for Calls<H> {
    type Data = Session;
    type Message = Errand;

    fn start(&mut self, mailbox: Mailbox<Errand>) {
        self.desk.mailbox = mailbox;
    }

    fn accept(&mut self, now: Instant, _: ListenerId, peer: SocketAddr) -> Session {
        self.desk.observe(now, |observer, _| observer.accepted(now, peer));
        Session { peer, ..Session::default() }
    }

    /// From now on the client is who a proxy says it is: whoever makes the layers of a listener
    /// believes the proxies that it lets in.
    fn handle_replaced(&mut self, _: &mut Context, session: &mut Session, info: &dyn Any) {
        if let Some(source) = proxied::source(info) {
            session.peer = source;
        }
    }

    fn handle_established(
        &mut self,
        _: &mut Context,
        session: &mut Session,
        info: Option<&dyn Any>,
    ) {
        session.kept = self.handler.establish(session.peer, info);
    }

    fn handle(
        &mut self,
        context: &mut Context,
        reply: &mut ServerConnection,
        session: &mut Session,
        event: Event<'_, Server>,
    ) {
        let lent = &mut Lent { context, reply, session };
        match event {
            Event::Head { stream, head, len } => self.begin(lent, stream, &head, len),
            Event::Data { stream, bytes } => {
                let len = bytes.len();
                self.with_task(lent, |call| tell(call, |work, call| work.data(call, bytes)));
                lent.reply.release(stream, len);
            }
            Event::End { trailers, .. } => self.with_task(lent, |call| {
                call.task.received = true;
                call.task.unheard_end = call.task.work.is_none(); // only of a request without a body
                match call.task.tunnel {
                    Some(Tunnel::Granted) => Ok(()), // the end of the request, not of the tunnel
                    _ => tell(call, |work, call| work.end(call, trailers)),
                }
            }),
            Event::Upgraded { .. } => self.with_task(lent, |call| {
                call.task.tunnel = Some(Tunnel::Open);
                tell(call, |work, call| work.ready(call))
            }),
            Event::Writable { .. } => {
                self.with_task(lent, |call| tell(call, |work, call| work.ready(call)));
            }
            Event::Informational { .. } | Event::Reset { .. } => {} // no client sends these
        }
    }

    fn handle_timer(
        &mut self,
        context: &mut Context,
        reply: &mut ServerConnection,
        session: &mut Session,
    ) {
        self.with_task(&mut Lent { context, reply, session }, |call| match call.task.due.take() {
            Some(act) => {
                call.unpause();
                attempt(|| act(call))
            }
            None => tell(call, |work, call| work.ready(call)),
        });
    }

    fn handle_message(
        &mut self,
        context: &mut Context,
        reply: &mut ServerConnection,
        session: &mut Session,
        Errand(doing): Errand,
    ) {
        let meant = context.exchange.stream;
        if session.task.as_ref().is_none_or(|task| task.stream != meant) {
            return self.drop_message(context.now, session.peer, doing); // it was over before
        }
        let lent = &mut Lent { context, reply, session };
        match doing {
            Doing::Again(note) => self.handle_again(lent, note),
            Doing::Run(act) => self.with_task(lent, |call| {
                call.unpause();
                attempt(|| act(call))
            }),
            Doing::Dropped => self.with_task(lent, |_| Err(HandlerError::SuspendedDropped)),
            Doing::Ready => self.with_task(lent, |call| {
                if let Some(told) = &call.task.alive {
                    told.store(false, Ordering::Release);
                }
                tell(call, |work, call| work.ready(call))
            }),
        }
    }

    fn handle_gone(&mut self, now: Instant, _: SocketId, mut session: Session, end: &End) {
        match (session.task.take(), end) {
            (None, End::Peer(error)) => self.desk.malformed(now, &session, *error),
            (None, _) => {}
            (Some(mut task), end) => {
                if let Some(work) = &mut task.work
                    && let Err(panic) = catch(|| work.gone(end))
                {
                    let error = HandlerError::Panic(panic);
                    self.desk.task_failed(now, &session, &mut task, None, error);
                }
                match end {
                    End::Peer(PeerError::UnexpectedEof) => {} // nobody was there to be answered
                    End::Peer(error) if task.status == 0 => task.status = error.status(),
                    _ => {}
                }
                let complete = task.tunnel == Some(Tunnel::Open) && matches!(end, End::Closed);
                self.desk.close(now, &session, task, None, complete);
            }
        }
        self.desk.gone(now, &session, end);
    }

    fn handle_exhausted(&mut self, now: Instant) {
        self.desk.observe(now, |observer, _| observer.exhausted(now));
        self.handler.exhausted();
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.desk.observe(now, |observer, _| {
            if observer.poll_timeout().is_some_and(|due| due <= now) {
                observer.timeout(now);
            }
        });
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.desk.poll_timeout()
    }

    /// Reports a panic outside of exchanges, as in [`Handler::establish`].
    fn handle_panic(&mut self, now: Instant, session: Option<&mut Session>, panic: &Panic) {
        let peer = session.map(|session| session.peer);
        self.desk.failed(now, peer, None, &HandlerError::Panic(panic.clone()));
    }

    fn first_panic(&self) -> Option<&Panic> {
        self.desk.first_panic.as_ref()
    }

    fn finish(&mut self, now: Instant) {
        self.desk.observe(now, |observer, _| observer.finish(now));
    }
}
