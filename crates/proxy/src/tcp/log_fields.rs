//! Fields of log lines of a session (HAProxy's manual, §8.2.2 and §8.2.6).

use std::cell::Cell;
use std::net::SocketAddr;

use fulmar_haproxy::FrontendConfig;
use fulmar_haproxy::rules::eval_context::{Fact, LogField};
use fulmar_haproxy::rules::{EvalContext, Sample};

use super::context::SessionContext;
use super::termination_state::SessionEnd;
use crate::counters::{Stat, sum};
use crate::facts::{formatted, number, text};

impl<'a> SessionContext<'a> {
    /// The value of a field.
    pub(super) fn field(self, field: LogField) -> Option<Sample<'a>> {
        let (proxy_facts, session) = (self.proxy_facts(), self.session);
        let frontend = &proxy_facts.frontend().config;
        match field {
            LogField::BytesRead => number(session.sent),
            LogField::BytesUploaded => number(session.received),
            LogField::Retries if session.redispatched => formatted(format!("+{}", session.retries)),
            LogField::Retries => number(session.retries),
            LogField::TerminationState | LogField::TerminationStateCookie => {
                let [by, when] = session.ending.unwrap_or(SessionEnd::NORMAL).letters();
                let letters = [by, when, b'-', b'-'];
                let len = if field == LogField::TerminationState { 2 } else { 4 };
                Some(Sample::Text(letters[..len].to_vec().into()))
            }
            LogField::Frontend => text(&frontend.name),
            LogField::FrontendTransport if self.tls().is_some() => {
                formatted(format!("{}~", frontend.name))
            }
            LogField::FrontendTransport => text(&frontend.name),
            LogField::Backend => {
                text(proxy_facts.backend().map_or(&frontend.name, |it| &it.config.name))
            }
            LogField::Server => match (proxy_facts.backend(), session.target) {
                (Some(backend), Some(target)) => text(&backend.servers[target.0].config.name),
                _ => text("<NOSRV>"),
            },
            LogField::ClientAddress => Some(proxy_facts.client(session.source).0),
            LogField::ClientPort => proxy_facts.client(session.source).1,
            LogField::FrontendAddress => self.connected_to().map(|it| Sample::Address(it.ip())),
            LogField::FrontendPort => number(self.connected_to()?.port()),
            LogField::ServerAddress => self.server().map(|it| Sample::Address(it.ip())),
            LogField::ServerPort => number(self.server()?.port()),
            LogField::TlsCipher => text(self.tls()?.cipher),
            LogField::TlsVersion => text(self.tls()?.version),
            LogField::RequestCaptures => number(frontend.request_captures.len() as u64),
            LogField::Accepted | LogField::RequestBegan => {
                number(proxy_facts.shared.wall_millis(self.now, session.accepted))
            }
            LogField::RequestCounter | LogField::LogCounter => {
                number(sum(proxy_facts.frontend().counters.iter(), Stat::SessionsTotal))
            }
            field => self.time(field).map(Sample::Int).or_else(|| self.load(field)),
        }
    }

    /// Current numbers of sessions, and the position in the queue. Only the client's side counts
    /// this session.
    fn load(self, field: LogField) -> Option<Sample<'a>> {
        let proxy_facts = self.proxy_facts();
        let live = &proxy_facts.shared.live;
        match field {
            LogField::ProcessConnections => number(sum(&live.totals, Stat::Sessions)),
            LogField::FrontendConnections => {
                number(sum(proxy_facts.frontend().counters.iter(), Stat::Sessions))
            }
            LogField::BackendConnections => match proxy_facts.backend() {
                Some(backend) => number(sum(backend.counters.iter(), Stat::Sessions)),
                None => number(0_u32),
            },
            LogField::ServerConnections => match (proxy_facts.backend(), self.session.target) {
                (Some(backend), Some(target)) => {
                    number(backend.group.members()[target.0].sessions())
                }
                _ => number(0_u32),
            },
            LogField::BackendQueue => number(self.session.queue_position),
            LogField::ServerQueue => number(0_u32),
            _ => None,
        }
    }

    /// Milliseconds; -1 if the event did not happen.
    fn time(self, field: LogField) -> Option<i64> {
        let times = &self.session.times;
        let between = |from: Option<u32>, to: Option<u32>| match (from, to) {
            (Some(from), Some(to)) => i64::from(to.saturating_sub(from)),
            _ => -1,
        };
        let total = i64::from(self.session.age(self.now));
        Some(match field {
            LogField::TimeWait => between(times.routed, times.dequeued),
            LogField::TimeConnect => between(times.dequeued, times.connected),
            LogField::TimeHandshake => times.opened.map_or(-1, i64::from),
            LogField::TimeData => between(times.connected, Some(self.session.age(self.now))),
            LogField::TimeTotal | LogField::TimeUser | LogField::TimeActive => total,
            LogField::TimeIdle | LogField::TimeQuery | LogField::TimeRequest => 0,
            LogField::TimeResponse => -1,
            _ => return None,
        })
    }

    /// The server's address.
    fn server(self) -> Option<SocketAddr> {
        let (backend, target) = (self.proxy_facts().backend()?, self.session.target?);
        backend.group.members()[target.0].address().or_else(|| {
            match backend.servers[target.0].config.address {
                fulmar_haproxy::model::ServerAddress::Tcp(address) => Some(address),
                _ => None,
            }
        })
    }
}

/// True if a frontend's log lines contain only fields that are known once the server's connection
/// is established, or are not to wait (`option logasap`).
pub(super) fn is_early(frontend: &FrontendConfig) -> bool {
    let ends = EndProbe::default();
    frontend.log_format.render(&ends, &mut Vec::new());
    frontend.log_options.as_soon_as_possible || !ends.0.get()
}

/// Records whether a format uses a field that is known only at the end of a session.
#[derive(Debug, Default)]
struct EndProbe(Cell<bool>);

impl EvalContext for EndProbe {
    fn fact(&self, fact: &Fact) -> Option<Sample<'_>> {
        let early = match fact {
            Fact::Log(field) => matches!(
                field,
                LogField::Accepted
                    | LogField::RequestBegan
                    | LogField::Frontend
                    | LogField::FrontendTransport
                    | LogField::FrontendAddress
                    | LogField::FrontendPort
                    | LogField::ClientAddress
                    | LogField::ClientPort
                    | LogField::Backend
                    | LogField::Server
                    | LogField::ServerAddress
                    | LogField::ServerPort
                    | LogField::ServerLocalAddress
                    | LogField::ServerLocalPort
                    | LogField::RequestCounter
                    | LogField::LogCounter
                    | LogField::RequestCaptures
                    | LogField::TlsCipher
                    | LogField::TlsVersion
            ),
            _ => true,
        };
        self.0.set(self.0.get() || !early);
        None
    }
}
