//! Processing of a request before its server: rules, internal pages, selection of a backend.
//!
//! In HAProxy's order: the body if it is required, the frontend's rules, its statistics page, the
//! selection of the backend, the backend's rules and page, and added fields.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fulmar_engine::Exchange as Asked;
use fulmar_haproxy::model::{ProxyOptions, StatsPage};
use fulmar_haproxy::rules::http::RulesProgress;
use fulmar_haproxy::rules::{ReplyTemplate, ResponseHead, path_and_query_of};
use fulmar_haproxy::{BackendId, Mode};
use fulmar_proto::{BodyLen, Connection, Headers, Response, ServerConnection};

use crate::counters::Counter;
use crate::http::answer;
use crate::http::desk::Errand;
use crate::http::exchange::{Ended, Exchange, Stage};
use crate::http::log::Level;
use crate::http::requests::{Client, Requests, of};
use crate::http::session::Session;
use crate::http::subject::View;
use crate::http::tally;

/// The next step of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Step {
    /// It was received.
    #[default]
    Arrived,
    /// The body may have to be received before the frontend's rules.
    FrontendBody,
    /// The frontend's rules are next.
    Frontend(RulesProgress),
    /// The frontend's statistics page may be requested.
    FrontendPage,
    /// The selection of the backend is next.
    Choice,
    /// The body may have to be received before the backend's rules.
    BackendBody,
    /// The backend's rules are next.
    Backend(RulesProgress),
    /// The backend's statistics page may be requested.
    BackendPage,
    /// It is ready for a server.
    Ready,
}

/// The result of a step.
#[derive(Debug)]
pub(super) enum Decision {
    /// The next step.
    On(Step),
    /// Forward it to a server.
    Go,
    /// Wait for this number of body bytes (0: all), or until this time has passed.
    Wait(u64, Duration),
    /// Send this response.
    Answer(ResponseHead, Bytes, Ended),
    /// Send this response after a delay.
    Later(ResponseHead, Bytes, Ended),
    /// Close the connection.
    End(Ended),
    /// Drop the client silently.
    Vanish,
    /// Send the metrics page.
    Metrics,
    /// Send the statistics page.
    Statistics(Arc<StatsPage>),
}

