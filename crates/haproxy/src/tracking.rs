//! Servers that track others (`track`): resolves the names, and rejects loops.

use std::collections::HashMap;

use crate::diagnostics::{Diagnostic, Severity};
use crate::draft::{ProxyDraft, ServerDraft};
use crate::model::{BackendId, ServerId};
use crate::position::NameReference;
use crate::rules::WordError;

/// The tracked server.
pub(crate) type Leader = (BackendId, ServerId);

/// The tracked server of each server, by backend. Errors are added to `found`.
pub(crate) fn leaders(
    proxies: &[ProxyDraft],
    found: &mut Vec<Diagnostic>,
) -> Vec<Vec<Option<Leader>>> {
    let backends: Vec<&ProxyDraft> = proxies.iter().filter(|draft| draft.kind.is_back()).collect();
    let places = places(&backends);
    let follows = |backend: &ProxyDraft, server: &ServerDraft| {
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
                let fault = WordError::new(reference.name.column, message);
                let NameReference { spot, .. } = reference;
                found.push(Diagnostic::at(Severity::Alert, &spot.place, &spot.text, fault));
            }
        }
    }
    all
}

fn places<'d>(backends: &[&'d ProxyDraft]) -> HashMap<(&'d str, &'d str), Leader> {
    let mut places = HashMap::new();
    for (at, backend) in backends.iter().enumerate() {
        for (nth, server) in backend.servers.iter().enumerate() {
            let key = (&*backend.name, &*server.model.name);
            places.insert(key, (BackendId(at), ServerId(nth)));
        }
    }
    places
}

/// Why a server cannot track another one.
fn wrong(
    backends: &[&ProxyDraft],
    all: &[Vec<Option<Leader>>],
    (backend, server): (&ProxyDraft, &ServerDraft),
    reference: &NameReference,
) -> Option<String> {
    let name = &reference.name.text;
    if server.model.check.is_some() {
        return Some("'check' and 'track' are incompatible".into());
    }
    let at = backends.iter().position(|it| std::ptr::eq(*it, backend))?;
    let nth = backend.servers.iter().position(|it| std::ptr::eq(it, server))?;
    let Some(leader) = all[at][nth] else {
        return Some(format!("unknown server '{name}'"));
    };
    let next = |of: Leader| all[of.0.0][of.1.0];
    let mut last = leader;
    for _ in 0..CHAIN_LEN_MAX {
        if last == (BackendId(at), ServerId(nth)) {
            return Some(format!("loop: '{name}' tracks this server"));
        }
        match next(last) {
            Some(leader) => last = leader,
            None => {
                let (backend, server) = (backends[last.0.0], last.1.0);
                let end = &backend.servers[server].model;
                let message = format!(
                    "'{}/{}' has no 'check', so it cannot be tracked",
                    backend.name, end.name
                );
                return end.check.is_none().then_some(message);
            }
        }
    }
    Some(format!(
        "the chain of tracked servers at '{name}' has a loop or is longer than {CHAIN_LEN_MAX}"
    ))
}

/// Each state change propagates along the whole chain at once.
const CHAIN_LEN_MAX: usize = 64;
