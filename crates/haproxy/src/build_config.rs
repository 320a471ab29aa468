//! Builds the model from drafts: resolves names, numbers proxies, and reports conflicts and what
//! HAProxy warns about. Drafts have inherited the settings of their `defaults` section already.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::diagnostics::{Diagnostic, Severity};
use crate::draft::{BackendReference, BindDraft, Globals, LogFormat, ProxyDraft, ProxySection};
use crate::keyword_table;
use crate::keywords::{UserlistDraft, state_path, state_source};
use crate::model::{
    BackendConfig, BackendId, BackendTarget, BalanceAlgorithm, Bind, Config, FrontendConfig,
    LogTarget, Mode, ServerConfig, ServerId, UseBackend,
};
use crate::position::{LineRef, NameReference};
use crate::rules::eval_context_mut::CaptureSlot;
use crate::rules::format::Standard;
use crate::rules::http::HttpRule;
use crate::rules::{FormatString, WordError};
use crate::tracking::Leader;

/// Builds the configuration.
pub(crate) fn config(
    globals: Globals,
    proxies: Vec<ProxyDraft>,
    userlists: Vec<UserlistDraft>,
    found: &mut Vec<Diagnostic>,
) -> Config {
    let mut finisher = Finisher { globals: &globals, backends: BTreeMap::new(), found };
    let with_servers = proxies.iter().filter(|draft| draft.kind.is_back());
    for (n, draft) in with_servers.enumerate() {
        finisher.backends.insert(draft.name.clone(), (BackendId(n), draft.mode, draft.kind));
    }
    let ids = numbers(&proxies, globals.model.stats_sockets.is_empty());
    let leaders = crate::tracking::leaders(&proxies, finisher.found);
    let mut config = Config::default();
    for (draft, id) in proxies.into_iter().zip(ids) {
        finisher.check(&draft);
        if draft.kind.is_front() {
            config.frontends.push(Arc::new(finisher.frontend(&draft, id)));
        }
        if draft.kind.is_back() {
            let leaders = &leaders[config.backends.len()];
            config.backends.push(Arc::new(finisher.backend(draft, id, leaders)));
        }
    }
    config.global = globals.model;
    config.lists = globals.lists;
    let base = globals.state_base.as_deref();
    config.global.state_file = config.global.state_file.map(|file| state_path(base, &file));
    let lists = userlists.into_iter().map(|list| Arc::new(list.finish(found)));
    config.userlists = lists.collect();
    config
}

/// Proxy numbers: `id`, or the next free number. With runtime sockets, the first number belongs to
/// them.
fn numbers(proxies: &[ProxyDraft], no_sockets: bool) -> Vec<u32> {
    let said: Vec<u32> = proxies.iter().filter_map(|draft| draft.id).collect();
    let first = if no_sockets { 1 } else { 2 };
    let mut free = (first..).filter(|id| !said.contains(id));
    proxies.iter().map(|draft| draft.id.or_else(|| free.next()).unwrap_or(0)).collect()
}

struct Finisher<'a> {
    globals: &'a Globals,
    /// All proxies with servers, by name.
    backends: BTreeMap<String, (BackendId, Mode, ProxySection)>,
    found: &'a mut Vec<Diagnostic>,
}

