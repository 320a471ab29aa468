//! A checked server: its monitor, and the effects of results.

use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::balance::{
    Admin, CheckOutcome, CheckPlan, Health, HealthUpdate, Member, Monitor, Reaction,
};
use fulmar_haproxy::BackendId;
use fulmar_haproxy::model::{OnError, ServerCheck};

use super::check_context::Checked;
use super::server_log::{self, ChangeReason};
use super::status::{CheckStatus, Finding};
use crate::control::HealthChange;
use crate::live::{Live, LiveBackend, LiveServer};
use crate::proxy_log::{LogSeverity, ProxyLog};

/// A checked server.
#[derive(Debug)]
pub(super) struct CheckTarget {
    pub(super) backend: BackendId,
    pub(super) server: usize,
    pub(super) monitor: Monitor,
}

impl CheckTarget {
    /// A server with the plan of its configuration; the first check is at `first`.
    pub(super) fn new(
        live: &Live,
        backend: BackendId,
        server: usize,
        check: &ServerCheck,
        first: Instant,
    ) -> Self {
        let plan = CheckPlan {
            rise: check.rise,
            fall: check.fall,
            interval: check.interval,
            fast_interval: check.fast_interval,
            down_interval: check.down_interval,
            spread_percent: live.config.global.spread_checks.into(),
        };
        let found = &live.backends[backend.0];
        let monitor = Monitor::new(plan, first);
        let monitor = match found.servers[server].check.state().score {
            0 if found.group.members()[server].health() == Health::Up => monitor, // as configured
            _ => monitor.known_as(found.group.members()[server].health()),
        };
        Self { backend, server, monitor }
    }

    pub(super) fn checked<'l>(&self, live: &'l Live) -> Checked<'l> {
        Checked { backend: &live.backends[self.backend.0], server: self.server }
    }

    pub(super) fn member<'l>(&self, live: &'l Live) -> &'l Member {
        &live.backends[self.backend.0].group.members()[self.server]
    }

    pub(super) fn live<'l>(&self, live: &'l Live) -> &'l LiveServer {
        &live.backends[self.backend.0].servers[self.server]
    }

    /// True if it is not checked now.
    pub(super) fn is_paused(&self, live: &Live) -> bool {
        let member = self.member(live);
        member.admin() == Admin::Maintenance || !member.is_checked()
    }

    /// Handles the result of a check.
    pub(super) fn handle_found(
        &mut self,
        now: Instant,
        live: &Live,
        finding: Finding,
        dice: u32,
        proxy_log: &mut dyn ProxyLog,
    ) {
        let verdict = self.monitor.handle_result(now, finding.status.outcome(), dice);
        self.apply(now, live, finding, verdict, proxy_log);
    }

    /// Handles too many consecutive errors of its sessions, which `info` describes.
    pub(super) fn handle_errors(
        &mut self,
        now: Instant,
        live: &Live,
        info: String,
        proxy_log: &mut dyn ProxyLog,
    ) {
        let reaction = match self.live(live).config.on_error {
            OnError::FastInter => Reaction::FastInter,
            OnError::FailCheck => Reaction::FailCheck,
            OnError::SuddenDeath => Reaction::SuddenDeath,
            OnError::MarkDown => Reaction::MarkDown,
        };
        let verdict = self.monitor.handle_errors(now, reaction);
        self.member(live).record().error_runs += 1;
        if reaction != Reaction::FastInter {
            let finding = Finding::new(CheckStatus::HealthAnalysis, info);
            self.apply(now, live, finding, verdict, proxy_log);
        }
    }

    /// Applies a result: statistics, log lines, and the server's health.
    fn apply(
        &self,
        now: Instant,
        live: &Live,
        finding: Finding,
        verdict: HealthUpdate,
        proxy_log: &mut dyn ProxyLog,
    ) {
        let backend = &live.backends[self.backend.0];
        match finding.status.outcome() {
            CheckOutcome::Failed if verdict.counts => self.member(live).record().checks_failed += 1,
            CheckOutcome::Failed => {}
            // A successful check resets the count of errors.
            CheckOutcome::Passed | CheckOutcome::Conditional => {
                self.live(live).errors.store(0, Ordering::Relaxed);
            }
        }
        let before = {
            let mut last = self.live(live).check.lock();
            last.score = self.monitor.score();
            std::mem::replace(&mut last.finding, finding.clone()).status
        };
        let logs_checks = backend.config.log_health_checks;
        if logs_checks && (verdict.counts || before != finding.status) {
            let line = server_log::check(backend, self.server, &finding, &self.monitor);
            log(live, backend, LogSeverity::Notice, &line, proxy_log);
        }
        if let Some(health) = verdict.change {
            let why =
                if logs_checks { ChangeReason::Logged } else { ChangeReason::Found(&finding) };
            let change = live.put_health(self.backend, self.server, health, now);
            log_change(live, (self.backend, self.server), change, why, proxy_log);
            live.pass_on_health(self.backend, self.server, now);
        }
    }
}

/// Logs a change of health.
pub(super) fn log_change(
    live: &Live,
    (backend, server): (BackendId, usize),
    change: HealthChange,
    why: ChangeReason<'_>,
    proxy_log: &mut dyn ProxyLog,
) {
    let backend = &live.backends[backend.0];
    let (severity, line) = server_log::health(backend, server, change, why);
    log(live, backend, severity, &line, proxy_log);
    log_end(live, backend, change.leaves_none, proxy_log);
}

/// Logs that a backend has no usable server, if so.
pub(super) fn log_end(
    live: &Live,
    backend: &LiveBackend,
    leaves_none: bool,
    proxy_log: &mut dyn ProxyLog,
) {
    if leaves_none {
        log(live, backend, LogSeverity::Emergency, &server_log::no_server(backend), proxy_log);
    }
}

/// Logs a line at the targets of the backend.
pub(super) fn log(
    live: &Live,
    backend: &LiveBackend,
    severity: LogSeverity,
    line: &str,
    proxy_log: &mut dyn ProxyLog,
) {
    let tag = live.config.global.log_tag.as_deref();
    proxy_log.log(&backend.config.logs, tag, severity, line.as_bytes());
}
