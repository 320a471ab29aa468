//! Process information: `show info` (HAProxy's management guide, §9.3).

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};

use fulmar_host::DriverInfo;
use fulmar_proto::PipeCounts;
use fulmar_proxy::{AdjustableLimit, Live, RateKind, Stat};
use fulmar_sys::Call;

use super::kind::Tags;
use super::process::{Moment, Process};
use super::rows::Total;
use super::value::StatsValue;

/// A field.
#[derive(Clone, Debug)]
pub struct InfoField {
    /// Its position in HAProxy's list, which is part of the typed output.
    pub position: usize,
    /// The name.
    pub name: &'static str,
    /// Origin, nature and scope of the value.
    pub tags: Tags,
    /// The description.
    pub text: &'static str,
    /// The value.
    pub value: StatsValue,
}

/// All fields, in HAProxy's order.
pub fn facts(live: &Live, process: &Process, moment: Moment) -> Vec<InfoField> {
    let mut facts = InfoFields::default();
    put_product(&mut facts, live, process, moment);
    put_limits(&mut facts, live, process);
    put_rates(&mut facts, live, moment);
    put_tls(&mut facts, live);
    put_state(&mut facts, live, process);
    put_rest(&mut facts, live, process);
    facts.0
}

/// Lines of `name: value`, with the description if `described` is set.
pub fn info_lines(facts: &[InfoField], described: bool, out: &mut String) {
    for fact in facts {
        write!(out, "{}: {}", fact.name, fact.value).expect(TAKES);
        if described {
            write!(out, ":\"{}\"", fact.text).expect(TAKES);
        }
        out.push('\n');
    }
}

/// The lines of the typed output.
pub fn info_typed(facts: &[InfoField], out: &mut String) {
    for fact in facts {
        let (at, name, tags) = (fact.position, fact.name, fact.tags.letters());
        let (kind, value) = (fact.value.type_name(), &fact.value);
        writeln!(out, "{at}.{name}.1:{tags}:{kind}:{value}").expect(TAKES);
    }
}

#[derive(Default)]
struct InfoFields(Vec<InfoField>);

impl InfoFields {
    fn put(
        &mut self,
        at: usize,
        name: &'static str,
        tags: [u8; 3],
        text: &'static str,
        value: StatsValue,
    ) {
        self.0.push(InfoField { position: at, name, tags: Tags(tags), text, value });
    }

    fn number(
        &mut self,
        at: usize,
        name: &'static str,
        tags: [u8; 3],
        text: &'static str,
        value: u64,
    ) {
        self.put(at, name, tags, text, StatsValue::U32(u32::try_from(value).unwrap_or(u32::MAX)));
    }

    /// A counter of 64 bits: 32 bits would overflow after some hours.
    fn count(
        &mut self,
        at: usize,
        name: &'static str,
        tags: [u8; 3],
        text: &'static str,
        value: u64,
    ) {
        self.put(at, name, tags, text, StatsValue::U64(value));
    }
}

fn put_product(facts: &mut InfoFields, live: &Live, process: &Process, moment: Moment) {
    let up = moment.now.saturating_duration_since(process.began);
    facts.put(0, "Name", *b"POS", "Product name", "fulmar".into());
    facts.put(1, "Version", *b"POS", "Product version", VERSION.into());
    facts.number(
        3,
        "Nbthread",
        *b"CGS",
        "Number of started threads (nbthread)",
        live.threads as u64,
    );
    facts.number(4, "Nbproc", *b"CGS", "Number of started processes (always 1)", 1);
    facts.number(5, "Process_num", *b"KGP", "Relative worker process number (always 1)", 1);
    let pid = u64::from(std::process::id());
    facts.number(6, "Pid", *b"SGP", "Operating system's process ID", pid);
    facts.put(
        7,
        "Uptime",
        *b"MDP",
        "How long ago this process was started (days, hours, minutes, seconds)",
        StatsValue::Text(uptime(up)),
    );
    facts.number(
        8,
        "Uptime_sec",
        *b"MDP",
        "How long ago this process was started (seconds)",
        up.as_secs(),
    );
}

