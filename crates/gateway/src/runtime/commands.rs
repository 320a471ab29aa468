//! Which commands there are: one row for each, and who may use it.

use std::time::Instant;

use fulmar_haproxy::model::Level;
use fulmar_haproxy::model::Level::{Admin, Operator, User};

use super::call::Call;
use super::lines::Asked;
use super::world::{Asker, Reply, World};
use super::{certificates, errors, frontends, lists, servers, sessions, settings, show};

/// A command.
pub(super) struct Command {
    /// The words it begins with.
    words: &'static [&'static str],
    /// Who may use it.
    level: Level,
    /// For `help`.
    usage: &'static str,
    text: &'static str,
    run: fn(&mut Call<'_>) -> Reply,
}

/// Runs a command.
pub(super) fn run(world: &World, asker: &mut Asker, now: Instant, asked: &Asked) -> Reply {
    let words = &asked.words[..];
    if words.is_empty() {
        return help(UNKNOWN, &[]);
    }
    let Some(command) = find(words) else { return unknown(words) };
    if asker.level < command.level {
        return "Permission denied\n".into();
    }
    let rest = &words[command.words.len()..];
    let payload = asked.payload.as_deref();
    (command.run)(&mut Call { world, asker, now, rest, payload })
}

/// The command that these words begin with: the longest.
fn find(words: &[String]) -> Option<&'static Command> {
    let fits = |it: &&Command| {
        it.words.len() <= words.len() && it.words.iter().zip(words).all(|(a, b)| a == b)
    };
    COMMANDS.iter().filter(fits).max_by_key(|it| it.words.len())
}

fn unknown(words: &[String]) -> Reply {
    let absent = |names: &&&str| {
        let mut names = names.split(' ');
        names.by_ref().zip(words).all(|(a, b)| a == b) && names.next().is_none()
    };
    if let Some(names) = ABSENT.iter().find(absent) {
        return Reply::text(format!("'{names}' is not supported.\n"));
    }
    let near: Vec<&Command> = COMMANDS.iter().filter(|it| it.words[0] == words[0]).collect();
    match near.is_empty() {
        true => help(UNKNOWN, &[]),
        false => help(NEAR, &near),
    }
}

fn help(title: &str, which: &[&Command]) -> Reply {
    let mut out = format!("{title}\n");
    let all: Vec<&Command> = COMMANDS.iter().collect();
    for command in if which.is_empty() { &all } else { which } {
        out += &format!("  {:40}: {}\n", command.usage, command.text);
    }
    if !which.is_empty() {
        for command in COMMANDS.iter().filter(|it| ALWAYS.contains(&it.words[0])) {
            out += &format!("  {:40}: {}\n", command.usage, command.text);
        }
    }
    Reply::Text(out)
}

fn help_command(call: &mut Call<'_>) -> Reply {
    let begins = |it: &&Command| it.words.iter().zip(call.rest).all(|(a, b)| a == b);
    let chosen: Vec<&Command> = match call.rest.is_empty() {
        true => Vec::new(),
        false => COMMANDS.iter().filter(begins).collect(),
    };
    help(VALID, &chosen)
}

fn prompt(call: &mut Call<'_>) -> Reply {
    call.asker.interactive = !call.asker.interactive;
    Reply::done()
}

fn quit(_: &mut Call<'_>) -> Reply {
    Reply::Quit
}

fn lower_to_operator(call: &mut Call<'_>) -> Reply {
    call.asker.level = call.asker.level.min(Operator);
    Reply::done()
}

fn lower_to_user(call: &mut Call<'_>) -> Reply {
    call.asker.level = User;
    Reply::done()
}

const fn command(
    words: &'static [&'static str],
    level: Level,
    usage: &'static str,
    text: &'static str,
    run: fn(&mut Call<'_>) -> Reply,
) -> Command {
    Command { words, level, usage, text, run }
}

