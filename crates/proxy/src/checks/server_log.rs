//! Log lines about servers, in HAProxy's words, since scripts search for them.

use std::fmt::Write;

use crate::balance::{Admin, CheckOutcome, Health, Monitor};

use super::status::Finding;
use crate::control::HealthChange;
use crate::live::LiveBackend;
use crate::proxy_log::LogSeverity;

/// The reason of a change of health.
#[derive(Clone, Debug)]
pub(super) enum ChangeReason<'a> {
    /// A check or observed traffic.
    Found(&'a Finding),
    /// A separate line has reported it.
    Logged,
    /// An operator.
    Operator,
    /// The tracked server with this name.
    Tracked(String),
}

/// The line about a change of health.
pub(super) fn health(
    backend: &LiveBackend,
    server: usize,
    change: HealthChange,
    why: ChangeReason<'_>,
) -> (LogSeverity, String) {
    let mut line = name(backend, server);
    let (severity, what) = match change.health {
        Health::Up => (LogSeverity::Notice, "UP"),
        Health::Stopping => (LogSeverity::Notice, "stopping"),
        Health::Down => (LogSeverity::Alert, "DOWN"),
    };
    push(&mut line, format_args!(" is {what}"));
    match why {
        ChangeReason::Found(finding) => push_reason(&mut line, finding),
        ChangeReason::Logged => {}
        ChangeReason::Operator => line.push_str(", changed from CLI"),
        ChangeReason::Tracked(leader) => push(&mut line, format_args!(" via {leader}")),
    }
    push_rest(&mut line, backend, server, change.health == Health::Down, change.requeued);
    (severity, line)
}

/// The lines about a change of the administrative state.
pub(super) fn decision(
    backend: &LiveBackend,
    server: usize,
    old: Admin,
    new: Admin,
) -> Vec<String> {
    let down = backend.group.members()[server].health() == Health::Down;
    let state = if down { "DOWN" } else { "UP" };
    let name = name(backend, server);
    let rest = |left| {
        let mut rest = String::new();
        push_rest(&mut rest, backend, server, left, 0);
        rest
    };
    match (old, new) {
        (old, new) if old == new => vec![],
        (_, Admin::Maintenance) if down => {
            vec![format!("{name} was DOWN and now enters maintenance.")]
        }
        (_, Admin::Maintenance) => {
            vec![format!("{name} is going DOWN for maintenance{}", rest(true))]
        }
        (Admin::Maintenance, Admin::Drain) => vec![
            format!("{name} is {state}/DRAIN (leaving forced maintenance)."),
            format!("{name} remains in forced drain mode."),
        ],
        (Admin::Maintenance, Admin::Ready) => {
            vec![format!("{name} is {state}/READY (leaving forced maintenance).")]
        }
        (Admin::Ready | Admin::Drain, Admin::Drain) => {
            vec![format!("{name} enters drain state{}", rest(down))]
        }
        (Admin::Ready | Admin::Drain, Admin::Ready) => {
            vec![format!("{name} is {state} (leaving forced drain).")]
        }
    }
}

/// The remaining servers (or those online), and the sessions.
fn push_rest(line: &mut String, backend: &LiveBackend, server: usize, left: bool, requeued: u32) {
    let (group, member) = (&backend.group, &backend.group.members()[server]);
    let (active, backups) = (group.active(), group.backups());
    let alone = if active == 0 && backups > 0 { " Running on backup." } else { "" };
    push(line, format_args!(". {active} active and {backups} backup servers "));
    let (sessions, queued) = (member.sessions(), member.queued());
    match left {
        true => push(
            line,
            format_args!(
                "left.{alone} {sessions} sessions active, {requeued} requeued, \
                 {} remaining in queue.",
                queued.saturating_sub(requeued),
            ),
        ),
        false => push(
            line,
            format_args!("online.{alone} {requeued} sessions requeued, {queued} total in queue."),
        ),
    }
}

/// The line about the result of a check (`option log-health-checks`).
pub(super) fn check(
    backend: &LiveBackend,
    server: usize,
    finding: &Finding,
    monitor: &Monitor,
) -> String {
    let member = &backend.group.members()[server];
    let kind = if member.is_backup() { "backup " } else { "" };
    let names = (&backend.config.name, &backend.config.servers[server].name);
    let what = match finding.status.outcome() {
        CheckOutcome::Passed => "succeeded",
        CheckOutcome::Conditional => "conditionally succeeded",
        CheckOutcome::Failed => "failed",
    };
    let mut line = format!("Health check for {kind}server {}/{} {what}", names.0, names.1);
    push_reason(&mut line, finding);
    let (done, of) = monitor.progress();
    let state = match monitor.score() >= monitor.plan().rise {
        false => "DOWN",
        true if member.weight() == 0 => "DRAIN",
        true => "UP",
    };
    push(&mut line, format_args!(", status: {done}/{of} {state}."));
    line
}

/// The line about a backend without usable servers.
pub(super) fn no_server(backend: &LiveBackend) -> String {
    let kind = if backend.config.is_listen { "proxy" } else { "backend" };
    format!("{kind} {} has no server available!", backend.config.name)
}

fn name(backend: &LiveBackend, server: usize) -> String {
    let kind = if backend.group.members()[server].is_backup() { "Backup Server" } else { "Server" };
    format!("{kind} {}/{}", backend.config.name, backend.config.servers[server].name)
}

fn push_reason(line: &mut String, finding: &Finding) {
    push(line, format_args!(", reason: {}", finding.status.description()));
    if finding.status.has_code() {
        push(line, format_args!(", code: {}", finding.code));
    }
    if !finding.info.is_empty() {
        push(line, format_args!(", info: \"{}\"", quoted(&finding.info)));
    }
    if let Some(duration) = finding.duration {
        push(line, format_args!(", check duration: {}ms", duration.as_millis()));
    }
}

/// Escapes a text of a peer: it cannot end the quotes or the line.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            char if char.is_control() => push(&mut out, format_args!("<{:02X}>", u32::from(char))),
            char => out.push(char),
        }
    }
    out
}

fn push(line: &mut String, what: std::fmt::Arguments<'_>) {
    line.write_fmt(what).expect("a string takes everything");
}
