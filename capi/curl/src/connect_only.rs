//! `CURLOPT_CONNECT_ONLY`: a transfer that ends with its connection, for bytes of the application.
//!
//! The connection stays a transfer of the client, paused and outside of the application's loop. Its
//! descriptor may be used by the application itself (`CURLINFO_ACTIVESOCKET`), so nothing is read
//! from it ahead: without TLS, `curl_easy_recv` and `curl_easy_send` are one system call each.

use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use fulmar_client::{Done, ExchangeFacts, Options, Request, TransferId};
use fulmar_drive::Ready;
use fulmar_drive::SocketId;
use fulmar_sys as sys;

use crate::border::CBorder;
use crate::code::CurlCode;
use crate::events::HopEvent;
use crate::failure::{Failure, reason};
use crate::handles::{Easy, LentConnection, Multi};
use crate::multi::MultiAction;
use crate::option::OptionId as Id;
use crate::proxy_choice::ProxyScheme;
use crate::values::CPointer;

impl Multi {
    /// True for a transfer that ends with its connection.
    pub(crate) fn connects_only(easy: &Easy) -> bool {
        easy.with_state(|state| state.options.values.number(Id::CONNECT_ONLY) == 1)
    }

    /// True if the connection of a transfer is the application's afterwards.
    pub(crate) fn keeps_connection(easy: &Easy) -> bool {
        easy.with_state(|state| state.options.values.is_on(Id::CONNECT_ONLY))
    }

    /// Starts to connect to the server of a transfer, in a tunnel if a proxy has opened one.
    pub(crate) fn start_connect_only(
        &self,
        easy: &Rc<Easy>,
        mut options: Options,
        tunnel: Option<TransferId>,
    ) -> Result<(), Failure> {
        let request = easy.with_state(|state| {
            let transfer = state.transfer.as_ref().expect("it is being started");
            // Both limit the time until the connection is established.
            let limits = [options.total_timeout.take(), options.queue_timeout];
            options.queue_timeout = limits.into_iter().flatten().min();
            state.request.url = Arc::clone(&transfer.target.url);
            Request::tunnel(&transfer.hop_origin())
                .options(Arc::new(options))
                .build()
                .map_err(|error| Failure::new(CurlCode::FailedInit, error.to_string()))
        })?;
        let id = self.send_request(easy, &request, tunnel);
        easy.with_state(|state| {
            if let Some(transfer) = &mut state.transfer {
                transfer.id = Some(id);
            }
        });
        Ok(())
    }

    /// The connection is established: the transfer ends, and the application has its connection.
    pub(crate) fn keep_connection(
        &self,
        easy: &Rc<Easy>,
        assigned: &ExchangeFacts,
        border: &dyn CBorder,
    ) {
        self.forget_own(easy);
        if let Some(connection) = assigned.connection {
            self.note_assigned(easy, connection, assigned.peer);
        }
        self.report_taken(easy, assigned.connection, border);
        if let Err(failure) = self.request_permission(easy, border) {
            return self.finish(easy, Err(failure), border);
        }
        let id = easy.with_state(|state| {
            let transfer = state.transfer.as_mut()?;
            let id = transfer.id.take()?;
            let proxy = transfer.route.http.as_ref();
            let is_https_proxy = proxy.is_some_and(|it| it.kind == ProxyScheme::Https);
            state.info.connects += i64::from(!assigned.reused);
            if state.options.values.is_on(Id::FORBID_REUSE) {
                return Some((id, false));
            }
            state.connection = Some(Box::new(LentConnection {
                multi: Weak::clone(&self.this),
                id,
                socket: assigned.connection?,
                has_tls: transfer.target.is_secure || is_https_proxy,
                received: Bytes::new(),
                has_room: true,
                ended: None,
            }));
            Some((id, true))
        });
        match id {
            None => return,
            Some((id, false)) => self.forget(id),
            Some((id, true)) => self.reactor.borrow_mut().with(|client, now| {
                client.with(now, |_, context| {
                    context.pause(id);
                    context.set_watched(id, false);
                });
            }),
        }
        self.finish(easy, Ok(()), border);
    }

    /// Notes an event of a connection that the application uses. False if it is of another one.
    pub(crate) fn take_connect_only_event(
        &self,
        easy: &Easy,
        id: TransferId,
        event: &mut Option<HopEvent>,
    ) -> bool {
        easy.with_state(|state| {
            let own = state.connection.as_mut();
            let Some(own) = own.filter(|own| own.id == id && self.has_lent(own)) else {
                return false;
            };
            match event.take() {
                Some(HopEvent::Data(bytes)) if own.received.is_empty() => own.received = bytes,
                Some(HopEvent::Data(bytes)) => {
                    own.received = [&own.received[..], &bytes].concat().into();
                }
                Some(HopEvent::Writable) => own.has_room = true,
                Some(HopEvent::Done(done)) => own.ended = Some(end_of(&done)),
                _ => {}
            }
            true
        })
    }

