//! Access control lists: an expression, and patterns for its value (HAProxy's manual, §7.1).

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::rules::eval_context::EvalContext;
use crate::rules::expression::{Expression, split_name};
use crate::rules::fetch;
use crate::rules::lists::{self, ConfigFiles, Matcher, Use, Used};
use crate::rules::map;
use crate::rules::pattern::{self, MatchMethod};
use crate::rules::sample::Sample;
use crate::rules::sample_phase::SamplePhase;
use crate::rules::words::{Word, WordCursor, WordError};

/// An access control list: an expression, and patterns for its value.
#[derive(Clone, Debug)]
pub struct Acl {
    expression: Expression,
    /// From files, followed by the patterns of the line.
    patterns: Vec<Arc<Matcher>>,
}

/// ACLs by name, as declared so far in a section. Several with one name are one ACL: any of them
/// may match.
pub type Acls = HashMap<String, Vec<Arc<Acl>>>;

/// The result of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MatchResult {
    /// No match.
    No,
    /// Undecided: needs more data of the connection.
    Open,
    /// Match.
    Yes,
}

impl Acl {
    /// Parses the words after the name of an ACL or in braces: a criterion, flags, operators and
    /// values. Uses all words.
    ///
    /// # Errors
    /// A word is not what it has to be, or a file of patterns is wrong.
    pub fn parse(words: &mut WordCursor<'_>, files: &dyn ConfigFiles) -> Result<Self, WordError> {
        let word = words.expect("a criterion (a fetch method, for example 'path_beg')")?;
        let (name, _) = split_name(&word.text);
        let criterion = Criterion::named(name);
        let Some(fetch) = fetch::find(criterion.map_or(name, |it| it.fetch)) else {
            let criteria = CRITERIA.iter().map(|criterion| criterion.name);
            return Err(WordError::unknown(word.column, fetch::unknown(name, criteria)));
        };
        let (expression, rest) =
            Expression::begin(&word.text, word.column, files, |_| Some(fetch))?;
        if !rest.is_empty() {
            let message = format!("unexpected '{rest}' after the criterion");
            return Err(WordError::new(word.column, message));
        }
        let implied = match criterion {
            Some(criterion) if !expression.is_converted() => Some(criterion.method),
            _ => MatchMethod::of(expression.kind()),
        };
        let patterns = Vec::new();
        let mut flags = AclFlags { patterns, implied, word, ignore_case: false, is_map: false };
        flags.parse(words, &expression, files)?;
        let patterns = flags.finish(words, &expression, files)?;
        Ok(Self { expression, patterns })
    }

    /// Tests the values of the expression against the patterns.
    pub fn test(&self, subject: &dyn EvalContext) -> MatchResult {
        let mut verdict = MatchResult::No;
        let may_change = self.expression.each(subject, &mut |value| {
            if self.matches(value) {
                verdict = MatchResult::Yes;
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        if may_change { verdict.max(MatchResult::Open) } else { verdict }
    }

    fn matches(&self, value: Sample<'_>) -> bool {
        let Some((last, files)) = self.patterns.split_last() else { return false };
        files.iter().any(|it| it.matches(value.clone())) || last.matches(value)
    }

    /// When its expression has a value.
    pub fn phase(&self) -> SamplePhase {
        self.expression.phase()
    }

    /// Its expression.
    pub fn expression(&self) -> &Expression {
        &self.expression
    }

    /// True if it has no patterns, so that it never matches.
    pub fn is_empty(&self) -> bool {
        self.patterns.iter().all(|it| it.method().needs_patterns() && it.was_empty())
    }
}

/// A criterion: an alias of a fetch, with a match method.
#[derive(Clone, Copy, Debug)]
pub struct Criterion {
    /// The name of the field.
    pub name: &'static str,
    /// The name of the fetch.
    pub fetch: &'static str,
    /// The match method, unless `-m` sets another.
    pub method: MatchMethod,
}

impl Criterion {
    fn named(name: &str) -> Option<&'static Self> {
        CRITERIA.iter().find(|criterion| criterion.name == name)
    }

    /// All criteria that are not fetches.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        CRITERIA.iter()
    }
}

/// The flags before the values.
struct AclFlags<'w> {
    /// From files. After the first, the match method is fixed.
    patterns: Vec<Arc<Matcher>>,
    implied: Option<MatchMethod>,
    word: &'w Word,
    ignore_case: bool,
    is_map: bool,
}

