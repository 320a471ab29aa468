//! A server, as all threads see it.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// What a configuration says of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// 0 to 256.
    pub weight: u32,
    /// Used when no other is usable.
    pub backup: bool,
    /// In maintenance from the start.
    pub disabled: bool,
    /// Exchanges at a time; 0: no limit.
    pub connections_max: u32,
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

/// A server, as all threads see it.
#[derive(Debug)]
pub struct Member {
    admin: AtomicU8,
    health: AtomicU8,
    weight: AtomicU32,
    connections_max: AtomicU32,
    sessions: AtomicU32,
    queued: AtomicU32,
    backup: bool,
}

impl Member {
    /// As configured.
    pub fn new(settings: Settings) -> Self {
        let admin = if settings.disabled { Admin::Maintenance } else { Admin::Ready };
        Self {
            admin: AtomicU8::new(admin as u8),
            health: AtomicU8::new(Health::Up as u8),
            weight: AtomicU32::new(settings.weight),
            connections_max: AtomicU32::new(settings.connections_max),
            sessions: AtomicU32::new(0),
            queued: AtomicU32::new(0),
            backup: settings.backup,
        }
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

    /// How much of the load it gets, relative to others: 0 to 256.
    pub fn weight(&self) -> u32 {
        self.weight.load(Ordering::Relaxed)
    }

    /// True if it is used when no other is usable.
    pub fn is_backup(&self) -> bool {
        self.backup
    }

    /// Exchanges and tunnels that it has now.
    pub fn sessions(&self) -> u32 {
        self.sessions.load(Ordering::Relaxed)
    }

    /// How many wait for it.
    pub fn queued(&self) -> u32 {
        self.queued.load(Ordering::Relaxed)
    }

    /// Takes a place at it; false if all are taken.
    pub fn enter(&self) -> bool {
        let max = self.connections_max.load(Ordering::Relaxed);
        let before = self.sessions.fetch_add(1, Ordering::Relaxed);
        let fits = max == 0 || before < max;
        if !fits {
            self.sessions.fetch_sub(1, Ordering::Relaxed);
        }
        fits
    }

    /// Gives the place back.
    pub fn leave(&self) {
        self.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}
