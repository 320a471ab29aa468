//! The border to the application: its callbacks and its memory.
//!
//! `capi/curl-abi` implements it with C functions. Callbacks run only while nothing is borrowed, so
//! an application may call any function of libcurl from them. `list`, `url`, `form`, `memory` and
//! `set_error` only read or write memory of the application: they run while handles are borrowed,
//! too.

use std::os::fd::{OwnedFd, RawFd};

use fulmar_drive::Peer;

use crate::form_sources::PostedForm;
use crate::hsts::HstsEntry;
use crate::share_kind::SharedKind;
use crate::url::CurlUrl;
use crate::values::CPointer;

/// Calls into the application, with what it has set as options. A `function` of `NULL` means the
/// default of its option, such as `fwrite` to a `FILE *`.
///
/// Those of a running transfer run within `Multi::call`, which refuses functions of its multi
/// handle in them. As in libcurl none are refused in `lock`, `unlock`, `read_hsts` and
/// `write_hsts`: all state may have changed when these return.
pub trait CBorder {
    /// `CURLOPT_WRITEFUNCTION` and `CURLOPT_HEADERFUNCTION`: returns the number of bytes that were
    /// accepted, or a special one ([`WRITE_PAUSE`]).
    fn write(&self, function: CPointer, user: CPointer, bytes: &[u8]) -> usize;

    /// `CURLOPT_READFUNCTION`: fills a part of the buffer, and returns its length or a special
    /// number ([`READ_PAUSE`], [`READ_ABORT`]).
    fn read(&self, function: CPointer, user: CPointer, buffer: &mut [u8]) -> usize;

    /// `CURLOPT_IOCTLFUNCTION` with `CURLIOCMD_RESTARTREAD`: returns 0 if the body begins anew.
    fn restart_read(&self, easy: CPointer, function: CPointer, user: CPointer) -> i32;

    /// Moves the file of the default read function to its start: false if it cannot be moved.
    fn rewind_file(&self, file: CPointer) -> bool;

    /// `CURLOPT_SEEKFUNCTION`: returns [`SEEK_OK`], [`SEEK_CANNOT`], or another number if it has
    /// failed.
    fn seek(&self, function: CPointer, user: CPointer, offset: i64) -> i32;

    /// `CURLOPT_TRAILERFUNCTION`: the lines behind a body; `None`: the transfer is aborted.
    fn trailers(&self, function: CPointer, user: CPointer) -> Option<Vec<Vec<u8>>>;

    /// `CURLOPT_XFERINFOFUNCTION`: the expected and the received bytes, the bytes to send and
    /// those sent. Anything but 0 aborts the transfer.
    fn progress(&self, function: CPointer, user: CPointer, counts: [i64; 4]) -> i32;

    /// `CURLOPT_PROGRESSFUNCTION`, which gets the same counts as floating point numbers.
    fn progress_float(&self, function: CPointer, user: CPointer, counts: [i64; 4]) -> i32;

    /// `CURLOPT_PREREQFUNCTION`, with the addresses and ports of the peer and of this end;
    /// anything but 0 refuses the request.
    fn permit_request(&self, function: CPointer, user: CPointer, ends: [(String, u16); 2]) -> i32;

    /// `CURLOPT_RESOLVER_START_FUNCTION`; anything but 0 fails the transfer.
    fn start_resolver(&self, function: CPointer, user: CPointer) -> i32;

    /// Prints to `CURLOPT_STDERR`; `NULL`: to the standard error.
    fn print_error(&self, file: CPointer, text: &[u8]);

    /// `CURLOPT_DEBUGFUNCTION`.
    fn debug(
        &self,
        function: CPointer,
        user: CPointer,
        easy: CPointer,
        kind: DebugKind,
        text: &[u8],
    );

    /// `CURLMOPT_SOCKETFUNCTION`: what to wait for on a descriptor ([`POLL_REMOVE`]: nothing any
    /// more). `assigned` is what `curl_multi_assign` has attached to it.
    fn socket(&self, call: SocketCall, fd: RawFd, what: i32, assigned: CPointer) -> i32;

    /// `CURLOPT_OPENSOCKETFUNCTION`: a socket that is not connected, or `None`. The address may be
    /// changed.
    fn open_socket(&self, function: CPointer, user: CPointer, peer: &mut Peer) -> Option<OwnedFd>;

    /// `CURLOPT_SOCKOPTFUNCTION`: `CURL_SOCKOPT_*` of a new socket.
    fn prepare_socket(&self, function: CPointer, user: CPointer, fd: RawFd) -> i32;

    /// `CURLOPT_CLOSESOCKETFUNCTION`.
    fn close_socket(&self, function: CPointer, user: CPointer, fd: OwnedFd);