impl AclFlags<'_> {
    fn parse(
        &mut self,
        words: &mut WordCursor<'_>,
        expression: &Expression,
        files: &dyn ConfigFiles,
    ) -> Result<(), WordError> {
        while let Some(flag) = words.peek().filter(|word| word.text.starts_with('-')) {
            words.next();
            match flag.text.as_str() {
                "--" => break,
                "-i" => self.ignore_case = true,
                "-n" => {}
                "-M" => self.is_map = true,
                "-u" => {
                    words.expect("the number of the list")?;
                }
                "-m" => self.set_method(words.expect("a match method after '-m'")?)?,
                "-f" => {
                    let path = words.expect("a file name after '-f'")?;
                    let how = self.how(expression)?;
                    let used = self.used(files);
                    let loaded = map::load_patterns(&path.text, self.is_map, files)
                        .and_then(|list| list.matcher(used, how).map_err(|why| why.of(&path.text)));
                    self.patterns.push(loaded.map_err(|why| WordError::new(path.column, why))?);
                }
                other => {
                    let message = format!(
                        "unknown flag '{other}', expected one of -i, -n, -m, -f, -M, -u, -- (use \
                         '--' before a value that starts with '-')"
                    );
                    return Err(WordError::unknown(flag.column, message));
                }
            }
        }
        Ok(())
    }

    fn set_method(&mut self, word: &Word) -> Result<(), WordError> {
        if !self.patterns.is_empty() {
            return Err(WordError::new(word.column, "'-m' must be before '-f'"));
        }
        let Some(method) = MatchMethod::named(&word.text) else {
            let message = format!(
                "unknown match method '{}', expected one of found, bool, int, ip, bin, len, str, \
                 beg, sub, dir, dom, end, reg",
                word.text
            );
            return Err(WordError::unknown(word.column, message));
        };
        self.implied = Some(method);
        Ok(())
    }

    /// How patterns are compared.
    fn how(&self, expression: &Expression) -> Result<Use, WordError> {
        Ok(Use { method: self.method(expression)?, ignore_case: self.ignore_case, to: None })
    }

    fn used(&self, files: &dyn ConfigFiles) -> Used {
        let criterion = split_name(&self.word.text).0.to_owned();
        Used { by_map: false, criterion, place: files.place() }
    }

    fn method(&self, expression: &Expression) -> Result<MatchMethod, WordError> {
        let kind = expression.kind();
        let Some(method) = self.implied else {
            let message = format!(
                "samples of type {kind} have no default match method: set one with '-m', for \
                 example '-m str'"
            );
            return Err(WordError::new(self.word.column, message));
        };
        if !kind.casts_to(method.compares()) {
            let message =
                format!("samples of type {kind} cannot be matched as {}", method.compares());
            return Err(WordError::new(self.word.column, message));
        }
        Ok(method)
    }

    /// Adds the patterns of the line to those of files.
    fn finish(
        mut self,
        words: &mut WordCursor<'_>,
        expression: &Expression,
        files: &dyn ConfigFiles,
    ) -> Result<Vec<Arc<Matcher>>, WordError> {
        let how = self.how(expression)?;
        let (keys, columns) = values(words, how.method)?;
        let list = lists::of_line(keys, files);
        let matcher = list.matcher(self.used(files), how).map_err(|wrong| {
            let column = wrong.line.and_then(|at| columns.get(at)).copied();
            WordError::new(column.unwrap_or(self.word.column), wrong.why)
        })?;
        self.patterns.push(matcher);
        Ok(self.patterns)
    }
}

/// The patterns in a line, and their columns.
fn values(
    words: &mut WordCursor<'_>,
    method: MatchMethod,
) -> Result<(Vec<String>, Vec<u32>), WordError> {
    let mut operator = None;
    let (mut keys, mut columns) = (Vec::new(), Vec::new());
    while let Some(word) = words.next() {
        if method.has_operators() && OPERATORS.contains(&word.text.as_str()) {
            operator = Some(word.text.as_str());
            if words.is_empty() {
                let message = format!("expected a number after '{}'", word.text);
                return Err(WordError::new(words.column(), message));
            }
            continue;
        }
        let key = match operator {
            Some(operator) => pattern::comparison(method, operator, &word.text)
                .map_err(|why| WordError::new(word.column, why))?,
            None => word.text.clone(),
        };
        keys.push(key);
        columns.push(word.column);
    }
    Ok((keys, columns))
}

/// Operators before a number.
const OPERATORS: &[&str] = &["eq", "ge", "gt", "le", "lt"];

