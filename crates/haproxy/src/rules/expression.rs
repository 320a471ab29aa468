//! Expressions: a fetch with arguments, and converters (HAProxy's manual, §7.3).

use std::ops::ControlFlow;

use crate::rules::args::{self, Args};
use crate::rules::convert::{self, Converter};
use crate::rules::eval_context::{EvalContext, Fact};
use crate::rules::fetch::{self, FetchMethod, Take};
use crate::rules::lists::{ConfigFiles, NoFiles};
use crate::rules::sample::{Sample, Type};
use crate::rules::sample_phase::SamplePhase;
use crate::rules::words::{WordCursor, WordError};

/// An expression that is evaluated on a [`EvalContext`].
#[derive(Clone, Debug)]
pub struct Expression {
    fetch: &'static FetchMethod,
    args: Args,
    source: ValueSource,
    steps: Box<[ConverterCall]>,
}

/// The source of the value.
#[derive(Clone, Debug)]
enum ValueSource {
    /// Calls the function of the fetch.
    Call,
    /// A constant; `None` is no value.
    Constant(Option<Sample<'static>>),
    /// Queries the proxy.
    Fact(Box<Fact>),
}

/// A converter with its arguments.
#[derive(Clone, Debug)]
struct ConverterCall {
    converter: &'static Converter,
    args: Args,
}

impl Expression {
    /// Parses one word: `hdr(host),lower`. Files are not available.
    ///
    /// # Errors
    /// An unknown fetch or converter, or an invalid argument.
    pub fn parse(text: &str, column: u32) -> Result<Self, WordError> {
        Self::parse_in(text, column, &NoFiles)
    }

    /// The same, with files for maps.
    ///
    /// # Errors
    /// As [`Expression::parse`], or a file is invalid.
    pub fn parse_in(text: &str, column: u32, files: &dyn ConfigFiles) -> Result<Self, WordError> {
        let (expression, rest) = Self::begin(text, column, files, fetch::find)?;
        match rest {
            "" => Ok(expression),
            rest => Err(WordError::new(column, format!("unexpected '{rest}' after '{text}'"))),
        }
    }

    /// Parses the next words: an expression, and converters in words of their own.
    ///
    /// # Errors
    /// As [`Expression::parse_in`], or there is no word.
    pub(crate) fn parse_words(
        words: &mut WordCursor<'_>,
        files: &dyn ConfigFiles,
    ) -> Result<Self, WordError> {
        let word = words.expect("an expression")?;
        let mut expression = Self::parse_in(&word.text, word.column, files)?;
        while let Some(word) = words.peek() {
            let (name, _) = split_name(&word.text);
            if convert::find(name).is_none() {
                break;
            }
            words.next();
            expression.convert(&word.text, word.column, files)?;
        }
        Ok(expression)
    }

    /// The fetch that `find` returns, and its converters.
    pub(crate) fn begin<'t>(
        text: &'t str,
        column: u32,
        files: &dyn ConfigFiles,
        find: impl Fn(&str) -> Option<&'static FetchMethod>,
    ) -> Result<(Self, &'t str), WordError> {
        if text.is_empty() {
            return Err(WordError::new(column, "expected an expression"));
        }
        let (name, rest) = split_name(text);
        let Some(fetch) = find(name) else {
            return Err(WordError::unknown(column, fetch::unknown(name, std::iter::empty())));
        };
        let (texts, rest) = arguments(name, rest, column)?;
        let args = Args::compile(name, &texts, fetch.takes, files, column)?;
        let source = match fetch.take {
            Take::Constant(make) => ValueSource::Constant(
                make(&args, files)
                    .map_err(|why| WordError::new(column, format!("'{name}': {why}")))?,
            ),
            Take::Fact(make) => ValueSource::Fact(Box::new(make(&args))),
            Take::One(_) | Take::Each(..) | Take::Peek(_) => ValueSource::Call,
        };
        let mut expression = Self { fetch, args, source, steps: Box::default() };
        match rest.strip_prefix(',') {
            None => Ok((expression, rest)),
            Some(converters) => {
                let rest = expression.convert(converters, column, files)?;
                Ok((expression, rest))
            }
        }
    }

