//! Who hears of transfers, and what may be done with them at any time.

use std::time::Instant;

use bytes::Bytes;
use fulmar_proto::{FileRange, Response, Segment};
use url::Url;

use crate::request::Request;
use crate::state::{ClientState, Command};
use crate::transfer::{Done, Progress, TransferId};

/// Who hears of transfers.
///
/// Every transfer that was started is told [`TransferEvent::Done`] exactly once, unless it is removed;
/// nothing is told of it afterwards.
pub trait Application {
    /// Something happened to a transfer.
    ///
    /// Anything may be done with `context` here, with this transfer or any other: nothing is
    /// called back before this returns.
    fn handle(&mut self, context: &mut Context<'_>, transfer: TransferId, event: TransferEvent<'_>);

    /// Another thread woke the driver.
    fn handle_wake(&mut self, _context: &mut Context<'_>) {}

    /// The moment that [`Application::poll_timeout`] told has come.
    fn handle_timeout(&mut self, _context: &mut Context<'_>) {}

    /// When [`Application::handle_timeout`] is due.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

/// What happened to a transfer.
#[derive(Debug)]
pub enum TransferEvent<'a> {
    /// An interim answer (1xx) other than 100.
    Informational(Response<'a>),
    /// The answer is followed to somewhere else; its body is of no interest.
    Redirect {
        /// The answer's head.
        response: Response<'a>,
        /// What is asked next.
        to: &'a Url,
    },
    /// The answer begins.
    Head {
        /// Its status and fields.
        response: Response<'a>,
        /// The length of the body as it is delivered, if it is known.
        len: Option<u64>,
    },
    /// A piece of the body: a share of what was received, not a copy, unless it was decoded.
    Data(Bytes),
    /// The request's body may go on, with [`Context::send`]; not told after [`Context::finish`].
    Writable,
    /// The connection is no longer HTTP's (101, or 2xx to CONNECT): what follows is the peer's
    /// bytes and ours, without messages.
    Upgraded,
    /// It is over.
    Done(Done),
}

/// What may be done with transfers, at any time.
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

    /// Gives a transfer up, wherever it stands: nothing is told of it any more. False if it is
    /// over already.
    pub fn remove(&mut self, transfer: TransferId) -> bool {
        self.state.remove(self.now, transfer).is_some()
    }

    /// Delivers nothing of the answer until [`Context::resume`]: what has arrived stays where it
    /// is, and the server is held back. Costs nothing while it lasts.
    pub fn pause(&mut self, transfer: TransferId) {
        if let Some(transfer) = self.state.transfers.get_mut(transfer.0) {
            transfer.paused = true;
        }
        self.state.commands.push_back(Command::Hold(transfer));
    }

    /// Goes on where [`Context::pause`] stopped.
    pub fn resume(&mut self, transfer: TransferId) {
        if let Some(known) = self.state.transfers.get_mut(transfer.0)
            && std::mem::take(&mut known.paused)
        {
            known.release(self.now);
            self.state.commands.push_back(Command::Hold(transfer));
        }
    }

    /// Queues bytes of the request's body ([`crate::RequestBody::Stream`]), or of an upgraded
    /// connection. Best answered to [`TransferEvent::Writable`]: what the connection has no room
    /// for is kept in memory. Before a transfer has a connection, and when it is over, nothing is
    /// queued.
    pub fn send(&mut self, transfer: TransferId, data: impl Into<Segment>) {
        self.state.commands.push_back(Command::Send(transfer, data.into()));
    }

    /// The request's body, or our side of an upgraded connection, is complete. As
    /// [`Context::send`], it does nothing before the transfer has a connection.
    pub fn finish(&mut self, transfer: TransferId) {
        if let Some(known) = self.state.transfers.get_mut(transfer.0)
            && known.is_active()
        {
            known.finished = true;
            self.state.commands.push_back(Command::Finish(transfer));
        }
    }

    /// Moves the body from the socket into a file, without this program's memory (`splice(2)`),
    /// where that is possible: from [`TransferEvent::Head`], if the length is known and no coding is
    /// undone. False if it is not; then the body is delivered as usual.
    ///
    /// Some of it is delivered as [`TransferEvent::Data`] all the same, and is the application's to write,
    /// where [`Progress::received`] says that it ends: what arrived together with the head, the
    /// last byte (with which is seen whether anything follows), and everything where the kernel
    /// cannot splice. `place` is open for writing, and not for appending.
    pub fn store(&mut self, transfer: TransferId, place: FileRange) -> bool {
        self.state.store(transfer, place)
    }

    /// How far a transfer is; `None` if it is over.
    pub fn progress(&self, transfer: TransferId) -> Option<Progress> {
        Some(self.state.transfers.get(transfer.0)?.progress(self.now))
    }

    /// Transfers that have been started and are not over.
    pub fn running(&self) -> usize {
        self.state.transfers.len()
    }
}
