//! Access control lists: an expression, and patterns for its value (HAProxy's manual, §7.1).

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::rules::expression::{Expression, split_name};
use crate::rules::fetch;
use crate::rules::lists::{self, Files, Matcher, Use, Used};
use crate::rules::map;
use crate::rules::pattern::{self, Method};
use crate::rules::sample::Sample;
use crate::rules::subject::Subject;
use crate::rules::when::Phase;
use crate::rules::words::{Fault, Word, Words};

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
pub enum Verdict {
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
    pub fn parse(words: &mut Words<'_>, files: &dyn Files) -> Result<Self, Fault> {
        let word = words.expect("a criterion (a fetch method, for example 'path_beg')")?;
        let (name, _) = split_name(&word.text);
        let criterion = Criterion::named(name);
        let Some(fetch) = fetch::find(criterion.map_or(name, |it| it.fetch)) else {
            let criteria = CRITERIA.iter().map(|criterion| criterion.name);
            return Err(Fault::unknown(word.column, fetch::unknown(name, criteria)));
        };
        let (expression, rest) =
            Expression::begin(&word.text, word.column, files, |_| Some(fetch))?;
        if !rest.is_empty() {
            let message = format!("unexpected '{rest}' after the criterion");
            return Err(Fault::new(word.column, message));
        }
        let implied = match criterion {
            Some(criterion) if !expression.is_converted() => Some(criterion.method),
            _ => Method::of(expression.kind()),
        };
        let patterns = Vec::new();
        let mut flags = Flags { patterns, implied, word, ignore_case: false, is_map: false };
        flags.parse(words, &expression, files)?;
        let patterns = flags.finish(words, &expression, files)?;
        Ok(Self { expression, patterns })
    }

    /// Tests the values of the expression against the patterns.
    pub fn test(&self, subject: &dyn Subject) -> Verdict {
        let mut verdict = Verdict::No;
        let may_change = self.expression.each(subject, &mut |value| {
            if self.matches(value) {
                verdict = Verdict::Yes;
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        if may_change { verdict.max(Verdict::Open) } else { verdict }
    }

    fn matches(&self, value: Sample<'_>) -> bool {
        let Some((last, files)) = self.patterns.split_last() else { return false };
        files.iter().any(|it| it.matches(value.clone())) || last.matches(value)
    }

    /// When its expression has a value.
    pub fn phase(&self) -> Phase {
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
    pub method: Method,
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
struct Flags<'w> {
    /// From files. After the first, the match method is fixed.
    patterns: Vec<Arc<Matcher>>,
    implied: Option<Method>,
    word: &'w Word,
    ignore_case: bool,
    is_map: bool,
}

impl Flags<'_> {
    fn parse(
        &mut self,
        words: &mut Words<'_>,
        expression: &Expression,
        files: &dyn Files,
    ) -> Result<(), Fault> {
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
                    self.patterns.push(loaded.map_err(|why| Fault::new(path.column, why))?);
                }
                other => {
                    let message = format!(
                        "unknown flag '{other}', expected one of -i, -n, -m, -f, -M, -u, -- (use \
                         '--' before a value that starts with '-')"
                    );
                    return Err(Fault::unknown(flag.column, message));
                }
            }
        }
        Ok(())
    }

    fn set_method(&mut self, word: &Word) -> Result<(), Fault> {
        if !self.patterns.is_empty() {
            return Err(Fault::new(word.column, "'-m' must be before '-f'"));
        }
        let Some(method) = Method::named(&word.text) else {
            let message = format!(
                "unknown match method '{}', expected one of found, bool, int, ip, bin, len, str, \
                 beg, sub, dir, dom, end, reg",
                word.text
            );
            return Err(Fault::unknown(word.column, message));
        };
        self.implied = Some(method);
        Ok(())
    }

    /// How patterns are compared.
    fn how(&self, expression: &Expression) -> Result<Use, Fault> {
        Ok(Use { method: self.method(expression)?, ignore_case: self.ignore_case, to: None })
    }

    fn used(&self, files: &dyn Files) -> Used {
        let criterion = split_name(&self.word.text).0.to_owned();
        Used { by_map: false, criterion, place: files.place() }
    }

    fn method(&self, expression: &Expression) -> Result<Method, Fault> {
        let kind = expression.kind();
        let Some(method) = self.implied else {
            let message = format!(
                "samples of type {kind} have no default match method: set one with '-m', for \
                 example '-m str'"
            );
            return Err(Fault::new(self.word.column, message));
        };
        if !kind.casts_to(method.compares()) {
            let message =
                format!("samples of type {kind} cannot be matched as {}", method.compares());
            return Err(Fault::new(self.word.column, message));
        }
        Ok(method)
    }

    /// Adds the patterns of the line to those of files.
    fn finish(
        mut self,
        words: &mut Words<'_>,
        expression: &Expression,
        files: &dyn Files,
    ) -> Result<Vec<Arc<Matcher>>, Fault> {
        let how = self.how(expression)?;
        let (keys, columns) = values(words, how.method)?;
        let list = lists::of_line(keys, files);
        let matcher = list.matcher(self.used(files), how).map_err(|wrong| {
            let column = wrong.line.and_then(|at| columns.get(at)).copied();
            Fault::new(column.unwrap_or(self.word.column), wrong.why)
        })?;
        self.patterns.push(matcher);
        Ok(self.patterns)
    }
}

