//! Multi handles: transfers that share connections in one loop of the application.
//!
//! Everything happens in the thread of the caller. An action lets the reactor work, and then
//! delivers what has happened, one event at a time, with nothing borrowed: callbacks may use every
//! function that libcurl allows them to use.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::rc::{Rc, Weak};
use std::time::Duration;

use fulmar_client::{Client, Config, TransferId};
use fulmar_drive::SocketId;
use fulmar_drive::{Change, ExternalLoop, Reactor, Ready, Tag};
use fulmar_sys as sys;

use crate::border::CBorder;
use crate::code::{CurlCode, MultiCode};
use crate::easy_options::Argument;
use crate::events::{EventQueue, HopEvent};
use crate::failure::Failure;
use crate::handles::{Easy, Multi};
use crate::http2_upgrade::requests_http2;
use crate::transfer::EasyTransfer;
use crate::values::CPointer;

/// Scope of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MultiAction {
    /// Whatever is due, and all descriptors.
    Perform,
    /// The timer has expired (`CURL_SOCKET_TIMEOUT`).
    Timeout,
    /// A descriptor is ready, in the way of `CURL_CSELECT_*`; without one the kernel is queried.
    Socket(RawFd, i32),
}

impl Multi {
    /// An empty handle. `handle`: its address in C.
    pub fn new(handle: CPointer) -> Rc<Self> {
        Rc::new_cyclic(|this| Self {
            handle,
            options: RefCell::default(),
            reactor: RefCell::new(new_reactor()),
            sockets: RefCell::default(),
            open: RefCell::default(),
            ntlm: RefCell::default(),
            origin: RefCell::default(),
            prepared: RefCell::default(),
            tls: RefCell::default(),
            is_aborted: Cell::new(false),
            is_poisoned: Cell::new(false),
            added: RefCell::default(),
            added_count: Cell::default(),
            running_count: Cell::default(),
            active: RefCell::default(),
            pending: RefCell::default(),
            resumed: RefCell::default(),
            closed: RefCell::default(),
            hosts: RefCell::default(),
            resolved: RefCell::default(),
            updated: RefCell::default(),
            messages: RefCell::default(),
            is_calling: Cell::new(false),
            this: Weak::clone(this),
        })
    }

    /// Adds a handle, whose transfer begins at the next action (curl_multi_add_handle(3)): it has
    /// the options of that time, and its first error, too, is reported then.
    ///
    /// # Errors
    /// It is in a multi handle, a callback is running, or one has failed.
    pub fn add(&self, easy: &Rc<Easy>, border: &dyn CBorder) -> Result<(), MultiCode> {
        if easy.is_added() {
            return Err(MultiCode::AddedAlready);
        }
        self.check_usable()?;
        let _watch = self.watch_panics();
        if self.is_aborted.get() {
            if self.running() > 0 {
                return Err(MultiCode::AbortedByCallback);
            }
            self.is_aborted.set(false);
        }
        easy.multi.replace(Weak::clone(&self.this));
        let number = self.added_count.get();
        self.added_count.set(number + 1);
        easy.membership.number.set(number);
        self.added.borrow_mut().insert(number, Rc::clone(easy));
        easy.lock_for_addition(border);
        easy.membership.is_running.set(true);
        self.running_count.update(|count| count + 1);
        self.queue_hop(easy);
        self.report_addition(border)
    }

    /// Removes a handle in any state (curl_multi_remove_handle(3)). One that is in no multi handle
    /// is no error.
    ///
    /// # Errors
    /// It is in another one, or a callback is running.
    pub fn remove(&self, easy: &Rc<Easy>, border: &dyn CBorder) -> Result<(), MultiCode> {
        let Some(multi) = easy.multi() else { return Ok(()) };
        if !std::ptr::eq(Rc::as_ptr(&multi), self) {
            return Err(MultiCode::BadEasyHandle);
        }
        self.check_usable()?;
        let _watch = self.watch_panics();
        self.detach(easy);
        self.close_connect_only(easy);
        self.forget_pending(easy);
        self.resumed.borrow_mut().retain(|it| !Rc::ptr_eq(it, easy));
        if easy.membership.has_message.take() {
            self.messages.borrow_mut().retain(|(it, _)| !Rc::ptr_eq(it, easy));
        }
        self.added.borrow_mut().remove(&easy.membership.number.get());
        self.forget_updated(easy);
        self.take_transfer(easy);
        easy.multi.replace(Weak::new());
        easy.lock_for_removal(border);
        self.report(border)
    }

