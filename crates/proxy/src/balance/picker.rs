//! Server selection: one picker for each thread and backend.
//!
//! A selection scans all servers in use once. A tree would find the least loaded server in fewer
//! steps. But loads change on all threads: the tree would need a lock and an update for every start
//! and end of a session. For fewer than some hundred servers, that costs more than the scan. Hashed
//! keys use a table, which is rebuilt when the group's epoch changes.

use crate::balance::group::{Placement, ServerGroup, Wants};
use crate::balance::hash::avalanche;
use crate::balance::hash_tables::{HashRing, WeightMap};

/// The selection algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PickerRule {
    /// Smooth weighted round robin.
    #[default]
    RoundRobin,
    /// Weighted round robin by a table.
    StaticRoundRobin,
    /// The fewest sessions relative to the weight, including waiting ones; round robin among
    /// equals.
    LeastConnections,
    /// The first server with a free slot, by number.
    First,
    /// The least loaded of several servers drawn by weight.
    Random {
        /// Number of servers to draw; at least 1.
        draws: u32,
    },
    /// By the hash of a key; without a key as `StaticRoundRobin`.
    MapHash,
    /// By the hash of a key: most keys keep their server when a server is added or removed. Without
    /// a key as `RoundRobin`.
    ConsistentHash {
        /// Maximum load of a server in percent of the mean; 0: unlimited.
        balance_factor: u32,
    },
}

/// Selects the next server.
#[derive(Debug)]
pub struct Picker {
    rule: PickerRule,
    thread: usize,
    epoch: Option<u64>,
    candidates: Vec<Candidate>,
    table: HashTable,
    next: usize,
    seed: u32,
}

/// A server in use.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    server: usize,
    id: u32,
    share: u32,
    credit: i64, // of the smooth rotation: the highest credit is next
}

#[derive(Debug)]
enum HashTable {
    None,
    Map(WeightMap),
    Ring(HashRing),
}

impl Picker {
    /// Starts at a position that differs between threads.
    pub fn new(rule: PickerRule, thread: usize) -> Self {
        Self {
            rule,
            thread,
            epoch: None,
            candidates: Vec::new(),
            table: HashTable::None,
            next: thread,
            seed: u32::try_from(thread).unwrap_or(0),
        }
    }

    /// The next usable server with a free slot; takes no slot. If the algorithm uses a key, the
    /// hash selects the server, even without a free slot. Servers in `avoid` are selected only if
    /// there is no other. `None` if there is no server.
    pub fn pick(
        &mut self,
        group: &ServerGroup,
        key: Option<u32>,
        avoid: &[usize],
    ) -> Option<usize> {
        self.follow(group);
        match (&self.table, key) {
            (HashTable::Map(map), Some(key)) if self.is_by_key() => self.mapped(map, key, avoid),
            (HashTable::Ring(ring), Some(key)) => self.nearest(group, ring, key, avoid),
            _ => {
                let other = self.in_turn(group, |server| !avoid.contains(&server));
                if other.is_none() && !avoid.is_empty() {
                    return self.in_turn(group, |_| true);
                }
                other
            }
        }
    }

    /// True if the algorithm uses a key.
    pub(crate) fn is_by_key(&self) -> bool {
        matches!(self.rule, PickerRule::MapHash | PickerRule::ConsistentHash { .. })
    }

    /// True if any server is in use.
    pub(crate) fn has_any(&self) -> bool {
        !self.candidates.is_empty()
    }

    /// Updates the picker after changes in the group.
    pub(crate) fn follow(&mut self, group: &ServerGroup) {
        let epoch = group.epoch();
        if self.epoch == Some(epoch) {
            return;
        }
        let begins = self.epoch.is_none();
        self.epoch = Some(epoch);
        let old = std::mem::take(&mut self.candidates);
        let used = (0..group.members().len()).filter(|server| group.is_in_use(*server));
        self.candidates = used.map(|server| Candidate::new(group, server, &old)).collect();
        self.table = match self.rule {
            PickerRule::MapHash | PickerRule::StaticRoundRobin => {
                HashTable::Map(WeightMap::new(group))
            }
            PickerRule::ConsistentHash { .. } => HashTable::Ring(HashRing::new(group)),
            PickerRule::RoundRobin
            | PickerRule::LeastConnections
            | PickerRule::First
            | PickerRule::Random { .. } => HashTable::None,
        };
        if self.rule == PickerRule::First {
            self.candidates.sort_by_key(|candidate| candidate.id);
        }
        if begins {
            for _ in 0..self.thread.min(ROUNDS_MAX) {
                self.smooth(|_| true);
            }
        }
    }