    /// Parses converters: `lower,length`. Returns the rest of the text.
    fn convert<'t>(
        &mut self,
        text: &'t str,
        column: u32,
        files: &dyn ConfigFiles,
    ) -> Result<&'t str, WordError> {
        let mut steps = std::mem::take(&mut self.steps).into_vec();
        let mut kind = steps.last().map_or(self.fetch.kind, |step| step.converter.output);
        let mut rest = text;
        let rest = loop {
            let (name, behind) = split_name(rest);
            let Some(converter) = convert::find(name) else {
                return Err(WordError::unknown(column, convert::unknown(name)));
            };
            if !kind.casts_to(converter.input) {
                let message = format!(
                    "converter '{name}' requires input of type {}, not {kind}",
                    converter.input
                );
                return Err(WordError::new(column, message));
            }
            let (texts, behind) = arguments(name, behind, column)?;
            let mut args = Args::compile(name, &texts, converter.takes, files, column)?;
            if let Some(check) = converter.check {
                check(&mut args)
                    .map_err(|why| WordError::new(column, format!("'{name}': {why}")))?;
            }
            kind = converter.output;
            steps.push(ConverterCall { converter, args });
            match behind.strip_prefix(',') {
                Some(behind) => rest = behind,
                None => break behind,
            }
        };
        self.steps = steps.into();
        Ok(rest)
    }

    /// Evaluates the expression; `None` if the sample does not exist or a converter fails.
    pub fn evaluate<'a>(&'a self, subject: &'a dyn EvalContext) -> Option<Sample<'a>> {
        self.finish(self.take(subject)?, subject)
    }

    /// The value of the fetch; of several, the one that applies.
    fn take<'a>(&'a self, subject: &'a dyn EvalContext) -> Option<Sample<'a>> {
        match (&self.source, self.fetch.take) {
            (ValueSource::Constant(value), _) => value.as_ref().map(Sample::borrowed),
            (ValueSource::Fact(fact), _) => subject.fact(fact),
            (ValueSource::Call, Take::One(take)) => take(&self.args, subject),
            (ValueSource::Call, Take::Peek(peek)) => peek(&self.args, subject).value,
            (ValueSource::Call, Take::Each(each, which)) => {
                let mut found = None;
                let _ = each(&self.args, subject, &mut |value| {
                    found = value;
                    which.goes_on(&self.args)
                });
                found
            }
            (ValueSource::Call, Take::Constant(_) | Take::Fact(_)) => None,
        }
    }

    /// Passes all values (for example all fields of a name) to `show` until it stops. True if more
    /// values may come with more data of the connection.
    pub(crate) fn each<'a>(
        &'a self,
        subject: &'a dyn EvalContext,
        show: &mut dyn FnMut(Sample<'a>) -> ControlFlow<()>,
    ) -> bool {
        match (&self.source, self.fetch.take) {
            (ValueSource::Call, Take::Each(each, _)) => {
                let _ = each(&self.args, subject, &mut |value| match value {
                    None => ControlFlow::Continue(()),
                    Some(value) => {
                        self.finish(value, subject).map_or(ControlFlow::Break(()), &mut *show)
                    }
                });
                false
            }
            (ValueSource::Call, Take::Peek(peek)) => {
                let peeked = peek(&self.args, subject);
                if let Some(value) = peeked.value.and_then(|value| self.finish(value, subject)) {
                    let _ = show(value);
                }
                peeked.may_change
            }
            _ => {
                if let Some(value) = self.evaluate(subject) {
                    let _ = show(value);
                }
                false
            }
        }
    }

    fn finish<'a>(&'a self, value: Sample<'a>, subject: &'a dyn EvalContext) -> Option<Sample<'a>> {
        let mut value = value;
        for step in &self.steps {
            value = (step.converter.run)(value.cast(step.converter.input)?, &step.args, subject)?;
        }
        Some(value)
    }

    /// The type of its values; `Any` if it is not known before evaluation.
    pub fn kind(&self) -> Type {
        self.steps.last().map_or(self.fetch.kind, |step| step.converter.output)
    }

    /// When it has a value.
    pub fn phase(&self) -> SamplePhase {
        self.fetch.phase
    }

    /// The name of its fetch.
    pub fn name(&self) -> &'static str {
        self.fetch.names[0]
    }

    /// The fact that it queries, so that names in it can be checked.
    pub fn fact(&self) -> Option<Fact> {
        self.fetch.about.map(|about| about(&self.args))
    }

    /// True if there are converters.
    pub(crate) fn is_converted(&self) -> bool {
        !self.steps.is_empty()
    }
}

/// The arguments after a name, and the rest.
fn arguments<'t>(
    name: &str,
    rest: &'t str,
    column: u32,
) -> Result<(Vec<String>, &'t str), WordError> {
    let Some(inside) = rest.strip_prefix('(') else { return Ok((Vec::new(), rest)) };
    let (texts, len) = args::split(inside)
        .map_err(|why| WordError::new(column, format!("arguments of '{name}': {why}")))?;
    Ok((texts, &inside[len..]))
}

/// The name at the start, and the rest.
pub(crate) fn split_name(text: &str) -> (&str, &str) {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._-:+".contains(c);
    text.split_at(text.find(|c| !is_name(c)).unwrap_or(text.len()))
}
