//! Whether anybody asks for what costs something to know: what a client has connected to, where the
//! listening address alone does not tell, which is a system call for every connection
//! (`getsockname(2)`); and the first line of a request as it arrived, which is kept for every one.

use std::cell::Cell;
use std::net::SocketAddr;

use fulmar_haproxy::model::{BindAddress, ServerProxy};
use fulmar_haproxy::{Backend, Config, Frontend};
use fulmar_rules::http::HttpRule;
use fulmar_rules::subject::{Fact, LogField};
use fulmar_rules::{Condition, Sample, Subject};

use crate::shared::BindId;
use crate::upstream::is_mapped;

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

/// True if the first line of requests of this frontend is to be kept.
pub(crate) fn asks_line(config: &Config, frontend: &Frontend) -> bool {
    let probe = Probe::default();
    probe.ask(&[&frontend.request_rules, &frontend.response_rules, &frontend.after_response_rules]);
    for it in &config.backends {
        probe.ask(&[&it.request_rules, &it.response_rules, &it.after_response_rules]);
    }
    if let Some((format, _)) = &frontend.unique_id {
        format.render(&probe, &mut Vec::new());
    }
    !frontend.logs.is_empty() || probe.line.get()
}

fn of_frontend(frontend: &Frontend) -> bool {
    let tcp = [&frontend.connection_rules, &frontend.session_rules, &frontend.content_rules];
    let tcp = tcp.into_iter().flatten().filter_map(|rule| rule.condition.as_ref());
    let uses = frontend.use_backends.iter().filter_map(|rule| rule.condition.as_ref());
    let probe = Probe::default();
    if !frontend.logs.is_empty() {
        frontend.log_format.render(&probe, &mut Vec::new());
    }
    if let Some((format, _)) = &frontend.unique_id {
        format.render(&probe, &mut Vec::new());
    }
    probe.ask(&[&frontend.request_rules, &frontend.response_rules, &frontend.after_response_rules]);
    probe.destination.get()
        || frontend.options.original_to.is_some()
        || tcp.chain(uses).any(of_condition)
}

fn of_backend(backend: &Backend) -> bool {
    let told =
        |it: &fulmar_haproxy::Server| it.send_proxy != ServerProxy::None || is_mapped(&it.address);
    let rules = backend.content_rules.iter().filter_map(|rule| rule.condition.as_ref());
    let uses = backend.use_servers.iter().map(|(_, condition)| condition);
    let probe = Probe::default();
    probe.ask(&[&backend.request_rules, &backend.response_rules, &backend.after_response_rules]);
    probe.destination.get()
        || backend.options.original_to.is_some()
        || backend.servers.iter().any(|it| told(it))
        || rules.chain(uses).any(of_condition)
}

fn of_condition(condition: &Condition) -> bool {
    condition.acls().any(|acl| acl.expression().name().starts_with("dst"))
}

/// Notes what it was asked.
#[derive(Debug, Default)]
struct Probe {
    destination: Cell<bool>,
    line: Cell<bool>,
}

impl Probe {
    /// Asks for all that rules ask for.
    fn ask(&self, sets: &[&[HttpRule]]) {
        for rule in sets.iter().copied().flatten() {
            let acls = rule.condition.iter().flat_map(Condition::acls);
            for expression in acls.map(|acl| acl.expression()).chain(rule.expressions()) {
                expression.evaluate(self);
            }
            for format in rule.formats() {
                format.render(self, &mut Vec::new());
            }
        }
    }
}

impl Subject for Probe {
    fn destination(&self) -> Option<SocketAddr> {
        self.destination.set(true);
        None
    }

    fn fact(&self, fact: &Fact) -> Option<Sample<'_>> {
        match fact {
            Fact::Log(LogField::FrontendAddress | LogField::FrontendPort) => {
                self.destination.set(true);
            }
            Fact::Log(LogField::RequestLine) => self.line.set(true),
            _ => {}
        }
        None
    }
}
