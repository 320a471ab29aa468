//! What is told of the process: `show info` (HAProxy's management guide, §9.3).

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};

use fulmar_host::Driven;
use fulmar_proto::PipeCounts;
use fulmar_proxy::{Counter, Limit, Live, Rate};
use fulmar_sys::Call;

use super::kind::Tags;
use super::process::{Moment, Process};
use super::rows::Total;
use super::value::Value;

/// A fact.
#[derive(Clone, Debug)]
pub struct Fact {
    /// Its place among HAProxy's, which is part of the typed output.
    pub position: usize,
    /// Its name.
    pub name: &'static str,
    /// Where it comes from, what it is, for whom it holds.
    pub tags: Tags,
    /// What it tells, in words.
    pub text: &'static str,
    /// Its value.
    pub value: Value,
}

/// All facts, in HAProxy's order.
pub fn facts(live: &Live, process: &Process, moment: Moment) -> Vec<Fact> {
    let mut facts = Facts::default();
    put_product(&mut facts, live, process, moment);
    put_limits(&mut facts, live, process);
    put_rates(&mut facts, live, moment);
    put_tls(&mut facts, live);
    put_state(&mut facts, live, process);
    put_rest(&mut facts, live, process);
    facts.0
}

/// `name: value` lines; with what each one means behind it, if that is wanted.
pub fn info_lines(facts: &[Fact], described: bool, out: &mut String) {
    for fact in facts {
        write!(out, "{}: {}", fact.name, fact.value).expect(TAKES);
        if described {
            write!(out, ":\"{}\"", fact.text).expect(TAKES);
        }
        out.push('\n');
    }
}

/// The lines of typed output.
pub fn info_typed(facts: &[Fact], out: &mut String) {
    for fact in facts {
        let (at, name, tags) = (fact.position, fact.name, fact.tags.letters());
        let (kind, value) = (fact.value.type_name(), &fact.value);
        writeln!(out, "{at}.{name}.1:{tags}:{kind}:{value}").expect(TAKES);
    }
}

#[derive(Default)]
struct Facts(Vec<Fact>);

impl Facts {
    fn put(
        &mut self,
        at: usize,
        name: &'static str,
        tags: [u8; 3],
        text: &'static str,
        value: Value,
    ) {
        self.0.push(Fact { position: at, name, tags: Tags(tags), text, value });
    }

    fn number(
        &mut self,
        at: usize,
        name: &'static str,
        tags: [u8; 3],
        text: &'static str,
        value: u64,
    ) {
        self.put(at, name, tags, text, Value::U32(u32::try_from(value).unwrap_or(u32::MAX)));
    }

    /// What only grows: 32 bits are full after some hours, and would then stand still.
    fn count(
        &mut self,
        at: usize,
        name: &'static str,
        tags: [u8; 3],
        text: &'static str,
        value: u64,
    ) {
        self.put(at, name, tags, text, Value::U64(value));
    }
}

fn put_product(facts: &mut Facts, live: &Live, process: &Process, moment: Moment) {
    let up = moment.now.saturating_duration_since(process.began);
    facts.put(0, "Name", *b"POS", "Name of the program", "fulmar".into());
    facts.put(1, "Version", *b"POS", "Its version", VERSION.into());
    facts.number(3, "Nbthread", *b"CGS", "Threads that serve (nbthread)", live.threads as u64);
    facts.number(4, "Nbproc", *b"CGS", "Processes that serve: always 1", 1);
    facts.number(5, "Process_num", *b"KGP", "Number of this one: always 1", 1);
    let pid = u64::from(std::process::id());
    facts.number(6, "Pid", *b"SGP", "The system's number of this process", pid);
    facts.put(7, "Uptime", *b"MDP", "Time since its start", Value::Text(uptime(up)));
    facts.number(8, "Uptime_sec", *b"MDP", "The same in seconds", up.as_secs());
}

