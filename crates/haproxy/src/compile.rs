//! Connects the parsers of conditions, expressions and formats to lines.

use std::io;
use std::path::PathBuf;

use crate::draft::ProxyDraft;
use crate::environment::Environment;
use crate::line::KeywordLine;
use crate::machine::Machine;
use crate::rules::condition::Acls;
use crate::rules::format::{FormatOptions, Purpose};
use crate::rules::{
    CompileContext, Condition, ConfigFiles, EvalPoint, Expression, FormatString, Lists, Word,
    WordError,
};

/// Files and environment of a line, for the parsers of rules.
#[derive(Clone, Debug)]
pub(crate) struct LineContext<'a> {
    folder: PathBuf,
    machine: &'a dyn Machine,
    environment: &'a Environment,
    lists: &'a Lists,
    place: (String, u32),
}

impl<'a> LineContext<'a> {
    /// The context of a line.
    pub(crate) fn of(line: &KeywordLine<'a>) -> Self {
        Self {
            folder: line.folder(),
            machine: line.machine,
            environment: line.environment,
            lists: &line.globals.lists,
            place: (line.spot.place.file.to_string(), line.spot.place.line),
        }
    }
}

impl ConfigFiles for LineContext<'_> {
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
    draft: &ProxyDraft,
    line: &mut KeywordLine<'_>,
    point: EvalPoint,
) -> Result<Option<Condition>, WordError> {
    if line.words.is_empty() {
        return Ok(None);
    }
    let column = line.words.column();
    let files = LineContext::of(line);
    let context = CompileContext { acls: &draft.acls, files: &files };
    let condition = Condition::parse(&mut line.words, &context)?;
    warn_if_unavailable(&condition, line, column, point);
    Ok(Some(condition))
}

/// The required condition at the end of a line.
pub(crate) fn required_condition(
    draft: &ProxyDraft,
    line: &mut KeywordLine<'_>,
    point: EvalPoint,
) -> Result<Condition, WordError> {
    let column = line.words.column();
    let missing = || WordError::new(column, "expected a condition with 'if' or 'unless'");
    condition(draft, line, point)?.ok_or_else(missing)
}

/// Warns about conditions that can never hold at `point`, and records the facts they need.
pub(crate) fn warn_if_unavailable(
    condition: &Condition,
    line: &mut KeywordLine<'_>,
    column: u32,
    point: EvalPoint,
) {
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
pub(crate) fn check_phase<'e>(
    asked: impl IntoIterator<Item = &'e Expression>,
    line: &mut KeywordLine<'_>,
    column: u32,
    point: EvalPoint,
) -> Result<(), WordError> {
    for expression in asked {
        if !expression.phase().is_there(point) {
            let message = format!(
                "'{}' has no value here: it is available only {}",
                expression.name(),
                expression.phase()
            );
            return Err(WordError::new(column, message));
        }
        line.facts.extend(expression.fact().map(|fact| (column, fact)));
    }
    Ok(())
}

/// Parses a word as an expression.
pub(crate) fn expression(word: &Word, line: &KeywordLine<'_>) -> Result<Expression, WordError> {
    let files = LineContext::of(line);
    Expression::parse_in(&word.text, word.column, &files)
}

/// Parses a word as a format, for a field or a name.
pub(crate) fn format(word: &Word, line: &KeywordLine<'_>) -> Result<FormatString, WordError> {
    parse(word, FormatOptions::VALUE, line)
}

/// Parses a word as a format, for the name of a backend.
pub(crate) fn name_format(
    word: &Word,
    line: &mut KeywordLine<'_>,
) -> Result<FormatString, WordError> {
    let format = format(word, line)?;
    check_phase(format.expressions(), line, word.column, EvalPoint::Request)?;
    Ok(format)
}

/// Parses a word as a log format.
pub(crate) fn log_format(
    word: &Word,
    line: &mut KeywordLine<'_>,
) -> Result<FormatString, WordError> {
    let format = parse(word, FormatOptions::HTTP_LOG, line)?;
    let facts = format.expressions().filter_map(Expression::fact);
    line.facts.extend(facts.map(|fact| (word.column, fact)));
    let mut expressions = format.expressions();
    if let Some(gone) = expressions.find(|expression| !expression.phase().is_there(EvalPoint::Log))
    {
        let message = format!(
            "'{}' is not available at log time, only {}: save it with 'http-request capture' or \
             'http-request set-var'",
            gone.name(),
            gone.phase()
        );
        return Err(WordError::new(word.column, message));
    }
    drop(expressions);
    Ok(format)
}

/// Parses a word as the format of a unique ID.
pub(crate) fn id_format(
    word: &Word,
    line: &mut KeywordLine<'_>,
) -> Result<FormatString, WordError> {
    let format = parse(word, FormatOptions { purpose: Purpose::Identifier, http: true }, line)?;
    check_phase(format.expressions(), line, word.column, EvalPoint::Request)?;
    Ok(format)
}

fn parse(
    word: &Word,
    options: FormatOptions,
    line: &KeywordLine<'_>,
) -> Result<FormatString, WordError> {
    let files = LineContext::of(line);
    let context = CompileContext { acls: &Acls::new(), files: &files };
    FormatString::parse_in(&word.text, word.column, options, &context)
}
