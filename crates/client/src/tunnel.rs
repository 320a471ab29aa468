//! Requests on connections that the application has turned into tunnels.

use std::net::SocketAddr;
use std::time::Instant;

use fulmar_proto::ClientConnection;

use crate::application::Application;
use crate::client::Client;
use crate::connection_data::Opening;
use crate::connection_key::Key;
use crate::error::Error;
use crate::open_connection::layer;
use crate::proxy_line::ProxyLine;
use crate::request::Request;
use crate::state::CONNECTED;
use crate::transfer::TransferId;
use crate::transfer_stage::TransferStage;

impl<A: Application> Client<A> {
    /// Starts a transfer on the connection of `tunnel`, a transfer whose CONNECT the proxy has
    /// accepted ([`crate::TransferEvent::Upgraded`]). That transfer ends without a further event.
    /// The options of `request` name the tunnel ([`crate::Options::tunnel`]): later requests with
    /// the same key use its connection, too. For `https`, TLS begins in the tunnel.
    ///
    /// With [`crate::Options::proxy_header`], `local` is our address of the connection.
    ///
    /// If `tunnel` has no connection any more, the transfer fails with [`Error::NoTunnel`].
    pub fn start_in_tunnel(
        &mut self,
        now: Instant,
        tunnel: TransferId,
        request: &Request,
        local: Option<SocketAddr>,
    ) -> TransferId {
        let failed = self.enter_tunnel(now, tunnel, request, local);
        self.run_commands(now);
        let id = self.with(now, |_, context| context.start(request));
        if let Err(error) = failed {
            self.core.finish_transfer(now, id, Err(error));
        }
        self.run_commands(now);
        id
    }

    /// Moves the connection to the origin of `request`, where it begins anew.
    fn enter_tunnel(
        &mut self,
        now: Instant,
        tunnel: TransferId,
        request: &Request,
        local: Option<SocketAddr>,
    ) -> Result<(), Error> {
        let state = &mut self.core.state;
        let Some(transfer) = state.transfers.get_mut(tunnel.0) else { return Err(Error::NoTunnel) };
        if !transfer.is_active() {
            return Err(Error::NoTunnel);
        }
        let (socket, setup) = (transfer.socket, transfer.timestamps.setup);
        transfer.stage = TransferStage::Detached;
        let from = transfer.origin;
        state.leave(from);
        state.remove(now, tunnel);
        let key = request.key();
        let Some((_, data)) = self.connections.get_mut(socket) else { return Err(Error::NoTunnel) };
        let header = key.proxy_header.then(|| ProxyLine::of_connection(local, data.peer));
        let layer = layer(key, &None, header).map_err(Error::Layer);
        data.owners.pop();
        let Ok(layer) = layer else {
            self.connections.cut(now, socket, &mut self.core);
            return Err(layer.expect_err("it was just matched"));
        };
        let state = &mut self.core.state;
        let to = state.pool.origin(request.hashed());
        state.unlist(socket.index, data);
        state.pool.remove_connection(from);
        state.pool.add_connection(to);
        state.pool.get_mut(to).expect(CONNECTED).connecting += 1;
        data.move_to(to, Opening { attempt: None, setup, certificates: None, tls: None });
        if let Some(opening) = &mut data.opening {
            opening.setup.handshake = state.stamp(now);
        }
        state.commands.push_back(crate::state::Command::Dispatch(from));
        let connection = connection(key, state.config.pipelining);
        self.connections.restart(now, socket, layer, connection, &mut self.core);
        Ok(())
    }
}

fn connection(key: &Key, pipelining: u32) -> ClientConnection {
    let mut connection = ClientConnection::with_depth(pipelining);
    connection.set_leniency(key.leniency);
    connection.set_profile(key.profile);
    connection.set_status_aliases(key.status_aliases.clone());
    connection
}
