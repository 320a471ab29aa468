//! `option httpchk`: requests, and the expected responses (HAProxy's manual, §4.2, `http-check`).

use fulmar_haproxy::model::{CheckExpect, CheckRequest, Expectation};

use super::check_context::Checked;
use super::response::CheckResponse;
use super::status::{CheckStatus, Finding};
use super::step::{CheckStep, ConnectSettings};
use super::tcp_check::contains;

/// Requests in sequence, each on a new connection.
#[derive(Debug, Default)]
pub(super) struct HttpCheck {
    at: usize,
    reply: CheckResponse,
}

impl HttpCheck {
    /// The connection was established: returns the request.
    pub(super) fn begin(&mut self, steps: &[CheckRequest], server: &Checked<'_>) -> Vec<u8> {
        let request = &steps[self.at];
        self.reply = CheckResponse::to(request.method.as_bytes());
        encode(request, server)
    }

    /// Handles received bytes; `end`: the server has closed.
    pub(super) fn handle_input(
        &mut self,
        steps: &[CheckRequest],
        server: &Checked<'_>,
        bytes: &[u8],
        end: bool,
    ) -> CheckStep {
        let request = &steps[self.at];
        self.reply.handle_input(bytes, end);
        let Some(finding) = judge(request, &self.reply, server.can_stop()) else {
            return CheckStep::Send(Vec::new());
        };
        if finding.status == CheckStatus::Layer7Ok && self.at + 1 < steps.len() {
            self.at += 1; // less than the number of steps
            return CheckStep::Reconnect(Vec::new(), ConnectSettings::OfServer);
        }
        CheckStep::Done(Vec::new(), finding)
    }
}

/// Encodes a request. The result of a format cannot end a line.
fn encode(request: &CheckRequest, server: &Checked<'_>) -> Vec<u8> {
    let minor = if request.http11 { 1 } else { 0 };
    let mut out = format!("{} {} HTTP/1.{minor}\r\n", request.method, request.target).into_bytes();
    for (name, format) in &request.fields {
        let mut value = Vec::new();
        format.render(server, &mut value);
        value.retain(|byte| *byte == b'\t' || !byte.is_ascii_control());
        push_field(&mut out, name, &value);
    }
    let has = |name: &str| request.fields.iter().any(|it| it.0.eq_ignore_ascii_case(name));
    if !request.body.is_empty() && !has("content-length") {
        push_field(&mut out, "content-length", request.body.len().to_string().as_bytes());
    }
    if request.http11 && !has("connection") {
        push_field(&mut out, "connection", b"close");
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(&request.body);
    out
}

fn push_field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

/// The result of a response; `None` while it depends on bytes that are still missing.
fn judge(request: &CheckRequest, reply: &CheckResponse, can_stop: bool) -> Option<Finding> {
    let Some(status) = reply.status() else {
        let broken = Finding::new(CheckStatus::Layer7Invalid, "");
        return reply.is_complete().then_some(broken);
    };
    let code = |result, info: &str| Some(Finding::with_code(result, status, info));
    if can_stop && status == 404 {
        return code(CheckStatus::Layer7Conditional, "");
    }
    if request.expects.is_empty() {
        return match (200..400).contains(&status) {
            true => code(CheckStatus::Layer7Ok, ""),
            false => code(CheckStatus::Layer7Status, reply.reason()),
        };
    }
    for CheckExpect { negated, what } in &request.expects {
        let (met, of_body) = match what {
            Expectation::Status(ranges) => {
                (ranges.iter().any(|&(from, to)| (from..=to).contains(&status)), false)
            }
            Expectation::StatusPattern(pattern) => {
                (pattern.is_match(status.to_string().as_bytes()), false)
            }
            Expectation::Field { name, value } => (reply.has_field(name, value.as_deref()), false),
            Expectation::Text(text) => (contains(reply.body(), text), true),
            Expectation::Pattern(pattern) => (pattern.is_match(reply.body()), true),
        };
        if of_body && !met && !reply.is_complete() {
            return None;
        }
        match (met != *negated, of_body, negated) {
            (true, ..) => {}
            (false, false, _) => return code(CheckStatus::Layer7Status, reply.reason()),
            (false, true, negated) => {
                let info = if *negated { UNWANTED } else { UNMATCHED };
                return Some(Finding::new(CheckStatus::Layer7Invalid, info));
            }
        }
    }
    code(CheckStatus::Layer7Ok, "")
}

/// HAProxy's text.
const UNMATCHED: &str = "HTTP content check did not match";
/// HAProxy's text.
const UNWANTED: &str = "HTTP check matched unwanted content";
