//! Translates events of connections into events of transfers.
//!
//! An application may remove any transfer at any event. So a transfer may have ended before the
//! next event of its connection: a lookup that fails means that there is nothing left to do.

use std::time::Instant;

use bytes::Bytes;
use fulmar_engine::{ConnectionEvent, End, Handler, SocketId};
use fulmar_proto as proto;
use fulmar_proto::{
    ClientConnection, Connection, PeerError, Reset, StreamId, UrlScheme, UsageError,
};
use fulmar_tls::{ClientSession, HTTP2, Info};

use crate::application::{Application, Context, TransferEvent};
use crate::body;
use crate::connection_data::{ConnectionData, ConnectionProgress};
use crate::connection_key::Protocol;
use crate::deadline::later;
use crate::error::Error;
use crate::pool::Multiplexing;
use crate::state::{CONNECTED, ClientState, Command, RUNNING};
use crate::transfer::{BodyUse, FollowUp, IGNORED_SIZE_MAX, NegotiatedTls, TransferId};
use crate::transfer_stage::TransferStage;

/// The application and the state of all transfers, without the connections: the handler of the
/// connections' events.
#[derive(Debug)]
pub(crate) struct ConnectionHandler<A> {
    pub(crate) application: A,
    pub(crate) state: ClientState,
}

impl<A: Application> ConnectionHandler<A> {
    pub(crate) fn emit(&mut self, now: Instant, id: TransferId, event: TransferEvent<'_>) {
        let mut context = Context { now, state: &mut self.state };
        self.application.handle(&mut context, id, event);
    }

    /// Ends a transfer and reports it, unless it was removed.
    pub(crate) fn finish_transfer(
        &mut self,
        now: Instant,
        id: TransferId,
        result: Result<(), Error>,
    ) {
        if let Some(transfer) = self.state.remove(now, id) {
            self.emit(now, id, TransferEvent::Done(transfer.done(now, result)));
        }
    }

    /// The request broke the contract of the connection.
    pub(crate) fn usage_error(&mut self, now: Instant, id: TransferId, error: UsageError) {
        let transfer = self.state.transfers.get(id.0);
        if error == UsageError::NoSuchStream && transfer.is_some_and(|it| it.multiplexed) {
            return; // the server has closed the stream: its last event is on the way
        }
        self.finish_transfer(now, id, Err(Error::Usage(error)));
    }

    /// Fails the transfer that has waited longest at an origin.
    pub(crate) fn fail_front(&mut self, now: Instant, origin: usize, error: Error) {
        if let Some(id) = self.state.front(origin) {
            self.finish_transfer(now, id, Err(error));
        }
    }

    /// The server has read some of a request.
    pub(crate) fn note_progress(&mut self, now: Instant, id: Option<TransferId>) {
        if let Some(id) = id
            && let Some(transfer) = self.state.transfers.get_mut(id.0)
            && transfer.stage == TransferStage::Sending
        {
            transfer.since = now;
        }
    }

    /// A transfer's timer has expired.
    pub(crate) fn check_transfer(&mut self, now: Instant, id: TransferId) {
        let Some(transfer) = self.state.transfers.get_mut(id.0) else { return };
        transfer.armed = fulmar_engine::TickSpan::ENDLESS;
        if let Some((due, waiting)) = transfer.deadline()
            && due <= now
        {
            return self.finish_transfer(now, id, Err(Error::TimedOut(waiting)));
        }
        if transfer.next_check().is_some_and(|due| due <= now) && !self.run_check(now, id) {
            return;
        }
        self.state.watch(now, id);
    }

