//! Builds rows from a running proxy: frontends, listeners, servers, backends.
//!
//! Read-only, without locks. Other threads keep counting, so two numbers of a row can be one event
//! apart.

mod backend;
mod frontend;
mod server;
mod total;

use std::collections::{HashMap, HashSet};

use fulmar_haproxy::model::BindAddress;
use fulmar_haproxy::{BackendId, Mode};
use fulmar_proxy::{Live, LiveBackend, LiveFrontend, LiveServer};

use super::process::{Moment, Process};
use super::value::StatsRow;

pub use server::{ServerStatus, address_text};
use total::Http1;
pub use total::Total;

/// Which rows to return.
#[derive(Clone, Debug, Default)]
pub struct RowFilter {
    /// Only the proxy with this number.
    pub proxy: Option<u32>,
    /// Sum of 1 (frontends), 2 (backends), 4 (servers), 8 (listeners); `None`: all.
    pub kinds: Option<u32>,
    /// Only servers and listeners with this number.
    pub id: Option<u32>,
    /// Only servers that are up.
    pub only_up: bool,
    /// Omit servers in maintenance.
    pub no_maintenance: bool,
    /// `stats scope`: only proxies with these names; empty: all.
    pub scope: Vec<String>,
    /// Only proxies whose name contains this.
    pub part: String,
}

impl RowFilter {
    fn wants(&self, kind: u32) -> bool {
        self.kinds.is_none_or(|kinds| kinds & kind != 0)
    }

    fn wants_proxy(&self, name: &str, id: u32) -> bool {
        self.proxy.is_none_or(|proxy| proxy == id)
            && (self.scope.is_empty() || self.scope.iter().any(|it| it == name))
            && name.contains(&self.part)
    }

    fn wants_id(&self, id: u32) -> bool {
        self.id.is_none_or(|wanted| wanted == id)
    }
}

/// A proxy: a frontend, a backend or both under one name, by index in the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    /// Its number.
    pub id: u32,
    /// Index of its frontend.
    pub frontend: Option<usize>,
    /// Index of its backend.
    pub backend: Option<usize>,
}

impl Listed {
    /// Its name.
    pub fn name(self, live: &Live) -> &str {
        let frontend = self.frontend.map(|at| &*live.frontends[at].config.name);
        let backend = self.backend.map(|at| &*live.backends[at].config.name);
        frontend.or(backend).unwrap_or_default()
    }
}

/// All proxies in the order of their numbers, which is the order of the configuration.
pub fn proxies(live: &Live) -> Vec<Listed> {
    let ids = live.backends.iter().map(|it| it.config.id).zip(0..);
    let halves: HashMap<u32, usize> = ids.collect();
    let frontends = live.frontends.iter().zip(0..).map(|(it, at)| {
        let id = it.config.id;
        Listed { id, frontend: Some(at), backend: halves.get(&id).copied() }
    });
    let frontends: Vec<Listed> = frontends.collect();
    let taken: HashSet<u32> = frontends.iter().map(|it| it.id).collect();
    let lone = live.backends.iter().zip(0..).filter(|(it, _)| !taken.contains(&it.config.id));
    let lone = lone.map(|(it, at)| Listed { id: it.config.id, frontend: None, backend: Some(at) });
    let mut all: Vec<Listed> = lone.chain(frontends).collect();
    all.sort_by_key(|it| it.id);
    all
}

/// Iterates over the selected rows in HAProxy's order, so that a caller needs memory for one row
/// only.
#[derive(Debug)]
pub struct RowWalk {
    wish: RowFilter,
    proxies: Vec<Listed>,
    at: usize,
    item: usize, // index in the proxy: frontend, listeners, servers, backend
}

impl RowWalk {
    /// Starts at the first row.
    pub fn new(live: &Live, wish: RowFilter) -> Self {
        let mut proxies = proxies(live);
        proxies.retain(|it| wish.wants_proxy(it.name(live), it.id));
        Self { wish, proxies, at: 0, item: 0 }
    }

    /// The next row.
    pub fn next(&mut self, live: &Live, process: &Process, moment: Moment) -> Option<StatsRow> {
        while let Some(proxy) = self.proxies.get(self.at).copied() {
            let item = self.item;
            self.item += 1;
            let frontend = proxy.frontend.map(|at| &live.frontends[at]);
            let backend = proxy.backend.map(|at| &live.backends[at]);
            let listeners = frontend.map_or(0, |it| it.listeners.len());
            let servers = backend.map_or(0, |it| it.servers.len());
            let row = if item == 0 {
                frontend.and_then(|it| self.frontend(it, process, moment))
            } else if item <= listeners {
                frontend.and_then(|it| self.listener(it, item - 1))
            } else if item <= listeners + servers {
                proxy.backend.and_then(|at| self.server(live, at, item - listeners - 1, moment))
            } else {
                (self.at, self.item) = (self.at + 1, 0);
                proxy.backend.and_then(|at| self.backend(&live.backends[at], moment))
            };
            if row.is_some() {
                return row;
            }
        }
        None
    }

    fn frontend(&self, it: &LiveFrontend, process: &Process, moment: Moment) -> Option<StatsRow> {
        let wanted = self.wish.wants(FRONTENDS) && self.wish.wants_id(0);
        wanted.then(|| frontend::frontend_row(it, process, moment))
    }

    fn listener(&self, it: &LiveFrontend, at: usize) -> Option<StatsRow> {
        let bind = it.config.binds.get(at)?;
        let wanted = self.wish.wants(LISTENERS)
            && self.wish.wants_id(bind.id)
            && it.config.options.socket_stats;
        wanted.then(|| frontend::listener_row(it, bind, &it.listeners[at]))
    }

    fn server(&self, live: &Live, backend: usize, at: usize, moment: Moment) -> Option<StatsRow> {
        let it = &live.backends[backend];
        let (server, member) = (&it.servers[at], &it.group.members()[at]);
        let state = ServerStatus::of(live, BackendId(backend), at);
        let wanted = self.wish.wants(SERVERS)
            && self.wish.wants_id(server.config.id)
            && !(self.wish.no_maintenance && state.is_maintenance())
            && (!self.wish.only_up || state.is_up());
        wanted.then(|| server::server_row(it, server, member, &state, moment))
    }

    fn backend(&self, it: &LiveBackend, moment: Moment) -> Option<StatsRow> {
        let wanted = self.wish.wants(BACKENDS) && self.wish.wants_id(0);
        wanted.then(|| backend::backend_row(it, moment))
    }
}

/// All selected rows at once.
pub fn rows(live: &Live, process: &Process, moment: Moment, wish: &RowFilter) -> Vec<StatsRow> {
    let mut walk = RowWalk::new(live, wish.clone());
    std::iter::from_fn(|| walk.next(live, process, moment)).collect()
}

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Http => "http",
        Mode::Tcp => "tcp",
    }
}

/// A listening address as text.
pub fn bind_text(address: &BindAddress) -> String {
    match address {
        BindAddress::Tcp(address) => address.to_string(),
        BindAddress::Unix(_) => "unix".to_owned(),
        BindAddress::Abstract(name) => format!("abns@{name}"),
        BindAddress::Inherited(descriptor) => format!("fd@{descriptor}"),
    }
}

/// A server as `backend/server`.
pub fn full_name(backend: &LiveBackend, server: &LiveServer) -> String {
    format!("{}/{}", backend.config.name, server.config.name)
}

/// Bits of [`RowFilter::kinds`].
const FRONTENDS: u32 = 1;
const BACKENDS: u32 = 2;
const SERVERS: u32 = 4;
const LISTENERS: u32 = 8;
