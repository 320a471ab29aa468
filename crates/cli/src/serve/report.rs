//! What there is to say at the end.

use fulmar_host::{Outcome, Usage};

use super::arguments::Arguments;
use super::watch::logs_to_stdout;
use crate::output::{Failure, complain, say};
use crate::table;

pub(super) fn print(arguments: &Arguments, outcomes: &[Outcome<u64>]) -> Result<(), Failure> {
    let requests: u64 = outcomes.iter().map(|outcome| outcome.report).sum();
    let usage: Usage = outcomes.iter().map(|outcome| outcome.usage).sum();
    if usage.accept_failures > 0 {
        let times = usage.accept_failures;
        complain(&format!("descriptors or memory ran out {times} times; clients waited"));
    }
    if usage.stats.refused > 0 {
        let times = usage.stats.refused;
        complain(&format!(
            "nobody could be accepted {times} times: a filter of system calls forbids it, or another \
             process has ended the listening of a socket that it shares with us"
        ));
    }
    if !arguments.watching.ledger {
        return Ok(());
    }
    let stats = usage.stats;
    // All the same, but for who gave its ring up.
    let outcome = outcomes.iter().min_by_key(|outcome| outcome.driven.without_ring.is_none());
    let driven = outcome.map(|outcome| outcome.driven.to_string()).unwrap_or_default();
    let text = format!(
        "{requests} requests on {} connections; driver {driven}, {} turns, {} events\n{}",
        stats.accepted,
        stats.turns,
        stats.events,
        table::of(&usage.ledger, requests, "per request")
    );
    if logs_to_stdout(arguments) {
        complain(&text);
        return Ok(());
    }
    say(&text)
}
