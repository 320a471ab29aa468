//! Exchanges that end without a response: whether the request is sent again.

use std::io;
use std::time::Instant;

use fulmar_engine::{End, SocketId};
use fulmar_proto::h2::ErrorCode;
use fulmar_proto::{PeerError, Phase};
use fulmar_tls::TlsError;

use crate::application::Application;
use crate::connection_data::ConnectionData;
use crate::connection_handler::ConnectionHandler;
use crate::error::{Error, Waiting, is_truncated};
use crate::request::Request;
use crate::transfer::TransferId;
use crate::transfer_stage::TransferStage;

impl<A: Application> ConnectionHandler<A> {
    /// A connection was closed before the responses on it were complete.
    pub(crate) fn on_connection_lost(
        &mut self,
        now: Instant,
        socket: SocketId,
        data: &mut ConnectionData,
        end: End,
    ) {
        let first = data.owners.pop();
        let multiplexed = data.stage.is_http2();
        if !multiplexed
            && !data.owners.is_empty()
            && let Some(known) = self.state.pool.get_mut(data.origin())
        {
            known.pipelines = false; // the server does not support pipelining
        }
        let mut behind = Vec::new();
        while let Some((_, id)) = data.owners.pop() {
            behind.push(id);
        }
        // In reverse order: each one goes to the front of the queue.
        for id in behind.into_iter().rev() {
            let (loss, place) = match multiplexed {
                true => (Loss::new(again(&end)), PlaceOnConnection::Stream),
                false => (Loss::new(End::Closed), PlaceOnConnection::Behind),
            };
            self.on_exchange_lost(now, socket, id, data, loss, place);
        }
        if let Some((_, id)) = first {
            let place =
                if multiplexed { PlaceOnConnection::Stream } else { PlaceOnConnection::Front };
            self.on_exchange_lost(now, socket, id, data, Loss::new(end), place);
        }
    }

    /// The connection was lost, and remains only for responses that are complete.
    pub(crate) fn on_stream_lost(
        &mut self,
        now: Instant,
        socket: SocketId,
        id: TransferId,
        data: &ConnectionData,
        error: PeerError,
    ) {
        let loss = Loss::new(End::Peer(error));
        self.on_exchange_lost(now, socket, id, data, loss, PlaceOnConnection::Stream);
    }

    fn on_exchange_lost(
        &mut self,
        now: Instant,
        socket: SocketId,
        id: TransferId,
        data: &ConnectionData,
        loss: Loss,
        place: PlaceOnConnection,
    ) {
        let Some(transfer) = self.state.active_on(socket, id) else { return }; // it was cancelled
        let silent = matches!(transfer.stage, TransferStage::Sending | TransferStage::Expecting);
        let unsent = !data.sent && transfer.request.body().is_replayable();
        let harmless = transfer.request.is_idempotent() || unsent;
        let first_time =
            place == PlaceOnConnection::Behind || (transfer.reused && !transfer.retried);
        let has_no_response = matches!(loss.error, Error::Peer(PeerError::Unsolicited));
        let mute = has_no_response || place != PlaceOnConnection::Front || !data.response_begun;
        let again = silent
            && mute
            && harmless
            && first_time
            && loss.may_be_stale
            && transfer.request.options().resends;
        let error = match loss.error {
            Error::Peer(PeerError::UnexpectedEof) if silent && mute => Error::Closed,
            Error::Layer(error) if silent && mute && is_truncated(&error) => Error::Closed,
            error => error,
        };
        let request = again.then(|| transfer.request.clone());
        if let Some(transfer) = self.state.transfers.get_mut(id.0) {
            transfer.retried |= again && place != PlaceOnConnection::Behind;
        }
        self.detach(now, id, request, error);
    }

