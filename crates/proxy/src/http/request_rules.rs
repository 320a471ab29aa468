//! Rules on requests, and what they decide.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use fulmar_haproxy::model::{StatsAdmin, StatsPage};
use fulmar_haproxy::rules::eval_context::{Variable, VariableScope};
use fulmar_haproxy::rules::eval_context_mut::{CaptureSlot, Deadline, Effect, EvalContextMut};
use fulmar_haproxy::rules::http::{BuiltinService, HttpRule, HttpVerdict, RulesProgress, run};
use fulmar_haproxy::rules::{ReplyTemplate, RequestHead, ResponseHead, Sample};
use fulmar_proto::HeaderBuf;

use crate::counters::Stat;
use crate::http::client_events::ClientEvents;
use crate::http::context::ExchangeView;
use crate::http::exchange::{EndLetters, HttpExchange};
use crate::http::exchange_counters;
use crate::http::generated_response;
use crate::http::log::LogLevelOverride;
use crate::http::route::RouteDecision;
use crate::http::session::{ClientState, HttpSession};
use crate::proxy_log::LogSeverity;
use crate::shared::{ThreadContext, set_variable};

impl ClientEvents<'_> {
    /// Evaluates rules. `None`: no rule has decided.
    pub(super) fn rules(
        &self,
        now: Instant,
        rules: &[HttpRule],
        progress: &mut RulesProgress,
        session: &mut HttpSession,
        exchange: &mut HttpExchange,
    ) -> Option<RouteDecision> {
        if rules.is_empty() {
            return None;
        }
        let mut view = ExchangeView { now, shared: self.shared, session, exchange };
        let verdict = run(rules, progress, &mut view);
        if matches!(
            verdict,
            HttpVerdict::Deny(_)
                | HttpVerdict::Tarpit(_)
                | HttpVerdict::Reject
                | HttpVerdict::SilentDrop
        ) {
            let all = exchange_counters::all(self.shared, view.session, view.exchange);
            all.for_each(|counters| counters.add(Stat::DeniedRequests, 1));
        }
        Some(match verdict {
            HttpVerdict::Continue | HttpVerdict::Allow => return None,
            HttpVerdict::Deny(reply) => {
                self.reply(now, reply, session, exchange, EndLetters(b'P', b'R'))
            }
            HttpVerdict::Tarpit(reply) => {
                match self.reply(now, reply, session, exchange, EndLetters(b'P', b'T')) {
                    RouteDecision::Respond(head, body, ended) => {
                        RouteDecision::RespondLater(head, body, ended)
                    }
                    other => other,
                }
            }
            HttpVerdict::Return(reply) => {
                exchange_counters::intercepted(self.shared, view.session, view.exchange);
                self.reply(now, reply, session, exchange, EndLetters(b'L', b'R'))
            }
            HttpVerdict::Redirect(head) => {
                exchange_counters::intercepted(self.shared, view.session, view.exchange);
                RouteDecision::Respond(*head, Bytes::new(), EndLetters(b'L', b'R'))
            }
            HttpVerdict::Auth(realm) => {
                exchange_counters::intercepted(self.shared, view.session, view.exchange);
                let mut text = Vec::new();
                if let Some(realm) = realm {
                    realm.render(&view, &mut text);
                } else {
                    text.extend_from_slice(proxy_name(self.shared, view.session, view.exchange));
                }
                self.challenge(now, &text, session, exchange)
            }
            HttpVerdict::Service(BuiltinService::Metrics) => {
                exchange_counters::intercepted(self.shared, view.session, view.exchange);
                RouteDecision::Metrics
            }
            HttpVerdict::Reject => RouteDecision::Close(EndLetters(b'P', b'R')),
            HttpVerdict::SilentDrop => RouteDecision::DropSilently,
            HttpVerdict::WaitForBody { time, at_least } => RouteDecision::Wait(at_least, time),
            HttpVerdict::Failed(_) => {
                let all = exchange_counters::all(self.shared, session, exchange);
                all.for_each(|counters| counters.add(Stat::RewriteErrors, 1));
                self.internal_error(now, session, exchange, EndLetters(b'P', b'R'))
            }
        })
    }

    /// Renders a configured response.
    pub(super) fn reply(
        &self,
        now: Instant,
        reply: &ReplyTemplate,
        session: &mut HttpSession,
        exchange: &mut HttpExchange,
        ended: EndLetters,
    ) -> RouteDecision {
        match generated_response::render(now, self.shared, session, exchange, reply) {
            Some((head, body)) => RouteDecision::Respond(head, body, ended),
            None => RouteDecision::Close(ended),
        }
    }

    /// The error page for rules that cannot be carried out.
    fn internal_error(
        &self,
        now: Instant,
        session: &mut HttpSession,
        exchange: &mut HttpExchange,
        ended: EndLetters,
    ) -> RouteDecision {
        self.reply(now, &ReplyTemplate::error_page(500), session, exchange, ended)
    }

    /// Requests authentication.
    pub(super) fn challenge(
        &self,
        now: Instant,
        realm: &[u8],
        session: &mut HttpSession,
        exchange: &mut HttpExchange,
    ) -> RouteDecision {
        let ended = EndLetters(b'L', b'R'); // a regular response of the proxy
        let pages = generated_response::pages(self.shared, session, exchange);
        let view = ExchangeView { now, shared: self.shared, session, exchange };
        match ReplyTemplate::challenge(realm, &view, &pages) {
            Some((head, body)) => RouteDecision::Respond(head, body, ended),
            None => RouteDecision::Close(ended),
        }
    }

    /// Whether the requester may change servers on the statistics page.
    pub(super) fn may_change(
        &self,
        now: Instant,
        page: &Arc<StatsPage>,
        session: &mut HttpSession,
        exchange: &mut HttpExchange,
    ) -> bool {
        let view = ExchangeView { now, shared: self.shared, session, exchange };
        match &page.admin {
            StatsAdmin::Never => false,
            StatsAdmin::Always => true,
            StatsAdmin::If(conditions) => conditions.iter().any(|condition| condition.holds(&view)),
        }
    }
}

