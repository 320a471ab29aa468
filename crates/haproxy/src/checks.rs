//! Health checks while they are read: `option httpchk` and `http-check`, `option tcp-check` and
//! `tcp-check` (HAProxy's configuration manual, §4.2).

use crate::model::{Check, CheckKind, CheckProtocol, CheckRequest, Expect, TcpStep};
use crate::rules::Format;

/// What is known of a backend's checks.
#[derive(Clone, Debug, Default)]
pub(crate) struct CheckDraft {
    /// What stands here was said by `defaults`: the first rule of one's own replaces it.
    pub(crate) inherited: bool,
    /// Which of both `option`s was said last.
    pub(crate) chosen: Chosen,
    /// The request of `option httpchk`.
    pub(crate) request: Option<Send>,
    pub(crate) http: Vec<HttpStep>,
    pub(crate) tcp: Vec<TcpStep>,
}

/// Which check it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Chosen {
    #[default]
    Connect,
    Http,
    Tcp,
    Protocol(CheckProtocol),
}

/// A line of `http-check`.
#[derive(Clone, Debug)]
pub(crate) enum HttpStep {
    Send(Send),
    Expect(Expect),
}

/// A request, as far as it was said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Send {
    pub(crate) method: Option<String>,
    pub(crate) target: Option<String>,
    pub(crate) http11: Option<bool>,
    pub(crate) fields: Vec<(String, Format)>,
    pub(crate) body: Vec<u8>,
}

impl CheckDraft {
    /// The rules of HTTP, of this section only.
    pub(crate) fn own_http(&mut self) -> &mut Vec<HttpStep> {
        self.forget_inherited();
        &mut self.http
    }

    /// The steps of TCP, of this section only.
    pub(crate) fn own_tcp(&mut self) -> &mut Vec<TcpStep> {
        self.forget_inherited();
        &mut self.tcp
    }

    /// The keyword of rules of its own that the chosen check does not look at.
    pub(crate) fn unused(&self) -> Option<&'static str> {
        match self.chosen {
            _ if self.inherited => None,
            Chosen::Http if self.tcp.is_empty() => None,
            Chosen::Http => Some("tcp-check"),
            _ if !self.http.is_empty() => Some("http-check"),
            Chosen::Tcp => None,
            _ if !self.tcp.is_empty() => Some("tcp-check"),
            _ => None,
        }
    }

    fn forget_inherited(&mut self) {
        if std::mem::take(&mut self.inherited) {
            self.http.clear();
            self.tcp.clear();
        }
    }

    /// The check, complete.
    pub(crate) fn finish(self) -> Check {
        let kind = match self.chosen {
            Chosen::Connect => CheckKind::Connect,
            Chosen::Protocol(protocol) => CheckKind::Protocol(protocol),
            Chosen::Tcp => CheckKind::Tcp { steps: self.tcp },
            Chosen::Http => CheckKind::Http { steps: http(self.request, self.http) },
        };
        Check { kind }
    }
}

/// Requests, each with what is expected of its answer. What the first one does not say, `option
/// httpchk` does.
fn http(option: Option<Send>, steps: Vec<HttpStep>) -> Vec<CheckRequest> {
    let option = option.unwrap_or_default();
    let mut requests: Vec<CheckRequest> = Vec::new();
    for step in steps {
        match step {
            HttpStep::Send(send) if requests.is_empty() => {
                requests.push(request(send.or(option.clone())));
            }
            HttpStep::Send(send) => requests.push(request(send)),
            HttpStep::Expect(expect) => match requests.last_mut() {
                Some(request) => request.expects.push(expect),
                None => {
                    let mut request = request(option.clone());
                    request.expects.push(expect);
                    requests.push(request);
                }
            },
        }
    }
    if requests.is_empty() {
        requests.push(request(option));
    }
    requests
}

impl Send {
    fn or(self, other: Self) -> Self {
        Self {
            method: self.method.or(other.method),
            target: self.target.or(other.target),
            http11: self.http11.or(other.http11),
            fields: if self.fields.is_empty() { other.fields } else { self.fields },
            body: if self.body.is_empty() { other.body } else { self.body },
        }
    }
}

fn request(send: Send) -> CheckRequest {
    CheckRequest {
        method: send.method.unwrap_or_else(|| "OPTIONS".to_owned()),
        target: send.target.unwrap_or_else(|| "/".to_owned()),
        http11: send.http11.unwrap_or(false),
        fields: send.fields,
        body: send.body,
        expects: Vec::new(),
    }
}
