//! A server that is checked: what formats of requests are asked about.

use std::borrow::Cow;
use std::net::SocketAddr;

use crate::balance::Health;
use fulmar_haproxy::model::ServerAddress;
use fulmar_haproxy::rules::subject::Fact;
use fulmar_haproxy::rules::{EvalContext, Sample};

use crate::live::LiveBackend;

/// A server that is checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checked<'a> {
    pub(super) backend: &'a LiveBackend,
    pub(super) server: usize,
}

impl Checked<'_> {
    /// True if a 404 means that it wants no more than it has; who is down cannot want that.
    pub(super) fn may_stop(&self) -> bool {
        let member = &self.backend.group.members()[self.server];
        self.backend.config.disable_on_404 && member.health() != Health::Down
    }

    /// Where it is, as far as that is known before anybody connects.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        let moved = self.backend.group.members()[self.server].address();
        moved.or(match &self.backend.config.servers[self.server].address {
            ServerAddress::Tcp(address) => Some(*address),
            _ => None,
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
