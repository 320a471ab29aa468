//! Parsing of health checks: `option httpchk` and `http-check`, `option tcp-check` and `tcp-check`
//! (HAProxy's configuration manual, §4.2).

use crate::model::{CheckExpect, CheckKind, CheckProtocol, CheckRequest, HealthCheck, TcpStep};
use crate::rules::FormatString;

/// The checks of a backend, while its section is parsed.
#[derive(Clone, Debug, Default)]
pub(crate) struct CheckDraft {
    /// The rules are from `defaults`: the first own rule replaces them all.
    pub(crate) inherited: bool,
    /// The last of the check options.
    pub(crate) chosen: CheckChoice,
    /// The request of `option httpchk`.
    pub(crate) request: Option<RequestDraft>,
    pub(crate) http: Vec<HttpStep>,
    pub(crate) tcp: Vec<TcpStep>,
}

/// The kind of check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum CheckChoice {
    #[default]
    Connect,
    Http,
    Tcp,
    Protocol(CheckProtocol),
}

/// A line of `http-check`.
#[derive(Clone, Debug)]
pub(crate) enum HttpStep {
    Send(RequestDraft),
    Expect(CheckExpect),
}

/// A request; fields that are not set take defaults.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestDraft {
    pub(crate) method: Option<String>,
    pub(crate) target: Option<String>,
    pub(crate) http11: Option<bool>,
    pub(crate) fields: Vec<(String, FormatString)>,
    pub(crate) body: Vec<u8>,
}

impl CheckDraft {
    /// The HTTP steps of this section, without inherited ones.
    pub(crate) fn own_http(&mut self) -> &mut Vec<HttpStep> {
        self.forget_inherited();
        &mut self.http
    }

    /// The TCP steps of this section, without inherited ones.
    pub(crate) fn own_tcp(&mut self) -> &mut Vec<TcpStep> {
        self.forget_inherited();
        &mut self.tcp
    }

    /// The keyword of this section's own rules that the chosen check ignores.
    pub(crate) fn unused(&self) -> Option<&'static str> {
        match self.chosen {
            _ if self.inherited => None,
            CheckChoice::Http if self.tcp.is_empty() => None,
            CheckChoice::Http => Some("tcp-check"),
            _ if !self.http.is_empty() => Some("http-check"),
            CheckChoice::Tcp => None,
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

    /// The complete check.
    pub(crate) fn finish(self) -> HealthCheck {
        let kind = match self.chosen {
            CheckChoice::Connect => CheckKind::Connect,
            CheckChoice::Protocol(protocol) => CheckKind::Protocol(protocol),
            CheckChoice::Tcp => CheckKind::Tcp { steps: self.tcp },
            CheckChoice::Http => CheckKind::Http { steps: http(self.request, self.http) },
        };
        HealthCheck { kind }
    }
}

/// Requests, each with its expected response. What the first one does not set is taken from `option
/// httpchk`.
fn http(option: Option<RequestDraft>, steps: Vec<HttpStep>) -> Vec<CheckRequest> {
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

impl RequestDraft {
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

fn request(send: RequestDraft) -> CheckRequest {
    CheckRequest {
        method: send.method.unwrap_or_else(|| "OPTIONS".to_owned()),
        target: send.target.unwrap_or_else(|| "/".to_owned()),
        http11: send.http11.unwrap_or(false),
        fields: send.fields,
        body: send.body,
        expects: Vec::new(),
    }
}
