//! The ledger as a table.

use std::fmt::Write;

use fulmar_sys::Ledger;

/// A line for each call, with its share of a request.
pub(crate) fn of(ledger: &Ledger, requests: u64) -> String {
    let mut text = line("system call", "calls", "per request", "EAGAIN");
    for (call, count) in ledger.iter() {
        text += &row(call.name(), count.calls, count.eagain, requests);
    }
    text + &row("all", ledger.total(), ledger.eagain(), requests)
}

fn row(name: &str, calls: u64, eagain: u64, requests: u64) -> String {
    let share = format!("{:.4}", ratio(calls, requests));
    line(name, &calls.to_string(), &share, &eagain.to_string())
}

fn line(name: &str, calls: &str, share: &str, eagain: &str) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "  {name:<16} {calls:>12} {share:>12} {eagain:>10}");
    text
}

/// Calls for each request.
#[expect(clippy::cast_precision_loss, reason = "a figure to look at")]
pub(crate) fn ratio(calls: u64, requests: u64) -> f64 {
    calls as f64 / requests.max(1) as f64
}
