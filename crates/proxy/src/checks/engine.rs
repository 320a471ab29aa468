//! The engine of the check thread.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fulmar_engine::{Action, Connections, DriverEvent, Engine, SocketEvent, SocketId, Timeouts};
use fulmar_haproxy::BackendId;
use fulmar_haproxy::model::{BackendTimeouts, ServerCheck};
use fulmar_proto::{RawConnection, Transmit};
use fulmar_tls::{ClientTls, ConfigError};

use super::check_connect::{CheckConnection, plain_tls};
use super::conversation::Conversation;
use super::job::{CheckJob, CheckStage, JobEvents, StepEnd, reason};
use super::reports::{ServerEvent, ServerReport};
use super::server_log::{self, ChangeReason};
use super::status::{CheckStatus, Finding};
use super::step::ConnectSettings;
use super::target::{self, CheckTarget};
use crate::balance::Admin;
use crate::live::{Live, LiveBackend};
use crate::proxy_log::{LogSeverity, ProxyLog};

/// Checks the servers of all backends; a reactor on its own thread drives it.
#[derive(Debug)]
pub struct Checks {
    live: Arc<Live>,
    proxy_log: Box<dyn ProxyLog>,
    targets: Vec<CheckTarget>,
    due: BTreeSet<(Instant, usize)>, // the next check of each target without a running one
    connections: Connections<RawConnection, CheckJob>,
    done: Vec<StepEnd>,
    next_slow_start_step: Option<Instant>,
    slow_starting: BTreeSet<usize>, // backends with servers in a slow start
    plain_tls: Result<ClientTls, ConfigError>,
    dice: u32,
}

impl Checks {
    /// Checks all servers with `check`. Lines go to the logs of their backends.
    pub fn new(now: Instant, live: Arc<Live>, proxy_log: Box<dyn ProxyLog>) -> Self {
        let targets = targets(now, &live);
        let due = targets.iter().enumerate();
        Self {
            due: due.map(|(at, target)| (target.monitor.next_check(), at)).collect(),
            targets,
            proxy_log,
            connections: Connections::new(now, Timeouts::default(), 0, 1),
            done: Vec::new(),
            next_slow_start_step: None,
            slow_starting: BTreeSet::new(),
            plain_tls: plain_tls(),
            dice: std::process::id(),
            live,
        }
    }

    /// Starts the due checks.
    fn start_due(&mut self, now: Instant) {
        while let Some(&(when, at)) = self.due.first() {
            if when > now {
                break;
            }
            self.due.pop_first();
            let target = &mut self.targets[at];
            if target.is_paused(&self.live) {
                target.monitor.skip(now);
                self.due.insert((target.monitor.next_check(), at));
                continue;
            }
            target.live(&self.live).check.lock().running = true;
            let (conversation, way) =
                Conversation::new(&target.checked(&self.live).backend.config.check.kind);
            self.open(now, CheckJob::new(at, conversation, now, false), way);
        }
    }

    /// Opens a connection for a job, which may be its second.
    fn open(&mut self, now: Instant, mut job: CheckJob, way: ConnectSettings) {
        let checked = self.targets[job.target].checked(&self.live);
        let backend = &checked.backend.config;
        let check = backend.servers[checked.server].check.as_ref();
        let check = check.expect("only servers with checks are targets");
        match CheckConnection::to(&checked, check, way, &self.plain_tls) {
            Err(error) => {
                let finding = Finding::new(CheckStatus::SocketError, reason(&error));
                self.done.push(StepEnd::Found(job, finding));
            }
            Ok(opened) => {
                (job.tls, job.stage) = (opened.tls, CheckStage::Connecting);
                let deadline = now + connect_timeout(&backend.timeouts, check);
                let connection = RawConnection::default();
                let CheckConnection { endpoint, layer, .. } = opened;
                let socket = self.connections.connect(now, endpoint, layer, connection, job);
                self.connections.set_timer(socket, Some(deadline));
            }
        }
    }

