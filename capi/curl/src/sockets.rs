//! What the application's loop waits for: descriptors and a timer, as callbacks and as `poll(2)`.

use std::os::fd::RawFd;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use fulmar_drive::{Change, Interest, Tag};
use fulmar_sys as sys;
use sys::{Events, PollSet};

use crate::border::{CBorder, POLL_IN, POLL_OUT, POLL_REMOVE, SocketCall};
use crate::code::MultiCode;
use crate::handles::{Multi, WatchedSocket};
use crate::values::CPointer;

impl Multi {
    /// Reports the changes of descriptors and of the timer to the application.
    ///
    /// # Errors
    /// A callback returns -1.
    pub(crate) fn report(&self, border: &dyn CBorder) -> Result<(), MultiCode> {
        let was_aborted = self.is_aborted.get();
        self.report_changes(border);
        // The application may end its loop now, and never come back; not before it has read all
        // messages, which are likely to be followed by other transfers.
        if self.running() == 0 && self.messages.borrow().is_empty() {
            self.reactor.borrow_mut().release_excluded();
            self.report_changes(border);
        }
        self.close_sockets(border);
        if !self.is_aborted.get() {
            self.report_timer(border);
        }
        match self.is_aborted.get() && !was_aborted {
            true => Err(MultiCode::AbortedByCallback),
            false => Ok(()),
        }
    }

    /// A handle was added: of what the application waits for, only the timer may have changed.
    ///
    /// # Errors
    /// The callback returns -1.
    pub(crate) fn report_addition(&self, border: &dyn CBorder) -> Result<(), MultiCode> {
        self.report_timer(border);
        match self.is_aborted.get() {
            true => Err(MultiCode::AbortedByCallback),
            false => Ok(()),
        }
    }

    pub(crate) fn report_changes(&self, border: &dyn CBorder) {
        while let Some(change) = self.next_change() {
            match change {
                Change::Watch { fd, interest, tag, .. } => {
                    self.report_watch((fd, interest), tag, border);
                }
                Change::Forget { fd, .. } => self.report_removal(fd, border),
                // The last change; compared by itself: there is none while nothing runs.
                Change::Timer { .. } => return,
            }
        }
    }

    fn next_change(&self) -> Option<Change> {
        self.reactor.borrow_mut().poll_change()
    }

    fn report_watch(&self, (fd, interest): (RawFd, Interest), tag: Tag, border: &dyn CBorder) {
        let what = what_of(interest);
        let easy = self.owner_of(tag).map(|easy| Rc::downgrade(&easy)).unwrap_or_default();
        let mut sockets = self.sockets.borrow_mut();
        let socket = sockets.watched.entry(fd).or_insert_with(WatchedSocket::unwatched);
        socket.easy = easy; // of HTTP/2: perhaps another one of the connection
        if std::mem::replace(&mut socket.what, what) == what {
            return;
        }
        let socket = socket.clone();
        drop(sockets);
        self.call_socket(fd, &socket, what, border);
    }

    pub(crate) fn report_removal(&self, fd: RawFd, border: &dyn CBorder) {
        let mut sockets = self.sockets.borrow_mut();
        let Some(socket) = sockets.watched.remove(&fd) else { return };
        drop(sockets);
        self.call_socket(fd, &socket, POLL_REMOVE, border);
    }

    fn call_socket(&self, fd: RawFd, socket: &WatchedSocket, what: i32, border: &dyn CBorder) {
        let options = self.options.borrow();
        let call = SocketCall {
            function: options.socket_function,
            user: options.socket_data,
            easy: socket.easy.upgrade().map_or(CPointer::NULL, |easy| easy.handle()),
        };
        drop(options);
        if !call.function.is_null()
            && self.call(|| border.socket(call, fd, what, socket.assigned)) == -1
        {
            self.is_aborted.set(true);
        }
    }

    fn report_timer(&self, border: &dyn CBorder) {
        let deadline = self.deadline();
        let before = std::mem::replace(&mut self.sockets.borrow_mut().timer, deadline);
        let options = self.options.borrow();
        let (function, data) = (options.timer_function, options.timer_data);
        drop(options);
        if function.is_null() || before == deadline {
            return;
        }
        let ms = match self.is_due() {
            true => 0,
            false => deadline.map_or(-1, millis_until),
        };
        if self.call(|| border.timer(function, data, self.handle, ms)) == -1 {
            self.is_aborted.set(true);
        }
    }

