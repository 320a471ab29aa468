//! How many connections fit.

use fulmar_sys as sys;

use crate::output::Failure;

/// Descriptors for connections, after raising the soft limit to the hard one and leaving some for
/// so many threads and everything else.
///
/// # Errors
/// Not even one connection fits.
pub(crate) fn for_connections(threads: usize) -> Result<Budget, Failure> {
    let limit = sys::raise_descriptors()
        .map_err(|error| Failure::new("cannot raise the limit on open descriptors", error))?;
    Budget::of(limit.now, threads)
}

/// What all threads but one need.
fn reserve_of(threads: usize) -> u64 {
    u64::try_from(threads).unwrap_or(u64::MAX).saturating_sub(1).saturating_mul(THREAD_RESERVE)
}

/// What the limit on descriptors leaves: at least one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    connections: usize,
    limit: u64,
}

impl Budget {
    /// Where there are few descriptors, half of them are kept for everything else, but at least
    /// [`RESERVE_MIN`].
    fn of(limit: u64, threads: usize) -> Result<Self, Failure> {
        let all = limit.saturating_sub(reserve_of(threads));
        let left = all.saturating_sub((all / 2).clamp(RESERVE_MIN, RESERVE));
        if left == 0 {
            let needed = reserve_of(threads).saturating_add(RESERVE_MIN + 1);
            return Err(Failure::Message(format!(
                "too few descriptors: this process may open {limit} (ulimit -Hn), and needs at \
                 least {needed} with {threads} threads; raise the limit, or use fewer threads"
            )));
        }
        Ok(Self { connections: usize::try_from(left).unwrap_or(usize::MAX), limit })
    }

    /// Connections that fit.
    pub(crate) fn connections(self) -> usize {
        self.connections
    }

    /// The same where each connection needs `descriptors`.
    pub(crate) fn shared(self, descriptors: usize) -> Self {
        self.within(self.connections / descriptors)
    }

    /// The same, of which so many connections may be used.
    pub(crate) fn within(self, connections: usize) -> Self {
        Self { connections: connections.clamp(1, self.connections), ..self }
    }

    /// As many of `wanted` as fit, and a message with both numbers if that is fewer.
    pub(crate) fn fit(self, wanted: usize) -> (usize, Option<String>) {
        if wanted <= self.connections {
            return (wanted, None);
        }
        let (fits, limit) = (self.connections, self.limit);
        let message = format!(
            "{wanted} connections do not fit: this process may open {limit} descriptors \
             (ulimit -Hn), which leaves {fits} for connections; going on with {fits}"
        );
        (fits, Some(message))
    }

    /// A message if few connections fit, for commands without a requested number.
    pub(crate) fn warning(self) -> Option<String> {
        let (fits, limit) = (self.connections, self.limit);
        (limit < FEW).then(|| {
            format!(
                "this process may open only {limit} descriptors (ulimit -Hn): {fits} connections \
                 at a time, others wait"
            )
        })
    }
}

/// For standard streams, listeners, one thread, logs and open files.
const RESERVE: u64 = 64;
/// The same without anything to spare.
const RESERVE_MIN: u64 = 24;
/// For each other thread: epoll, its waker, a ring, a listener.
const THREAD_RESERVE: u64 = 4;
/// Fewer descriptors than this are worth a message.
const FEW: u64 = 2 * RESERVE;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_have_descriptors_of_their_own() {
        assert_eq!([0, 1, 2, 64].map(reserve_of), [0, 0, 4, 252]);
        assert_eq!(reserve_of(usize::MAX), u64::MAX);
    }

    #[test]
    fn at_least_one_connection_fits_or_nothing_starts() {
        for threads in [1, 2, 16, 1024] {
            for limit in 0..5000 {
                let needed = 25 + reserve_of(threads);
                let Ok(budget) = Budget::of(limit, threads) else {
                    assert!(limit < needed, "{limit} descriptors, {threads} threads");
                    continue;
                };
                assert!(limit >= needed && budget.connections >= 1);
                assert!([2, 3, 1000].iter().all(|n| budget.shared(*n).connections >= 1));
                assert_eq!(budget.within(0).connections, 1);
                let (fits, message) = budget.fit(usize::MAX);
                assert!(fits >= 1 && !message.unwrap().contains(" 0"), "{limit}");
                assert_eq!(budget.fit(1), (1, None));
            }
        }
        let connections = |limit| Budget::of(limit, 1).unwrap().connections;
        assert_eq!([25, 48, 64, 66, 128, 1024].map(connections), [1, 24, 32, 33, 64, 960]);
    }
}
