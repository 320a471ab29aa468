//! The table of commands: one row each, with the level it requires.

use std::time::Instant;

use fulmar_haproxy::model::SocketLevel;
use fulmar_haproxy::model::SocketLevel::{Admin, Operator, User};

use super::call::CommandCall;
use super::command_reader::CommandLine;
use super::context::{CommandReply, ConsoleSettings, RuntimeContext};
use super::{certificates, errors, frontends, lists, servers, sessions, settings, show};

/// A command.
pub(super) struct CommandSpec {
    /// Its first words.
    words: &'static [&'static str],
    /// The level it requires.
    level: SocketLevel,
    /// Usage line for `help`.
    usage: &'static str,
    text: &'static str,
    run: fn(&mut CommandCall<'_>) -> CommandReply,
}

/// Runs a command.
pub(super) fn run(
    context: &RuntimeContext,
    console_settings: &mut ConsoleSettings,
    now: Instant,
    asked: &CommandLine,
) -> CommandReply {
    let words = &asked.words[..];
    if words.is_empty() {
        return help(UNKNOWN, &[]);
    }
    let Some(command) = find(words) else { return unknown(words) };
    if console_settings.level < command.level {
        return "Permission denied\n".into();
    }
    let rest = &words[command.words.len()..];
    let payload = asked.payload.as_deref();
    (command.run)(&mut CommandCall { context, console_settings, now, rest, payload })
}

/// The longest command that matches the first words.
fn find(words: &[String]) -> Option<&'static CommandSpec> {
    let fits = |it: &&CommandSpec| {
        it.words.len() <= words.len() && it.words.iter().zip(words).all(|(a, b)| a == b)
    };
    COMMANDS.iter().filter(fits).max_by_key(|it| it.words.len())
}

fn unknown(words: &[String]) -> CommandReply {
    let absent = |names: &&&str| {
        let mut names = names.split(' ');
        names.by_ref().zip(words).all(|(a, b)| a == b) && names.next().is_none()
    };
    if let Some(names) = ABSENT.iter().find(absent) {
        return CommandReply::text(format!("'{names}' is not supported.\n"));
    }
    let near: Vec<&CommandSpec> = COMMANDS.iter().filter(|it| it.words[0] == words[0]).collect();
    match near.is_empty() {
        true => help(UNKNOWN, &[]),
        false => help(NEAR, &near),
    }
}

fn help(title: &str, which: &[&CommandSpec]) -> CommandReply {
    let mut out = format!("{title}\n");
    let all: Vec<&CommandSpec> = COMMANDS.iter().collect();
    for command in if which.is_empty() { &all } else { which } {
        out += &format!("  {:40}: {}\n", command.usage, command.text);
    }
    if !which.is_empty() {
        for command in COMMANDS.iter().filter(|it| ALWAYS.contains(&it.words[0])) {
            out += &format!("  {:40}: {}\n", command.usage, command.text);
        }
    }
    CommandReply::Text(out)
}

fn help_command(call: &mut CommandCall<'_>) -> CommandReply {
    let begins = |it: &&CommandSpec| it.words.iter().zip(call.rest).all(|(a, b)| a == b);
    let chosen: Vec<&CommandSpec> = match call.rest.is_empty() {
        true => Vec::new(),
        false => COMMANDS.iter().filter(begins).collect(),
    };
    help(VALID, &chosen)
}

fn prompt(call: &mut CommandCall<'_>) -> CommandReply {
    call.console_settings.interactive = !call.console_settings.interactive;
    CommandReply::done()
}

fn quit(_: &mut CommandCall<'_>) -> CommandReply {
    CommandReply::Quit
}

fn lower_to_operator(call: &mut CommandCall<'_>) -> CommandReply {
    call.console_settings.level = call.console_settings.level.min(Operator);
    CommandReply::done()
}

fn lower_to_user(call: &mut CommandCall<'_>) -> CommandReply {
    call.console_settings.level = User;
    CommandReply::done()
}

const fn command(
    words: &'static [&'static str],
    level: SocketLevel,
    usage: &'static str,
    text: &'static str,
    run: fn(&mut CommandCall<'_>) -> CommandReply,
) -> CommandSpec {
    CommandSpec { words, level, usage, text, run }
}

