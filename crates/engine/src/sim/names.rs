//! Lookups of the simulator, and the lookups that are in progress.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::{LookupId, ResolveError};

/// What the lookup of a name returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameEntry {
    /// Addresses or an error, after this time.
    Result(Duration, Result<Vec<IpAddr>, ResolveError>),
    /// Nothing, until the lookup is abandoned.
    Never,
}

impl NameEntry {
    /// These addresses, at once.
    pub fn addresses(addresses: impl Into<Vec<IpAddr>>) -> Self {
        Self::Result(Duration::ZERO, Ok(addresses.into()))
    }

    /// An error, at once.
    pub fn error(error: ResolveError) -> Self {
        Self::Result(Duration::ZERO, Err(error))
    }
}

/// Lookups in progress.
#[derive(Debug, Default)]
pub(super) struct Lookups(Vec<PendingLookup>);

/// A lookup in progress, and its result.
#[derive(Debug)]
pub(super) struct PendingLookup {
    pub(super) node: usize,
    pub(super) lookup: LookupId,
    pub(super) result: Result<Vec<IpAddr>, ResolveError>,
    due: Instant,
}

impl Lookups {
    /// `entry`: `None` for a name that does not exist.
    pub(super) fn begin(
        &mut self,
        node: usize,
        lookup: LookupId,
        entry: Option<NameEntry>,
        now: Instant,
    ) {
        let entry = entry.unwrap_or_else(|| NameEntry::error(ResolveError::NotFound));
        if let NameEntry::Result(after, result) = entry {
            self.0.push(PendingLookup { node, lookup, result, due: now + after });
        }
    }

    pub(super) fn abandon(&mut self, node: usize, lookup: LookupId) {
        self.0.retain(|pending| (pending.node, pending.lookup) != (node, lookup));
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.0.iter().map(|pending| pending.due).min()
    }

    /// The places of lookups with a result that is due.
    pub(super) fn due(&self, now: Instant) -> impl Iterator<Item = usize> {
        (0..self.0.len()).filter(move |at| self.0[*at].due <= now)
    }

    pub(super) fn take(&mut self, at: usize) -> PendingLookup {
        self.0.remove(at)
    }
}
