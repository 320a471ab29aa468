//! Handles as C has them: addresses, with a magic number in the first word.

use std::cell::{OnceCell, RefCell, UnsafeCell};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use fulmar_curl::{CPointer, DataShare, Easy, Multi, WebSocketMeta};
use fulmar_sys::Wakeup;

use crate::certificates::KeptCertificates;
use crate::found_header::CurlHeader;
use crate::tls_info::CurlTlsSession;
use crate::websocket_frame::CurlFrame;

/// What `CURL *` points to.
#[repr(C)]
#[derive(Debug)]
pub struct CurlHandle {
    /// The first field, as for the other handles: it distinguishes handles from other memory.
    magic: u32,
    pub(crate) easy: Rc<Easy>,
    returned: OnceCell<Box<ReturnedMemory>>,
}

/// Memory whose addresses functions have returned. Many handles have none of it.
#[derive(Debug)]
pub(crate) struct ReturnedMemory {
    /// Strings that `curl_easy_getinfo` has returned, by their number.
    pub(crate) strings: RefCell<BTreeMap<i32, CString>>,
    /// What `CURLINFO_TLS_SSL_PTR` points to.
    pub(crate) tls_session: CurlTlsSession,
    /// What `CURLINFO_CERTINFO` points to.
    pub(crate) certificates: KeptCertificates,
    /// What `curl_easy_header` and `curl_easy_nextheader` have returned.
    header: UnsafeCell<CurlHeader>,
    /// What `curl_ws_recv` and `curl_ws_meta` have returned.
    frame: UnsafeCell<CurlFrame>,
}

/// What `CURLM *` points to.
#[repr(C)]
#[derive(Debug)]
pub struct CurlMultiHandle {
    magic: u32,
    pub(crate) multi: Rc<Multi>,
    /// `curl_multi_wakeup` uses it from other threads. `None`: there were no descriptors for it.
    pub(crate) wakeup: Option<Wakeup>,
    pub(crate) message: RefCell<crate::message::CurlMessage>,
}

/// What `CURLSH *` points to.
#[repr(C)]
#[derive(Debug)]
pub struct CurlShareHandle {
    magic: u32,
    pub(crate) share: Arc<DataShare>,
}

impl CurlHandle {
    /// A handle on the heap, with the easy handle that `make` returns for its address.
    /// `NULL` if it returns none.
    pub(crate) fn create(make: impl FnOnce(CPointer) -> Option<Rc<Easy>>) -> *mut Self {
        let place = Box::into_raw(Box::<Self>::new_uninit());
        let Some(easy) = make(CPointer(place.cast())) else {
            // SAFETY: the allocation is ours, and not used.
            drop(unsafe { Box::from_raw(place) });
            return std::ptr::null_mut();
        };
        let handle = Self { magic: EASY_MAGIC, easy, returned: OnceCell::new() };
        // SAFETY: the allocation is ours, and not initialized yet.
        let handle = unsafe { (*place).write(handle) };
        std::ptr::from_mut(handle)
    }

    /// Keeps what a function returns the address of.
    pub(crate) fn returned(&self) -> &ReturnedMemory {
        self.returned.get_or_init(|| {
            Box::new(ReturnedMemory {
                strings: RefCell::default(),
                tls_session: CurlTlsSession::default(),
                certificates: KeptCertificates::default(),
                header: UnsafeCell::new(CurlHeader::none()),
                frame: UnsafeCell::new(CurlFrame::new(WebSocketMeta::default())),
            })
        })
    }

    /// Keeps a header until the next one, and returns its address.
    pub(crate) fn keep_header(&self, header: CurlHeader) -> *const CurlHeader {
        let kept = self.returned().header.get();
        // SAFETY: only the application has its address.
        unsafe { kept.write(header) };
        kept
    }

    /// The same for the part of a frame.
    pub(crate) fn keep_frame(&self, frame: CurlFrame) -> *const CurlFrame {
        let kept = self.returned().frame.get();
        // SAFETY: only the application has its address.
        unsafe { kept.write(frame) };
        kept
    }

    /// Frees a handle.
    ///
    /// # Safety
    /// It is from [`CurlHandle::create`], and not used any more.
    pub(crate) unsafe fn free(handle: *mut Self) {
        // SAFETY: by the contract it is ours and alive.
        let magic = unsafe { &raw mut (*handle).magic };
        // SAFETY: as above. A later use of the address is likely to find no handle.
        unsafe { magic.write_volatile(0) };
        // SAFETY: as above.
        drop(unsafe { Box::from_raw(handle) });
    }
}

