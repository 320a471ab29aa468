//! Shares (curl_share_init(3)): what several easy handles use together.
//!
//! Handles of different threads may use one share, so what it holds is behind locks of its own; the
//! callbacks of the application are called as by libcurl, but nothing depends on them.

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::border::{CBorder, LockCall};
use crate::cache_times::CacheTimes;
use crate::code::ShareCode;
use crate::cookies::CookieEngine;
use crate::easy_options::Argument;
use crate::hsts::HstsCache;
use crate::share_kind::SharedKind;
use crate::shared_clients::SharedClients;
use crate::tls_configurations::TlsConfigurations;
use crate::values::CPointer;

/// A share. Its options change only while no handle uses it.
#[derive(Debug)]
pub struct DataShare {
    lock_function: AtomicPtr<c_void>,
    unlock_function: AtomicPtr<c_void>,
    user: AtomicPtr<c_void>,
    /// A bit for each [`SharedKind`].
    kinds: AtomicU32,
    /// Easy handles that use it.
    users: AtomicUsize,
    /// The cookies, if they are shared. Never locked while C runs.
    pub(crate) cookies: Mutex<Option<CookieEngine>>,
    /// The hosts that need HTTPS, if they are shared. Never locked while C runs.
    pub(crate) hsts: Mutex<Option<HstsCache>>,
    /// The connections, if they are shared.
    pub(crate) clients: SharedClients,
    /// TLS configurations with their sessions, if they are shared.
    pub(crate) tls: Mutex<TlsConfigurations>,
    pub(crate) times: CacheTimes,
}

const fn is_usable_in_threads<T: Send + Sync>() {}
const _: () = is_usable_in_threads::<DataShare>();

impl DataShare {
    /// A share that holds nothing (curl_share_init(3)).
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            lock_function: AtomicPtr::default(),
            unlock_function: AtomicPtr::default(),
            user: AtomicPtr::default(),
            kinds: AtomicU32::new(bit(SharedKind::Share as i32)),
            users: AtomicUsize::new(0),
            cookies: Mutex::default(),
            hsts: Mutex::default(),
            clients: SharedClients::default(),
            tls: Mutex::default(),
            times: CacheTimes::default(),
        })
    }

    /// Sets an option (curl_share_setopt(3)).
    ///
    /// # Errors
    /// It is unknown, or a handle uses the share.
    pub fn set(&self, option: i32, argument: Argument<'_>) -> Result<(), ShareCode> {
        if self.is_used() {
            return Err(ShareCode::InUse);
        }
        match (option, argument) {
            (SHARE, Argument::Number(kind)) => self.add(i32::try_from(kind).unwrap_or(0)),
            (UNSHARE, Argument::Number(kind)) => self.remove(i32::try_from(kind).unwrap_or(0)),
            (LOCK_FUNCTION, Argument::Pointer(function)) => {
                self.lock_function.store(function.0, Ordering::Release);
                Ok(())
            }
            (UNLOCK_FUNCTION, Argument::Pointer(function)) => {
                self.unlock_function.store(function.0, Ordering::Release);
                Ok(())
            }
            (USER_DATA, Argument::Pointer(user)) => {
                self.user.store(user.0, Ordering::Release);
                Ok(())
            }
            _ => Err(ShareCode::BadOption),
        }
    }

    /// Prepares the end of the share (curl_share_cleanup(3)).
    ///
    /// # Errors
    /// A handle uses it.
    pub fn close(&self, border: &dyn CBorder) -> Result<(), ShareCode> {
        // libcurl locks it here even if it is not shared.
        let kind = SharedKind::Share;
        border.lock(self.lock_call(&self.lock_function), CPointer::NULL, kind);
        let is_used = self.is_used();
        if !is_used {
            for client in self.clients.take_all() {
                client.close(border);
            }
        }
        border.unlock(self.lock_call(&self.unlock_function), CPointer::NULL, kind);
        match is_used {
            true => Err(ShareCode::InUse),
            false => Ok(()),
        }
    }

    /// True if handles share this.
    pub(crate) fn has(&self, kind: SharedKind) -> bool {
        self.kinds.load(Ordering::Acquire) & bit(kind as i32) != 0
    }

    /// Calls the application's lock function, if handles share this. As in libcurl, functions are
    /// not refused in it: after the call all state may have changed.
    pub(crate) fn lock(&self, kind: SharedKind, easy: CPointer, border: &dyn CBorder) {
        if self.has(kind) {
            border.lock(self.lock_call(&self.lock_function), easy, kind);
        }
    }

    /// Calls the application's unlock function, if handles share this.
    pub(crate) fn unlock(&self, kind: SharedKind, easy: CPointer, border: &dyn CBorder) {
        if self.has(kind) {
            border.unlock(self.lock_call(&self.unlock_function), easy, kind);
        }
    }

    /// A handle uses the share from now on.
    pub(crate) fn join(&self) {
        self.users.fetch_add(1, Ordering::AcqRel);
    }

    /// A handle does not use the share any more.
    pub(crate) fn leave(&self) {
        self.users.fetch_sub(1, Ordering::AcqRel);
    }

    fn is_used(&self) -> bool {
        self.users.load(Ordering::Acquire) > 0
    }

    fn lock_call(&self, function: &AtomicPtr<c_void>) -> LockCall {
        LockCall {
            function: CPointer(function.load(Ordering::Acquire)),
            user: CPointer(self.user.load(Ordering::Acquire)),
        }
    }

    fn add(&self, kind: i32) -> Result<(), ShareCode> {
        let kind = KINDS.into_iter().find(|known| *known as i32 == kind);
        let kind = kind.ok_or(ShareCode::BadOption)?;
        if kind == SharedKind::Cookie {
            let mut cookies = self.cookies.lock().unwrap_or_else(PoisonError::into_inner);
            cookies.get_or_insert_with(CookieEngine::new);
        }
        if kind == SharedKind::Hsts {
            let mut hsts = self.hsts.lock().unwrap_or_else(PoisonError::into_inner);
            hsts.get_or_insert_with(HstsCache::new);
        }
        self.kinds.fetch_or(bit(kind as i32), Ordering::AcqRel);
        Ok(())
    }

    /// libcurl clears the bit of any number, and then refuses what has no data to free.
    fn remove(&self, kind: i32) -> Result<(), ShareCode> {
        self.kinds.fetch_and(!bit(kind), Ordering::AcqRel);
        let known = KINDS.into_iter().find(|known| *known as i32 == kind);
        match known {
            None | Some(SharedKind::Psl) => Err(ShareCode::BadOption),
            Some(SharedKind::Cookie) => {
                *self.cookies.lock().unwrap_or_else(PoisonError::into_inner) = None;
                Ok(())
            }
            Some(SharedKind::Hsts) => {
                *self.hsts.lock().unwrap_or_else(PoisonError::into_inner) = None;
                Ok(())
            }
            Some(_) => Ok(()),
        }
    }
}

