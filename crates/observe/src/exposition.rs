//! The text exposition format of Prometheus, version 0.0.4.
//!
//! A family has a HELP line, a TYPE line, and a line for each sample. All families are always
//! written; of samples with labels, only those above zero.

use std::fmt::{self, Write};

use crate::counts::{BUCKETS, CAUSES, CODES, METHODS, REASONS, Totals};

/// Writes all families.
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
        "Accepted connections.",
        totals.accepted,
    )?;
    single(out, "fulmar_connections_open", "gauge", "Open connections.", totals.open())?;
    let name = "fulmar_connections_ended_total";
    family(out, name, "counter", "Closed connections by reason.")?;
    for (reason, count) in REASONS.iter().zip(totals.ended).filter(|(_, count)| *count > 0) {
        writeln!(out, "{name}{{reason=\"{reason}\"}} {count}")?;
    }
    single(
        out,
        "fulmar_accept_failures_total",
        "counter",
        "Failed accepts because of missing descriptors or memory.",
        totals.accept_failures,
    )
}

fn write_requests(out: &mut impl Write, totals: &Totals) -> fmt::Result {
    let name = "fulmar_http_requests_total";
    family(out, name, "counter", "Finished requests by status class and method.")?;
    for (method, counts) in METHODS.iter().zip(totals.requests) {
        for (code, count) in CODES.iter().zip(counts).filter(|(_, count)| *count > 0) {
            writeln!(out, "{name}{{code=\"{code}\",method=\"{method}\"}} {count}")?;
        }
    }
    single(
        out,
        "fulmar_http_requests_incomplete_total",
        "counter",
        "Requests with an incomplete response: client closed the connection, or response aborted.",
        totals.incomplete,
    )?;
    let name = "fulmar_http_handler_errors_total";
    family(out, name, "counter", "Handler failures by cause, including panics.")?;
    for (cause, count) in CAUSES.iter().zip(totals.handler_errors).filter(|(_, count)| *count > 0) {
        writeln!(out, "{name}{{cause=\"{cause}\"}} {count}")?;
    }
    single(
        out,
        "fulmar_http_requests_malformed_total",
        "counter",
        "Malformed requests.",
        totals.malformed,
    )?;
    single(
        out,
        "fulmar_http_response_body_bytes_total",
        "counter",
        "Response body bytes sent.",
        totals.body_bytes,
    )
}

fn write_durations(out: &mut impl Write, totals: &Totals) -> fmt::Result {
    let name = "fulmar_http_request_duration_seconds";
    let help = "Request duration: from the request head to the last sent byte of the response.";
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
    family(out, name, "counter", "System calls of the server threads.")?;
    for (call, count) in totals.ledger.iter() {
        writeln!(out, "{name}{{call=\"{}\"}} {}", call.name(), count.calls)?;
    }
    single(
        out,
        "fulmar_syscalls_eagain_total",
        "counter",
        "System calls and ring operations that returned EAGAIN.",
        totals.ledger.eagain(),
    )?;
    let name = "fulmar_ring_operations_total";
    family(out, name, "counter", "Operations inside io_uring_enter by name (not system calls).")?;
    for (operation, count) in totals.ledger.operations() {
        writeln!(out, "{name}{{operation=\"{}\"}} {}", operation.name(), count.calls)?;
    }
    let name = "fulmar_syscalls_per_request";
    family(out, name, "gauge", "System calls per request since the start.")?;
    writeln!(out, "{name} {:.6}", ratio(totals.ledger.total(), totals.answered()))?;
    single(out, "fulmar_threads", "gauge", "Server threads.", totals.threads)?;
    let name = "fulmar_loops";
    family(out, name, "gauge", "Event loops by driver and spin setting.")?;
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

/// `NaN` without requests, which Prometheus ignores.
#[expect(clippy::cast_precision_loss, reason = "precision does not matter here")]
fn ratio(calls: u64, requests: u64) -> f64 {
    if requests == 0 { f64::NAN } else { calls as f64 / requests as f64 }
}

const NANOS: u64 = 1_000_000_000;
