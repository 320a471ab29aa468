//! An exchange, as rules and log lines read it.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::Instant;

use fulmar_haproxy::rules::eval_context::{Fact, LogField, Payload, Variable, VariableScope};
use fulmar_haproxy::rules::{EvalContext, RequestHead, ResponseHead, Sample};
use fulmar_haproxy::{BackendId, ServerId};
use fulmar_proto::{HeaderBuf, Headers};

use crate::counters::{Stat, sum};
use crate::facts::{ProxyFacts, formatted, number, text};
use crate::http::exchange::{EndLetters, HttpExchange};
use crate::http::session::HttpSession;
use crate::shared::ThreadContext;
use crate::tls_info;

/// An exchange with its context.
#[derive(Debug)]
pub(super) struct ExchangeView<'a> {
    pub(super) now: Instant,
    pub(super) shared: &'a ThreadContext,
    pub(super) session: &'a mut HttpSession,
    pub(super) exchange: &'a mut HttpExchange,
}

impl ExchangeView<'_> {
    fn proxy_facts(&self) -> ProxyFacts<'_> {
        let HttpExchange { backend, server, .. } = *self.exchange;
        let server = server.map(ServerId);
        ProxyFacts { shared: self.shared, bind: self.session.bind(), backend, server }
    }

    /// The value of a fact about this connection or exchange.
    fn own(&self, fact: &Fact) -> Option<Sample<'_>> {
        let rare = self.session.rare.as_deref();
        match fact {
            Fact::ReceivedProxy => Some(Sample::Bool(rare.is_some_and(|rare| rare.was_introduced))),
            Fact::ConnectionSource => {
                let from = rare.and_then(|rare| rare.connected_from);
                Some(Sample::Address(from.unwrap_or(self.session.peer).ip()))
            }
            Fact::ConnectionDestination => {
                let told = rare.and_then(|rare| rare.connected_to);
                let to = told.or_else(|| self.shared.address_of(self.session.bind()))?;
                Some(Sample::Address(to.ip()))
            }
            Fact::ServerTls => {
                let backend = &self.shared.live.backends[self.exchange.backend?.0];
                Some(Sample::Bool(backend.servers[self.exchange.server?].tls.is_some()))
            }
            Fact::ServerAddress => Some(Sample::Address(self.server_address()?.ip())),
            Fact::ServerPort => number(self.server_address()?.port()),
            Fact::UniqueId => Some(Sample::Text((&self.exchange.unique_id[..]).into())),
            Fact::CapturedRequest(at) => captured(&self.exchange.request_captures, *at),
            Fact::CapturedResponse(at) => captured(&self.exchange.response_captures, *at),
            Fact::Authenticated(list) => Some(Sample::Bool(self.user(list).is_some())),
            Fact::AuthenticatedGroups(list) => {
                Some(Sample::Text(self.user(list)?.groups.join(",").into_bytes().into()))
            }
            Fact::FirstRequest => Some(Sample::Bool(self.session.requests <= 1)),
            Fact::Hostname => text(self.shared.services.hostname()),
            fact => tls_info::fact(rare.and_then(|rare| rare.tls.as_ref()), fact),
        }
    }

    /// The address of the selected server.
    fn server_address(&self) -> Option<SocketAddr> {
        let backend = &self.shared.live.backends[self.exchange.backend?.0];
        match &backend.servers[self.exchange.server?].config.address {
            fulmar_haproxy::model::ServerAddress::Tcp(address) => Some(*address),
            _ => None,
        }
    }

    /// The user of a list with the credentials of the request (RFC 7617 §2).
    fn user(&self, list: &str) -> Option<&fulmar_haproxy::model::User> {
        let lists = &self.shared.live.config.userlists;
        let list = lists.iter().find(|it| it.name == list)?;
        let fields = self.exchange.request.fields.as_headers();
        let given = super::credentials::basic(fields.get("authorization")?)?;
        let (name, password) = given.split_once(':')?;
        let user = list.users.iter().find(|user| user.name == name)?;
        self.shared.services.is_secret(&user.secret, password).then_some(user)
    }

    fn field(&self, field: LogField) -> Option<Sample<'_>> {
        let (exchange, live) = (&*self.exchange, &self.shared.live);
        let frontend = &live.frontends[self.session.bind().frontend];
        let backend = exchange.backend.map(|BackendId(at)| &live.backends[at]);
        match field {
            LogField::BytesRead => self.so_far(exchange.sent().try_into().unwrap_or(i64::MAX)),
            LogField::BytesUploaded => number(exchange.bytes_in),
            LogField::CapturedRequestCookie => captured(&exchange.cookie_captures, 0),
            LogField::CapturedResponseCookie => captured(&exchange.cookie_captures, 1),
            LogField::Status if exchange.status == 0 => Some(Sample::Int(-1)),
            LogField::Status => number(exchange.status),
            LogField::Retries if exchange.redispatched => formatted(format!("+{}", exchange.tried)),
            LogField::Retries => number(exchange.tried),
            LogField::BackendQueue => number(exchange.turns.0),
            LogField::ServerQueue => number(exchange.turns.1),
            LogField::LogCounter => number(sum(&frontend.counters, Stat::Requests)),
            LogField::TerminationState => Some(self.ended(2)),
            LogField::TerminationStateCookie => Some(self.ended(4)),
            LogField::Backend => match backend {
                Some(backend) => text(&backend.config.name),
                None => text(&frontend.config.name),
            },
            LogField::Frontend => text(&frontend.config.name),
            LogField::FrontendTransport => {
                let is_tls = self.session.rare.as_ref().is_some_and(|rare| rare.tls.is_some());
                let name = &frontend.config.name;
                match is_tls {
                    true => formatted(format!("{name}~")),
                    false => text(name),
                }
            }
            LogField::Server => match (exchange.service, backend, exchange.server) {
                (Some(service), ..) => text(service),
                (None, Some(backend), Some(at)) => text(&backend.servers[at].config.name),
                _ => text("<NOSRV>"),
            },
            LogField::ServerAddress => Some(Sample::Address(self.server_address()?.ip())),
            LogField::ServerPort => number(self.server_address()?.port()),
            LogField::FrontendAddress => Some(Sample::Address(self.destination()?.ip())),
            LogField::FrontendPort => number(self.destination()?.port()),
            LogField::RequestCaptures => number(frontend.config.request_captures.len() as u64),
            LogField::ResponseCaptures => number(frontend.config.response_captures.len() as u64),
            LogField::RequestLine if exchange.start_line.is_empty() => None,
            LogField::RequestLine => Some(Sample::Text((&exchange.start_line[..]).into())),
            LogField::RequestCounter => number(sum(&frontend.counters, Stat::Requests)),
            LogField::ClientAddress => Some(self.proxy_facts().client(self.client_address()).0),
            LogField::ClientPort => self.proxy_facts().client(self.client_address()).1,
            LogField::TlsCipher => self.own(&Fact::TlsCipher),
            LogField::TlsVersion => self.own(&Fact::TlsProtocol),
            LogField::RequestBegan => {
                let times = &exchange.times;
                let began = times.first.or(times.since).unwrap_or(self.session.since);
                number(self.millis_of(began))
            }
            LogField::Accepted => {
                number(self.millis_of(exchange.times.since.unwrap_or(self.session.since)))
            }
            field => self.load(field).or_else(|| self.time(field)),
        }
    }

    /// Current numbers of sessions.
    fn load(&self, field: LogField) -> Option<Sample<'_>> {
        let (exchange, live) = (&*self.exchange, &self.shared.live);
        let frontend = &live.frontends[self.session.bind().frontend];
        let backend = exchange.backend.map(|BackendId(at)| &live.backends[at]);
        match field {
            LogField::ProcessConnections => number(sum(&live.totals, Stat::Sessions)),
            LogField::FrontendConnections => number(sum(&frontend.counters, Stat::Sessions)),
            LogField::BackendConnections => match backend {
                Some(backend) => number(sum(&backend.counters, Stat::Sessions)),
                None => number(0_u64),
            },
            LogField::ServerConnections => match (backend, exchange.server) {
                (Some(backend), Some(at)) => number(backend.group.members()[at].sessions()),
                _ => number(0_u64),
            },
            _ => None,
        }
    }

    /// Milliseconds since 1970.
    fn millis_of(&self, moment: Instant) -> u64 {
        self.shared.wall_millis(self.now, moment)
    }

    /// The letters of the end: two, or four with those of cookies.
    fn ended(&self, letters: usize) -> Sample<'_> {
        Sample::Text(Cow::Borrowed(&self.exchange.letters[..letters]))
    }

    /// Milliseconds; -1 if the event did not happen (HAProxy's manual, §8.4).
    fn time(&self, field: LogField) -> Option<Sample<'_>> {
        let times = &self.exchange.times;
        let between = |from: Option<Instant>, to: Option<Instant>| match (from, to) {
            (Some(from), Some(to)) => {
                let span = to.saturating_duration_since(from).as_millis();
                i64::try_from(span).unwrap_or(i64::MAX)
            }
            _ => -1,
        };
        let handshake = i64::from(times.handshake);
        let (since, now) = (times.since, Some(self.now));
        let idle = match times.first {
            Some(_) => (between(since, times.first) - handshake).max(0),
            None => -1,
        };
        let receiving = match self.exchange.ended {
            EndLetters(_, b'T') => -1, // as HAProxy logs a tarpit
            _ => between(times.first, times.began),
        };
        let time = match field {
            LogField::TimeActive => return self.so_far(between(times.first.or(since), now)),
            LogField::TimeUser => return self.so_far(between(since, now) - idle.max(0)),
            LogField::TimeTotal => return self.so_far(between(since, now)),
            LogField::TimeHandshake => handshake,
            LogField::TimeIdle => idle,
            LogField::TimeRequest => receiving,
            LogField::TimeQuery if receiving < 0 => -1,
            LogField::TimeQuery => handshake + idle + receiving,
            LogField::TimeWait => between(times.began, times.assigned),
            LogField::TimeConnect => between(times.assigned, times.connected),
            // A response that the client did not get does not count.
            LogField::TimeResponse if self.exchange.is_generated => -1,
            LogField::TimeResponse => between(times.connected, times.answered),
            LogField::TimeData => between(times.answered, now),
            _ => return None,
        };
        Some(Sample::Int(time))
    }

    /// A figure that may still grow after an early log line (`logasap`).
    fn so_far(&self, figure: i64) -> Option<Sample<'_>> {
        let frontend = &self.shared.live.frontends[self.session.bind().frontend].config;
        Some(match frontend.log_options.as_soon_as_possible {
            true => Sample::Text(format!("+{figure}").into_bytes().into()),
            false => Sample::Int(figure),
        })
    }
}

