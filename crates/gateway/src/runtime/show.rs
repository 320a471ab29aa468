//! Commands that show the process and its proxies.

use std::fmt::Write;
use std::fs;

use fulmar_haproxy::model::{BindAddress, SocketLevel, StatsSocket};

use super::call::CommandCall;
use super::context::{CommandReply, Pieces};
use crate::statistics::info::{self, VERSION};
use crate::statistics::rows::{RowFilter, RowWalk, proxies};
use crate::statistics::{json, lines};

pub(super) fn version(_: &mut CommandCall<'_>) -> CommandReply {
    CommandReply::text(format!("{VERSION}\n"))
}

pub(super) fn info(call: &mut CommandCall<'_>) -> CommandReply {
    let context = call.context;
    let facts = info::facts(&context.live, &context.process, context.moment(call.now));
    let mut out = String::new();
    if call.has("json") {
        json::info_json(&facts, &mut out);
        out.push('\n');
    } else if call.has("typed") {
        info::info_typed(&facts, &mut out);
    } else {
        info::info_lines(&facts, call.has("desc"), &mut out);
    }
    CommandReply::Text(out)
}

/// `show stat [domain proxy] [{<iid>|<proxy>} <type> <sid>] [json|typed|desc|up|no-maint]*`.
pub(super) fn stat(call: &mut CommandCall<'_>) -> CommandReply {
    let mut wish = RowFilter {
        only_up: call.has("up"),
        no_maintenance: call.has("no-maint"),
        ..RowFilter::default()
    };
    let skipped = if call.word(0) == Some("domain") { 2 } else { 0 };
    if let (Some(proxy), Some(kinds), Some(id)) =
        (call.word(skipped), call.word(skipped + 1), call.word(skipped + 2))
    {
        let (Some(kinds), Some(id)) = (choice(kinds), choice(id)) else {
            return stream(call, wish);
        };
        let Some(proxy) = find_proxy(call, proxy) else { return "No such proxy.\n".into() };
        (wish.proxy, wish.kinds, wish.id) = (proxy, kinds, id);
    }
    stream(call, wish)
}

/// A number; -1 selects all. `None` if it is not a number.
fn choice(text: &str) -> Option<Option<u32>> {
    let number: i64 = text.parse().ok()?;
    Some(u32::try_from(number).ok())
}

/// A proxy by number, by name, or by number after `#`; -1 selects all.
fn find_proxy(call: &CommandCall<'_>, text: &str) -> Option<Option<u32>> {
    if let Some(choice) = choice(text) {
        return Some(choice);
    }
    let live = &call.context.live;
    let is = |name: &str, id: u32| match text.strip_prefix('#') {
        Some(number) => number.parse() == Ok(id),
        None => name == text,
    };
    let found = proxies(live).into_iter().find(|it| is(it.name(live), it.id));
    found.map(|it| Some(it.id))
}

fn stream(call: &CommandCall<'_>, wish: RowFilter) -> CommandReply {
    let form = if call.has("json") {
        ShowFormat::Json
    } else if call.has("typed") {
        ShowFormat::Typed
    } else {
        ShowFormat::Csv
    };
    let mut walk = RowWalk::new(&call.context.live, wish);
    let mut is_first = true;
    let pieces: Pieces = Box::new(move |context, now, out| {
        let began = std::mem::replace(&mut is_first, false);
        if began {
            form.begin(out);
        }
        for nth in 0..ROWS {
            let Some(row) = walk.next(&context.live, &context.process, context.moment(now)) else {
                form.end(out);
                return false;
            };
            match form {
                ShowFormat::Csv => lines::csv_line(&row, out),
                ShowFormat::Typed => lines::typed_lines(&row, out),
                ShowFormat::Json => {
                    out.push_str(if began && nth == 0 { "" } else { "," });
                    json::row_json(&row, out);
                }
            }
        }
        true
    });
    CommandReply::Pieces(pieces)
}

#[derive(Clone, Copy, Debug)]
enum ShowFormat {
    Csv,
    Typed,
    Json,
}

impl ShowFormat {
    fn begin(self, out: &mut String) {
        match self {
            Self::Csv => lines::csv_head(out),
            Self::Typed => {}
            Self::Json => out.push('['),
        }
    }

