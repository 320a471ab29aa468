//! A session, as rules read and change it.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::Instant;

use fulmar_haproxy::rules::eval_context::{Fact, Payload, Variable, VariableScope};
use fulmar_haproxy::rules::eval_context_mut::{CaptureSlot, Effect, EvalContextMut};
use fulmar_haproxy::rules::{EvalContext, RequestHead, ResponseHead, Sample};

use super::session::{ProxyHeaderState, RareSessionState, TcpSession};
use crate::facts::ProxyFacts;
use crate::shared::{ThreadContext, set_variable};
use crate::tls_info::{self, TlsInfo};

/// A session, as rules read it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SessionContext<'a> {
    pub(super) shared: &'a ThreadContext,
    pub(super) session: &'a TcpSession,
    pub(super) now: Instant,
    /// No more bytes are expected before the rules decide.
    pub(super) complete: bool,
}

/// A session, as rules change it.
#[derive(Debug)]
pub(super) struct SessionContextMut<'a> {
    pub(super) shared: &'a ThreadContext,
    pub(super) session: &'a mut TcpSession,
    pub(super) now: Instant,
    pub(super) complete: bool,
}

impl<'a> SessionContext<'a> {
    /// With all expected bytes received.
    pub(super) fn new(shared: &'a ThreadContext, session: &'a TcpSession, now: Instant) -> Self {
        Self { shared, session, now, complete: true }
    }

    /// The position for facts about the proxy.
    pub(super) fn proxy_facts(&self) -> ProxyFacts<'a> {
        ProxyFacts {
            shared: self.shared,
            bind: self.session.bind,
            backend: self.session.backend,
            server: self.session.target,
        }
    }

    /// The client's destination: from a header or a rule, or the listening address.
    pub(super) fn connected_to(self) -> Option<SocketAddr> {
        let told = self.session.rare.as_ref().and_then(|it| it.destination);
        told.or_else(|| self.shared.address_of(self.session.bind))
    }

    fn seen(self) -> Payload<'a> {
        Payload { bytes: self.session.pending.bytes(), complete: self.complete }
    }

    /// The server's bytes, while rules inspect them.
    fn sent(self) -> Payload<'a> {
        let answer = self.session.answer.as_ref();
        let bytes = answer.map_or(&[][..], |answer| answer.pending.bytes());
        Payload { bytes, complete: self.complete }
    }

    fn variable_of(self, variable: &Variable) -> Option<Sample<'a>> {
        if variable.scope == VariableScope::Proc {
            return self.shared.live.variable(&variable.name);
        }
        let found = self.session.rare.as_ref()?.variables.iter();
        found.into_iter().find(|(name, _)| name == variable).map(|(_, value)| borrowed(value))
    }

    fn known(self, fact: &Fact) -> Option<Sample<'a>> {
        let session = self.session;
        match fact {
            Fact::Log(field) => self.field(*field),
            Fact::ReceivedProxy => {
                Some(Sample::Bool(session.proxy_header == ProxyHeaderState::Received))
            }
            Fact::ConnectionDestination => {
                let told = session.rare.as_ref().and_then(|it| it.connected_to);
                let to = told.or_else(|| self.shared.address_of(session.bind))?;
                Some(Sample::Address(to.ip()))
            }
            Fact::ConnectionSource => session.peer().map(|it| Sample::Address(it.ip())),
            Fact::CapturedRequest(at) => {
                let captured = session.rare.as_ref()?.captures.iter();
                let found = captured.into_iter().find(|(slot, _)| slot == at);
                found.map(|(_, bytes)| Sample::Text(Cow::Borrowed(&bytes[..])))
            }
            fact => {
                tls_info::fact(self.tls(), fact).or_else(|| self.proxy_facts().fact(self.now, fact))
            }
        }
    }

    pub(super) fn tls(self) -> Option<&'a TlsInfo> {
        self.session.rare.as_ref()?.tls.as_ref()
    }
}

fn borrowed<'a>(sample: &'a Sample<'static>) -> Sample<'a> {
    match sample {
        Sample::Text(bytes) => Sample::Text(Cow::Borrowed(bytes)),
        Sample::Binary(bytes) => Sample::Binary(Cow::Borrowed(bytes)),
        other => other.clone(),
    }
}

impl EvalContext for SessionContext<'_> {
    fn source(&self) -> Option<SocketAddr> {
        self.session.source
    }

    fn destination(&self) -> Option<SocketAddr> {
        self.connected_to()
    }

    fn payload(&self) -> Payload<'_> {
        self.seen()
    }

    fn response_payload(&self) -> Payload<'_> {
        self.sent()
    }

    fn variable(&self, variable: &Variable) -> Option<Sample<'_>> {
        self.variable_of(variable)
    }

    fn fact(&self, fact: &Fact) -> Option<Sample<'_>> {
        self.known(fact)
    }
}

impl SessionContextMut<'_> {
    fn view(&self) -> SessionContext<'_> {
        SessionContext {
            shared: self.shared,
            session: self.session,
            now: self.now,
            complete: self.complete,
        }
    }

    fn set_variable(&mut self, variable: &Variable, value: Option<Sample<'static>>) {
        match variable.scope {
            VariableScope::Proc => self.shared.live.set_variable(&variable.name, value),
            VariableScope::Sess | VariableScope::Txn | VariableScope::Req | VariableScope::Res => {
                set_variable(&mut self.rare().variables, variable, value);
            }
        }
    }

    fn rare(&mut self) -> &mut RareSessionState {
        self.session.rare.get_or_insert_default()
    }
}

impl EvalContext for SessionContextMut<'_> {
    fn source(&self) -> Option<SocketAddr> {
        self.session.source
    }

    fn destination(&self) -> Option<SocketAddr> {
        self.view().connected_to()
    }

    fn payload(&self) -> Payload<'_> {
        self.view().seen()
    }

    fn response_payload(&self) -> Payload<'_> {
        self.view().sent()
    }

    fn variable(&self, variable: &Variable) -> Option<Sample<'_>> {
        self.view().variable_of(variable)
    }

    fn fact(&self, fact: &Fact) -> Option<Sample<'_>> {
        self.view().known(fact)
    }
}

impl EvalContextMut for SessionContextMut<'_> {
    fn request_mut(&mut self) -> Option<&mut RequestHead> {
        None
    }

    fn response_mut(&mut self) -> Option<&mut ResponseHead> {
        None
    }

    fn apply(&mut self, effect: Effect<'_>) {
        match effect {
            Effect::SetVariable(variable, value) => self.set_variable(variable, Some(value)),
            Effect::UnsetVariable(variable) => self.set_variable(variable, None),
            Effect::Capture(CaptureSlot::Request(at), value) => {
                let captures = &mut self.rare().captures;
                captures.retain(|(slot, _)| *slot != at);
                captures.push((at, value));
            }
            Effect::ExpectProxy => self.session.proxy_header = ProxyHeaderState::Awaited,
            Effect::LogLevel(level) => self.session.log_level = Some(level),
            Effect::Source(address) => self.session.set_source(Some(address)),
            Effect::Destination(address) => self.session.set_destination(Some(address)),
            // Effects on an HTTP exchange.
            Effect::Capture(CaptureSlot::Response(_), _)
            | Effect::Timeout(..)
            | Effect::NoRetry
            | Effect::EarlyHint(..) => {}
        }
    }
}
