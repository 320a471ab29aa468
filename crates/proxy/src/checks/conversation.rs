//! The conversation of a check on an established connection. Pure: bytes in, bytes and a finding
//! out.

use fulmar_haproxy::model::{CheckKind, TcpStep};

use super::check_context::Checked;
use super::http_check::HttpCheck;
use super::protocol_check::ProtocolCheck;
use super::step::{CheckStep, ConnectSettings, connected};
use super::tcp_check::TcpCheck;

/// A conversation with a server.
#[derive(Debug)]
pub(super) enum Conversation {
    /// An established connection is enough.
    Connect,
    Http(Box<HttpCheck>),
    Tcp(TcpCheck),
    Protocol(ProtocolCheck),
}

impl Conversation {
    /// The beginning, and the settings of its first connection.
    pub(super) fn new(kind: &CheckKind) -> (Self, ConnectSettings) {
        match kind {
            CheckKind::Http { steps } if !steps.is_empty() => {
                (Self::Http(Box::default()), ConnectSettings::OfServer)
            }
            CheckKind::Protocol(_) => {
                (Self::Protocol(ProtocolCheck::default()), ConnectSettings::OfServer)
            }
            CheckKind::Tcp { steps } => match steps.first() {
                Some(&TcpStep::Connect { port, tls }) => {
                    (Self::Tcp(TcpCheck::at(1)), ConnectSettings::OfStep { port, tls })
                }
                Some(TcpStep::Send(_) | TcpStep::Expect { .. } | TcpStep::ExpectPattern { .. })
                | None => (Self::Tcp(TcpCheck::at(0)), ConnectSettings::OfServer),
            },
            CheckKind::Connect | CheckKind::Http { .. } => {
                (Self::Connect, ConnectSettings::OfServer)
            }
        }
    }

    /// The connection was established; `tls`: with TLS.
    pub(super) fn begin(&mut self, server: &Checked<'_>, tls: bool) -> CheckStep {
        match (self, &server.backend.config.check.kind) {
            (Self::Http(http), CheckKind::Http { steps }) => {
                CheckStep::Send(http.begin(steps, server))
            }
            (Self::Tcp(check), CheckKind::Tcp { steps }) => check.begin(steps, tls),
            (Self::Protocol(_), CheckKind::Protocol(protocol)) => ProtocolCheck::begin(protocol),
            _ => CheckStep::Done(Vec::new(), connected(tls)),
        }
    }

    /// Handles received bytes; `end`: the server has closed.
    pub(super) fn handle_input(
        &mut self,
        server: &Checked<'_>,
        bytes: &[u8],
        end: bool,
    ) -> CheckStep {
        match (self, &server.backend.config.check.kind) {
            (Self::Http(http), CheckKind::Http { steps }) => {
                http.handle_input(steps, server, bytes, end)
            }
            (Self::Tcp(check), CheckKind::Tcp { steps }) => check.handle_input(steps, bytes, end),
            (Self::Protocol(check), CheckKind::Protocol(protocol)) => {
                check.handle_input(protocol, bytes, end)
            }
            _ => CheckStep::Send(Vec::new()),
        }
    }

    /// The current position, for log lines.
    pub(super) fn place(&self, kind: &CheckKind) -> String {
        match (self, kind) {
            (Self::Tcp(check), CheckKind::Tcp { steps }) => check.place(steps),
            _ => String::new(),
        }
    }
}