const COMMANDS: &[CommandSpec] = &[
    command(
        &["abort", "ssl", "cert"],
        Admin,
        "abort ssl cert <certfile>",
        "abort a transaction for a certificate file",
        certificates::abort,
    ),
    command(
        &["add", "acl"],
        Operator,
        "add acl [@<ver>] <acl> <pattern>",
        "add an acl entry",
        lists::add_acl,
    ),
    command(
        &["add", "map"],
        Operator,
        "add map [@<ver>] <map> <key> <value>",
        "add a map entry, or several as a payload after <<",
        lists::add_map,
    ),
    command(
        &["clear", "acl"],
        Operator,
        "clear acl [@<ver>] <acl>",
        "clear the contents of this acl",
        lists::clear_acl,
    ),
    command(
        &["clear", "counters"],
        Operator,
        "clear counters [all]",
        "clear max statistics counters (or all counters)",
        settings::clear_counters,
    ),
    command(
        &["clear", "map"],
        Operator,
        "clear map [@<ver>] <map>",
        "clear the contents of this map",
        lists::clear_map,
    ),
    command(
        &["commit", "acl"],
        Operator,
        "commit acl @<ver> <acl>",
        "commit the ACL at this version",
        lists::commit_acl,
    ),
    command(
        &["commit", "map"],
        Operator,
        "commit map @<ver> <map>",
        "commit the map at this version",
        lists::commit_map,
    ),
    command(
        &["commit", "ssl", "cert"],
        Admin,
        "commit ssl cert <certfile>",
        "commit a certificate file",
        certificates::commit,
    ),
    command(
        &["del", "acl"],
        Operator,
        "del acl <acl> [<pattern>|#<ref>]",
        "delete acl entries matching a pattern",
        lists::del_acl,
    ),
    command(
        &["del", "map"],
        Operator,
        "del map <map> [<key>|#<ref>]",
        "delete map entries matching a key",
        lists::del_map,
    ),
    command(
        &["disable", "frontend"],
        Admin,
        "disable frontend <frontend>",
        "temporarily disable specific frontend",
        frontends::disable,
    ),
    command(
        &["disable", "health"],
        Admin,
        "disable health <bk>/<srv>",
        "disable health checks",
        servers::disable_health,
    ),
    command(
        &["disable", "server"],
        Admin,
        "disable server <bk>/<srv>",
        "disable a server for maintenance",
        servers::disable,
    ),
    command(
        &["enable", "frontend"],
        Admin,
        "enable frontend <frontend>",
        "re-enable specific frontend",
        frontends::enable,
    ),
    command(
        &["enable", "health"],
        Admin,
        "enable health <bk>/<srv>",
        "enable health checks",
        servers::enable_health,
    ),
    command(
        &["enable", "server"],
        Admin,
        "enable server <bk>/<srv>",
        "enable a disabled server",
        servers::enable,
    ),
    command(
        &["get", "acl"],
        User,
        "get acl <acl> <value>",
        "report the patterns matching a sample for an ACL",
        lists::get_acl,
    ),
    command(
        &["get", "map"],
        User,
        "get map <map> <value>",
        "report the keys and values matching a sample for a map",
        lists::get_map,
    ),
    command(
        &["get", "weight"],
        User,
        "get weight <bk>/<srv>",
        "report a server's current weight",
        servers::get_weight,
    ),
    command(
        &["operator"],
        Operator,
        "operator",
        "lower the level of the current CLI session to operator",
        lower_to_operator,
    ),
    command(
        &["prepare", "acl"],
        Operator,
        "prepare acl <acl>",
        "prepare a new version for atomic ACL replacement",
        lists::prepare_acl,
    ),
    command(
        &["prepare", "map"],
        Operator,
        "prepare map <map>",
        "prepare a new version for atomic map replacement",
        lists::prepare_map,
    ),
    command(
        &["set", "map"],
        Operator,
        "set map <map> [<key>|#<ref>] <value>",
        "modify a map entry",
        lists::set_map,
    ),
    command(
        &["set", "maxconn", "frontend"],
        Admin,
        "set maxconn frontend <frontend> <value>",
        "change a frontend's maxconn setting",
        frontends::set_maxconn,
    ),
    command(
        &["set", "maxconn", "global"],
        Admin,
        "set maxconn global <value>",
        "change the per-process maxconn setting",
        settings::set_maxconn,
    ),
    command(
        &["set", "maxconn", "server"],
        Admin,
        "set maxconn server <bk>/<srv> <value>",
        "change a server's maxconn setting",
        servers::set_maxconn,
    ),
    command(
        &["set", "rate-limit"],
        Admin,
        "set rate-limit <setting> <value>",
        "change a rate limiting value",
        settings::set_rate_limit,
    ),
    command(
        &["set", "server"],
        Admin,
        "set server <bk>/<srv> [opts]",
        "change a server's state, health, weight or address",
        servers::set,
    ),
    command(
        &["set", "ssl", "cert"],
        Admin,
        "set ssl cert <certfile> <payload>",
        "replace a certificate file",
        certificates::set,
    ),
    command(
        &["set", "timeout"],
        User,
        "set timeout cli <delay>",
        "change a timeout setting",
        settings::set_timeout,
    ),
    command(
        &["set", "weight"],
        Admin,
        "set weight <bk>/<srv> <weight>",
        "change a server's weight (use 'set server' instead)",
        servers::set_weight_of,
    ),
    command(
        &["show", "acl"],
        User,
        "show acl [[@<ver>] <acl>]",
        "report available acls or dump an acl's contents",
        lists::show_acl,
    ),
    command(
        &["show", "activity"],
        User,
        "show activity",
        "show system calls of the proxy threads",
        show::activity,
    ),
    command(
        &["show", "backend"],
        User,
        "show backend",
        "list backends in the current running config",
        show::backends,
    ),
    command(
        &["show", "cli", "level"],
        User,
        "show cli level",
        "display the level of the current CLI session",
        show::cli_level,
    ),
    command(
        &["show", "cli", "sockets"],
        User,
        "show cli sockets",
        "dump list of cli sockets",
        show::cli_sockets,
    ),
    command(
        &["show", "env"],
        Operator,
        "show env [var]",
        "dump environment variables known to the process",
        show::environment,
    ),
    command(
        &["show", "errors"],
        Operator,
        "show errors [<px>] [request|response]",
        "report last request and/or response errors for each proxy",
        errors::show,
    ),
    command(
        &["show", "fd"],
        Operator,
        "show fd [num]",
        "dump list of file descriptors in use",
        show::descriptors,
    ),
    command(
        &["show", "info"],
        User,
        "show info [desc|json|typed]*",
        "report information about the running process",
        show::info,
    ),
    command(
        &["show", "map"],
        User,
        "show map [[@<ver>] <map>]",
        "report available maps or dump a map's contents",
        lists::show_map,
    ),
    command(
        &["show", "servers", "conn"],
        User,
        "show servers conn [<backend>]",
        "dump server connections status",
        servers::show_conn,
    ),
    command(
        &["show", "servers", "state"],
        User,
        "show servers state [<backend>]",
        "dump volatile server information",
        servers::show_state,
    ),
    command(
        &["show", "sess"],
        Operator,
        "show sess [id]",
        "report the list of current sessions",
        sessions::show,
    ),
    command(
        &["show", "ssl", "cert"],
        Operator,
        "show ssl cert [<certfile>]",
        "display the SSL certificates used in memory",
        certificates::show,
    ),
    command(
        &["show", "stat"],
        User,
        "show stat [json|no-maint|typed|up]*",
        "report counters for each proxy and server",
        show::stat,
    ),
    command(
        &["show", "version"],
        User,
        "show version",
        "show version of the current process",
        show::version,
    ),
    command(
        &["shutdown", "frontend"],
        Admin,
        "shutdown frontend <frontend>",
        "stop a specific frontend",
        frontends::shutdown,
    ),
    command(
        &["shutdown", "session"],
        Admin,
        "shutdown session [id]",
        "kill a specific session",
        sessions::shutdown,
    ),
    command(
        &["shutdown", "sessions", "server"],
        Admin,
        "shutdown sessions server <bk>/<srv>",
        "kill sessions on a server",
        servers::shutdown_sessions,
    ),
    command(
        &["user"],
        User,
        "user",
        "lower the level of the current CLI session to user",
        lower_to_user,
    ),
    command(&["help"], User, "help [<command>]", "list matching or all commands", help_command),
    command(&["prompt"], User, "prompt", "toggle interactive mode with prompt", prompt),
    command(&["quit"], User, "quit", "disconnect", quit),
];

