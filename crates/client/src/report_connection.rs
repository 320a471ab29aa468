//! Reports of connections: to a transfer that needs one for later requests, and to one whose
//! request begins on it, if it is to be reported.

use std::time::Instant;

use fulmar_engine::SocketId;

use crate::application::{Application, TransferEvent};
use crate::connection_data::ConnectionData;
use crate::connection_handler::ConnectionHandler;
use crate::state::Command;
use crate::transfer::{ConnectedFacts, NegotiatedTls, TransferId};
use crate::transfer_stage::TransferStage;

impl<A: Application> ConnectionHandler<A> {
    /// A transfer that needs a connection for later requests has it.
    pub(crate) fn report_connection(
        &mut self,
        now: Instant,
        socket: SocketId,
        data: &ConnectionData,
        id: TransferId,
    ) {
        let transfer = self.state.transfers.get_mut(id.0).expect("it was in the queue");
        transfer.stage = TransferStage::Detached;
        (transfer.socket, transfer.peer, transfer.reused) = (socket, data.peer, data.uses > 0);
        transfer.timestamps.assigned = Some(now);
        if let Some(opening) = &data.opening {
            transfer.timestamps.setup = opening.setup; // also for its first exchange
        }
        self.state.commands.push_back(Command::Freed(socket));
        self.finish_transfer(now, id, Ok(()));
    }

    /// A request has begun, unless it has failed at once.
    #[inline(never)] // few applications need it
    pub(crate) fn report_begun(
        &mut self,
        now: Instant,
        id: TransferId,
        tls: Option<Box<NegotiatedTls>>,
    ) {
        let Some(transfer) = self.state.transfers.get(id.0) else { return };
        let Some(exchange) = transfer.exchange(now) else { return };
        if transfer.request.is_tunnel() {
            return;
        }
        let (multiplexed, stream) = (transfer.multiplexed, transfer.stream);
        let facts = ConnectedFacts { exchange, multiplexed, stream, tls };
        self.emit(now, id, TransferEvent::Connected(facts));
    }
}