fn put_limits(facts: &mut InfoFields, live: &Live, process: &Process) {
    let max = process.connections_max() as u64;
    let descriptors = process.descriptors_max;
    facts.number(
        13,
        "Ulimit-n",
        *b"CLP",
        "Hard limit on the number of file descriptors per process",
        descriptors,
    );
    facts.number(
        14,
        "Maxsock",
        *b"CLP",
        "Hard limit on the number of sockets per process",
        descriptors,
    );
    let allowed = live.connections_max.get().map_or(max, |allowed| allowed as u64);
    facts.number(
        15,
        "Maxconn",
        *b"CLP",
        "Limit on the number of concurrent client connections",
        allowed,
    );
    facts.number(16, "Hard_maxconn", *b"CLP", "Highest value that Maxconn can be set to", max);
    let pipes =
        |count: fn(&PipeCounts) -> usize| live.pipes.iter().map(|it| count(it) as u64).sum();
    facts.number(23, "Maxpipes", *b"CLP", "Limit on the number of pipes", live.pipes_max() as u64);
    facts.number(24, "PipesUsed", *b"MGP", "Number of pipes in use", pipes(PipeCounts::used));
    facts.number(
        25,
        "PipesFree",
        *b"MGP",
        "Number of allocated but unused pipes",
        pipes(PipeCounts::free),
    );
    let current = frontends(live, Stat::Sessions);
    facts.number(17, "CurrConns", *b"MGP", "Current number of client connections", current);
    let total = frontends(live, Stat::Connections);
    facts.count(
        18,
        "CumConns",
        *b"MCP",
        "Total number of client connections since process started",
        total,
    );
    let requests = frontends(live, Stat::Requests);
    facts.count(19, "CumReq", *b"MCP", "Total number of requests since process started", requests);
}

fn put_rates(facts: &mut InfoFields, live: &Live, moment: Moment) {
    let rate = |rate| live.frontends.iter().map(|it| Total(&it.counters).rate(rate, moment)).sum();
    let max = |rate| live.frontends.iter().map(|it| Total(&it.counters).rate_max(rate)).sum();
    let text = "Number of client connections over the last second";
    facts.number(26, "ConnRate", *b"MRP", text, rate(RateKind::Connections));
    let limit = |limit: &AdjustableLimit| limit.get().unwrap_or(0) as u64;
    let max_rate = limit(&live.connections_per_second_max);
    facts.number(27, "ConnRateLimit", *b"CLP", "Limit on ConnRate (0: none)", max_rate);
    let text = "Highest value of ConnRate observed since process started";
    facts.number(28, "MaxConnRate", *b"MMP", text, max(RateKind::Connections));
    facts.number(
        29,
        "SessRate",
        *b"MRP",
        "Number of sessions over the last second",
        rate(RateKind::Sessions),
    );
    let max_rate = limit(&live.sessions_per_second_max);
    facts.number(30, "SessRateLimit", *b"CLP", "Limit on SessRate (0: none)", max_rate);
    let text = "Highest value of SessRate observed since process started";
    facts.number(31, "MaxSessRate", *b"MRP", text, max(RateKind::Sessions));
}

fn put_tls(facts: &mut InfoFields, live: &Live) {
    let front = frontends(live, Stat::TlsHandshakes);
    let resumed = frontends(live, Stat::TlsResumed);
    let back = live.backends.iter().map(|it| Total(&it.counters).get(Stat::TlsHandshakes));
    let total = front + back.sum::<u64>();
    facts.count(
        22,
        "CumSslConns",
        *b"MCP",
        "Total number of TLS connections since process started",
        total,
    );
    let percent = resumed * 100 / front.max(1);
    let text = "Percentage of client TLS sessions that were reused";
    facts.number(37, "SslFrontendSessionReuse_pct", *b"MGP", text, percent);
}

