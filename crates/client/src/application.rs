//! The application of a client: it receives the events of transfers.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use fulmar_engine::SocketId;
use fulmar_proto::{FileRange, HeaderBuf, Headers, PeerError, Response, Segment};
use url::Url;

use crate::request::Request;
use crate::state::{ClientState, Command};
use crate::transfer::{ConnectedFacts, Done, ExchangeFacts, Progress, TransferId};

/// Receives the events of transfers.
///
/// Every transfer ends with exactly one [`TransferEvent::Done`], unless it is removed. No event of
/// it follows.
///
/// ```
/// use fulmar_client::{Application, Context, Request, TransferEvent, TransferId};
///
/// /// Fetches a list of requests, one after the other.
/// struct OneByOne(Vec<Request>);
///
/// impl Application for OneByOne {
///     fn handle(&mut self, context: &mut Context<'_>, _: TransferId, event: TransferEvent<'_>) {
///         if let TransferEvent::Done(done) = event {
///             println!("{}: {}", done.request.url(), done.status);
///             if let Some(next) = self.0.pop() {
///                 context.start(&next);
///             }
///         }
///     }
/// }
/// ```
pub trait Application {
    /// Handles an event of a transfer.
    ///
    /// All methods of `context` may be called, for this transfer or any other. They take effect
    /// after this function has returned, so it is not re-entered.
    fn handle(&mut self, context: &mut Context<'_>, transfer: TransferId, event: TransferEvent<'_>);

