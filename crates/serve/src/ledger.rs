//! The system calls of a server, for programs.

use std::fmt::Write;

use fulmar_sys::Ledger;

/// One JSON object: `requests`, `syscalls` by name, `syscalls_per_request`, `clock_reads`.
pub fn to_json(ledger: &Ledger, requests: u64) -> String {
    let mut text = String::from("{\"requests\":");
    let per_request = ratio(ledger.total(), requests);
    let _ = write!(text, "{requests},\"syscalls\":{{");
    for (at, (call, count)) in ledger.iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        let (name, calls, eagain) = (call.name(), count.calls, count.eagain);
        let _ = write!(text, "{comma}\"{name}\":{{\"calls\":{calls},\"eagain\":{eagain}}}");
    }
    let reads = ledger.clock_reads();
    let _ = write!(text, "}},\"syscalls_per_request\":{per_request:.4},\"clock_reads\":{reads}}}");
    text.push('\n');
    text
}

#[expect(clippy::cast_precision_loss, reason = "a figure to look at")]
fn ratio(calls: u64, requests: u64) -> f64 {
    calls as f64 / requests.max(1) as f64
}
