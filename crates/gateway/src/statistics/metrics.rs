//! Metrics for Prometheus, by the names of HAProxy's exporter, and the system calls beside them.

mod families;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use fulmar_proxy::{Counter, Live};

use super::columns::Column;
use super::info::{Fact, VERSION, facts, frontends};
use super::kind::Kind;
use super::process::{Moment, Process};
use super::rows::{Wish, rows};
use super::value::{Row, Value};

use families::{FAMILIES, Family, PROCESS, Shape};

/// Which metrics are asked for (`scope=`, `no-maint`).
#[derive(Clone, Debug)]
pub struct Choice {
    /// `scope=global`.
    pub process: bool,
    /// `scope=frontend`, and its like.
    pub kinds: Vec<Kind>,
    /// `no-maint`: no servers in maintenance.
    pub no_maintenance: bool,
}

impl Choice {
    /// From a query; `None`: there is no such scope.
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
            "frontend" => self.kinds.push(Kind::Frontend),
            "backend" => self.kinds.push(Kind::Backend),
            "server" => self.kinds.push(Kind::Server),
            "listener" => self.kinds.push(Kind::Listener),
            "" => {}
            "sticktable" => {}
            _ => return None,
        }
        Some(())
    }
}

/// All metrics that are asked for.
pub fn write(live: &Live, process: &Process, moment: Moment, choice: &Choice) -> String {
    let mut out = String::new();
    if choice.process {
        write_process(&mut out, &facts(live, process, moment));
        write_calls(&mut out, live, process);
    }
    if choice.kinds.is_empty() {
        return out;
    }
    let rows = rows(live, process, moment, &Wish::default());
    let servers = Servers::of(&rows);
    for kind in ALL.iter().filter(|kind| choice.kinds.contains(kind)) {
        let is_shown = |row: &&Row| {
            let hidden = choice.no_maintenance && row.kind == Kind::Server && is_maintained(row);
            row.kind == *kind && !hidden
        };
        let rows: Vec<&Row> = rows.iter().filter(is_shown).collect();
        for family in FAMILIES.iter().filter(|it| it.kinds.contains(kind) && !rows.is_empty()) {
            write_family(&mut out, family, *kind, &rows, &servers);
        }
    }
    out
}

fn is_maintained(server: &Row) -> bool {
    server.word(Column::status).starts_with("MAINT")
}

/// How many servers of each backend are in a state, and how many checks of theirs ended in a way:
/// counted once for all backends.
struct Servers<'r>(HashMap<(u32, &'r str), u64>);

impl<'r> Servers<'r> {
    fn of(rows: &'r [Row]) -> Self {
        let mut counts = HashMap::new();
        for server in rows.iter().filter(|row| row.kind == Kind::Server) {
            // No check ends in a word that is a state.
            for word in [state_of(server), server.word(Column::check_status)] {
                *counts.entry((server.proxy, word)).or_default() += 1;
            }
        }
        Self(counts)
    }

    fn count(&self, backend: &Row, word: &str) -> u64 {
        self.0.get(&(backend.proxy, word)).copied().unwrap_or(0)
    }
}

fn write_process(out: &mut String, facts: &[Fact]) {
    for (name, kind, fact) in PROCESS {
        let Some(fact) = facts.iter().find(|it| it.name == *fact) else { continue };
        head(out, name, kind, fact.text);
        line(out, format_args!("{name} {}", fact.value));
    }
    let name = "haproxy_process_build_info";
    head(out, name, "gauge", "What was built");
    line(out, format_args!("{name}{{version=\"{VERSION}\"}} 1"));
}

fn write_calls(out: &mut String, live: &Live, process: &Process) {
    let ledger = process.ledger();
    let name = "fulmar_syscalls_total";
    head(out, name, "counter", "System calls of the threads that serve");
    for (call, count) in ledger.iter() {
        line(out, format_args!("{name}{{call=\"{}\"}} {}", call.name(), count.calls));
    }
    let name = "fulmar_syscalls_eagain_total";
    head(out, name, "counter", "System calls, and operations in a ring, that had nothing to do");
    line(out, format_args!("{name} {}", ledger.eagain()));
    let name = "fulmar_ring_operations_total";
    head(out, name, "counter", "Done inside io_uring_enter, by name: no system calls");
    for (operation, count) in ledger.operations() {
        line(out, format_args!("{name}{{operation=\"{}\"}} {}", operation.name(), count.calls));
    }
    let name = "fulmar_loops";
    head(out, name, "gauge", "Event loops that serve, by what drives them");
    let mut loops: BTreeMap<_, u64> = BTreeMap::new();
    for driven in process.driven() {
        *loops.entry((driven.driver, driven.spin.to_string())).or_default() += 1;
    }
    for ((driver, spin), count) in loops {
        line(out, format_args!("{name}{{driver=\"{driver}\",spin=\"{spin}\"}} {count}"));
    }
    let name = "fulmar_syscalls_per_request";
    let requests = frontends(live, Counter::Requests);
    head(out, name, "gauge", "All system calls since the start, for each request");
    line(out, format_args!("{name} {:.6}", ratio(ledger.total(), requests)));
    let name = "fulmar_syscalls_per_connection";
    let connections = frontends(live, Counter::Connections);
    head(out, name, "gauge", "All system calls since the start, for each connection of a client");
    line(out, format_args!("{name} {:.6}", ratio(ledger.total(), connections)));
}

