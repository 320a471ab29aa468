//! Signs of life on connections that are open.

use std::time::{Duration, Instant};

use fulmar_proto::Connection as _;

use crate::application::Application;
use crate::client::Client;

impl<A: Application> Client<A> {
    /// Sends a PING on each connection with HTTP/2 if it was opened, and had its last one, more
    /// than `interval` ago. HTTP/1 has nothing of the kind.
    pub fn keep_alive(&mut self, now: Instant, interval: Duration) {
        let moment = self.core.state.moment(now);
        let hundredths = u64::try_from(interval.as_millis() / 10).unwrap_or(u64::MAX);
        for socket in self.connections.sockets() {
            let Some((connection, data)) = self.connections.get_mut(socket) else { continue };
            let is_new = u64::from(moment.saturating_sub(data.opened)) <= hundredths;
            if data.stage.is_http2() && !is_new && connection.ping(moment.into(), hundredths) {
                self.connections.touch(now, socket, &mut self.core);
            }
        }
        self.run_commands(now);
    }
}
