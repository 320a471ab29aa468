//! The system calls of a server as JSON.

use std::fmt::Write;

use fulmar_sys::{Count, Ledger};

/// One JSON object: `requests`, `syscalls` by name, `syscalls_per_request`, `clock_reads`, and
/// `operations` of a ring.
pub fn to_json(ledger: &Ledger, requests: u64) -> String {
    let mut text = String::from("{\"requests\":");
    let per_request = ratio(ledger.total(), requests);
    let _ = write!(text, "{requests},\"syscalls\":");
    put(&mut text, ledger.iter().map(|(call, count)| (call.name(), count)));
    let reads = ledger.clock_reads();
    let _ = write!(text, ",\"syscalls_per_request\":{per_request:.4},\"clock_reads\":{reads}");
    text.push_str(",\"operations\":");
    put(&mut text, ledger.operations().map(|(operation, count)| (operation.name(), count)));
    text.push_str("}\n");
    text
}

fn put(text: &mut String, counts: impl Iterator<Item = (&'static str, Count)>) {
    text.push('{');
    for (at, (name, Count { calls, eagain })) in counts.enumerate() {
        let comma = if at > 0 { "," } else { "" };
        let _ = write!(text, "{comma}\"{name}\":{{\"calls\":{calls},\"eagain\":{eagain}}}");
    }
    text.push('}');
}

#[expect(clippy::cast_precision_loss, reason = "for display")]
fn ratio(calls: u64, requests: u64) -> f64 {
    calls as f64 / requests.max(1) as f64
}