fn write_family(
    out: &mut String,
    family: &Family,
    kind: Kind,
    rows: &[&Row],
    servers: &Servers<'_>,
) {
    let name = format!("haproxy_{}_{}", kind.name().to_ascii_lowercase(), family.name);
    let before = out.len();
    head(out, &name, family.kind, family.column.text());
    let begin = out.len();
    for row in rows {
        let labels = labels(row);
        match family.shape {
            Shape::Plain | Shape::Millis | Shape::OrNaN => {
                if let Some(value) = number(family, row) {
                    line(out, format_args!("{name}{{{labels}}} {value}"));
                }
            }
            Shape::Http if row.word(Column::mode) != "http" => {}
            Shape::Http => {
                line(out, format_args!("{name}{{{labels}}} {}", row.number(family.column)));
            }
            Shape::Responses if row.word(Column::mode) != "http" => {}
            Shape::Responses => {
                for (code, column) in CODES {
                    let value = row.number(*column);
                    line(out, format_args!("{name}{{{labels},code=\"{code}\"}} {value}"));
                }
            }
            Shape::Status => write_states(out, &name, &labels, states(kind), |state| {
                u64::from(state == state_of(row))
            }),
            Shape::Servers => write_states(out, &name, &labels, states(Kind::Server), |state| {
                servers.count(row, state)
            }),
            Shape::Check if row.get(Column::check_status).is_none() => {}
            Shape::Check => write_states(out, &name, &labels, CHECKS, |state| {
                u64::from(row.word(Column::check_status) == state)
            }),
            Shape::Checks => {
                write_states(out, &name, &labels, CHECKS, |state| servers.count(row, state))
            }
        }
    }
    if out.len() == begin {
        out.truncate(before); // there is nobody to tell it of
    }
}

fn number(family: &Family, row: &Row) -> Option<String> {
    match (row.get(family.column), family.shape) {
        (Some(Value::U32(millis)), Shape::Millis) => Some(seconds(u64::from(*millis))),
        (Some(Value::U64(millis)), Shape::Millis) => Some(seconds(*millis)),
        (Some(value), _) => Some(value.to_string()),
        (None, Shape::OrNaN) => Some("NaN".to_owned()),
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

fn states(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Frontend | Kind::Backend => &["DOWN", "UP"],
        Kind::Server => &["DOWN", "UP", "MAINT", "DRAIN", "NOLB"],
        Kind::Listener => &["WAITING", "OPEN", "FULL"],
    }
}

/// The column `status`, without what follows the first word, in the words of the exporter.
fn state_of(row: &Row) -> &str {
    let status = row.word(Column::status);
    match (row.kind, status.split(' ').next().unwrap_or_default()) {
        (Kind::Frontend, "OPEN") => "UP",
        (Kind::Frontend, _) => "DOWN",
        (Kind::Server, "no") => "UP",
        (_, word) => word,
    }
}

fn labels(row: &Row) -> String {
    let proxy = escape(row.word(Column::pxname));
    let name = escape(row.word(Column::svname));
    match row.kind {
        Kind::Frontend | Kind::Backend => format!("proxy=\"{proxy}\""),
        Kind::Server => format!("proxy=\"{proxy}\",server=\"{name}\""),
        Kind::Listener => format!("proxy=\"{proxy}\",listener=\"{name}\""),
    }
}

/// In the value of a label, backslash, quote and the end of a line are escaped (the exposition
/// format of Prometheus, version 0.0.4).
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    line(out, format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"));
}

fn line(out: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(out, "{line}").expect("a String takes everything");
}

/// Without events it is `NaN`, which Prometheus takes for no sample.
#[expect(clippy::cast_precision_loss, reason = "a figure to look at")]
fn ratio(calls: u64, events: u64) -> f64 {
    if events == 0 { f64::NAN } else { calls as f64 / events as f64 }
}

/// In the order in which they are shown.
const ALL: &[Kind] = &[Kind::Frontend, Kind::Listener, Kind::Backend, Kind::Server];

const CODES: &[(&str, Column)] = &[
    ("1xx", Column::hrsp_1xx),
    ("2xx", Column::hrsp_2xx),
    ("3xx", Column::hrsp_3xx),
    ("4xx", Column::hrsp_4xx),
    ("5xx", Column::hrsp_5xx),
    ("other", Column::hrsp_other),
];

/// How checks end.
const CHECKS: &[&str] = &[
    "HANA", "SOCKERR", "L4OK", "L4TOUT", "L4CON", "L6OK", "L6TOUT", "L6RSP", "L7TOUT", "L7RSP",
    "L7OK", "L7OKC", "L7STS", "PROCERR", "PROCTOUT", "PROCOK",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_chosen_one_by_one() {
        let none = Choice::parse("scope=").unwrap();
        assert!(!none.process && none.kinds.is_empty());
        let two = Choice::parse("scope=server&scope=global&no-maint").unwrap();
        assert!(two.process && two.no_maintenance && two.kinds == [Kind::Server]);
        assert!(Choice::parse("scope=nothing").is_none());
        assert_eq!(Choice::parse("").unwrap().kinds.len(), 4);
        assert_eq!(Choice::parse("scope=*").unwrap().kinds.len(), 4);
    }

    #[test]
    fn labels_cannot_break_out_of_their_quotes() {
        let row = Row::new(Kind::Server, ("a\"b\\", "c\nd"), (2, 1));
        assert_eq!(labels(&row), "proxy=\"a\\\"b\\\\\",server=\"c\\nd\"");
    }

    #[test]
    fn milliseconds_are_seconds() {
        assert_eq!((seconds(5), seconds(61_234)), ("0.005000".into(), "61.234000".into()));
    }
}
