//! Processing of a request before its server: rules, internal pages, selection of a backend.
//!
//! In HAProxy's order: the body if it is required, the frontend's rules, its statistics page, the
//! selection of the backend, the backend's rules and page, and added fields.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fulmar_engine::Exchange as ExchangeId;
use fulmar_haproxy::model::{ProxyOptions, StatsPage};
use fulmar_haproxy::rules::http::RulesProgress;
use fulmar_haproxy::rules::{ReplyTemplate, ResponseHead, path_and_query_of};
use fulmar_haproxy::{BackendId, Mode};
use fulmar_proto::h1::H1Server;
use fulmar_proto::{BodyLen, Connection, Headers, Reset, Response};

use crate::counters::Stat;
use crate::http::client_events::{ClientEntry, ClientEvents, of};
use crate::http::context::ExchangeView;
use crate::http::exchange::{EndLetters, ExchangeStage, HttpExchange};
use crate::http::exchange_counters;
use crate::http::generated_response::{self, send_reply};
use crate::http::log::LogLevelOverride;
use crate::http::session::HttpSession;
use crate::http::state::DeferredAction;

/// The next step of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RouteStep {
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
pub(super) enum RouteDecision {
    /// The next step.
    Next(RouteStep),
    /// Forward it to a server.
    Forward,
    /// Wait for this number of body bytes (0: all), or until this time has passed.
    Wait(u64, Duration),
    /// Send this response.
    Respond(ResponseHead, Bytes, EndLetters),
    /// Send this response after a delay.
    RespondLater(ResponseHead, Bytes, EndLetters),
    /// Close the connection.
    Close(EndLetters),
    /// Drop the client silently.
    DropSilently,
    /// Send the metrics page.
    Metrics,
    /// Send the statistics page.
    Statistics(Arc<StatsPage>),
}

