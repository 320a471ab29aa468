//! Whether anybody asks what a client has connected to, where the listening address alone does not
//! tell: it costs a system call for every connection (`getsockname(2)`).

use std::cell::Cell;
use std::net::SocketAddr;

use fulmar_haproxy::model::{BindAddress, ServerAddress, ServerProxy};
use fulmar_haproxy::{Backend, Config, Frontend};
use fulmar_rules::http::{HttpAction, Value};
use fulmar_rules::subject::{Fact, LogField};
use fulmar_rules::{Condition, Expression, Sample, Subject};

use crate::shared::BindId;

/// True if it is to be asked for every client of this listener.
pub(crate) fn asks_destination(config: &Config, bind: BindId) -> bool {
    let frontend = &config.frontends[bind.frontend];
    let is_known = match frontend.binds[bind.bind].address {
        BindAddress::Tcp(address) => !address.ip().is_unspecified() && address.port() != 0,
        BindAddress::Unix(_) | BindAddress::Abstract(_) => return false,
        BindAddress::Inherited(_) => false,
    };
    !is_known && (of_frontend(frontend) || config.backends.iter().any(|it| of_backend(it)))
}

fn of_frontend(frontend: &Frontend) -> bool {
    let tcp = [&frontend.connection_rules, &frontend.session_rules, &frontend.content_rules];
    let tcp = tcp.into_iter().flatten().filter_map(|rule| rule.condition.as_ref());
    let http = [&frontend.request_rules, &frontend.response_rules, &frontend.after_response_rules];
    let by_action = http.iter().any(|rules| rules.iter().any(|rule| of_action(&rule.action)));
    let http = http.into_iter().flatten().filter_map(|rule| rule.condition.as_ref());
    let uses = frontend.use_backends.iter().filter_map(|rule| rule.condition.as_ref());
    let probe = Probe::default();
    if !frontend.logs.is_empty() {
        frontend.log_format.render(&probe, &mut Vec::new());
    }
    if let Some((format, _)) = &frontend.unique_id {
        format.render(&probe, &mut Vec::new());
    }
    probe.0.get()
        || by_action
        || frontend.options.original_to.is_some()
        || tcp.chain(http).chain(uses).any(of_condition)
}

fn of_backend(backend: &Backend) -> bool {
    let told = |it: &fulmar_haproxy::Server| {
        it.send_proxy != ServerProxy::None || matches!(it.address, ServerAddress::Mapped { .. })
    };
    let rules = backend.content_rules.iter().filter_map(|rule| rule.condition.as_ref());
    let http = backend.request_rules.iter().filter_map(|rule| rule.condition.as_ref());
    let uses = backend.use_servers.iter().map(|(_, condition)| condition);
    backend.options.original_to.is_some()
        || backend.request_rules.iter().any(|rule| of_action(&rule.action))
        || backend.servers.iter().any(|it| told(it))
        || rules.chain(http).chain(uses).any(of_condition)
}

fn of_action(action: &HttpAction) -> bool {
    match action {
        HttpAction::AddField(_, format)
        | HttpAction::SetField(_, format)
        | HttpAction::ReplaceField { value: format, .. }
        | HttpAction::SetTarget(_, format)
        | HttpAction::ReplaceTarget(_, _, format) => format.expressions().any(of_expression),
        HttpAction::SetVariable(assignment) => match &assignment.value {
            Value::Expression(expression) => of_expression(expression),
            Value::Format(format) => format.expressions().any(of_expression),
        },
        HttpAction::SetAddress(_, _, expression) => of_expression(expression),
        _ => false,
    }
}

fn of_expression(expression: &Expression) -> bool {
    expression.name().starts_with("dst")
}

fn of_condition(condition: &Condition) -> bool {
    condition.acls().any(|acl| of_expression(acl.expression()))
}

/// Notes whether it was asked.
#[derive(Debug, Default)]
struct Probe(Cell<bool>);

impl Subject for Probe {
    fn destination(&self) -> Option<SocketAddr> {
        self.0.set(true);
        None
    }

    fn fact(&self, fact: &Fact) -> Option<Sample<'_>> {
        if let Fact::Log(LogField::FrontendAddress | LogField::FrontendPort) = fact {
            self.0.set(true);
        }
        None
    }
}
