//! Facts about the proxy itself, for rules and logs of both modes: names of proxies and servers,
//! their loads, the time of day.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::Instant;

use crate::balance::Member;
use fulmar_haproxy::rules::Sample;
use fulmar_haproxy::rules::eval_context::Fact;
use fulmar_haproxy::{BackendId, ServerId};

use crate::counters::{Counters, RateKind, Stat, sum};
use crate::live::{LiveBackend, LiveFrontend};
use crate::shared::{BindId, ThreadContext};

/// The position of an evaluation: the default where a rule names no proxy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProxyFacts<'a> {
    pub(crate) shared: &'a ThreadContext,
    pub(crate) bind: BindId,
    pub(crate) backend: Option<BackendId>,
    pub(crate) server: Option<ServerId>,
}

impl<'a> ProxyFacts<'a> {
    pub(crate) fn frontend(&self) -> &'a LiveFrontend {
        &self.shared.live.frontends[self.bind.frontend]
    }

    /// The client in a log line; over a Unix socket `unix` and the listener's number.
    pub(crate) fn client(&self, source: Option<SocketAddr>) -> (Sample<'a>, Option<Sample<'a>>) {
        match source {
            Some(source) => (Sample::Address(source.ip()), number(source.port())),
            None => {
                let bind = &self.frontend().config.binds[self.bind.bind];
                (Sample::Text(b"unix".into()), number(bind.id))
            }
        }
    }

    pub(crate) fn backend(&self) -> Option<&'a LiveBackend> {
        self.backend.map(|it| &self.shared.live.backends[it.0])
    }

    fn member(&self) -> Option<&'a Member> {
        self.backend()?.group.members().get(self.server?.0)
    }

    fn frontend_named(&self, name: Option<&str>) -> Option<&'a LiveFrontend> {
        match name {
            None => Some(self.frontend()),
            Some(name) => self.shared.live.frontends.iter().find(|it| it.config.name == name),
        }
    }

    fn backend_named(&self, name: Option<&str>) -> Option<&'a LiveBackend> {
        match name {
            None => self.backend(),
            Some(name) => {
                let live = &self.shared.live;
                Some(&live.backends[live.backend_named(name.as_bytes())?.0])
            }
        }
    }

    fn server_named(&self, backend: Option<&str>, name: &str) -> Option<(&'a LiveBackend, usize)> {
        let backend = self.backend_named(backend)?;
        let at = backend.servers.iter().position(|it| it.config.name == name)?;
        Some((backend, at))
    }

    /// The value of a fact that does not depend on the traffic; `None` for other facts.
    pub(crate) fn fact(&self, now: Instant, fact: &Fact) -> Option<Sample<'a>> {
        match fact {
            Fact::FrontendName => text(&self.frontend().config.name),
            Fact::FrontendId => number(self.frontend().config.id),
            Fact::BackendName => text(match self.backend() {
                Some(backend) => &backend.config.name,
                None => &self.frontend().config.name, // the proxy responds itself
            }),
            Fact::BackendId => number(self.backend()?.config.id),
            Fact::ServerName => text(&self.backend()?.servers[self.server?.0].config.name),
            Fact::ServerId => number(self.member()?.settings().id),
            Fact::ListenerName => text(&self.frontend().config.binds[self.bind.bind].name),
            Fact::ListenerId => number(self.frontend().config.binds[self.bind.bind].id),
            Fact::ListenerConnections => {
                gauge(&self.frontend().listeners[self.bind.bind], Stat::Sessions)
            }
            Fact::DefaultBackend => {
                let backend = self.frontend().config.default_backend?;
                text(&self.shared.live.backends[backend.0].config.name)
            }
            Fact::Threads => number(self.shared.live.threads as u64),
            Fact::Thread => number(self.shared.thread as u64),
            Fact::Process => number(std::process::id()),
            Fact::Stopping => Some(Sample::Bool(self.shared.ending)),
            Fact::Date => number(self.shared.since_epoch(now).as_secs()),
            Fact::DateMicros => number(self.shared.since_epoch(now).subsec_micros()),
            Fact::Random(below) => number(u64::from(fastrand::u32(..(*below).max(1)))),
            Fact::Uuid => formatted(uuid()),
            fact => self.load(fact),
        }
    }

    /// The load of a proxy.
    fn load(&self, fact: &Fact) -> Option<Sample<'a>> {
        let millis = self.shared.live.clocks[self.shared.thread].millis();
        match fact {
            Fact::FrontendConnections(name) => {
                gauge(&self.frontend_named(name.as_deref())?.counters, Stat::Sessions)
            }
            Fact::FrontendRate(name) => {
                rate(&self.frontend_named(name.as_deref())?.counters, RateKind::Sessions, millis)
            }
            Fact::FrontendRequestRate(name) => {
                rate(&self.frontend_named(name.as_deref())?.counters, RateKind::Requests, millis)
            }
            Fact::BackendConnections(name) => {
                gauge(&self.backend_named(name.as_deref())?.counters, Stat::Sessions)
            }
            Fact::BackendRate(name) => {
                rate(&self.backend_named(name.as_deref())?.counters, RateKind::Sessions, millis)
            }
            Fact::UsableServers(name) => {
                number(self.backend_named(name.as_deref())?.group.usable() as u64)
            }
            Fact::Queue(name) => number(waiting(self.backend_named(name.as_deref())?)),
            Fact::AverageQueue(name) => {
                let backend = self.backend_named(name.as_deref())?;
                let usable = (backend.group.usable() as u64).max(1);
                number(waiting(backend).div_ceil(usable))
            }
            Fact::BackendFree(name) => {
                Some(Sample::Int(free(self.backend_named(name.as_deref())?, 0)))
            }
            Fact::ConnectionSlots(name) => {
                let backend = self.backend_named(name.as_deref())?;
                let queues = backend.group.members().iter().map(|it| it.settings().queue_max);
                Some(Sample::Int(free(backend, queues.map(i64::from).sum())))
            }
            fact => self.server_load(fact, millis),
        }
    }

    fn server_load(&self, fact: &Fact, millis: u64) -> Option<Sample<'a>> {
        let named =
            |backend: &Option<Box<str>>, name: &str| self.server_named(backend.as_deref(), name);
        let of = |(backend, at): (&'a LiveBackend, usize)| &backend.group.members()[at];
        match fact {
            Fact::ServerIsUp(backend, name) => {
                Some(Sample::Bool(of(named(backend, name)?).is_usable()))
            }
            Fact::ServerConnections(backend, name) => number(of(named(backend, name)?).sessions()),
            Fact::ServerQueue(backend, name) => number(of(named(backend, name)?).queued()),
            Fact::ServerWeight(backend, name) => number(of(named(backend, name)?).weight_now()),
            Fact::ServerFree(backend, name) => {
                let member = of(named(backend, name)?);
                let max = i64::from(member.connections_max());
                let free = (max - i64::from(member.sessions())).max(0);
                Some(Sample::Int(if max == 0 { -1 } else { free }))
            }
            Fact::ServerRate(backend, name) => {
                let (backend, at) = named(backend, name)?;
                rate(&backend.servers[at].counters, RateKind::Sessions, millis)
            }
            _ => None,
        }
    }
}

