//! A session, as rules and lines of the log see it.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::Instant;

use fulmar_haproxy::model::ServerTls;
use fulmar_rules::subject::{Fact, LogField, Payload, Variable};
use fulmar_rules::{RequestHead, ResponseHead, Sample, Subject};

use super::session::Session;
use crate::counters::{Counter, sum};
use crate::shared::Shared;

/// A session, as rules see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    pub(super) shared: &'a Shared,
    pub(super) session: &'a Session,
    /// No more of its first bytes will come before the rules decide.
    pub(super) complete: bool,
}

/// The same at a moment: for lines of the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a> {
    view: View<'a>,
    now: Instant,
}

impl<'a> View<'a> {
    pub(super) fn at(self, now: Instant) -> Record<'a> {
        Record { view: self, now }
    }

    /// The name that a TLS server is asked for.
    pub(super) fn server_name(&self, tls: &ServerTls) -> Option<String> {
        match tls.sni.as_ref()?.evaluate(self)? {
            Sample::Text(text) => String::from_utf8(text.into_owned()).ok(),
            _ => None,
        }
    }

    fn text(text: &'a str) -> Option<Sample<'a>> {
        Some(Sample::Text(Cow::Borrowed(text.as_bytes())))
    }

    fn backend(&self) -> Option<&'a crate::live::LiveBackend> {
        self.session.backend.map(|it| &self.shared.live.backends[it.0])
    }

    fn frontend(&self) -> &'a crate::live::LiveFrontend {
        &self.shared.live.frontends[self.session.bind.frontend]
    }
}

impl Subject for View<'_> {
    fn request(&self) -> Option<&RequestHead> {
        None
    }

    fn response(&self) -> Option<&ResponseHead> {
        None
    }

    fn source(&self) -> Option<SocketAddr> {
        self.session.source
    }

    fn destination(&self) -> Option<SocketAddr> {
        self.session.destination
    }

    fn payload(&self) -> Payload<'_> {
        Payload { bytes: self.session.pending.bytes(), complete: self.complete }
    }

    fn variable(&self, _: &Variable) -> Option<Sample<'_>> {
        None
    }

    fn fact(&self, fact: &Fact) -> Option<Sample<'_>> {
        match fact {
            Fact::FrontendName => Self::text(&self.frontend().config.name),
            Fact::BackendName => Self::text(&self.backend()?.config.name),
            Fact::ServerName => {
                let server = &self.backend()?.servers[self.session.target?.0];
                Self::text(&server.config.name)
            }
            _ => None,
        }
    }
}

impl Subject for Record<'_> {
    fn request(&self) -> Option<&RequestHead> {
        None
    }

    fn response(&self) -> Option<&ResponseHead> {
        None
    }

    fn source(&self) -> Option<SocketAddr> {
        self.view.source()
    }

    fn destination(&self) -> Option<SocketAddr> {
        self.view.destination()
    }

    fn payload(&self) -> Payload<'_> {
        self.view.payload()
    }

    fn variable(&self, variable: &Variable) -> Option<Sample<'_>> {
        self.view.variable(variable)
    }

    fn fact(&self, fact: &Fact) -> Option<Sample<'_>> {
        match fact {
            Fact::Log(field) => self.field(*field),
            fact => self.view.fact(fact),
        }
    }
}

impl<'a> Record<'a> {
    fn field(&self, field: LogField) -> Option<Sample<'a>> {
        let (view, session) = (&self.view, self.view.session);
        let frontend = &view.frontend().config;
        let number = |value: u64| Some(Sample::Int(i64::try_from(value).unwrap_or(i64::MAX)));
        match field {
            LogField::BytesRead => number(session.answered),
            LogField::BytesUploaded => number(session.received),
            LogField::TimeWait | LogField::TimeConnect | LogField::TimeTotal => {
                Some(Sample::Int(self.time(field)))
            }
            LogField::Retries if session.redispatched => {
                Some(Sample::Text(format!("+{}", session.retries).into_bytes().into()))
            }
            LogField::Retries => number(session.retries.into()),
            LogField::TerminationState => {
                let ending = session.ending.unwrap_or(super::ending::Ending::NORMAL);
                Some(Sample::Text(ending.letters().to_vec().into()))
            }
            LogField::Frontend | LogField::FrontendTransport => View::text(&frontend.name),
            LogField::Backend => match view.backend() {
                Some(backend) => View::text(&backend.config.name),
                None => View::text(&frontend.name),
            },
            LogField::Server => match (view.backend(), session.target) {
                (Some(backend), Some(target)) => View::text(&backend.servers[target.0].config.name),
                _ => View::text("<NOSRV>"),
            },
            LogField::FrontendConnections => {
                number(sum(view.frontend().counters.iter(), Counter::Sessions))
            }
            LogField::BackendConnections => {
                number(sum(view.backend()?.counters.iter(), Counter::Sessions))
            }
            LogField::ServerConnections => {
                let target = session.target?;
                number(view.backend()?.group.members()[target.0].sessions().into())
            }
            LogField::ClientAddress => session.source.map(|it| Sample::Address(it.ip())),
            LogField::ClientPort => number(session.source?.port().into()),
            LogField::FrontendAddress => session.destination.map(|it| Sample::Address(it.ip())),
            LogField::FrontendPort => number(session.destination?.port().into()),
            _ => None,
        }
    }

    /// Milliseconds, or -1 if it never came to that.
    fn time(&self, field: LogField) -> i64 {
        let times = &self.view.session.times;
        let between = |from: Option<u32>, to: Option<u32>| match (from, to) {
            (Some(from), Some(to)) => i64::from(to.saturating_sub(from)),
            _ => -1,
        };
        match field {
            LogField::TimeWait => between(times.routed, times.dequeued),
            LogField::TimeConnect => between(times.dequeued, times.connected),
            _ => i64::from(self.view.session.age(self.now)),
        }
    }
}
