//! `tcp-check`: a sequence of bytes to send and bytes to expect (HAProxy's manual, §4.2, `option
//! tcp-check`).

use fulmar_haproxy::model::TcpStep;

use super::status::{CheckStatus, Finding};
use super::step::{CheckStep, ConnectSettings, connected};

/// A sequence of steps.
#[derive(Debug)]
pub(super) struct TcpCheck {
    at: usize,
    received: Vec<u8>, // since the last bytes were sent
    tls: bool,
}

impl TcpCheck {
    /// Starts at this step, once the connection is established.
    pub(super) fn at(at: usize) -> Self {
        Self { at, received: Vec::new(), tls: false }
    }

    /// The connection was established.
    pub(super) fn begin(&mut self, steps: &[TcpStep], tls: bool) -> CheckStep {
        self.tls = tls;
        self.received.clear();
        self.go_on(steps, false)
    }

    /// Handles received bytes; `end`: the server has closed.
    pub(super) fn handle_input(&mut self, steps: &[TcpStep], bytes: &[u8], end: bool) -> CheckStep {
        let room = RECEIVED_SIZE_MAX - self.received.len();
        self.received.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.go_on(steps, end)
    }

    /// Executes steps as far as the received bytes permit.
    fn go_on(&mut self, steps: &[TcpStep], end: bool) -> CheckStep {
        let mut say = Vec::new();
        let last = end || self.received.len() == RECEIVED_SIZE_MAX;
        while let Some(step) = steps.get(self.at) {
            match step {
                TcpStep::Connect { port, tls } => {
                    self.at += 1;
                    return CheckStep::Reconnect(
                        say,
                        ConnectSettings::OfStep { port: *port, tls: *tls },
                    );
                }
                TcpStep::Send(bytes) => {
                    self.received.clear();
                    say.extend_from_slice(bytes);
                }
                expect => {
                    // A missing text may still arrive, even an unwanted one.
                    let found = !self.received.is_empty() && self.finds(expect);
                    if !found && (!last || !say.is_empty()) {
                        return CheckStep::Send(say);
                    }
                    if self.received.is_empty() || found == described(expect).0 {
                        return CheckStep::Done(say, self.fault(expect));
                    }
                }
            }
            self.at += 1;
        }
        let talks = steps.iter().any(|step| !matches!(step, TcpStep::Connect { .. }));
        let finding = match talks {
            true => Finding::new(CheckStatus::Layer7Ok, "(tcp-check)"),
            false => connected(self.tls),
        };
        CheckStep::Done(say, finding)
    }

    /// True if the received bytes match.
    fn finds(&self, expect: &TcpStep) -> bool {
        match expect {
            TcpStep::Expect { bytes, .. } => contains(&self.received, bytes),
            TcpStep::ExpectPattern { pattern, .. } => pattern.is_match(&self.received),
            TcpStep::Connect { .. } | TcpStep::Send(_) => true,
        }
    }

    fn fault(&self, expect: &TcpStep) -> Finding {
        let step = self.at + 1;
        let (negated, what) = described(expect);
        let info = match (self.received.is_empty(), negated) {
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

    /// While connecting, the current step is the one before.
    pub(super) fn connect_position(&self, steps: &[TcpStep]) -> String {
        match self.at.checked_sub(1).and_then(|at| steps.get(at)) {
            Some(TcpStep::Connect { .. }) => format!(" at step {} of tcp-check (connect)", self.at),
            _ => String::new(),
        }
    }
}

/// The expectation: whether it is negated, and its text.
fn described(expect: &TcpStep) -> (bool, String) {
    match expect {
        TcpStep::Expect { negated, bytes } => {
            let text = str::from_utf8(bytes).ok().filter(|it| !it.contains(char::is_control));
            (*negated, text.map_or_else(|| "(binary)".to_string(), |text| format!("'{text}'")))
        }
        TcpStep::ExpectPattern { negated, .. } => (*negated, "(regex)".to_string()),
        TcpStep::Connect { .. } | TcpStep::Send(_) => (false, String::new()),
    }
}

/// True if `part` is somewhere in `bytes`.
pub(super) fn contains(bytes: &[u8], part: &[u8]) -> bool {
    part.is_empty() || bytes.windows(part.len()).any(|window| window == part)
}

/// HAProxy examines as much of a response as fits into its buffer.
const RECEIVED_SIZE_MAX: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn expect(bytes: &[u8], negated: bool) -> TcpStep {
        TcpStep::Expect { negated, bytes: bytes.to_vec() }
    }

    /// The bytes sent, and the result, with the response in pieces that end at `splits`.
    fn run(steps: &[TcpStep], answer: &[u8], splits: &[usize]) -> (Vec<u8>, Option<Finding>) {
        let mut check = TcpCheck::at(0);
        let mut said = Vec::new();
        let mut step = check.begin(steps, false);
        let (mut from, mut ends) = (0, splits.iter().copied().chain([answer.len(); 2]));
        loop {
            match step {
                CheckStep::Send(say) => said.extend(say),
                CheckStep::Done(say, finding) => {
                    said.extend(say);
                    return (said, Some(finding));
                }
                CheckStep::Reconnect(..) => return (said, None),
            }
            let Some(to) = ends.next() else { return (said, None) };
            step = check.handle_input(steps, &answer[from..to], from == to && to == answer.len());
            from = to;
        }
    }

    #[test]
    fn any_split_of_the_response_gives_the_same_finding() {
        let send = TcpStep::Send(b"a".to_vec());
        let cases: [(&[TcpStep], &[u8], CheckStatus); 6] = [
            (&[send.clone(), expect(b"foo", false)], b"..foo..", CheckStatus::Layer7Ok),
            (&[send.clone(), expect(b"bar", false)], b"..foo..", CheckStatus::Layer7Invalid),
            (&[send.clone(), expect(b"foo", true)], b"..foo..", CheckStatus::Layer7Invalid),
            (&[send, expect(b"bar", true)], b"..foo..", CheckStatus::Layer7Ok),
            (&[expect(b"fo", false), expect(b"oo", false)], b"foo", CheckStatus::Layer7Ok),
            (&[expect(b"", false)], b"", CheckStatus::Layer7Invalid),
        ];
        for (steps, answer, status) in cases {
            let whole = run(steps, answer, &[]);
            assert_eq!(whole.1.as_ref().map(|it| it.status), Some(status), "{steps:?}");
            for first in 0..=answer.len() {
                for second in first..=answer.len() {
                    assert_eq!(run(steps, answer, &[first, second]), whole, "{steps:?}");
                }
            }
        }
    }

    #[test]
    fn examined_bytes_are_limited() {
        let steps = [expect(b"never", false)];
        let finding = run(
            &steps,
            &vec![b'x'; RECEIVED_SIZE_MAX + 1],
            &[RECEIVED_SIZE_MAX - 1, RECEIVED_SIZE_MAX],
        )
        .1;
        assert_eq!(finding.expect("it is enough").status, CheckStatus::Layer7Invalid);
    }
}
