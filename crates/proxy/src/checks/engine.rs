//! The engine of the check thread.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fulmar_engine::{Action, Connections, DriverEvent, Engine, SocketEvent, SocketId, Timeouts};
use fulmar_haproxy::BackendId;
use fulmar_haproxy::model::{BackendTimeouts, ServerCheck};
use fulmar_proto::{RawConnection, Transmit};
use fulmar_tls::{ClientTls, ConfigError};

use super::job::{Done, Job, On, Stage, reason};
use super::mailbox::{News, Told};
use super::notice::{self, Why};
use super::road::{Road, plain_tls};
use super::status::{CheckStatus, Finding};
use super::step::Way;
use super::talk::Talk;
use super::target::{self, Target};
use crate::balance::Admin;
use crate::journal::{Journal, Severity};
use crate::live::{Live, LiveBackend};

/// Checks the servers of all backends; a reactor on its own thread drives it.
#[derive(Debug)]
pub struct Checks {
    live: Arc<Live>,
    journal: Box<dyn Journal>,
    targets: Vec<Target>,
    due: BTreeSet<(Instant, usize)>, // the next check of each target without a running one
    connections: Connections<RawConnection, Job>,
    done: Vec<Done>,
    next_slow_start_step: Option<Instant>,
    slow_starting: BTreeSet<usize>, // backends with servers in a slow start
    plain_tls: Result<ClientTls, ConfigError>,
    dice: u32,
}

impl Checks {
    /// Checks all servers with `check`. Lines go to the logs of their backends.
    pub fn new(now: Instant, live: Arc<Live>, journal: Box<dyn Journal>) -> Self {
        let targets = targets(now, &live);
        let due = targets.iter().enumerate();
        Self {
            due: due.map(|(at, target)| (target.monitor.next_check(), at)).collect(),
            targets,
            journal,
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
            if target.rests(&self.live) {
                target.monitor.skip(now);
                self.due.insert((target.monitor.next_check(), at));
                continue;
            }
            target.live(&self.live).check.lock().running = true;
            let (talk, way) = Talk::new(&target.checked(&self.live).backend.config.check.kind);
            self.open(now, Job::new(at, talk, now, false), way);
        }
    }

    /// Opens a connection for a job, which may be its second.
    fn open(&mut self, now: Instant, mut job: Job, way: Way) {
        let checked = self.targets[job.target].checked(&self.live);
        let backend = &checked.backend.config;
        let Some(check) = &backend.servers[checked.server].check else { return };
        match Road::to(&checked, check, way, &self.plain_tls) {
            Err(error) => {
                let finding = Finding::new(CheckStatus::SocketError, reason(&error));
                self.done.push(Done::Found(job, finding));
            }
            Ok(road) => {
                (job.tls, job.stage) = (road.tls, Stage::Connecting);
                let deadline = now + patience(&backend.timeouts, check);
                let connection = RawConnection::default();
                let Road { endpoint, layer, .. } = road;
                let socket = self.connections.connect(now, endpoint, layer, connection, job);
                self.connections.set_timer(socket, Some(deadline));
            }
        }
    }