    /// Runs the checks that are due; false if the transfer has ended.
    fn run_check(&mut self, now: Instant, id: TransferId) -> bool {
        let transfer = self.state.transfers.get_mut(id.0).expect(RUNNING);
        if transfer.stage == TransferStage::Expecting {
            transfer.stage = TransferStage::Sending;
            transfer.since = now;
            self.state.commands.push_back(Command::SendBody(id));
            return true;
        }
        let received = transfer.received;
        let lowest = transfer.request.options().lowest_speed();
        let request = transfer.request.clone();
        let held = transfer.is_held();
        let Some(extra) = transfer.extra.as_deref_mut() else { return true };
        if extra.retry_at.take_if(|until| *until <= now).is_some() {
            self.state.restart(now, id, request, false);
            return true;
        }
        let Some(pace) = &mut extra.pace else { return true };
        if pace.until.take_if(|until| *until <= now).is_some() {
            transfer.release(now);
            self.state.commands.push_back(Command::Hold(id));
            return true;
        }
        let Some((speed, span)) = lowest else { return true };
        let moved = received - pace.window.1;
        let over = !held && later(pace.window.0, span) <= now;
        if over && u128::from(moved) * 1000 < u128::from(speed) * span.as_millis() {
            self.finish_transfer(now, id, Err(Error::TooSlow));
            return false;
        }
        if over {
            pace.window = (now, received);
        }
        true
    }

    /// Begins an exchange.
    pub(crate) fn assign(
        &mut self,
        now: Instant,
        socket: SocketId,
        (connection, data): (&mut ClientConnection, &mut ConnectionData),
        id: TransferId,
    ) {
        let transfer = self.state.transfers.get_mut(id.0).expect("it was in the queue");
        if transfer.request.is_for_later() {
            return self.report_connection(now, socket, data, id);
        }
        let stream = connection.open().expect("a connection of the pool takes a request");
        transfer.reused = data.uses > 0;
        if data.owners.is_empty() {
            data.begin();
        }
        data.uses += 1;
        data.owners.push(stream, id);
        (transfer.multiplexed, transfer.is_early) = match connection {
            ClientConnection::Http1(..) => (false, false),
            ClientConnection::Http2(it) => (true, it.peer_streams_max().is_none()),
        };
        transfer.taken = 0;
        transfer.socket = socket;
        transfer.stream = stream;
        transfer.peer = data.peer;
        transfer.coalesced = transfer.origin != data.origin();
        transfer.timestamps.assigned = Some(now);
        let mut tls = None;
        match data.opening.take() {
            None => self.state.stats.reused += 1,
            Some(opening) => {
                tls = opening.tls;
                transfer.timestamps.setup = opening.setup;
                if opening.certificates.is_some() && transfer.request.options().reports_certificates
                {
                    transfer.extra().certificates = opening.certificates;
                }
            }
        }
        transfer.since = now;
        transfer.stage = TransferStage::Sending;
        if transfer.is_held() && (transfer.multiplexed || data.owners.is_single()) {
            connection.set_held(stream, true); // paused while it waited
        }
        let origin = transfer.origin;
        let reports = transfer.request.options().reports_connection;
        self.state.join(now, origin);
        self.begin(now, id, connection, stream);
        if reports {
            self.report_begun(now, id, tls);
        }
    }

    /// The connection may be free: the first waiting transfer gets it at once, before the driver
    /// sees an idle connection.
    fn assign_next(
        &mut self,
        now: Instant,
        socket: SocketId,
        entry: (&mut ClientConnection, &mut ConnectionData),
    ) {
        let (connection, data) = &entry;
        let origin = data.origin();
        let plain = self.state.config.pipelining == 1 && !self.state.pool.has_waiting_origins();
        let free = (connection.is_http2() || data.owners.is_empty()) && connection.vacancy() > 0;
        if plain
            && free
            && let Some(id) = self.state.front(origin)
            && self.state.may_follow(now, id, data)
            && !self.state.pool.carries_one_exchange(origin)
            && !self.state.pool.coalescing.is_shared(socket.index)
            && self.state.permit(now, origin)
        {
            self.state.pool.pop(origin);
            self.state.cancel_dispatch(origin);
            self.assign(now, socket, entry, id);
        } else {
            self.state.commands.push_back(Command::Freed(socket));
        }
    }

