//! Which bytes may pass through pipes, as far as the configuration permits.

use fulmar_haproxy::BackendId;
use fulmar_haproxy::model::Splice;

use crate::live::Live;

/// The direction of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Toward {
    Server,
    Client,
}

/// True if bytes may pass through pipes: frontend and backend permit it, and pipes are not
/// disabled.
pub(crate) fn may_pass(
    live: &Live,
    frontend: usize,
    backend: Option<BackendId>,
    toward: Toward,
) -> bool {
    let allows = |splice: &Splice| match toward {
        Toward::Server => splice.allows_request(),
        Toward::Client => splice.allows_response(),
    };
    !live.config.global.no_splice
        && allows(&live.frontends[frontend].config.options.splice)
        && backend.is_none_or(|id| allows(&live.backends[id.0].config.options.splice))
}

/// The maximum number of open pipes of one thread.
pub(crate) fn pipes_max(live: &Live) -> usize {
    live.pipes_max().div_ceil(live.threads.max(1))
}

impl Live {
    /// The maximum number of open pipes of all threads, apart from rounding.
    pub fn pipes_max(&self) -> usize {
        let global = &self.config.global;
        let clients = global.connections_max.unwrap_or(usize::MAX);
        let usual = (clients / CLIENTS_PER_PIPE).min(PIPES_MAX);
        global.pipes_max.unwrap_or(usual)
    }
}

/// A piece of this size, received at once, belongs to a stream that is worth a pipe.
pub(crate) const PIECE_SIZE_MIN: usize = 16 * 1024;
/// A shorter rest of a body is not worth a pipe.
pub(crate) const PASSED_FROM: u64 = 64 * 1024;
/// Each pipe needs two descriptors: this limit leaves enough for connections.
const CLIENTS_PER_PIPE: usize = 16;
/// The default maximum.
const PIPES_MAX: usize = 256;
