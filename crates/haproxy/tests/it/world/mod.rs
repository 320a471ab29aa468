//! A recorded exchange for tests of rules.

#![allow(dead_code, reason = "each test needs part of it")]

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;

use fulmar_haproxy::rules::eval_context::{Fact, LogField, Payload, Variable, VariableScope};
use fulmar_haproxy::rules::http::{HttpRule, HttpVerdict, RuleSet, RulesProgress, run};
use fulmar_haproxy::rules::tcp::{TcpRule, TcpSet};
use fulmar_haproxy::rules::{
    Acls, CompileContext, ConfigFiles, Effect, EvalContext, EvalContextMut, RequestHead,
    ResponseHead, Sample, Word, WordCursor, WordError,
};
use fulmar_proto::HeaderBuf;

/// The input of rules, and their effects.
#[derive(Debug, Default)]
pub(crate) struct EvalWorld {
    pub(crate) request: Option<RequestHead>,
    pub(crate) response: Option<ResponseHead>,
    pub(crate) source: Option<SocketAddr>,
    pub(crate) destination: Option<SocketAddr>,
    pub(crate) payload: Vec<u8>,
    pub(crate) complete: bool,
    pub(crate) variables: HashMap<Variable, Sample<'static>>,
    pub(crate) facts: Vec<(Fact, Sample<'static>)>,
    /// Effects as text, except for variables and addresses.
    pub(crate) effects: Vec<String>,
}

impl EvalWorld {
    /// With a request.
    pub(crate) fn asking(method: &str, target: &str, fields: &[(&str, &[u8])]) -> Self {
        let request = RequestHead {
            method: method.into(),
            target: target.into(),
            fields: buf(fields),
            ..RequestHead::default()
        };
        Self {
            request: Some(request),
            source: "192.0.2.7:4711".parse().ok(),
            destination: "192.0.2.1:80".parse().ok(),
            ..Self::default()
        }
    }

    /// The same with a response.
    pub(crate) fn answered(self, status: u16, fields: &[(&str, &[u8])]) -> Self {
        let response = ResponseHead { status, fields: buf(fields), ..ResponseHead::default() };
        Self { response: Some(response), ..self }
    }

    /// With a variable `txn.evil` from a client.
    pub(crate) fn evil(mut self, value: &[u8]) -> Self {
        let variable = Variable { scope: VariableScope::Txn, name: "evil".into() };
        self.variables.insert(variable, Sample::Text(value.to_vec().into()));
        self
    }

    /// With a fact of the proxy.
    pub(crate) fn knowing(mut self, fact: Fact, value: Sample<'static>) -> Self {
        self.facts.push((fact, value));
        self
    }

    /// With a log variable of the proxy.
    pub(crate) fn logging(self, field: LogField, value: Sample<'static>) -> Self {
        self.knowing(Fact::Log(field), value)
    }

    pub(crate) fn target(&self) -> String {
        String::from_utf8_lossy(&self.request.as_ref().expect("as the test says").target)
            .into_owned()
    }

    /// The fields that rules change, as lines.
    pub(crate) fn fields(&self) -> Vec<String> {
        let response = self.response.as_ref().map(|head| &head.fields);
        lines(response.unwrap_or_else(|| &self.request.as_ref().expect("as the test says").fields))
    }
}

fn buf(fields: &[(&str, &[u8])]) -> HeaderBuf {
    let mut buf = HeaderBuf::new();
    for (name, value) in fields {
        buf.push(name, value).expect("as the test says");
    }
    buf
}

/// Fields as lines.
pub(crate) fn lines(fields: &HeaderBuf) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    fields.iter().map(|(name, value)| format!("{}: {}", text(name), text(value))).collect()
}

impl EvalContext for EvalWorld {
    fn request(&self) -> Option<&RequestHead> {
        self.request.as_ref()
    }

    fn response(&self) -> Option<&ResponseHead> {
        self.response.as_ref()
    }

    fn source(&self) -> Option<SocketAddr> {
        self.source
    }

    fn destination(&self) -> Option<SocketAddr> {
        self.destination
    }

    fn payload(&self) -> Payload<'_> {
        Payload { bytes: &self.payload, complete: self.complete }
    }

    fn variable(&self, variable: &Variable) -> Option<Sample<'_>> {
        self.variables.get(variable).cloned()
    }

    fn fact(&self, fact: &Fact) -> Option<Sample<'_>> {
        self.facts.iter().find(|(known, _)| known == fact).map(|(_, value)| value.clone())
    }
}