const CRITERIA: &[Criterion] = &[
    criterion("hdr", "req.hdr", MatchMethod::Str),
    criterion("payload", "req.payload", MatchMethod::Bin),
    criterion("payload_lv", "req.payload_lv", MatchMethod::Bin),
    criterion("req.payload", "req.payload", MatchMethod::Bin),
    criterion("req.payload_lv", "req.payload_lv", MatchMethod::Bin),
    criterion("req.ssl_ver", "req.ssl_ver", MatchMethod::Version),
    criterion("req_ssl_ver", "req.ssl_ver", MatchMethod::Version),
    criterion("base_beg", "base", MatchMethod::Beg),
    criterion("base_dir", "base", MatchMethod::Dir),
    criterion("base_dom", "base", MatchMethod::Dom),
    criterion("base_end", "base", MatchMethod::End),
    criterion("base_len", "base", MatchMethod::Len),
    criterion("base_reg", "base", MatchMethod::Reg),
    criterion("base_sub", "base", MatchMethod::Sub),
    criterion("cook_beg", "req.cook", MatchMethod::Beg),
    criterion("cook_dir", "req.cook", MatchMethod::Dir),
    criterion("cook_dom", "req.cook", MatchMethod::Dom),
    criterion("cook_end", "req.cook", MatchMethod::End),
    criterion("cook_len", "req.cook", MatchMethod::Len),
    criterion("cook_reg", "req.cook", MatchMethod::Reg),
    criterion("cook_sub", "req.cook", MatchMethod::Sub),
    criterion("hdr_beg", "req.hdr", MatchMethod::Beg),
    criterion("hdr_dir", "req.hdr", MatchMethod::Dir),
    criterion("hdr_dom", "req.hdr", MatchMethod::Dom),
    criterion("hdr_end", "req.hdr", MatchMethod::End),
    criterion("hdr_len", "req.hdr", MatchMethod::Len),
    criterion("hdr_reg", "req.hdr", MatchMethod::Reg),
    criterion("hdr_sub", "req.hdr", MatchMethod::Sub),
    criterion("path_beg", "path", MatchMethod::Beg),
    criterion("path_dir", "path", MatchMethod::Dir),
    criterion("path_dom", "path", MatchMethod::Dom),
    criterion("path_end", "path", MatchMethod::End),
    criterion("path_len", "path", MatchMethod::Len),
    criterion("path_reg", "path", MatchMethod::Reg),
    criterion("path_sub", "path", MatchMethod::Sub),
    criterion("scook_beg", "res.cook", MatchMethod::Beg),
    criterion("scook_dir", "res.cook", MatchMethod::Dir),
    criterion("scook_dom", "res.cook", MatchMethod::Dom),
    criterion("scook_end", "res.cook", MatchMethod::End),
    criterion("scook_len", "res.cook", MatchMethod::Len),
    criterion("scook_reg", "res.cook", MatchMethod::Reg),
    criterion("scook_sub", "res.cook", MatchMethod::Sub),
    criterion("shdr_beg", "res.hdr", MatchMethod::Beg),
    criterion("shdr_dir", "res.hdr", MatchMethod::Dir),
    criterion("shdr_dom", "res.hdr", MatchMethod::Dom),
    criterion("shdr_end", "res.hdr", MatchMethod::End),
    criterion("shdr_len", "res.hdr", MatchMethod::Len),
    criterion("shdr_reg", "res.hdr", MatchMethod::Reg),
    criterion("shdr_sub", "res.hdr", MatchMethod::Sub),
    criterion("ssl_fc_sni_end", "ssl_fc_sni", MatchMethod::End),
    criterion("ssl_fc_sni_reg", "ssl_fc_sni", MatchMethod::Reg),
    criterion("url_beg", "url", MatchMethod::Beg),
    criterion("url_dir", "url", MatchMethod::Dir),
    criterion("url_dom", "url", MatchMethod::Dom),
    criterion("url_end", "url", MatchMethod::End),
    criterion("url_len", "url", MatchMethod::Len),
    criterion("url_reg", "url", MatchMethod::Reg),
    criterion("url_sub", "url", MatchMethod::Sub),
    criterion("urlp_beg", "urlp", MatchMethod::Beg),
    criterion("urlp_dir", "urlp", MatchMethod::Dir),
    criterion("urlp_dom", "urlp", MatchMethod::Dom),
    criterion("urlp_end", "urlp", MatchMethod::End),
    criterion("urlp_len", "urlp", MatchMethod::Len),
    criterion("urlp_reg", "urlp", MatchMethod::Reg),
    criterion("urlp_sub", "urlp", MatchMethod::Sub),
];

const fn criterion(name: &'static str, fetch: &'static str, method: MatchMethod) -> Criterion {
    Criterion { name, fetch, method }
}
