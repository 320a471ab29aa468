//! A server, shared by all threads.
//!
//! Values that every exchange reads are atomic. Values for statistics and messages are in a
//! [`MemberRecord`] behind a lock. Changes go through [`crate::balance::ServerGroup`], so that
//! pickers notice them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The configuration of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberSettings {
    /// Its number in the backend: its position for consistent hashing.
    pub id: u32,
    /// 0 to 256.
    pub weight: u32,
    /// Used only when no other server is usable.
    pub backup: bool,
    /// In maintenance from the start.
    pub disabled: bool,
    /// Maximum number of exchanges; 0: unlimited.
    pub connections_max: u32,
    /// `minconn`: the limit at low load; 0: as `connections_max`.
    pub connections_min: u32,
    /// `maxqueue`: maximum number of sessions waiting for this server; 0: unlimited.
    pub queue_max: u32,
    /// `slowstart`: the time for which weight and limit grow after the server comes up.
    pub slow_start: Option<Duration>,
}

/// Administrative state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admin {
    /// Usable if healthy.
    #[default]
    Ready,
    /// Persistent sessions only.
    Drain,
    /// Not used, not checked.
    Maintenance,
}

/// Health, from checks and observed traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// Up, or not checked.
    #[default]
    Up,
    /// Up, persistent sessions only (`disable-on-404`).
    Stopping,
    /// Down.
    Down,
}

/// A weight set by an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// 0 to 256; larger values are clamped.
    Absolute(u32),
    /// A percentage of the configured weight, at most 256.
    Percent(u32),
}

/// Values for statistics.
#[derive(Clone, Debug, Default)]
pub struct MemberRecord {
    /// Time of the last change between up and down; `None`: never.
    pub changed: Option<Instant>,
    /// Downtime before that.
    pub down_for: Duration,
    /// `chkfail`: failed checks while it was up.
    pub checks_failed: u64,
    /// `hanafail`: how often observed traffic reached the error limit.
    pub error_runs: u64,
    /// `chkdown`: changes from up to down.
    pub downs: u64,
}

impl MemberRecord {
    /// Time of the last state change; `began` if there was none.
    pub fn changed_since(&self, began: Instant) -> Instant {
        self.changed.unwrap_or(began)
    }

    /// Total downtime, including the time since the last change if it is `down`.
    pub fn downtime(&self, now: Instant, down: bool) -> Duration {
        let since = self.changed.filter(|_| down);
        self.down_for + since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }
}

/// A server, shared by all threads.
#[derive(Debug)]
pub struct Member {
    settings: MemberSettings,
    admin: AtomicU8,
    health: AtomicU8,
    weight: AtomicU32,
    steps: AtomicU32,         // completed steps of a slow start: 1 to SCALE
    limit_percent: AtomicU32, // percentage of its limit during a slow start
    connections_max: AtomicU32,
    sessions: AtomicU32,
    queued: AtomicU32,
    moved: AtomicU32, // number of address changes
    address: Mutex<Option<SocketAddr>>,
    kills: AtomicU32, // number of requests to shut down its sessions
    checked: AtomicBool,
    record: Mutex<MemberRecord>,
}

impl Member {
    /// A server with these settings.
    pub(crate) fn new(settings: MemberSettings) -> Self {
        let admin = if settings.disabled { Admin::Maintenance } else { Admin::Ready };
        let max = settings.connections_max.max(settings.connections_min);
        Self {
            settings,
            admin: AtomicU8::new(admin as u8),
            health: AtomicU8::new(Health::Up as u8),
            weight: AtomicU32::new(settings.weight.min(WEIGHT_MAX)),
            steps: AtomicU32::new(SCALE),
            limit_percent: AtomicU32::new(100),
            connections_max: AtomicU32::new(max),
            sessions: AtomicU32::new(0),
            queued: AtomicU32::new(0),
            moved: AtomicU32::new(0),
            address: Mutex::new(None),
            kills: AtomicU32::new(0),
            checked: AtomicBool::new(true),
            record: Mutex::default(),
        }
    }

    /// The configuration.
    pub fn settings(&self) -> &MemberSettings {
        &self.settings
    }

    /// The administrative state.
    pub fn admin(&self) -> Admin {
        match self.admin.load(Ordering::Relaxed) {
            0 => Admin::Ready,
            1 => Admin::Drain,
            _ => Admin::Maintenance,
        }
    }

    /// The health.
    pub fn health(&self) -> Health {
        match self.health.load(Ordering::Relaxed) {
            0 => Health::Up,
            1 => Health::Stopping,
            _ => Health::Down,
        }
    }

    /// True if new sessions may use it.
    pub fn is_usable(&self) -> bool {
        self.admin() == Admin::Ready && self.health() == Health::Up && self.weight() > 0
    }

    /// True if persistent sessions may use it.
    pub fn is_reachable(&self) -> bool {
        self.admin() != Admin::Maintenance && self.health() != Health::Down
    }

