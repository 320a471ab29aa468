//! The report at the end.

use fulmar_host::{Outcome, Usage};

use super::arguments::ServeArguments;
use super::logging::logs_to_stdout;
use crate::output::{ToolFailure, print_stdout, warn};
use crate::{ledger_table, loops};

pub(super) fn print(
    arguments: &ServeArguments,
    outcomes: &[Outcome<u64>],
) -> Result<(), ToolFailure> {
    let requests: u64 = outcomes.iter().map(|outcome| outcome.report).sum();
    let usage: Usage = outcomes.iter().map(|outcome| outcome.usage).sum();
    if usage.accept_failures > 0 {
        let times = usage.accept_failures;
        warn(&format!(
            "file descriptors or memory were exhausted {times} times; clients had to wait"
        ));
    }
    if usage.stats.refused > 0 {
        let times = usage.stats.refused;
        warn(&format!(
            "accept failed {times} times: a seccomp filter forbids it, or another process has shut \
             down a shared listening socket"
        ));
    }
    if usage.cut_connections > 0 {
        let n = usage.cut_connections;
        let connections = if n == 1 { "connection was" } else { "connections were" };
        warn(&format!(
            "{n} {connections} cut at the end of --drain-timeout, before the exchange was complete"
        ));
    }
    if !arguments.logging.ledger {
        return Ok(());
    }
    let stats = usage.stats;
    let drivers = loops::names(outcomes.iter().map(|outcome| &outcome.driver));
    let text = format!(
        "{requests} requests on {} connections; driver {drivers}, {} turns, {} events\n{}",
        stats.accepted,
        stats.turns,
        stats.events,
        ledger_table::of(&usage.ledger, requests, "per request")
    );
    if logs_to_stdout(arguments) {
        warn(&text);
        return Ok(());
    }
    print_stdout(&text)
}