impl Requests<'_> {
    /// Continues a request without a server.
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
                    let client = (&mut *connection, &mut *session);
                    answer::give(now, self.shared, client, &mut exchange, (head, body));
                    return self.answered(now, (connection, session), exchange);
                }
                Decision::End(ended) => {
                    exchange.ended = ended;
                    exchange.times.began = None; // logged as an incomplete request
                    connection.reset(asked.stream, 0);
                    return self.answered(now, (connection, session), exchange);
                }
                Decision::Vanish => {
                    exchange.ended = Ended(b'P', b'R');
                    exchange.times.began = None;
                    self.desk.ask(Errand::Vanish(asked.socket));
                    return self.answered(now, (connection, session), exchange);
                }
                Decision::Metrics => {
                    let page = self.shared.services.metrics(&exchange.request);
                    exchange.service = Some("<PROMEX>");
                    let client = (&mut *connection, &mut *session);
                    answer::page(now, self.shared, client, &mut exchange, page);
                    return self.answered(now, (connection, session), exchange);
                }
                Decision::Statistics(page) => {
                    exchange.service = Some("<STATS>");
                    let may = self.may_change(now, &page, session, &mut exchange);
                    let Exchange { request, body, len, .. } = &*exchange;
                    let form = match len {
                        BodyLen::Empty => Some(&[][..]), // its end was not reported yet
                        _ => body.whole(),
                    };
                    let page = self.shared.services.statistics(&page, request, form, may);
                    let client = (&mut *connection, &mut *session);
                    answer::page(now, self.shared, client, &mut exchange, page);
                    return self.answered(now, (connection, session), exchange);
                }
            }
        }
    }

    /// Sends a delayed response.
    pub(super) fn answer_late(&mut self, now: Instant, asked: Asked, client: Client<'_>) {
        let (connection, session) = client;
        let Some(mut exchange) = session.exchange.take_if(|it| it.stream == asked.stream) else {
            return;
        };
        exchange.times.assigned = Some(now); // logged as time in the queue
        if let Some(delayed) = exchange.delayed.take() {
            let client = (&mut *connection, &mut *session);
            answer::give(now, self.shared, client, &mut exchange, *delayed);
        }
        self.answered(now, (connection, session), exchange);
    }

    /// The body timed out: no server receives the request.
    pub(super) fn too_slow(&mut self, now: Instant, asked: Asked, client: Client<'_>) {
        let (connection, session) = client;
        connection.close_after();
        if let Some(exchange) = of(session, asked.stream) {
            exchange.times.began = None; // it was never complete
        }
        self.answer(now, asked, (connection, session), 408, Ended(b'c', b'R'));
    }

    /// The delay of a tarpit.
    fn tarpit(&self, session: &Session, exchange: &Exchange) -> Duration {
        let live = &self.shared.live;
        let frontend = &live.frontends[session.bind().frontend].config;
        let backend = exchange.backend.map(|BackendId(at)| &live.backends[at].config.timeouts);
        let of_backend = backend.and_then(|times| times.tarpit.or(times.connect));
        frontend.timeouts.tarpit.or(of_backend).unwrap_or_default().min(LONGEST)
    }

    /// Executes the next step of a request.
    fn decide(&self, now: Instant, session: &mut Session, exchange: &mut Exchange) -> Decision {
        match exchange.step {
            Step::Arrived => self.arrive(now, session, exchange),
            Step::FrontendBody => {
                let frontend = &self.shared.live.frontends[session.bind().frontend].config;
                let wait = self.buffer(&frontend.options, session, exchange);
                wait.unwrap_or(Decision::On(Step::Frontend(RulesProgress::default())))
            }
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
                    None => Decision::On(Step::FrontendPage),
                }
            }
            Step::FrontendPage => {
                let page =
                    self.shared.live.frontends[session.bind().frontend].config.stats.as_ref();
                let decision = self.page(now, page, session, exchange);
                decision.unwrap_or(Decision::On(Step::Choice))
            }
            Step::Choice => self.choose(now, session, exchange),
            Step::BackendBody => {
                let Some(BackendId(at)) = exchange.backend else { return Decision::Go };
                let backend = &self.shared.live.backends[at].config;
                self.buffer(&backend.options, session, exchange)
                    .or_else(|| self.inspect(now, &backend.content_rules, session, exchange))
                    .unwrap_or(Decision::On(Step::Backend(RulesProgress::default())))
            }
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
                    None => Decision::On(Step::BackendPage),
                }
            }
            Step::BackendPage => {
                let Some(BackendId(at)) = exchange.backend else { return Decision::Go };
                let page = self.shared.live.backends[at].config.stats.as_ref();
                let decision = self.page(now, page, session, exchange);
                decision.unwrap_or(Decision::On(Step::Ready))
            }
            Step::Ready => self.ready(now, session, exchange),
        }
    }

    /// A request was received: captures, content rules, and the monitor page.
    fn arrive(&self, now: Instant, session: &mut Session, exchange: &mut Exchange) -> Decision {
        let frontend = &self.shared.live.frontends[session.bind().frontend].config;
        exchange.capture_request(frontend);
        if self.desk.frontends[session.bind().frontend].keeps_line {
            exchange.keep_line();
        }
        if let Some((format, _)) = &frontend.unique_id {
            let mut id = std::mem::take(&mut exchange.unique_id);
            format.render(&View { now, shared: self.shared, session, exchange }, &mut id);
            exchange.unique_id = id;
        }
        if let Some(decision) = self.inspect(now, &frontend.content_rules, session, exchange) {
            return decision;
        }
        let monitored = frontend.monitor_uri.as_deref();
        if monitored.is_none_or(|uri| uri.as_bytes() != exchange.request.target) {
            return Decision::On(Step::FrontendBody);
        }
        exchange.log_level = Level::Silent;
        tally::intercepted(self.shared, session, exchange);
        let view = View { now, shared: self.shared, session, exchange };
        let fails = frontend.monitor_fails.iter().any(|condition| condition.holds(&view));
        let reply = ReplyTemplate::error_page(if fails { 503 } else { 200 });
        self.reply(now, &reply, session, exchange, Ended(b'L', b'R'))
    }

    /// The statistics page, if it is requested.
    fn page(
        &self,
        now: Instant,
        page: Option<&Arc<StatsPage>>,
        session: &mut Session,
        exchange: &mut Exchange,
    ) -> Option<Decision> {
        let page = page?;
        let path = path_and_query_of(&exchange.request.target)?;
        if !path.starts_with(page.uri.as_bytes()) {
            return None;
        }
        let admitted = super::credentials::admits(&exchange.request, &page.users);
        if admitted && exchange.request.method == b"POST" && !exchange.body.has(0) {
            return Some(Decision::Wait(0, POST_TIME));
        }
        tally::intercepted(self.shared, session, exchange);
        if !admitted {
            let realm = page.realm.as_deref().unwrap_or("HAProxy Statistics");
            return Some(self.challenge(now, realm.as_bytes(), session, exchange));
        }
        Some(Decision::Statistics(Arc::clone(page)))
    }

    /// Selects the backend.
    fn choose(&self, now: Instant, session: &mut Session, exchange: &mut Exchange) -> Decision {
        let live = &self.shared.live;
        let frontend = &live.frontends[session.bind().frontend].config;
        let backend =
            live.lead(frontend, Mode::Http, &View { now, shared: self.shared, session, exchange });
        exchange.backend = backend;
        let Some(BackendId(at)) = exchange.backend else {
            let reply = ReplyTemplate::error_page(503);
            return self.reply(now, &reply, session, exchange, Ended(b'S', b'C'));
        };
        let backend = &live.backends[at];
        exchange.retries = backend.config.retries;
        let counters = &backend.counters[self.shared.thread];
        counters.add(Counter::Requests, 1);
        counters.add(Counter::SessionsTotal, 1);
        counters.add(Counter::Sessions, 1);
        Decision::On(Step::BackendBody)
    }

    /// Requires the body first, as much as is kept (`option http-buffer-request`).
    fn buffer(
        &self,
        options: &ProxyOptions,
        session: &Session,
        exchange: &Exchange,
    ) -> Option<Decision> {
        if !options.buffer_request || exchange.body.has(0) {
            return None;
        }
        let timeouts = &self.shared.live.frontends[session.bind().frontend].config.timeouts;
        let time = timeouts.http_request.or(timeouts.client);
        Some(Decision::Wait(0, time.unwrap_or(LONGEST)))
    }
}

/// Sends the early hints that rules have set (RFC 8297).
fn hint(connection: &mut ServerConnection, exchange: &mut Exchange) {
    if let Some(hints) = exchange.hints.take() {
        let head = Response::new(103, hints.as_headers());
        send_interim(connection, exchange, head);
    }
}

/// Sends a 100 response: the proxy needs the body before it selects a server.
fn ask_for_body(connection: &mut ServerConnection, exchange: &mut Exchange) {
    if std::mem::take(&mut exchange.expects_continue) {
        send_interim(connection, exchange, Response::new(100, Headers::EMPTY));
    }
}

fn send_interim(connection: &mut ServerConnection, exchange: &mut Exchange, head: Response<'_>) {
    let before = connection.queued();
    if connection.send_head(exchange.stream, head, BodyLen::Empty).is_err() {
        return connection.reset(exchange.stream, 0);
    }
    exchange.bytes_out += connection.queued() - before;
}

/// The time for the form of a statistics page.
const POST_TIME: Duration = Duration::from_secs(10);
/// Keeps `Instant` arithmetic from overflowing.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