    /// Sends the request on its connection.
    fn begin(
        &mut self,
        now: Instant,
        id: TransferId,
        connection: &mut ClientConnection,
        stream: StreamId,
    ) {
        let transfer = self.state.transfers.get_mut(id.0).expect("it was just assigned");
        let request = transfer.request.clone();
        if request.is_tunnel() {
            return self.begin_tunnel(now, id, connection, stream);
        }
        if request.is_sent() {
            return self.begin_upgraded(now, id, connection, stream);
        }
        let expects =
            request.expects_continue() && (request.verbatim().is_none() || !connection.is_http2());
        let whole = request.encoded().filter(|_| self.state.adds_nothing(&request));
        let whole = match (whole, &mut *connection) {
            (Some(encoded), ClientConnection::Http1(connection, _)) => {
                Some(connection.send_encoded(stream, encoded))
            }
            (None, _) | (_, ClientConnection::Http2(_)) => None,
        };
        let has_body_left = whole.is_none();
        let queued =
            whole.unwrap_or_else(|| self.state.send_head(now, id, &request, connection, stream));
        if let Err(error) = queued {
            return self.usage_error(now, id, error);
        }
        if expects && let Some(transfer) = self.state.transfers.get_mut(id.0) {
            transfer.stage = TransferStage::Expecting;
        }
        self.state.watch(now, id);
        if has_body_left && !expects {
            self.state.commands.push_back(Command::SendBody(id));
        }
    }

    /// The connection is the application's from now on. It is paused before anything is read.
    fn begin_tunnel(
        &mut self,
        now: Instant,
        id: TransferId,
        connection: &mut ClientConnection,
        stream: StreamId,
    ) {
        let begun = match connection {
            ClientConnection::Http1(connection, _) => connection.begin_tunnel(stream),
            ClientConnection::Http2(_) => Err(UsageError::NoSuchStream),
        };
        if let Err(error) = begun {
            return self.usage_error(now, id, error);
        }
        connection.set_held(stream, true);
        if let Some(transfer) = self.state.transfers.get_mut(id.0) {
            transfer.stage = TransferStage::Receiving;
            transfer.paused = true;
        }
        self.state.watch(now, id);
        self.emit(now, id, TransferEvent::Upgraded);
    }

    /// The request was sent before its connection was upgraded to HTTP/2.
    fn begin_upgraded(
        &mut self,
        now: Instant,
        id: TransferId,
        connection: &mut ClientConnection,
        stream: StreamId,
    ) {
        let transfer = self.state.transfers.get(id.0).expect("it was just assigned");
        let method = transfer.request.method().as_bytes();
        let begun = match connection {
            ClientConnection::Http2(connection) => connection.begin_upgraded(stream, method),
            ClientConnection::Http1(..) => Err(UsageError::NoSuchStream),
        };
        match begun {
            Ok(()) => self.state.watch(now, id),
            Err(error) => self.usage_error(now, id, error),
        }
    }

    /// Sends the body of a request after its head.
    pub(crate) fn send_body(
        &mut self,
        now: Instant,
        id: TransferId,
        connection: &mut ClientConnection,
        stream: StreamId,
    ) {
        let Some(transfer) = self.state.transfers.get_mut(id.0) else { return };
        match body::send(transfer.request.body(), connection, stream) {
            Ok(body::Sent::All(bytes)) => transfer.sent += bytes,
            Ok(body::Sent::ByApplication) => self.emit(now, id, TransferEvent::Writable),
            Err(error) => self.usage_error(now, id, error),
        }
    }

    pub(crate) fn emit_writable(&mut self, now: Instant, id: TransferId) {
        if self.state.transfers.get(id.0).is_some_and(|transfer| !transfer.finished) {
            self.emit(now, id, TransferEvent::Writable);
        }
    }

    fn interim(&mut self, now: Instant, id: TransferId, response: proto::Response<'_>) {
        let Some(transfer) = self.state.transfers.get_mut(id.0) else { return };
        if response.status == 100 && transfer.stage == TransferStage::Expecting {
            transfer.stage = TransferStage::Sending;
            transfer.since = now;
            self.state.commands.push_back(Command::SendBody(id));
        }
        self.emit(now, id, TransferEvent::Informational(response));
    }