fn proxy_name<'a>(
    shared: &'a ThreadContext,
    session: &HttpSession,
    exchange: &HttpExchange,
) -> &'a [u8] {
    match exchange.backend {
        Some(at) => shared.live.backends[at.0].config.name.as_bytes(),
        None => shared.live.frontends[session.bind().frontend].config.name.as_bytes(),
    }
}

impl EvalContextMut for ExchangeView<'_> {
    fn request_mut(&mut self) -> Option<&mut RequestHead> {
        Some(&mut self.exchange.request)
    }

    fn response_mut(&mut self) -> Option<&mut ResponseHead> {
        self.exchange.has_response.then_some(&mut self.exchange.response)
    }

    fn apply(&mut self, effect: Effect<'_>) {
        match effect {
            Effect::SetVariable(variable, value) => self.set_variable(variable, Some(value)),
            Effect::UnsetVariable(variable) => self.set_variable(variable, None),
            Effect::Capture(slot, value) => self.capture(slot, value),
            Effect::LogLevel(level) => {
                self.exchange.log_level = level.map_or(LogLevelOverride::Silent, |it| {
                    LogLevelOverride::Set(LogSeverity::of(it))
                });
            }
            Effect::Source(address) => self.exchange.source = Some(address),
            Effect::Destination(address) => self.exchange.destination = Some(address),
            Effect::Timeout(Deadline::Server, time) => self.exchange.server_timeout = Some(time),
            Effect::Timeout(Deadline::Tunnel, time) => self.exchange.tunnel_timeout = Some(time),
            Effect::ExpectProxy => self.session.state = ClientState::AwaitsProxyHeader,
            Effect::NoRetry => self.exchange.no_retry = true,
            Effect::EarlyHint(name, value) => {
                let hints = self.exchange.hints.get_or_insert_with(HeaderBuf::new);
                let pushed = hints.push(name, &value);
                debug_assert!(pushed.is_ok(), "it was checked");
            }
        }
    }
}

impl ExchangeView<'_> {
    /// Sets or deletes a variable, if its scope exists now.
    fn set_variable(&mut self, variable: &Variable, value: Option<Sample<'static>>) {
        match variable.scope {
            VariableScope::Proc => self.shared.live.set_variable(&variable.name, value),
            VariableScope::Sess => {
                set_variable(&mut self.session.rare_mut().variables, variable, value);
            }
            VariableScope::Req | VariableScope::Res | VariableScope::Txn => {
                if self.exchange.lives(variable.scope) {
                    set_variable(&mut self.exchange.variables, variable, value);
                }
            }
        }
    }

    fn capture(&mut self, slot: CaptureSlot, mut value: Vec<u8>) {
        let frontend = &self.shared.live.frontends[self.session.bind().frontend].config;
        let (at, known, captures) = match slot {
            CaptureSlot::Request(at) => {
                (at, &frontend.request_captures, &mut self.exchange.request_captures)
            }
            CaptureSlot::Response(at) => {
                (at, &frontend.response_captures, &mut self.exchange.response_captures)
            }
        };
        let Some(known) = known.get(at) else { return };
        value.truncate(known.len);
        if captures.len() <= at {
            captures.resize(at + 1, Vec::new());
        }
        captures[at] = value;
    }

    /// The client's address; a client over a Unix socket has none.
    pub(super) fn client_address(&self) -> Option<SocketAddr> {
        self.exchange.source.or_else(|| self.session.source())
    }
}
