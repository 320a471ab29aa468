//! Conditions: `if` and `unless`, and combinations of ACLs (HAProxy's manual, §7.2).

use std::sync::Arc;

use crate::rules::compile_context::CompileContext;
use crate::rules::eval_context::EvalContext;
use crate::rules::nearest;
use crate::rules::sample_phase::SamplePhase;
use crate::rules::words::{Word, WordCursor, WordError};

pub use crate::rules::acl::{Acl, Acls, Criterion, MatchResult};

/// The condition of a rule.
#[derive(Clone, Debug)]
pub struct Condition {
    /// `unless`.
    negated: bool,
    /// The alternatives between `or`: one must hold.
    alternatives: Vec<Vec<Term>>,
}

/// An ACL, possibly negated.
#[derive(Clone, Debug)]
struct Term {
    negated: bool,
    lists: Vec<Arc<Acl>>,
}

impl Condition {
    /// Parses `if` or `unless`, and all following words.
    ///
    /// # Errors
    /// An ACL is unknown, or an anonymous one is invalid.
    pub fn parse(
        words: &mut WordCursor<'_>,
        context: &CompileContext<'_>,
    ) -> Result<Self, WordError> {
        let negated = match words.expect("'if' or 'unless'")? {
            word if word.text == "if" => false,
            word if word.text == "unless" => true,
            word => {
                let message = format!("expected 'if' or 'unless', not '{}'", word.text);
                return Err(WordError::unknown(word.column, message));
            }
        };
        Self::parse_terms(negated, words, context)
    }

    /// Parses terms without `if`: `a !b or { path / }`.
    ///
    /// # Errors
    /// As [`Condition::parse`].
    pub fn parse_bare(
        words: &mut WordCursor<'_>,
        context: &CompileContext<'_>,
    ) -> Result<Self, WordError> {
        Self::parse_terms(false, words, context)
    }

    fn parse_terms(
        negated: bool,
        words: &mut WordCursor<'_>,
        context: &CompileContext<'_>,
    ) -> Result<Self, WordError> {
        let mut alternatives = vec![Vec::new()];
        loop {
            let is_empty = alternatives.last().is_none_or(Vec::is_empty);
            let Some(word) = words.peek() else {
                if is_empty {
                    words.expect("an ACL name or '{ criterion }'")?;
                }
                return Ok(Self { negated, alternatives });
            };
            if word.text == "or" || word.text == "||" {
                if is_empty {
                    let message = format!("missing condition before '{}'", word.text);
                    return Err(WordError::new(word.column, message));
                }
                words.next();
                alternatives.push(Vec::new());
                continue;
            }
            let term = parse_term(words, context)?;
            alternatives.last_mut().expect("there is always one").push(term);
        }
    }

    /// Evaluates the condition; undecided tests count as failed.
    pub fn holds(&self, subject: &dyn EvalContext) -> bool {
        (self.verdict(subject) == MatchResult::Yes) != self.negated
    }

    /// Evaluates the condition; `None` if it is undecided until more data of the connection arrives
    /// (while [`Payload::complete`](crate::rules::eval_context::Payload) is false).
    pub fn check(&self, subject: &dyn EvalContext) -> Option<bool> {
        match self.verdict(subject) {
            MatchResult::Open => None,
            verdict => Some((verdict == MatchResult::Yes) != self.negated),
        }
    }

    /// One alternative must hold, with all its terms.
    fn verdict(&self, subject: &dyn EvalContext) -> MatchResult {
        let mut any = MatchResult::No;
        for terms in &self.alternatives {
            let mut all = MatchResult::Yes;
            for term in terms {
                all = all.min(term.test(subject));
                if all == MatchResult::No {
                    break;
                }
            }
            any = any.max(all);
            if any == MatchResult::Yes {
                break;
            }
        }
        any
    }

    /// All ACLs of the condition.
    pub fn acls(&self) -> impl Iterator<Item = &Acl> {
        self.alternatives.iter().flatten().flat_map(|term| &term.lists).map(AsRef::as_ref)
    }