impl ClientEvents<'_> {
    /// Continues a request without a server.
    pub(super) fn route(&mut self, now: Instant, id: ExchangeId, client: ClientEntry<'_>) {
        let (connection, session) = client;
        let Some(mut exchange) = session.exchange.take_if(|it| it.stream == id.stream) else {
            return;
        };
        loop {
            match self.decide(now, session, &mut exchange) {
                RouteDecision::Next(step) => exchange.step = step,
                RouteDecision::Wait(at_least, _) if exchange.body.has(at_least) => {}
                RouteDecision::Forward => {
                    exchange.stage = ExchangeStage::Routing;
                    hint(connection, &mut exchange);
                    session.exchange = Some(exchange);
                    return self.assign_server(now, id, (connection, session));
                }
                RouteDecision::Wait(at_least, time) => {
                    request_body(connection, &mut exchange);
                    exchange.stage = ExchangeStage::Collecting(at_least);
                    self.state
                        .defer(DeferredAction::Timer(id.socket, Some(now + time.min(LONGEST))));
                    session.exchange = Some(exchange);
                    return;
                }
                RouteDecision::RespondLater(head, body, ended) => {
                    let time = self.tarpit(session, &exchange);
                    self.state.defer(DeferredAction::Timer(id.socket, Some(now + time)));
                    exchange.delayed = Some(Box::new((head, body)));
                    (exchange.ended, exchange.stage) = (ended, ExchangeStage::Tarpit);
                    session.exchange = Some(exchange);
                    return;
                }
                RouteDecision::Respond(head, body, ended) => {
                    exchange.ended = ended;
                    let client = (&mut *connection, &mut *session);
                    send_reply(now, self.shared, client, &mut exchange, (head, body));
                    return self.response_complete(now, (connection, session), exchange);
                }
                RouteDecision::Close(ended) => {
                    exchange.ended = ended;
                    exchange.times.began = None; // logged as an incomplete request
                    connection.reset(id.stream, Reset::Refused);
                    return self.response_complete(now, (connection, session), exchange);
                }
                RouteDecision::DropSilently => {
                    exchange.ended = EndLetters(b'P', b'R');
                    exchange.times.began = None;
                    self.state.defer(DeferredAction::DropSilently(id.socket));
                    return self.response_complete(now, (connection, session), exchange);
                }
                RouteDecision::Metrics => {
                    let page = self.shared.services.metrics(&exchange.request);
                    exchange.service = Some("<PROMEX>");
                    let client = (&mut *connection, &mut *session);
                    generated_response::page(now, self.shared, client, &mut exchange, page);
                    return self.response_complete(now, (connection, session), exchange);
                }
                RouteDecision::Statistics(page) => {
                    exchange.service = Some("<STATS>");
                    let may = self.may_change(now, &page, session, &mut exchange);
                    let HttpExchange { request, body, len, .. } = &*exchange;
                    let form = match len {
                        BodyLen::Empty => Some(&[][..]), // its end was not reported yet
                        _ => body.whole(),
                    };
                    let page = self.shared.services.statistics(&page, request, form, may);
                    let client = (&mut *connection, &mut *session);
                    generated_response::page(now, self.shared, client, &mut exchange, page);
                    return self.response_complete(now, (connection, session), exchange);
                }
            }
        }
    }

    /// Sends a delayed response.
    pub(super) fn respond_delayed(
        &mut self,
        now: Instant,
        id: ExchangeId,
        client: ClientEntry<'_>,
    ) {
        let (connection, session) = client;
        let Some(mut exchange) = session.exchange.take_if(|it| it.stream == id.stream) else {
            return;
        };
        exchange.times.assigned = Some(now); // logged as time in the queue
        if let Some(delayed) = exchange.delayed.take() {
            let client = (&mut *connection, &mut *session);
            send_reply(now, self.shared, client, &mut exchange, *delayed);
        }
        self.response_complete(now, (connection, session), exchange);
    }

    /// The body timed out: no server receives the request.
    pub(super) fn body_timeout(&mut self, now: Instant, id: ExchangeId, client: ClientEntry<'_>) {
        let (connection, session) = client;
        connection.close_after();
        if let Some(exchange) = of(session, id.stream) {
            exchange.times.began = None; // it was never complete
        }
        self.answer(now, id, (connection, session), 408, EndLetters(b'c', b'R'));
    }

    /// The delay of a tarpit.
    fn tarpit(&self, session: &HttpSession, exchange: &HttpExchange) -> Duration {
        let live = &self.shared.live;
        let frontend = &live.frontends[session.bind().frontend].config;
        let backend = exchange.backend.map(|BackendId(at)| &live.backends[at].config.timeouts);
        let of_backend = backend.and_then(|times| times.tarpit.or(times.connect));
        frontend.timeouts.tarpit.or(of_backend).unwrap_or_default().min(LONGEST)
    }

    /// Executes the next step of a request.
    fn decide(
        &self,
        now: Instant,
        session: &mut HttpSession,
        exchange: &mut HttpExchange,
    ) -> RouteDecision {
        match exchange.step {
            RouteStep::Arrived => self.arrive(now, session, exchange),
            RouteStep::FrontendBody => {
                let frontend = &self.shared.live.frontends[session.bind().frontend].config;
                let wait = self.buffer(&frontend.options, session, exchange);
                wait.unwrap_or(RouteDecision::Next(RouteStep::Frontend(RulesProgress::default())))
            }
            RouteStep::Frontend(mut progress) => {
                let live = &self.shared.live;
                let frontend = &live.frontends[session.bind().frontend].config;
                let rules = &frontend.request_rules;
                match self.rules(now, rules, &mut progress, session, exchange) {
                    Some(wait @ RouteDecision::Wait(..)) => {
                        exchange.step = RouteStep::Frontend(progress);
                        wait
                    }
                    Some(decision) => decision,
                    None => RouteDecision::Next(RouteStep::FrontendPage),
                }
            }
            RouteStep::FrontendPage => {
                let page =
                    self.shared.live.frontends[session.bind().frontend].config.stats.as_ref();
                let decision = self.page(now, page, session, exchange);
                decision.unwrap_or(RouteDecision::Next(RouteStep::Choice))
            }
            RouteStep::Choice => self.choose(now, session, exchange),
            RouteStep::BackendBody => {
                let at = exchange.selected_backend();
                let backend = &self.shared.live.backends[at].config;
                self.buffer(&backend.options, session, exchange)
                    .or_else(|| self.inspect(now, &backend.content_rules, session, exchange))
                    .unwrap_or(RouteDecision::Next(RouteStep::Backend(RulesProgress::default())))
            }
            RouteStep::Backend(mut progress) => {
                let at = exchange.selected_backend();
                let backend = &self.shared.live.backends[at].config;
                let rules = &backend.request_rules;
                match self.rules(now, rules, &mut progress, session, exchange) {
                    Some(wait @ RouteDecision::Wait(..)) => {
                        exchange.step = RouteStep::Backend(progress);
                        wait
                    }
                    Some(decision) => decision,
                    None => RouteDecision::Next(RouteStep::BackendPage),
                }
            }
            RouteStep::BackendPage => {
                let at = exchange.selected_backend();
                let page = self.shared.live.backends[at].config.stats.as_ref();
                let decision = self.page(now, page, session, exchange);
                decision.unwrap_or(RouteDecision::Next(RouteStep::Ready))
            }
            RouteStep::Ready => self.ready(now, session, exchange),
        }
    }

    /// A request was received: captures, content rules, and the monitor page.
    fn arrive(
        &self,
        now: Instant,
        session: &mut HttpSession,
        exchange: &mut HttpExchange,
    ) -> RouteDecision {
        let frontend = &self.shared.live.frontends[session.bind().frontend].config;
        exchange.capture_request(frontend);
        if self.state.frontends[session.bind().frontend].keeps_line {
            exchange.keep_line();
        }
        if let Some((format, _)) = &frontend.unique_id {
            let mut id = std::mem::take(&mut exchange.unique_id);
            format.render(&ExchangeView { now, shared: self.shared, session, exchange }, &mut id);
            exchange.unique_id = id;
        }
        if let Some(decision) = self.inspect(now, &frontend.content_rules, session, exchange) {
            return decision;
        }
        let monitored = frontend.monitor_uri.as_deref();
        if monitored.is_none_or(|uri| uri.as_bytes() != exchange.request.target) {
            return RouteDecision::Next(RouteStep::FrontendBody);
        }
        exchange.log_level = LogLevelOverride::Silent;
        exchange_counters::intercepted(self.shared, session, exchange);
        let view = ExchangeView { now, shared: self.shared, session, exchange };
        let fails = frontend.monitor_fails.iter().any(|condition| condition.holds(&view));
        let reply = ReplyTemplate::error_page(if fails { 503 } else { 200 });
        self.reply(now, &reply, session, exchange, EndLetters(b'L', b'R'))
    }

    /// The statistics page, if it is requested.
    fn page(
        &self,
        now: Instant,
        page: Option<&Arc<StatsPage>>,
        session: &mut HttpSession,
        exchange: &mut HttpExchange,
    ) -> Option<RouteDecision> {
        let page = page?;
        let path = path_and_query_of(&exchange.request.target)?;
        if !path.starts_with(page.uri.as_bytes()) {
            return None;
        }
        let admitted = super::credentials::admits(&exchange.request, &page.users);
        if admitted && exchange.request.method == b"POST" && !exchange.body.has(0) {
            return Some(RouteDecision::Wait(0, POST_TIME));
        }
        exchange_counters::intercepted(self.shared, session, exchange);
        if !admitted {
            let realm = page.realm.as_deref().unwrap_or("HAProxy Statistics");
            return Some(self.challenge(now, realm.as_bytes(), session, exchange));
        }
        Some(RouteDecision::Statistics(Arc::clone(page)))
    }

    /// Selects the backend.
    fn choose(
        &self,
        now: Instant,
        session: &mut HttpSession,
        exchange: &mut HttpExchange,
    ) -> RouteDecision {
        let live = &self.shared.live;
        let frontend = &live.frontends[session.bind().frontend].config;
        let backend = live.select_backend(
            frontend,
            Mode::Http,
            &ExchangeView { now, shared: self.shared, session, exchange },
        );
        exchange.backend = backend;
        let Some(BackendId(at)) = exchange.backend else {
            let reply = ReplyTemplate::error_page(503);
            return self.reply(now, &reply, session, exchange, EndLetters(b'S', b'C'));
        };
        let backend = &live.backends[at];
        exchange.retries = backend.config.retries;
        let counters = &backend.counters[self.shared.thread];
        counters.add(Stat::Requests, 1);
        counters.add(Stat::SessionsTotal, 1);
        counters.add(Stat::Sessions, 1);
        RouteDecision::Next(RouteStep::BackendBody)
    }

    /// Requires the body first, as much as is kept (`option http-buffer-request`).
    fn buffer(
        &self,
        options: &ProxyOptions,
        session: &HttpSession,
        exchange: &HttpExchange,
    ) -> Option<RouteDecision> {
        if !options.buffer_request || exchange.body.has(0) {
            return None;
        }
        let timeouts = &self.shared.live.frontends[session.bind().frontend].config.timeouts;
        let time = timeouts.http_request.or(timeouts.client);
        Some(RouteDecision::Wait(0, time.unwrap_or(LONGEST)))
    }
}

/// Sends the early hints that rules have set (RFC 8297).
fn hint(connection: &mut H1Server, exchange: &mut HttpExchange) {
    if let Some(hints) = exchange.hints.take() {
        let head = Response::new(103, hints.as_headers());
        send_interim(connection, exchange, head);
    }
}

/// Sends a 100 response: the proxy needs the body before it selects a server.
fn request_body(connection: &mut H1Server, exchange: &mut HttpExchange) {
    if std::mem::take(&mut exchange.expects_continue) {
        send_interim(connection, exchange, Response::new(100, Headers::EMPTY));
    }
}

fn send_interim(connection: &mut H1Server, exchange: &mut HttpExchange, head: Response<'_>) {
    let before = connection.unsent(exchange.stream);
    if connection.send_head(exchange.stream, head, BodyLen::Empty).is_err() {
        return connection.reset(exchange.stream, Reset::Internal);
    }
    exchange.bytes_out += connection.unsent(exchange.stream) - before;
}

/// The time for the form of a statistics page.
const POST_TIME: Duration = Duration::from_secs(10);
/// Keeps `Instant` arithmetic from overflowing.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
