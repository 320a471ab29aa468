//! Prometheus metrics with the names of HAProxy's exporter, and metrics of system calls.

mod families;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use fulmar_proxy::{Live, Stat};

use super::columns::Column;
use super::info::{InfoField, VERSION, facts, frontends};
use super::kind::RowKind;
use super::process::{Moment, Process};
use super::rows::{RowFilter, rows};
use super::value::{StatsRow, StatsValue};

use families::{FAMILIES, MetricFamily, MetricShape, PROCESS};

/// Selected metrics (`scope=`, `no-maint`).
#[derive(Clone, Debug)]
pub struct MetricScope {
    /// `scope=global`.
    pub process: bool,
    /// `scope=frontend`, `scope=server` and so on.
    pub kinds: Vec<RowKind>,
    /// `no-maint`: omits servers in maintenance.
    pub no_maintenance: bool,
}

impl MetricScope {
    /// Parses a query; `None` if a scope is unknown.
    pub fn parse(query: &str) -> Option<Self> {
        let mut choice = Self { process: true, kinds: ALL.to_vec(), no_maintenance: false };
        let mut is_first = true;
        for part in query.split('&') {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            match name {
                "no-maint" => choice.no_maintenance = true,
                "scope" => {
                    if std::mem::take(&mut is_first) {
                        choice.process = false;
                        choice.kinds.clear();
                    }
                    choice.add_scope(value)?;
                }
                _ => {}
            }
        }
        Some(choice)
    }

    fn add_scope(&mut self, scope: &str) -> Option<()> {
        match scope {
            "*" => (self.process, self.kinds) = (true, ALL.to_vec()),
            "global" => self.process = true,
            "frontend" => self.kinds.push(RowKind::Frontend),
            "backend" => self.kinds.push(RowKind::Backend),
            "server" => self.kinds.push(RowKind::Server),
            "listener" => self.kinds.push(RowKind::Listener),
            "" => {}
            "sticktable" => {}
            _ => return None,
        }
        Some(())
    }
}

/// All selected metrics.
pub fn write(live: &Live, process: &Process, moment: Moment, choice: &MetricScope) -> String {
    let mut out = String::new();
    if choice.process {
        write_process(&mut out, &facts(live, process, moment));
        write_calls(&mut out, live, process);
    }
    if choice.kinds.is_empty() {
        return out;
    }
    let rows = rows(live, process, moment, &RowFilter::default());
    let servers = ServerCounts::of(&rows);
    for kind in ALL.iter().filter(|kind| choice.kinds.contains(kind)) {
        let is_shown = |row: &&StatsRow| {
            let hidden = choice.no_maintenance && row.kind == RowKind::Server && is_maintained(row);
            row.kind == *kind && !hidden
        };
        let rows: Vec<&StatsRow> = rows.iter().filter(is_shown).collect();
        for family in FAMILIES.iter().filter(|it| it.kinds.contains(kind) && !rows.is_empty()) {
            write_family(&mut out, family, *kind, &rows, &servers);
        }
    }
    out
}

fn is_maintained(server: &StatsRow) -> bool {
    server.word(Column::status).starts_with("MAINT")
}

/// For each backend, the number of servers by state and by result of the last check, counted in one
/// pass over the rows.
struct ServerCounts<'r>(HashMap<(u32, &'r str), u64>);

impl<'r> ServerCounts<'r> {
    fn of(rows: &'r [StatsRow]) -> Self {
        let mut counts = HashMap::new();
        for server in rows.iter().filter(|row| row.kind == RowKind::Server) {
            // Names of states and of check results are disjoint.
            for word in [state_of(server), server.word(Column::check_status)] {
                *counts.entry((server.proxy, word)).or_default() += 1;
            }
        }
        Self(counts)
    }

    fn count(&self, backend: &StatsRow, word: &str) -> u64 {
        self.0.get(&(backend.proxy, word)).copied().unwrap_or(0)
    }
}

fn write_process(out: &mut String, facts: &[InfoField]) {
    for (name, kind, fact) in PROCESS {
        let Some(fact) = facts.iter().find(|it| it.name == *fact) else { continue };
        head(out, name, kind, fact.text);
        line(out, format_args!("{name} {}", fact.value));
    }
    let name = "haproxy_process_build_info";
    head(out, name, "gauge", "Build info");
    line(out, format_args!("{name}{{version=\"{VERSION}\"}} 1"));
}

