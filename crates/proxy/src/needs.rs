//! Values that cost something to know, and are only collected if the configuration uses them: the
//! destination of a client's connection, if the listening address does not determine it (one
//! `getsockname(2)` for each connection), and the first line of each request as received.

use std::cell::Cell;

use fulmar_haproxy::model::{BindAddress, ServerProxy};
use fulmar_haproxy::rules::eval_context::{Fact, LogField};
use fulmar_haproxy::rules::http::HttpRule;
use fulmar_haproxy::rules::{Condition, EvalContext, Sample};
use fulmar_haproxy::{BackendConfig, Config, FrontendConfig, ServerConfig};

use crate::shared::BindId;
use crate::upstream::is_mapped;

/// True if the destination of each connection of this listener is needed.
pub(crate) fn needs_destination(config: &Config, bind: BindId) -> bool {
    let frontend = &config.frontends[bind.frontend];
    let is_known = match frontend.binds[bind.bind].address {
        BindAddress::Tcp(address) => !address.ip().is_unspecified() && address.port() != 0,
        BindAddress::Unix(_) | BindAddress::Abstract(_) => return false,
        BindAddress::Inherited(_) => false,
    };
    let is_sent = frontend.options.original_to.is_some()
        || config.backends.iter().any(|backend| sends_destination(backend));
    !is_known && (config.needs_destination || is_sent)
}

/// True if the first line of this frontend's requests has to be kept.
pub(crate) fn needs_request_line(config: &Config, frontend: &FrontendConfig) -> bool {
    let probe = Probe::default();
    probe.evaluate(&[
        &frontend.request_rules,
        &frontend.response_rules,
        &frontend.after_response_rules,
    ]);
    for it in &config.backends {
        probe.evaluate(&[&it.request_rules, &it.response_rules, &it.after_response_rules]);
    }
    if let Some((format, _)) = &frontend.unique_id {
        format.render(&probe, &mut Vec::new());
    }
    !frontend.logs.is_empty() || probe.line.get()
}

/// True if servers of this backend receive the destination of clients.
fn sends_destination(backend: &BackendConfig) -> bool {
    let sends = |it: &ServerConfig| it.send_proxy != ServerProxy::None || is_mapped(&it.address);
    backend.options.original_to.is_some() || backend.servers.iter().any(|it| sends(it))
}

/// Records whether a rule used the first line.
#[derive(Debug, Default)]
struct Probe {
    line: Cell<bool>,
}

impl Probe {
    /// Evaluates everything that the rules evaluate.
    fn evaluate(&self, sets: &[&[HttpRule]]) {
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

impl EvalContext for Probe {
    fn fact(&self, fact: &Fact) -> Option<Sample<'_>> {
        if matches!(fact, Fact::Log(LogField::RequestLine)) {
            self.line.set(true);
        }
        None
    }
}
