//! The servers of a backend, shared by all threads.
//!
//! Connection slots are exact across threads: a server's limit is never exceeded. A session without
//! a slot waits in its thread's [`crate::balance::WaitQueue`]. Slots are assigned in order of
//! arrival: while a session waits, new sessions wait too.

use std::cell::OnceCell;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::balance::member::{Admin, Health, Member, MemberSettings, Weight};
use crate::balance::waiting::WaitingSessions;

/// Settings of a backend's servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupPolicy {
    /// Number of threads that assign slots.
    pub threads: usize,
    /// `option allbackups`: all usable backup servers are used, not only the first.
    pub all_backups: bool,
    /// `fullconn`: the load of the backend at which dynamic limits reach `maxconn`.
    pub connections_full: u32,
}

impl Default for GroupPolicy {
    fn default() -> Self {
        Self { threads: 1, all_backups: false, connections_full: 0 }
    }
}

/// The result of a slot request. An assigned slot must be released with [`ServerGroup::leave`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// A slot of this server.
    Placed(usize),
    /// No free slot: push the session to the queue.
    Wait(Wants),
    /// No free slot, and the server's queue is full (`maxqueue`).
    QueueFull(usize),
    /// No usable server.
    NoServer,
}

/// Which slot a session waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// Of any server.
    Any,
    /// Of this server.
    Server(usize),
}

/// The servers of a backend, shared by all threads.
#[derive(Debug)]
pub struct ServerGroup {
    members: Vec<Member>,
    policy: GroupPolicy,
    epoch: AtomicU64,
    in_use: AtomicU32, // ACTIVE, BACKUPS, or one backup
    changing: Mutex<()>,
    pub(crate) waiting: WaitingSessions,
}

impl ServerGroup {
    /// A group with these settings.
    pub fn new(policy: GroupPolicy, settings: impl IntoIterator<Item = MemberSettings>) -> Self {
        let members: Vec<_> = settings.into_iter().map(Member::new).collect();
        let group = Self {
            waiting: WaitingSessions::new(policy.threads, members.len()),
            members,
            policy,
            epoch: AtomicU64::new(0),
            in_use: AtomicU32::new(ACTIVE),
            changing: Mutex::new(()),
        };
        group.change(|| {});
        group
    }

    /// The servers, in the order of the configuration.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Increases with every change of usable servers or weights: pickers update themselves.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Number of usable servers, without backups.
    pub fn active(&self) -> usize {
        self.members.iter().filter(|member| member.is_usable() && !member.is_backup()).count()
    }

    /// Number of usable backup servers.
    pub fn backups(&self) -> usize {
        self.members.iter().filter(|member| member.is_usable() && member.is_backup()).count()
    }

    /// Number of usable servers, including backups (`nbsrv`).
    pub fn usable(&self) -> usize {
        self.members.iter().filter(|member| member.is_usable()).count()
    }

    /// True if load balancing may select this server: backups are selected only while no other
    /// server is usable.
    pub fn is_in_use(&self, server: usize) -> bool {
        let member = &self.members[server];
        member.is_usable()
            && match self.in_use.load(Ordering::SeqCst) {
                ACTIVE => !member.is_backup(),
                BACKUPS => member.is_backup(),
                one => one as usize == server,
            }
    }

    /// Number of sessions that wait for any server.
    pub fn queued(&self) -> u32 {
        self.waiting.any()
    }

    /// Number of active and waiting sessions at all servers.
    pub fn load(&self) -> u32 {
        let all = self.members.iter().map(|member| member.sessions() + member.queued());
        all.sum::<u32>() + self.queued()
    }

    /// The current limit of a server (`maxconn`, `minconn`, `slowstart`); 0: unlimited.
    pub fn limit(&self, server: usize) -> u32 {
        self.room().limit(server)
    }

    /// True if the server has a free slot.
    pub fn has_room(&self, server: usize) -> bool {
        self.room().is_at(server)
    }