    fn in_turn(&mut self, group: &ServerGroup, wanted: impl Fn(usize) -> bool) -> Option<usize> {
        let room = group.room();
        let fits = |server| wanted(server) && room.is_at(server);
        match self.rule {
            PickerRule::RoundRobin | PickerRule::ConsistentHash { .. } => self.smooth(fits),
            PickerRule::StaticRoundRobin | PickerRule::MapHash => self.along_map(fits),
            PickerRule::LeastConnections => self.least(group, fits),
            PickerRule::First => {
                let servers = self.candidates.iter().map(|candidate| candidate.server);
                servers.into_iter().find(|server| fits(*server))
            }
            PickerRule::Random { draws } => self.drawn(group, draws, fits),
        }
    }

    /// Smooth weighted rotation: each server earns its share, and the one with the most credit pays
    /// the sum.
    fn smooth(&mut self, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let mut total = 0;
        let mut best: Option<&mut Candidate> = None;
        for candidate in self.candidates.iter_mut().filter(|candidate| fits(candidate.server)) {
            candidate.credit += i64::from(candidate.share);
            total += i64::from(candidate.share);
            if best.as_ref().is_none_or(|best| candidate.credit > best.credit) {
                best = Some(candidate);
            }
        }
        let best = best?;
        best.credit -= total;
        Some(best.server)
    }

    fn along_map(&mut self, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let HashTable::Map(map) = &self.table else { unreachable!("the rule has a map") };
        let place =
            (self.next..self.next + map.len()).find(|place| map.at(*place).is_some_and(&fits))?;
        let found = map.at(place);
        self.next = (place + 1) % map.len();
        found
    }

    fn least(&mut self, group: &ServerGroup, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let len = self.candidates.len();
        let start = self.next.checked_rem(len)?;
        let places = (start..start + len).map(|place| place % len);
        let places = places.filter(|place| fits(self.candidates[*place].server));
        let (_, place) = places
            .map(|place| (load(group, &self.candidates[place]), place))
            .reduce(|best, other| if other.0.is_below(best.0) { other } else { best })?;
        self.next = place + 1;
        Some(self.candidates[place].server)
    }

    fn drawn(
        &mut self,
        group: &ServerGroup,
        draws: u32,
        fits: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let fitting = self.candidates.iter().filter(|candidate| fits(candidate.server));
        let total: u64 = fitting.clone().map(|candidate| u64::from(candidate.share)).sum();
        if total == 0 {
            return None;
        }
        let mut best: Option<&Candidate> = None;
        for _ in 0..draws.clamp(1, DRAWS_MAX) {
            self.seed = self.seed.wrapping_add(GOLDEN);
            let mut drawn = (u64::from(avalanche(self.seed)) * total) >> 32;
            let found = fitting.clone().find(|candidate| {
                let hit = drawn < u64::from(candidate.share);
                drawn = drawn.wrapping_sub(u64::from(candidate.share));
                hit
            });
            let better = |found: &&Candidate| {
                best.is_none_or(|best| load(group, found).is_below(load(group, best)))
            };
            best = found.filter(better).or(best);
        }
        best.map(|best| best.server)
    }

    fn mapped(&self, map: &WeightMap, key: u32, avoid: &[usize]) -> Option<usize> {
        let first = key as usize % map.len().max(1);
        let mut places = (first..first + map.len()).filter_map(|place| map.at(place));
        places.find(|server| !avoid.contains(server)).or_else(|| map.at(first))
    }