    /// The server broke the protocol. If its head did, the application receives the bytes.
    fn malformed(
        &mut self,
        now: Instant,
        socket: SocketId,
        (connection, data): (&ClientConnection, &ConnectionData),
        (error, received): (PeerError, &[u8]),
    ) {
        let Some(id) = data.owners.first().filter(|_| !connection.is_http2()) else { return };
        let Some(transfer) = self.state.active_on(socket, id) else { return }; // it was cancelled
        if transfer.stage != TransferStage::Receiving && !received.is_empty() {
            let judged = connection.judged_len();
            self.emit(now, id, TransferEvent::MalformedHead { error, received, judged });
        }
    }

    /// Delivers the fields behind a body, unless the response is not for the application.
    fn trailers(&mut self, now: Instant, id: TransferId, trailers: proto::Headers<'_>) {
        let Some(transfer) = self.state.transfers.get(id.0) else { return };
        let is_ignored = matches!(transfer.body, BodyUse::Ignore(_));
        let has_lines = trailers.received().map_or(!trailers.is_empty(), |lines| lines.len() > 2);
        if has_lines && !is_ignored && !transfer.is_held() {
            self.emit(now, id, TransferEvent::Trailers(trailers));
        }
    }

    fn head(
        &mut self,
        now: Instant,
        id: TransferId,
        response: proto::Response<'_>,
        len: proto::BodyLen,
    ) {
        if !self.state.note_head(now, id, response.status, len) {
            return;
        }
        self.state.take_identity(now, id, response.headers);
        match self.state.decide(now, id, response) {
            Err(error) => self.finish_transfer(now, id, Err(error)),
            Ok(Some(to)) => self.emit(now, id, TransferEvent::Redirect { response, to: &to }),
            Ok(None) => {
                let Some(transfer) = self.state.transfers.get(id.0) else { return };
                if transfer.body == BodyUse::Deliver {
                    let decoded = transfer.extra.as_ref().is_some_and(|e| e.decoder.is_some());
                    let len = transfer.len.filter(|_| !decoded);
                    self.emit(now, id, TransferEvent::Head { response, len });
                }
            }
        }
        self.state.watch(now, id);
    }

    /// Bytes of the body were spliced into the file. Returns its stream if the transfer is now
    /// held.
    pub(crate) fn spliced(
        &mut self,
        now: Instant,
        id: Option<TransferId>,
        bytes: u64,
    ) -> Option<StreamId> {
        let id = id?;
        let transfer = self.state.transfers.get_mut(id.0)?;
        transfer.received += bytes;
        transfer.since = now;
        if let Some(place) = transfer.extra.as_mut().and_then(|extra| extra.file.as_mut()) {
            place.offset += bytes;
            place.len = place.len.saturating_sub(bytes);
        }
        self.state.pace(now, id, bytes);
        let transfer = self.state.transfers.get(id.0)?;
        transfer.is_held().then_some(transfer.stream)
    }

    /// Bytes of the body have arrived.
    fn data(&mut self, now: Instant, id: TransferId, bytes: Bytes) {
        let Some(transfer) = self.state.transfers.get_mut(id.0) else { return };
        let len = bytes.len() as u64;
        transfer.received += len;
        transfer.since = now;
        if let BodyUse::Ignore(_) = transfer.body {
            return;
        }
        if let Some(extra) = transfer.extra.as_deref_mut() {
            if let Some(place) = &mut extra.file {
                place.offset += len;
                place.len = place.len.saturating_sub(len);
            }
            if extra.pace.is_some() {
                self.state.pace(now, id, len);
            }
        }
        self.deliver(now, id, bytes);
    }

    /// Delivers a piece of the body, decoded if requested. If the application pauses, the rest is
    /// kept.
    pub(crate) fn deliver(&mut self, now: Instant, id: TransferId, bytes: Bytes) {
        let Some(transfer) = self.state.transfers.get_mut(id.0) else { return };
        let max = transfer.request.options().body_max.unwrap_or(u64::MAX);
        let Some(decoder) = transfer.extra.as_mut().and_then(|extra| extra.decoder.take()) else {
            if transfer.received > max {
                return self.finish_transfer(now, id, Err(Error::TooLarge));
            }
            return self.emit(now, id, TransferEvent::Data(bytes));
        };
        let mut decoding = body::Decoding::new(decoder, bytes);
        loop {
            let piece = match decoding.next() {
                Err(error) => return self.finish_transfer(now, id, Err(Error::Coding(error))),
                Ok(None) => break,
                Ok(Some(piece)) => piece,
            };
            let Some(transfer) = self.state.transfers.get_mut(id.0) else { return };
            transfer.extra().decoded += piece.len() as u64;
            if transfer.extra().decoded > max {
                return self.finish_transfer(now, id, Err(Error::TooLarge));
            }
            self.emit(now, id, TransferEvent::Data(piece));
            match self.state.transfers.get(id.0) {
                None => return,
                Some(transfer) if transfer.paused => break,
                Some(_) => {}
            }
        }
        if let Some(transfer) = self.state.transfers.get_mut(id.0) {
            let extra = transfer.extra();
            (extra.decoder, extra.undecoded) = decoding.into_parts();
        }
    }