    /// Another thread woke the driver.
    fn handle_wake(&mut self, _context: &mut Context<'_>) {}

    /// The time of [`Application::poll_timeout`] has passed.
    fn handle_timeout(&mut self, _context: &mut Context<'_>) {}

    /// When [`Application::handle_timeout`] is to be called.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

/// An event of a transfer.
#[derive(Debug)]
pub enum TransferEvent<'a> {
    /// With [`crate::Options::reports_connection`]: the request begins on a connection. Also for
    /// each repetition; not for a request that takes the connection itself.
    Connected(ConnectedFacts),
    /// An interim response (1xx).
    Informational(Response<'a>),
    /// HTTP/1: the head of a response is malformed, and the transfer fails with this error.
    MalformedHead {
        /// What is wrong.
        error: PeerError,
        /// The received bytes of the head, and what follows it.
        received: &'a [u8],
        /// By the rules of libcurl: the bytes at the front of `received` in lines that were sound
        /// ([`fulmar_proto::h1::H1Client::judged_len`]). By others 0.
        judged: usize,
    },
    /// The response leads to another request. Its body is not delivered.
    Redirect {
        /// The response's head.
        response: Response<'a>,
        /// The URL of the next request.
        to: &'a Url,
    },
    /// The response begins.
    Head {
        /// Its status and fields.
        response: Response<'a>,
        /// The length of the body as it is delivered, if it is known.
        len: Option<u64>,
    },
    /// A piece of the body: a share of what was received, not a copy, unless it was decoded.
    Data(Bytes),
    /// Fields behind the body. Not delivered if there are none.
    Trailers(Headers<'a>),
    /// There is room for more of the request's body: see [`Context::send`]. Not sent after
    /// [`Context::finish`].
    Writable,
    /// The connection has left HTTP (101, or 2xx to CONNECT): from now on it carries bytes in both
    /// directions without messages.
    Upgraded,
    /// The transfer has ended.
    Done(Done),
}

/// The operations on transfers.
#[derive(Debug)]
pub struct Context<'a> {
    /// This turn's time.
    pub now: Instant,
    pub(crate) state: &'a mut ClientState,
}

impl Context<'_> {
    /// Starts a transfer.
    pub fn start(&mut self, request: &Request) -> TransferId {
        self.state.start(self.now, request.clone())
    }

    /// Removes a transfer in any state: no event of it follows. False if it has ended already.
    pub fn remove(&mut self, transfer: TransferId) -> bool {
        self.state.remove(self.now, transfer).is_some()
    }

    /// Delivers nothing of the response until [`Context::resume`]. Received bytes stay where they
    /// are, and back-pressure stops the server. A paused transfer costs nothing.
    pub fn pause(&mut self, transfer: TransferId) {
        if let Some(transfer) = self.state.transfers.get_mut(transfer.0) {
            transfer.paused = true;
        }
        self.state.note_held(transfer);
        self.state.commands.push_back(Command::Hold(transfer));
    }

    /// Reverts [`Context::pause`].
    pub fn resume(&mut self, transfer: TransferId) {
        if let Some(known) = self.state.transfers.get_mut(transfer.0)
            && std::mem::take(&mut known.paused)
        {
            known.release(self.now);
            self.state.commands.push_back(Command::Hold(transfer));
        }
    }

    /// Queues bytes of the request's body ([`crate::RequestBody::Stream`]), or of an upgraded
    /// connection. Bytes are best sent at [`TransferEvent::Writable`]: those that exceed the
    /// connection's room are kept in memory. Before a transfer has a connection, and after its end,
    /// nothing is queued.
    pub fn send(&mut self, transfer: TransferId, data: impl Into<Segment>) {
        self.state.commands.push_back(Command::Send(transfer, data.into()));
    }

    /// Completes the request's body, or our direction of an upgraded connection. Like
    /// [`Context::send`], it has no effect before the transfer has a connection.
    pub fn finish(&mut self, transfer: TransferId) {
        if let Some(known) = self.state.transfers.get_mut(transfer.0)
            && known.is_active()
        {
            known.finished = true;
            self.state.commands.push_back(Command::Finish(transfer));
        }
    }

    /// As [`Context::finish`], with trailers behind a body that is sent in chunks. Fields that must
    /// not be trailers (RFC 9110 §6.5.1) are an error of the transfer.
    pub fn finish_with(&mut self, transfer: TransferId, trailers: HeaderBuf) {
        if let Some(known) = self.state.transfers.get_mut(transfer.0)
            && known.is_active()
        {
            known.finished = true;
            self.state.commands.push_back(Command::FinishWith(transfer, Box::new(trailers)));
        }
    }

    /// Moves the body from the socket into a file without copying it into memory (`splice(2)`),
    /// where that is possible: from [`TransferEvent::Head`], if the length is known and the body is
    /// not decoded. Otherwise it returns false, and the body is delivered as usual.
    ///
    /// Some bytes are delivered as [`TransferEvent::Data`] all the same. The application writes
    /// them at [`Progress::received`] minus their length. They are: bytes that arrived together
    /// with the head, the last byte (with which excess bytes are noticed), and all bytes where the
    /// kernel cannot splice. `place` is open for writing, and not for appending.
    pub fn store(&mut self, transfer: TransferId, place: FileRange) -> bool {
        self.state.store(transfer, place)
    }

    /// The progress of a transfer; `None` if it has ended.
    pub fn progress(&self, transfer: TransferId) -> Option<Progress> {
        Some(self.state.transfers.get(transfer.0)?.progress(self.now))
    }

    /// The connection of a transfer: a name for its driver. `None` while it has none. With it a
    /// reactor finds the descriptor and the local address.
    pub fn connection(&self, transfer: TransferId) -> Option<SocketId> {
        let transfer = self.state.transfers.get(transfer.0)?;
        transfer.is_active().then_some(transfer.socket)
    }

    /// What is known of a transfer's exchange; `None` while it has no connection.
    pub fn exchange(&self, transfer: TransferId) -> Option<ExchangeFacts> {
        self.state.transfers.get(transfer.0)?.exchange(self.now)
    }

    /// The peer's certificates so far, as [`Done::certificates`].
    pub fn certificates(&self, transfer: TransferId) -> Option<&Arc<[Vec<u8>]>> {
        let transfer = self.state.transfers.get(transfer.0)?;
        transfer.extra.as_ref()?.certificates.as_ref()
    }

    /// Whether the application's loop waits for the connection of a transfer.
    pub fn set_watched(&mut self, transfer: TransferId, on: bool) {
        if let Some(socket) = self.connection(transfer) {
            self.state.set_watched(socket, on);
        }
    }

    /// Transfers that have been started and are not over.
    pub fn running(&self) -> usize {
        self.state.transfers.len()
    }
}
