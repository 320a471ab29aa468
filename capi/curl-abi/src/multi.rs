//! `curl_multi_*`.

use std::ffi::{c_int, c_long, c_uint, c_void};
use std::os::fd::{BorrowedFd, RawFd};
use std::rc::Rc;
use std::time::Duration;

use fulmar_curl::code::MultiCode;
use fulmar_curl::{Argument, CPointer, MultiAction, POLL_IN, POLL_OUT};
use fulmar_sys::{Events, PollSet};

use crate::border::CFunctions;
use crate::handle::{CurlHandle, CurlMultiHandle, easy, guard, guard_multi, multi};
use crate::message::CurlMessage;

/// `struct curl_waitfd`.
#[derive(Debug)]
#[repr(C)]
pub struct CurlWaitFd {
    fd: RawFd,
    events: i16,
    revents: i16,
}

impl CurlWaitFd {
    /// A descriptor that is waited for.
    pub(crate) fn new(fd: RawFd, reads: bool, writes: bool) -> Self {
        let events = if reads { WAIT_IN } else { 0 } | if writes { WAIT_OUT } else { 0 };
        Self { fd, events, revents: 0 }
    }
}

/// An empty handle; `NULL` if that fails.
#[unsafe(no_mangle)]
pub extern "C" fn curl_multi_init() -> *mut CurlMultiHandle {
    guard(std::ptr::null_mut(), CurlMultiHandle::create)
}

/// Frees a handle; its easy handles are removed, and stay alive.
///
/// # Safety
/// `handle` is `NULL` or a handle that is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_multi_cleanup(handle: *mut CurlMultiHandle) -> c_int {
    guard(MultiCode::InternalError.number(), || {
        // SAFETY: by the contract.
        let Some(known) = (unsafe { multi(handle) }) else { return MultiCode::BadHandle.number() };
        if let Err(code) = known.multi.close(&CFunctions) {
            return code.number();
        }
        // SAFETY: by the contract.
        unsafe { CurlMultiHandle::free(handle) };
        0
    })
}

/// Adds an easy handle.
///
/// # Safety
/// Both are `NULL` or handles.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_multi_add_handle(
    handle: *mut CurlMultiHandle,
    added: *mut CurlHandle,
) -> c_int {
    // SAFETY: by the contract.
    unsafe { with_both(handle, added, |multi, easy| multi.add(easy, &CFunctions)) }
}

/// Removes an easy handle.
///
/// # Safety
/// Both are `NULL` or handles.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_multi_remove_handle(
    handle: *mut CurlMultiHandle,
    removed: *mut CurlHandle,
) -> c_int {
    // SAFETY: by the contract.
    unsafe { with_both(handle, removed, |multi, easy| multi.remove(easy, &CFunctions)) }
}

/// # Safety
/// Both are `NULL` or handles.
unsafe fn with_both(
    handle: *mut CurlMultiHandle,
    other: *mut CurlHandle,
    act: impl FnOnce(&Rc<fulmar_curl::Multi>, &Rc<fulmar_curl::Easy>) -> Result<(), MultiCode>,
) -> c_int {
    guard(MultiCode::InternalError.number(), || {
        // SAFETY: by the contract.
        let Some(known) = (unsafe { multi(handle) }) else { return MultiCode::BadHandle.number() };
        // SAFETY: by the contract.
        match unsafe { easy(other) } {
            Some(other) => {
                let failed = Err(MultiCode::InternalError);
                let other = Rc::clone(&other.easy); // a callback may free the handle
                let result = guard_multi(known, failed, || act(&known.multi, &other));
                MultiCode::number_of(result)
            }
            None => MultiCode::BadEasyHandle.number(),
        }
    })
}

/// Sets an option.
///
/// # Safety
/// `handle` is `NULL` or a handle; `argument` is of the kind that the option requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_multi_setopt(
    handle: *mut CurlMultiHandle,
    option: c_int,
    argument: *mut c_void,
) -> c_int {
    guard(MultiCode::InternalError.number(), || {
        // SAFETY: by the contract.
        let Some(known) = (unsafe { multi(handle) }) else { return MultiCode::BadHandle.number() };
        let argument = match option {
            0..10_000 | 30_000..40_000 => Argument::Number(argument.addr().cast_signed() as i64),
            _ => Argument::Pointer(CPointer(argument)),
        };
        MultiCode::number_of(known.multi.set(option, argument))
    })
}

/// Lets all transfers proceed that can.
///
/// # Safety
/// `handle` is `NULL` or a handle; `running` is `NULL` or a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_multi_perform(
    handle: *mut CurlMultiHandle,
    running: *mut c_int,
) -> c_int {
    // SAFETY: by the contract.
    unsafe { act(handle, MultiAction::Perform, running) }
}

/// A descriptor is ready, or the timer has expired.
///
/// # Safety
/// As [`curl_multi_perform`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_multi_socket_action(
    handle: *mut CurlMultiHandle,
    fd: RawFd,
    what: c_int,
    running: *mut c_int,
) -> c_int {
    let action = if fd < 0 { MultiAction::Timeout } else { MultiAction::Socket(fd, what) };
    // SAFETY: by the contract.
    unsafe { act(handle, action, running) }
}