    /// For queries about many servers: the total load is computed once, on first use.
    pub(crate) fn room(&self) -> FreeSlots<'_> {
        FreeSlots { group: self, load: OnceCell::new() }
    }

    /// Takes a slot of a server selected by a cookie, `use-server` or a hash.
    pub fn try_place_at(&self, server: usize) -> Placement {
        let member = &self.members[server];
        if !member.is_reachable() {
            return Placement::NoServer;
        }
        if !self.is_awaited(server) && self.enter(server) {
            return Placement::Placed(server);
        }
        let queue_max = member.settings().queue_max;
        match queue_max > 0 && member.queued() >= queue_max {
            true => Placement::QueueFull(server),
            false => Placement::Wait(Wants::Server(server)),
        }
    }

    /// Releases a slot. Call [`crate::balance::WaitQueue::next_for`] afterwards.
    pub fn leave(&self, server: usize) {
        self.members[server].leave();
    }

    pub(crate) fn enter(&self, server: usize) -> bool {
        self.members[server].enter(self.limit(server))
    }

    /// True if a waiting session may get the server's next free slot.
    fn is_awaited(&self, server: usize) -> bool {
        self.members[server].queued() > 0 || self.waiting.any() > 0 && self.is_in_use(server)
    }

    /// Threads to wake after a change that made slots free or a server unusable. They call
    /// [`crate::balance::WaitQueue::take_wake`].
    pub fn threads_to_wake(&self) -> impl Iterator<Item = usize> {
        let waits = |thread: &usize| self.waiting.waits(*thread) && self.waiting.alarm(*thread);
        (0..self.policy.threads).filter(waits)
    }

    /// `set server … state`.
    pub fn set_admin(&self, server: usize, admin: Admin) {
        self.change(|| self.members[server].put_admin(admin));
    }

    /// Sets the health, found by a check or set by an operator. When the server comes up, its slow
    /// start begins.
    pub fn set_health(&self, server: usize, health: Health, now: Instant) {
        let member = &self.members[server];
        self.change(|| {
            let before = member.health();
            member.put_health(health);
            if before != health {
                count_change(member, before, health, now);
            }
        });
    }

    /// `set server … weight`.
    pub fn set_weight(&self, server: usize, weight: Weight) {
        self.change(|| self.members[server].put_weight(weight));
    }

    /// `set maxconn server`; 0: no limit.
    pub fn set_connections_max(&self, server: usize, max: u32) {
        self.change(|| self.members[server].put_connections_max(max));
    }

    /// `set server … addr`: the address of new connections.
    pub fn set_address(&self, server: usize, address: SocketAddr) {
        self.change(|| self.members[server].put_address(address));
    }

    /// Advances slow starts; true if slots became free. Call it at intervals of
    /// `ServerGroup::slow_start_interval` while a server is starting.
    pub(crate) fn slow_start_step(&self, now: Instant) -> bool {
        let mut changed = false;
        for member in self.members.iter().filter(|member| member.is_starting()) {
            let whole = member.settings().slow_start.unwrap_or_default();
            let since = member.record().changed;
            let elapsed = since.map_or(whole, |since| now.saturating_duration_since(since));
            changed |= member.set_slow_start_progress(elapsed, whole);
        }
        if changed {
            self.change(|| {});
        }
        changed
    }

    /// The interval of slow start steps, if a slow start is running: a twentieth of the shortest
    /// one.
    pub(crate) fn slow_start_interval(&self) -> Option<Duration> {
        self.members.iter().filter_map(Member::slow_start_interval).min()
    }

    /// Applies a change that may affect usable servers or weights, and updates the group.
    fn change(&self, act: impl FnOnce()) {
        let _alone = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        act();
        let usable = |backup| {
            let fits = move |member: &&Member| member.is_usable() && member.is_backup() == backup;
            self.members.iter().filter(fits).count()
        };
        let first = self.members.iter().position(|member| member.is_usable() && member.is_backup());
        let in_use = match first.and_then(|first| u32::try_from(first).ok()) {
            Some(first) if usable(false) == 0 && !self.policy.all_backups => first,
            Some(_) if usable(false) == 0 => BACKUPS,
            _ => ACTIVE,
        };
        debug_assert!(in_use == ACTIVE || usable(true) > 0, "a backup in use is usable");
        self.in_use.store(in_use, Ordering::SeqCst);
        self.epoch.fetch_add(1, Ordering::Release);
    }
}

