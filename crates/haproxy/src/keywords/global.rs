//! Process-wide settings: `global`.

use crate::draft::{Globals, Paths};
use crate::keyword_table::{Keyword, NO, row};
use crate::line::KeywordLine;
use crate::position::KeywordPrefix;
use crate::rules::eval_context::{Variable, VariableScope};
use crate::rules::{EvalContext, Sample, WordError};
use crate::values::{TimeUnit, duration, number};
use crate::{accounts, compile};

pub(super) const ROWS: &[Keyword<Globals>] = &[
    row("daemon", 0, "", "run in the background", daemon),
    row(
        "master-worker",
        0,
        "[no-exit-on-failure]",
        "run a master process that controls the worker",
        master_worker,
    ),
    row("nbthread", 0, "<number>", "number of threads (default: number of processors)", nbthread),
    row("nbproc", 0, "1", "accepted: there is only one process", nbproc),
    row("maxconn", 0, "<number>", "maximum number of concurrent client connections", maxconn),
    row("maxpipes", 0, "<number>", "maximum number of pipes for splicing", maxpipes),
    row("nosplice", 0, "", "disable splicing", nosplice),
    row("ulimit-n", 0, "<number>", "required number of file descriptors", ulimit_n),
    row(
        "strict-limits",
        NO,
        "",
        "fail if the required limits cannot be set (default)",
        strict_limits,
    ),
    row("localpeer", 0, "<name>", "value of HAPROXY_LOCALPEER from the next line on", localpeer),
    row("pidfile", 0, "<file>", "file for the process number", pidfile),
    row("user", 0, "<name>", "user of the process", user),
    row("uid", 0, "<number>", "user of the process, by number", uid),
    row("group", 0, "<name>", "group of the process", group),
    row("gid", 0, "<number>", "group of the process, by number", gid),
    row("chroot", 0, "<directory>", "root directory of the process", chroot),
    row(
        "default-path",
        0,
        "current | config | parent | origin <directory>",
        "base of relative paths of files",
        default_path,
    ),
    row("hard-stop-after", 0, "<time>", "maximum time of a soft stop", hard_stop_after),
    row("node", 0, "<name>", "node name in statistics", node),
    row("description", 0, "<text>", "description in statistics", description),
    row(
        "spread-checks",
        0,
        "<percent>",
        "random deviation of check intervals, in percent",
        spread_checks,
    ),
    row(
        "max-spread-checks",
        0,
        "<time>",
        "time within which all first checks start",
        max_spread_checks,
    ),
    row("tune.maxaccept", 0, "<number>", "connections accepted in one turn", accept_max),
    row(
        "tune.bufsize",
        0,
        "<bytes>",
        "buffered response bytes at which a pipelining client is paused",
        response_buffer_max,
    ),
    row("tune.http.maxhdr", 0, "<number>", "maximum number of header fields", fields_max),
    row("tune.ssl.lifetime", 0, "<time>", "lifetime of TLS sessions", lifetime),
    row("set-var", 0, "<name> <expression>", "set a process variable", set_var),
    row("set-var-fmt", 0, "<name> <format>", "set a process variable from a format", set_var_fmt),
    row("setenv", 0, "<name> <value>", "set an environment variable from the next line on", setenv),
    row("presetenv", 0, "<name> <value>", "set an environment variable that is not set", presetenv),
    row("unsetenv", 0, "<name>...", "remove environment variables", unsetenv),
    row("resetenv", 0, "[<name>...]", "remove all environment variables but these", resetenv),
];

fn daemon(globals: &mut Globals, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    globals.model.daemon = true;
    Ok(())
}

fn master_worker(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    globals.model.outlives_workers = line.words.take("no-exit-on-failure");
    globals.model.master_worker = true;
    Ok(())
}

fn nbthread(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let threads = number(&line.word("a number")?, 1, THREADS_MAX)?;
    globals.model.threads = Some(threads);
    Ok(())
}

fn nbproc(_globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let word = line.word("a number")?;
    match &*word.text {
        "1" => Ok(()),
        _ => Err(WordError::new(word.column, "only one process is supported: use 'nbthread'")),
    }
}

fn maxconn(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let most = number(&line.word("a number")?, 0, usize::MAX / 2)?;
    globals.model.connections_max = (most > 0).then_some(most);
    Ok(())
}

fn maxpipes(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let most = number(&line.word("a number")?, 0, usize::MAX / 2)?;
    globals.model.pipes_max = (most > 0).then_some(most);
    Ok(())
}

fn nosplice(globals: &mut Globals, _line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    globals.model.no_splice = true;
    Ok(())
}

fn ulimit_n(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let count: usize = number(&line.word("a number")?, 0, usize::MAX / 2)?;
    globals.model.descriptors = u64::try_from(count).ok().filter(|&count| count > 0);
    Ok(())
}

fn strict_limits(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    globals.model.lenient_limits = line.said == KeywordPrefix::No;
    Ok(())
}

fn localpeer(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let name = line.word("a name")?.text;
    globals.variables.push(("HAPROXY_LOCALPEER".to_owned(), Some(name)));
    Ok(())
}

fn pidfile(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    globals.model.pidfile = Some(line.word("a file")?.text.into());
    Ok(())
}