/// As [`curl_multi_socket_action`], without its readiness.
///
/// # Safety
/// As [`curl_multi_perform`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_multi_socket(
    handle: *mut CurlMultiHandle,
    fd: RawFd,
    running: *mut c_int,
) -> c_int {
    // SAFETY: by the contract.
    unsafe { curl_multi_socket_action(handle, fd, 0, running) }
}

/// All descriptors may be ready.
///
/// # Safety
/// As [`curl_multi_perform`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_multi_socket_all(
    handle: *mut CurlMultiHandle,
    running: *mut c_int,
) -> c_int {
    // SAFETY: by the contract.
    unsafe { act(handle, MultiAction::Perform, running) }
}

/// # Safety
/// As [`curl_multi_perform`].
unsafe fn act(handle: *mut CurlMultiHandle, action: MultiAction, running: *mut c_int) -> c_int {
    guard(MultiCode::InternalError.number(), || {
        // SAFETY: by the contract.
        let Some(known) = (unsafe { multi(handle) }) else { return MultiCode::BadHandle.number() };
        let failed = Err(MultiCode::InternalError);
        let result = guard_multi(known, failed, || known.multi.act(action, &CFunctions));
        if !running.is_null() {
            let count = c_int::try_from(known.multi.running()).unwrap_or(c_int::MAX);
            // SAFETY: by the contract.
            unsafe { running.write(count) };
        }
        MultiCode::number_of(result)
    })
}

/// The next message; `NULL` if there is none. It lives until the next call.
///
/// # Safety
/// `handle` is `NULL` or a handle; `left` is `NULL` or a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_multi_info_read(
    handle: *mut CurlMultiHandle,
    left: *mut c_int,
) -> *mut CurlMessage {
    guard(std::ptr::null_mut(), || {
        // SAFETY: by the contract.
        let next = unsafe { multi(handle) }.map(|known| (known, known.multi.read_message()));
        let count = next.as_ref().and_then(|(_, next)| next.as_ref()).map_or(0, |next| next.2);
        if !left.is_null() {
            // SAFETY: by the contract.
            unsafe { left.write(c_int::try_from(count).unwrap_or(c_int::MAX)) };
        }
        let Some((known, Some((easy, code, _)))) = next else { return std::ptr::null_mut() };
        let result = code.number().unsigned_abs() as usize;
        known.message.replace(CurlMessage::done(easy.handle().0, result));
        known.message.as_ptr()
    })
}

/// Stores the milliseconds until the next action; -1: there is none.
///
/// # Safety
/// `handle` is `NULL` or a handle; `ms` is a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_multi_timeout(
    handle: *mut CurlMultiHandle,
    ms: *mut c_long,
) -> c_int {
    guard(MultiCode::InternalError.number(), || {
        // SAFETY: by the contract.
        let Some(known) = (unsafe { multi(handle) }) else { return MultiCode::BadHandle.number() };
        if let Err(code) = known.multi.check_usable() {
            return code.number();
        }
        // SAFETY: by the contract.
        unsafe { ms.write(known.multi.timeout_ms()) };
        0
    })
}

/// Attaches a pointer to a descriptor.
///
/// # Safety
/// `handle` is `NULL` or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_multi_assign(
    handle: *mut CurlMultiHandle,
    fd: RawFd,
    user: *mut c_void,
) -> c_int {
    guard(MultiCode::InternalError.number(), || {
        // SAFETY: by the contract.
        match unsafe { multi(handle) } {
            Some(known) => MultiCode::number_of(known.multi.assign(fd, CPointer(user))),
            None => MultiCode::BadHandle.number(),
        }
    })
}

/// Adds the descriptors to sets for `select(2)`.
///
/// # Safety
/// `handle` is `NULL` or a handle; the others are `NULL` or variables.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_multi_fdset(
    handle: *mut CurlMultiHandle,
    reading: *mut libc::fd_set,
    writing: *mut libc::fd_set,
    _failing: *mut libc::fd_set,
    highest: *mut c_int,
) -> c_int {
    guard(MultiCode::InternalError.number(), || {
        // SAFETY: by the contract.
        let Some(known) = (unsafe { multi(handle) }) else { return MultiCode::BadHandle.number() };
        if let Err(code) = known.multi.check_usable() {
            return code.number();
        }
        let mut top = -1;
        let fits = |fd: &RawFd| usize::try_from(*fd).is_ok_and(|fd| fd < libc::FD_SETSIZE);
        for (fd, what) in known.multi.descriptors().into_iter().filter(|(fd, _)| fits(fd)) {
            for (set, bit) in [(reading, POLL_IN), (writing, POLL_OUT)] {
                if what & bit != 0 && !set.is_null() {
                    // SAFETY: by the contract; the number fits.
                    unsafe { libc::FD_SET(fd, set) };
                }
            }
            top = top.max(fd);
        }
        // SAFETY: by the contract.
        unsafe { highest.write(top) };
        0
    })
}

