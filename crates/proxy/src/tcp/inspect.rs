//! Rules that look at the first bytes, and where they lead.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fulmar_haproxy::BackendId;
use fulmar_haproxy::model::Target;
use fulmar_rules::tcp::{TcpAction, TcpRule};

use super::Tcp;
use super::ending::{By, Ending, When};
use super::session::{Rules, Stage};
use super::subject::View;
use crate::counters::Counter;
use crate::shared::Shared;

/// What a set of rules says.
#[derive(Debug)]
pub(super) enum Verdict {
    /// The action of the first rule that applies and ends them; accepted, if there is none.
    Decided(TcpAction),
    /// More bytes may change it.
    Waits,
}

/// Asks one rule after the other. One that cannot be told yet holds back those behind it.
pub(super) fn judge(rules: &[TcpRule], view: &View<'_>) -> Verdict {
    for rule in rules {
        let applies = match &rule.condition {
            None => Some(true),
            Some(condition) => match condition.holds(view) {
                true => Some(true),
                false if view.complete => Some(false),
                false => None,
            },
        };
        match applies {
            Some(true) => return Verdict::Decided(rule.action.clone()),
            Some(false) => {}
            None => return Verdict::Waits,
        }
    }
    Verdict::Decided(TcpAction::Accept)
}

impl Tcp {
    /// The first bytes are looked at, if there are rules to do so.
    pub(super) fn begin_to_inspect(&mut self, now: Instant, shared: &mut Shared, number: u32) {
        let Some(session) = self.desk.sessions.get_mut(number) else { return };
        session.stage = Stage::Inspecting(Rules::Frontend);
        let delay = shared.live.frontends[session.bind.frontend].config.inspect_delay;
        self.inspect(now, shared, number, delay);
    }

    /// The client has said something while rules wait for it.
    pub(super) fn handle_heard(&mut self, now: Instant, shared: &mut Shared, number: u32) {
        let Some(session) = self.desk.sessions.get(number) else { return };
        if let Stage::Inspecting(_) = session.stage {
            self.inspect(now, shared, number, None);
        }
    }

    /// Asks the rules. `delay`: these have not been asked before, and may wait for so long.
    pub(super) fn inspect(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        number: u32,
        delay: Option<Duration>,
    ) {
        let live = Arc::clone(&shared.live);
        let Some(session) = self.desk.sessions.get_mut(number) else { return };
        let Stage::Inspecting(whose) = session.stage else { return };
        let rules = match (whose, session.backend) {
            (Rules::Backend, Some(backend)) => &live.backends[backend.0].config.content_rules,
            _ => &live.frontends[session.bind.frontend].config.content_rules,
        };
        let age = session.age(now);
        if let Some(delay) = delay {
            let millis = u32::try_from(delay.as_millis()).unwrap_or(u32::MAX);
            session.times.inspected_until = Some(age.saturating_add(millis));
        }
        let is_over = session.times.inspected_until.is_none_or(|until| until <= age);
        let is_full = session.pending.is_full();
        let complete = is_over || is_full || session.pending.ended;
        let client = session.client;
        match judge(rules, &View { shared, session, complete }) {
            Verdict::Waits => {
                let until = session.times.inspected_until;
                let until = until.map(|ms| session.accepted + Duration::from_millis(ms.into()));
                self.set_timer(number, until);
            }
            Verdict::Decided(TcpAction::Reject) => self.deny(now, shared, number),
            Verdict::Decided(_) => {
                if let Some(client) = client.filter(|_| session_waited(delay)) {
                    self.clients.set_timer(client, None);
                }
                match whose {
                    Rules::Frontend => self.route(now, shared, number),
                    Rules::Backend => self.begin_to_reach(now, shared, number),
                }
            }
        }
    }

    /// A rule has rejected the session.
    fn deny(&mut self, now: Instant, shared: &Shared, number: u32) {
        let Some(session) = self.desk.sessions.get_mut(number) else { return };
        session.end(Ending { by: By::Proxy, when: When::Request });
        let bind = session.bind;
        let frontend = &shared.live.frontends[bind.frontend];
        super::admit::count(frontend, bind, shared.thread, Counter::DeniedRequests);
        self.cut_client(now, number);
    }

    /// Chooses the backend.
    fn route(&mut self, now: Instant, shared: &mut Shared, number: u32) {
        let live = Arc::clone(&shared.live);
        let Some(session) = self.desk.sessions.get_mut(number) else { return };
        let frontend = &live.frontends[session.bind.frontend].config;
        let view = View { shared, session, complete: true };
        let of_rule = |target: &Target| match target {
            Target::Backend(backend) => Some(*backend),
            Target::Named(format) => {
                let mut name = Vec::new();
                format.render(&view, &mut name);
                live.backend_named(&name)
            }
        };
        let found = frontend.use_backends.iter().find_map(|rule| {
            let holds = rule.condition.as_ref().is_none_or(|it| it.holds(&view));
            holds.then(|| of_rule(&rule.target)).flatten()
        });
        let Some(backend) = found.or(frontend.default_backend) else {
            session.end(Ending { by: By::Server, when: When::Connect });
            return self.cut_client(now, number);
        };
        session.backend = Some(backend);
        let counters = &live.backends[backend.0].counters[shared.thread];
        counters.add(Counter::SessionsTotal, 1);
        counters.add(Counter::Sessions, 1);
        self.set_limits(shared, number, backend);
        let backend = &live.backends[backend.0].config;
        let Some(session) = self.desk.sessions.get_mut(number) else { return };
        session.stage = Stage::Inspecting(Rules::Backend);
        self.inspect(now, shared, number, backend.inspect_delay);
    }

    /// A backend may say how long its clients may be silent.
    fn set_limits(&mut self, shared: &Shared, number: u32, backend: BackendId) {
        let backend = &shared.live.backends[backend.0].config;
        let Some(session) = self.desk.sessions.get(number) else { return };
        if let Some(client) = session.client.filter(|_| backend.timeouts.tunnel.is_some()) {
            let frontend = &shared.live.frontends[session.bind.frontend].config;
            let limits = self.clients.add_timeouts(super::limits::client(frontend, Some(backend)));
            self.clients.set_timeouts(client, limits);
        }
    }
}

/// True if a timer may have been set for these rules.
fn session_waited(delay: Option<Duration>) -> bool {
    delay.is_none()
}
