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
    /// [`Error::TooFewDescriptors`], unless `no strict-limits` is said.
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
            None => fits,
        };
        Ok(Self { descriptors: limit, connections_max, warning })
    }
}

/// A connection of a client has one to a server, mostly.
fn connections_within(descriptors: usize) -> usize {
    (descriptors.saturating_sub(RESERVE) / 2).max(1)
}

/// For standard streams, listeners, epoll, logs and open files.
const RESERVE: usize = 128;
