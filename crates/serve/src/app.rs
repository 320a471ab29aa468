//! The application: endpoints for tests where they are wanted, files everywhere else.

use std::convert::Infallible;
use std::iter::Sum;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Instant;
use std::{io, mem};

use fulmar_engine::{End, ListenerId, SocketId};
use fulmar_proto::{
    BodyLen, Connection, Event, Headers, Misuse, Request, Segment, Server, ServerConnection,
    StreamId, Version,
};
use fulmar_server::{Application, Context};
use fulmar_sys as sys;

use crate::endpoints::{Asked, Endpoint, Endpoints, Task};
use crate::log::{AccessLog, Format, Line, Trouble};
use crate::options::Options;
use crate::respond::{Answer, Body};
use crate::site::Site;

/// What to answer with.
#[derive(Clone, Debug)]
pub struct AppOptions {
    /// The directory.
    pub root: PathBuf,
    /// How it is served.
    pub site: Options,
    /// Answer for tests and benchmarks too: see [`crate::endpoints`].
    pub test_endpoints: bool,
}

/// What the server answers with; one per thread.
#[derive(Debug)]
pub struct App {
    site: Site,
    endpoints: Option<Endpoints>,
    log: Option<AccessLog>,
    counts: Counts,
    on_trouble: fn(Trouble),
}

/// What was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests whose answer began.
    pub requests: u64,
    /// Requests that could not be understood.
    pub malformed: u64,
    /// Lines that the access log could not take.
    pub lost_log_lines: u64,
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), |all, one| Self {
            requests: all.requests + one.requests,
            malformed: all.malformed + one.malformed,
            lost_log_lines: all.lost_log_lines + one.lost_log_lines,
        })
    }
}

/// What is kept for each connection.
#[derive(Debug)]
pub struct Session {
    peer: IpAddr,
    task: Task,
}

impl Default for Session {
    fn default() -> Self {
        Self { peer: Ipv4Addr::UNSPECIFIED.into(), task: Task::None }
    }
}

impl App {
    /// Opens the directory. News of the log go to `on_trouble`.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub fn open(
        options: &AppOptions,
        log: Option<(OwnedFd, Format)>,
        on_trouble: fn(Trouble),
    ) -> io::Result<Self> {
        let (wall, now) = (sys::wall_clock(), sys::now());
        Ok(Self {
            site: Site::open(&options.root, options.site.clone(), wall, now)?,
            endpoints: options.test_endpoints.then(Endpoints::new),
            log: log.map(|(fd, format)| AccessLog::new(fd, format)),
            counts: Counts::default(),
            on_trouble,
        })
    }

    /// Nothing more will be answered: what the log still holds is written.
    pub fn finish(&mut self, now: Instant) -> Counts {
        if let Some(log) = &mut self.log {
            log.finish(now);
        }
        self.tell_trouble();
        self.counts
    }

    fn begin(
        &mut self,
        context: &mut Context,
        reply: &mut ServerConnection,
        session: &mut Session,
        request: &Request<'_>,
        len: BodyLen,
    ) -> Result<(), Misuse> {
        self.counts.requests += 1;
        self.keep_time(context.now);
        if let Some(endpoints) = &self.endpoints
            && let Some(endpoint) = Endpoint::parse(request.target)
        {
            let clock = self.site.clock();
            clock.advance(context.now);
            let (requests, date) = (self.counts.requests, &clock.http()[..]);
            let asked = Asked { request, len, requests, date };
            let begun = endpoints.begin(endpoint, asked, context, reply, &mut session.task)?;
            if let Some((status, bytes)) = begun {
                self.record(context.now, session.peer, request, status, bytes);
            }
            return Ok(());
        }
        let answer = self.site.answer(context.now, request);
        let (status, bytes) = (answer.status, answer.body_len());
        send(reply, context.exchange.stream, answer)?;
        self.record(context.now, session.peer, request, status, bytes);
        Ok(())
    }

    fn go_on(
        &self,
        reply: &mut ServerConnection,
        session: &mut Session,
        event: Event<'_, Server>,
    ) -> Result<(), Misuse> {
        match (&self.endpoints, event) {
            (Some(endpoints), event) => endpoints.handle(event, reply, &mut session.task),
            (None, Event::Data { stream, bytes }) => {
                reply.release(stream, bytes.len());
                Ok(())
            }
            (None, _) => Ok(()),
        }
    }

    fn record(
        &mut self,
        now: Instant,
        peer: IpAddr,
        request: &Request<'_>,
        status: u16,
        bytes: u64,
    ) {
        let Some(log) = &mut self.log else { return };
        let clock = self.site.clock();
        clock.advance(now);
        let line = Line {
            peer,
            method: request.method,
            target: request.target,
            version: if request.version == Version::Http10 { "HTTP/1.0" } else { "HTTP/1.1" },
            status,
            bytes,
            referer: request.headers.get("Referer"),
            user_agent: request.headers.get("User-Agent"),
        };
        log.record(now, clock, &line);
        self.tell_trouble();
    }

    /// The time of day is reckoned from the turn's clock, and read once in a while.
    fn keep_time(&mut self, now: Instant) {
        let clock = self.site.clock();
        if clock.wants_resync(now) {
            clock.resync(sys::wall_clock(), now);
        }
    }

    fn tell_trouble(&mut self) {
        let Some(log) = &mut self.log else { return };
        self.counts.lost_log_lines = log.lost();
        while let Some(trouble) = log.poll_trouble() {
            (self.on_trouble)(trouble);
        }
    }
}

