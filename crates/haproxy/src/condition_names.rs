//! Checks names in conditions: `nbsrv(app)` requires a backend `app`, `http_auth(people)` a
//! userlist.

use crate::diagnostics::{Diagnostic, Severity};
use crate::model::Config;
use crate::position::LineRef;
use crate::rules::WordError;
use crate::rules::eval_context::Fact;

/// Reports each unknown name once.
pub(crate) fn check(config: &Config, facts: &[(LineRef, u32, Fact)], found: &mut Vec<Diagnostic>) {
    let mut reported: Vec<&Fact> = Vec::new();
    for (spot, column, fact) in facts {
        let Some(message) = missing(config, fact).filter(|_| !reported.contains(&fact)) else {
            continue;
        };
        reported.push(fact);
        let fault = WordError::new(*column, message);
        found.push(Diagnostic::at(Severity::Alert, &spot.place, &spot.text, fault));
    }
}

/// The error if a fact refers to an unknown name.
fn missing(config: &Config, fact: &Fact) -> Option<String> {
    let backend = |name: &str| {
        let is_there = config.backends.iter().any(|backend| *backend.name == *name);
        (!is_there).then(|| format!("unknown backend '{name}'"))
    };
    match fact {
        Fact::BackendConnections(Some(name))
        | Fact::BackendRate(Some(name))
        | Fact::BackendFree(Some(name))
        | Fact::ConnectionSlots(Some(name))
        | Fact::UsableServers(Some(name))
        | Fact::Queue(Some(name))
        | Fact::AverageQueue(Some(name)) => backend(name),
        Fact::FrontendConnections(Some(name))
        | Fact::FrontendRate(Some(name))
        | Fact::FrontendRequestRate(Some(name)) => {
            let is_there = config.frontends.iter().any(|frontend| *frontend.name == **name);
            (!is_there).then(|| format!("unknown frontend '{name}'"))
        }
        Fact::ServerIsUp(Some(name), server)
        | Fact::ServerConnections(Some(name), server)
        | Fact::ServerFree(Some(name), server)
        | Fact::ServerRate(Some(name), server)
        | Fact::ServerWeight(Some(name), server)
        | Fact::ServerQueue(Some(name), server) => backend(name).or_else(|| {
            let is_there = config.backends.iter().any(|backend| backend_has(backend, name, server));
            (!is_there).then(|| format!("unknown server '{server}' in backend '{name}'"))
        }),
        Fact::Authenticated(name) | Fact::AuthenticatedGroups(name) => {
            let is_there = config.userlists.iter().any(|list| *list.name == **name);
            (!is_there).then(|| format!("unknown userlist '{name}'"))
        }
        _ => None,
    }
}

fn backend_has(backend: &crate::model::BackendConfig, name: &str, server: &str) -> bool {
    *backend.name == *name && backend.servers.iter().any(|other| *other.name == *server)
}