impl EvalContextMut for EvalWorld {
    fn request_mut(&mut self) -> Option<&mut RequestHead> {
        self.request.as_mut()
    }

    fn response_mut(&mut self) -> Option<&mut ResponseHead> {
        self.response.as_mut()
    }

    fn apply(&mut self, effect: Effect<'_>) {
        match effect {
            Effect::SetVariable(variable, value) => {
                self.variables.insert(variable.clone(), value);
            }
            Effect::UnsetVariable(variable) => {
                self.variables.remove(variable);
            }
            Effect::Source(address) => self.source = Some(address),
            Effect::Destination(address) => self.destination = Some(address),
            Effect::Capture(slot, value) => {
                self.effects.push(format!("{slot:?} {}", String::from_utf8_lossy(&value)));
            }
            Effect::EarlyHint(name, value) => {
                self.effects.push(format!("{name}: {}", String::from_utf8_lossy(&value)));
            }
            other => self.effects.push(format!("{other:?}")),
        }
    }
}

/// Files with constant contents.
#[derive(Debug)]
pub(crate) struct ConstantFiles;

impl ConfigFiles for ConstantFiles {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let found = FILES.iter().find(|(name, _)| *name == path).map(|(_, bytes)| bytes.to_vec());
        found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such file"))
    }
}

const FILES: &[(&str, &[u8])] = &[
    ("/nothing", b""),
    ("/page", b"<p>hello"),
    ("/format", b"you are %[src]\n"),
    ("/latin", b"\xe4"),
    ("/403.http", b"HTTP/1.0 403 Never\r\nX-Page: 1\r\nConnection: close\r\n\r\n<p>never\n"),
    ("/short.http", b"HTTP/1.0 403 Never\r\nContent-Length: 9\r\n\r\nnever"),
];

/// Splits a line at blanks; `'` quotes.
pub(crate) fn words(line: &str) -> (Vec<Word>, u32) {
    let mut words: Vec<Word> = Vec::new();
    let (mut quoted, mut open) = (false, false);
    for (at, c) in line.char_indices() {
        match c {
            ' ' if !quoted => open = false,
            _ => {
                if !open {
                    let column = u32::try_from(at + 1).expect("as the test says");
                    words.push(Word { text: String::new(), column });
                    open = true;
                }
                match c {
                    '\'' => quoted = !quoted,
                    c => words.last_mut().expect("as the test says").text.push(c),
                }
            }
        }
    }
    (words, u32::try_from(line.len() + 1).expect("as the test says"))
}

/// Runs a parser on a line.
pub(crate) fn read<T>(
    line: &str,
    parse: impl FnOnce(&mut WordCursor<'_>, &CompileContext<'_>) -> Result<T, WordError>,
) -> Result<T, WordError> {
    let (words, end) = words(line);
    let acls = Acls::default();
    parse(&mut WordCursor::new(&words, end), &CompileContext { acls: &acls, files: &ConstantFiles })
}

/// Parses an HTTP rule.
pub(crate) fn http_rule(set: RuleSet, line: &str) -> Result<HttpRule, WordError> {
    read(line, |words, context| HttpRule::parse(words, set, context))
}

/// Parses a TCP rule.
pub(crate) fn tcp_rule(set: TcpSet, line: &str) -> Result<TcpRule, WordError> {
    read(line, |words, context| TcpRule::parse(words, set, context))
}

/// Runs rules, and describes the result briefly.
pub(crate) fn outcome(set: RuleSet, rules: &[&str], world: &mut EvalWorld) -> String {
    let parse = |line: &&str| match http_rule(set, line) {
        Ok(rule) => rule,
        Err(fault) => panic!("{line}: {fault:?}"),
    };
    let rules: Vec<_> = rules.iter().map(parse).collect();
    let verdict = run(&rules, &mut RulesProgress::default(), world);
    describe(&verdict)
}

/// Describes a verdict briefly.
pub(crate) fn describe(verdict: &HttpVerdict<'_>) -> String {
    match verdict {
        HttpVerdict::Deny(reply) => format!("deny {}", reply.status),
        HttpVerdict::Tarpit(reply) => format!("tarpit {}", reply.status),
        HttpVerdict::Return(reply) => format!("return {}", reply.status),
        HttpVerdict::Redirect(head) => {
            format!("{} {}", head.status, lines(&head.fields).join(" | "))
        }
        HttpVerdict::Auth(realm) => format!("auth {}", realm.is_some()),
        other => format!("{other:?}"),
    }
}