    /// Removes all handles, and reports the end of every descriptor (curl_multi_cleanup(3)).
    ///
    /// # Errors
    /// A callback is running.
    pub fn close(&self, border: &dyn CBorder) -> Result<(), MultiCode> {
        self.check_usable()?;
        let _watch = self.watch_panics();
        let added: Vec<_> = self.added.borrow().values().cloned().collect();
        for easy in added {
            self.remove(&easy, border)?;
        }
        self.report(border)?;
        self.active.borrow_mut().clear();
        let mut ending = self.reactor.replace(new_reactor()).end();
        for change in ending.by_ref() {
            if let Change::Forget { fd, .. } = change {
                self.report_removal(fd, border);
            }
        }
        while let Some(fd) = ending.poll_closed() {
            self.close_known(fd, border);
        }
        Ok(())
    }

    /// Sets an option (curl_multi_setopt(3)).
    ///
    /// # Errors
    /// It is unknown, or a callback is running.
    pub fn set(&self, option: i32, argument: Argument<'_>) -> Result<(), MultiCode> {
        self.check_usable()?;
        self.options.borrow_mut().set(option, argument)
    }

    /// The next finished transfer with its result, and how many more there are
    /// (curl_multi_info_read(3)).
    pub fn read_message(&self) -> Option<(Rc<Easy>, CurlCode, usize)> {
        if self.is_calling.get() {
            return None;
        }
        let mut messages = self.messages.borrow_mut();
        let (easy, code) = messages.pop_front()?;
        easy.membership.has_message.set(false);
        Some((easy, code, messages.len()))
    }

    /// Transfers that have not ended.
    pub fn running(&self) -> usize {
        self.running_count.get()
    }

    /// Lets transfers proceed (curl_multi_perform(3), curl_multi_socket_action(3)).
    ///
    /// # Errors
    /// A callback is running, or one has requested an end.
    pub fn act(&self, action: MultiAction, border: &dyn CBorder) -> Result<(), MultiCode> {
        self.check_usable()?;
        let _watch = self.watch_panics();
        if self.is_aborted.get() {
            self.abort_all(border);
        }
        self.apply_limits();
        if self.has_pending() {
            self.reactor.borrow_mut().check_unwatched(sys::now());
        }
        self.start_pending(border);
        match action {
            MultiAction::Perform => self.perform_ready(),
            MultiAction::Timeout => {
                self.forget_timer();
                self.reactor.borrow_mut().timeout_action(sys::now());
            }
            MultiAction::Socket(fd, what) => {
                let ready = Ready {
                    read: what & SELECT_IN != 0,
                    write: what & SELECT_OUT != 0,
                    hangup: what & SELECT_ERR != 0,
                    failed: what & SELECT_ERR != 0,
                };
                self.reactor.borrow_mut().socket_action(sys::now(), fd, ready);
            }
        }
        self.drain(border);
        if self.update_all(matches!(action, MultiAction::Socket(..)), border) {
            self.drain(border);
        }
        // Connections that have become idle remain in the application's loop until the transfers
        // that follow have been started: most of them are used again.
        if !matches!(action, MultiAction::Socket(..)) {
            self.reactor.borrow_mut().release_excluded();
        }
        self.report(border)
    }

    /// After a failed callback for sockets or for the timer.
    fn abort_all(&self, border: &dyn CBorder) {
        let added: Vec<_> = self.added.borrow().values().cloned().collect();
        for easy in added.iter().filter(|easy| easy.membership.is_running.get()) {
            self.finish(easy, Err(Failure::new(CurlCode::AbortedByCallback, "")), border);
        }
    }

