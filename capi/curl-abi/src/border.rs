//! Calls into the application: its functions, and its memory.
//!
//! Every function here is one of C whose address the application has passed as an option. That an
//! address is of the right kind is the contract of `curl_easy_setopt`; the compiler of the
//! application checks it, nothing else can.

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};

use fulmar_curl::hsts::HstsEntry;
use fulmar_curl::url::CurlUrl;
use fulmar_curl::{
    CBorder, CPointer, DebugKind, HstsCall, HstsRead, HstsWritten, LockCall, Peer, PostedForm,
    SEEK_CANNOT, SharedKind, SocketCall,
};

use crate::memory::FreeFunction;
use crate::socket_address::CurlSocketAddress;
use crate::{form_list, hsts, slist, url};

/// The functions of C.
#[derive(Debug)]
pub(crate) struct CFunctions;

type WriteFunction = unsafe extern "C" fn(*const c_char, usize, usize, *mut c_void) -> usize;
type ReadFunction = unsafe extern "C" fn(*mut c_char, usize, usize, *mut c_void) -> usize;
type SeekFunction = unsafe extern "C" fn(*mut c_void, i64, c_int) -> c_int;
type IoctlFunction = unsafe extern "C" fn(*mut c_void, c_int, *mut c_void) -> c_int;
type TrailerFunction = unsafe extern "C" fn(*mut *mut slist::CurlSlist, *mut c_void) -> c_int;
type ProgressFunction = unsafe extern "C" fn(*mut c_void, i64, i64, i64, i64) -> c_int;
type ProgressFloatFunction = unsafe extern "C" fn(*mut c_void, f64, f64, f64, f64) -> c_int;
type PermitRequestFunction =
    unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char, c_int, c_int) -> c_int;
type StartResolverFunction = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void) -> c_int;
type DebugFunction =
    unsafe extern "C" fn(*mut c_void, c_int, *const c_char, usize, *mut c_void) -> c_int;
type SocketFunction =
    unsafe extern "C" fn(*mut c_void, RawFd, c_int, *mut c_void, *mut c_void) -> c_int;
type LockFunction = unsafe extern "C" fn(*mut c_void, c_int, c_int, *mut c_void);
type UnlockFunction = unsafe extern "C" fn(*mut c_void, c_int, *mut c_void);
type OpenSocketFunction = unsafe extern "C" fn(*mut c_void, c_int, *mut CurlSocketAddress) -> RawFd;
type PrepareSocketFunction = unsafe extern "C" fn(*mut c_void, RawFd, c_int) -> c_int;
type CloseSocketFunction = unsafe extern "C" fn(*mut c_void, RawFd) -> c_int;
type TimerFunction = unsafe extern "C" fn(*mut c_void, c_long, *mut c_void) -> c_int;

/// Makes a function of an address that is not `NULL`.
macro_rules! function {
    ($pointer:expr, $kind:ty) => {
        // SAFETY: by the option's contract the address is of such a function.
        unsafe { std::mem::transmute::<*mut c_void, $kind>($pointer.0) }
    };
}

impl CBorder for CFunctions {
    fn write(&self, function: CPointer, user: CPointer, bytes: &[u8]) -> usize {
        if function.is_null() {
            return write_file(user, bytes);
        }
        let function = function!(function, WriteFunction);
        // SAFETY: the bytes live during the call.
        unsafe { function(bytes.as_ptr().cast(), 1, bytes.len(), user.0) }
    }

    fn read(&self, function: CPointer, user: CPointer, buffer: &mut [u8]) -> usize {
        if function.is_null() {
            let file = if user.is_null() { standard_input() } else { user.0.cast() };
            // SAFETY: by the option's contract it is a FILE; the buffer has this length.
            return unsafe { libc::fread(buffer.as_mut_ptr().cast(), 1, buffer.len(), file) };
        }
        let function = function!(function, ReadFunction);
        // SAFETY: the buffer has this length, and lives during the call.
        unsafe { function(buffer.as_mut_ptr().cast(), 1, buffer.len(), user.0) }
    }

    fn restart_read(&self, easy: CPointer, function: CPointer, user: CPointer) -> i32 {
        let function = function!(function, IoctlFunction);
        // SAFETY: the arguments are those of its type.
        unsafe { function(easy.0, IOCMD_RESTARTREAD, user.0) }
    }

    fn rewind_file(&self, file: CPointer) -> bool {
        let file = if file.is_null() { standard_input() } else { file.0.cast() };
        // SAFETY: by the option's contract it is an open file.
        unsafe { libc::fseek(file, 0, libc::SEEK_SET) == 0 }
    }

