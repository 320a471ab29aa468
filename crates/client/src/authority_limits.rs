//! The limit of connections to one host and port ([`crate::Config::per_authority_max`]).

use std::time::Instant;

use crate::application::Application;
use crate::client::Client;
use crate::state::{Command, WAITED_FOR};

impl<A: Application> Client<A> {
    /// True if another connection may be opened to the host and port of an origin, which has
    /// waiting transfers. The one that is idle for the longest time makes room; if none is idle,
    /// the origin waits.
    pub(crate) fn has_room_at_authority(&mut self, now: Instant, origin: usize) -> bool {
        let state = &mut self.core.state;
        let authority = state.pool.get(origin).expect(WAITED_FOR).authority;
        if state.pool.authorities.connections(authority) < state.config.per_authority_max
            || self.evict_of_authority(now, authority)
        {
            return true;
        }
        self.core.state.pool.authorities.wait(authority, origin);
        false
    }

    /// Closes the connection to a host and port that has been idle for the longest time; false if
    /// none is.
    fn evict_of_authority(&mut self, now: Instant, authority: usize) -> bool {
        let pool = &self.core.state.pool;
        let idle = pool.authorities.origins(authority).iter().filter_map(|at| pool.oldest_of(*at));
        let connections = &self.connections;
        let since = |at: &u32| connections.get(connections.key(*at)).map(|it| it.1.idle_since);
        let Some(oldest) = idle.min_by_key(since) else { return false };
        self.evict_at(now, oldest);
        true
    }

    /// If another connection to a host and port is possible, the origin that has waited longest
    /// opens it.
    pub(crate) fn serve_authority(&mut self, authority: usize) {
        let state = &mut self.core.state;
        let pool = &mut state.pool;
        if !pool.authorities.is_awaited(authority) {
            return;
        }
        let room = pool.authorities.connections(authority) < state.config.per_authority_max;
        let is_idle = |at: &usize| pool.oldest_of(*at).is_some();
        if (room || pool.authorities.origins(authority).iter().any(is_idle))
            && let Some(origin) = pool.authorities.next_waiting(authority)
        {
            state.commands.push_back(Command::Dispatch(origin));
        }
    }

    /// True if the first waiting transfer of an origin waits for a connection that may carry
    /// several exchanges.
    pub(crate) fn awaits_multiplexing(&mut self, origin: usize) -> bool {
        let front = self.core.state.front(origin);
        let transfer = front.and_then(|id| self.core.state.transfers.get(id.0));
        transfer.is_none_or(|it| it.request.options().awaits_multiplexing)
    }
}
