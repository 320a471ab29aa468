//! The servers of a backend, as all threads see them.
//!
//! Places are exact across threads: never more than a server's limit are taken. Who finds none
//! waits in its thread's [`crate::balance::Queue`], and nobody comes first who came later: as long as
//! somebody waits for a place, a newcomer waits too.

use std::cell::OnceCell;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::balance::member::{Admin, Health, Member, Settings, Weight};
use crate::balance::waiting::Waiting;

/// What a configuration says of all servers of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How many threads place sessions.
    pub threads: usize,
    /// `option allbackups`: all usable backups are used at once, not only the first.
    pub all_backups: bool,
    /// `fullconn`: the load of the backend at which dynamic limits reach `maxconn`.
    pub connections_full: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self { threads: 1, all_backups: false, connections_full: 0 }
    }
}

/// What came of looking for a place. A place that is given has to be given back with
/// [`Group::leave`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// A place at this server.
    Placed(usize),
    /// Push it to the queue, for this.
    Wait(Wants),
    /// Too many wait for this server already (`maxqueue`).
    Crowded(usize),
    /// No server is usable.
    Nobody,
}

/// Whose place is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// Any server's.
    Any,
    /// This server's.
    Server(usize),
}

/// The servers of a backend, as all threads see them.
#[derive(Debug)]
pub struct Group {
    members: Vec<Member>,
    policy: Policy,
    epoch: AtomicU64,
    in_use: AtomicU32, // ACTIVE, BACKUPS, or one backup
    changing: Mutex<()>,
    pub(crate) waiting: Waiting,
}

impl Group {
    /// As configured.
    pub fn new(policy: Policy, settings: impl IntoIterator<Item = Settings>) -> Self {
        let members: Vec<_> = settings.into_iter().map(Member::new).collect();
        let group = Self {
            waiting: Waiting::new(policy.threads, members.len()),
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

    /// Grows whenever it changes who is usable or how much they weigh: pickers follow.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Usable servers that are no backups.
    pub fn active(&self) -> usize {
        self.members.iter().filter(|member| member.is_usable() && !member.is_backup()).count()
    }

    /// Usable backups.
    pub fn backups(&self) -> usize {
        self.members.iter().filter(|member| member.is_usable() && member.is_backup()).count()
    }

    /// Servers that are usable, backups too (`nbsrv`).
    pub fn usable(&self) -> usize {
        self.members.iter().filter(|member| member.is_usable()).count()
    }

    /// True if balancing chooses this server now: backups wait until no other is usable.
    pub fn is_in_use(&self, server: usize) -> bool {
        let member = &self.members[server];
        member.is_usable()
            && match self.in_use.load(Ordering::SeqCst) {
                ACTIVE => !member.is_backup(),
                BACKUPS => member.is_backup(),
                one => one as usize == server,
            }
    }

    /// How many wait for any server.
    pub fn queued(&self) -> u32 {
        self.waiting.any()
    }

    /// How many are served or wait, at all servers.
    pub fn load(&self) -> u32 {
        let all = self.members.iter().map(|member| member.sessions() + member.queued());
        all.sum::<u32>() + self.queued()
    }

    /// How many places a server has now (`maxconn`, `minconn`, `slowstart`); 0: without limit.
    pub fn limit(&self, server: usize) -> u32 {
        self.room().limit(server)
    }

    /// True if the server has a free place.
    pub fn has_room(&self, server: usize) -> bool {
        self.room().is_at(server)
    }

    /// To ask about many servers: their load together is looked at once, and only if one asks.
    pub(crate) fn room(&self) -> Room<'_> {
        Room { group: self, load: OnceCell::new() }
    }

    /// A place at a server that was chosen otherwise: by a cookie, `use-server`, or a hash.
    pub fn try_place_at(&self, server: usize) -> Placement {
        let member = &self.members[server];
        if !member.is_reachable() {
            return Placement::Nobody;
        }
        if !self.is_awaited(server) && self.enter(server) {
            return Placement::Placed(server);
        }
        let crowd = member.settings().queue_max;
        match crowd > 0 && member.queued() >= crowd {
            true => Placement::Crowded(server),
            false => Placement::Wait(Wants::Server(server)),
        }
    }

    /// Gives a place back. Then ask [`crate::balance::Queue::next_for`] whose turn it is.
    pub fn leave(&self, server: usize) {
        self.members[server].leave();
    }

    pub(crate) fn enter(&self, server: usize) -> bool {
        self.members[server].enter(self.limit(server))
    }

    /// True if somebody waits who could have the server's next place.
    fn is_awaited(&self, server: usize) -> bool {
        self.members[server].queued() > 0 || self.waiting.any() > 0 && self.is_in_use(server)
    }

    /// Who sees to it that waiters hear of a change that made room, or took a server from them:
    /// these threads have to be woken, and ask [`crate::balance::Queue::take_wake`].
    pub fn waiters(&self) -> impl Iterator<Item = usize> {
        let waits = |thread: &usize| self.waiting.waits(*thread) && self.waiting.alarm(*thread);
        (0..self.policy.threads).filter(waits)
    }

    /// `set server … state`.
    pub fn set_admin(&self, server: usize, admin: Admin) {
        self.change(|| self.members[server].put_admin(admin));
    }

    /// Its health has changed, by a check or by an operator. A slow start begins if it came up.
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

    /// `set server … addr`: new connections go there.
    pub fn set_address(&self, server: usize, address: SocketAddr) {
        self.change(|| self.members[server].put_address(address));
    }

    /// Lets slow starts go on: true if that has made room. Asked every so often
    /// ([`Group::warms_every`]) while a server is starting.
    pub fn warm(&self, now: Instant) -> bool {
        let mut warmer = false;
        for member in self.members.iter().filter(|member| member.is_starting()) {
            let whole = member.settings().slow_start.unwrap_or_default();
            let since = member.record().changed;
            let elapsed = since.map_or(whole, |since| now.saturating_duration_since(since));
            warmer |= member.put_warmth(elapsed, whole);
        }
        if warmer {
            self.change(|| {});
        }
        warmer
    }

    /// How often slow starts take a step, if one is going on: the shortest in twenty.
    pub(crate) fn warms_every(&self) -> Option<Duration> {
        self.members.iter().filter_map(Member::warms_every).min()
    }

    /// Does what changes somebody's place in the rotation, and finds out who is used now.
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
        self.in_use.store(in_use, Ordering::SeqCst);
        self.epoch.fetch_add(1, Ordering::Release);
    }
}