fn user(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let word = line.word("the name of a user")?;
    globals.model.uid = Some(accounts::user(&word, line.machine)?);
    Ok(())
}

fn uid(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    globals.model.uid = Some(number(&line.word("a number")?, 0, u32::MAX - 1)?);
    Ok(())
}

fn group(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let word = line.word("the name of a group")?;
    globals.model.gid = Some(accounts::group(&word, line.machine)?);
    Ok(())
}

fn gid(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    globals.model.gid = Some(number(&line.word("a number")?, 0, u32::MAX - 1)?);
    Ok(())
}

fn chroot(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    globals.model.chroot = Some(line.word("a directory")?.text.into());
    Ok(())
}

fn default_path(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let word = line.word("'current', 'config', 'parent' or 'origin'")?;
    globals.paths = match &*word.text {
        "current" => Paths::Current,
        "config" => Paths::Config,
        "parent" => Paths::Parent,
        "origin" => Paths::Origin(line.word("a directory")?.text.into()),
        other => {
            let message = format!("'{other}': expected 'current', 'config', 'parent' or 'origin'");
            return Err(WordError::new(word.column, message));
        }
    };
    Ok(())
}

fn hard_stop_after(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    globals.model.hard_stop_after = Some(duration(&line.word("a time")?, TimeUnit::Millis)?);
    Ok(())
}

fn node(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let word = line.word("a name")?;
    let is_known = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if word.text.is_empty() || !word.text.chars().all(is_known) {
        let message =
            format!("'{}': a name may contain letters, digits, '-', '_' and '.'", word.text);
        return Err(WordError::new(word.column, message));
    }
    globals.model.node = Some(word.text);
    Ok(())
}

fn description(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    line.words.clone().expect("a text")?;
    let words: Vec<&str> = line.words.rest().iter().map(|word| &*word.text).collect();
    globals.model.description = Some(words.join(" "));
    Ok(())
}

fn spread_checks(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    globals.model.spread_checks = number(&line.word("a percentage")?, 0, 50)?;
    Ok(())
}

fn max_spread_checks(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let time = duration(&line.word("a time")?, TimeUnit::Millis)?;
    globals.model.first_checks_within = (!time.is_zero()).then_some(time);
    Ok(())
}

fn accept_max(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let most = number(&line.word("a number")?, -1, i32::MAX)?;
    globals.model.tune.accept_max = usize::try_from(most).ok().filter(|&most| most > 0);
    Ok(())
}

fn response_buffer_max(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let most = number(&line.word("a number of bytes")?, 1024, 1 << 24)?;
    globals.model.tune.response_buffer_max = Some(most);
    Ok(())
}

fn fields_max(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    globals.model.tune.fields_max = Some(number(&line.word("a number")?, 1, 32_767)?);
    Ok(())
}

fn lifetime(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let time = duration(&line.word("a time")?, TimeUnit::Seconds)?;
    globals.model.tune.ssl_session_lifetime = Some(time);
    Ok(())
}

fn set_var(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let name = process_variable(line)?;
    let word = line.word("an expression")?;
    let expression = compile::expression(&word, line)?;
    let value = expression.evaluate(&NoContext).map(Sample::into_owned);
    let value = value.ok_or_else(|| {
        WordError::new(
            word.column,
            "this sample has no value at the start: use a constant, for example str(...)",
        )
    })?;
    globals.model.variables.push((name, value));
    Ok(())
}

fn set_var_fmt(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let name = process_variable(line)?;
    let format = compile::format(&line.word("a format")?, line)?;
    let mut text = Vec::new();
    format.render(&NoContext, &mut text);
    globals.model.variables.push((name, Sample::Text(text.into())));
    Ok(())
}

/// The name of a process variable, without its scope.
fn process_variable(line: &mut KeywordLine<'_>) -> Result<String, WordError> {
    let word = line.word("the name of a variable")?;
    let variable = Variable::parse(&word.text);
    match variable.map_err(|message| WordError::new(word.column, message))? {
        Variable { scope: VariableScope::Proc, name } => Ok(name.into()),
        _ => Err(WordError::new(word.column, "expected a variable with the scope 'proc.'")),
    }
}

fn setenv(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let name = line.word("the name of a variable")?.text;
    let value = line.word("a value")?.text;
    globals.variables.push((name, Some(value)));
    Ok(())
}

fn presetenv(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let name = line.word("the name of a variable")?.text;
    let value = line.word("a value")?.text;
    if line.environment.value(&name).is_none() {
        globals.variables.push((name, Some(value)));
    }
    Ok(())
}

fn unsetenv(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    line.words.clone().expect("the name of a variable")?;
    let names = line.words.rest().iter().map(|word| (word.text.clone(), None));
    globals.variables.extend(names);
    Ok(())
}

fn resetenv(globals: &mut Globals, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let kept: Vec<&str> = line.words.rest().iter().map(|word| &*word.text).collect();
    let all = line.environment.0.keys().filter(|name| !kept.contains(&&***name));
    globals.variables.extend(all.map(|name| (name.clone(), None)));
    Ok(())
}

/// The context of expressions at the start: it has no values.
#[derive(Debug)]
struct NoContext;

impl EvalContext for NoContext {}

/// The limit of HAProxy 2.6.
const THREADS_MAX: usize = 64;