    /// Closes the connection of a handle that leaves a multi handle of the application. That of
    /// `curl_easy_perform` keeps it.
    pub(crate) fn close_connect_only(&self, easy: &Easy) {
        let is_private =
            easy.private.borrow().as_ref().is_some_and(|it| std::ptr::eq(Rc::as_ptr(it), self));
        if is_private {
            return;
        }
        self.forget_own(easy);
    }

    /// Closes the connection that a handle has of this client.
    fn forget_own(&self, easy: &Easy) {
        let own = easy.with_state(|state| state.connection.take_if(|own| self.has_lent(own)));
        if let Some(own) = own {
            self.forget(own.id);
            self.reactor.borrow_mut().timeout_action(sys::now()); // the end of TLS is sent
        }
    }

    fn has_lent(&self, own: &LentConnection) -> bool {
        std::ptr::eq(own.multi.as_ptr(), self)
    }

    /// A turn for one descriptor; events of the connection go to its handle.
    fn turn_for(&self, easy: &Easy, id: TransferId, socket: SocketId, ready: Ready) {
        let fd = self.open.borrow().get(socket).map(|socket| socket.fd);
        let Some(fd) = fd else { return };
        let mut reactor = self.reactor.borrow_mut();
        reactor.socket_action(sys::now(), fd, ready);
        let events = reactor.engine.application_mut().take(id);
        drop(reactor);
        for event in events {
            self.take_connect_only_event(easy, id, &mut Some(event));
        }
    }

    fn receive_tls(&self, easy: &Easy, (id, socket): (TransferId, SocketId)) {
        let pause = |pauses: bool| {
            self.reactor.borrow_mut().with(|client, now| {
                client.with(now, |_, context| match pauses {
                    true => context.pause(id),
                    false => context.resume(id),
                });
            });
        };
        pause(false);
        self.turn_for(easy, id, socket, Ready { read: true, ..Ready::default() });
        pause(true);
    }

    fn send_tls(&self, easy: &Easy, (id, socket): (TransferId, SocketId), bytes: &[u8]) -> bool {
        let has_room =
            || easy.with_state(|state| state.connection.as_ref().is_some_and(|it| it.has_room));
        if !has_room() {
            self.turn_for(easy, id, socket, Ready { write: true, ..Ready::default() });
        }
        if !has_room() {
            return false;
        }
        easy.with_state(|state| state.connection.iter_mut().for_each(|it| it.has_room = false));
        self.reactor.borrow_mut().with(|client, now| {
            client.with(now, |_, context| context.send(id, Bytes::copy_from_slice(bytes)));
        });
        self.turn_for(easy, id, socket, Ready { write: true, ..Ready::default() });
        true
    }
}

impl Easy {
    /// Sends bytes on the connection, and returns how many it accepted (curl_easy_send(3)).
    ///
    /// # Errors
    /// There is no such connection, it has no room now, or it fails.
    pub fn send(self: &Rc<Self>, bytes: &[u8], border: &dyn CBorder) -> Result<usize, CurlCode> {
        let (multi, id, socket, has_tls) = self.connect_only_connection(border)?;
        if has_tls {
            if self.ended().is_some() {
                return Err(CurlCode::SendError);
            }
            let bytes = &bytes[..bytes.len().min(SEND_SIZE_MAX)];
            return match multi.send_tls(self, (id, socket), bytes) {
                true => Ok(bytes.len()),
                false => Err(CurlCode::Again),
            };
        }
        let reactor = multi.reactor.borrow();
        let fd = reactor.socket_descriptor(socket).ok_or(CurlCode::SendError)?;
        let sent = sys::send(fd, bytes, false);
        drop(reactor);
        match sent {
            Ok(0) => Err(CurlCode::Again),
            Ok(len) => Ok(len),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Err(CurlCode::Again),
            Err(error) => {
                let text = format!("Send failure: {}", reason(&error));
                Err(self.fail(&multi, Failure::new(CurlCode::SendError, text), border))
            }
        }
    }

