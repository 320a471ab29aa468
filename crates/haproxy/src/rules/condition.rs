//! Conditions: `if` and `unless`, and how access control lists are combined (HAProxy's manual,
//! §7.2).

use std::sync::Arc;

use crate::rules::context::Context;
use crate::rules::nearest;
use crate::rules::subject::Subject;
use crate::rules::when::Phase;
use crate::rules::words::{Fault, Word, Words};

pub use crate::rules::acl::{Acl, Acls, Criterion, Verdict};

/// Whether a rule applies.
#[derive(Clone, Debug)]
pub struct Condition {
    /// `unless`.
    negated: bool,
    /// What stands between `or`: one of them has to hold.
    alternatives: Vec<Vec<Term>>,
}

/// A list, or the opposite of one.
#[derive(Clone, Debug)]
struct Term {
    negated: bool,
    lists: Vec<Arc<Acl>>,
}

impl Condition {
    /// From `if` or `unless`, and all words that follow.
    ///
    /// # Errors
    /// A list is not known, or what stands between braces is wrong.
    pub fn parse(words: &mut Words<'_>, context: &Context<'_>) -> Result<Self, Fault> {
        let negated = match words.expect("'if' or 'unless'")? {
            word if word.text == "if" => false,
            word if word.text == "unless" => true,
            word => {
                let message = format!("'if' or 'unless' has to stand here, not '{}'", word.text);
                return Err(Fault::unknown(word.column, message));
            }
        };
        Self::parse_terms(negated, words, context)
    }

    /// From the terms alone: `a !b or { path / }`, where no `if` is written.
    ///
    /// # Errors
    /// As [`Condition::parse`].
    pub fn parse_bare(words: &mut Words<'_>, context: &Context<'_>) -> Result<Self, Fault> {
        Self::parse_terms(false, words, context)
    }

    fn parse_terms(
        negated: bool,
        words: &mut Words<'_>,
        context: &Context<'_>,
    ) -> Result<Self, Fault> {
        let mut alternatives = vec![Vec::new()];
        loop {
            let is_empty = alternatives.last().is_none_or(Vec::is_empty);
            let Some(word) = words.peek() else {
                if is_empty {
                    words.expect("the name of a list, or { a criterion }")?;
                }
                return Ok(Self { negated, alternatives });
            };
            if word.text == "or" || word.text == "||" {
                if is_empty {
                    let message = format!("there is nothing before '{}'", word.text);
                    return Err(Fault::new(word.column, message));
                }
                words.next();
                alternatives.push(Vec::new());
                continue;
            }
            let term = parse_term(words, context)?;
            alternatives.last_mut().expect("there is always one").push(term);
        }
    }

    /// Whether it holds; a test that more bytes would have to decide has failed.
    pub fn holds(&self, subject: &dyn Subject) -> bool {
        (self.verdict(subject) == Verdict::Yes) != self.negated
    }

    /// Whether it holds, if that can be told yet: `None` if more bytes of the connection may
    /// decide ([`Payload::complete`](crate::rules::subject::Payload) says that none will come).
    pub fn check(&self, subject: &dyn Subject) -> Option<bool> {
        match self.verdict(subject) {
            Verdict::Open => None,
            verdict => Some((verdict == Verdict::Yes) != self.negated),
        }
    }

    /// One alternative has to hold, with all that stands in it.
    fn verdict(&self, subject: &dyn Subject) -> Verdict {
        let mut any = Verdict::No;
        for terms in &self.alternatives {
            let mut all = Verdict::Yes;
            for term in terms {
                all = all.min(term.test(subject));
                if all == Verdict::No {
                    break;
                }
            }
            any = any.max(all);
            if any == Verdict::Yes {
                break;
            }
        }
        any
    }

    /// Everything that it looks at.
    pub fn acls(&self) -> impl Iterator<Item = &Acl> {
        self.alternatives.iter().flatten().flat_map(|term| &term.lists).map(AsRef::as_ref)
    }

    /// The phases of what it looks at: one that is not there when the rule is looked at never
    /// matches, and deserves a warning.
    pub fn phases(&self) -> impl Iterator<Item = Phase> {
        self.acls().map(Acl::phase)
    }
}

impl Term {
    fn test(&self, subject: &dyn Subject) -> Verdict {
        let mut any = Verdict::No;
        for list in &self.lists {
            any = any.max(list.test(subject));
            if any == Verdict::Yes {
                break;
            }
        }
        match (self.negated, any) {
            (true, Verdict::Yes) => Verdict::No,
            (true, Verdict::No) => Verdict::Yes,
            (_, any) => any,
        }
    }
}

/// `name`, `!name`, `{ criterion }` or `!{ criterion }`, with any number of `!`.
fn parse_term(words: &mut Words<'_>, context: &Context<'_>) -> Result<Term, Fault> {
    let mut negated = false;
    loop {
        let word = words.expect("the name of a list, or { a criterion }")?;
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

fn anonymous(brace: &Word, words: &mut Words<'_>, context: &Context<'_>) -> Result<Acl, Fault> {
    let mut inside = Vec::new();
    loop {
        match words.next() {
            Some(word) if word.text == "}" => {
                return Acl::parse(&mut Words::new(&inside, word.column), context.files);
            }
            Some(word) => inside.push(word.clone()),
            None => {
                let message = "this '{' is not closed: ' }' is missing, with a blank before it";
                return Err(Fault::new(brace.column, message));
            }
        }
    }
}

fn named(name: &str, word: &Word, context: &Context<'_>) -> Result<Vec<Arc<Acl>>, Fault> {
    if let Some(lists) = context.acls.get(name) {
        return Ok(lists.clone());
    }
    let Some((_, text)) = PREDEFINED.iter().find(|(known, _)| *known == name) else {
        let declared = context.acls.keys().map(String::as_str);
        let known = declared.chain(PREDEFINED.iter().map(|(known, _)| *known));
        let message = nearest::unknown("list (acl)", name, known);
        return Err(Fault::new(word.column, message));
    };
    let words: Vec<Word> =
        text.split(' ').map(|text| Word { text: text.to_owned(), column: word.column }).collect();
    Ok(vec![Arc::new(Acl::parse(&mut Words::new(&words, word.column), context.files)?)])
}

/// Lists that need not be declared (§7.4).
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
