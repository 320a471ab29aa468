//! Connects the parsers of conditions, expressions and formats to lines.

use std::io;
use std::path::PathBuf;

use crate::draft::Draft;
use crate::environment::Environment;
use crate::line::Line;
use crate::machine::Machine;
use crate::rules::condition::Acls;
use crate::rules::format::{Options, Purpose};
use crate::rules::{Condition, Context, Expression, Fault, Files, Format, Lists, Point, Word};

/// Files and environment of a line, for the parsers of rules.
#[derive(Clone, Debug)]
pub(crate) struct Around<'a> {
    folder: PathBuf,
    machine: &'a dyn Machine,
    environment: &'a Environment,
    lists: &'a Lists,
    place: (String, u32),
}

impl<'a> Around<'a> {
    /// The context of a line.
    pub(crate) fn of(line: &Line<'a>) -> Self {
        Self {
            folder: line.folder(),
            machine: line.machine,
            environment: line.environment,
            lists: &line.globals.lists,
            place: (line.spot.place.file.to_string(), line.spot.place.line),
        }
    }
}

impl Files for Around<'_> {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        self.machine.read(&self.folder.join(path))
    }

    fn lists(&self) -> Lists {
        self.lists.clone()
    }

    fn place(&self) -> (String, u32) {
        self.place.clone()
    }

    fn environment(&self, name: &str) -> Option<String> {
        self.environment.value(name)
    }
}

/// The optional condition at the end of a line, evaluated at `point`.
pub(crate) fn condition(
    draft: &Draft,
    line: &mut Line<'_>,
    point: Point,
) -> Result<Option<Condition>, Fault> {
    if line.words.is_empty() {
        return Ok(None);
    }
    let column = line.words.column();
    let files = Around::of(line);
    let context = Context { acls: &draft.acls, files: &files };
    let condition = Condition::parse(&mut line.words, &context)?;
    warn_of(&condition, line, column, point);
    Ok(Some(condition))
}

/// The required condition at the end of a line.
pub(crate) fn required_condition(
    draft: &Draft,
    line: &mut Line<'_>,
    point: Point,
) -> Result<Condition, Fault> {
    let column = line.words.column();
    let missing = || Fault::new(column, "expected a condition with 'if' or 'unless'");
    condition(draft, line, point)?.ok_or_else(missing)
}

/// Warns about conditions that can never hold at `point`, and records the facts they need.
pub(crate) fn warn_of(condition: &Condition, line: &mut Line<'_>, column: u32, point: Point) {
    let facts = condition.acls().filter_map(|acl| acl.expression().fact());
    line.facts.extend(facts.map(|fact| (column, fact)));
    let is_late = |acl: &&crate::rules::condition::Acl| !acl.phase().is_there(point);
    let late = condition.acls().find(is_late);
    let late = late.map(|acl| (acl.expression().name(), acl.phase()));
    if let Some((name, phase)) = late {
        let message = format!("'{name}' has no value here: it is available only {phase}");
        line.warn(column, message);
    }
}

/// Reports samples that have no value at the point of a rule's action; this is an error, as in
/// HAProxy. Records the facts they need.
pub(crate) fn check_asked<'e>(
    asked: impl IntoIterator<Item = &'e Expression>,
    line: &mut Line<'_>,
    column: u32,
    point: Point,
) -> Result<(), Fault> {
    for expression in asked {
        if !expression.phase().is_there(point) {
            let message = format!(
                "'{}' has no value here: it is available only {}",
                expression.name(),
                expression.phase()
            );
            return Err(Fault::new(column, message));
        }
        line.facts.extend(expression.fact().map(|fact| (column, fact)));
    }
    Ok(())
}

/// Parses a word as an expression.
pub(crate) fn expression(word: &Word, line: &Line<'_>) -> Result<Expression, Fault> {
    let files = Around::of(line);
    Expression::parse_in(&word.text, word.column, &files)
}

/// Parses a word as a format, for a field or a name.
pub(crate) fn format(word: &Word, line: &Line<'_>) -> Result<Format, Fault> {
    parse(word, Options::VALUE, line)
}

/// Parses a word as a format, for the name of a backend.
pub(crate) fn name_format(word: &Word, line: &mut Line<'_>) -> Result<Format, Fault> {
    let format = format(word, line)?;
    check_asked(format.expressions(), line, word.column, Point::Request)?;
    Ok(format)
}

/// Parses a word as a log format.
pub(crate) fn log_format(word: &Word, line: &mut Line<'_>) -> Result<Format, Fault> {
    let format = parse(word, Options::HTTP_LOG, line)?;
    let facts = format.expressions().filter_map(Expression::fact);
    line.facts.extend(facts.map(|fact| (word.column, fact)));
    let mut expressions = format.expressions();
    if let Some(gone) = expressions.find(|expression| !expression.phase().is_there(Point::Log)) {
        let message = format!(
            "'{}' is not available at log time, only {}: save it with 'http-request capture' or \
             'http-request set-var'",
            gone.name(),
            gone.phase()
        );
        return Err(Fault::new(word.column, message));
    }
    drop(expressions);
    Ok(format)
}

/// Parses a word as the format of a unique ID.
pub(crate) fn id_format(word: &Word, line: &mut Line<'_>) -> Result<Format, Fault> {
    let format = parse(word, Options { purpose: Purpose::Identifier, http: true }, line)?;
    check_asked(format.expressions(), line, word.column, Point::Request)?;
    Ok(format)
}

fn parse(word: &Word, options: Options, line: &Line<'_>) -> Result<Format, Fault> {
    let files = Around::of(line);
    let context = Context { acls: &Acls::new(), files: &files };
    Format::parse_in(&word.text, word.column, options, &context)
}
