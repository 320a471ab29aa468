//! Requests that are begun when their connection is known: a function of the application may refuse
//! them (`CURLOPT_PREREQFUNCTION`), and a server that has responded with HTTP/1.0 gets requests of
//! that version.
//!
//! The client opens the connection, or finds an idle one, and then the request uses it. If another
//! transfer has taken it meanwhile, the next one is waited for, and the function is called again.

use std::net::SocketAddr;
use std::rc::Rc;

use fulmar_client::{CompiledOrigin, Done, Options, TransferId};

use crate::border::CBorder;
use crate::code::CurlCode;
use crate::failure::Failure;
use crate::handles::{Easy, Multi};
use crate::option::OptionId as Id;
use crate::transfer::Preconnect;
use crate::websocket::is_websocket;

impl Multi {
    /// True if the request of a transfer is started later, on a connection that is requested now:
    /// that of `tunnel`, or any.
    ///
    /// # Errors
    /// The client refuses the origin.
    pub(crate) fn start_preconnect(
        &self,
        easy: &Rc<Easy>,
        options: &mut Options,
        tunnel: Option<TransferId>,
    ) -> Result<bool, Failure> {
        let has_function = !easy.pointer(Id::PREREQFUNCTION).is_null();
        options.resends = !has_function;
        if !has_function && !self.open.borrow().has_http10() {
            return Ok(false);
        }
        let opened = easy.with_state(|state| {
            let transfer = state.transfer.as_mut().expect("its request is being started");
            std::mem::take(&mut transfer.preconnect)
        });
        if let Preconnect::Open(_) = opened {
            options.fresh_connection = false; // it is fresh
        }
        let mut origin = self.origin_of(easy, options.clone())?;
        if easy.with_state(|state| is_websocket(state)) {
            origin = origin.for_upgrades().map_err(|error| Self::build_failure(easy, &error))?;
        }
        if let Preconnect::Open(socket) = opened
            && self.reactor.borrow().engine.would_use(&origin, socket)
        {
            return Ok(false);
        }
        let request = origin.connection();
        let id = self.send_request(easy, &request, tunnel);
        easy.with_state(|state| {
            if let Some(transfer) = &mut state.transfer {
                transfer.id = Some(id);
                transfer.preconnect = Preconnect::Opening;
                transfer.response.reset();
            }
        });
        Ok(true)
    }

    /// The origin of the current request.
    ///
    /// # Errors
    /// The client refuses it.
    pub(crate) fn origin_of(
        &self,
        easy: &Easy,
        options: Options,
    ) -> Result<CompiledOrigin, Failure> {
        let origin = easy.with_state(|state| {
            let transfer = state.transfer.as_ref().expect("its request is being started");
            match transfer.route.http.is_none() {
                true => self.origin.borrow_mut().find(&transfer.target, options),
                false => CompiledOrigin::new(&transfer.hop_origin(), options),
            }
        });
        origin.map_err(|error| Self::build_failure(easy, &error))
    }

    pub(crate) fn build_failure(easy: &Easy, error: &fulmar_client::BuildError) -> Failure {
        easy.with_state(|state| {
            let transfer = state.transfer.as_ref().expect("its request is being started");
            Failure::of_build(error, transfer.peer())
        })
    }

    /// True if a connection that was requested is there: the request begins, or is refused.
    pub(crate) fn end_preconnect(
        &self,
        easy: &Rc<Easy>,
        done: &Done,
        border: &dyn CBorder,
    ) -> bool {
        let socket = done.connection.filter(|_| done.result.is_ok());
        let Some(socket) = socket else { return false };
        let is_http10 = self.open.borrow().is_http10(socket);
        let is_opened = easy.with_state(|state| {
            let Some(transfer) = &mut state.transfer else { return false };
            if transfer.preconnect != Preconnect::Opening {
                return false;
            }
            transfer.preconnect = Preconnect::Open(socket);
            transfer.on_http10 = is_http10;
            true
        });
        if is_opened {
            self.release(easy);
            self.note_assigned(easy, socket, done.peer);
            let begun = self.request_permission(easy, border);
            if let Err(failure) = begun.and_then(|()| self.continue_in(None, easy, border)) {
                self.finish(easy, Err(failure), border);
            }
        }
        is_opened
    }

    /// The server of a transfer has responded.
    pub(crate) fn note_version(&self, easy: &Easy, is_http10: bool) {
        if let Some(socket) = easy.with_state(|state| state.info.socket) {
            self.open.borrow_mut().note_version(socket, is_http10);
        }
    }

    /// `CURLOPT_PREREQFUNCTION`.
    ///
    /// # Errors
    /// The application refuses the request.
    pub(crate) fn request_permission(
        &self,
        easy: &Easy,
        border: &dyn CBorder,
    ) -> Result<(), Failure> {
        let (function, user) = (easy.pointer(Id::PREREQFUNCTION), easy.pointer(Id::PREREQDATA));
        if function.is_null() {
            return Ok(());
        }
        let ends = easy.with_state(|state| {
            let end = |end: Option<SocketAddr>| {
                end.map(|end| (end.ip().to_string(), end.port())).unwrap_or_default()
            };
            let [mut peer, local] = [state.info.peer, state.info.local].map(end);
            if let Some(transfer) = state.transfer.as_ref().filter(|it| !it.target.is_file)
                && state.info.peer.is_none()
            {
                peer.1 = transfer.peer().1; // a Unix socket has no port
            }
            [peer, local]
        });
        match self.call(|| border.permit_request(function, user, ends)) {
            0 => Ok(()),
            _ => Err(Failure::new(
                CurlCode::AbortedByCallback,
                "operation aborted by pre-request callback",
            )),
        }
    }
}