    /// Delivers what was kept during a pause. True if the transfer has ended, or is paused again.
    pub(crate) fn drain(&mut self, now: Instant, id: TransferId) -> bool {
        let Some(transfer) = self.state.transfers.get_mut(id.0) else { return true };
        let Some(extra) = transfer.extra.as_mut() else { return false };
        if extra.decoder.is_some() {
            let kept = std::mem::take(&mut extra.undecoded);
            self.deliver(now, id, kept);
        }
        let Some(transfer) = self.state.transfers.get(id.0) else { return true };
        if transfer.paused {
            return true;
        }
        if transfer.extra.as_ref().is_some_and(|extra| extra.ended) {
            self.complete(now, id);
            return true;
        }
        false
    }

    /// The response is complete. Its connection is free or closed.
    fn end(&mut self, now: Instant, id: TransferId) {
        let Some(transfer) = self.state.transfers.get_mut(id.0) else { return };
        let origin = transfer.origin;
        transfer.stage = TransferStage::Detached;
        let ignored = matches!(transfer.body, BodyUse::Ignore(_));
        // With decoded bytes that are not delivered yet, or since its trailers.
        let kept = transfer.paused && !ignored;
        if kept {
            transfer.extra().ended = true;
        }
        self.state.leave(origin);
        if ignored {
            self.start_next_hop(now, id);
        } else if !kept {
            self.complete(now, id);
        }
    }

    fn complete(&mut self, now: Instant, id: TransferId) {
        let transfer = self.state.transfers.get_mut(id.0).expect(RUNNING);
        let decoder = transfer.extra.as_mut().and_then(|extra| extra.decoder.as_ref());
        let result = decoder.map_or(Ok(()), |decoder| decoder.finish().map_err(Error::Coding));
        self.finish_transfer(now, id, result);
    }

    /// The response was not for the application: sends the next request.
    fn start_next_hop(&mut self, now: Instant, id: TransferId) {
        let transfer = self.state.transfers.get_mut(id.0).expect(RUNNING);
        if transfer.is_active() {
            let origin = transfer.origin;
            transfer.stage = TransferStage::Detached;
            self.state.leave(origin);
        }
        let transfer = self.state.transfers.get_mut(id.0).expect(RUNNING);
        let BodyUse::Ignore(then) = transfer.body else { unreachable!("the body is ignored") };
        transfer.hop(now);
        match then {
            FollowUp::Follow => {
                let next = transfer.extra().next.take();
                let next = next.unwrap_or_else(|| transfer.request.clone());
                self.state.restart(now, id, next, false);
            }
            FollowUp::Rest => self.state.watch(now, id),
        }
    }

    /// Discards bytes of a response that no transfer needs, on a connection that others still use.
    fn discard(
        connection: &mut ClientConnection,
        data: &mut ConnectionData,
        stream: StreamId,
        bytes: usize,
    ) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        data.drained = data.drained.saturating_add(bytes);
        if u64::from(data.drained) > IGNORED_SIZE_MAX {
            connection.reset(stream, Reset::Cancelled);
        }
    }
}

