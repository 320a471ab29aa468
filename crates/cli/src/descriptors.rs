//! The number of connections that the descriptor limit permits.

use fulmar_sys as sys;

use crate::output::ToolFailure;

/// Raises the soft limit to the hard one, and reserves descriptors for threads and everything else.
///
/// # Errors
/// The limit permits not even one connection.
pub(crate) fn for_connections(threads: usize) -> Result<DescriptorBudget, ToolFailure> {
    let limit = sys::raise_descriptors()
        .map_err(|error| ToolFailure::new("cannot raise the limit on open descriptors", error))?;
    DescriptorBudget::of(limit.now, threads)
}

/// Descriptors for all threads except the first.
fn reserve_of(threads: usize) -> u64 {
    u64::try_from(threads).unwrap_or(u64::MAX).saturating_sub(1).saturating_mul(THREAD_RESERVE)
}

/// The connections that the descriptor limit permits: at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DescriptorBudget {
    connections: usize,
    limit: u64,
}

impl DescriptorBudget {
    /// With a low limit, half of the descriptors are reserved, but at least [`RESERVE_MIN`].
    fn of(limit: u64, threads: usize) -> Result<Self, ToolFailure> {
        let all = limit.saturating_sub(reserve_of(threads));
        let left = all.saturating_sub((all / 2).clamp(RESERVE_MIN, RESERVE));
        if left == 0 {
            let needed = reserve_of(threads).saturating_add(RESERVE_MIN + 1);
            return Err(ToolFailure::Message(format!(
                "too many open files: the limit of file descriptors is {limit} (ulimit -Hn), but \
                 at least {needed} are needed (threads: {threads}); raise it with \
                 `ulimit -n {needed}`"
            )));
        }
        Ok(Self { connections: usize::try_from(left).unwrap_or(usize::MAX), limit })
    }

    /// The number of connections.
    pub(crate) fn connections(self) -> usize {
        self.connections
    }

    /// The budget if each connection needs `descriptors`.
    pub(crate) fn shared(self, descriptors: usize) -> Self {
        self.within(self.connections / descriptors)
    }

    /// The budget with at most `connections`.
    pub(crate) fn within(self, connections: usize) -> Self {
        Self { connections: connections.clamp(1, self.connections), ..self }
    }

    /// The number of connections up to `wanted`, and a message if it is smaller.
    pub(crate) fn fit(self, wanted: usize) -> (usize, Option<String>) {
        if wanted <= self.connections {
            return (wanted, None);
        }
        let (fits, limit) = (self.connections, self.limit);
        let message = format!(
            "{wanted} connections exceed the limit of {limit} file descriptors (ulimit -Hn); \
             continuing with {fits}"
        );
        (fits, Some(message))
    }

    /// A message if the limit is low, for commands without a requested number.
    pub(crate) fn warning(self) -> Option<String> {
        let (fits, limit) = (self.connections, self.limit);
        (limit < FEW).then(|| {
            format!(
                "the limit of file descriptors is only {limit} (ulimit -Hn): at most {fits} \
                 concurrent connections, others wait"
            )
        })
    }
}

/// For standard streams, listeners, one thread, logs and open files.
const RESERVE: u64 = 64;
/// The minimum for the same.
const RESERVE_MIN: u64 = 24;
/// For each other thread: epoll, its waker, a ring, a listener.
const THREAD_RESERVE: u64 = 4;
/// A lower limit causes a warning.
const FEW: u64 = 2 * RESERVE;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_reserves_descriptors() {
        assert_eq!([0, 1, 2, 64].map(reserve_of), [0, 0, 4, 252]);
        assert_eq!(reserve_of(usize::MAX), u64::MAX);
    }

    #[test]
    fn a_limit_permits_at_least_one_connection_or_is_refused() {
        for threads in [1, 2, 16, 1024] {
            for limit in 0..5000 {
                let needed = 25 + reserve_of(threads);
                let Ok(budget) = DescriptorBudget::of(limit, threads) else {
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
        let connections = |limit| DescriptorBudget::of(limit, 1).unwrap().connections;
        assert_eq!([25, 48, 64, 66, 128, 1024].map(connections), [1, 24, 32, 33, 64, 960]);
    }
}
