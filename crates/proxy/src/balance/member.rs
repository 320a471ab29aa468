//! A server, as all threads see it.
//!
//! What is asked for with every exchange is atomic; what only statistics and messages tell is in a
//! [`Record`] behind a lock. Changes go through [`crate::balance::Group`], which tells pickers of them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a configuration says of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Its number within the backend: where consistent hashing puts it.
    pub id: u32,
    /// 0 to 256.
    pub weight: u32,
    /// Used when no other is usable.
    pub backup: bool,
    /// In maintenance from the start.
    pub disabled: bool,
    /// Exchanges at a time; 0: no limit.
    pub connections_max: u32,
    /// `minconn`: the limit while there is little load; 0: as `connections_max`.
    pub connections_min: u32,
    /// `maxqueue`: how many may wait for this server; 0: no limit.
    pub queue_max: u32,
    /// `slowstart`: its weight and limit grow for so long after it came up.
    pub slow_start: Option<Duration>,
}

/// What an operator has decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admin {
    /// As its health allows.
    #[default]
    Ready,
    /// No new sessions but those that are bound to it.
    Drain,
    /// None at all, and no checks.
    Maintenance,
}

/// What checks and observations have found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// It works, or nobody looks.
    #[default]
    Up,
    /// It works, and asks for no more than it has (`disable-on-404`).
    Stopping,
    /// It does not.
    Down,
}

/// A weight that an operator asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// 0 to 256; more is 256.
    Absolute(u32),
    /// So much of the configured one, but at most 256.
    Percent(u32),
}

/// What statistics tell of a server beside its state.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// When it last went up or down; `None`: never.
    pub changed: Option<Instant>,
    /// How long it has been down before that.
    pub down_for: Duration,
    /// `chkfail`: checks that failed while it was up.
    pub checks_failed: u64,
    /// `hanafail`: how often its sessions had too many errors in a row.
    pub error_runs: u64,
    /// `chkdown`: how often it went down.
    pub downs: u64,
}

impl Record {
    /// When its state last changed; `began`, if it never has.
    pub fn changed_since(&self, began: Instant) -> Instant {
        self.changed.unwrap_or(began)
    }

    /// How long it has been down in all, if it is `down` since the last change.
    pub fn downtime(&self, now: Instant, down: bool) -> Duration {
        let since = self.changed.filter(|_| down);
        self.down_for + since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }
}

/// A server, as all threads see it.
#[derive(Debug)]
pub struct Member {
    settings: Settings,
    admin: AtomicU8,
    health: AtomicU8,
    weight: AtomicU32,
    steps: AtomicU32,  // of a slow start that are done: 1 to SCALE
    warmth: AtomicU32, // percent of its limit that a slow start allows
    connections_max: AtomicU32,
    sessions: AtomicU32,
    queued: AtomicU32,
    moved: AtomicU32, // how often its address has changed
    address: Mutex<Option<SocketAddr>>,
    sheds: AtomicU32, // how often its sessions were to be shut down
    checked: AtomicBool,
    record: Mutex<Record>,
}

impl Member {
    /// As configured.
    pub(crate) fn new(settings: Settings) -> Self {
        let admin = if settings.disabled { Admin::Maintenance } else { Admin::Ready };
        let max = settings.connections_max.max(settings.connections_min);
        Self {
            settings,
            admin: AtomicU8::new(admin as u8),
            health: AtomicU8::new(Health::Up as u8),
            weight: AtomicU32::new(settings.weight.min(WEIGHT_MAX)),
            steps: AtomicU32::new(SCALE),
            warmth: AtomicU32::new(100),
            connections_max: AtomicU32::new(max),
            sessions: AtomicU32::new(0),
            queued: AtomicU32::new(0),
            moved: AtomicU32::new(0),
            address: Mutex::new(None),
            sheds: AtomicU32::new(0),
            checked: AtomicBool::new(true),
            record: Mutex::default(),
        }
    }

    /// What the configuration says.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What an operator has decided.
    pub fn admin(&self) -> Admin {
        match self.admin.load(Ordering::Relaxed) {
            0 => Admin::Ready,
            1 => Admin::Drain,
            _ => Admin::Maintenance,
        }
    }

    /// What has been found.
    pub fn health(&self) -> Health {
        match self.health.load(Ordering::Relaxed) {
            0 => Health::Up,
            1 => Health::Stopping,
            _ => Health::Down,
        }
    }

    /// True if new sessions may go there.
    pub fn is_usable(&self) -> bool {
        self.admin() == Admin::Ready && self.health() == Health::Up && self.weight() > 0
    }

    /// True if sessions that are bound to it may go there.
    pub fn is_reachable(&self) -> bool {
        self.admin() != Admin::Maintenance && self.health() != Health::Down
    }

    /// True if it is used when no other is usable.
    pub fn is_backup(&self) -> bool {
        self.settings.backup
    }

    /// The weight that was asked for last: 0 to 256.
    pub fn weight(&self) -> u32 {
        self.weight.load(Ordering::Relaxed)
    }

    /// How much of the load it gets, relative to others, with a slow start: in sixteenths of a
    /// weight.
    pub fn share(&self) -> u32 {
        self.weight() * self.steps.load(Ordering::Relaxed)
    }

