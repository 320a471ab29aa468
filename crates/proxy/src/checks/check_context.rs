//! A checked server, as context of formats in requests.

use std::borrow::Cow;
use std::net::SocketAddr;

use crate::balance::Health;
use fulmar_haproxy::model::ServerAddress;
use fulmar_haproxy::rules::eval_context::Fact;
use fulmar_haproxy::rules::{EvalContext, Sample};

use crate::live::LiveBackend;

/// A checked server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checked<'a> {
    pub(super) backend: &'a LiveBackend,
    pub(super) server: usize,
}

impl Checked<'_> {
    /// True if a 404 means that it stops (`disable-on-404`); a server that is down cannot stop.
    pub(super) fn can_stop(&self) -> bool {
        let member = &self.backend.group.members()[self.server];
        self.backend.config.disable_on_404 && member.health() != Health::Down
    }

    /// Its address, as far as it is known before a connection.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        let moved = self.backend.group.members()[self.server].address();
        moved.or(match &self.backend.config.servers[self.server].address {
            ServerAddress::Tcp(address) => Some(*address),
            ServerAddress::Unix(_)
            | ServerAddress::Abstract(_)
            | ServerAddress::Mapped { .. }
            | ServerAddress::Unresolved(_) => None,
        })
    }
}

impl EvalContext for Checked<'_> {
    fn fact(&self, fact: &Fact) -> Option<Sample<'_>> {
        let text = |text: &'_ str| Sample::Text(Cow::Owned(text.as_bytes().to_vec()));
        Some(match fact {
            Fact::BackendName => text(&self.backend.config.name),
            Fact::ServerName => text(&self.backend.config.servers[self.server].name),
            Fact::ServerAddress => Sample::Address(self.address()?.ip()),
            Fact::ServerPort => Sample::Int(self.address()?.port().into()),
            _ => return None,
        })
    }
}