impl Finisher<'_> {
    fn report(&mut self, severity: Severity, spot: &LineRef, column: u32, message: String) {
        let fault = WordError::new(column, message);
        self.found.push(Diagnostic::at(severity, &spot.place, &spot.text, fault));
    }

    fn warn_section(&mut self, draft: &ProxyDraft, message: String) {
        if let Some(spot) = &draft.spot {
            self.report(Severity::Warning, spot, 1, message);
        }
    }

    /// Reports what HAProxy warns about.
    fn check(&mut self, draft: &ProxyDraft) {
        let name = &draft.name;
        let kind = draft.kind.name();
        if draft.kind == ProxySection::Frontend && draft.binds.is_empty() && !draft.disabled {
            self.warn_section(draft, format!("{kind} '{name}' has no 'bind' line"));
        }
        let mut missing = Vec::new();
        if draft.kind.is_front() && draft.frontend.timeouts.client.is_none() {
            missing.push("client");
        }
        let timeouts = &draft.backend.timeouts;
        if draft.kind.is_back() && !draft.servers.is_empty() {
            if timeouts.connect.is_none() {
                missing.push("connect");
            }
            let has_tunnel = timeouts.tunnel.is_some() && draft.mode == Mode::Tcp;
            if timeouts.server.is_none() && !has_tunnel {
                missing.push("server");
            }
        }
        if !missing.is_empty() && !draft.disabled {
            let missing = missing.join("', 'timeout ");
            let message = format!(
                "{kind} '{name}' has no 'timeout {missing}': without it, dead connections \
                 are never closed"
            );
            self.warn_section(draft, message);
        }
        let is_logged = !self.logs(draft).is_empty();
        let is_written = !matches!(draft.log_format, LogFormat::Plain);
        if draft.kind.is_front() && is_written && !is_logged {
            let message = format!("{kind} '{name}' has a log format but no 'log' line");
            self.warn_section(draft, message);
        }
        if draft.kind.is_front() {
            self.check_slots(draft);
        }
        if draft.kind.is_back()
            && let Some(rules) = draft.check.unused()
        {
            let message = format!(
                "{kind} '{name}' has '{rules}' lines, which are ignored without 'option {}'",
                if rules == "http-check" { "httpchk" } else { "tcp-check" }
            );
            self.warn_section(draft, message);
        }
        if draft.mode == Mode::Tcp {
            if draft.kind.is_back() && draft.backend.algorithm.needs_http() {
                let message = format!(
                    "{kind} '{name}': this 'balance' requires mode http; using 'roundrobin'"
                );
                self.warn_section(draft, message);
            }
            for server in draft.servers.iter().filter(|server| server.model.cookie.is_some()) {
                let place = Some(server.model.place.clone());
                let server = &server.model.name;
                let message =
                    format!("'cookie' of server '{server}' is ignored: it requires mode http");
                self.found.push(Diagnostic::about(Severity::Warning, place, message));
            }
            for (spot, word) in &draft.http_only {
                let message =
                    format!("'{}' is ignored in {kind} '{name}': it requires mode http", word.text);
                self.report(Severity::Warning, spot, word.column, message);
            }
        }
    }

    fn frontend(&mut self, draft: &ProxyDraft, id: u32) -> FrontendConfig {
        let mut frontend = draft.frontend.clone();
        frontend.name.clone_from(&draft.name);
        frontend.place = draft.spot.as_ref().map(|spot| spot.place.clone());
        frontend.id = id;
        frontend.is_listen = draft.kind == ProxySection::Listen;
        frontend.disabled = draft.disabled;
        frontend.description.clone_from(&draft.description);
        frontend.mode = draft.mode;
        frontend.binds = binds(&draft.binds);
        frontend.options = draft.options.clone();
        frontend.logs = self.logs(draft);
        frontend.log_tag = frontend.log_tag.or_else(|| self.globals.model.log_tag.clone());
        frontend.log_format = self.log_format(draft);
        frontend.connection_rules.clone_from(&draft.connection_rules);
        frontend.session_rules.clone_from(&draft.session_rules);
        frontend.content_rules.clone_from(&draft.content_rules);
        frontend.request_rules = requests(draft);
        frontend.response_rules.clone_from(&draft.response_rules);
        frontend.after_response_rules.clone_from(&draft.after_response_rules);
        frontend.unique_id =
            draft.unique_id_format.clone().map(|format| (format, draft.unique_id_header.clone()));
        frontend.errors = Arc::new(draft.errors.clone());
        frontend.stats = stats(draft);
        frontend.use_backends = self.use_backends(draft);
        frontend.default_backend = self.default_backend(draft);
        frontend
    }

    fn backend(
        &mut self,
        mut draft: ProxyDraft,
        id: u32,
        leaders: &[Option<Leader>],
    ) -> BackendConfig {
        let mut backend = std::mem::take(&mut draft.backend);
        backend.name.clone_from(&draft.name);
        backend.place = draft.spot.as_ref().map(|spot| spot.place.clone());
        backend.id = id;
        backend.is_listen = draft.kind == ProxySection::Listen;
        backend.disabled = draft.disabled;
        backend.description.clone_from(&draft.description);
        backend.mode = draft.mode;
        backend.options = draft.options.clone();
        backend.logs = self.logs(&draft);
        backend.errors = Arc::new(draft.errors.clone());
        backend.stats = stats(&draft);
        if draft.kind == ProxySection::Backend {
            backend.content_rules = std::mem::take(&mut draft.content_rules);
            backend.request_rules = requests(&draft);
            backend.response_rules = std::mem::take(&mut draft.response_rules);
            backend.after_response_rules = std::mem::take(&mut draft.after_response_rules);
        }
        backend.states = state_source(self.globals, &draft);
        backend.response_content_rules = std::mem::take(&mut draft.response_content_rules);
        if let Some(cookie) = &mut backend.cookie
            && cookie.dynamic_key.is_some()
        {
            cookie.dynamic_key = draft.dynamic_cookie_key.clone();
        }
        if draft.mode == Mode::Tcp && backend.algorithm.needs_http() {
            backend.algorithm = BalanceAlgorithm::RoundRobin;
        }
        backend.use_servers = self.use_servers(&mut draft);
        let servers = std::mem::take(&mut draft.servers);
        let said: Vec<u32> = servers.iter().filter_map(|server| server.id).collect();
        let mut free = (1..).filter(|id| !said.contains(id));
        let numbered = servers.into_iter().zip(leaders).map(|(server, follows)| {
            let id = server.id.or_else(|| free.next()).unwrap_or(0);
            Arc::new(ServerConfig { id, follows: *follows, ..server.model })
        });
        backend.servers = numbered.collect();
        backend.check = draft.check.finish();
        backend
    }

    fn logs(&self, draft: &ProxyDraft) -> Vec<LogTarget> {
        let global = match draft.logs_global {
            true => &self.globals.model.logs[..],
            false => &[],
        };
        global.iter().chain(&draft.logs).cloned().collect()
    }

    /// Capture slots must be declared. A backend's slots must be declared in every frontend that
    /// uses it.
    fn check_slots(&mut self, draft: &ProxyDraft) {
        for (slot, spot, column) in &draft.named_slots {
            let (at, declared) = match slot {
                CaptureSlot::Request(at) => (at, draft.frontend.request_captures.len()),
                CaptureSlot::Response(at) => (at, draft.frontend.response_captures.len()),
            };
            if *at >= declared {
                let message = format!(
                    "unknown capture slot {at}: {declared} slots are declared, from 0 ('declare \
                     capture')"
                );
                self.report(Severity::Alert, spot, *column, message);
            }
        }
    }

    /// In mode tcp, an HTTP log format is replaced by that of TCP, with a warning.
    fn log_format(&mut self, draft: &ProxyDraft) -> Arc<FormatString> {
        let standard = |standard: Standard| Arc::new(FormatString::from(standard));
        let (format, spot, word) = match &draft.log_format {
            LogFormat::Plain if draft.mode == Mode::Http => return standard(Standard::ConnectHttp),
            LogFormat::Plain => return standard(Standard::ConnectTcp),
            LogFormat::Tcp => return standard(Standard::Tcp),
            LogFormat::Own(format) => return Arc::clone(format),
            LogFormat::Http(standard, spot, word) => (*standard, spot, word),
        };
        if draft.mode == Mode::Http {
            return standard(format);
        }
        let message = format!(
            "'{}' requires mode http, but '{}' has mode tcp: using 'option tcplog'",
            word.text, draft.name
        );
        self.report(Severity::Warning, spot, word.column, message);
        standard(Standard::Tcp)
    }

    fn use_backends(&mut self, draft: &ProxyDraft) -> Vec<UseBackend> {
        let mut rules = Vec::new();
        for (choice, condition) in &draft.use_backends {
            let target = match choice {
                BackendReference::Computed(format) => Some(BackendTarget::Named(format.clone())),
                BackendReference::Named(reference) => {
                    self.look_up(draft, reference, "use_backend").map(BackendTarget::Backend)
                }
            };
            let condition = condition.clone();
            rules.extend(target.map(|target| UseBackend { target, condition }));
        }
        rules
    }

    fn default_backend(&mut self, draft: &ProxyDraft) -> Option<BackendId> {
        let reference = draft.default_backend.as_ref();
        match reference.and_then(|reference| self.look_up(draft, reference, "default_backend")) {
            Some(backend) => Some(backend),
            None if draft.kind == ProxySection::Listen => {
                self.backends.get(&draft.name).map(|(id, _, _)| *id)
            }
            None => None,
        }
    }

    fn look_up(
        &mut self,
        draft: &ProxyDraft,
        reference: &NameReference,
        what: &str,
    ) -> Option<BackendId> {
        let NameReference { name, spot } = reference;
        let Some(&(id, mode, _)) = self.backends.get(&name.text) else {
            let known = self.backends.keys().map(String::as_str);
            let near = keyword_table::nearest(&name.text, known);
            let near = near.map_or(String::new(), |near| format!("; did you mean '{near}'?"));
            let message = format!("unknown backend '{}' in '{what}'{near}", name.text);
            self.report(Severity::Alert, spot, name.column, message);
            return None;
        };
        if draft.kind == ProxySection::Listen && draft.name == name.text {
            let message = format!("'{}' refers to itself", name.text);
            self.report(Severity::Alert, spot, name.column, message);
        }
        if draft.mode == Mode::Http && mode == Mode::Tcp {
            let message =
                format!("'{}' has mode http, but backend '{}' has mode tcp", draft.name, name.text);
            self.report(Severity::Alert, spot, name.column, message);
        }
        if draft.mode == Mode::Tcp && mode == Mode::Http && !self.speaks_http(draft) {
            let message = format!(
                "'{}' has mode tcp, but its backend '{}' has mode http and others do not: use the \
                 same mode",
                draft.name, name.text
            );
            self.report(Severity::Alert, spot, name.column, message);
        }
        Some(id)
    }

    /// True if a frontend in mode tcp still processes HTTP: all its backends are known and have
    /// mode http (HAProxy's manual, `mode`).
    fn speaks_http(&self, draft: &ProxyDraft) -> bool {
        let of_rule = |choice: &BackendReference| match choice {
            BackendReference::Named(reference) => Some(reference.name.text.clone()),
            BackendReference::Computed(_) => None,
        };
        let ruled = draft.use_backends.iter().map(|(choice, _)| of_rule(choice));
        let usual = draft.default_backend.as_ref().map(|usual| usual.name.text.clone());
        let own = (draft.kind == ProxySection::Listen).then(|| draft.name.clone());
        let usual = usual.or(own).map(Some);
        ruled.chain(usual).all(|name| {
            let found = name.and_then(|name| self.backends.get(&name));
            found.is_some_and(|(_, mode, _)| *mode == Mode::Http)
        })
    }

    fn use_servers(&mut self, draft: &mut ProxyDraft) -> Vec<(ServerId, crate::rules::Condition)> {
        let mut rules = Vec::new();
        for (NameReference { name, spot }, condition) in std::mem::take(&mut draft.use_servers) {
            let at = draft.servers.iter().position(|server| server.model.name == name.text);
            match at {
                Some(at) => rules.push((ServerId(at), condition)),
                None => {
                    let message =
                        format!("unknown server '{}' in backend '{}'", name.text, draft.name);
                    self.report(Severity::Alert, &spot, name.column, message);
                }
            }
        }
        rules
    }
}

