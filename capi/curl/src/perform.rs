//! `curl_easy_perform` and `curl_easy_pause`: transfers of one handle.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::Duration;

use fulmar_client::ClientMemory;
use fulmar_drive::TurnMemory;
use fulmar_sys as sys;

use crate::border::CBorder;
use crate::code::CurlCode;
use crate::events::EventQueue;
use crate::handles::{Easy, Multi, WatchedSocket};
use crate::multi::MultiAction;
use crate::share_kind::SharedKind;
use crate::shared_clients::SharedClient;
use crate::values::CPointer;

impl Easy {
    /// Carries out the transfer (curl_easy_perform(3)): in a multi handle of its own, which keeps
    /// the connections.
    ///
    /// # Errors
    /// The code of the failure.
    pub fn perform(self: &Rc<Self>, border: &dyn CBorder) -> Result<(), CurlCode> {
        if self.is_added() {
            return Err(CurlCode::FailedInit);
        }
        let multi = self.private(|| Multi::new(CPointer::NULL));
        let share = self.with_state(|state| state.share.clone());
        let Some(share) = share.filter(|share| {
            // The application's own connection stays with its handle.
            share.has(SharedKind::Connect) && !Multi::keeps_connection(self)
        }) else {
            return self.perform_in(&multi, border);
        };
        let shared = share.clients.take().unwrap_or_else(SharedClient::new);
        let own = multi.exchange_client(shared);
        let result = self.perform_in(&multi, border);
        let surplus = share.clients.put(multi.exchange_client(own));
        if let Some(surplus) = surplus {
            surplus.close(border);
        }
        // Its number is one of that client.
        self.with_state(|state| state.info.socket = None);
        result
    }

    /// In the memory of the thread: a handle keeps none when its transfer has ended.
    fn perform_in(
        self: &Rc<Self>,
        multi: &Rc<Multi>,
        border: &dyn CBorder,
    ) -> Result<(), CurlCode> {
        // The thread may be ending: then it has none any more.
        let mut memory = MEMORY.try_with(Cell::take).unwrap_or_default();
        memory.swap(multi);
        let result = self.perform_until_done(multi, border);
        memory.swap(multi);
        let _ = MEMORY.try_with(|kept| kept.set(memory));
        result
    }

    fn perform_until_done(
        self: &Rc<Self>,
        multi: &Rc<Multi>,
        border: &dyn CBorder,
    ) -> Result<(), CurlCode> {
        multi.limit_private(self);
        multi.add(self, border).map_err(|_| CurlCode::FailedInit)?;
        let code = loop {
            if multi.act(MultiAction::Perform, border).is_err() {
                break CurlCode::RecursiveApiCall;
            }
            if self.membership.is_closed.get() {
                let _ = multi.close(border); // nothing has it any more
                return Err(CurlCode::AbortedByCallback);
            }
            if let Some((_, code, _)) = multi.read_message() {
                break code;
            }
            multi.wait(&mut sys::PollSet::default(), PERFORM_WAIT_MAX);
        };
        multi.remove(self, border).map_err(|_| CurlCode::RecursiveApiCall)?;
        match code {
            CurlCode::Ok => Ok(()),
            code => Err(code),
        }
    }

    /// Pauses and resumes the directions of a transfer (curl_easy_pause(3)). Within a callback,
    /// what is resumed proceeds once it has returned.
    ///
    /// # Errors
    /// There is no transfer, or a callback fails.
    pub fn pause(self: &Rc<Self>, bits: i32, border: &dyn CBorder) -> Result<(), CurlCode> {
        let multi = self.multi().ok_or(CurlCode::BadFunctionArgument)?;
        if multi.is_poisoned() {
            return Err(CurlCode::FailedInit);
        }
        let (sends, receives) = (bits & PAUSE_SEND == 0, bits & PAUSE_RECV == 0);
        self.with_state(|state| {
            if let Some(transfer) = &mut state.transfer {
                transfer.upload.is_paused = !sends;
                transfer.download.is_paused = !receives;
            }
        });
        if !receives {
            multi.pause_download(self);
        }
        if multi.is_calling() {
            multi.resumed.borrow_mut().push(Rc::clone(self));
            return Ok(());
        }
        let _watch = multi.watch_panics();
        let resumed = multi.resume(self, border);
        // The end that a callback requires is reported at the next action.
        let _ = multi.report(border);
        resumed
    }
}

impl Multi {
    /// Lets the directions of a transfer proceed that are not paused.
    ///
    /// # Errors
    /// The code of a failure, with which the transfer has ended.
    pub(crate) fn resume(&self, easy: &Rc<Easy>, border: &dyn CBorder) -> Result<(), CurlCode> {
        let upload = self.feed_upload(easy, false, border);
        let resumed = upload.and_then(|()| self.resume_download(easy, border));
        resumed.map_err(|failure| {
            let code = failure.code;
            self.finish(easy, Err(failure), border);
            code
        })
    }
}

/// What a multi handle needs during an action only.
#[derive(Debug, Default)]
struct ActionMemory {
    turn: TurnMemory,
    client: ClientMemory,
    events: EventQueue,
    lists: MultiLists,
}

/// Lists of a multi handle that are empty between transfers of its only handle.
#[derive(Debug, Default)]
struct MultiLists {
    added: BTreeMap<usize, Rc<Easy>>,
    watched: BTreeMap<RawFd, WatchedSocket>,
    pending: VecDeque<Rc<Easy>>,
    messages: VecDeque<(Rc<Easy>, CurlCode)>,
}

impl ActionMemory {
    fn swap(&mut self, multi: &Multi) {
        let mut reactor = multi.reactor.borrow_mut();
        reactor.swap_memory(&mut self.turn);
        reactor.engine.swap_memory(&mut self.client);
        reactor.engine.application_mut().swap_memory(&mut self.events);
        self.lists.swap(multi);
    }
}

impl MultiLists {
    /// Lists with entries stay.
    fn swap(&mut self, multi: &Multi) {
        let mut added = multi.added.borrow_mut();
        if added.is_empty() {
            std::mem::swap(&mut *added, &mut self.added);
        }
        let watched = &mut multi.sockets.borrow_mut().watched;
        if watched.is_empty() {
            std::mem::swap(watched, &mut self.watched);
        }
        let mut pending = multi.pending.borrow_mut();
        if pending.is_empty() {
            std::mem::swap(&mut *pending, &mut self.pending);
        }
        let mut messages = multi.messages.borrow_mut();
        if messages.is_empty() {
            std::mem::swap(&mut *messages, &mut self.messages);
        }
    }
}

thread_local! {
    /// A transfer in a callback of another one finds it empty.
    static MEMORY: Cell<ActionMemory> = Cell::default();
}

const PAUSE_RECV: i32 = 1;
const PAUSE_SEND: i32 = 4;
const PERFORM_WAIT_MAX: Duration = Duration::from_secs(1);
