//! A run as text: tables and advice.

use std::collections::BTreeMap;
use std::time::Duration;

use super::errno;
use super::group::CallGroup;
use super::run::{AuditRun, LoadSummary, by_frequency};
use super::sequence;
use super::table::{TextTable, counted, field, grouped, share, unless_zero, wrapped};
use super::waste::{Waste, wastes};
use crate::call_times::{CallTime, CallTimes};
use crate::counts::{CallCounts, CallTally, ConnectionPhase, CountingBackend};
use crate::kinds::UNSEEN;

impl AuditRun {
    /// The counts by call, and avoidable calls. It ends with a line feed.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.command);
        if let Some(load) = &self.load {
            text += &load.sentences();
        }
        text += &counter(&self.counts);
        text += &self.cost();
        text.push('\n');
        text += &self.calls();
        text.push('\n');
        text += &self.below();
        if let Some(phases) = self.phases() {
            text.push('\n');
            text += &phases;
        }
        text += &self.advice();
        if let Some(timeline) = &self.timeline {
            text.push('\n');
            text += &sequence::text(timeline);
        }
        text
    }

    /// The overhead of counting, if it was measured.
    fn cost(&self) -> String {
        let Some(cost) = self.cost else { return String::new() };
        let ns = |time: Duration| grouped(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let mut text = format!("counting costs about {} ns for each call", ns(cost.call));
        if let Some(operation) = cost.operation {
            text += &format!(", {} ns for each operation of io_uring", ns(operation));
        }
        if let (Some(unit), Some(us)) = (&self.unit, self.cost_per_unit_us()) {
            text += &format!(", {us:.2} us per {}", unit.noun());
        }
        if !cost.other_call.is_zero() {
            text += &format!("; {} ns for each of other programs", ns(cost.other_call));
        }
        wrapped(&text, COST_WIDTH).join("\n") + "\n"
    }

    /// System calls, and below them the operations of a ring.
    fn calls(&self) -> String {
        let mut all = CallTally::default();
        self.counts.calls.values().for_each(|tally| all.add(tally));
        let calls = by_frequency(&self.counts.calls).into_iter().chain([("all", &all)]);
        let times = self.counts.times.clone().map(|mut times| {
            let mut all = CallTime::default();
            times.values().for_each(|time| all.add(*time));
            times.insert("all".to_owned(), all);
            times
        });
        let mut text = self.table("system call", calls, &times.unwrap_or_default());
        if let Some(ring) = self.counts.ring.as_ref().filter(|ring| !ring.is_empty()) {
            text.push('\n');
            text += &self.table("io_uring", by_frequency(ring), &CallTimes::new());
        }
        text
    }

    fn table<'t>(
        &self,
        what: &str,
        rows: impl IntoIterator<Item = (&'t str, &'t CallTally)>,
        times: &CallTimes,
    ) -> String {
        let per = self.unit.as_ref().map_or(String::new(), |unit| format!("per {}", unit.noun()));
        let mut table = TextTable::new([
            what,
            &per,
            "per 10,000",
            "in total",
            "EAGAIN",
            "errors",
            "bytes",
            "us inside",
            "us before",
        ]);
        for (name, tally) in rows {
            table.row(self.cells(name, tally, times.get(name).copied()));
        }
        table.text()
    }

    fn cells(&self, name: &str, tally: &CallTally, time: Option<CallTime>) -> [String; 9] {
        let eagain = tally.errors.get(&errno::EAGAIN).copied().unwrap_or(0);
        let per = |scale: f64, decimals: usize| match &self.unit {
            Some(unit) => format!("{:.decimals$}", unit.share(tally.count) * scale),
            None => String::new(),
        };
        [
            name.to_owned(),
            per(1.0, 4),
            per(10_000.0, 1),
            grouped(tally.count),
            unless_zero(eagain),
            unless_zero(tally.failed() - eagain),
            unless_zero(tally.bytes),
            time.map_or(String::new(), |time| self.micros(time.inside_ns)),
            time.map_or(String::new(), |time| self.micros(time.before_ns)),
        ]
    }

    /// Microseconds of each unit; without a unit, in total.
    fn micros(&self, ns: u64) -> String {
        match &self.unit {
            Some(unit) => format!("{:.2}", unit.share(ns) / 1e3),
            None => grouped(ns / 1_000),
        }
    }

    /// The sums of times, if they were requested.
    fn times(&self) -> String {
        let Some(times) = &self.counts.times else { return String::new() };
        let (mut all, mut waits) = (CallTime::default(), 0);
        for (name, time) in times {
            all.add(*time);
            // A ring is entered to execute operations, too.
            if CallGroup::of(name) == CallGroup::Wait && !name.starts_with("io_uring") {
                waits += time.inside_ns;
            }
        }
        let each = self.unit.as_ref().map_or(String::new(), |unit| format!(" per {}", unit.noun()));
        let line = format!(
            "in calls {} us, without waits {} us; between calls {} us{each}",
            self.micros(all.inside_ns),
            self.micros(all.inside_ns - waits),
            self.micros(all.before_ns)
        );
        field("time", &line)
    }

    /// The lines below the table.
    fn below(&self) -> String {
        let counts = &self.counts;
        let each = self.unit.as_ref().map_or(String::new(), |unit| format!(" per {}", unit.noun()));
        let amount = |count: u64| match &self.unit {
            Some(unit) => share(unit.share(count)),
            None => grouped(count),
        };
        let list = |parts: Vec<String>| parts.join(", ");
        let groups = self.groups().into_iter().map(|(g, n)| format!("{} {}", g.name(), amount(n)));
        let groups = match list(groups.collect()) {
            none if none.is_empty() => "none".to_owned(),
            groups => groups + &each,
        };
        let mut text = self.times() + &field("by group", &groups);
        let ring = counts.ring.iter().flatten();
        let ring = ring.map(|(name, tally)| (format!("io_uring {name}"), tally));
        let calls = counts.calls.iter().map(|(name, tally)| (name.clone(), tally));
        let errors = list(calls.chain(ring).flat_map(|(name, t)| errors(&name, t)).collect());
        text += &field("errors", if errors.is_empty() { "none" } else { &errors });
        let kinds = counts.calls.iter().flat_map(|(name, tally)| {
            tally.kinds.iter().map(move |(kind, n)| format!("{name} {kind} {}", amount(*n)))
        });
        let kinds = list(kinds.collect());
        if !kinds.is_empty() {
            text += &field("by argument", &kinds);
        }
        if !counts.ring_why.is_empty() {
            let what = if counts.ring.is_some() { "results not" } else { "not" };
            text += &field("io_uring", &format!("{what} counted: {}", counts.ring_why));
        }
        if let Some(reads) = counts.clock_reads {
            let line = format!("{}{each}, without a system call (vdso)", amount(reads));
            text += &field("clock reads", &line);
        }
        if counts.lost > 0 {
            let lost = counted(counts.lost, "event");
            let foreign = match counts.foreign {
                0 => String::new(),
                foreign => format!("; {} of a 32-bit program", counted(foreign, "call")),
            };
            let what = match (counts.by_phase.is_some(), counts.times.is_some()) {
                (true, _) => ", or those of phases,",
                (false, true) => ", or the times,",
                (false, false) => "",
            };
            let line = format!("{lost}: the true counts{what} are higher by as many{foreign}");
            text += &field("lost", &line);
        }
        text
    }

    /// Calls by phase.
    fn phases(&self) -> Option<String> {
        let phases = self.counts.by_phase.as_ref()?;
        let shown = |count: u64| match &self.unit {
            Some(unit) => share(unit.share(count)),
            None => grouped(count),
        };
        let per = match &self.unit {
            Some(unit) => format!("per {}", unit.noun()),
            None => "in total".to_owned(),
        };
        let mut text = row("while", &per, "its calls");
        phases.iter().for_each(|(phase, calls)| text += &rows(*phase, calls, &shown));
        if let Some(phases) = self.counts.ring_by_phase.as_ref().filter(|all| !all.is_empty()) {
            text += &format!("\n{}", row("while", &per, "its operations of io_uring"));
            phases.iter().for_each(|(phase, done)| text += &rows(*phase, done, &shown));
        }
        let limits = limits(&self.counts);
        if !limits.is_empty() {
            text += &format!("\n{limits}");
        }
        Some(text)
    }

    /// Avoidable calls, and advice.
    fn advice(&self) -> String {
        let found = wastes(self);
        if found.is_empty() {
            return String::new();
        }
        let mut text = "\n  could be saved\n".to_owned();
        for waste in found {
            text += &self.saved(waste);
        }
        text
    }

    fn saved(&self, waste: Waste) -> String {
        let amount = match &self.unit {
            Some(unit) => format!("{} per {}", share(unit.share(waste.count)), unit.noun()),
            None => grouped(waste.count),
        };
        let estimate = if waste.exact { "" } else { ", estimated from the number of calls" };
        let mut text = format!("  {:<18}{amount}{estimate}\n", waste.class.name());
        for line in wrapped(waste.class.advice(), ADVICE_WIDTH) {
            text += &format!("    {line}\n");
        }
        text
    }
}

