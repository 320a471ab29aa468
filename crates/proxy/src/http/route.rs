//! What becomes of a request before it goes to a server: rules, pages of our own, backends.
//!
//! In HAProxy's order: the frontend's rules, its statistics page, the choice of a backend, that
//! backend's rules and page, and what is put onto the request in the end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fulmar_engine::Exchange as Asked;
use fulmar_haproxy::BackendId;
use fulmar_haproxy::model::{StatsPage, Target};
use fulmar_proto::{BodyLen, Connection, Headers, Response, ServerConnection};
use fulmar_rules::http::Progress;
use fulmar_rules::{Reply, ResponseHead};

use crate::counters::Counter;
use crate::http::answer;
use crate::http::desk::Errand;
use crate::http::exchange::{Ended, Exchange, Stage};
use crate::http::log::Level;
use crate::http::requests::{Client, Requests};
use crate::http::session::Session;
use crate::http::subject::View;
use crate::http::tally;

/// How far a request is on its way to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Step {
    /// Nobody has looked at it.
    #[default]
    Arrived,
    /// The rules of the frontend look at it.
    Frontend(Progress),
    /// The backend is to be chosen.
    Choice,
    /// The rules of the backend look at it.
    Backend(Progress),
    /// It is ready to go.
    Ready,
}

/// What has been decided.
#[derive(Debug)]
pub(super) enum Decision {
    /// The next step.
    On(Step),
    /// It goes to a server.
    Go,
    /// So much of its body has to be there first (0: all of it), or this time has to pass.
    Wait(u64, Duration),
    /// This is the answer.
    Answer(ResponseHead, Bytes, Ended),
    /// The same, after a while.
    Later(ResponseHead, Bytes, Ended),
    /// The connection ends.
    End(Ended),
    /// Prometheus asks.
    Metrics,
    /// Somebody looks at the statistics.
    Statistics(Arc<StatsPage>),
}