fn put_limits(facts: &mut Facts, live: &Live, process: &Process) {
    let max = process.connections_max() as u64;
    let descriptors = process.descriptors_max;
    facts.number(13, "Ulimit-n", *b"CLP", "Descriptors that it may have", descriptors);
    facts.number(14, "Maxsock", *b"CLP", "Sockets that it may have", descriptors);
    let allowed = live.connections_max.get().map_or(max, |allowed| allowed as u64);
    facts.number(15, "Maxconn", *b"CLP", "Clients' connections at a time, at most", allowed);
    facts.number(16, "Hard_maxconn", *b"CLP", "What Maxconn can be set to, at most", max);
    let pipes =
        |count: fn(&PipeCounts) -> usize| live.pipes.iter().map(|it| count(it) as u64).sum();
    facts.number(23, "Maxpipes", *b"CLP", "Pipes at a time, at most", live.pipes_max() as u64);
    facts.number(24, "PipesUsed", *b"MGP", "Pipes that hold bytes now", pipes(PipeCounts::used));
    facts.number(25, "PipesFree", *b"MGP", "Pipes that are kept", pipes(PipeCounts::free));
    let current = frontends(live, Counter::Sessions);
    facts.number(17, "CurrConns", *b"MGP", "Clients' connections now", current);
    let total = frontends(live, Counter::Connections);
    facts.count(18, "CumConns", *b"MCP", "Clients' connections since the start", total);
    let requests = frontends(live, Counter::Requests);
    facts.count(19, "CumReq", *b"MCP", "Requests since the start", requests);
}

fn put_rates(facts: &mut Facts, live: &Live, moment: Moment) {
    let rate = |rate| live.frontends.iter().map(|it| Total(&it.counters).rate(rate, moment)).sum();
    let max = |rate| live.frontends.iter().map(|it| Total(&it.counters).rate_max(rate)).sum();
    let text = "Connections in the last second";
    facts.number(26, "ConnRate", *b"MRP", text, rate(Rate::Connections));
    let limit = |limit: &Limit| limit.get().unwrap_or(0) as u64;
    let max_rate = limit(&live.connections_per_second_max);
    facts.number(27, "ConnRateLimit", *b"CLP", "Its limit; 0: none", max_rate);
    let text = "The most connections in a second";
    facts.number(28, "MaxConnRate", *b"MMP", text, max(Rate::Connections));
    facts.number(29, "SessRate", *b"MRP", "Sessions in the last second", rate(Rate::Sessions));
    let max_rate = limit(&live.sessions_per_second_max);
    facts.number(30, "SessRateLimit", *b"CLP", "Its limit; 0: none", max_rate);
    let text = "The most sessions in a second";
    facts.number(31, "MaxSessRate", *b"MRP", text, max(Rate::Sessions));
}

fn put_tls(facts: &mut Facts, live: &Live) {
    let front = frontends(live, Counter::TlsHandshakes);
    let resumed = frontends(live, Counter::TlsResumed);
    let back = live.backends.iter().map(|it| Total(&it.counters).get(Counter::TlsHandshakes));
    let total = front + back.sum::<u64>();
    facts.count(22, "CumSslConns", *b"MCP", "Connections with TLS since the start", total);
    let percent = resumed * 100 / front.max(1);
    let text = "Percentage of clients' handshakes that resumed a session";
    facts.number(37, "SslFrontendSessionReuse_pct", *b"MGP", text, percent);
}

