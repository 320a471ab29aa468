//! Contexts for evaluation, and helpers for parsing.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;

use fulmar_haproxy::rules::eval_context::{Fact, Payload, Variable};
use fulmar_haproxy::rules::{
    Acl, Acls, CompileContext, Condition, ConfigFiles, EvalContext, Expression, RequestHead,
    ResponseHead, Sample, Word, WordCursor, WordError,
};
use fulmar_proto::{HeaderBuf, Headers};

/// An exchange with given values.
#[derive(Debug, Default)]
pub struct Given {
    pub request: Option<RequestHead>,
    pub response: Option<ResponseHead>,
    pub request_hops: HeaderBuf,
    pub source: Option<SocketAddr>,
    pub payload: Vec<u8>,
    pub complete: bool,
    pub body: Vec<u8>,
    pub variables: HashMap<Variable, Sample<'static>>,
    pub facts: Vec<(Fact, Sample<'static>)>,
}

impl Given {
    /// The first bytes of a connection.
    pub fn payload(bytes: &[u8], complete: bool) -> Self {
        Self { payload: bytes.to_vec(), complete, ..Self::default() }
    }

    /// A request with fields.
    pub fn request(method: &str, target: &str, fields: &[(&str, &str)]) -> Self {
        let head = RequestHead {
            method: method.into(),
            target: target.into(),
            fields: fields_of(fields),
            ..RequestHead::default()
        };
        Self { request: Some(head), ..Self::default() }
    }

    /// A response with fields.
    pub fn response(status: u16, fields: &[(&str, &str)]) -> Self {
        let head = ResponseHead { status, fields: fields_of(fields), ..ResponseHead::default() };
        Self { response: Some(head), ..Self::default() }
    }

    /// The value of an expression as text.
    pub fn value(&self, expression: &str) -> Option<String> {
        let expression = parsed(expression).unwrap_or_else(|fault| panic!("{fault:?}"));
        let value = expression.evaluate(self)?.into_text().expect("everything can be text");
        Some(String::from_utf8_lossy(&value).into_owned())
    }

    /// Evaluates a condition; `None` if it is undecided.
    pub fn check(&self, text: &str) -> Option<bool> {
        let condition = condition(text).unwrap_or_else(|fault| panic!("{text}: {fault:?}"));
        let verdict = condition.check(self);
        assert_eq!(
            condition.holds(self),
            verdict.unwrap_or_else(|| text.starts_with("unless")),
            "{text}"
        );
        verdict
    }
}

fn fields_of(fields: &[(&str, &str)]) -> HeaderBuf {
    let mut buf = HeaderBuf::new();
    for (name, value) in fields {
        buf.push(name, value.as_bytes()).expect("a field");
    }
    buf
}

impl EvalContext for Given {
    fn request(&self) -> Option<&RequestHead> {
        self.request.as_ref()
    }

    fn response(&self) -> Option<&ResponseHead> {
        self.response.as_ref()
    }

    fn source(&self) -> Option<SocketAddr> {
        self.source
    }

    fn payload(&self) -> Payload<'_> {
        Payload { bytes: &self.payload, complete: self.complete }
    }

    fn body(&self) -> Payload<'_> {
        Payload { bytes: &self.body, complete: true }
    }

    fn request_hop_fields(&self) -> Headers<'_> {
        self.request_hops.as_headers()
    }

    fn variable(&self, variable: &Variable) -> Option<Sample<'_>> {
        self.variables.get(variable).cloned()
    }

    fn fact(&self, fact: &Fact) -> Option<Sample<'_>> {
        self.facts.iter().find(|(known, _)| known == fact).map(|(_, value)| value.clone())
    }
}

/// Files by name.
#[derive(Debug, Default)]
pub struct NamedFiles(pub HashMap<String, Vec<u8>>);

impl ConfigFiles for NamedFiles {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        self.0.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn environment(&self, name: &str) -> Option<String> {
        (name == "SET").then(|| "value".to_owned())
    }
}

/// Parses an expression without files.
pub fn parsed(text: &str) -> Result<Expression, WordError> {
    let files = NamedFiles::default();
    Expression::parse_in(text, 1, &files)
}

/// Parses a condition without files and ACLs.
pub fn condition(text: &str) -> Result<Condition, WordError> {
    let (acls, files) = (Acls::new(), NamedFiles::default());
    condition_in(text, &CompileContext { acls: &acls, files: &files })
}

/// Parses a condition; the columns of its words count from 1.
pub fn condition_in(text: &str, context: &CompileContext<'_>) -> Result<Condition, WordError> {
    let words = words(text);
    let end = u32::try_from(text.len() + 1).expect("a short line");
    Condition::parse(&mut WordCursor::new(&words, end), context)
}

/// Parses an ACL without its name.
pub fn acl_in(text: &str, context: &CompileContext<'_>) -> Result<Acl, WordError> {
    let words = words(text);
    let end = u32::try_from(text.len() + 1).expect("a short line");
    Acl::parse(&mut WordCursor::new(&words, end), context.files)
}

/// Splits words at blanks.
pub fn words(line: &str) -> Vec<Word> {
    let begin = line.as_ptr() as usize;
    let parts = line.split(' ').filter(|part| !part.is_empty());
    let column = |part: &str| u32::try_from(part.as_ptr() as usize - begin + 1);
    parts
        .map(|part| Word { text: part.to_owned(), column: column(part).expect("a short line") })
        .collect()
}