/// Listed in every help output.
const ALWAYS: &[&str] = &["help", "prompt", "quit"];

const UNKNOWN: &str = "Unknown command. Please enter one of the following commands only:";
const NEAR: &str = "Unknown command, but maybe one of the following ones is a better match:";
const VALID: &str = "The following commands are valid at this level:";

/// HAProxy's commands that are not supported.
const ABSENT: &[&str] = &[
    "abort ssl ca-file",
    "abort ssl crl-file",
    "add server",
    "add ssl",
    "clear table",
    "commit ssl ca-file",
    "commit ssl crl-file",
    "del server",
    "del ssl",
    "disable agent",
    "disable dynamic-cookie",
    "enable agent",
    "enable dynamic-cookie",
    "expert-mode",
    "get var",
    "new ssl",
    "set dynamic-cookie-key",
    "set profiling",
    "set severity-output",
    "set ssl ca-file",
    "set ssl crl-file",
    "set ssl ocsp-response",
    "set ssl tls-key",
    "set table",
    "set var",
    "show cache",
    "show events",
    "show libs",
    "show peers",
    "show pools",
    "show profiling",
    "show resolvers",
    "show schema",
    "show ssl ca-file",
    "show ssl crl-file",
    "show ssl crt-list",
    "show ssl ocsp-response",
    "show ssl providers",
    "show startup-logs",
    "show table",
    "show tasks",
    "show threads",
    "show tls-keys",
    "show trace",
    "trace",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_both_there_and_absent() {
        for names in ABSENT {
            let words: Vec<String> = names.split(' ').map(str::to_owned).collect();
            assert!(find(&words).is_none(), "{names}");
        }
    }

    #[test]
    fn commands_are_in_order_and_help_fits_in_its_column() {
        let order = |it: &&CommandSpec| !ALWAYS.contains(&it.words[0]);
        let sorted: Vec<&[&str]> = COMMANDS.iter().filter(order).map(|it| it.words).collect();
        assert!(sorted.is_sorted(), "{sorted:?}");
        assert!(COMMANDS.iter().all(|it| it.usage.len() <= 40));
    }

    #[test]
    fn the_longest_command_is_meant() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(find(&words("show cli level x")).unwrap().words, ["show", "cli", "level"]);
        assert!(find(&words("show cli")).is_none());
        assert!(find(&words("show info2")).is_none());
    }
}