/// Waits for the transfers and for `count` further descriptors.
///
/// # Safety
/// `handle` is `NULL` or a handle; there are `count` descriptors; `ready` is `NULL` or a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_multi_wait(
    handle: *mut CurlMultiHandle,
    further: *mut CurlWaitFd,
    count: c_uint,
    ms: c_int,
    ready: *mut c_int,
) -> c_int {
    // SAFETY: by the contract.
    unsafe { wait(handle, (further, count), ms, ready, false) }
}

/// As [`curl_multi_wait`], also without descriptors, and until [`curl_multi_wakeup`].
///
/// # Safety
/// As [`curl_multi_wait`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_multi_poll(
    handle: *mut CurlMultiHandle,
    further: *mut CurlWaitFd,
    count: c_uint,
    ms: c_int,
    ready: *mut c_int,
) -> c_int {
    // SAFETY: by the contract.
    unsafe { wait(handle, (further, count), ms, ready, true) }
}

/// # Safety
/// As [`curl_multi_wait`].
unsafe fn wait(
    handle: *mut CurlMultiHandle,
    (further, count): (*mut CurlWaitFd, c_uint),
    ms: c_int,
    ready: *mut c_int,
    wakes: bool,
) -> c_int {
    guard(MultiCode::InternalError.number(), || {
        // SAFETY: by the contract.
        let Some(known) = (unsafe { multi(handle) }) else { return MultiCode::BadHandle.number() };
        if let Err(code) = known.multi.check_usable() {
            return code.number();
        }
        let Ok(max) = u64::try_from(ms).map(Duration::from_millis) else {
            return MultiCode::BadFunctionArgument.number();
        };
        let further = match further.is_null() {
            true => &mut [],
            // SAFETY: by the contract there are so many.
            false => unsafe { std::slice::from_raw_parts_mut(further, count as usize) },
        };
        let mut set = PollSet::default();
        let is_given = |it: &&mut CurlWaitFd| it.fd >= 0; // others are ignored, as by poll(2)
        for it in further.iter_mut().filter(is_given) {
            // SAFETY: by the contract it is open during the call.
            set.push(unsafe { BorrowedFd::borrow_raw(it.fd) }, events(it.events));
        }
        let own = set.len();
        let wakeup = known.wakeup.as_ref().filter(|_| wakes);
        if let Some(wakeup) = wakeup {
            use std::os::fd::AsFd;
            set.push(wakeup.as_fd(), Events::READABLE);
        }
        let waits = wakes || !further.is_empty() || known.multi.has_descriptors();
        let mut count = if waits { known.multi.wait(&mut set, max) } else { 0 };
        if count > 0 {
            // As in libcurl; otherwise they are unchanged.
            further.iter_mut().for_each(|it| it.revents = 0);
            for (it, at) in further.iter_mut().filter(is_given).zip(0..) {
                it.revents = returned(set.events(at));
            }
        }
        if let Some(wakeup) = wakeup.filter(|_| !set.events(own).is_empty()) {
            let _ = wakeup.drain();
            count -= 1;
        }
        if !ready.is_null() {
            // SAFETY: by the contract.
            unsafe { ready.write(c_int::try_from(count).unwrap_or(c_int::MAX)) };
        }
        0
    })
}

/// Ends [`curl_multi_poll`], from any thread.
///
/// # Safety
/// `handle` is `NULL` or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_multi_wakeup(handle: *mut CurlMultiHandle) -> c_int {
    guard(MultiCode::InternalError.number(), || {
        // SAFETY: by the contract.
        match unsafe { multi(handle) } {
            Some(known) => {
                let is_woken = known.wakeup.as_ref().is_some_and(|wakeup| wakeup.wake().is_ok());
                let code = if is_woken { MultiCode::Ok } else { MultiCode::WakeupFailure };
                code.number()
            }
            None => MultiCode::BadHandle.number(),
        }
    })
}

/// The events of `CURL_WAIT_POLL*`.
fn events(bits: i16) -> Events {
    [(WAIT_IN, Events::READABLE), (WAIT_PRIORITY, Events::URGENT), (WAIT_OUT, Events::WRITABLE)]
        .into_iter()
        .filter(|(bit, _)| bits & bit != 0)
        .fold(Events::NONE, |events, (_, event)| events | event)
}

/// An error counts for both directions, as in libcurl.
fn returned(events: Events) -> i16 {
    let is_failed = events | Events::ERROR == events;
    [
        (WAIT_IN, events.is_readable()),
        (WAIT_PRIORITY, events.is_urgent()),
        (WAIT_OUT, events.is_writable() || is_failed),
    ]
    .into_iter()
    .filter(|(_, is_reported)| *is_reported)
    .fold(0, |bits, (bit, _)| bits | bit)
}

const WAIT_IN: i16 = 1;
const WAIT_PRIORITY: i16 = 2;
const WAIT_OUT: i16 = 4;
