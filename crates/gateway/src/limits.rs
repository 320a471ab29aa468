//! How many descriptors the process has, and for how many clients they are enough.

use fulmar_haproxy::Global;
use fulmar_sys as sys;

use crate::error::Error;

/// What the process may have at a time.
#[derive(Debug)]
pub(crate) struct Limits {
    pub(crate) descriptors: u64,
    /// Connections of clients.
    pub(crate) connections_max: usize,
    /// What whoever starts it should know.
    pub(crate) warning: Option<String>,
}

impl Limits {
    /// Raises the limit on descriptors as far as it goes, and at least to what `ulimit-n` says;
    /// `asked` connections, or as many as there is room for.
    ///
    /// # Errors
    /// [`Error::TooFewDescriptors`], unless `no strict-limits` is set;
    /// [`Error::NoDescriptors`] if not even one connection fits.
    pub(crate) fn raise(global: &Global, asked: Option<usize>) -> Result<Self, Error> {
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
        let connections_max = match asked {
            Some(asked) if asked > fits => {
                warning.get_or_insert_with(|| {
                    format!(
                        "'maxconn {asked}' would need {} descriptors, and {limit} is the limit: \
                         {fits} connections at a time it is",
                        asked.saturating_mul(2).saturating_add(RESERVE)
                    )
                });
                fits
            }
            Some(asked) => asked,
            None => {
                if limit < FEW {
                    warning.get_or_insert_with(|| {
                        format!(
                            "the limit on descriptors is {limit} (ulimit -Hn): {fits} connections \
                             at a time"
                        )
                    });
                }
                fits
            }
        };
        Ok(Self { descriptors: limit, connections_max, warning })
    }
}

/// A connection of a client has one to a server, mostly. Where there are few descriptors, half of
/// them are kept for everything else, but at least [`RESERVE_MIN`].
fn connections_within(descriptors: usize) -> usize {
    let reserve = (descriptors / 2).clamp(RESERVE_MIN, RESERVE);
    descriptors.saturating_sub(reserve) / 2
}

/// For standard streams, listeners, epoll, logs and open files.
const RESERVE: usize = 128;
/// The same without anything to spare.
const RESERVE_MIN: usize = 40;
/// Fewer descriptors than this are worth a warning.
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