fn write_calls(out: &mut String, live: &Live, process: &Process) {
    let ledger = process.ledger();
    let name = "fulmar_syscalls_total";
    head(out, name, "counter", "System calls of the proxy threads");
    for (call, count) in ledger.iter() {
        line(out, format_args!("{name}{{call=\"{}\"}} {}", call.name(), count.calls));
    }
    let name = "fulmar_syscalls_eagain_total";
    head(out, name, "counter", "System calls and ring operations that returned EAGAIN");
    line(out, format_args!("{name} {}", ledger.eagain()));
    let name = "fulmar_ring_operations_total";
    head(out, name, "counter", "Operations inside io_uring_enter, by name (not system calls)");
    for (operation, count) in ledger.operations() {
        line(out, format_args!("{name}{{operation=\"{}\"}} {}", operation.name(), count.calls));
    }
    let name = "fulmar_loops";
    head(out, name, "gauge", "Event loops of the proxy threads, by driver");
    let mut loops: BTreeMap<_, u64> = BTreeMap::new();
    for info in process.drivers() {
        *loops.entry((info.driver, info.spin.to_string())).or_default() += 1;
    }
    for ((driver, spin), count) in loops {
        line(out, format_args!("{name}{{driver=\"{driver}\",spin=\"{spin}\"}} {count}"));
    }
    let name = "fulmar_syscalls_per_request";
    let requests = frontends(live, Stat::Requests);
    head(out, name, "gauge", "System calls per request since the start");
    line(out, format_args!("{name} {:.6}", ratio(ledger.total(), requests)));
    let name = "fulmar_syscalls_per_connection";
    let connections = frontends(live, Stat::Connections);
    head(out, name, "gauge", "System calls per client connection since the start");
    line(out, format_args!("{name} {:.6}", ratio(ledger.total(), connections)));
}

fn write_family(
    out: &mut String,
    family: &MetricFamily,
    kind: RowKind,
    rows: &[&StatsRow],
    servers: &ServerCounts<'_>,
) {
    let name = format!("haproxy_{}_{}", kind.name().to_ascii_lowercase(), family.name);
    let before = out.len();
    head(out, &name, family.kind, family.column.text());
    let begin = out.len();
    for row in rows {
        let labels = labels(row);
        match family.shape {
            MetricShape::Plain | MetricShape::Millis | MetricShape::OrNaN => {
                if let Some(value) = number(family, row) {
                    line(out, format_args!("{name}{{{labels}}} {value}"));
                }
            }
            MetricShape::Http if row.word(Column::mode) != "http" => {}
            MetricShape::Http => {
                line(out, format_args!("{name}{{{labels}}} {}", row.number(family.column)));
            }
            MetricShape::Responses if row.word(Column::mode) != "http" => {}
            MetricShape::Responses => {
                for (code, column) in CODES {
                    let value = row.number(*column);
                    line(out, format_args!("{name}{{{labels},code=\"{code}\"}} {value}"));
                }
            }
            MetricShape::Status => write_states(out, &name, &labels, states(kind), |state| {
                u64::from(state == state_of(row))
            }),
            MetricShape::Servers => {
                write_states(out, &name, &labels, states(RowKind::Server), |state| {
                    servers.count(row, state)
                })
            }
            MetricShape::Check if row.get(Column::check_status).is_none() => {}
            MetricShape::Check => write_states(out, &name, &labels, CHECKS, |state| {
                u64::from(row.word(Column::check_status) == state)
            }),
            MetricShape::Checks => {
                write_states(out, &name, &labels, CHECKS, |state| servers.count(row, state))
            }
        }
    }
    if out.len() == begin {
        out.truncate(before); // no proxy of this kind: no family
    }
}

fn number(family: &MetricFamily, row: &StatsRow) -> Option<String> {
    match (row.get(family.column), family.shape) {
        (Some(StatsValue::U32(millis)), MetricShape::Millis) => Some(seconds(u64::from(*millis))),
        (Some(StatsValue::U64(millis)), MetricShape::Millis) => Some(seconds(*millis)),
        (Some(value), _) => Some(value.to_string()),
        (None, MetricShape::OrNaN) => Some("NaN".to_owned()),
        (None, _) => None,
    }
}

