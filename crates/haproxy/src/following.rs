//! Servers that follow others (`track`): names become places, and nobody may follow himself.

use std::collections::HashMap;

use crate::diagnostics::{Diagnostic, Severity};
use crate::draft::{Draft, ServerDraft};
use crate::model::{BackendId, ServerId};
use crate::rules::Fault;
use crate::spot::Reference;

/// Whom a server follows.
pub(crate) type Leader = (BackendId, ServerId);

/// For each backend and each of its servers, whom it follows. What is wrong is told.
pub(crate) fn leaders(proxies: &[Draft], found: &mut Vec<Diagnostic>) -> Vec<Vec<Option<Leader>>> {
    let backends: Vec<&Draft> = proxies.iter().filter(|draft| draft.kind.is_back()).collect();
    let places = places(&backends);
    let follows = |backend: &Draft, server: &ServerDraft| {
        let name = &server.follows.as_ref()?.name.text;
        let (of, name) = name.split_once('/').unwrap_or((&backend.name, name));
        places.get(&(of, name)).copied()
    };
    let all = backends.iter().map(|backend| {
        let servers = backend.servers.iter();
        servers.map(|server| follows(backend, server)).collect()
    });
    let all: Vec<Vec<Option<Leader>>> = all.collect();
    for backend in &backends {
        for server in &backend.servers {
            if let Some(reference) = &server.follows
                && let Some(message) = wrong(&backends, &all, (backend, server), reference)
            {
                let fault = Fault::new(reference.name.column, message);
                let Reference { spot, .. } = reference;
                found.push(Diagnostic::at(Severity::Alert, &spot.place, &spot.text, fault));
            }
        }
    }
    all
}

fn places<'d>(backends: &[&'d Draft]) -> HashMap<(&'d str, &'d str), Leader> {
    let mut places = HashMap::new();
    for (at, backend) in backends.iter().enumerate() {
        for (nth, server) in backend.servers.iter().enumerate() {
            let key = (&*backend.name, &*server.model.name);
            places.insert(key, (BackendId(at), ServerId(nth)));
        }
    }
    places
}

/// Why a server cannot follow the one that it names.
fn wrong(
    backends: &[&Draft],
    all: &[Vec<Option<Leader>>],
    (backend, server): (&Draft, &ServerDraft),
    reference: &Reference,
) -> Option<String> {
    let name = &reference.name.text;
    if server.model.check.is_some() {
        return Some("who follows another server is not checked itself: 'check' or 'track'".into());
    }
    let at = backends.iter().position(|it| std::ptr::eq(*it, backend))?;
    let nth = backend.servers.iter().position(|it| std::ptr::eq(it, server))?;
    let Some(leader) = all[at][nth] else {
        return Some(format!("there is no server '{name}' to follow"));
    };
    let next = |of: Leader| all[of.0.0][of.1.0];
    let mut last = leader;
    for _ in 0..CHAIN_LEN_MAX {
        if last == (BackendId(at), ServerId(nth)) {
            return Some(format!("'{name}' follows this server in turn: nobody would be asked"));
        }
        match next(last) {
            Some(leader) => last = leader,
            None => {
                let (backend, server) = (backends[last.0.0], last.1.0);
                let end = &backend.servers[server].model;
                let message = format!(
                    "'{}/{}' has no 'check': there is nothing to follow",
                    backend.name, end.name
                );
                return end.check.is_none().then_some(message);
            }
        }
    }
    Some(format!(
        "'{name}' ends a chain of more than {CHAIN_LEN_MAX} servers, or a circle of others"
    ))
}

/// Each change goes down the chain at once.
const CHAIN_LEN_MAX: usize = 64;
