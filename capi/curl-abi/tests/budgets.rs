//! What handles and transfers may cost: bytes of heap and allocations, counted by the allocator.

use std::alloc::System;
use std::ffi::{CString, c_char, c_int, c_void};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};
use std::thread;

use fulmar_curl_abi::easy::{
    curl_easy_cleanup, curl_easy_init, curl_easy_perform, curl_easy_setopt,
};
use fulmar_curl_abi::handle::{CurlHandle, CurlMultiHandle};
use fulmar_curl_abi::multi::{
    curl_multi_add_handle, curl_multi_cleanup, curl_multi_info_read, curl_multi_init,
    curl_multi_perform, curl_multi_poll, curl_multi_remove_handle,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, Stats, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The allocator counts for the process, so one test runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs `test` with the URL of a server that allocates nothing for a request. `/idle` gets no
/// response.
fn with_server(test: impl FnOnce(&str)) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it listens");
    for _ in 0..CONNECTIONS_MAX {
        let listener = listener.try_clone().expect("a descriptor");
        thread::spawn(move || listener.incoming().flatten().for_each(respond));
    }
    test(&format!("http://{address}"));
}

/// Responds until the client closes the connection.
fn respond(mut stream: TcpStream) {
    let mut request = [0; 4096];
    while let Ok(len @ 1..) = stream.read(&mut request) {
        if !request[..len].starts_with(b"GET /idle ") {
            stream.write_all(RESPONSE).expect("the client reads");
        }
    }
}

/// A function for `CURLOPT_WRITEFUNCTION`.
extern "C" fn accept_all(_: *const c_char, size: usize, count: usize, _: *mut c_void) -> usize {
    size * count
}

/// An easy handle that lives as long as this.
struct EasyHandle(*mut CurlHandle);

impl EasyHandle {
    fn new(url: &str) -> Self {
        let handle = curl_easy_init();
        let url = CString::new(url).expect("it has no NUL");
        let options: [(c_int, *mut c_void); 3] = [
            (CURLOPT_URL, url.as_ptr().cast_mut().cast()),
            (CURLOPT_WRITEFUNCTION, accept_all as *mut c_void),
            (CURLOPT_NOPROXY, c"*".as_ptr().cast_mut().cast()),
        ];
        for (option, argument) in options {
            // SAFETY: the handle is alive, and the argument of the kind of the option.
            assert_eq!(unsafe { curl_easy_setopt(handle, option, argument) }, 0);
        }
        Self(handle)
    }

    fn perform(&self) {
        // SAFETY: the handle is alive.
        assert_eq!(unsafe { curl_easy_perform(self.0) }, 0);
    }
}

impl Drop for EasyHandle {
    fn drop(&mut self) {
        // SAFETY: the handle is alive, and not used any more.
        unsafe { curl_easy_cleanup(self.0) };
    }
}

/// A multi handle that lives as long as this.
struct MultiHandle(*mut CurlMultiHandle);

impl MultiHandle {
    fn new() -> Self {
        Self(curl_multi_init())
    }

    fn add(&self, easy: &EasyHandle) {
        // SAFETY: both are alive.
        assert_eq!(unsafe { curl_multi_add_handle(self.0, easy.0) }, 0);
    }

    fn remove(&self, easy: &EasyHandle) {
        // SAFETY: both are alive.
        assert_eq!(unsafe { curl_multi_remove_handle(self.0, easy.0) }, 0);
    }

    fn act(&self) {
        // SAFETY: the handle is alive.
        assert_eq!(unsafe { curl_multi_perform(self.0, null_mut()) }, 0);
    }

    fn wait(&self) {
        // SAFETY: the handle is alive.
        assert_eq!(unsafe { curl_multi_poll(self.0, null_mut(), 0, 1000, null_mut()) }, 0);
    }

    /// Runs the transfer of a handle that was added.
    fn run(&self, easy: &EasyHandle) {
        self.add(easy);
        self.act();
        // SAFETY: the handle is alive.
        while unsafe { curl_multi_info_read(self.0, null_mut()) }.is_null() {
            self.wait();
            self.act();
        }
        self.remove(easy);
    }
}

impl Drop for MultiHandle {
    fn drop(&mut self) {
        // SAFETY: the handle is alive, and not used any more.
        let code = unsafe { curl_multi_cleanup(self.0) };
        assert!(code == 0 || thread::panicking(), "{code}");
    }
}

/// What `act` allocates.
fn counted(act: impl FnOnce()) -> Stats {
    let region = Region::new(ALLOCATOR);
    act();
    region.change()
}

fn bytes_kept(stats: Stats) -> usize {
    stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)
}

#[test]
fn allocations_of_a_transfer_are_bounded() {
    with_server(|url| {
        let multi = MultiHandle::new();
        let kept = EasyHandle::new(url);
        multi.run(&kept);
        let reused = counted(|| (0..100).for_each(|_| multi.run(&kept)));
        let new = counted(|| (0..100).for_each(|_| multi.run(&EasyHandle::new(url))));
        let counts = [reused, new].map(|stats| stats.allocations.div_ceil(100));
        assert!(counts[0] <= ALLOCATIONS_MAX[0] && counts[1] <= ALLOCATIONS_MAX[1], "{counts:?}");
    });
}

#[test]
fn memory_of_a_waiting_transfer_is_bounded() {
    with_server(|url| {
        let url = format!("{url}/idle");
        let multi = MultiHandle::new();
        let mut handles = Vec::with_capacity(CONNECTIONS_MAX);
        let mut open = |count| {
            for _ in 0..count {
                handles.push(EasyHandle::new(&url));
                multi.add(handles.last().expect("one was added"));
                (0..3).for_each(|_| multi.act());
            }
        };
        open(16); // tables have their first size
        let kept = bytes_kept(counted(|| open(112)));
        assert!(kept / 112 <= WAITING_SIZE_MAX, "{} bytes", kept / 112);
    });
}

#[test]
fn memory_of_a_performed_handle_is_bounded() {
    with_server(|url| {
        let mut handles = Vec::with_capacity(CONNECTIONS_MAX);
        let mut perform = |count| {
            for _ in 0..count {
                let handle = EasyHandle::new(url);
                handle.perform();
                handles.push(handle);
            }
        };
        perform(1);
        let kept = bytes_kept(counted(|| perform(10)));
        assert!(kept / 10 <= PERFORMED_SIZE_MAX, "{} bytes", kept / 10);
    });
}

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nServer: test\r\nContent-Length: 6\r\n\r\nhello\n";
const CONNECTIONS_MAX: usize = 128;
/// Of a transfer with a handle that was used before, and with a new one.
const ALLOCATIONS_MAX: [usize; 2] = [13, 22];
const WAITING_SIZE_MAX: usize = 1_950;
const PERFORMED_SIZE_MAX: usize = 12_600;
const CURLOPT_URL: c_int = 10_002;
const CURLOPT_WRITEFUNCTION: c_int = 20_011;
const CURLOPT_NOPROXY: c_int = 10_177;
