//! Commands that change settings of the process or of the connection.

use std::time::Duration;

use fulmar_haproxy::model::SocketLevel;
use fulmar_proxy::Order;

use super::call::CommandCall;
use super::context::CommandReply;

pub(super) fn clear_counters(call: &mut CommandCall<'_>) -> CommandReply {
    let all = call.word(0) == Some("all");
    if all && call.console_settings.level < SocketLevel::Admin {
        return "Permission denied\n".into();
    }
    for thread in 0..call.context.live.threads {
        call.context.live.order(thread, Order::Clear { all });
    }
    CommandReply::done()
}

pub(super) fn set_maxconn(call: &mut CommandCall<'_>) -> CommandReply {
    match call.word(0) {
        None => "Expects an integer value.\n".into(),
        Some(text) => {
            let most = call.context.process.connections_max();
            let max = text.parse().unwrap_or(0);
            if max > most {
                return "Value out of range.\n".into();
            }
            let max = if max == 0 { most } else { max };
            call.context.live.connections_max.set(Some(max));
            call.context.live.announce();
            CommandReply::done()
        }
    }
}

pub(super) fn set_rate_limit(call: &mut CommandCall<'_>) -> CommandReply {
    let live = &call.context.live;
    let limit = match (call.word(0), call.word(1)) {
        (Some("connections"), Some("global")) => &live.connections_per_second_max,
        (Some("sessions"), Some("global")) => &live.sessions_per_second_max,
        _ => return RATES.into(),
    };
    let Some(text) = call.word(2) else { return "Expects an integer value.\n".into() };
    limit.set(text.parse().ok().filter(|max| *max > 0));
    live.announce();
    CommandReply::done()
}

pub(super) fn set_timeout(call: &mut CommandCall<'_>) -> CommandReply {
    match (call.word(0), call.word(1)) {
        (Some("cli"), None) => "Expects an integer value.\n".into(),
        (Some("cli"), Some(text)) => match duration(text).filter(|time| !time.is_zero()) {
            None => "Invalid timeout value.\n".into(),
            Some(timeout) => {
                call.console_settings.timeout = timeout;
                CommandReply::done()
            }
        },
        _ => "'set timeout' only supports 'cli'.\n".into(),
    }
}

/// A number of seconds, or with a unit (`500ms`, `2m`); at most a day.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let millis = match unit {
        "us" => number / 1_000,
        "ms" => number,
        "" | "s" => number.checked_mul(1_000)?,
        "m" => number.checked_mul(60_000)?,
        "h" => number.checked_mul(3_600_000)?,
        "d" => number.checked_mul(86_400_000)?,
        _ => return None,
    };
    Some(Duration::from_millis(millis.min(86_400_000)))
}

const RATES: &str = "'set rate-limit' only supports :
   - 'connections global' to set the per-process maximum connection rate
   - 'sessions global' to set the per-process maximum session rate
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let table = [
            ("5", Some(5_000)),
            ("500ms", Some(500)),
            ("2m", Some(120_000)),
            ("1d", Some(86_400_000)),
            ("9999999d", Some(86_400_000)),
            ("99999999999999999999", None),
            ("x", None),
            ("", None),
            ("5x", None),
        ];
        for (text, millis) in table {
            assert_eq!(duration(text).map(|it| it.as_millis()), millis, "{text}");
        }
    }
}