    /// Runs a function on the connections, then handles finished steps.
    fn act(
        &mut self,
        now: Instant,
        act: impl FnOnce(&mut Connections<RawConnection, Job>, &mut On<'_>),
    ) {
        let Self { connections, live, targets, done, .. } = self;
        act(connections, &mut On { live, targets, done });
        self.settle(now);
    }

    /// Handles finished steps until there are none.
    fn settle(&mut self, now: Instant) {
        while let Some(done) = self.done.pop() {
            match done {
                Done::Goes(job, way) => self.open(now, job, way),
                Done::Found(job, finding) => self.handle_found(now, &job, finding),
            }
        }
    }

    fn handle_found(&mut self, now: Instant, job: &Job, mut finding: Finding) {
        finding.duration = Some(now.saturating_duration_since(job.began));
        let dice = self.roll();
        let target = &mut self.targets[job.target];
        target.live(&self.live).check.lock().running = false;
        if target.rests(&self.live) {
            target.monitor.skip(now); // an operator disabled it meanwhile
        } else {
            target.handle_found(now, &self.live, finding, dice, &mut *self.journal);
        }
        let place = (target.backend, target.server);
        self.due.insert((target.monitor.next_check(), job.target));
        self.plan_warming(now, place);
    }

    /// Handles a report of another thread.
    fn handle_told(&mut self, now: Instant, told: Told) {
        let Told { backend: id, server, news } = told;
        let place = |target: &Target| (target.backend.0, target.server);
        let at = self.targets.binary_search_by_key(&(id.0, server), place).ok();
        let live = Arc::clone(&self.live);
        let before = at.map(|at| self.targets[at].monitor.next_check());
        match (news, at.map(|at| &mut self.targets[at])) {
            (News::Errors(count, last), Some(target)) if !target.rests(&live) => {
                let last = last.description();
                let info = format!("Detected {count} consecutive errors, last one was: {last}");
                target.handle_errors(now, &live, info, &mut *self.journal);
            }
            (News::Errors(..), _) => {}
            (News::Forced(change), target) => {
                if let Some(target) = target {
                    target.monitor.force(change.health);
                    target.live(&live).check.lock().score = target.monitor.score();
                }
                target::log_change(&live, (id, server), change, Why::Decided, &mut *self.journal);
            }
            (News::Followed(change), _) => {
                let why = Why::Followed(live.leader_name(id, server));
                target::log_change(&live, (id, server), change, why, &mut *self.journal);
            }
            (News::Decided { old, new, leaves_nobody }, target) => {
                let resumes = old == Admin::Maintenance && new != old;
                if let Some(target) = target.filter(|_| resumes) {
                    target.monitor.resume(now);
                    target.live(&live).check.lock().score = target.monitor.score();
                }
                let backend = &live.backends[id.0];
                for line in notice::decision(backend, server, old, new) {
                    target::log(&live, backend, Severity::Notice, &line, &mut *self.journal);
                }
                target::log_end(&live, backend, leaves_nobody, &mut *self.journal);
            }
        }
        if let (Some(at), Some(before)) = (at, before) {
            self.replan(at, before);
        }
        self.plan_warming(now, (id, server));
    }

    /// Updates the schedule after a change of the next check; `before` is its previous time.
    fn replan(&mut self, at: usize, before: Instant) {
        let next = self.targets[at].monitor.next_check();
        if self.due.remove(&(before, at)) {
            self.due.insert((next, at));
        }
    }

    /// Schedules the steps of a slow start, if this server is in one.
    fn plan_warming(&mut self, now: Instant, (backend, server): (BackendId, usize)) {
        let member = &self.live.backends[backend.0].group.members()[server];
        if let Some(every) = member.warms_every() {
            self.slow_starting.insert(backend.0);
            self.warm_after(now, every);
        }
    }

    fn warm_after(&mut self, now: Instant, every: Duration) {
        let next = now + every;
        self.next_slow_start_step =
            Some(self.next_slow_start_step.map_or(next, |known| known.min(next)));
    }

    /// Advances slow starts.
    fn warm(&mut self, now: Instant) {
        self.next_slow_start_step = None;
        for at in std::mem::take(&mut self.slow_starting) {
            let group = &Arc::clone(&self.live).backends[at].group;
            if group.warm(now) {
                self.live.tell_waiters(BackendId(at));
            }
            if let Some(every) = group.warms_every() {
                self.slow_starting.insert(at);
                self.warm_after(now, every);
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
fn targets(now: Instant, live: &Live) -> Vec<Target> {
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
        Target::new(live, backend, server, check, first(at, check))
    };
    found.into_iter().enumerate().map(new).collect()
}

/// The connect timeout of a check: `timeout connect` if `timeout check` is set, which begins after
/// the connect; otherwise `inter` covers everything.
fn patience(timeouts: &BackendTimeouts, check: &ServerCheck) -> Duration {
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
                for told in self.live.checks.take() {
                    self.handle_told(now, told);
                }
            }
            // It accepts no connections, and its addresses are known.
            DriverEvent::AcceptFailed(..) | DriverEvent::Resolved(..) | DriverEvent::Flush => {}
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        let action = self.connections.poll_action();
        if action.is_none() {
            self.journal.flush();
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
            job.stage = Stage::Securing;
            let backend = &self.targets[job.target].checked(&self.live).backend.config;
            if let Some(patience) = backend.timeouts.check {
                self.connections.set_timer(socket, Some(now + patience));
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.act(now, |connections, on| connections.handle_timeout(now, on));
        self.start_due(now);
        self.settle(now);
        if self.next_slow_start_step.is_some_and(|at| at <= now) {
            self.warm(now);
        }
    }
}