    fn seek(&self, function: CPointer, user: CPointer, offset: i64) -> i32 {
        if function.is_null() {
            return SEEK_CANNOT;
        }
        let function = function!(function, SeekFunction);
        // SAFETY: the arguments are those of its type.
        unsafe { function(user.0, offset, libc::SEEK_SET) }
    }

    fn trailers(&self, function: CPointer, user: CPointer) -> Option<Vec<Vec<u8>>> {
        let function = function!(function, TrailerFunction);
        let mut list = std::ptr::null_mut();
        // SAFETY: the arguments are those of its type.
        let code = unsafe { function(&raw mut list, user.0) };
        // SAFETY: by the option's contract the callback has made a list.
        let lines = unsafe { slist::strings(list) };
        // SAFETY: as above; the list is ours.
        unsafe { slist::curl_slist_free_all(list) };
        (code == 0).then_some(lines)
    }

    fn progress(&self, function: CPointer, user: CPointer, counts: [i64; 4]) -> i32 {
        let [download_total, downloaded, upload_total, uploaded] = counts;
        let function = function!(function, ProgressFunction);
        // SAFETY: the arguments are those of its type.
        unsafe { function(user.0, download_total, downloaded, upload_total, uploaded) }
    }

    #[expect(clippy::cast_precision_loss, reason = "the interface has floating point numbers")]
    fn progress_float(&self, function: CPointer, user: CPointer, counts: [i64; 4]) -> i32 {
        let [download_total, downloaded, upload_total, uploaded] = counts.map(|count| count as f64);
        let function = function!(function, ProgressFloatFunction);
        // SAFETY: the arguments are those of its type.
        unsafe { function(user.0, download_total, downloaded, upload_total, uploaded) }
    }

    fn permit_request(&self, function: CPointer, user: CPointer, ends: [(String, u16); 2]) -> i32 {
        let [peer, local] = ends.map(|(address, port)| {
            (CString::new(address).expect("an address has no NUL"), c_int::from(port))
        });
        let function = function!(function, PermitRequestFunction);
        // SAFETY: the texts live during the call.
        unsafe { function(user.0, peer.0.as_ptr(), local.0.as_ptr(), peer.1, local.1) }
    }

    fn start_resolver(&self, function: CPointer, user: CPointer) -> i32 {
        let function = function!(function, StartResolverFunction);
        // SAFETY: the resolver has no state that an application knows; `NULL` is allowed.
        unsafe { function(std::ptr::null_mut(), std::ptr::null_mut(), user.0) }
    }

    fn print_error(&self, file: CPointer, text: &[u8]) {
        let file = if file.is_null() { standard_error() } else { file.0.cast() };
        write_file(CPointer(file.cast()), text);
        // SAFETY: by the option's contract it is a FILE.
        unsafe { libc::fflush(file) };
    }

    fn debug(
        &self,
        function: CPointer,
        user: CPointer,
        easy: CPointer,
        kind: DebugKind,
        text: &[u8],
    ) {
        if function.is_null() {
            return print(user, kind, text);
        }
        let function = function!(function, DebugFunction);
        // SAFETY: the text lives during the call.
        unsafe { function(easy.0, kind as c_int, text.as_ptr().cast(), text.len(), user.0) };
    }

    fn socket(&self, call: SocketCall, fd: RawFd, what: i32, assigned: CPointer) -> i32 {
        let function = function!(call.function, SocketFunction);
        // SAFETY: the arguments are those of its type.
        unsafe { function(call.easy.0, fd, what, call.user.0, assigned.0) }
    }

