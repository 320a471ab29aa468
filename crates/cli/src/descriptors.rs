//! How many connections fit.

use fulmar_sys as sys;

use crate::output::Failure;

/// Descriptors for connections, after raising the soft limit to the hard one and leaving some for
/// everything else.
pub(crate) fn for_connections() -> Result<Budget, Failure> {
    let limit = sys::raise_descriptors()
        .map_err(|error| Failure::new("cannot raise the limit on open descriptors", error))?;
    let connections = usize::try_from(limit.now.saturating_sub(RESERVE)).unwrap_or(usize::MAX);
    Ok(Budget { connections, limit: limit.now })
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

/// For standard streams, listeners, epoll, logs and open files.
const RESERVE: u64 = 64;