    /// Runs a function on the connections, then handles finished steps.
    fn act(
        &mut self,
        now: Instant,
        act: impl FnOnce(&mut Connections<RawConnection, CheckJob>, &mut JobEvents<'_>),
    ) {
        let Self { connections, live, targets, done, .. } = self;
        act(connections, &mut JobEvents { live, targets, done });
        self.settle(now);
    }

    /// Handles finished steps until there are none.
    fn settle(&mut self, now: Instant) {
        while let Some(done) = self.done.pop() {
            match done {
                StepEnd::Reconnect(job, way) => self.open(now, job, way),
                StepEnd::Found(job, finding) => self.handle_found(now, &job, finding),
            }
        }
    }

    fn handle_found(&mut self, now: Instant, job: &CheckJob, mut finding: Finding) {
        finding.duration = Some(now.saturating_duration_since(job.began));
        let dice = self.roll();
        let target = &mut self.targets[job.target];
        target.live(&self.live).check.lock().running = false;
        if target.is_paused(&self.live) {
            target.monitor.skip(now); // an operator disabled it meanwhile
        } else {
            target.handle_found(now, &self.live, finding, dice, &mut *self.proxy_log);
        }
        let place = (target.backend, target.server);
        self.due.insert((target.monitor.next_check(), job.target));
        self.plan_slow_start(now, place);
    }

    /// Handles a report of another thread.
    fn handle_report(&mut self, now: Instant, report: ServerReport) {
        let ServerReport { backend: id, server, news } = report;
        let place = |target: &CheckTarget| (target.backend.0, target.server);
        let at = self.targets.binary_search_by_key(&(id.0, server), place).ok();
        let live = Arc::clone(&self.live);
        let before = at.map(|at| self.targets[at].monitor.next_check());
        match (news, at.map(|at| &mut self.targets[at])) {
            (ServerEvent::Errors(count, last), Some(target)) if !target.is_paused(&live) => {
                let last = last.description();
                let info = format!("Detected {count} consecutive errors, last one was: {last}");
                target.handle_errors(now, &live, info, &mut *self.proxy_log);
            }
            (ServerEvent::Errors(..), _) => {}
            (ServerEvent::Forced(change), target) => {
                if let Some(target) = target {
                    target.monitor.force(change.health);
                    target.live(&live).check.lock().score = target.monitor.score();
                }
                target::log_change(
                    &live,
                    (id, server),
                    change,
                    ChangeReason::Operator,
                    &mut *self.proxy_log,
                );
            }
            (ServerEvent::Tracked(change), _) => {
                let why = ChangeReason::Tracked(live.tracked_name(id, server));
                target::log_change(&live, (id, server), change, why, &mut *self.proxy_log);
            }
            (ServerEvent::Decided { old, new, leaves_none }, target) => {
                let resumes = old == Admin::Maintenance && new != old;
                if let Some(target) = target.filter(|_| resumes) {
                    target.monitor.resume(now);
                    target.live(&live).check.lock().score = target.monitor.score();
                }
                let backend = &live.backends[id.0];
                for line in server_log::decision(backend, server, old, new) {
                    target::log(&live, backend, LogSeverity::Notice, &line, &mut *self.proxy_log);
                }
                target::log_end(&live, backend, leaves_none, &mut *self.proxy_log);
            }
        }
        if let (Some(at), Some(before)) = (at, before) {
            self.reschedule(at, before);
        }
        self.plan_slow_start(now, (id, server));
    }

    /// Updates the schedule after a change of the next check; `before` is its previous time.
    fn reschedule(&mut self, at: usize, before: Instant) {
        let next = self.targets[at].monitor.next_check();
        if self.due.remove(&(before, at)) {
            self.due.insert((next, at));
        }
    }

    /// Schedules the steps of a slow start, if this server is in one.
    fn plan_slow_start(&mut self, now: Instant, (backend, server): (BackendId, usize)) {
        let member = &self.live.backends[backend.0].group.members()[server];
        if let Some(every) = member.slow_start_interval() {
            self.slow_starting.insert(backend.0);
            self.plan_slow_start_step(now, every);
        }
    }

    fn plan_slow_start_step(&mut self, now: Instant, every: Duration) {
        let next = now + every;
        self.next_slow_start_step =
            Some(self.next_slow_start_step.map_or(next, |known| known.min(next)));
    }

    /// Advances slow starts.
    fn slow_start_step(&mut self, now: Instant) {
        self.next_slow_start_step = None;
        for at in std::mem::take(&mut self.slow_starting) {
            let group = &Arc::clone(&self.live).backends[at].group;
            if group.slow_start_step(now) {
                self.live.wake_waiting(BackendId(at));
            }
            if let Some(every) = group.slow_start_interval() {
                self.slow_starting.insert(at);
                self.plan_slow_start_step(now, every);
            }
        }
    }

    /// The next pseudo-random number.
    fn roll(&mut self) -> u32 {
        self.dice = self.dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.dice
    }
}

/// All servers with `check`, by backend, then by server. The first checks are spread over their
/// intervals, or within `max-spread-checks`.
fn targets(now: Instant, live: &Live) -> Vec<CheckTarget> {
    let mut found = Vec::new();
    let works = |it: &(usize, &LiveBackend)| !it.1.config.disabled;
    for (at, backend) in live.backends.iter().enumerate().filter(works) {
        let servers = backend.config.servers.iter().enumerate();
        let checked = servers.filter_map(|(server, it)| Some((server, it.check.as_ref()?)));
        found.extend(checked.map(|(server, check)| (BackendId(at), server, check)));
    }
    let within = live.config.global.first_checks_within.unwrap_or(Duration::MAX);
    let count = u32::try_from(found.len()).unwrap_or(u32::MAX).max(1);
    let first = |at: usize, check: &ServerCheck| {
        let at = u32::try_from(at).unwrap_or(u32::MAX);
        now + check.interval.min(within).mul_f64(f64::from(at) / f64::from(count))
    };
    let new = |(at, (backend, server, check)): (usize, (BackendId, usize, &ServerCheck))| {
        CheckTarget::new(live, backend, server, check, first(at, check))
    };
    found.into_iter().enumerate().map(new).collect()
}

/// The connect timeout of a check: `timeout connect` if `timeout check` is set, which begins after
/// the connect; otherwise `inter` covers everything.
fn connect_timeout(timeouts: &BackendTimeouts, check: &ServerCheck) -> Duration {
    let connect = timeouts.check.and(timeouts.connect);
    connect.map_or(check.interval, |connect| connect.min(check.interval))
}

impl Engine for Checks {
    fn handle(&mut self, now: Instant, event: DriverEvent<'_>) {
        match event {
            DriverEvent::Socket(socket, event) => {
                if matches!(event, SocketEvent::Connected) {
                    self.handle_connected(now, socket);
                }
                self.act(now, |connections, on| connections.handle(now, socket, event, on));
            }
            DriverEvent::Timeout => self.handle_timeout(now),
            DriverEvent::Wake => {
                for report in self.live.checks.take() {
                    self.handle_report(now, report);
                }
            }
            // It accepts no connections, and its addresses are known.
            DriverEvent::AcceptFailed(..) | DriverEvent::Resolved(..) | DriverEvent::Flush => {}
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        let action = self.connections.poll_action();
        if action.is_none() {
            self.proxy_log.flush();
        }
        action
    }

    fn poll_transmit(&mut self, socket: SocketId) -> Option<Transmit<'_>> {
        self.connections.poll_transmit(socket)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let due = self.due.first().map(|(when, _)| *when);
        [self.connections.poll_timeout(), due, self.next_slow_start_step]
            .into_iter()
            .flatten()
            .min()
    }
}

impl Checks {
    fn handle_connected(&mut self, now: Instant, socket: SocketId) {
        if let Some((_, job)) = self.connections.get_mut(socket) {
            job.stage = CheckStage::Securing;
            let backend = &self.targets[job.target].checked(&self.live).backend.config;
            if let Some(connect_timeout) = backend.timeouts.check {
                self.connections.set_timer(socket, Some(now + connect_timeout));
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.act(now, |connections, on| connections.handle_timeout(now, on));
        self.start_due(now);
        self.settle(now);
        if self.next_slow_start_step.is_some_and(|at| at <= now) {
            self.slow_start_step(now);
        }
    }
}
