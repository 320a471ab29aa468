//! Which bytes may pass by unseen, in pipes: as far as the configuration lets them.

use fulmar_haproxy::BackendId;
use fulmar_haproxy::model::Splice;

use crate::live::Live;

/// Where bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Toward {
    Server,
    Client,
}

/// True if they may: neither the frontend nor the backend says no, and there are pipes.
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

/// How many pipes one of the threads may have open.
pub(crate) fn pipes_max(live: &Live) -> usize {
    live.pipes_max().div_ceil(live.threads.max(1))
}

impl Live {
    /// How many pipes all threads may have open together, but for what dividing them leaves over.
    pub fn pipes_max(&self) -> usize {
        let global = &self.config.global;
        let clients = global.connections_max.unwrap_or(usize::MAX);
        let usual = (clients / CLIENTS_PER_PIPE).min(PIPES_MAX);
        global.pipes_max.unwrap_or(usual)
    }
}

/// A piece of this size, which came at once, is of a stream that is worth a pipe.
pub(crate) const PIECE_SIZE_MIN: usize = 16 * 1024;
/// What is left of a shorter body is not worth a pipe.
pub(crate) const PASSED_FROM: u64 = 64 * 1024;
/// Each pipe is two descriptors: so few that they hardly ever are those of a connection.
const CLIENTS_PER_PIPE: usize = 16;
/// More are not needed at a time, unless the configuration says so.
const PIPES_MAX: usize = 256;