    /// Delivers events until there is none, and no request is due.
    fn drain(&self, border: &dyn CBorder) {
        loop {
            self.remove_closed(border);
            let next = self.reactor.borrow_mut().engine.application_mut().pop();
            if let Some((id, event)) = next {
                if let Some(easy) = self.easy_of(id) {
                    let mut event = Some(event);
                    if !self.take_connect_only_event(&easy, id, &mut event)
                        && let Some(event) = event
                    {
                        if matches!(event, HopEvent::Done(_)) {
                            self.active.borrow_mut()[id.index()] = None;
                        }
                        self.deliver(&easy, event, border);
                        self.update_or_finish(&easy, border);
                    }
                }
                continue;
            }
            let resumed = self.resumed.borrow_mut().pop();
            if let Some(easy) = resumed {
                let _ = self.resume(&easy, border); // its failure has ended it
                continue;
            }
            let has_started = self.start_pending(border) | self.open_sockets(border);
            let deadline = self.reactor.borrow().deadline();
            if !has_started && deadline.is_none_or(|due| due > sys::now()) {
                return;
            }
            self.reactor.borrow_mut().timeout_action(sys::now());
            if !has_started && self.reactor.borrow_mut().engine.application_mut().is_empty() {
                return;
            }
        }
    }

    fn deliver(&self, easy: &Rc<Easy>, event: HopEvent, border: &dyn CBorder) {
        let (is_connecting, is_upgrading) = easy.with_state(|state| {
            let is_connecting = state.transfer.as_ref().is_some_and(|it| it.is_connecting);
            (is_connecting, requests_http2(state))
        });
        let ended = match event {
            HopEvent::Connected(facts) => {
                self.deliver_connected(easy, &facts, border);
                Ok(())
            }
            HopEvent::Data(_) if self.skips_body(easy) => return self.skip_body(easy, border),
            HopEvent::Head(head) if is_connecting => self.deliver_connect_head(easy, &head, border),
            HopEvent::Upgraded(_) if is_connecting => self.start_in_tunnel(easy, border),
            HopEvent::Data(_) | HopEvent::Trailers(_) if is_connecting => Ok(()),
            HopEvent::MalformedHead(bytes, judged) if is_connecting => {
                self.deliver_malformed_connect_head(easy, &bytes, judged, border)
            }
            HopEvent::Head(mut head) => {
                // The response itself follows with HTTP/2.
                head.is_interim |= head.status == 101 && is_upgrading;
                self.deliver_head(easy, &head, border)
            }
            HopEvent::MalformedHead(bytes, judged) => {
                self.deliver_malformed_head(easy, &bytes, judged, border)
            }
            HopEvent::Data(bytes) if easy.with_state(|it| it.websocket.is_some()) => {
                self.deliver_frames(easy, bytes, border)
            }
            HopEvent::Data(bytes) => self.deliver_data(easy, bytes, border),
            HopEvent::Trailers(lines) => self.deliver_trailers(easy, &lines, border),
            HopEvent::Writable if easy.with_state(|it| it.websocket.is_some()) => {
                self.feed_websocket(easy, border)
            }
            HopEvent::Writable => self.feed_upload(easy, true, border),
            HopEvent::Certificates(certificates) => {
                easy.with_state(|state| state.info.certificates = Some(certificates));
                Ok(())
            }
            HopEvent::Assigned(connection, peer) => {
                self.note_assigned(easy, connection, peer);
                Ok(())
            }
            HopEvent::Upgraded(_) if is_upgrading => self.continue_as_http2(easy, border),
            HopEvent::Upgraded(_) if !Self::keeps_connection(easy) => Ok(()),
            HopEvent::Upgraded(assigned) => {
                return self.keep_connection(easy, &assigned, border);
            }
            HopEvent::Done(done) if self.end_preconnect(easy, &done, border) => return,
            HopEvent::Done(done) => return self.end_hop(easy, *done, border),
        };
        if let Err(failure) = ended {
            self.finish(easy, Err(failure), border);
        }
    }