    fn nearest(
        &self,
        group: &ServerGroup,
        ring: &HashRing,
        key: u32,
        avoid: &[usize],
    ) -> Option<usize> {
        let PickerRule::ConsistentHash { balance_factor } = self.rule else {
            unreachable!("only this rule has a ring")
        };
        let bound = match balance_factor {
            0 => None,
            percent => Some(LoadBound::new(group, &self.candidates, percent)),
        };
        let fits = |server: &usize| {
            let light = bound.as_ref().is_none_or(|bound| bound.admits(group, *server));
            light && !avoid.contains(server)
        };
        ring.from(key).find(fits).or_else(|| ring.from(key).next())
    }
}

impl ServerGroup {
    /// Takes a slot of the server that the picker selects, by the hash of `key` if the algorithm
    /// uses one. Servers in `avoid` are used only if there is no other.
    pub fn try_place(&self, picker: &mut Picker, key: Option<u32>, avoid: &[usize]) -> Placement {
        picker.follow(self);
        if !picker.has_any() {
            return Placement::NoServer;
        }
        if let (true, Some(key)) = (picker.is_by_key(), key) {
            let server = picker.pick(self, Some(key), avoid);
            return server.map_or(Placement::NoServer, |server| self.try_place_at(server));
        }
        if self.queued() > 0 {
            return Placement::Wait(Wants::Any);
        }
        // Other threads may take the slots first; the number of attempts is bounded.
        for _ in 0..=self.members().len() {
            let Some(server) = picker.pick(self, None, avoid) else { break };
            if self.enter(server) {
                return Placement::Placed(server);
            }
        }
        Placement::Wait(Wants::Any)
    }
}

impl Candidate {
    fn new(group: &ServerGroup, server: usize, old: &[Self]) -> Self {
        let member = &group.members()[server];
        // `PickerRule::First` uses another order, and no credit.
        let before = old.binary_search_by_key(&server, |old| old.server);
        let before = before.ok().map(|at| old[at]);
        let share = member.share();
        // Credit earned with another share is dropped.
        let credit = before.filter(|old| old.share == share).map_or(0, |old| old.credit);
        Self { server, id: member.settings().id, share, credit }
    }
}

/// Sessions relative to the share of the load.
#[derive(Clone, Copy, Debug)]
struct RelativeLoad {
    sessions: u64,
    share: u64,
}

impl RelativeLoad {
    fn is_below(self, other: Self) -> bool {
        self.sessions * other.share < other.sessions * self.share
    }
}

fn load(group: &ServerGroup, candidate: &Candidate) -> RelativeLoad {
    let member = &group.members()[candidate.server];
    let taken = u64::from(member.sessions()) + u64::from(member.queued());
    // Including the new session, except that all idle servers are equal.
    let sessions = if taken == 0 { 0 } else { taken + 1 };
    RelativeLoad { sessions, share: u64::from(candidate.share) }
}

/// `hash-balance-factor`: the maximum number of sessions per server, including the new one.
struct LoadBound<'p> {
    candidates: &'p [Candidate],
    slots: u64,
    total: u64,
}

impl<'p> LoadBound<'p> {
    fn new(group: &ServerGroup, candidates: &'p [Candidate], percent: u32) -> Self {
        let served: u64 = group.members().iter().map(|member| u64::from(member.sessions())).sum();
        Self {
            candidates,
            slots: ((served + 1) * u64::from(percent)).div_ceil(100),
            total: candidates.iter().map(|candidate| u64::from(candidate.share)).sum(),
        }
    }

    /// Whole slots for each sixteenth of a weight; the rest is distributed along the list.
    fn admits(&self, group: &ServerGroup, server: usize) -> bool {
        let mut before = 0;
        for candidate in self.candidates {
            let share = u64::from(candidate.share);
            if candidate.server == server {
                let (whole, rest) = (self.slots / self.total, self.slots % self.total);
                let spread = (before + share) * rest / self.total - before * rest / self.total;
                let slots = (share * whole + spread).max(1);
                return u64::from(group.members()[server].sessions()) < slots;
            }
            before += share;
        }
        false
    }
}

/// Threads with higher numbers share start positions with others.
const ROUNDS_MAX: usize = 1024;
/// More draws do not improve the selection.
const DRAWS_MAX: u32 = 64;
/// 2^32 divided by the golden ratio: multiples of it cover all numbers evenly.
const GOLDEN: u32 = 0x9e37_79b9;
