//! The servers of a backend, as all threads see them.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::member::{Member, Settings};

/// The servers of a backend, as all threads see them.
#[derive(Debug)]
pub struct Group {
    members: Vec<Member>,
    epoch: AtomicU64,
}

impl Group {
    /// As configured.
    pub fn new(settings: impl IntoIterator<Item = Settings>) -> Self {
        let members = settings.into_iter().map(Member::new).collect();
        Self { members, epoch: AtomicU64::new(0) }
    }

    /// The servers, in the order of the configuration.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Grows whenever it changes who is usable or how much they weigh: pickers follow.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }
}