impl EvalContext for ExchangeView<'_> {
    fn request(&self) -> Option<&RequestHead> {
        (!self.exchange.request.method.is_empty()).then_some(&self.exchange.request)
    }

    fn response(&self) -> Option<&ResponseHead> {
        self.exchange.has_response.then_some(&self.exchange.response)
    }

    fn source(&self) -> Option<SocketAddr> {
        self.client_address()
    }

    fn destination(&self) -> Option<SocketAddr> {
        let rare = self.session.rare.as_ref().and_then(|rare| rare.destination);
        let own = self.exchange.destination.or(rare);
        own.or_else(|| self.shared.address_of(self.session.bind()))
    }

    fn body(&self) -> Payload<'_> {
        let body = &self.exchange.body;
        Payload { bytes: &body.replay, complete: body.ended || body.gone }
    }

    fn request_hop_fields(&self) -> Headers<'_> {
        self.exchange.hops.as_headers()
    }

    fn variable(&self, variable: &Variable) -> Option<Sample<'_>> {
        let found = match variable.scope {
            VariableScope::Proc => return self.shared.live.variable(&variable.name),
            VariableScope::Sess => &self.session.rare.as_ref()?.variables,
            scope if self.exchange.lives(scope) => &self.exchange.variables,
            _ => return None,
        };
        let (_, value) = found.iter().find(|(known, _)| known == variable)?;
        Some(value.clone())
    }

    fn fact(&self, fact: &Fact) -> Option<Sample<'_>> {
        match fact {
            Fact::Log(field) => self.field(*field),
            fact => self.own(fact).or_else(|| self.proxy_facts().fact(self.now, fact)),
        }
    }
}

/// A captured value, if it is not empty.
fn captured(captures: &[Vec<u8>], at: usize) -> Option<Sample<'_>> {
    let value = captures.get(at).filter(|value| !value.is_empty())?;
    Some(Sample::Text(Cow::Borrowed(value)))
}

/// The hop-by-hop fields of a message.
pub(super) fn hops(head: Headers<'_>, into: &mut HeaderBuf) {
    if head.end_to_end().count() == head.len() {
        return;
    }
    for (name, value) in head.hop_by_hop() {
        let name = str::from_utf8(name).expect("a name is a token");
        into.push(name, value).expect("what was received can be sent");
    }
}
