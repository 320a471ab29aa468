//! Rules on the first bytes, and the selection of a backend.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fulmar_haproxy::Mode;
use fulmar_haproxy::rules::tcp::{TcpRule, TcpVerdict, run_tcp};

use super::TcpRelay;
use super::context::{SessionContext, SessionContextMut};
use super::session::{Rules, TcpSession, TcpStage};
use super::termination_state::{EndCause, EndPhase, SessionEnd};
use crate::counters::Stat;
use crate::live::Live;
use crate::shared::ThreadContext;

impl TcpRelay {
    /// Begins the inspection of the first bytes.
    pub(super) fn begin_inspection(
        &mut self,
        now: Instant,
        shared: &mut ThreadContext,
        number: u32,
    ) {
        let session = self.state.sessions.of_mut(number);
        let delay = shared.live.frontends[session.bind.frontend].config.inspect_delay;
        session.inspect_for(now, Rules::Frontend, delay);
        self.inspect(now, shared, number);
    }

    /// The client has sent bytes, or ended its side, before there was a server.
    pub(super) fn handle_client_bytes(
        &mut self,
        now: Instant,
        shared: &mut ThreadContext,
        number: u32,
    ) {
        let session = self.state.sessions.of(number);
        match session.stage {
            TcpStage::Inspecting(_) => self.inspect(now, shared, number),
            TcpStage::Opening
            | TcpStage::Queued
            | TcpStage::Pausing
            | TcpStage::Connecting
            | TcpStage::Relaying
            | TcpStage::Over => {
                if session.pending.ended && self.aborts_on_close(shared, number) {
                    self.handle_abort(now, shared, number);
                }
            }
        }
    }

    /// Evaluates the rules.
    pub(super) fn inspect(&mut self, now: Instant, shared: &mut ThreadContext, number: u32) {
        let live = Arc::clone(&shared.live);
        let session = self.state.sessions.of_mut(number);
        let TcpStage::Inspecting(whose) = session.stage else { return };
        let rules = rules_of(&live, session, whose);
        let age = session.age(now);
        let is_over = session.times.inspected_until.is_none_or(|until| until <= age);
        let is_full = session.pending.is_full();
        let complete = is_over || is_full || session.pending.ended;
        let waits = session.times.inspected_until.is_some();
        let verdict = run_tcp(rules, &mut SessionContextMut { shared, session, now, complete });
        match verdict {
            // Rules that may not wait were evaluated with `complete` set.
            TcpVerdict::Wait if !complete => {
                let session = self.state.sessions.of(number);
                let until = session.times.inspected_until;
                let until = until.map(|ms| session.accepted + Duration::from_millis(ms.into()));
                self.set_timer(number, until);
            }
            TcpVerdict::Reject | TcpVerdict::Close => {
                self.note_denied(shared, number);
                self.cut_client(now, number);
            }
            TcpVerdict::SilentDrop => {
                self.note_denied(shared, number);
                self.drop_silently(now, number);
            }
            TcpVerdict::Accept | TcpVerdict::Wait => {
                if waits {
                    self.set_timer(number, None);
                }
                match whose {
                    Rules::Frontend => self.route(now, shared, number),
                    Rules::Backend => self.begin_server_selection(now, shared, number),
                }
            }
        }
    }

    /// The client timed out during the inspection. The rules are evaluated a last time, on the
    /// bytes received so far: a rule may be the reason of the end, or select the backend for the
    /// log line.
    pub(super) fn run_rules_at_timeout(
        &mut self,
        now: Instant,
        shared: &ThreadContext,
        number: u32,
    ) {
        let live = Arc::clone(&shared.live);
        for whose in [Rules::Frontend, Rules::Backend] {
            let session = self.state.sessions.of_mut(number);
            if session.stage != TcpStage::Inspecting(whose) {
                continue;
            }
            session.pending.ended = true;
            let rules = rules_of(&live, session, whose);
            let verdict =
                run_tcp(rules, &mut SessionContextMut { shared, session, now, complete: true });
            if !matches!(verdict, TcpVerdict::Accept | TcpVerdict::Wait) {
                return self.note_denied(shared, number);
            }
            if whose == Rules::Frontend {
                self.assign(now, shared, number);
            }
        }
    }

    /// A rule has rejected the session.
    fn note_denied(&mut self, shared: &ThreadContext, number: u32) {
        let session = self.state.sessions.of_mut(number);
        session.end(SessionEnd { by: EndCause::Proxy, when: EndPhase::Request });
        let bind = session.bind;
        crate::early_close::count(shared, bind, Stat::DeniedRequests);
    }

    /// Selects the backend, and evaluates its rules.
    fn route(&mut self, now: Instant, shared: &mut ThreadContext, number: u32) {
        match self.assign(now, shared, number) {
            true => self.inspect(now, shared, number),
            false => self.cut_client(now, number),
        }
    }

    /// Selects the backend. False: there is none.
    fn assign(&mut self, now: Instant, shared: &ThreadContext, number: u32) -> bool {
        let live = Arc::clone(&shared.live);
        let session = self.state.sessions.of_mut(number);
        let frontend = &live.frontends[session.bind.frontend].config;
        let Some(backend) =
            live.select_backend(frontend, Mode::Tcp, &SessionContext::new(shared, session, now))
        else {
            session.end(SessionEnd { by: EndCause::Server, when: EndPhase::Connect });
            return false;
        };
        session.backend = Some(backend);
        let counters = &live.backends[backend.0].counters[shared.thread];
        counters.add(Stat::SessionsTotal, 1);
        counters.add(Stat::Sessions, 1);
        let backend = &live.backends[backend.0].config;
        session.inspect_for(now, Rules::Backend, backend.inspect_delay);
        true
    }
}

/// The rules of the current inspection.
fn rules_of<'a>(live: &'a Live, session: &TcpSession, whose: Rules) -> &'a [TcpRule] {
    match (whose, session.backend) {
        (Rules::Backend, Some(backend)) => &live.backends[backend.0].config.content_rules,
        (Rules::Frontend, _) | (Rules::Backend, None) => {
            &live.frontends[session.bind.frontend].config.content_rules
        }
    }
}