/// Free slots of servers.
#[derive(Debug)]
pub(crate) struct FreeSlots<'g> {
    group: &'g ServerGroup,
    load: OnceCell<u32>,
}

impl FreeSlots<'_> {
    /// See [`ServerGroup::limit`].
    pub(crate) fn limit(&self, server: usize) -> u32 {
        let member = &self.group.members[server];
        let max = member.connections_max();
        if max == 0 {
            return 0;
        }
        let min = member.settings().connections_min;
        let full = self.group.policy.connections_full;
        let limit = match min == 0 || min >= max || full == 0 {
            true => max,
            false => dynamic(min, max, *self.load.get_or_init(|| self.group.load()), full),
        };
        match member.throttle() {
            100 => limit,
            percent => share(limit, percent).max(1),
        }
    }

    /// See [`ServerGroup::has_room`].
    pub(crate) fn is_at(&self, server: usize) -> bool {
        let limit = self.limit(server);
        limit == 0 || self.group.members[server].sessions() < limit
    }
}

/// A percentage of a limit, at most the limit.
fn share(limit: u32, percent: u32) -> u32 {
    let share = u64::from(limit) * u64::from(percent) / 100;
    u32::try_from(share).map_or(limit, |share| share.min(limit))
}

/// Counts a change of health for statistics, and begins a slow start.
fn count_change(member: &Member, before: Health, health: Health, now: Instant) {
    let mut record = member.record();
    if before == Health::Down {
        record.down_for = record.downtime(now, true);
        let whole = member.settings().slow_start.unwrap_or_default();
        member.set_slow_start_progress(Duration::ZERO, whole);
    }
    if health == Health::Down {
        record.downs += 1;
    }
    record.changed = Some(now);
}

/// The dynamic limit of a server: between its minimum and maximum in proportion to the backend's
/// load.
fn dynamic(min: u32, max: u32, load: u32, full: u32) -> u32 {
    let part = u64::from(load) * u64::from(max) / u64::from(full);
    u32::try_from(part).map_or(max, |part| part.clamp(min, max))
}

/// All servers except backups are in use.
const ACTIVE: u32 = u32::MAX;
/// All backups are in use.
const BACKUPS: u32 = u32::MAX - 1;

#[cfg(test)]
mod tests {
    use super::*;

    /// Once, the load of all servers was summed up for each candidate: a pick among 1,000 servers
    /// read 1,000,000 loads.
    #[test]
    fn total_load_is_computed_once_per_query() {
        let settings = MemberSettings {
            weight: 1,
            connections_max: 10,
            connections_min: 1,
            ..MemberSettings::default()
        };
        let policy = GroupPolicy { connections_full: 10, ..GroupPolicy::default() };
        let group = ServerGroup::new(policy, [settings; 3]);
        let room = group.room();
        assert_eq!(room.limit(0), 1);
        (0..5).for_each(|_| assert!(group.members[2].enter(0)));
        assert_eq!(room.limit(1), 1, "the load is cached");
        assert_eq!(group.limit(1), 5, "a new query reads the load again");
    }

    /// Once, 100 times the limit exceeded 32 bits: a panic, or no slot at all.
    #[test]
    fn a_large_limit_grows_like_others() {
        let settings = MemberSettings {
            weight: 1,
            connections_max: u32::MAX,
            slow_start: Some(Duration::from_secs(10)),
            ..MemberSettings::default()
        };
        let group = ServerGroup::new(GroupPolicy::default(), [settings]);
        let member = &group.members[0];
        member.set_slow_start_progress(Duration::from_secs(5), Duration::from_secs(10));
        assert_eq!(group.limit(0), u32::MAX / 2);
    }
}