/// As the shift of a processor, which ignores the upper bits of its count.
fn bit(kind: i32) -> u32 {
    1_u32.wrapping_shl(kind.cast_unsigned())
}

/// What can be shared and unshared.
const KINDS: [SharedKind; 6] = [
    SharedKind::Cookie,
    SharedKind::Dns,
    SharedKind::SslSession,
    SharedKind::Connect,
    SharedKind::Psl,
    SharedKind::Hsts,
];

const SHARE: i32 = 1;
const UNSHARE: i32 = 2;
const LOCK_FUNCTION: i32 = 3;
const UNLOCK_FUNCTION: i32 = 4;
const USER_DATA: i32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_the_codes_of_libcurl() {
        let share = DataShare::new();
        let rows = [
            (SHARE, 0, Err(ShareCode::BadOption)),
            (SHARE, 1, Err(ShareCode::BadOption)),
            (SHARE, 2, Ok(())),
            (SHARE, 7, Ok(())),
            (SHARE, 8, Err(ShareCode::BadOption)),
            (UNSHARE, 1, Err(ShareCode::BadOption)),
            (UNSHARE, 2, Ok(())),
            (UNSHARE, 3, Ok(())),
            (UNSHARE, 6, Err(ShareCode::BadOption)),
            (0, 2, Err(ShareCode::BadOption)),
            (6, 2, Err(ShareCode::BadOption)),
        ];
        for (option, kind, result) in rows {
            assert_eq!(share.set(option, Argument::Number(kind)), result, "{option} {kind}");
        }
        assert!(!share.has(SharedKind::Cookie) && share.has(SharedKind::Hsts));
        share.join();
        assert_eq!(share.set(SHARE, Argument::Number(2)), Err(ShareCode::InUse));
        share.leave();
        assert_eq!(share.set(SHARE, Argument::Number(2)), Ok(()));
    }
}
