//! `tcp-check`: bytes sent, and bytes expected, in order (HAProxy's manual, §4.2, `option
//! tcp-check`).

use fulmar_haproxy::model::TcpStep;

use super::status::{CheckStatus, Finding};
use super::talk::{Step, Way, stood};

/// A conversation by steps.
#[derive(Debug)]
pub(super) struct Dialogue {
    at: usize,
    heard: Vec<u8>, // since the last bytes were sent
    tls: bool,
}

impl Dialogue {
    /// At this step, once the connection stands.
    pub(super) fn at(at: usize) -> Self {
        Self { at, heard: Vec::new(), tls: false }
    }

    /// The connection stands.
    pub(super) fn begin(&mut self, steps: &[TcpStep], tls: bool) -> Step {
        self.tls = tls;
        self.heard.clear();
        self.go_on(steps, false)
    }

    /// The server has said this, and has ended if `end`.
    pub(super) fn hear(&mut self, steps: &[TcpStep], bytes: &[u8], end: bool) -> Step {
        let room = HEARD_MAX - self.heard.len();
        self.heard.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.go_on(steps, end)
    }

    /// As far as it goes with what was heard.
    fn go_on(&mut self, steps: &[TcpStep], end: bool) -> Step {
        let mut say = Vec::new();
        let last = end || self.heard.len() == HEARD_MAX;
        while let Some(step) = steps.get(self.at) {
            match step {
                TcpStep::Connect { port, tls } => {
                    self.at += 1;
                    return Step::Leave(say, Way::Said { port: *port, tls: *tls });
                }
                TcpStep::Send(bytes) => {
                    self.heard.clear();
                    say.extend_from_slice(bytes);
                }
                expect => match self.meets(expect) {
                    Some(true) => {}
                    // A mismatch is none as long as more may come.
                    Some(false) | None if !last || !say.is_empty() => return Step::Say(say),
                    _ => return Step::Done(say, self.fault(expect)),
                },
            }
            self.at += 1;
        }
        let talks = steps.iter().any(|step| !matches!(step, TcpStep::Connect { .. }));
        let finding = match talks {
            true => Finding::new(CheckStatus::Layer7Ok, "(tcp-check)"),
            false => stood(self.tls),
        };
        Step::Done(say, finding)
    }

    /// Whether what was heard is as expected; `None`: nothing was heard.
    fn meets(&self, expect: &TcpStep) -> Option<bool> {
        if self.heard.is_empty() {
            return None;
        }
        Some(match expect {
            TcpStep::Expect { negated, bytes } => contains(&self.heard, bytes) != *negated,
            TcpStep::ExpectPattern { negated, pattern } => {
                pattern.is_match(&self.heard) != *negated
            }
            _ => true,
        })
    }

    fn fault(&self, expect: &TcpStep) -> Finding {
        let step = self.at + 1;
        let (negated, what) = described(expect);
        let info = match (self.heard.is_empty(), negated) {
            (true, _) => format!("TCPCHK got an empty response at step {step}"),
            (_, false) => format!("TCPCHK did not match content {what} at step {step}"),
            (_, true) => format!("TCPCHK matched unwanted content {what} at step {step}"),
        };
        Finding::new(CheckStatus::Layer7Invalid, info)
    }

    /// ` at step 3 of tcp-check (expect string 'OK')`.
    pub(super) fn place(&self, steps: &[TcpStep]) -> String {
        let at = self.at.min(steps.len().saturating_sub(1));
        let what = match steps.get(at) {
            Some(TcpStep::Connect { .. }) | None => "connect".to_string(),
            Some(TcpStep::Send(_)) => "send".to_string(),
            Some(TcpStep::ExpectPattern { .. }) => "expect regex".to_string(),
            Some(expect) => match described(expect).1 {
                text if text.starts_with('\'') => format!("expect string {text}"),
                _ => "expect binary".to_string(),
            },
        };
        format!(" at step {} of tcp-check ({what})", at + 1)
    }

    /// Before the connection stands, its step is the one before.
    pub(super) fn place_of_connect(&self, steps: &[TcpStep]) -> String {
        match self.at.checked_sub(1).and_then(|at| steps.get(at)) {
            Some(TcpStep::Connect { .. }) => format!(" at step {} of tcp-check (connect)", self.at),
            _ => String::new(),
        }
    }
}

/// What is expected, or must not come.
fn described(expect: &TcpStep) -> (bool, String) {
    match expect {
        TcpStep::Expect { negated, bytes } => {
            let text = str::from_utf8(bytes).ok().filter(|it| !it.contains(char::is_control));
            (*negated, text.map_or_else(|| "(binary)".to_string(), |text| format!("'{text}'")))
        }
        TcpStep::ExpectPattern { negated, .. } => (*negated, "(regex)".to_string()),
        _ => (false, String::new()),
    }
}

/// True if `part` is somewhere in `bytes`.
pub(super) fn contains(bytes: &[u8], part: &[u8]) -> bool {
    part.is_empty() || bytes.windows(part.len()).any(|window| window == part)
}

/// As much of an answer is looked at as HAProxy's buffers hold.
const HEARD_MAX: usize = 16 * 1024;
