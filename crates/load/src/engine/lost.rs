//! What becomes of requests whose connection or stream ends without a response, and of connects
//! that fail.

use std::error::Error;
use std::io;

use fulmar_engine::End;
use fulmar_proto::h2::ErrorCode;
use fulmar_proto::{ClientConnection, Connection, PeerError, Reset, StreamId};
use fulmar_tls::TlsError;

use super::{
    Conn, ConnStage, ConnectFailure, LOST_AFTER, LoadHandler, RefusedHandshakes, UnusedEnds,
    nanos_of,
};
use crate::outstanding::Outstanding;
use crate::tally::ErrorKind;

impl LoadHandler {
    /// A stream ended without a response. A request that the server has not processed is sent again
    /// (RFC 9113 §8.7).
    pub(super) fn handle_reset(
        &mut self,
        at: u64,
        conn: &mut Conn,
        stream: StreamId,
        code: ErrorCode,
        cause: Option<PeerError>,
    ) {
        let is_vain = self.is_vain(at);
        let Outstanding::ByStream(flights) = &mut conn.flights else { return };
        // It may be one that has timed out.
        let Some(flight) = flights.cancel(stream) else { return };
        self.freed = true;
        let goaway = match cause {
            Some(PeerError::Goaway(code)) => Some(code),
            Some(error) => {
                self.tally.note_broken(error);
                return self.tally.fail(ErrorKind::Protocol, 1);
            }
            None => None,
        };
        if let Some(code) = goaway
            && flights.note_goaway()
        {
            self.tally.note_goaway(code);
        }
        if code != ErrorCode::RefusedStream {
            self.tally.note_stream_reset(code);
            self.tally.fail(ErrorKind::StreamReset, 1);
        } else if flights.note_refusal() > REFUSALS_MAX || is_vain {
            let kind = goaway.map_or(ErrorKind::StreamRefused, |_| ErrorKind::Goaway);
            self.tally.fail(kind, 1);
        } else {
            self.tally.refused += 1;
            self.tally.issued -= 1;
            self.work.give_back(flight.planned);
        }
    }

    /// True if connections have ended with refused requests for longer than a restart takes, and no
    /// response has arrived.
    fn is_vain(&self, at: u64) -> bool {
        let patience = nanos_of(LOST_AFTER.min(self.plan.timeout));
        self.vain_since.is_some_and(|since| at.saturating_sub(since) >= patience)
    }

    /// True if servers have ended connections before any request for longer than a restart takes,
    /// and no response has arrived.
    pub(super) fn ends_unused(&self, at: u64) -> bool {
        let patience = nanos_of(LOST_AFTER);
        self.unused.is_some_and(|unused| at.saturating_sub(unused.since) >= patience)
    }

    /// Resets the streams that have timed out. True if there was one. If the whole connection is
    /// silent, it is not used again: it ends with its streams.
    pub(super) fn expire_streams(
        &mut self,
        at: u64,
        connection: &mut ClientConnection,
        conn: &mut Conn,
    ) -> bool {
        let timeout = nanos_of(self.plan.timeout);
        let (ClientConnection::Http2(connection), Outstanding::ByStream(flights)) =
            (connection, &mut conn.flights)
        else {
            return false;
        };
        if flights.is_silent(at, timeout) {
            return false;
        }
        let before = flights.len();
        while flights.oldest().is_some_and(|sent| sent.saturating_add(timeout) <= at)
            && let Some((stream, _)) = flights.pop()
        {
            self.tally.fail(ErrorKind::Timeout, 1);
            connection.reset(stream, Reset::Cancelled);
        }
        flights.len() < before
    }

    /// Fails the next requests, as many as a connection has streams, if its server has accepted no
    /// stream during the timeout. Returns when the next ones fail, if they may.
    pub(super) fn fail_blocked(&mut self, at: u64, conn: &mut Conn) -> Option<u64> {
        let timeout = nanos_of(self.plan.timeout);
        let Outstanding::ByStream(flights) = &mut conn.flights else { return None };
        let due = flights.blocked()?.saturating_add(timeout);
        if due > at {
            return Some(due);
        }
        for _ in 0..self.plan.protocol.depth() {
            if self.work.take(at).is_none() {
                break;
            }
            self.tally.issued += 1;
            self.tally.fail(ErrorKind::StreamRefused, 1);
        }
        flights.restart_blocked(at);
        Some(at.saturating_add(timeout))
    }