    /// True if it is a backup server.
    pub fn is_backup(&self) -> bool {
        self.settings.backup
    }

    /// The weight that was set last: 0 to 256.
    pub fn weight(&self) -> u32 {
        self.weight.load(Ordering::Relaxed)
    }

    /// Its effective weight during a slow start, in sixteenths of a weight.
    pub fn share(&self) -> u32 {
        self.weight() * self.steps.load(Ordering::Relaxed)
    }

    /// The effective weight for statistics, rounded up.
    pub fn weight_now(&self) -> u32 {
        self.share().div_ceil(SCALE)
    }

    /// True during a slow start.
    pub fn is_starting(&self) -> bool {
        self.steps.load(Ordering::Relaxed) < SCALE || self.throttle() < 100
    }

    /// The interval of slow start steps; `None` without a slow start.
    pub(crate) fn slow_start_interval(&self) -> Option<Duration> {
        let whole = self.settings.slow_start.filter(|_| self.is_starting())?;
        Some((whole / SLOW_START_STEPS).max(SLOW_START_STEP_MIN))
    }

    /// The percentage of its limit during a slow start.
    pub fn throttle(&self) -> u32 {
        self.limit_percent.load(Ordering::Relaxed)
    }

    /// Maximum number of exchanges; 0: unlimited.
    pub fn connections_max(&self) -> u32 {
        self.connections_max.load(Ordering::Relaxed)
    }

    /// Current exchanges and tunnels.
    pub fn sessions(&self) -> u32 {
        self.sessions.load(Ordering::SeqCst)
    }

    /// Number of sessions that wait for this server.
    pub fn queued(&self) -> u32 {
        self.queued.load(Ordering::SeqCst)
    }

    /// The address set at run time.
    pub fn address(&self) -> Option<SocketAddr> {
        match self.moved() {
            0 => None,
            _ => *self.address.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Number of address changes: connections of earlier addresses must not be reused.
    pub fn moved(&self) -> u32 {
        self.moved.load(Ordering::Acquire)
    }

    /// Number of requests to shut down its sessions. A thread that sees a larger number shuts down
    /// its own ones.
    pub fn kills(&self) -> u32 {
        self.kills.load(Ordering::Acquire)
    }

    /// False after `disable health`.
    pub fn is_checked(&self) -> bool {
        self.checked.load(Ordering::Relaxed)
    }

    /// `enable health`, `disable health`.
    pub fn set_checked(&self, checked: bool) {
        self.checked.store(checked, Ordering::Relaxed);
    }

    /// Values for statistics. Hold the lock briefly.
    pub fn record(&self) -> MutexGuard<'_, MemberRecord> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests the shutdown of all its sessions.
    pub fn kill_sessions(&self) {
        self.kills.fetch_add(1, Ordering::Release);
    }

    /// Takes a slot if fewer than `limit` are taken; 0: unlimited.
    pub(crate) fn enter(&self, limit: u32) -> bool {
        if limit == 0 {
            self.sessions.fetch_add(1, Ordering::SeqCst);
            return true;
        }
        let next = |taken| (taken < limit).then_some(taken + 1);
        self.sessions.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).is_ok()
    }

    /// Releases a slot.
    pub(crate) fn leave(&self) {
        let before = self.sessions.fetch_sub(1, Ordering::SeqCst);
        assert!(before > 0, "a slot is released only once");
    }

    pub(crate) fn count_waiting(&self, more: bool) {
        let before = match more {
            true => self.queued.fetch_add(1, Ordering::SeqCst),
            false => self.queued.fetch_sub(1, Ordering::SeqCst),
        };
        debug_assert!(more || before > 0, "a waiting session is counted once");
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

    /// Progress of a slow start: `elapsed` of `whole`. False if nothing changes.
    pub(crate) fn set_slow_start_progress(&self, elapsed: Duration, whole: Duration) -> bool {
        let done = elapsed.as_millis().min(whole.as_millis());
        let part = |of: u32| {
            let part = done * u128::from(of) / whole.as_millis().max(1);
            u32::try_from(part).map_or(of, |part| part.min(of))
        };
        let (steps, limit_percent) = match done >= whole.as_millis() {
            true => (SCALE, 100),
            false => ((part(SCALE) + 1).min(SCALE), part(100).max(1)),
        };
        let changed = self.steps.swap(steps, Ordering::Relaxed) != steps;
        self.limit_percent.swap(limit_percent, Ordering::Relaxed) != limit_percent || changed
    }
}

/// Steps of a slow start for weights, and ring nodes per unit of weight.
pub(crate) const SCALE: u32 = 16;
/// Steps of a slow start for limits; weights have sixteen.
const SLOW_START_STEPS: u32 = 20;
/// Shorter steps would only make pickers rebuild their tables more often.
const SLOW_START_STEP_MIN: Duration = Duration::from_millis(50);
/// Maximum weight.
pub(crate) const WEIGHT_MAX: u32 = 256;
