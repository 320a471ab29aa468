//! Figures as text: the exposition format of Prometheus, version 0.0.4.
//!
//! A family is its help, its type, and a line for each sample. Families are always there; of
//! samples with labels, those that are more than nothing.

use std::fmt::{self, Write};

use crate::counts::{BUCKETS, CAUSES, CODES, METHODS, REASONS, Totals};

/// Writes everything.
pub(crate) fn write(out: &mut impl Write, totals: &Totals) -> fmt::Result {
    write_connections(out, totals)?;
    write_requests(out, totals)?;
    write_durations(out, totals)?;
    write_syscalls(out, totals)
}

fn write_connections(out: &mut impl Write, totals: &Totals) -> fmt::Result {
    single(
        out,
        "fulmar_connections_accepted_total",
        "counter",
        "Connections accepted.",
        totals.accepted,
    )?;
    single(out, "fulmar_connections_open", "gauge", "Connections at the moment.", totals.open())?;
    let name = "fulmar_connections_ended_total";
    family(out, name, "counter", "Connections that are gone, and why.")?;
    for (reason, count) in REASONS.iter().zip(totals.ended).filter(|(_, count)| *count > 0) {
        writeln!(out, "{name}{{reason=\"{reason}\"}} {count}")?;
    }
    single(
        out,
        "fulmar_accept_failures_total",
        "counter",
        "Times that descriptors or memory ran out when somebody wanted to connect.",
        totals.accept_failures,
    )
}

fn write_requests(out: &mut impl Write, totals: &Totals) -> fmt::Result {
    let name = "fulmar_http_requests_total";
    family(out, name, "counter", "Requests whose exchange is over, by status and method.")?;
    for (method, counts) in METHODS.iter().zip(totals.requests) {
        for (code, count) in CODES.iter().zip(counts).filter(|(_, count)| *count > 0) {
            writeln!(out, "{name}{{code=\"{code}\",method=\"{method}\"}} {count}")?;
        }
    }
    single(
        out,
        "fulmar_http_requests_incomplete_total",
        "counter",
        "Requests whose client went away, or whose answer was given up, before it was whole.",
        totals.incomplete,
    )?;
    let name = "fulmar_http_handler_errors_total";
    family(out, name, "counter", "Failures of handlers, panics among them, by cause.")?;
    for (cause, count) in CAUSES.iter().zip(totals.handler_errors).filter(|(_, count)| *count > 0) {
        writeln!(out, "{name}{{cause=\"{cause}\"}} {count}")?;
    }
    single(
        out,
        "fulmar_http_requests_malformed_total",
        "counter",
        "What should have been a request and could not be understood.",
        totals.malformed,
    )?;
    single(
        out,
        "fulmar_http_response_body_bytes_total",
        "counter",
        "Bytes of bodies that were queued for sending.",
        totals.body_bytes,
    )
}

fn write_durations(out: &mut impl Write, totals: &Totals) -> fmt::Result {
    let name = "fulmar_http_request_duration_seconds";
    let help = "From the head of a request to the end of its answer's queueing.";
    family(out, name, "histogram", help)?;
    let limits = BUCKETS.iter().map(|(_, text)| *text).chain(["+Inf"]);
    let mut sum = 0;
    for (limit, count) in limits.zip(totals.durations) {
        sum += count;
        writeln!(out, "{name}_bucket{{le=\"{limit}\"}} {sum}")?;
    }
    let nanos = totals.duration_nanos;
    writeln!(out, "{name}_sum {}.{:09}", nanos / NANOS, nanos % NANOS)?;
    writeln!(out, "{name}_count {sum}")
}

fn write_syscalls(out: &mut impl Write, totals: &Totals) -> fmt::Result {
    let name = "fulmar_syscalls_total";
    family(out, name, "counter", "System calls of the threads that serve.")?;
    for (call, count) in totals.ledger.iter() {
        writeln!(out, "{name}{{call=\"{}\"}} {}", call.name(), count.calls)?;
    }
    single(
        out,
        "fulmar_syscalls_eagain_total",
        "counter",
        "System calls, and operations in a ring, that had nothing to do.",
        totals.ledger.eagain(),
    )?;
    let name = "fulmar_ring_operations_total";
    family(out, name, "counter", "Done inside io_uring_enter, by name: no system calls.")?;
    for (operation, count) in totals.ledger.operations() {
        writeln!(out, "{name}{{operation=\"{}\"}} {}", operation.name(), count.calls)?;
    }
    let name = "fulmar_syscalls_per_request";
    family(out, name, "gauge", "All system calls since the start, for each request.")?;
    writeln!(out, "{name} {:.6}", ratio(totals.ledger.total(), totals.answered()))?;
    single(out, "fulmar_threads", "gauge", "Threads that serve.", totals.threads)?;
    let name = "fulmar_loops";
    family(out, name, "gauge", "Event loops of these threads, by what drives them.")?;
    for ((driver, spin), count) in &totals.loops {
        writeln!(out, "{name}{{driver=\"{driver}\",spin=\"{spin}\"}} {count}")?;
    }
    Ok(())
}

fn single(out: &mut impl Write, name: &str, kind: &str, help: &str, value: u64) -> fmt::Result {
    family(out, name, kind, help)?;
    writeln!(out, "{name} {value}")
}

fn family(out: &mut impl Write, name: &str, kind: &str, help: &str) -> fmt::Result {
    writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

/// Without requests it is `NaN`, which Prometheus takes for no sample.
#[expect(clippy::cast_precision_loss, reason = "a figure to look at")]
fn ratio(calls: u64, requests: u64) -> f64 {
    if requests == 0 { f64::NAN } else { calls as f64 / requests as f64 }
}

const NANOS: u64 = 1_000_000_000;