    /// Starts what was added, or what follows a response. True if there was something.
    fn start_pending(&self, border: &dyn CBorder) -> bool {
        let mut has_started = false;
        while let Some(easy) = self.pop_pending() {
            has_started = true;
            match self.start_next_request(&easy, border) {
                Ok(()) => self.update_or_finish(&easy, border),
                Err(failure) => self.finish(&easy, Err(failure), border),
            }
        }
        has_started
    }

    /// The first request of a transfer, or the next one.
    fn start_next_request(&self, easy: &Rc<Easy>, border: &dyn CBorder) -> Result<(), Failure> {
        if !easy.with_state(|state| state.transfer.is_some()) {
            if self.begin_prepared(easy, border) {
                self.note_updated(easy);
                return Ok(());
            }
            self.begin(easy, border)?;
            self.load_hosts(easy, border)?;
            self.note_updated(easy);
        }
        self.start_hop(easy, border)
    }

    fn pop_pending(&self) -> Option<Rc<Easy>> {
        let easy = self.pending.borrow_mut().pop_front()?;
        easy.membership.is_pending.set(false);
        Some(easy)
    }

    /// Another request of a transfer is to be started.
    pub(crate) fn queue_hop(&self, easy: &Rc<Easy>) {
        easy.membership.is_pending.set(true);
        self.pending.borrow_mut().push_back(Rc::clone(easy));
    }

    fn forget_pending(&self, easy: &Rc<Easy>) {
        if easy.membership.is_pending.take() {
            self.pending.borrow_mut().retain(|it| !Rc::ptr_eq(it, easy));
        }
    }

    /// Ends the transfer of a handle, if it has one.
    fn take_transfer(&self, easy: &Easy) -> Option<Box<EasyTransfer>> {
        if easy.membership.is_running.take() {
            self.running_count.update(|count| count - 1);
        }
        easy.with_state(|state| state.transfer.take())
    }

    /// A request of a transfer is under way.
    pub(crate) fn attach(&self, id: TransferId, easy: &Rc<Easy>) {
        let mut active = self.active.borrow_mut();
        if active.len() <= id.index() {
            if active.capacity() == 0 {
                active.reserve_exact(1); // multi handles of one easy handle are many
            }
            active.resize_with(id.index() + 1, || None);
        }
        active[id.index()] = Some((id, Rc::clone(easy)));
    }

    /// No event of a transfer's current request is delivered any more.
    pub(crate) fn detach(&self, easy: &Rc<Easy>) {
        if let Some(id) = self.release(easy) {
            self.forget(id);
        }
    }

    /// Removes a transfer of the client.
    pub(crate) fn forget(&self, id: TransferId) {
        self.active.borrow_mut()[id.index()] = None;
        self.reactor.borrow_mut().with(|client, now| client.with(now, |_, c| c.remove(id)));
    }

    /// The current request of a transfer has ended, or is given up: its number is free for another.
    pub(crate) fn release(&self, easy: &Easy) -> Option<TransferId> {
        let id = easy.with_state(|state| state.transfer.as_mut()?.id.take())?;
        self.active.borrow_mut()[id.index()] = None;
        Some(id)
    }

    fn easy_of(&self, id: TransferId) -> Option<Rc<Easy>> {
        let active = self.active.borrow();
        let (known, easy) = active.get(id.index())?.as_ref()?;
        (*known == id).then(|| Rc::clone(easy))
    }

    /// The handle whose transfer a descriptor serves.
    pub(crate) fn owner_of(&self, tag: Tag) -> Option<Rc<Easy>> {
        let Tag::Socket(socket) = tag else { return None };
        self.easy_of_socket(socket)
    }

    /// The handle whose transfer a socket serves.
    pub(crate) fn easy_of_socket(&self, socket: SocketId) -> Option<Rc<Easy>> {
        let id = self.reactor.borrow_mut().engine.owner(socket)?;
        self.easy_of(id)
    }

    /// The connection of a transfer is known.
    pub(crate) fn note_assigned(
        &self,
        easy: &Easy,
        connection: SocketId,
        peer: Option<SocketAddr>,
    ) {
        let local = self.open.borrow().get(connection).and_then(|socket| socket.local);
        easy.with_state(|state| {
            state.info.peer = peer.or(state.info.peer);
            state.info.local = local.or(state.info.local);
            state.info.socket = Some(connection);
        });
    }