fn binds(drafts: &[BindDraft]) -> Vec<Bind> {
    let said: Vec<u32> = drafts.iter().filter_map(|draft| draft.id).collect();
    let mut free = (1..).filter(|id| !said.contains(id));
    let mut binds = Vec::new();
    for draft in drafts {
        for address in &draft.bound {
            let id = draft.id.or_else(|| free.next()).unwrap_or(0);
            binds.push(Bind {
                place: draft.place.clone(),
                name: draft.name.clone().unwrap_or_else(|| format!("sock-{id}")),
                id,
                address: address.clone(),
                connections_max: draft.connections_max,
                backlog: draft.backlog,
                accepts_proxy: draft.accepts_proxy,
                defer_accept: draft.defer_accept,
                v6only: draft.v6only,
                interface: draft.interface.clone(),
                permissions: draft.permissions,
                owner: draft.owner,
                user_timeout: draft.user_timeout,
                segment_size_max: draft.segment_size_max,
                fast_open: draft.fast_open,
                tls: draft.is_tls.then(|| draft.tls.clone()),
            });
        }
    }
    binds
}

/// Request rules, followed by `redirect` lines.
fn requests(draft: &ProxyDraft) -> Vec<HttpRule> {
    draft.request_rules.iter().chain(&draft.redirects).cloned().collect()
}

fn stats(draft: &ProxyDraft) -> Option<Arc<crate::model::StatsPage>> {
    if draft.mode == Mode::Tcp {
        return None;
    }
    let mut page = draft.stats.clone()?;
    for scope in &mut page.scope {
        if scope == "." {
            scope.clone_from(&draft.name);
        }
    }
    Some(Arc::new(page))
}