fn put_state(facts: &mut InfoFields, live: &Live, process: &Process) {
    facts.put(50, "node", *b"COS", "Node name", StatsValue::from(&*process.node));
    if let Some(text) = &live.config.global.description {
        facts.put(51, "description", *b"COS", "Node description", StatsValue::from(&**text));
    }
    let stopping = u64::from(process.is_stopping());
    facts.number(
        52,
        "Stopping",
        *b"MGP",
        "1 if the process is currently stopping, otherwise 0",
        stopping,
    );
    let listeners: usize = live.frontends.iter().map(|it| it.config.binds.len()).sum();
    let listeners = (listeners + live.config.global.stats_sockets.len()) as u64;
    let jobs = frontends(live, Stat::Sessions) + listeners;
    facts.number(
        53,
        "Jobs",
        *b"MGP",
        "Current number of active jobs (connections and listeners)",
        jobs,
    );
    facts.number(
        54,
        "Unstoppable Jobs",
        *b"MGP",
        "Current number of jobs that do not stop (always 0)",
        0,
    );
    facts.number(55, "Listeners", *b"MGP", "Current number of active listeners", listeners);
    let text = "Total number of dropped log lines since process started";
    facts.count(58, "DroppedLogs", *b"MGP", text, process.lines_lost());
}

fn put_rest(facts: &mut InfoFields, live: &Live, process: &Process) {
    let out = frontends(live, Stat::BytesOut);
    facts.put(
        61,
        "TotalBytesOut",
        *b"MGP",
        "Total number of bytes sent to clients since process started",
        StatsValue::U64(out),
    );
    facts.put(66, "Build info", *b"POS", "Build info", VERSION.into());
    let began = process.began_at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    facts.number(
        70,
        "Start_time_sec",
        *b"MDP",
        "Start time in seconds since the Unix epoch",
        began,
    );
    let ledger = process.ledger();
    facts.put(
        100,
        "Syscalls",
        *b"MCP",
        "Total number of system calls since process started",
        StatsValue::U64(ledger.total()),
    );
    let idle = [Call::epoll_wait, Call::epoll_pwait2].map(|it| ledger.count(it).calls).iter().sum();
    facts.put(
        101,
        "Waits",
        *b"MCP",
        "Total number of calls of epoll_wait and epoll_pwait2",
        StatsValue::U64(idle),
    );
    let drivers: BTreeSet<String> = process.drivers().iter().map(DriverInfo::to_string).collect();
    let drivers: Vec<String> = drivers.into_iter().collect(); // usually one
    facts.put(
        102,
        "Driver",
        *b"POS",
        "Drivers of the event loops",
        drivers.join(", ").as_str().into(),
    );
    let text = "Total number of io_uring operations (not system calls)";
    facts.count(103, "RingOperations", *b"MCP", text, ledger.operations_total());
    for (at, name, tags, text) in ABSENT {
        facts.number(*at, name, **tags, text, 0);
    }
    facts.0.sort_by_key(|fact| fact.position);
}

/// A counter, summed over all frontends.
pub fn frontends(live: &Live, counter: Stat) -> u64 {
    live.frontends.iter().map(|it| Total(&it.counters).get(counter)).sum()
}

/// Formats a time as `0d 1h02m03s`.
fn uptime(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    format!("{days}d {hours}h{:02}m{:02}s", seconds / 60 % 60, seconds % 60)
}

/// Fields of features that do not exist here: always 0, but scripts look for them.
const ABSENT: &[(usize, &str, &[u8; 3], &str)] = &[
    (9, "Memmax_MB", b"CLP", "Memory limit in MB (0: none)"),
    (12, "PoolFailed", b"MCP", "Number of failed pool allocations (always 0)"),
    (20, "MaxSslConns", b"MMP", "Limit on the number of TLS connections (0: none)"),
    (33, "SslRateLimit", b"CLP", "Limit on the number of TLS handshakes per second (0: none)"),
    (42, "CompressBpsIn", b"MRP", "Bytes submitted to compression per second (not supported)"),
    (43, "CompressBpsOut", b"MRP", "Bytes emitted by compression per second (not supported)"),
    (44, "CompressBpsRateLim", b"CLP", "Limit on CompressBpsOut (not supported)"),
    (56, "ActivePeers", b"MGP", "Number of active peers (not supported)"),
    (57, "ConnectedPeers", b"MGP", "Number of connected peers (not supported)"),
    (64, "DebugCommandsIssued", b"MGP", "Number of debugging commands issued (not supported)"),
    (65, "CumRecvLogs", b"MCP", "Number of received log messages (not supported)"),
];

/// The version of this program.
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