pub(crate) fn text(text: &str) -> Option<Sample<'_>> {
    Some(Sample::Text(Cow::Borrowed(text.as_bytes())))
}

pub(crate) fn formatted(text: String) -> Option<Sample<'static>> {
    Some(Sample::Text(Cow::Owned(text.into_bytes())))
}

pub(crate) fn number(value: impl Into<u64>) -> Option<Sample<'static>> {
    Some(Sample::Int(i64::try_from(value.into()).unwrap_or(i64::MAX)))
}

fn gauge(threads: &[Counters], counter: Stat) -> Option<Sample<'static>> {
    number(sum(threads, counter))
}

fn rate(threads: &[Counters], rate: RateKind, millis: u64) -> Option<Sample<'static>> {
    number(threads.iter().map(|it| it.rate(rate, millis)).sum::<u64>())
}

/// Number of sessions that wait in a backend, for any server or for one.
fn waiting(backend: &LiveBackend) -> u64 {
    sum(backend.counters.iter(), Stat::Queued)
}

/// Free slots of usable servers, plus `more`; -1: unlimited.
fn free(backend: &LiveBackend, more: i64) -> i64 {
    let members = backend.group.members().iter().filter(|it| it.is_usable());
    let places = members.map(|it| (it.connections_max(), it.sessions()));
    let mut free = more;
    for (max, taken) in places {
        if max == 0 {
            return -1;
        }
        free += (i64::from(max) - i64::from(taken)).max(0);
    }
    free
}

/// Version 4 (RFC 9562 §5.4).
fn uuid() -> String {
    let bits = fastrand::u128(..);
    let bits = bits & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{bits:032x}");
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuid_has_version_4() {
        for _ in 0..100 {
            let uuid = uuid();
            assert_eq!((uuid.len(), &uuid[14..15]), (36, "4"), "{uuid}");
            assert!("89ab".contains(&uuid[19..20]), "{uuid}");
        }
    }
}