    /// A transfer has ended.
    pub(crate) fn finish(
        &self,
        easy: &Rc<Easy>,
        result: Result<(), Failure>,
        border: &dyn CBorder,
    ) {
        self.note_unfinished(easy);
        self.detach(easy);
        self.forget_pending(easy);
        self.forget_updated(easy);
        let code = match &result {
            Ok(()) => CurlCode::Ok,
            Err(failure) => {
                self.report_failure(easy, failure, border);
                failure.code
            }
        };
        self.report_end(easy, result.is_err(), border);
        self.report_end_without_connection(easy, result.as_ref().err(), border);
        if let Some(transfer) = self.take_transfer(easy) {
            let total = sys::now().saturating_duration_since(transfer.started);
            easy.with_state(|state| state.info.total = total);
        }
        easy.membership.has_message.set(true);
        self.messages.borrow_mut().push_back((Rc::clone(easy), code));
    }

    /// Runs a callback. Functions that would disturb the action refuse to run meanwhile.
    pub(crate) fn call<T>(&self, callback: impl FnOnce() -> T) -> T {
        let was_calling = self.is_calling.replace(true);
        let result = callback();
        self.is_calling.set(was_calling);
        result
    }

    /// Runs a callback of a handle.
    ///
    /// # Errors
    /// The callback has freed the handle: nothing of the application may be used for it any more.
    pub(crate) fn call_for<T>(
        &self,
        easy: &Easy,
        callback: impl FnOnce() -> T,
    ) -> Result<T, Failure> {
        let result = self.call(callback);
        match easy.membership.is_closed.get() {
            false => Ok(result),
            true => Err(Failure::new(CurlCode::AbortedByCallback, "")),
        }
    }

    /// True while a callback is running.
    pub fn is_calling(&self) -> bool {
        self.is_calling.get()
    }

    /// A function has panicked: from now on all others return
    /// [`MultiCode::InternalError`].
    pub fn poison(&self) {
        self.is_poisoned.set(true);
    }

    /// True if a function has panicked.
    pub fn is_poisoned(&self) -> bool {
        self.is_poisoned.get()
    }

    /// Whether a function may change the handle now.
    ///
    /// # Errors
    /// A callback is running, or a function has panicked.
    pub fn check_usable(&self) -> Result<(), MultiCode> {
        match (self.is_poisoned.get(), self.is_calling.get()) {
            (true, _) => Err(MultiCode::InternalError),
            (false, true) => Err(MultiCode::RecursiveApiCall),
            (false, false) => Ok(()),
        }
    }

    /// True if a request waits to be started, or a transfer to be resumed: the timer is due at
    /// once.
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.borrow().is_empty()
            || !self.resumed.borrow().is_empty()
            || !self.closed.borrow().is_empty()
    }
}

pub(crate) fn new_reactor() -> Reactor<Client<EventQueue>, ExternalLoop> {
    let config = Config {
        idle_timeout: None, // CURLOPT_MAXAGE_CONN decides, when a connection is about to be used
        watches_idle: false,
        connect_timeout: None,
        handshake_timeout: None,
        name_timeout: None,
        retry_after_max: Duration::ZERO,
        idle_max: usize::MAX, // apply_limits
        coalescing: false,
        ..Config::default()
    };
    let client = Client::new(sys::now(), sys::wall_clock(), EventQueue::default(), config);
    let mut reactor = Reactor::new(client, ExternalLoop::lingering());
    reactor.hand_over_sockets();
    reactor.make_resolver(|| Box::new(fulmar_names::Names::new(fulmar_names::Options::default())));
    reactor
}

/// `CURL_CSELECT_IN`.
const SELECT_IN: i32 = 1;
/// `CURL_CSELECT_OUT`.
const SELECT_OUT: i32 = 2;
/// `CURL_CSELECT_ERR`.
const SELECT_ERR: i32 = 4;
