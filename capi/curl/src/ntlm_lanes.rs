//! Connections that NTLM authenticates: each belongs to one login, and to one transfer at a time.
//!
//! A lane is the NTLM state of a connection. Its name is part of the connection's key, so that no
//! other transfer gets it between the messages of an authentication. A later transfer with the same
//! login uses a free lane, and with it the authenticated connection.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::auth_state::NtlmStep;

/// A connection, and how far NTLM is on it.
#[derive(Debug, Default)]
pub(crate) struct NtlmLane {
    /// Hash of the peers and logins, and the number of the lane.
    pub(crate) name: Arc<[u8]>,
    logins: Arc<[u8]>,
    pub(crate) server: RefCell<NtlmStep>,
    pub(crate) proxy: RefCell<NtlmStep>,
}

/// The lanes of a multi handle.
#[derive(Debug, Default)]
pub(crate) struct NtlmLanes {
    lanes: Vec<Rc<NtlmLane>>,
}

impl NtlmLane {
    /// The connection is a new one.
    pub(crate) fn forget(&self) {
        self.server.take();
        self.proxy.take();
    }
}

impl NtlmLanes {
    /// A lane for these peers and logins: the one in use, a free one, or a new one.
    pub(crate) fn select(
        &mut self,
        logins: Arc<[u8]>,
        current: Option<&Rc<NtlmLane>>,
    ) -> Rc<NtlmLane> {
        if let Some(current) = current.filter(|lane| lane.logins == logins) {
            return Rc::clone(current);
        }
        let is_free = |lane: &&Rc<NtlmLane>| Rc::strong_count(lane) == 1 && lane.logins == logins;
        if let Some(lane) = self.lanes.iter().find(is_free) {
            return Rc::clone(lane);
        }
        if self.lanes.len() >= LANES_KEPT {
            self.lanes.retain(|lane| Rc::strong_count(lane) > 1);
        }
        let number = OPENED.fetch_add(1, Ordering::Relaxed);
        let name = [&logins[..], &number.to_be_bytes()].concat();
        let lane = Rc::new(NtlmLane { name: name.into(), logins, ..NtlmLane::default() });
        self.lanes.push(Rc::clone(&lane));
        lane
    }
}

/// Lanes so far: several multi handles may share their connections.
static OPENED: AtomicU64 = AtomicU64::new(0);
/// Free lanes are kept up to this number.
const LANES_KEPT: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn name(bytes: &[u8]) -> Arc<[u8]> {
        bytes.into()
    }

    #[test]
    fn lanes_are_shared_by_one_transfer_after_the_other() {
        let mut lanes = NtlmLanes::default();
        let first = lanes.select(name(b"a"), None);
        let second = lanes.select(name(b"a"), None);
        assert_ne!(first.name, second.name, "both are in use");
        assert!(Rc::ptr_eq(&first, &lanes.select(name(b"a"), Some(&first))));
        let lane = Arc::clone(&first.name);
        drop(first);
        assert_ne!(lanes.select(name(b"b"), Some(&second)).name, lane, "another login");
        assert_eq!(lanes.select(name(b"a"), None).name, lane);
    }

    #[test]
    fn memory_for_free_lanes_is_bounded() {
        let mut lanes = NtlmLanes::default();
        let used = lanes.select(name(b"used"), None);
        for login in 0..1000_u32 {
            lanes.select(name(&login.to_be_bytes()), None);
            assert!(lanes.lanes.len() <= LANES_KEPT);
        }
        assert!(lanes.lanes.iter().any(|lane| Rc::ptr_eq(lane, &used)));
    }
}