const COMMANDS: &[Command] = &[
    command(
        &["abort", "ssl", "cert"],
        Admin,
        "abort ssl cert <certfile>",
        "forget what 'set ssl cert' has begun",
        certificates::abort,
    ),
    command(
        &["add", "acl"],
        Operator,
        "add acl [@<ver>] <acl> <pattern>",
        "one more pattern of a list",
        lists::add_acl,
    ),
    command(
        &["add", "map"],
        Operator,
        "add map [@<ver>] <map> <key> <value>",
        "one more entry, or lines of them behind <<",
        lists::add_map,
    ),
    command(
        &["clear", "acl"],
        Operator,
        "clear acl [@<ver>] <acl>",
        "no patterns in a list",
        lists::clear_acl,
    ),
    command(
        &["clear", "counters"],
        Operator,
        "clear counters [all]",
        "forget maxima, or with 'all' every count",
        settings::clear_counters,
    ),
    command(
        &["clear", "map"],
        Operator,
        "clear map [@<ver>] <map>",
        "no entries in a map",
        lists::clear_map,
    ),
    command(
        &["commit", "acl"],
        Operator,
        "commit acl @<ver> <acl>",
        "a version counts from now on",
        lists::commit_acl,
    ),
    command(
        &["commit", "map"],
        Operator,
        "commit map @<ver> <map>",
        "a version counts from now on",
        lists::commit_map,
    ),
    command(
        &["commit", "ssl", "cert"],
        Admin,
        "commit ssl cert <certfile>",
        "show what 'set ssl cert' has set",
        certificates::commit,
    ),
    command(
        &["del", "acl"],
        Operator,
        "del acl <acl> [<pattern>|#<ref>]",
        "patterns are gone from a list",
        lists::del_acl,
    ),
    command(
        &["del", "map"],
        Operator,
        "del map <map> [<key>|#<ref>]",
        "entries are gone from a map",
        lists::del_map,
    ),
    command(
        &["disable", "frontend"],
        Admin,
        "disable frontend <frontend>",
        "accept nobody for now",
        frontends::disable,
    ),
    command(
        &["disable", "health"],
        Admin,
        "disable health <bk>/<srv>",
        "stop the checks of a server",
        servers::disable_health,
    ),
    command(
        &["disable", "server"],
        Admin,
        "disable server <bk>/<srv>",
        "put a server into maintenance",
        servers::disable,
    ),
    command(
        &["enable", "frontend"],
        Admin,
        "enable frontend <frontend>",
        "accept again",
        frontends::enable,
    ),
    command(
        &["enable", "health"],
        Admin,
        "enable health <bk>/<srv>",
        "go on with the checks of a server",
        servers::enable_health,
    ),
    command(
        &["enable", "server"],
        Admin,
        "enable server <bk>/<srv>",
        "make a server ready again",
        servers::enable,
    ),
    command(
        &["get", "acl"],
        User,
        "get acl <acl> <value>",
        "the pattern that a value matches",
        lists::get_acl,
    ),
    command(
        &["get", "map"],
        User,
        "get map <map> <value>",
        "the entry that a value leads to",
        lists::get_map,
    ),
    command(
        &["get", "weight"],
        User,
        "get weight <bk>/<srv>",
        "the weight of a server, and the configured one",
        servers::get_weight,
    ),
    command(
        &["operator"],
        Operator,
        "operator",
        "do without the rights of an admin from here on",
        lower_to_operator,
    ),
    command(
        &["prepare", "acl"],
        Operator,
        "prepare acl <acl>",
        "begin another version of a list",
        lists::prepare_acl,
    ),
    command(
        &["prepare", "map"],
        Operator,
        "prepare map <map>",
        "begin another version of a map",
        lists::prepare_map,
    ),
    command(
        &["set", "map"],
        Operator,
        "set map <map> [<key>|#<ref>] <value>",
        "another value for a key",
        lists::set_map,
    ),
    command(
        &["set", "maxconn", "frontend"],
        Admin,
        "set maxconn frontend <frontend> <value>",
        "clients of a frontend at a time",
        frontends::set_maxconn,
    ),
    command(
        &["set", "maxconn", "global"],
        Admin,
        "set maxconn global <value>",
        "clients at a time; 0: as at the start",
        settings::set_maxconn,
    ),
    command(
        &["set", "maxconn", "server"],
        Admin,
        "set maxconn server <bk>/<srv> <value>",
        "sessions at a time at a server; 0: no limit",
        servers::set_maxconn,
    ),
    command(
        &["set", "rate-limit"],
        Admin,
        "set rate-limit <setting> <value>",
        "connections or sessions a second; 0: no limit",
        settings::set_rate_limit,
    ),
    command(
        &["set", "server"],
        Admin,
        "set server <bk>/<srv> [opts]",
        "change the state, health, weight or address of a server",
        servers::set,
    ),
    command(
        &["set", "ssl", "cert"],
        Admin,
        "set ssl cert <certfile> <payload>",
        "another certificate in place of a file's",
        certificates::set,
    ),
    command(
        &["set", "timeout"],
        User,
        "set timeout cli <delay>",
        "close this connection when it is silent for so long",
        settings::set_timeout,
    ),
    command(
        &["set", "weight"],
        Admin,
        "set weight <bk>/<srv> <weight>",
        "the same as 'set server ... weight'",
        servers::set_weight_of,
    ),
    command(
        &["show", "acl"],
        User,
        "show acl [[@<ver>] <acl>]",
        "lists of patterns, or what is in one",
        lists::show_acl,
    ),
    command(
        &["show", "activity"],
        User,
        "show activity",
        "system calls of the threads that serve",
        show::activity,
    ),
    command(&["show", "backend"], User, "show backend", "names of backends", show::backends),
    command(
        &["show", "cli", "level"],
        User,
        "show cli level",
        "what this connection may do",
        show::cli_level,
    ),
    command(
        &["show", "cli", "sockets"],
        User,
        "show cli sockets",
        "the runtime sockets",
        show::cli_sockets,
    ),
    command(
        &["show", "env"],
        Operator,
        "show env [var]",
        "variables of the environment",
        show::environment,
    ),
    command(
        &["show", "errors"],
        Operator,
        "show errors [<px>] [request|response]",
        "the last malformed messages of proxies",
        errors::show,
    ),
    command(&["show", "fd"], Operator, "show fd [num]", "open descriptors", show::descriptors),
    command(
        &["show", "info"],
        User,
        "show info [desc|json|typed]*",
        "facts of the process",
        show::info,
    ),
    command(
        &["show", "map"],
        User,
        "show map [[@<ver>] <map>]",
        "maps, or what is in one",
        lists::show_map,
    ),
    command(
        &["show", "servers", "conn"],
        User,
        "show servers conn [<backend>]",
        "connections to servers",
        servers::show_conn,
    ),
    command(
        &["show", "servers", "state"],
        User,
        "show servers state [<backend>]",
        "states of servers",
        servers::show_state,
    ),
    command(&["show", "sess"], Operator, "show sess [id]", "sessions, or this one", sessions::show),
    command(
        &["show", "ssl", "cert"],
        Operator,
        "show ssl cert [<certfile>]",
        "files with certificates of listeners",
        certificates::show,
    ),
    command(
        &["show", "stat"],
        User,
        "show stat [json|no-maint|typed|up]*",
        "counters of proxies and servers",
        show::stat,
    ),
    command(&["show", "version"], User, "show version", "the version", show::version),
    command(
        &["shutdown", "frontend"],
        Admin,
        "shutdown frontend <frontend>",
        "accept nobody any more",
        frontends::shutdown,
    ),
    command(
        &["shutdown", "session"],
        Admin,
        "shutdown session [id]",
        "cut a session off",
        sessions::shutdown,
    ),
    command(
        &["shutdown", "sessions", "server"],
        Admin,
        "shutdown sessions server <bk>/<srv>",
        "cut off all sessions at a server",
        servers::shutdown_sessions,
    ),
    command(&["user"], User, "user", "do without every other right from here on", lower_to_user),
    command(
        &["help"],
        User,
        "help [<command>]",
        "these lines, or those that begin so",
        help_command,
    ),
    command(&["prompt"], User, "prompt", "stay, and show a prompt; or not any more", prompt),
    command(&["quit"], User, "quit", "end the connection", quit),
];

/// Shown beside every choice.
const ALWAYS: &[&str] = &["help", "prompt", "quit"];

const UNKNOWN: &str = "Unknown command. Please enter one of the following commands only:";
const NEAR: &str = "Unknown command, but maybe one of the following ones is a better match:";
const VALID: &str = "The following commands are valid at this level:";

/// HAProxy's commands for what is not here.
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
        let order = |it: &&Command| !ALWAYS.contains(&it.words[0]);
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