    fn end(self, out: &mut String) {
        if let Self::Json = self {
            out.push_str("]\n");
        }
    }
}

pub(super) fn backends(call: &mut CommandCall<'_>) -> CommandReply {
    let mut out = String::from("# name\n");
    for backend in &call.context.live.backends {
        out += &backend.config.name;
        out.push('\n');
    }
    CommandReply::Text(out)
}

pub(super) fn cli_level(call: &mut CommandCall<'_>) -> CommandReply {
    CommandReply::text(format!("{}\n", level_name(call.console_settings.level)))
}

pub(super) fn cli_sockets(call: &mut CommandCall<'_>) -> CommandReply {
    let mut out = String::from("# socket lvl processes\n");
    for socket in call.context.sockets() {
        writeln!(out, "{} {} all", socket_name(socket), level_name(socket.level)).expect(TAKES);
    }
    CommandReply::Text(out)
}

fn socket_name(socket: &StatsSocket) -> String {
    match &socket.address {
        BindAddress::Tcp(address) if address.is_ipv6() => format!("ipv6@{address}"),
        BindAddress::Tcp(address) => format!("ipv4@{address}"),
        BindAddress::Unix(path) => format!("unix@{}", path.display()),
        BindAddress::Abstract(name) => format!("abns@{name}"),
        BindAddress::Inherited(number) => format!("fd@{number}"),
    }
}

fn level_name(level: SocketLevel) -> &'static str {
    match level {
        SocketLevel::User => "user",
        SocketLevel::Operator => "operator",
        SocketLevel::Admin => "admin",
    }
}

pub(super) fn environment(call: &mut CommandCall<'_>) -> CommandReply {
    let show = |name: &str, value: &std::ffi::OsStr| format!("{name}={}\n", value.display());
    match call.word(0) {
        Some(name) => match std::env::var_os(name) {
            Some(value) => CommandReply::Text(show(name, &value)),
            None => "Variable not found\n".into(),
        },
        None => {
            let all = std::env::vars_os();
            CommandReply::Text(
                all.map(|(name, value)| show(&name.to_string_lossy(), &value)).collect(),
            )
        }
    }
}

/// Open descriptors: the number, and the target as the kernel reports it.
pub(super) fn descriptors(call: &mut CommandCall<'_>) -> CommandReply {
    let wanted: Option<u32> = call.word(0).and_then(|word| word.parse().ok());
    let Ok(entries) = fs::read_dir("/proc/self/fd") else {
        return "The descriptors cannot be read: /proc is not mounted.\n".into();
    };
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    let mut numbers: Vec<u32> = entries.filter_map(Result::ok).filter_map(number).collect();
    numbers.retain(|number| wanted.is_none_or(|wanted| wanted == *number));
    numbers.sort_unstable();
    let mut numbers = numbers.into_iter();
    CommandReply::Pieces(Box::new(move |_, _, out| {
        for number in numbers.by_ref().take(ROWS) {
            if let Ok(link) = fs::read_link(format!("/proc/self/fd/{number}")) {
                writeln!(out, "{number:7} : {}", link.display()).expect(TAKES);
            }
        }
        numbers.len() > 0
    }))
}

/// System calls of all proxy threads, by name. Operations inside `io_uring_enter(2)` are not system
/// calls and have lines of their own.
pub(super) fn activity(call: &mut CommandCall<'_>) -> CommandReply {
    let ledger = call.context.process.ledger();
    let mut out = format!("threads: {}\nsyscalls: {}\n", call.context.live.threads, ledger.total());
    writeln!(out, "eagain: {}\nclock_reads: {}", ledger.eagain(), ledger.clock_reads())
        .expect(TAKES);
    for (name, count) in ledger.iter() {
        writeln!(out, "{}: {}", name.name(), count.calls).expect(TAKES);
    }
    writeln!(out, "ring_operations: {}", ledger.operations_total()).expect(TAKES);
    for (operation, count) in ledger.operations() {
        writeln!(out, "ring_{}: {}", operation.name(), count.calls).expect(TAKES);
    }
    CommandReply::Text(out)
}

/// Rows per piece: a few kilobytes of text, hundreds of kilobytes as JSON.
const ROWS: usize = 16;
const TAKES: &str = "a String takes everything";