fn send(
    reply: &mut ServerConnection,
    stream: StreamId,
    mut answer: Answer<'_>,
) -> Result<(), Misuse> {
    let body = mem::replace(&mut answer.body, Body::Empty);
    reply.send_head(stream, answer.head(), answer.len)?;
    match body {
        Body::Empty => {}
        Body::Bytes(bytes) => reply.send_data(stream, Segment::Bytes(bytes))?,
        Body::File(range) => reply.send_data(stream, Segment::File(range))?,
        Body::Parts(parts) => {
            for part in parts {
                reply.send_data(stream, part)?;
            }
        }
    }
    reply.send_end(stream, Headers::EMPTY)
}

impl Application for App {
    type Data = Session;
    type Message = Infallible;

    fn accept(&mut self, _: Instant, _: ListenerId, peer: SocketAddr) -> Session {
        Session { peer: peer.ip(), task: Task::None }
    }

    fn handle(
        &mut self,
        context: &mut Context,
        reply: &mut ServerConnection,
        session: &mut Session,
        event: Event<'_, Server>,
    ) {
        let stream = event.stream();
        let result = match event {
            Event::Head { head, len, .. } => self.begin(context, reply, session, &head, len),
            event => self.go_on(reply, session, event),
        };
        if result.is_err() {
            reply.reset(stream, 0); // an answer that we cannot send must not look complete
        }
    }

    fn handle_timer(
        &mut self,
        context: &mut Context,
        reply: &mut ServerConnection,
        session: &mut Session,
    ) {
        let clock = self.site.clock();
        clock.advance(context.now);
        if let Some(endpoints) = &self.endpoints
            && endpoints.handle_timer(reply, &mut session.task, &clock.http()[..]).is_err()
        {
            reply.reset(context.exchange.stream, 0);
        }
    }

    fn handle_gone(&mut self, now: Instant, _: SocketId, session: Session, end: &End) {
        if let End::Peer(error) = end {
            self.counts.malformed += 1;
            let nothing = Request::new(b"", b"", Headers::EMPTY);
            self.record(now, session.peer, &nothing, error.status(), 0);
        }
    }

    /// A remembered file is worth less than a client that waits.
    fn handle_exhausted(&mut self, _: Instant) {
        self.site.cache().shed();
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some(log) = &mut self.log {
            log.flush_due(now);
        }
        self.tell_trouble();
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.log.as_ref()?.poll_timeout()
    }
}