impl<A: Application> Handler<ClientConnection, ConnectionData> for ConnectionHandler<A> {
    #[inline(always)]
    fn handle(
        &mut self,
        now: Instant,
        socket: SocketId,
        (connection, data): (&mut ClientConnection, &mut ConnectionData),
        event: ConnectionEvent<'_, proto::Client>,
    ) {
        match event {
            ConnectionEvent::Established { info } => {
                let info = info.and_then(|info| info.downcast_ref::<ClientSession>()?.info());
                self.handle_established(now, socket, (connection, data), info.as_ref());
            }
            ConnectionEvent::Received => data.response_begun = true,
            ConnectionEvent::Event(event) => {
                self.handle_event(now, socket, (connection, data), event);
            }
            ConnectionEvent::Timer => {
                if let Some(attempt) = data.attempt() {
                    self.state.commands.push_back(Command::Race(attempt));
                }
            }
            ConnectionEvent::InputUsed => {
                if let ClientConnection::Http2(connection) = connection {
                    self.check_streams_max(socket, connection, data);
                }
            }
            // The transfer fails with the end of the connection.
            ConnectionEvent::Fault { message, error } => {
                self.malformed(now, socket, (connection, data), (error, message));
            }
            ConnectionEvent::Replaced { .. }
            | ConnectionEvent::Sent
            | ConnectionEvent::Ending
            | ConnectionEvent::DeadlinePassed { .. } => {}
            ConnectionEvent::Piped(_) => unreachable!("no pipe was requested"),
        }
    }

    fn handle_closed(
        &mut self,
        now: Instant,
        socket: SocketId,
        mut data: ConnectionData,
        end: End,
    ) {
        self.state.unlist(socket.index, &data);
        if data.owners.is_empty() {
            return self.state.commands.push_back(Command::Closed(Box::new(data), socket, end));
        }
        self.on_connection_lost(now, socket, &mut data, end);
        self.state.commands.push_back(Command::Closed(Box::new(data), socket, End::Closed));
    }
}

impl<A: Application> ConnectionHandler<A> {
    fn handle_established(
        &mut self,
        now: Instant,
        socket: SocketId,
        (connection, data): (&mut ClientConnection, &mut ConnectionData),
        info: Option<&Info<'_>>,
    ) {
        let origin = data.origin();
        if let Some(opening) = &mut data.opening {
            let setup = &mut opening.setup;
            setup.handshake = self.state.stamp(now).wrapping_sub(setup.handshake);
            let options = info.and_then(|_| self.state.front_options(origin));
            if options.as_ref().is_some_and(|options| options.reports_certificates) {
                let certificates = info.map(|info| info.certificates().map(<[u8]>::to_vec));
                opening.certificates = certificates.map(Iterator::collect);
            }
            if options.is_some_and(|options| options.reports_connection) {
                opening.tls = info.map(|info| Box::new(NegotiatedTls::of(info)));
            }
        }
        let known = self.state.pool.get_mut(data.origin()).expect(CONNECTED);
        let key = known.key.key();
        let has_chosen = info.is_some_and(|info| info.alpn == Some(HTTP2));
        let is_http2 = has_chosen || key.protocol == Protocol::Http2;
        if is_http2 {
            connection.start_http2(match key.tls {
                Some(_) => UrlScheme::Https,
                None => UrlScheme::Http,
            });
            data.stage = ConnectionProgress::AwaitsSettings;
            if let ClientConnection::Http2(connection) = connection {
                connection.set_streams_allowed(self.state.config.streams_max);
                if let Some(max) = known.streams_max {
                    connection.set_streams_expected(max.max(1)); // it may have been raised
                }
            }
        } else {
            known.connecting -= 1;
            data.stage = ConnectionProgress::Http1;
        }
        known.multiplexing = match known.multiplexing {
            Multiplexing::OneExchange => Multiplexing::OneExchange,
            Multiplexing::Unknown | Multiplexing::Failed | Multiplexing::Yes | Multiplexing::No => {
                match is_http2 {
                    true => Multiplexing::Yes,
                    false => Multiplexing::No,
                }
            }
        };
        // Its server does not want it on HTTP/2. After a 421 it is apart already, and the
        // connection that it was coalesced onto keeps it in the pool.
        if !is_http2 && known.coalesces {
            self.state.pool.separate(data.origin());
        }
        if is_http2 && self.state.config.coalescing {
            self.state.pool.begin_coalescing(
                data.origin(),
                data.peer.map(|peer| peer.ip()),
                socket.index,
            );
        }
        self.state.commands.push_back(Command::Freed(socket));
        if is_http2
            && self.state.pool.coalescing.contains(socket.index)
            && let Some(info) = info
        {
            self.state.retry_coalescing(now, data.origin(), info);
        }
    }

