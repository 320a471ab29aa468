//! The conversation of a check on an established connection. Pure: bytes in, bytes and a finding
//! out.

use fulmar_haproxy::model::{CheckKind, TcpStep};

use super::dialogue::Dialogue;
use super::http::Http;
use super::protocol::Speech;
use super::step::{Step, Way, stood};
use super::subject::Checked;

/// A conversation with a server.
#[derive(Debug)]
pub(super) enum Talk {
    /// An established connection is enough.
    Connect,
    Http(Box<Http>),
    Tcp(Dialogue),
    Protocol(Speech),
}

impl Talk {
    /// The beginning, and the settings of its first connection.
    pub(super) fn new(kind: &CheckKind) -> (Self, Way) {
        match kind {
            CheckKind::Http { steps } if !steps.is_empty() => {
                (Self::Http(Box::default()), Way::Usual)
            }
            CheckKind::Protocol(_) => (Self::Protocol(Speech::default()), Way::Usual),
            CheckKind::Tcp { steps } => match steps.first() {
                Some(&TcpStep::Connect { port, tls }) => {
                    (Self::Tcp(Dialogue::at(1)), Way::Said { port, tls })
                }
                _ => (Self::Tcp(Dialogue::at(0)), Way::Usual),
            },
            _ => (Self::Connect, Way::Usual),
        }
    }

    /// The connection was established; `tls`: with TLS.
    pub(super) fn begin(&mut self, server: &Checked<'_>, tls: bool) -> Step {
        match (self, &server.backend.config.check.kind) {
            (Self::Http(http), CheckKind::Http { steps }) => Step::Say(http.begin(steps, server)),
            (Self::Tcp(dialogue), CheckKind::Tcp { steps }) => dialogue.begin(steps, tls),
            (Self::Protocol(_), CheckKind::Protocol(protocol)) => Speech::begin(protocol),
            _ => Step::Done(Vec::new(), stood(tls)),
        }
    }

    /// Handles received bytes; `end`: the server has closed.
    pub(super) fn hear(&mut self, server: &Checked<'_>, bytes: &[u8], end: bool) -> Step {
        match (self, &server.backend.config.check.kind) {
            (Self::Http(http), CheckKind::Http { steps }) => http.hear(steps, server, bytes, end),
            (Self::Tcp(dialogue), CheckKind::Tcp { steps }) => dialogue.hear(steps, bytes, end),
            (Self::Protocol(speech), CheckKind::Protocol(protocol)) => {
                speech.hear(protocol, bytes, end)
            }
            _ => Step::Say(Vec::new()),
        }
    }

    /// The current position, for log lines.
    pub(super) fn place(&self, kind: &CheckKind) -> String {
        match (self, kind) {
            (Self::Tcp(dialogue), CheckKind::Tcp { steps }) => dialogue.place(steps),
            _ => String::new(),
        }
    }
}
