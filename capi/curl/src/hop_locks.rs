//! The calls of a share's lock functions for connections and names.
//!
//! Nothing here needs them: clients and names are behind locks of their own. Applications count
//! these calls, though, and take them for points where a transfer begins or ends; so they are made
//! where libcurl uses its caches, as often as there.

use fulmar_client::{Done, Options};
use fulmar_sys as sys;

use crate::border::CBorder;
use crate::handles::{Easy, Multi};
use crate::share_kind::SharedKind;

impl Easy {
    /// The handle is added to a multi handle.
    pub(crate) fn lock_for_addition(&self, border: &dyn CBorder) {
        self.lock_times(SharedKind::Connect, 1, border);
    }

    /// The handle is removed: its connection is looked up, if it is still there.
    pub(crate) fn lock_for_removal(&self, border: &dyn CBorder) {
        if self.with_state(|state| state.connection_kept) {
            self.lock_times(SharedKind::Connect, 1, border);
        }
    }

    fn lock_times(&self, kind: SharedKind, times: usize, border: &dyn CBorder) {
        for _ in 0..times {
            self.lock(kind, border);
            self.unlock(kind, border);
        }
    }
}

impl Multi {
    /// A request is about to be sent: connections are searched, and the name is resolved for a new
    /// one.
    pub(crate) fn lock_for_request(&self, easy: &Easy, options: &Options, border: &dyn CBorder) {
        let Some(share) = easy.with_state(|state| state.share.clone()) else { return };
        let target = easy.with_state(|state| {
            let transfer = state.transfer.as_ref()?;
            let target = &transfer.target;
            Some((transfer.hop_origin(), target.host.clone(), target.port, target.is_secure))
        });
        let Some((origin, host, port, is_secure)) = target else { return };
        let now = sys::now();
        let is_new = {
            let mut reactor = self.reactor.borrow_mut();
            reactor.check_unwatched(now);
            options.fresh_connection || !reactor.engine.has_idle(&origin, options)
        };
        if share.has(SharedKind::Connect) {
            let prunes = if share.times.prunes(now) { 2 } else { 0 };
            let opens = if is_new { 2 } else { 0 };
            easy.lock_times(SharedKind::Connect, 2 + prunes + opens, border);
        }
        if is_new && share.has(SharedKind::Dns) {
            let resolves = usize::from(share.times.resolves(&host, port, now));
            easy.lock_times(SharedKind::Dns, 1 + resolves, border);
        }
        if is_new && is_secure {
            // A session is searched, and one is stored; libcurl stores as many as the server sends.
            easy.lock_times(SharedKind::SslSession, 2, border);
        }
    }

    /// A request has ended: its connection is returned or closed, and the use of its address ends.
    pub(crate) fn lock_after_request(&self, easy: &Easy, done: &Done, border: &dyn CBorder) {
        if easy.with_state(|state| state.share.is_none()) {
            return;
        }
        let request = &done.request;
        let is_kept =
            self.reactor.borrow().engine.has_idle(request.url().as_str(), request.options());
        easy.with_state(|state| state.connection_kept = is_kept);
        easy.lock(SharedKind::Connect, border);
        easy.lock_times(SharedKind::Dns, if done.reused { 1 } else { 2 }, border);
        easy.unlock(SharedKind::Connect, border);
        easy.lock_times(SharedKind::Connect, usize::from(is_kept), border);
    }
}