    fn open_socket(&self, function: CPointer, user: CPointer, peer: &mut Peer) -> Option<OwnedFd> {
        let function = function!(function, OpenSocketFunction);
        let mut address = CurlSocketAddress::of(peer);
        // SAFETY: the address lives during the call.
        let fd = unsafe { function(user.0, SOCKET_FOR_CONNECTION, &raw mut address) };
        if let Some(changed) = address.peer() {
            *peer = changed;
        }
        // SAFETY: by the option's contract the socket is the library's from now on.
        (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
    }

    fn prepare_socket(&self, function: CPointer, user: CPointer, fd: RawFd) -> i32 {
        let function = function!(function, PrepareSocketFunction);
        // SAFETY: the arguments are those of its type.
        unsafe { function(user.0, fd, SOCKET_FOR_CONNECTION) }
    }

    fn close_socket(&self, function: CPointer, user: CPointer, fd: OwnedFd) {
        let function = function!(function, CloseSocketFunction);
        // SAFETY: the arguments are those of its type; the function closes the socket.
        unsafe { function(user.0, fd.into_raw_fd()) };
    }

    fn timer(&self, function: CPointer, user: CPointer, multi: CPointer, ms: i64) -> i32 {
        let function = function!(function, TimerFunction);
        // SAFETY: the arguments are those of its type.
        unsafe { function(multi.0, ms, user.0) }
    }

    fn lock(&self, call: LockCall, easy: CPointer, kind: SharedKind) {
        if !call.function.is_null() {
            let function = function!(call.function, LockFunction);
            // SAFETY: the arguments are those of its type.
            unsafe { function(easy.0, kind as c_int, LOCK_ACCESS_SINGLE, call.user.0) };
        }
    }

    fn unlock(&self, call: LockCall, easy: CPointer, kind: SharedKind) {
        if !call.function.is_null() {
            let function = function!(call.function, UnlockFunction);
            // SAFETY: the arguments are those of its type.
            unsafe { function(easy.0, kind as c_int, call.user.0) };
        }
    }

    fn read_hsts(&self, call: HstsCall) -> HstsRead {
        hsts::read(call)
    }

    fn write_hsts(
        &self,
        call: HstsCall,
        host: &HstsEntry,
        index: usize,
        total: usize,
    ) -> HstsWritten {
        hsts::write(call, host, index, total)
    }

    fn list(&self, list: CPointer) -> Vec<Vec<u8>> {
        // SAFETY: by the option's contract the list lives until the end of the transfer.
        unsafe { slist::strings(list.0.cast()) }
    }

    fn url(&self, handle: CPointer) -> Option<CurlUrl> {
        // SAFETY: by the option's contract the URL lives until the end of the transfer.
        unsafe { url::copy(handle.0.cast()) }
    }

    fn free_list(&self, list: CPointer) {
        // SAFETY: by the contract of curl_mime_headers the list belongs to the part.
        unsafe { slist::curl_slist_free_all(list.0.cast()) };
    }

    fn free(&self, function: CPointer, user: CPointer) {
        let function = function!(function, FreeFunction);
        // SAFETY: the argument is that of its type.
        unsafe { function(user.0) };
    }

    fn form(&self, list: CPointer, read: CPointer) -> PostedForm {
        // SAFETY: by the option's contract the list lives until the end of the transfer.
        unsafe { form_list::posted(list.0.cast(), read) }
    }

    fn memory(&self, address: CPointer, len: Option<usize>) -> Vec<u8> {
        match len {
            // SAFETY: by the option's contract there are so many bytes.
            Some(len) => unsafe { std::slice::from_raw_parts(address.0.cast(), len) }.to_vec(),
            // SAFETY: by the option's contract it is a string.
            None => unsafe { CStr::from_ptr(address.0.cast()) }.to_bytes().to_vec(),
        }
    }

    fn set_error(&self, buffer: CPointer, text: &str) {
        let len = text.len().min(ERROR_SIZE - 1);
        let buffer = buffer.0.cast::<u8>();
        // SAFETY: by the option's contract the buffer has CURL_ERROR_SIZE bytes.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), buffer, len) };
        // SAFETY: as above.
        let end = unsafe { buffer.add(len) };
        // SAFETY: as above.
        unsafe { end.write(0) };
    }
}

/// Writes to a `FILE *`; `NULL`: the standard output.
fn write_file(file: CPointer, bytes: &[u8]) -> usize {
    let file = if file.is_null() { standard_output() } else { file.0.cast() };
    // SAFETY: by the option's contract it is a FILE.
    unsafe { libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), file) }
}

/// Verbose output to a `FILE *`; `NULL`: the standard error.
fn print(file: CPointer, kind: DebugKind, text: &[u8]) {
    let lead: &[u8] = match kind {
        DebugKind::Text => b"* ",
        DebugKind::HeaderIn => b"< ",
        DebugKind::HeaderOut => b"> ",
        DebugKind::DataIn | DebugKind::DataOut => return,
    };
    let file = if file.is_null() { CPointer(standard_error().cast()) } else { file };
    write_file(file, lead);
    write_file(file, text);
}

pub(crate) fn standard_output() -> *mut libc::FILE {
    // SAFETY: the C library defines it, and never changes it.
    unsafe { stdout }
}

fn standard_error() -> *mut libc::FILE {
    // SAFETY: as above.
    unsafe { stderr }
}

pub(crate) fn standard_input() -> *mut libc::FILE {
    // SAFETY: as above.
    unsafe { stdin }
}

unsafe extern "C" {
    static stdin: *mut libc::FILE;
    static stdout: *mut libc::FILE;
    static stderr: *mut libc::FILE;
}

/// `CURL_LOCK_ACCESS_SINGLE`.
const LOCK_ACCESS_SINGLE: c_int = 2;
/// `CURLSOCKTYPE_IPCXN`.
const SOCKET_FOR_CONNECTION: c_int = 0;
/// `CURLIOCMD_RESTARTREAD`.
const IOCMD_RESTARTREAD: c_int = 1;
/// `CURL_ERROR_SIZE`.
const ERROR_SIZE: usize = 256;