fn seconds(millis: u64) -> String {
    format!("{}.{:03}000", millis / 1_000, millis % 1_000)
}

fn write_states(
    out: &mut String,
    name: &str,
    labels: &str,
    states: &[&str],
    value: impl Fn(&str) -> u64,
) {
    for state in states {
        let value = value(state);
        line(out, format_args!("{name}{{{labels},state=\"{state}\"}} {value}"));
    }
}

fn states(kind: RowKind) -> &'static [&'static str] {
    match kind {
        RowKind::Frontend | RowKind::Backend => &["DOWN", "UP"],
        RowKind::Server => &["DOWN", "UP", "MAINT", "DRAIN", "NOLB"],
        RowKind::Listener => &["WAITING", "OPEN", "FULL"],
    }
}

/// The state in the words of the exporter: the first word of the column `status`.
fn state_of(row: &StatsRow) -> &str {
    let status = row.word(Column::status);
    match (row.kind, status.split(' ').next().unwrap_or_default()) {
        (RowKind::Frontend, "OPEN") => "UP",
        (RowKind::Frontend, _) => "DOWN",
        (RowKind::Server, "no") => "UP",
        (_, word) => word,
    }
}

fn labels(row: &StatsRow) -> String {
    let proxy = escape(row.word(Column::pxname));
    let name = escape(row.word(Column::svname));
    match row.kind {
        RowKind::Frontend | RowKind::Backend => format!("proxy=\"{proxy}\""),
        RowKind::Server => format!("proxy=\"{proxy}\",server=\"{name}\""),
        RowKind::Listener => format!("proxy=\"{proxy}\",listener=\"{name}\""),
    }
}

/// Escapes backslash, quote and line end in label values (Prometheus exposition format 0.0.4).
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    line(out, format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"));
}

fn line(out: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(out, "{line}").expect("a String takes everything");
}

/// `NaN` without events: Prometheus treats it as no sample.
#[expect(clippy::cast_precision_loss, reason = "an approximation")]
fn ratio(calls: u64, events: u64) -> f64 {
    if events == 0 { f64::NAN } else { calls as f64 / events as f64 }
}

/// In output order.
const ALL: &[RowKind] = &[RowKind::Frontend, RowKind::Listener, RowKind::Backend, RowKind::Server];

const CODES: &[(&str, Column)] = &[
    ("1xx", Column::hrsp_1xx),
    ("2xx", Column::hrsp_2xx),
    ("3xx", Column::hrsp_3xx),
    ("4xx", Column::hrsp_4xx),
    ("5xx", Column::hrsp_5xx),
    ("other", Column::hrsp_other),
];

/// Results of checks.
const CHECKS: &[&str] = &[
    "HANA", "SOCKERR", "L4OK", "L4TOUT", "L4CON", "L6OK", "L6TOUT", "L6RSP", "L7TOUT", "L7RSP",
    "L7OK", "L7OKC", "L7STS", "PROCERR", "PROCTOUT", "PROCOK",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_chosen_one_by_one() {
        let none = MetricScope::parse("scope=").unwrap();
        assert!(!none.process && none.kinds.is_empty());
        let two = MetricScope::parse("scope=server&scope=global&no-maint").unwrap();
        assert!(two.process && two.no_maintenance && two.kinds == [RowKind::Server]);
        assert!(MetricScope::parse("scope=nothing").is_none());
        assert_eq!(MetricScope::parse("").unwrap().kinds.len(), 4);
        assert_eq!(MetricScope::parse("scope=*").unwrap().kinds.len(), 4);
    }

    #[test]
    fn labels_cannot_break_out_of_their_quotes() {
        let row = StatsRow::new(RowKind::Server, ("a\"b\\", "c\nd"), (2, 1));
        assert_eq!(labels(&row), "proxy=\"a\\\"b\\\\\",server=\"c\\nd\"");
    }

    #[test]
    fn milliseconds_are_seconds() {
        assert_eq!((seconds(5), seconds(61_234)), ("0.005000".into(), "61.234000".into()));
    }
}