    /// Receives bytes from the connection, and returns how many; 0 at its end (curl_easy_recv(3)).
    ///
    /// # Errors
    /// There is no such connection, it has no bytes now, or it fails.
    pub fn receive(
        self: &Rc<Self>,
        buffer: &mut [u8],
        border: &dyn CBorder,
    ) -> Result<usize, CurlCode> {
        let (multi, id, socket, has_tls) = self.connect_only_connection(border)?;
        let is_empty = |easy: &Self| {
            let state = easy.state.borrow();
            state.connection.as_ref().is_none_or(|own| own.received.is_empty())
        };
        // Without TLS, only bytes that arrived with a response are there already.
        if has_tls || !is_empty(self) {
            if is_empty(self) && self.ended().is_none() {
                multi.receive_tls(self, (id, socket));
            }
            if is_empty(self) {
                return match self.ended() {
                    None => Err(CurlCode::Again),
                    Some(Ok(())) => Ok(0),
                    Some(Err(text)) => {
                        Err(self.fail(&multi, Failure::new(CurlCode::RecvError, text), border))
                    }
                };
            }
            return Ok(self.with_state(|state| {
                let own = state.connection.as_mut().expect("it has bytes");
                let len = buffer.len().min(own.received.len());
                own.received.copy_to_slice(&mut buffer[..len]);
                len
            }));
        }
        let mut block = BytesMut::with_capacity(buffer.len());
        let reactor = multi.reactor.borrow();
        let fd = reactor.socket_descriptor(socket).ok_or(CurlCode::RecvError)?;
        let received = sys::recv(fd, &mut block, buffer.len());
        drop(reactor);
        match received {
            Ok(len) => {
                buffer[..len].copy_from_slice(&block[..len]);
                Ok(len)
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Err(CurlCode::Again),
            Err(error) => {
                let text = format!("Recv failure: {}", reason(&error));
                Err(self.fail(&multi, Failure::new(CurlCode::RecvError, text), border))
            }
        }
    }

    /// Sends PINGs on the connections of `curl_easy_perform` (curl_easy_upkeep(3)): those of HTTP/2
    /// that had none for `CURLOPT_UPKEEP_INTERVAL_MS`. Within a callback nothing is sent.
    pub fn keep_alive(&self, border: &dyn CBorder) {
        let Some(multi) = self.private.borrow().clone() else { return };
        if multi.is_calling() || multi.is_poisoned() {
            return;
        }
        let interval = self.with_state(|it| it.options.values.number(Id::UPKEEP_INTERVAL_MS));
        let interval = Duration::from_millis(u64::try_from(interval).unwrap_or(0));
        multi.reactor.borrow_mut().with(|client, now| client.keep_alive(now, interval));
        let _ = multi.act(MultiAction::Perform, border); // the loop of connections alone
    }

    /// Closes the connections of `curl_easy_perform`.
    pub(crate) fn close_connections(&self, border: &dyn CBorder) {
        if let Some(multi) = self.private.take() {
            let _ = multi.close(border); // refused within a callback
        }
    }

    fn ended(&self) -> Option<Result<(), String>> {
        self.state.borrow().connection.as_ref()?.ended.clone()
    }

    fn connect_only_connection(
        self: &Rc<Self>,
        border: &dyn CBorder,
    ) -> Result<(Rc<Multi>, TransferId, SocketId, bool), CurlCode> {
        let lender = self.with_state(|state| state.connection.as_ref()?.multi.upgrade());
        let multi = lender.unwrap_or_else(|| self.private(|| Multi::new(CPointer::NULL)));
        if multi.is_calling() || self.multi().is_some_and(|multi| multi.is_calling()) {
            return Err(CurlCode::RecursiveApiCall);
        }
        if multi.is_poisoned() {
            return Err(CurlCode::FailedInit);
        }
        let state = self.state.borrow();
        let connects_only = state.options.values.is_on(Id::CONNECT_ONLY);
        let own = state.connection.as_ref().map(|own| (own.id, own.socket, own.has_tls));
        drop(state);
        let text = match own {
            Some((id, socket, has_tls)) if connects_only => {
                return Ok((multi, id, socket, has_tls));
            }
            _ if connects_only => "Failed to get recent socket",
            _ => "CONNECT_ONLY is required",
        };
        Err(self.fail(&multi, Failure::new(CurlCode::UnsupportedProtocol, text), border))
    }

    fn fail(self: &Rc<Self>, multi: &Multi, failure: Failure, border: &dyn CBorder) -> CurlCode {
        multi.report_failure(self, &failure, border);
        failure.code
    }
}

fn end_of(done: &Done) -> Result<(), String> {
    done.result.as_ref().map_err(|error| format!("Recv failure: {error}")).copied()
}

/// Bytes that one call accepts above TLS.
const SEND_SIZE_MAX: usize = 16_384;