fn put_state(facts: &mut Facts, live: &Live, process: &Process) {
    facts.put(50, "node", *b"COS", "Name of this node", Value::from(&*process.node));
    if let Some(text) = &live.config.global.description {
        facts.put(51, "description", *b"COS", "What it is for", Value::from(&**text));
    }
    let stopping = u64::from(process.is_stopping());
    facts.number(52, "Stopping", *b"MGP", "1 if a soft stop has begun", stopping);
    let listeners: usize = live.frontends.iter().map(|it| it.config.binds.len()).sum();
    let listeners = (listeners + live.config.global.stats_sockets.len()) as u64;
    let jobs = frontends(live, Counter::Sessions) + listeners;
    facts.number(53, "Jobs", *b"MGP", "Connections and listeners", jobs);
    facts.number(54, "Unstoppable Jobs", *b"MGP", "Of these, those that do not end", 0);
    facts.number(55, "Listeners", *b"MGP", "Listeners", listeners);
    let text = "Lines of logs that found no room, or no reader";
    facts.count(58, "DroppedLogs", *b"MGP", text, process.lines_lost());
}

fn put_rest(facts: &mut Facts, live: &Live, process: &Process) {
    let out = frontends(live, Counter::BytesOut);
    facts.put(61, "TotalBytesOut", *b"MGP", "Bytes sent to clients", Value::U64(out));
    facts.put(66, "Build info", *b"POS", "What was built", VERSION.into());
    let began = process.began_at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    facts.number(70, "Start_time_sec", *b"MDP", "When it began, in seconds since 1970", began);
    let ledger = process.ledger();
    facts.put(100, "Syscalls", *b"MCP", "System calls since the start", Value::U64(ledger.total()));
    let idle = [Call::epoll_wait, Call::epoll_pwait2].map(|it| ledger.count(it).calls).iter().sum();
    facts.put(101, "Waits", *b"MCP", "Of these, those that wait for sockets", Value::U64(idle));
    let driven: BTreeSet<String> = process.driven().iter().map(Driven::to_string).collect();
    let driven: Vec<String> = driven.into_iter().collect(); // mostly there is one
    facts.put(102, "Driver", *b"POS", "What drives the loops", driven.join(", ").as_str().into());
    let text = "Operations in rings (io_uring) since the start: they are no system calls";
    facts.count(103, "RingOperations", *b"MCP", text, ledger.operations_total());
    for (at, name, tags, text) in ABSENT {
        facts.number(*at, name, **tags, text, 0);
    }
    facts.0.sort_by_key(|fact| fact.position);
}

/// A counter, summed over all frontends.
pub fn frontends(live: &Live, counter: Counter) -> u64 {
    live.frontends.iter().map(|it| Total(&it.counters).get(counter)).sum()
}

/// `0d 1h02m03s`.
fn uptime(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    format!("{days}d {hours}h{:02}m{:02}s", seconds / 60 % 60, seconds % 60)
}

/// What is not there, and so always 0; scripts look for it.
const ABSENT: &[(usize, &str, &[u8; 3], &str)] = &[
    (9, "Memmax_MB", b"CLP", "Limit of memory; 0: none"),
    (12, "PoolFailed", b"MCP", "Failed allocations: the process would have ended"),
    (20, "MaxSslConns", b"MMP", "Limit of connections with TLS; 0: none"),
    (33, "SslRateLimit", b"CLP", "Limit of handshakes in a second; 0: none"),
    (42, "CompressBpsIn", b"MRP", "Bytes compressed in the last second: there is no compression"),
    (43, "CompressBpsOut", b"MRP", "Bytes that were made of them"),
    (44, "CompressBpsRateLim", b"CLP", "Their limit"),
    (56, "ActivePeers", b"MGP", "Peers: there are none"),
    (57, "ConnectedPeers", b"MGP", "Peers that are connected: there are none"),
    (64, "DebugCommandsIssued", b"MGP", "Commands for debugging: there are none"),
    (65, "CumRecvLogs", b"MCP", "Messages forwarded to logs: there is no forwarding"),
];

/// Ours.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
const TAKES: &str = "a String takes everything";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uptime_is_written_as_scripts_read_it() {
        let table = [(0, "0d 0h00m00s"), (3_723, "0d 1h02m03s"), (90_061, "1d 1h01m01s")];
        for (seconds, text) in table {
            assert_eq!(uptime(Duration::from_secs(seconds)), text);
        }
    }
}
