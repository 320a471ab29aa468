//! What only the proxy knows, whatever kind of relay is asked: its load, its servers, its names.

use fulmar_haproxy::BackendId;
use fulmar_rules::Sample;
use fulmar_rules::subject::Fact;

use crate::counters::{Counter, Counters, Rate, sum};
use crate::live::{LiveBackend, LiveFrontend};
use crate::shared::{BindId, Shared};

/// What is in hand: which listener, and which backend and server, as far as they are chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InHand {
    pub(crate) bind: BindId,
    pub(crate) backend: Option<BackendId>,
    pub(crate) server: Option<usize>,
}

impl InHand {
    /// The value of a fact that has nothing to do with one exchange or connection.
    pub(crate) fn fact<'a>(self, shared: &'a Shared, fact: &Fact) -> Option<Sample<'a>> {
        let live = &shared.live;
        let frontend = &live.frontends[self.bind.frontend];
        match fact {
            Fact::FrontendName => text(&frontend.config.name),
            Fact::FrontendId => int(frontend.config.id),
            Fact::DefaultBackend => {
                let BackendId(at) = frontend.config.default_backend?;
                text(&live.backends[at].config.name)
            }
            Fact::ListenerId => int(frontend.config.binds[self.bind.bind].id),
            Fact::ListenerName => text(&frontend.config.binds[self.bind.bind].name),
            Fact::ListenerConnections => {
                int(sum(&frontend.listeners[self.bind.bind], Counter::Sessions))
            }
            Fact::FrontendConnections(name) => {
                int(sum(&self.frontend(shared, name)?.counters, Counter::Sessions))
            }
            Fact::FrontendRate(name) => {
                int(rate(shared, &self.frontend(shared, name)?.counters, Rate::Sessions))
            }
            Fact::FrontendRequestRate(name) => {
                int(rate(shared, &self.frontend(shared, name)?.counters, Rate::Requests))
            }
            Fact::Threads => int(live.threads as u64),
            Fact::Thread => int(shared.thread as u64),
            Fact::Stopping => Some(Sample::Bool(shared.ending)),
            fact => self.of_backend(shared, fact).or_else(|| self.of_server(shared, fact)),
        }
    }

    fn of_backend<'a>(self, shared: &'a Shared, fact: &Fact) -> Option<Sample<'a>> {
        match fact {
            Fact::BackendName => match self.backend {
                Some(BackendId(at)) => text(&shared.live.backends[at].config.name),
                None => text(&shared.live.frontends[self.bind.frontend].config.name),
            },
            Fact::BackendId => int(shared.live.backends[self.backend?.0].config.id),
            Fact::BackendConnections(name) => {
                int(sum(&self.backend(shared, name)?.counters, Counter::Sessions))
            }
            Fact::BackendRate(name) => {
                int(rate(shared, &self.backend(shared, name)?.counters, Rate::Sessions))
            }
            Fact::BackendFree(name) => free(self.backend(shared, name)?, |_, _| 0),
            Fact::ConnectionSlots(name) => {
                let queue = |backend: &LiveBackend, at: usize| {
                    i64::from(backend.servers[at].config.queue_max)
                        - i64::from(backend.group.members()[at].queued())
                };
                free(self.backend(shared, name)?, queue)
            }
            Fact::UsableServers(name) => int(self.backend(shared, name)?.group.usable() as u64),
            Fact::Queue(name) => int(queued(self.backend(shared, name)?)),
            Fact::AverageQueue(name) => {
                let backend = self.backend(shared, name)?;
                let usable = (backend.group.usable() as u64).max(1);
                int(queued(backend).div_ceil(usable))
            }
            _ => None,
        }
    }

    fn of_server<'a>(self, shared: &'a Shared, fact: &Fact) -> Option<Sample<'a>> {
        match fact {
            Fact::ServerName => {
                let backend = &shared.live.backends[self.backend?.0];
                text(&backend.servers[self.server?].config.name)
            }
            Fact::ServerId => {
                let backend = &shared.live.backends[self.backend?.0];
                int(backend.servers[self.server?].config.id)
            }
            Fact::ServerIsUp(backend, server) => {
                let (backend, at) = self.server(shared, backend, server)?;
                Some(Sample::Bool(backend.group.members()[at].is_reachable()))
            }
            Fact::ServerConnections(backend, server) => {
                let (backend, at) = self.server(shared, backend, server)?;
                int(backend.group.members()[at].sessions())
            }
            Fact::ServerFree(backend, server) => {
                let (backend, at) = self.server(shared, backend, server)?;
                Some(Sample::Int(match backend.group.limit(at) {
                    0 => -1,
                    limit => {
                        let taken = backend.group.members()[at].sessions();
                        i64::from(limit.saturating_sub(taken))
                    }
                }))
            }
            Fact::ServerRate(backend, server) => {
                let (backend, at) = self.server(shared, backend, server)?;
                int(rate(shared, &backend.servers[at].counters, Rate::Sessions))
            }
            Fact::ServerWeight(backend, server) => {
                let (backend, at) = self.server(shared, backend, server)?;
                int(backend.group.members()[at].weight())
            }
            Fact::ServerQueue(backend, server) => {
                let (backend, at) = self.server(shared, backend, server)?;
                int(backend.group.members()[at].queued())
            }
            _ => None,
        }
    }

    fn frontend<'a>(self, shared: &'a Shared, name: &Option<Box<str>>) -> Option<&'a LiveFrontend> {
        let frontends = &shared.live.frontends;
        match name {
            None => frontends.get(self.bind.frontend),
            Some(name) => frontends.iter().find(|it| it.config.name == **name),
        }
    }

    fn backend<'a>(self, shared: &'a Shared, name: &Option<Box<str>>) -> Option<&'a LiveBackend> {
        let BackendId(at) = match name {
            None => self.backend?,
            Some(name) => shared.live.backend_named(name.as_bytes())?,
        };
        shared.live.backends.get(at)
    }

    fn server<'a>(
        self,
        shared: &'a Shared,
        backend: &Option<Box<str>>,
        server: &str,
    ) -> Option<(&'a LiveBackend, usize)> {
        let backend = self.backend(shared, backend)?;
        let at = backend.servers.iter().position(|it| it.config.name == server)?;
        Some((backend, at))
    }
}

fn rate(shared: &Shared, threads: &[Counters], rate: Rate) -> u64 {
    let now = shared.live.clocks[shared.thread].millis();
    threads.iter().map(|counters| counters.rate(rate, now)).sum()
}

fn queued(backend: &LiveBackend) -> u64 {
    let own: u32 = backend.group.members().iter().map(|member| member.queued()).sum();
    u64::from(own) + u64::from(backend.group.queued())
}

/// Places that are free at usable servers, and those that `more` tells; -1 if there is no limit.
fn free(
    backend: &LiveBackend,
    more: impl Fn(&LiveBackend, usize) -> i64,
) -> Option<Sample<'static>> {
    let mut free = 0;
    for (at, member) in backend.group.members().iter().enumerate() {
        if member.is_usable() {
            match backend.group.limit(at) {
                0 => return Some(Sample::Int(-1)),
                limit => {
                    free += i64::from(limit) - i64::from(member.sessions()) + more(backend, at)
                }
            }
        }
    }
    Some(Sample::Int(free.max(0)))
}

pub(crate) fn text(text: &str) -> Option<Sample<'_>> {
    Some(Sample::Text(text.as_bytes().into()))
}

pub(crate) fn int(value: impl Into<u64>) -> Option<Sample<'static>> {
    Some(Sample::Int(i64::try_from(value.into()).unwrap_or(i64::MAX)))
}
