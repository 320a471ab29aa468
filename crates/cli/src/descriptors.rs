//! How many connections fit.

use fulmar_sys as sys;

use crate::output::Failure;

/// Descriptors for connections, after raising the soft limit to the hard one and leaving some for
/// so many threads and everything else.
pub(crate) fn for_connections(threads: usize) -> Result<Budget, Failure> {
    let limit = sys::raise_descriptors()
        .map_err(|error| Failure::new("cannot raise the limit on open descriptors", error))?;
    let left = limit.now.saturating_sub(RESERVE).saturating_sub(reserve_of(threads));
    Ok(Budget { connections: usize::try_from(left).unwrap_or(usize::MAX), limit: limit.now })
}

/// What all threads but one need.
fn reserve_of(threads: usize) -> u64 {
    u64::try_from(threads).unwrap_or(u64::MAX).saturating_sub(1).saturating_mul(THREAD_RESERVE)
}

/// What the limit on descriptors leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// Connections that fit.
    pub(crate) connections: usize,
    /// The limit itself.
    pub(crate) limit: u64,
}

impl Budget {
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
}

/// For standard streams, listeners, one thread, logs and open files.
const RESERVE: u64 = 64;
/// For each other thread: epoll, its waker, a ring, a listener.
const THREAD_RESERVE: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_have_descriptors_of_their_own() {
        assert_eq!([0, 1, 2, 64].map(reserve_of), [0, 0, 4, 252]);
        assert_eq!(reserve_of(usize::MAX), u64::MAX);
    }
}