impl LoadSummary {
    fn sentences(&self) -> String {
        let Self { url, connections, requests, errors, refused, warm_up } = self;
        let mut text = format!(
            "{} answered over {}, after {} to warm up: {url}\n",
            counted(*requests, "request"),
            counted((*connections).into(), "connection"),
            grouped(*warm_up),
        );
        let errors: Vec<_> =
            errors.iter().map(|(kind, n)| format!("{kind}: {}", grouped(*n))).collect();
        if !errors.is_empty() {
            text += &format!("errors of the load: {}\n", errors.join(", "));
        }
        if *refused > 0 {
            text += &format!("{} with a status of 400 or above\n", counted(*refused, "response"));
        }
        text
    }
}

fn counter(counts: &CallCounts) -> String {
    let how = match counts.backend {
        CountingBackend::Ebpf => "in the kernel (ebpf)",
        CountingBackend::Ptrace => "by tracing (ptrace)",
    };
    let (processes, threads) = (counts.processes, counts.threads);
    let processes = if processes == 1 {
        "1 process".into()
    } else {
        format!("{} processes", grouped(processes))
    };
    let threads = counted(threads, "thread");
    let took = match counts.elapsed.as_secs_f64() {
        seconds if seconds > 0.0 => format!(", {seconds:.1} s"),
        _ => String::new(),
    };
    format!("counted {how}: {processes}, {threads}{took}\n")
}