    /// The application's timer has expired: it has to be set again.
    pub(crate) fn forget_timer(&self) {
        self.sockets.borrow_mut().timer = None;
    }

    /// True if there is something to do at once.
    fn is_due(&self) -> bool {
        self.has_pending() || self.is_aborted.get()
    }

    fn deadline(&self) -> Option<Instant> {
        match self.is_due() {
            true => Some(sys::now()),
            false if self.running() == 0 => None,
            false => {
                let deadline = self.reactor.borrow().deadline();
                deadline.into_iter().chain(self.next_update()).min()
            }
        }
    }

    /// Milliseconds until the next action is due; -1: there is none (curl_multi_timeout(3)).
    pub fn timeout_ms(&self) -> i64 {
        self.deadline().map_or(-1, millis_until)
    }

    /// Attaches an address to a descriptor (curl_multi_assign(3)).
    ///
    /// # Errors
    /// It is none of this handle's.
    pub fn assign(&self, fd: RawFd, user: CPointer) -> Result<(), MultiCode> {
        match self.sockets.borrow_mut().watched.get_mut(&fd) {
            Some(socket) => {
                socket.assigned = user;
                Ok(())
            }
            None => Err(MultiCode::BadSocket),
        }
    }

    /// The descriptors and what to wait for, in the way of [`POLL_IN`] and [`POLL_OUT`]
    /// (curl_multi_fdset(3)).
    pub fn descriptors(&self) -> Vec<(RawFd, i32)> {
        self.sockets.borrow().watched.iter().map(|(fd, socket)| (*fd, socket.what)).collect()
    }

    /// True if there is a descriptor to wait for.
    pub fn has_descriptors(&self) -> bool {
        !self.sockets.borrow().watched.is_empty()
    }

    /// Lets every descriptor that is ready proceed, and all that is due.
    pub(crate) fn perform_ready(&self) {
        let mut reactor = self.reactor.borrow_mut();
        if reactor.socket_all(sys::now()).is_err() {
            // Out of memory in the kernel: what is due needs no descriptor.
            reactor.timeout_action(sys::now());
        }
    }

    /// Waits for the descriptors of all transfers, and for those in `set`, until something is
    /// ready, an action is due, or `max` has passed (curl_multi_wait(3)). Returns how many are
    /// ready.
    pub fn wait(&self, set: &mut PollSet, max: Duration) -> usize {
        self.push_descriptors(set);
        let due = u64::try_from(self.timeout_ms()).ok().map(Duration::from_millis);
        let timeout = due.map_or(max, |due| due.min(max));
        set.wait(Some(timeout)).unwrap_or(0) // EINTR: nothing is ready
    }

    /// Appends the descriptors of all transfers.
    pub fn push_descriptors(&self, set: &mut PollSet) {
        let reactor = self.reactor.borrow();
        for (number, socket) in &self.sockets.borrow().watched {
            if let Some(fd) = reactor.descriptor(*number) {
                set.push(fd, events_of(socket.what));
            }
        }
    }
}

impl WatchedSocket {
    fn unwatched() -> Self {
        Self { what: POLL_REMOVE, assigned: CPointer::NULL, easy: Weak::new() }
    }
}

fn what_of(interest: Interest) -> i32 {
    let read = if interest.read || interest.hangup { POLL_IN } else { 0 };
    read | if interest.write { POLL_OUT } else { 0 }
}

fn events_of(what: i32) -> Events {
    match (what & POLL_IN != 0, what & POLL_OUT != 0) {
        (true, true) => Events::READABLE | Events::WRITABLE,
        (true, false) => Events::READABLE,
        (false, true) => Events::WRITABLE,
        (false, false) => Events::NONE,
    }
}

/// Rounded up, so that the deadline has come then.
fn millis_until(deadline: Instant) -> i64 {
    let left = deadline.saturating_duration_since(sys::now());
    i64::try_from(left.as_micros().div_ceil(1000)).unwrap_or(i64::MAX)
}