/// Who has a free place.
#[derive(Debug)]
pub(crate) struct Room<'g> {
    group: &'g Group,
    load: OnceCell<u32>,
}

impl Room<'_> {
    /// See [`Group::limit`].
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

    /// See [`Group::has_room`].
    pub(crate) fn is_at(&self, server: usize) -> bool {
        let limit = self.limit(server);
        limit == 0 || self.group.members[server].sessions() < limit
    }
}

/// So many percent of a limit, at most all of it.
fn share(limit: u32, percent: u32) -> u32 {
    let share = u64::from(limit) * u64::from(percent) / 100;
    u32::try_from(share).map_or(limit, |share| share.min(limit))
}

/// What statistics tell of a change, and the beginning of a slow start.
fn count_change(member: &Member, before: Health, health: Health, now: Instant) {
    let mut record = member.record();
    if before == Health::Down {
        record.down_for = record.downtime(now, true);
        let whole = member.settings().slow_start.unwrap_or_default();
        member.put_warmth(Duration::ZERO, whole);
    }
    if health == Health::Down {
        record.downs += 1;
    }
    record.changed = Some(now);
}

/// The limit of a server under load: between both of its own as the backend's load is between
/// nothing and full.
fn dynamic(min: u32, max: u32, load: u32, full: u32) -> u32 {
    let part = u64::from(load) * u64::from(max) / u64::from(full);
    u32::try_from(part).map_or(max, |part| part.clamp(min, max))
}

/// In use: those that are no backups.
const ACTIVE: u32 = u32::MAX;
/// In use: all backups.
const BACKUPS: u32 = u32::MAX - 1;

#[cfg(test)]
mod tests {
    use super::*;

    /// It was summed up over all servers for each server that was asked about: a pick among a
    /// thousand took a million looks.
    #[test]
    fn the_load_of_all_is_looked_at_once_for_all() {
        let settings =
            Settings { weight: 1, connections_max: 10, connections_min: 1, ..Settings::default() };
        let policy = Policy { connections_full: 10, ..Policy::default() };
        let group = Group::new(policy, [settings; 3]);
        let room = group.room();
        assert_eq!(room.limit(0), 1);
        (0..5).for_each(|_| assert!(group.members[2].enter(0)));
        assert_eq!(room.limit(1), 1, "what was seen once holds");
        assert_eq!(group.limit(1), 5, "who asks anew looks anew");
    }

    /// A hundred times a limit did not fit into 32 bits: a panic, or no place at all.
    #[test]
    fn a_large_limit_grows_like_others() {
        let settings = Settings {
            weight: 1,
            connections_max: u32::MAX,
            slow_start: Some(Duration::from_secs(10)),
            ..Settings::default()
        };
        let group = Group::new(Policy::default(), [settings]);
        let member = &group.members[0];
        member.put_warmth(Duration::from_secs(5), Duration::from_secs(10));
        assert_eq!(group.limit(0), u32::MAX / 2);
    }
}