/// `recvfrom EAGAIN 12`.
fn errors(name: &str, tally: &CallTally) -> Vec<String> {
    let each = tally.errors.iter();
    each.map(|(errno, n)| format!("{name} {} {}", errno::name(*errno), grouped(*n))).collect()
}

/// The calls of a phase, the most frequent first.
fn rows(
    phase: ConnectionPhase,
    done: &BTreeMap<String, CallTally>,
    shown: &impl Fn(u64) -> String,
) -> String {
    let mut sorted: Vec<_> = done.iter().map(|(name, tally)| (name, tally.count)).collect();
    sorted.sort_by_key(|(_, count)| std::cmp::Reverse(*count)); // stable: then by name
    let sum = |done: &[(&String, u64)]| shown(done.iter().map(|(_, count)| count).sum());
    let (most, rest) = sorted.split_at(sorted.len().min(PHASE_CALLS));
    let mut list: Vec<_> = most.iter().map(|(n, count)| format!("{n} {}", shown(*count))).collect();
    if !rest.is_empty() {
        list.push(format!("{} others {}", rest.len(), sum(rest)));
    }
    let all = sum(&sorted);
    let mut text = String::new();
    for (at, line) in wrapped(&list.join(", "), PHASE_WIDTH).iter().enumerate() {
        let (name, all) = if at == 0 { (phase.name(), &all[..]) } else { ("", "") };
        text += &row(name, all, line);
    }
    text
}

/// The limits of phases for these counts, one line each.
fn limits(counts: &CallCounts) -> String {
    let by_phase = || counts.by_phase.iter().chain(&counts.ring_by_phase).flatten();
    let mut text = String::new();
    if by_phase().any(|(phase, _)| *phase == ConnectionPhase::Tls) {
        text += &field(
            "encrypted",
            "the first data after a handshake count as a head, the rest as a body; session \
             tickets too, if the request came before them",
        );
    }
    let all = by_phase().flat_map(|(_, done)| done.values());
    let unseen: u64 = all.filter_map(|tally| tally.kinds.get(UNSEEN)).sum();
    if unseen > 0 {
        let results = counted(unseen, "result");
        let line = format!("{results} in buffers that a ring chose: counted as heads or bodies");
        text += &field("not examined", &line);
    }
    let others = by_phase().filter(|(phase, _)| **phase == ConnectionPhase::Other);
    let others = others.flat_map(|(_, done)| done);
    let of_sockets = others.filter(|(name, _)| OF_SOCKETS.contains(&name.as_str()));
    let unassigned: u64 = of_sockets.map(|(_, tally)| tally.count).sum();
    if unassigned > 0 {
        let calls = counted(unassigned, "call");
        let line = format!(
            "{calls} on sockets count as `other`: datagrams, connections that existed before, and \
             connections that the process inherited"
        );
        text += &field("not followed", &line);
    }
    text
}

