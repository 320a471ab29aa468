//! Descriptor limit of the process, and the number of clients that fits below it.

use fulmar_haproxy::Global;
use fulmar_sys as sys;

use crate::error::Error;

/// Limits of the process.
#[derive(Debug)]
pub(crate) struct ProcessLimits {
    pub(crate) descriptors: u64,
    /// Maximum number of concurrent client connections.
    pub(crate) connections_max: usize,
    /// A warning about the limits.
    pub(crate) warning: Option<String>,
}

impl ProcessLimits {
    /// Raises the soft limit on descriptors to the hard limit, and to `ulimit-n` if that is higher.
    /// The number of connections is `wanted`, or as many as fit.
    ///
    /// # Errors
    /// [`Error::TooFewDescriptors`], unless `no strict-limits` is set; [`Error::NoDescriptors`] if
    /// not even one connection fits.
    pub(crate) fn raise(global: &Global, wanted: Option<usize>) -> Result<Self, Error> {
        let mut limit = sys::raise_descriptors().map_err(Error::Descriptors)?.now;
        let mut warning = None;
        if let Some(wanted) = global.descriptors.filter(|wanted| *wanted > limit) {
            match sys::allow_descriptors(wanted) {
                Ok(()) => limit = wanted,
                Err(_) => {
                    let error = Error::TooFewDescriptors { wanted, limit };
                    match global.lenient_limits {
                        true => warning = Some(error.to_string()),
                        false => return Err(error),
                    }
                }
            }
        }
        let fits = connections_within(usize::try_from(limit).unwrap_or(usize::MAX));
        if fits == 0 {
            return Err(Error::NoDescriptors { limit, needed: RESERVE_MIN + 2 });
        }
        let connections_max = match wanted {
            Some(wanted) if wanted > fits => {
                warning.get_or_insert_with(|| {
                    format!(
                        "'maxconn {wanted}' needs {} file descriptors, but the limit is {limit}: \
                         using maxconn {fits}",
                        wanted.saturating_mul(2).saturating_add(RESERVE)
                    )
                });
                fits
            }
            Some(wanted) => wanted,
            None => {
                if limit < FEW {
                    warning.get_or_insert_with(|| {
                        format!(
                            "the limit on file descriptors is {limit} (ulimit -Hn): using maxconn \
                             {fits}"
                        )
                    });
                }
                fits
            }
        };
        Ok(Self { descriptors: limit, connections_max, warning })
    }
}

/// A client connection usually needs a second one to a server. With few descriptors, half of them
/// are reserved for everything else, but at least [`RESERVE_MIN`].
fn connections_within(descriptors: usize) -> usize {
    let reserve = (descriptors / 2).clamp(RESERVE_MIN, RESERVE);
    descriptors.saturating_sub(reserve) / 2
}

/// For standard streams, listeners, epoll, logs and open files.
const RESERVE: usize = 128;
/// The same without spare descriptors.
const RESERVE_MIN: usize = 40;
/// Below this limit, a warning is logged.
const FEW: u64 = 256;

#[cfg(test)]
mod tests {
    use super::connections_within;

    #[test]
    fn few_descriptors_are_shared_and_too_few_are_refused() {
        for (descriptors, connections) in
            [(16, 0), (41, 0), (42, 1), (64, 12), (130, 32), (256, 64), (20_000, 9_936)]
        {
            assert_eq!(connections_within(descriptors), connections, "{descriptors}");
        }
    }
}