impl Requests<'_> {
    /// Goes on with a request that no server has.
    pub(super) fn route(&mut self, now: Instant, asked: Asked, client: Client<'_>) {
        let (connection, session) = client;
        let Some(mut exchange) = session.exchange.take_if(|it| it.stream == asked.stream) else {
            return;
        };
        loop {
            match self.decide(now, session, &mut exchange) {
                Decision::On(step) => exchange.step = step,
                Decision::Wait(at_least, _) if exchange.body.has(at_least) => {}
                Decision::Go => {
                    exchange.stage = Stage::Routing;
                    hint(connection, &mut exchange);
                    session.exchange = Some(exchange);
                    return self.dispatch(now, asked, (connection, session));
                }
                Decision::Wait(at_least, time) => {
                    ask_for_body(connection, &mut exchange);
                    exchange.stage = Stage::Collecting(at_least);
                    self.desk.ask(Errand::Timer(asked.socket, Some(now + time.min(LONGEST))));
                    session.exchange = Some(exchange);
                    return;
                }
                Decision::Later(head, body, ended) => {
                    let time = self.tarpit(session, &exchange);
                    self.desk.ask(Errand::Timer(asked.socket, Some(now + time)));
                    exchange.delayed = Some(Box::new((head, body)));
                    (exchange.ended, exchange.stage) = (ended, Stage::Tarpit);
                    session.exchange = Some(exchange);
                    return;
                }
                Decision::Answer(head, body, ended) => {
                    exchange.ended = ended;
                    let client = (connection, &mut *session);
                    answer::give(now, self.shared, client, &mut exchange, (head, body));
                    return self.finish(now, session, exchange);
                }
                Decision::End(ended) => {
                    exchange.ended = ended;
                    connection.reset(asked.stream, 0);
                    return self.finish(now, session, exchange);
                }
                Decision::Metrics => {
                    let page = self.shared.services.metrics(&exchange.request);
                    exchange.service = Some("<PROMEX>");
                    let client = (connection, &mut *session);
                    answer::page(now, self.shared, client, &mut exchange, page);
                    return self.finish(now, session, exchange);
                }
                Decision::Statistics(page) => {
                    exchange.service = Some("<STATS>");
                    let may = self.may_change(now, &page, session, &mut exchange);
                    let Exchange { request, body, .. } = &*exchange;
                    let page = self.shared.services.statistics(&page, request, &body.replay, may);
                    let client = (connection, &mut *session);
                    answer::page(now, self.shared, client, &mut exchange, page);
                    return self.finish(now, session, exchange);
                }
            }
        }
    }

    /// The answer that was held back is given.
    pub(super) fn answer_late(&mut self, now: Instant, asked: Asked, client: Client<'_>) {
        let (connection, session) = client;
        let Some(mut exchange) = session.exchange.take_if(|it| it.stream == asked.stream) else {
            return;
        };
        if let Some(delayed) = exchange.delayed.take() {
            answer::give(now, self.shared, (connection, session), &mut exchange, *delayed);
        }
        self.finish(now, session, exchange);
    }

    /// How long a client is held.
    fn tarpit(&self, session: &Session, exchange: &Exchange) -> Duration {
        let live = &self.shared.live;
        let frontend = &live.frontends[session.bind().frontend].config;
        let backend = exchange.backend.map(|BackendId(at)| &live.backends[at].config.timeouts);
        let of_backend = backend.and_then(|times| times.tarpit.or(times.connect));
        frontend.timeouts.tarpit.or(of_backend).unwrap_or_default().min(LONGEST)
    }

    /// The next decision about a request.
    fn decide(&self, now: Instant, session: &mut Session, exchange: &mut Exchange) -> Decision {
        match exchange.step {
            Step::Arrived => self.arrive(now, session, exchange),
            Step::Frontend(mut progress) => {
                let live = &self.shared.live;
                let frontend = &live.frontends[session.bind().frontend].config;
                let rules = &frontend.request_rules;
                match self.rules(now, rules, &mut progress, session, exchange) {
                    Some(wait @ Decision::Wait(..)) => {
                        exchange.step = Step::Frontend(progress);
                        wait
                    }
                    Some(decision) => decision,
                    None => self
                        .page(now, frontend.stats.as_ref(), session, exchange)
                        .unwrap_or(Decision::On(Step::Choice)),
                }
            }
            Step::Choice => self.choose(now, session, exchange),
            Step::Backend(mut progress) => {
                let Some(BackendId(at)) = exchange.backend else { return Decision::Go };
                let backend = &self.shared.live.backends[at].config;
                let rules = &backend.request_rules;
                match self.rules(now, rules, &mut progress, session, exchange) {
                    Some(wait @ Decision::Wait(..)) => {
                        exchange.step = Step::Backend(progress);
                        wait
                    }
                    Some(decision) => decision,
                    None => self
                        .page(now, backend.stats.as_ref(), session, exchange)
                        .unwrap_or(Decision::On(Step::Ready)),
                }
            }
            Step::Ready => self.ready(now, session, exchange),
        }
    }

    /// A request has come: what the frontend notes of it, and answers itself.
    fn arrive(&self, now: Instant, session: &mut Session, exchange: &mut Exchange) -> Decision {
        let frontend = &self.shared.live.frontends[session.bind().frontend].config;
        exchange.capture_request(frontend);
        if !frontend.logs.is_empty() {
            exchange.keep_line();
        }
        if let Some((format, _)) = &frontend.unique_id {
            let mut id = std::mem::take(&mut exchange.unique_id);
            format.render(&View { now, shared: self.shared, session, exchange }, &mut id);
            exchange.unique_id = id;
        }
        let monitored = frontend.monitor_uri.as_deref();
        if monitored.is_none_or(|uri| uri.as_bytes() != exchange.request.target) {
            return Decision::On(Step::Frontend(Progress::default()));
        }
        exchange.log_level = Level::Silent;
        tally::intercepted(self.shared, session, exchange);
        let view = View { now, shared: self.shared, session, exchange };
        let fails = frontend.monitor_fails.iter().any(|condition| condition.holds(&view));
        let reply = Reply::error_page(if fails { 503 } else { 200 });
        self.reply(now, &reply, session, exchange, Ended(b'L', b'R'))
    }

    /// The statistics page, if it is what the request asks for.
    fn page(
        &self,
        now: Instant,
        page: Option<&Arc<StatsPage>>,
        session: &mut Session,
        exchange: &mut Exchange,
    ) -> Option<Decision> {
        let page = page?;
        let path = super::place::path_of(&exchange.request.target);
        if !path.starts_with(page.uri.as_bytes()) {
            return None;
        }
        tally::intercepted(self.shared, session, exchange);
        if !super::credentials::admits(&exchange.request, &page.users) {
            let realm = page.realm.as_deref().unwrap_or("HAProxy Statistics");
            return Some(self.challenge(now, realm.as_bytes(), session, exchange));
        }
        Some(match exchange.request.method == b"POST" && !exchange.body.has(0) {
            true => Decision::Wait(0, POST_TIME),
            false => Decision::Statistics(Arc::clone(page)),
        })
    }

    /// The backend that deals with the request.
    fn choose(&self, now: Instant, session: &mut Session, exchange: &mut Exchange) -> Decision {
        let live = &self.shared.live;
        let frontend = &live.frontends[session.bind().frontend].config;
        let mut chosen = None;
        for rule in &frontend.use_backends {
            let view = View { now, shared: self.shared, session, exchange };
            if rule.condition.as_ref().is_some_and(|condition| !condition.holds(&view)) {
                continue;
            }
            chosen = match &rule.target {
                Target::Backend(backend) => Some(*backend),
                Target::Named(format) => {
                    let mut name = Vec::new();
                    format.render(&view, &mut name);
                    live.backend_named(&name)
                }
            };
            if chosen.is_some() {
                break;
            }
        }
        exchange.backend = chosen.or(frontend.default_backend);
        let Some(BackendId(at)) = exchange.backend else {
            let reply = Reply::error_page(503);
            return self.reply(now, &reply, session, exchange, Ended(b'S', b'C'));
        };
        let backend = &live.backends[at];
        exchange.retries = backend.config.retries;
        let counters = &backend.counters[self.shared.thread];
        counters.add(Counter::Requests, 1);
        counters.add(Counter::SessionsTotal, 1);
        counters.add(Counter::Sessions, 1);
        Decision::On(Step::Backend(Progress::default()))
    }
}

/// What rules want the client to know before there is a response (RFC 8297).
fn hint(connection: &mut ServerConnection, exchange: &mut Exchange) {
    if let Some(hints) = exchange.hints.take() {
        let head = Response::new(103, hints.as_headers());
        if connection.send_head(exchange.stream, head, BodyLen::Empty).is_err() {
            connection.reset(exchange.stream, 0);
        }
    }
}

/// The client may send its body: it is wanted here, and no server is asked.
fn ask_for_body(connection: &mut ServerConnection, exchange: &mut Exchange) {
    if std::mem::take(&mut exchange.expects_continue) {
        let go_on = Response::new(100, Headers::EMPTY);
        if connection.send_head(exchange.stream, go_on, BodyLen::Empty).is_err() {
            connection.reset(exchange.stream, 0);
        }
    }
}

/// The form of a statistics page comes at once.
const POST_TIME: Duration = Duration::from_secs(10);
/// More cannot be added to a moment.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