/// A row: the phase, its sum, its calls.
fn row(name: &str, all: &str, calls: &str) -> String {
    format!("  {name:<14}  {all:>11}  {calls}\n")
}

/// Calls and operations that only sockets have.
const OF_SOCKETS: &[&str] = &[
    "recvfrom",
    "recvmsg",
    "recvmmsg",
    "sendto",
    "sendmsg",
    "sendmmsg",
    "shutdown",
    "recv",
    "send",
    "send_zc",
    "sendmsg_zc",
];
const ADVICE_WIDTH: usize = 92;
/// The overhead fits on one line, unless there is a ring.
const COST_WIDTH: usize = 100;
/// The calls named for each phase. Only programs that start and end have more.
const PHASE_CALLS: usize = 12;
/// The width of the column of calls.
const PHASE_WIDTH: usize = 65;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Cost;
    use crate::report::run::tests::{fail, run};

    #[test]
    fn the_text_report() {
        let mut run = run(10_000, &[("recvfrom", 20_000), ("accept4", 66), ("epoll_wait", 1_893)]);
        let counts = &mut run.counts;
        fail(counts, "recvfrom", libc::EAGAIN, 10_000);
        fail(counts, "recvfrom", libc::ECONNRESET, 1);
        fail(counts, "accept4", libc::EAGAIN, 2);
        counts.calls.get_mut("recvfrom").unwrap().bytes = 410_000;
        counts.calls.get_mut("epoll_wait").unwrap().kinds = [("timed".to_owned(), 1_893)].into();
        (counts.processes, counts.threads) = (1, 2);
        counts.clock_reads = Some(1_893);
        (counts.lost, counts.foreign) = (3, 2);
        counts.elapsed = Duration::from_millis(1_230);
        let send = CallTally {
            count: 3,
            bytes: 90,
            errors: [(libc::EPIPE, 1)].into(),
            ..CallTally::default()
        };
        counts.ring = Some([("send".to_owned(), send)].into());
        counts.ring_why = "the kernel does not report them".into();
        let nanos = Duration::from_nanos;
        let operation = Some(nanos(1_000));
        run.cost = Some(Cost { call: nanos(105), operation, other_call: nanos(20) });
        run.load = Some(LoadSummary {
            url: "http://127.0.0.1:80/".into(),
            connections: 64,
            requests: 10_000,
            errors: vec![("timeout".into(), 1_000)],
            refused: 1,
            warm_up: 1_000,
        });
        assert_eq!(
            run.text(),
            "\
server --port 1
10,000 requests answered over 64 connections, after 1,000 to warm up: http://127.0.0.1:80/
errors of the load: timeout: 1,000
1 response with a status of 400 or above
counted in the kernel (ebpf): 1 process, 2 threads, 1.2 s
counting costs about 105 ns for each call, 1,000 ns for each operation of io_uring, 0.23 us per
request; 20 ns for each of other programs

  system call     per request  per 10,000  in total    EAGAIN    errors     bytes
  recvfrom             2.0000     20000.0    20,000    10,000         1   410,000
  epoll_wait           0.1893      1893.0     1,893
  accept4              0.0066        66.0        66         2
  all                  2.1959     21959.0    21,959    10,002         1   410,000

  io_uring        per request  per 10,000  in total    errors     bytes
  send                 0.0003         3.0         3         1        90

  by group        wait 0.1893, accept 0.0066, receive 2.0000 per request
  errors          accept4 EAGAIN 2, recvfrom EAGAIN 10,000, recvfrom ECONNRESET 1, io_uring send
                  EPIPE 1
  by argument     epoll_wait timed 0.1893
  io_uring        results not counted: the kernel does not report them
  clock reads     0.1893 per request, without a system call (vdso)
  lost            3 events: the true counts are higher by as many; 2 calls of a 32-bit program

  could be saved
  eagain-reads      1.0000 per request
    Reads that found no data. Read after an event only, and stop after a read that did not fill
    its buffer: the socket is empty.
"
        );
    }

    #[test]
    fn times_are_columns_and_a_line() {
        let mut run = run(100, &[("recvfrom", 200), ("epoll_wait", 50)]);
        run.counts.calls.get_mut("recvfrom").unwrap().bytes = 800;
        let time = |inside_ns, before_ns| CallTime { inside_ns, before_ns };
        let times = [("recvfrom", time(150_000, 40_000)), ("epoll_wait", time(2_000_000, 9_000))];
        run.counts.times = Some(times.map(|(name, time)| (name.to_owned(), time)).into());
        let text = run.text();
        let (table, below) = text.split_once("\n  time").unwrap();
        assert!(
            table.ends_with(
                "\
  system call     per request  per 10,000  in total     bytes  us inside  us before
  recvfrom             2.0000     20000.0       200       800       1.50       0.40
  epoll_wait           0.5000      5000.0        50                20.00       0.09
  all                  2.5000     25000.0       250       800      21.50       0.49
"
            ),
            "{table}"
        );
        let line = "in calls 21.50 us, without waits 1.50 us; between calls 0.49 us per request";
        assert_eq!(below.lines().next().unwrap().trim(), line);
        run.unit = None;
        assert!(
            run.text().contains("without waits 150 us; between calls 49 us\n"),
            "{}",
            run.text()
        );
    }

    #[test]
    fn without_a_unit_there_are_totals_only() {
        let mut run = run(1, &[("read", 3_000), ("epoll_ctl", 400)]);
        run.unit = None;
        run.counts.backend = CountingBackend::Ptrace;
        run.counts.ring_why = "the kernel does not report them".into();
        let call = Duration::from_micros(4);
        run.cost = Some(Cost { call, operation: None, other_call: Duration::ZERO });
        let tally = run.counts.calls["read"].clone();
        let many = (0..14).map(|at| (format!("call{at:02}"), tally.clone())).collect();
        let body = [("read".to_owned(), tally)].into();
        run.counts.by_phase =
            Some([(ConnectionPhase::Body, body), (ConnectionPhase::Other, many)].into());
        let recv = CallTally { count: 1_200, ..CallTally::default() };
        run.counts.ring_by_phase =
            Some([(ConnectionPhase::Head, [("recv".to_owned(), recv)].into())].into());
        assert_eq!(
            run.text(),
            "\
server --port 1
counted by tracing (ptrace): 0 processes, 0 threads
counting costs about 4,000 ns for each call

  system call     in total
  read               3,000
  epoll_ctl            400
  all                3,400

  by group        watch 400, receive 3,000
  errors          none
  io_uring        not counted: the kernel does not report them

  while              in total  its calls
  body                  3,000  read 3,000
  other                42,000  call00 3,000, call01 3,000, call02 3,000, call03 3,000, call04
                               3,000, call05 3,000, call06 3,000, call07 3,000, call08 3,000,
                               call09 3,000, call10 3,000, call11 3,000, 2 others 6,000

  while              in total  its operations of io_uring
  head                  1,200  recv 1,200

  could be saved
  watch-churn       400, estimated from the number of calls
    epoll_ctl beyond one for each connection. Register once, for reading, and wait for room to
    write only after EAGAIN; close(2) removes a registration by itself.
"
        );
    }

    #[test]
    fn the_limits_of_phases_are_reported() {
        let phases = |name: &str, tally: CallTally| -> BTreeMap<_, _> {
            [(ConnectionPhase::Other, [(name.to_owned(), tally)].into())].into()
        };
        let mut counts = run(1, &[]).counts;
        counts.by_phase =
            Some(phases("epoll_wait", CallTally { count: 7, ..CallTally::default() }));
        assert_eq!(limits(&counts), "");
        counts.by_phase = Some(phases("recvfrom", CallTally { count: 3, ..CallTally::default() }));
        let kinds = [(UNSEEN.to_owned(), 2)].into();
        let recv = CallTally { count: 2, kinds, ..CallTally::default() };
        counts.ring_by_phase =
            Some([(ConnectionPhase::Head, [("recv".to_owned(), recv)].into())].into());
        counts.by_phase.as_mut().unwrap().insert(ConnectionPhase::Tls, BTreeMap::new());
        assert_eq!(
            limits(&counts),
            "\
\x20 encrypted       the first data after a handshake count as a head, the rest as a body; session
                  tickets too, if the request came before them
  not examined    2 results in buffers that a ring chose: counted as heads or bodies
  not followed    3 calls on sockets count as `other`: datagrams, connections that existed
                  before, and connections that the process inherited
"
        );
    }
}