/// The patterns in a line, and their columns.
fn values(words: &mut Words<'_>, method: Method) -> Result<(Vec<String>, Vec<u32>), Fault> {
    let mut operator = None;
    let (mut keys, mut columns) = (Vec::new(), Vec::new());
    while let Some(word) = words.next() {
        if method.has_operators() && OPERATORS.contains(&word.text.as_str()) {
            operator = Some(word.text.as_str());
            if words.is_empty() {
                let message = format!("expected a number after '{}'", word.text);
                return Err(Fault::new(words.column(), message));
            }
            continue;
        }
        let key = match operator {
            Some(operator) => pattern::comparison(method, operator, &word.text)
                .map_err(|why| Fault::new(word.column, why))?,
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
    criterion("hdr", "req.hdr", Method::Str),
    criterion("payload", "req.payload", Method::Bin),
    criterion("payload_lv", "req.payload_lv", Method::Bin),
    criterion("req.payload", "req.payload", Method::Bin),
    criterion("req.payload_lv", "req.payload_lv", Method::Bin),
    criterion("req.ssl_ver", "req.ssl_ver", Method::Version),
    criterion("req_ssl_ver", "req.ssl_ver", Method::Version),
    criterion("base_beg", "base", Method::Beg),
    criterion("base_dir", "base", Method::Dir),
    criterion("base_dom", "base", Method::Dom),
    criterion("base_end", "base", Method::End),
    criterion("base_len", "base", Method::Len),
    criterion("base_reg", "base", Method::Reg),
    criterion("base_sub", "base", Method::Sub),
    criterion("cook_beg", "req.cook", Method::Beg),
    criterion("cook_dir", "req.cook", Method::Dir),
    criterion("cook_dom", "req.cook", Method::Dom),
    criterion("cook_end", "req.cook", Method::End),
    criterion("cook_len", "req.cook", Method::Len),
    criterion("cook_reg", "req.cook", Method::Reg),
    criterion("cook_sub", "req.cook", Method::Sub),
    criterion("hdr_beg", "req.hdr", Method::Beg),
    criterion("hdr_dir", "req.hdr", Method::Dir),
    criterion("hdr_dom", "req.hdr", Method::Dom),
    criterion("hdr_end", "req.hdr", Method::End),
    criterion("hdr_len", "req.hdr", Method::Len),
    criterion("hdr_reg", "req.hdr", Method::Reg),
    criterion("hdr_sub", "req.hdr", Method::Sub),
    criterion("path_beg", "path", Method::Beg),
    criterion("path_dir", "path", Method::Dir),
    criterion("path_dom", "path", Method::Dom),
    criterion("path_end", "path", Method::End),
    criterion("path_len", "path", Method::Len),
    criterion("path_reg", "path", Method::Reg),
    criterion("path_sub", "path", Method::Sub),
    criterion("scook_beg", "res.cook", Method::Beg),
    criterion("scook_dir", "res.cook", Method::Dir),
    criterion("scook_dom", "res.cook", Method::Dom),
    criterion("scook_end", "res.cook", Method::End),
    criterion("scook_len", "res.cook", Method::Len),
    criterion("scook_reg", "res.cook", Method::Reg),
    criterion("scook_sub", "res.cook", Method::Sub),
    criterion("shdr_beg", "res.hdr", Method::Beg),
    criterion("shdr_dir", "res.hdr", Method::Dir),
    criterion("shdr_dom", "res.hdr", Method::Dom),
    criterion("shdr_end", "res.hdr", Method::End),
    criterion("shdr_len", "res.hdr", Method::Len),
    criterion("shdr_reg", "res.hdr", Method::Reg),
    criterion("shdr_sub", "res.hdr", Method::Sub),
    criterion("ssl_fc_sni_end", "ssl_fc_sni", Method::End),
    criterion("ssl_fc_sni_reg", "ssl_fc_sni", Method::Reg),
    criterion("url_beg", "url", Method::Beg),
    criterion("url_dir", "url", Method::Dir),
    criterion("url_dom", "url", Method::Dom),
    criterion("url_end", "url", Method::End),
    criterion("url_len", "url", Method::Len),
    criterion("url_reg", "url", Method::Reg),
    criterion("url_sub", "url", Method::Sub),
    criterion("urlp_beg", "urlp", Method::Beg),
    criterion("urlp_dir", "urlp", Method::Dir),
    criterion("urlp_dom", "urlp", Method::Dom),
    criterion("urlp_end", "urlp", Method::End),
    criterion("urlp_len", "urlp", Method::Len),
    criterion("urlp_reg", "urlp", Method::Reg),
    criterion("urlp_sub", "urlp", Method::Sub),
];

const fn criterion(name: &'static str, fetch: &'static str, method: Method) -> Criterion {
    Criterion { name, fetch, method }
}