    /// `CURLMOPT_TIMERFUNCTION`: milliseconds until `curl_multi_socket_action` is to be called with
    /// a timeout; -1: the timer is deleted.
    fn timer(&self, function: CPointer, user: CPointer, multi: CPointer, ms: i64) -> i32;

    /// `CURLSHOPT_LOCKFUNC`, if there is one, for exclusive use by a handle.
    fn lock(&self, call: LockCall, easy: CPointer, kind: SharedKind);

    /// `CURLSHOPT_UNLOCKFUNC`, if there is one.
    fn unlock(&self, call: LockCall, easy: CPointer, kind: SharedKind);

    /// `CURLOPT_HSTSREADFUNCTION`.
    fn read_hsts(&self, call: HstsCall) -> HstsRead;

    /// `CURLOPT_HSTSWRITEFUNCTION`, with the number of the host and of all hosts.
    fn write_hsts(
        &self,
        call: HstsCall,
        host: &HstsEntry,
        index: usize,
        total: usize,
    ) -> HstsWritten;

    /// The strings of a `struct curl_slist`.
    fn list(&self, list: CPointer) -> Vec<Vec<u8>>;

    /// A copy of the URL that a `CURLU *` points to.
    fn url(&self, handle: CPointer) -> Option<CurlUrl>;

    /// Frees a `struct curl_slist`.
    fn free_list(&self, list: CPointer);

    /// The `curl_free_callback` of a part of a form.
    fn free(&self, function: CPointer, user: CPointer);

    /// The sections of a `struct curl_httppost`. Streams are read by the callback `read`.
    fn form(&self, list: CPointer, read: CPointer) -> PostedForm;

    /// A copy of bytes; without a length, up to a NUL.
    fn memory(&self, address: CPointer, len: Option<usize>) -> Vec<u8>;

    /// `CURLOPT_ERRORBUFFER`: at most 255 bytes of a text, and a NUL.
    fn set_error(&self, buffer: CPointer, text: &str);
}

/// A `CURLMOPT_SOCKETFUNCTION` with its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketCall {
    /// The function.
    pub function: CPointer,
    /// `CURLMOPT_SOCKETDATA`.
    pub user: CPointer,
    /// The easy handle whose transfer the socket serves.
    pub easy: CPointer,
}

/// A function of a share with its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockCall {
    /// The function.
    pub function: CPointer,
    /// `CURLSHOPT_USERDATA`.
    pub user: CPointer,
}

/// A function for HSTS with its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HstsCall {
    /// The function.
    pub function: CPointer,
    /// `CURLOPT_HSTSREADDATA` or `CURLOPT_HSTSWRITEDATA`.
    pub user: CPointer,
    /// The easy handle.
    pub easy: CPointer,
}

/// Result of `CURLOPT_HSTSREADFUNCTION`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HstsRead {
    /// A host that needs HTTPS.
    Host {
        /// Its name.
        name: Vec<u8>,
        /// Also for the hosts below.
        includes_subdomains: bool,
        /// A date; empty if it is unlimited.
        expire: Vec<u8>,
    },
    /// There is none any more.
    Done,
    /// The transfer fails.
    Failed,
}

/// Result of `CURLOPT_HSTSWRITEFUNCTION`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HstsWritten {
    /// The next one may follow.
    Accepted,
    /// No more.
    Refused,
}

/// Kind of a text for `CURLOPT_DEBUGFUNCTION` (`curl_infotype`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum DebugKind {
    /// A message.
    Text,
    /// A received header line.
    HeaderIn,
    /// A sent head.
    HeaderOut,
    /// Received bytes of a body.
    DataIn,
    /// Sent bytes of a body.
    DataOut,
}

/// `CURL_WRITEFUNC_PAUSE`: the callback is called again when receiving is resumed.
pub const WRITE_PAUSE: usize = 0x1000_0001;
/// `CURL_MAX_WRITE_SIZE`: the largest piece that a write callback receives.
pub(crate) const WRITE_SIZE_MAX: usize = 16_384;
/// `CURL_READFUNC_ABORT`.
pub const READ_ABORT: usize = 0x1000_0000;
/// `CURL_READFUNC_PAUSE`.
pub const READ_PAUSE: usize = 0x1000_0001;
/// `CURL_PROGRESSFUNC_CONTINUE`: the meter is printed, too.
pub const PROGRESS_CONTINUE: i32 = 0x1000_0001;
/// `CURL_SEEKFUNC_OK`.
pub const SEEK_OK: i32 = 0;
/// `CURL_SEEKFUNC_CANTSEEK`: bytes may be read and dropped instead.
pub const SEEK_CANNOT: i32 = 2;
/// `CURL_POLL_IN`.
pub const POLL_IN: i32 = 1;
/// `CURL_POLL_OUT`.
pub const POLL_OUT: i32 = 2;
/// `CURL_POLL_REMOVE`.
pub const POLL_REMOVE: i32 = 4;
