//! Text reports about proxies and servers: on SIGHUP, and at exit.

use fulmar_proxy::{Counters, Live, LiveBackend, Stat, sum};

/// Reports the state of every server and proxy, one line each (SIGHUP).
pub(crate) fn dump(live: &Live, report: impl Fn(&str)) {
    report("SIGHUP received, dumping servers states.");
    for frontend in &live.frontends {
        let name = &frontend.config.name;
        if live.backend_named(name.as_bytes()).is_none() {
            let load = load(Some(&frontend.counters), None);
            report(&format!("SIGHUP: Proxy {name} has no servers. {load}"));
        }
    }
    for backend in &live.backends {
        dump_backend(live, backend, &report);
    }
}

fn dump_backend(live: &Live, backend: &LiveBackend, report: &impl Fn(&str)) {
    let name = &backend.config.name;
    for (server, member) in backend.servers.iter().zip(backend.group.members()) {
        let state = if member.is_usable() { "UP" } else { "DOWN" };
        let (sessions, queued) = (member.sessions(), member.queued());
        let total = sum(&server.counters, Stat::SessionsTotal);
        let server = &server.config.name;
        report(&format!(
            "SIGHUP: Server {name}/{server} is {state}. Conn: {sessions} act, {queued} pend, \
             {total} tot."
        ));
    }
    let frontend = live.frontends.iter().find(|frontend| frontend.config.name == *name);
    let load = load(frontend.map(|frontend| &*frontend.counters), Some(backend));
    let (active, backups) = (backend.group.active(), backend.group.backups());
    report(&match (active, backups) {
        _ if backend.servers.is_empty() => format!("SIGHUP: Proxy {name} has no servers. {load}"),
        (0, 0) => format!("SIGHUP: Proxy {name} has no server available ! {load}"),
        (0, _) => format!("SIGHUP: Proxy {name} is running on backup servers ! {load}"),
        (active, backups) => format!(
            "SIGHUP: Proxy {name} has {active} active servers and {backups} backup servers \
             available. {load}"
        ),
    });
}

fn load(frontend: Option<&[Counters]>, backend: Option<&LiveBackend>) -> String {
    let front = |counter| frontend.map_or(0, |counters| sum(counters, counter));
    let back = |counter| backend.map_or(0, |backend| sum(&backend.counters, counter));
    let queued = back(Stat::Queued);
    let waiting = backend.map_or(0, |backend| backend.group.queued());
    format!(
        "Conn: act(FE+BE): {}+{}, {queued} pend ({waiting} unass), tot(FE+BE): {}+{}.",
        front(Stat::Sessions),
        back(Stat::Sessions),
        front(Stat::SessionsTotal),
        back(Stat::SessionsTotal)
    )
}

/// Reports the totals of each stopped proxy, one line each.
pub fn report_totals(live: &Live, report: impl Fn(&str)) {
    let line = |name: &str, front: u64, back: u64| {
        report(&format!("Proxy {name} stopped (cumulated conns: FE: {front}, BE: {back})."));
    };
    let total = |counters: &[Counters]| sum(counters, Stat::SessionsTotal);
    for frontend in &live.frontends {
        let name = &frontend.config.name;
        let backend = live.backends.iter().find(|backend| backend.config.name == *name);
        let back = backend.map_or(0, |backend| total(&backend.counters));
        line(name, total(&frontend.counters), back);
    }
    for backend in &live.backends {
        let name = &backend.config.name;
        if !live.frontends.iter().any(|frontend| frontend.config.name == *name) {
            line(name, 0, total(&backend.counters));
        }
    }
}
