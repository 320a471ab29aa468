//! The ledger as a table.

use std::fmt::Write;

use fulmar_sys::Ledger;

/// A line for each call with its number for each of `count` requests or files; `each` is the
/// heading.
pub(crate) fn of(ledger: &Ledger, count: u64, each: &str) -> String {
    let mut text = line("system call", "calls", each, "EAGAIN");
    for (call, made) in ledger.iter() {
        text += &row(call.name(), made.calls, made.eagain, count);
    }
    let in_vain = ledger.iter().map(|(_, made)| made.eagain).sum(); // of calls, as in other lines
    text += &row("all", ledger.total(), in_vain, count);
    for (operation, done) in ledger.operations() {
        text += &row(&format!("in a ring: {}", operation.name()), done.calls, done.eagain, count);
    }
    text
}

fn row(name: &str, calls: u64, eagain: u64, count: u64) -> String {
    let share = match count {
        0 => "-".to_owned(), // cannot divide
        count => format!("{:.4}", ratio(calls, count)),
    };
    line(name, &calls.to_string(), &share, &eagain.to_string())
}

fn line(name: &str, calls: &str, share: &str, eagain: &str) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "  {name:<18} {calls:>12} {share:>12} {eagain:>10}");
    text
}

/// The quotient, as text.
#[expect(clippy::cast_precision_loss, reason = "for display")]
pub(crate) fn ratio(calls: u64, count: u64) -> f64 {
    calls as f64 / count.max(1) as f64
}