impl CurlMultiHandle {
    /// A handle on the heap.
    pub(crate) fn create() -> *mut Self {
        let wakeup = Wakeup::new().ok();
        let place = Box::into_raw(Box::<Self>::new_uninit());
        let multi = Multi::new(CPointer(place.cast()));
        let handle = Self { magic: MULTI_MAGIC, multi, wakeup, message: RefCell::default() };
        // SAFETY: the allocation is ours, and not initialized yet.
        let handle = unsafe { (*place).write(handle) };
        std::ptr::from_mut(handle)
    }

    /// Frees a handle.
    ///
    /// # Safety
    /// It is from [`CurlMultiHandle::create`], and not used any more.
    pub(crate) unsafe fn free(handle: *mut Self) {
        // SAFETY: by the contract it is ours and alive.
        let magic = unsafe { &raw mut (*handle).magic };
        // SAFETY: as above. A later use of the address is likely to find no handle.
        unsafe { magic.write_volatile(0) };
        // SAFETY: as above.
        drop(unsafe { Box::from_raw(handle) });
    }
}

impl CurlShareHandle {
    /// A share on the heap.
    pub(crate) fn create() -> *mut Self {
        Box::into_raw(Box::new(Self { magic: SHARE_MAGIC, share: DataShare::new() }))
    }

    /// Frees a share.
    ///
    /// # Safety
    /// It is from [`CurlShareHandle::create`], and not used any more.
    pub(crate) unsafe fn free(share: *mut Self) {
        // SAFETY: by the contract it is ours and alive.
        let magic = unsafe { &raw mut (*share).magic };
        // SAFETY: as above. A later use of the address is likely to find no handle.
        unsafe { magic.write_volatile(0) };
        // SAFETY: as above.
        drop(unsafe { Box::from_raw(share) });
    }
}

/// The easy handle at an address; `None` if there is none.
///
/// # Safety
/// The address is `NULL` or that of a readable word. A handle that is there lives as long as the
/// result.
pub(crate) unsafe fn easy<'a>(handle: *const CurlHandle) -> Option<&'a CurlHandle> {
    if handle.is_null() {
        return None;
    }
    // Without a reference: what follows the word is a handle's only if the word is.
    // SAFETY: by the contract the first field is readable; any value of it is a number.
    let is_handle = unsafe { handle.cast::<u32>().read() } == EASY_MAGIC;
    // SAFETY: it is a handle, which by the contract is alive.
    is_handle.then(|| unsafe { &*handle })
}

/// The multi handle at an address; `None` if there is none.
///
/// # Safety
/// As [`easy`].
pub(crate) unsafe fn multi<'a>(handle: *const CurlMultiHandle) -> Option<&'a CurlMultiHandle> {
    if handle.is_null() {
        return None;
    }
    // SAFETY: by the contract the first field is readable; any value of it is a number.
    let is_handle = unsafe { handle.cast::<u32>().read() } == MULTI_MAGIC;
    // SAFETY: it is a handle, which by the contract is alive.
    is_handle.then(|| unsafe { &*handle })
}

/// The share at an address; `None` if there is none.
///
/// # Safety
/// As [`easy`].
pub(crate) unsafe fn share<'a>(share: *const CurlShareHandle) -> Option<&'a CurlShareHandle> {
    if share.is_null() {
        return None;
    }
    // SAFETY: by the contract the first field is readable; any value of it is a number.
    let is_share = unsafe { share.cast::<u32>().read() } == SHARE_MAGIC;
    // SAFETY: it is a share, which by the contract is alive.
    is_share.then(|| unsafe { &*share })
}

/// Runs an entry; after a panic it returns `otherwise`. Panics must not unwind into C.
pub(crate) fn guard<T>(otherwise: T, entry: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(entry)).unwrap_or(otherwise)
}

/// As [`guard`], for a function that changes a multi handle: a panic poisons it.
pub(crate) fn guard_multi<T>(
    known: &CurlMultiHandle,
    otherwise: T,
    entry: impl FnOnce() -> T,
) -> T {
    catch_unwind(AssertUnwindSafe(entry)).unwrap_or_else(|_| {
        known.multi.poison();
        otherwise
    })
}

/// What libcurl has in its handles, too.
const EASY_MAGIC: u32 = 0xc0de_dbad;
const MULTI_MAGIC: u32 = 0x000b_ab1e;
const SHARE_MAGIC: u32 = 0x7e11_7a1e;