    /// The phases of its samples. A sample without a value when the rule is evaluated never
    /// matches, which deserves a warning.
    pub fn phases(&self) -> impl Iterator<Item = SamplePhase> {
        self.acls().map(Acl::phase)
    }
}

impl Term {
    fn test(&self, subject: &dyn EvalContext) -> MatchResult {
        let mut any = MatchResult::No;
        for list in &self.lists {
            any = any.max(list.test(subject));
            if any == MatchResult::Yes {
                break;
            }
        }
        match (self.negated, any) {
            (true, MatchResult::Yes) => MatchResult::No,
            (true, MatchResult::No) => MatchResult::Yes,
            (_, any) => any,
        }
    }
}

/// `name`, `!name`, `{ criterion }` or `!{ criterion }`, with any number of `!`.
fn parse_term(words: &mut WordCursor<'_>, context: &CompileContext<'_>) -> Result<Term, WordError> {
    let mut negated = false;
    loop {
        let word = words.expect("an ACL name or '{ criterion }'")?;
        let name = word.text.trim_start_matches('!');
        negated ^= (word.text.len() - name.len()) % 2 == 1;
        let lists = match name {
            "" => continue,
            "{" => vec![Arc::new(anonymous(word, words, context)?)],
            name => named(name, word, context)?,
        };
        return Ok(Term { negated, lists });
    }
}

fn anonymous(
    brace: &Word,
    words: &mut WordCursor<'_>,
    context: &CompileContext<'_>,
) -> Result<Acl, WordError> {
    let mut inside = Vec::new();
    loop {
        match words.next() {
            Some(word) if word.text == "}" => {
                return Acl::parse(&mut WordCursor::new(&inside, word.column), context.files);
            }
            Some(word) => inside.push(word.clone()),
            None => {
                let message = "missing closing ' }' for this '{' (with a blank before it)";
                return Err(WordError::new(brace.column, message));
            }
        }
    }
}

fn named(
    name: &str,
    word: &Word,
    context: &CompileContext<'_>,
) -> Result<Vec<Arc<Acl>>, WordError> {
    if let Some(lists) = context.acls.get(name) {
        return Ok(lists.clone());
    }
    let Some((_, text)) = PREDEFINED.iter().find(|(known, _)| *known == name) else {
        let declared = context.acls.keys().map(String::as_str);
        let known = declared.chain(PREDEFINED.iter().map(|(known, _)| *known));
        let message = nearest::unknown("ACL", name, known);
        return Err(WordError::new(word.column, message));
    };
    let words: Vec<Word> =
        text.split(' ').map(|text| Word { text: text.to_owned(), column: word.column }).collect();
    Ok(vec![Arc::new(Acl::parse(&mut WordCursor::new(&words, word.column), context.files)?)])
}

/// Predefined ACLs (§7.4).
pub const PREDEFINED: &[(&str, &str)] = &[
    ("FALSE", "always_false"),
    ("HTTP", "req.proto_http"),
    ("HTTP_1.0", "req.ver 1.0"),
    ("HTTP_1.1", "req.ver 1.1"),
    ("HTTP_2.0", "req.ver 2.0"),
    ("HTTP_CONTENT", "req.hdr_val(content-length) gt 0"),
    ("HTTP_URL_ABS", "url_reg ^[^/:]*://"),
    ("HTTP_URL_SLASH", "url_beg /"),
    ("HTTP_URL_STAR", "url *"),
    ("LOCALHOST", "src 127.0.0.1/8 ::1"),
    ("METH_CONNECT", "method CONNECT"),
    ("METH_DELETE", "method DELETE"),
    ("METH_GET", "method GET HEAD"),
    ("METH_HEAD", "method HEAD"),
    ("METH_OPTIONS", "method OPTIONS"),
    ("METH_POST", "method POST"),
    ("METH_PUT", "method PUT"),
    ("METH_TRACE", "method TRACE"),
    ("RDP_COOKIE", "req.rdp_cookie_cnt gt 0"),
    ("REQ_CONTENT", "req.len gt 0"),
    ("TRUE", "always_true"),
    ("WAIT_END", "wait_end"),
];