    /// The weight that counts now, as statistics show it: rounded up.
    pub fn weight_now(&self) -> u32 {
        self.share().div_ceil(SCALE)
    }

    /// True while its weight and limit still grow.
    pub fn is_starting(&self) -> bool {
        self.steps.load(Ordering::Relaxed) < SCALE || self.throttle() < 100
    }

    /// How often its slow start takes a step, while it has one.
    pub(crate) fn warms_every(&self) -> Option<Duration> {
        let whole = self.settings.slow_start.filter(|_| self.is_starting())?;
        Some((whole / WARM_STEPS).max(WARM_MIN))
    }

    /// Percent of its limit that a slow start allows.
    pub fn throttle(&self) -> u32 {
        self.warmth.load(Ordering::Relaxed)
    }

    /// Exchanges at a time; 0: no limit.
    pub fn connections_max(&self) -> u32 {
        self.connections_max.load(Ordering::Relaxed)
    }

    /// Exchanges and tunnels that it has now.
    pub fn sessions(&self) -> u32 {
        self.sessions.load(Ordering::SeqCst)
    }

    /// How many wait for this very server.
    pub fn queued(&self) -> u32 {
        self.queued.load(Ordering::SeqCst)
    }

    /// The address that it has got instead of the configured one.
    pub fn address(&self) -> Option<SocketAddr> {
        match self.moved() {
            0 => None,
            _ => *self.address.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// How often its address has changed: connections from before are not to be used again.
    pub fn moved(&self) -> u32 {
        self.moved.load(Ordering::Acquire)
    }

    /// How often its sessions were to be shut down: who sees this grow shuts down those it has
    /// there.
    pub fn sheds(&self) -> u32 {
        self.sheds.load(Ordering::Acquire)
    }

    /// False: `disable health`; nobody looks.
    pub fn is_checked(&self) -> bool {
        self.checked.load(Ordering::Relaxed)
    }

    /// `enable health`, `disable health`.
    pub fn set_checked(&self, checked: bool) {
        self.checked.store(checked, Ordering::Relaxed);
    }

    /// What statistics tell, for reading and counting. Held for a moment only.
    pub fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All sessions at this server are to be shut down.
    pub fn shed(&self) {
        self.sheds.fetch_add(1, Ordering::Release);
    }

    /// Takes a place if fewer than `limit` are taken; 0: there is no limit.
    pub(crate) fn enter(&self, limit: u32) -> bool {
        if limit == 0 {
            self.sessions.fetch_add(1, Ordering::SeqCst);
            return true;
        }
        let next = |taken| (taken < limit).then_some(taken + 1);
        self.sessions.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).is_ok()
    }

    /// Gives a place back.
    pub(crate) fn leave(&self) {
        let before = self.sessions.fetch_sub(1, Ordering::SeqCst);
        assert!(before > 0, "a place is given back once");
    }

    pub(crate) fn count_waiting(&self, more: bool) {
        match more {
            true => self.queued.fetch_add(1, Ordering::SeqCst),
            false => self.queued.fetch_sub(1, Ordering::SeqCst),
        };
    }

    pub(crate) fn put_admin(&self, admin: Admin) {
        self.admin.store(admin as u8, Ordering::Relaxed);
    }

    pub(crate) fn put_health(&self, health: Health) {
        self.health.store(health as u8, Ordering::Relaxed);
    }

    pub(crate) fn put_weight(&self, weight: Weight) {
        let asked = match weight {
            Weight::Absolute(weight) => weight,
            Weight::Percent(percent) => self.settings.weight.saturating_mul(percent) / 100,
        };
        self.weight.store(asked.min(WEIGHT_MAX), Ordering::Relaxed);
    }

    pub(crate) fn put_connections_max(&self, max: u32) {
        self.connections_max.store(max, Ordering::Relaxed);
    }

    pub(crate) fn put_address(&self, address: SocketAddr) {
        *self.address.lock().unwrap_or_else(PoisonError::into_inner) = Some(address);
        self.moved.fetch_add(1, Ordering::Release);
    }

    /// How far a slow start has come: `elapsed` of `whole`. False: that changes nothing.
    pub(crate) fn put_warmth(&self, elapsed: Duration, whole: Duration) -> bool {
        let done = elapsed.as_millis().min(whole.as_millis());
        let part = |of: u32| {
            let part = done * u128::from(of) / whole.as_millis().max(1);
            u32::try_from(part).map_or(of, |part| part.min(of))
        };
        let (steps, warmth) = match done >= whole.as_millis() {
            true => (SCALE, 100),
            false => ((part(SCALE) + 1).min(SCALE), part(100).max(1)),
        };
        let changed = self.steps.swap(steps, Ordering::Relaxed) != steps;
        self.warmth.swap(warmth, Ordering::Relaxed) != warmth || changed
    }
}

/// Steps in which a slow start reaches its weight, and nodes that a weight of one has in a ring.
pub(crate) const SCALE: u32 = 16;
/// Steps of a slow start: weights have sixteen.
const WARM_STEPS: u32 = 20;
/// More often would only cost pickers their tables.
const WARM_MIN: Duration = Duration::from_millis(50);
/// The largest weight.
pub(crate) const WEIGHT_MAX: u32 = 256;