    /// SETTINGS may have arrived: the server accepts fewer streams from now on, or more.
    #[inline(never)] // HTTP/1 has no part of it
    fn check_streams_max(
        &mut self,
        socket: SocketId,
        connection: &proto::h2::H2<proto::Client>,
        data: &mut ConnectionData,
    ) {
        if !data.shared && !data.owners.is_empty() && connection.vacancy() > 0 {
            self.state.commands.push_back(Command::Freed(socket));
        }
        let Some(max) = connection.peer_streams_max() else { return };
        let origin = data.origin();
        let known = self.state.pool.get_mut(origin).expect(CONNECTED);
        known.streams_max = Some(max);
        if data.stage == ConnectionProgress::AwaitsSettings {
            data.stage = ConnectionProgress::Http2;
            known.connecting -= 1;
            self.state.commands.push_back(Command::Dispatch(origin));
        }
    }

    fn handle_event(
        &mut self,
        now: Instant,
        socket: SocketId,
        (connection, data): (&mut ClientConnection, &mut ConnectionData),
        event: proto::Event<'_, proto::Client>,
    ) {
        let ends = matches!(event, proto::Event::End { .. } | proto::Event::Reset { .. });
        match data.owners.get(event.stream()) {
            Some(id) => self.handle_event_of(now, socket, (connection, data), event, id),
            // Its transfer has gone on to the next request without it.
            None if ends => {}
            None => return,
        }
        if !connection.is_http2()
            && let Some(next) = data.owners.first()
            && let Some(next) = self.state.transfers.get(next.0)
            && next.is_held()
        {
            connection.set_held(next.stream, true);
        }
        while let Some(id) = self.state.newly_held.pop() {
            if let Some(transfer) = self.state.active_on(socket, id)
                && transfer.is_held()
            {
                connection.set_held(transfer.stream, true);
            }
        }
        if ends {
            self.assign_next(now, socket, (connection, data));
        }
    }

    fn handle_event_of(
        &mut self,
        now: Instant,
        socket: SocketId,
        (connection, data): (&mut ClientConnection, &mut ConnectionData),
        event: proto::Event<'_, proto::Client>,
        id: TransferId,
    ) {
        match event {
            proto::Event::Informational { head, .. } => self.interim(now, id, head),
            proto::Event::Head { head, len, .. } => self.head(now, id, head, len),
            proto::Event::Data { stream, bytes } => {
                connection.release(stream, bytes.len());
                match self.state.active_on(socket, id) {
                    Some(transfer) if transfer.exceeds_drain_limit(bytes.len()) => {
                        // From here on no event of this stream concerns the transfer.
                        data.owners.remove(stream);
                        data.response_begun = false;
                        connection.reset(stream, Reset::Cancelled);
                        self.start_next_hop(now, id);
                    }
                    Some(_) => self.data(now, id, bytes),
                    None => Self::discard(connection, data, stream, bytes.len()),
                }
            }
            proto::Event::End { stream, trailers } => {
                self.trailers(now, id, trailers);
                data.owners.remove(stream);
                data.response_begun = false;
                if connection.has_excess() {
                    self.state.mark_excess(id);
                }
                self.end(now, id);
            }
            proto::Event::Writable { .. } => self.emit_writable(now, id),
            proto::Event::Upgraded { .. } => {
                if let Some(transfer) = self.state.transfers.get_mut(id.0)
                    && transfer.request.pauses_upgraded()
                {
                    transfer.paused = true;
                }
                self.emit(now, id, TransferEvent::Upgraded);
            }
            proto::Event::Reset { stream, code, cause, .. } => {
                data.owners.remove(stream);
                match connection.eof_error() {
                    Some(error) => self.on_stream_lost(now, socket, id, data, error),
                    None => self.on_stream_reset(now, socket, id, code, cause),
                }
            }
        }
    }
}