    /// The server has ended one exchange of a connection (RFC 9113 §6.4), has announced that it
    /// will not process it (§6.8), or its response is malformed (§8.1.1).
    pub(crate) fn on_stream_reset(
        &mut self,
        now: Instant,
        socket: SocketId,
        id: TransferId,
        code: ErrorCode,
        cause: Option<PeerError>,
    ) {
        let Some(transfer) = self.state.active_on(socket, id) else { return }; // it was cancelled
        let silent = matches!(transfer.stage, TransferStage::Sending | TransferStage::Expecting);
        let request = &transfer.request;
        let replayable = silent && request.body().is_replayable() && request.options().resends;
        let early = usize::from(transfer.is_early);
        let refusals = transfer.extra.as_ref().map_or(0, |extra| extra.refusals[early]);
        let request = match code {
            ErrorCode::RefusedStream if replayable && refusals < REFUSALS_MAX => {
                Some(transfer.request.clone())
            }
            // The request is compiled again: it cannot fail, and if it did, the error remains.
            ErrorCode::Http11Required if replayable => transfer.request.over_http1().ok(),
            _ => None,
        };
        if request.is_some()
            && let Some(transfer) = self.state.transfers.get_mut(id.0)
        {
            transfer.retried = true;
            transfer.extra().refusals[early] += 1;
        }
        self.detach(now, id, request, cause.map_or(Error::Reset(code), Error::Peer));
    }

    /// Takes a transfer from its connection: it sends `request`, or fails.
    fn detach(&mut self, now: Instant, id: TransferId, request: Option<Request>, error: Error) {
        let transfer = self.state.transfers.get_mut(id.0).expect("it is on a connection");
        let origin = transfer.origin;
        transfer.stage = TransferStage::Detached;
        self.state.leave(origin);
        match request {
            Some(request) => self.state.restart(now, id, request, true),
            None => self.finish_transfer(now, id, Err(error)),
        }
    }
}

/// The place of an exchange on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlaceOnConnection {
    /// Its response is the next one, or has begun.
    Front,
    /// Other responses come first: the connection is pipelined on.
    Behind,
    /// It has a stream of its own.
    Stream,
}

/// The meaning of a lost connection for the transfers on it.
struct Loss {
    error: Error,
    /// The server may have closed an idle connection while the request was on its way.
    may_be_stale: bool,
}

impl Loss {
    fn new(end: End) -> Self {
        let may_be_stale = match &end {
            End::Closed | End::Failed(_) => true,
            // A server may send 408 to an idle connection that it closes (RFC 9110 §15.5.9).
            End::Peer(PeerError::Unsolicited) => true,
            // GOAWAY does not say whether the streams up to the last one were processed.
            End::Peer(PeerError::UnexpectedEof | PeerError::Goaway(_)) => true,
            End::Layer(error) => is_truncated(error),
            _ => false,
        };
        Self { error: failure(end), may_be_stale }
    }
}

/// The same end for another transfer.
fn again(end: &End) -> End {
    match end {
        End::Peer(error) => End::Peer(*error),
        End::TimedOut(phase) => End::TimedOut(*phase),
        End::Failed(error) => End::Failed(match error.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => error.kind().into(),
        }),
        End::Layer(error) => End::Layer(match error.downcast_ref::<TlsError>() {
            Some(error) => Box::new(error.clone()),
            None => error.to_string().into(),
        }),
        _ => End::Closed,
    }
}

/// The end of a connection as the error of a transfer on it.
pub(crate) fn failure(end: End) -> Error {
    match end {
        End::Closed => Error::Closed,
        End::Peer(error) => Error::Peer(error),
        End::Failed(error) => Error::Io(error),
        End::Layer(error) => Error::Layer(error),
        End::File(error) => Error::Write(error),
        End::TimedOut(None) => Error::TimedOut(Waiting::Connect),
        End::TimedOut(Some(Phase::Handshake)) => Error::TimedOut(Waiting::Handshake),
        End::TimedOut(Some(_)) => Error::TimedOut(Waiting::Idle),
        other => Error::Io(io::Error::other(format!("{other:?}"))),
    }
}

/// How often a request is sent again that the server refuses to process: it may have lowered its
/// limit of streams while many were on their way. Those that were sent before any limit was known
/// count apart.
const REFUSALS_MAX: u8 = 5;