    /// An established connection was lost.
    pub(super) fn lose(&mut self, now: u64, mut conn: Conn, end: &End) {
        self.tally.established -= 1;
        if self.tally.established == 0 {
            self.service.lose(now);
        }
        let n = conn.flights.len() as u64;
        let (is_refused, has_goaway) = match &conn.flights {
            Outstanding::ByStream(flights) => (flights.is_refused(), flights.has_goaway()),
            Outstanding::InOrder(_) => (false, false),
        };
        match end {
            // The last response had `Connection: close`: the server has not read the other
            // requests.
            End::Closed => {
                while let Some(flight) = conn.flights.pop() {
                    self.tally.issued -= 1;
                    self.work.give_back(flight.planned);
                }
            }
            End::Peer(PeerError::UnexpectedEof) => self.tally.fail(ErrorKind::Closed, n),
            End::Peer(PeerError::Goaway(code)) => {
                if !has_goaway {
                    self.tally.note_goaway(*code);
                }
                self.tally.fail(ErrorKind::Goaway, n);
            }
            End::Peer(error) => {
                self.tally.note_broken(*error);
                match n {
                    0 => self.tally.error(ErrorKind::Protocol),
                    n => self.tally.fail(ErrorKind::Protocol, n),
                }
            }
            End::TimedOut(_) => self.tally.fail(ErrorKind::Timeout, n),
            End::Layer(error) if error.downcast_ref() == Some(&TlsError::Truncated) => {
                self.tally.fail(ErrorKind::Closed, n);
            }
            End::Layer(error) if !conn.received && is_alert(error.as_ref()) => {
                self.note_refusal(error.as_ref());
                match n {
                    0 => self.tally.error(ErrorKind::Handshake),
                    n => self.tally.fail(ErrorKind::Handshake, n),
                }
            }
            _ => self.tally.fail(ErrorKind::Reset, n),
        }
        if conn.responded {
            return self.opener.want(now, conn.number, conn.gate);
        }
        self.opener.note_response(conn.batch);
        if is_refused {
            self.vain_since.get_or_insert(now);
        }
        if n == 0 && !is_refused {
            let kind = match end {
                End::Peer(PeerError::Goaway(_)) => ErrorKind::Goaway,
                _ => ErrorKind::Closed,
            };
            self.unused.get_or_insert(UnusedEnds { since: now, kind });
        }
        match (n, end) {
            // Its requests have failed.
            _ if is_refused && self.is_vain(now) => {
                self.opener.want(now, conn.number, conn.gate);
            }
            // The server closes each connection at once, refuses it, or speaks HTTP/1.
            (0, _) | (_, End::Layer(_) | End::Peer(PeerError::NotHttp2)) => {
                self.opener.rest(now, conn.number, conn.gate);
            }
            _ => self.opener.want(now, conn.number, conn.gate),
        }
    }

    /// The server refused a handshake that was complete for this side. In TLS 1.3 the client is
    /// done first: the server may still refuse its certificate.
    fn note_refusal(&mut self, error: &(dyn Error + 'static)) {
        self.tally.fail_to_shake_hands(&error.to_string());
        let Some(cause) = error.downcast_ref::<TlsError>() else { return };
        if self.tally.answered > 0 {
            return;
        }
        match &mut self.refusal {
            Some(refusal) if refusal.cause == *cause => refusal.times += 1,
            other => *other = Some(RefusedHandshakes { cause: cause.clone(), times: 1 }),
        }
    }

    /// A connection was not established.
    pub(super) fn connect_failed(&mut self, now: u64, conn: &Conn, end: End) {
        self.service.fail(&self.shared.outages);
        self.opener.note_response(conn.batch);
        let (kind, error) = match end {
            end if conn.stage != ConnStage::Connecting => {
                let error = cause_of(end);
                self.tally.fail_to_shake_hands(&error.to_string());
                (ErrorKind::Handshake, Some(error))
            }
            End::Failed(error) => (kind_of(&error), Some(error)),
            _ => (ErrorKind::ConnectTimeout, None),
        };
        self.failure = Some(ConnectFailure { gate: conn.gate, error });
        if kind == ErrorKind::Descriptors {
            self.tally.error(kind);
            return self.opener.run_out(conn.gate);
        }
        let cursor = &mut self.origins[usize::from(conn.gate)];
        if cursor.untried > 0 {
            cursor.untried -= 1;
            cursor.address += 1;
            self.opener.try_next_address(now, conn.number, conn.gate);
        } else {
            self.tally.error(kind);
            self.opener.fail(now, conn.number, conn.gate);
        }
    }
}

/// True if the peer sent a fatal alert.
fn is_alert(error: &(dyn Error + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(TlsError::Alert(_)))
}

/// Why a handshake failed.
fn cause_of(end: End) -> io::Error {
    match end {
        End::Layer(error) => io::Error::other(error),
        End::Failed(error) => error,
        End::TimedOut(_) => io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long"),
        _ => io::ErrorKind::ConnectionAborted.into(),
    }
}

fn kind_of(error: &io::Error) -> ErrorKind {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => ErrorKind::ConnectRefused,
        io::ErrorKind::TimedOut => ErrorKind::ConnectTimeout,
        // It waited in the listen queue of a server that ended.
        io::ErrorKind::ConnectionReset => ErrorKind::Reset,
        io::ErrorKind::AddrNotAvailable => ErrorKind::AddressUnavailable,
        _ => match error.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => ErrorKind::Descriptors,
            _ => ErrorKind::ConnectFailed,
        },
    }
}

/// Streams that a server may refuse in a row before a refusal is an error.
const REFUSALS_MAX: u32 = 10_000;
