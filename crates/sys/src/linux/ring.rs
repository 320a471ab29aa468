//! `io_uring(7)` as a vectored, non-blocking system call: takes a list of entries, makes one
//! `io_uring_enter(2)`, and returns one result for each entry.
//!
//! Every entry carries `MSG_DONTWAIT` (an accept: `IORING_ACCEPT_DONTWAIT`), so the kernel finishes
//! it inside the call and never retries it. No operation is in flight between two calls: memory and
//! descriptors are borrowed only while a function runs, as by any other system call. This is
//! checked after every call. If a kernel behaves otherwise, the operations in flight are cancelled
//! and the ring is not used again. Unfinished operations return `Interrupted`, and can be repeated
//! by ordinary calls. A close has no such flag and needs none: closing a socket never waits.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use bytes::BytesMut;
use io_uring::squeue::Entry;
use io_uring::types::{CancelBuilder, Fd};
use io_uring::{EnterFlags, IoUring, opcode};

use crate::ledger::{Operation, enter_operation, syscall};
use crate::platform::{MORE, NO_SIGNAL};
use crate::socket::{STORAGE_LEN, empty_storage, peer_of};

/// A ring, empty between two calls. Threads may use it one after another.
pub struct Ring {
    ring: IoUring,
    fault: Option<io::Error>,
    /// The current list, or the last one.
    entries: Vec<Entry>,
    /// The kernel supports accepts that do not wait.
    accepts: bool,
    /// Addresses of accepted peers, with their lengths.
    addresses: Vec<(libc::sockaddr_storage, libc::socklen_t)>,
    /// For tests: the number of lists until a simulated failure.
    lists_left: Option<u32>,
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fd = self.ring.as_raw_fd();
        f.debug_struct("Ring").field("fd", &fd).field("fault", &self.fault).finish()
    }
}

impl Ring {
    /// `io_uring_setup(2)`, and some `io_uring_enter(2)` that check whether operations on sockets
    /// finish inside the call.
    ///
    /// # Errors
    /// See the manual page: `EPERM` if a filter or `kernel.io_uring_disabled` forbids it, `ENOSYS`
    /// and `EINVAL` on kernels without it or before 6.0, `ENOMEM`. `Unsupported` if an operation
    /// does not work as required.
    pub fn new() -> io::Result<Self> {
        let len = u32::try_from(RING_LEN_MAX).expect("lists have at most 64 entries");
        // No `dontfork`, so that children inherit the memory of the ring: a child without it that
        // drops its copy of the ring would unmap other memory at that address.
        let built = IoUring::builder().setup_submit_all().setup_clamp().build(len);
        let _ = syscall!(io_uring_setup, if built.is_ok() { 0 } else { -1 });
        let mut ring = Self {
            ring: built?,
            fault: None,
            entries: Vec::with_capacity(RING_LEN_MAX),
            accepts: false,
            addresses: Vec::new(),
            lists_left: None,
        };
        ring.check()?;
        Ok(ring)
    }

    /// The error after which the ring must not be used: the kernel stopped behaving as required.
    /// From then on every operation returns `Interrupted`.
    pub fn fault(&self) -> Option<&io::Error> {
        self.fault.as_ref()
    }

    /// Like [`fault`](Self::fault); consumes the ring.
    pub fn into_fault(self) -> Option<io::Error> {
        self.fault
    }

    /// Checks that all operations work. An error of `io_uring_enter(2)` is more precise than the
    /// result of an operation that was never started.
    fn check(&mut self) -> io::Result<()> {
        let tried = self.check_operations();
        self.fault.take().map_or(tried, Err)
    }

    /// Checks that an empty receive finishes at once with `EAGAIN`, a send and a close with
    /// success, and that operations can be cancelled.
    fn check_operations(&mut self) -> io::Result<()> {
        self.cancel()?; // supported by kernels since 6.0
        let (one, other) = std::os::unix::net::UnixStream::pair()?;
        let mut found = [Ok(0)];
        let mut nothing = BytesMut::with_capacity(1);
        let note = |found: &mut io::Result<usize>, result| *found = result;
        self.receive(&mut found, 1, &mut nothing, |_| (one.as_fd(), 1), note);
        match &found {
            [Err(error)] if error.kind() == io::ErrorKind::WouldBlock => {}
            found => return Err(unfit("RECV", found)),
        }
        self.send(&mut found, |_| (one.as_fd(), b"x", false), note);
        match &found {
            [Ok(1)] => {}
            found => return Err(unfit("SEND", found)),
        }
        let mut closed = [NOT_DONE];
        let close = opcode::Close::new(Fd(other.as_raw_fd())).build();
        self.enter(&mut closed, std::iter::once(close));
        // Only the result is reliable: a child that another thread starts now may have a copy of
        // the descriptor, so the other end sees no close, and the number may be reused already.
        if closed != [0] {
            return Err(unfit("CLOSE", &closed));
        }
        let _ = other.into_raw_fd(); // closed by the ring
        enter_operation(Operation::close, false);
        self.accepts = self.supports_accepts();
        Ok(())
    }

    /// Kernels before 6.10 return `EINVAL` for the unknown flag, before they check the (invalid)
    /// socket.
    fn supports_accepts(&mut self) -> bool {
        let (mut address, mut len) = (empty_storage(), STORAGE_LEN);
        let to = std::ptr::from_mut(&mut address).cast();
        let accept = opcode::Accept::new(Fd(-1), to, &raw mut len).build();
        let mut results = [NOT_DONE];
        self.enter(&mut results, std::iter::once(with_priority(accept, ACCEPT_DONTWAIT)));
        results == [-libc::EBADF]
    }

    /// `recv(2)` for each entry of a list: at most as many bytes as `entry` returns, and at most
    /// `share`. The bytes are appended to `block` one after the other; it must have room for all of
    /// them. `done` receives each result, in order.
    ///
    /// # Panics
    /// If there are more than [`RING_LEN_MAX`] entries, or `block` has less room than `share` for
    /// each.
    pub fn receive<'f, T>(
        &mut self,
        list: &mut [T],
        share: usize,
        block: &mut BytesMut,
        entry: impl Fn(&T) -> (BorrowedFd<'f>, usize),
        mut done: impl FnMut(&mut T, io::Result<usize>),
    ) {
        let mut results = [NOT_DONE; RING_LEN_MAX];
        let results = &mut results[..list.len()];
        let room = &mut block.spare_capacity_mut()[..list.len() * share];
        self.enter(
            results,
            list.iter().enumerate().map(|(at, of)| {
                let (fd, max) = entry(of);
                let piece = &mut room[at * share..][..max.min(share)];
                let size = u32::try_from(piece.len()).unwrap_or(u32::MAX);
                let receive =
                    opcode::Recv::new(Fd(fd.as_raw_fd()), piece.as_mut_ptr().cast(), size);
                receive.flags(libc::MSG_DONTWAIT).build()
            }),
        );
        let mut end = 0;
        for (at, (of, result)) in list.iter_mut().zip(results).enumerate() {
            let result = outcome(Operation::recv, *result);
            if let Ok(n) = result {
                room.copy_within(at * share..at * share + n, end);
                end += n;
            }
            done(of, result);
        }
        // SAFETY: every receive has written the bytes in its result, and they were moved to the
        // front of the spare capacity without gaps.
        unsafe { block.set_len(block.len() + end) };
    }

    /// `send(2)` for each entry of a list: `entry` returns the bytes, and whether more data follows
    /// at once (`MSG_MORE`). `done` receives the number of bytes sent, in order.
    ///
    /// # Panics
    /// If there are more than [`RING_LEN_MAX`] entries.
    pub fn send<'f, T>(
        &mut self,
        list: &mut [T],
        entry: impl Fn(&T) -> (BorrowedFd<'f>, &'f [u8], bool),
        mut done: impl FnMut(&mut T, io::Result<usize>),
    ) {
        let mut results = [NOT_DONE; RING_LEN_MAX];
        let results = &mut results[..list.len()];
        self.enter(
            results,
            list.iter().map(|of| {
                let (fd, bytes, more) = entry(of);
                let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                let more = if more { MORE } else { 0 };
                let flags = libc::MSG_DONTWAIT | libc::MSG_WAITALL | NO_SIGNAL | more;
                opcode::Send::new(Fd(fd.as_raw_fd()), bytes.as_ptr(), size).flags(flags).build()
            }),
        );
        for (of, result) in list.iter_mut().zip(results) {
            done(of, outcome(Operation::send, *result));
        }
    }

    /// True if the kernel supports [`accept`](Self::accept) in a ring without waiting (since 6.10).
    pub fn accepts(&self) -> bool {
        self.accepts
    }

    /// [`crate::accept`] for each entry of a list of listeners. `done` receives the accepted
    /// connections, in order.
    ///
    /// # Panics
    /// If there are more than [`RING_LEN_MAX`] entries, or the kernel does not support it.
    pub fn accept<'f, T>(
        &mut self,
        list: &mut [T],
        entry: impl Fn(&T) -> BorrowedFd<'f>,
        mut done: impl FnMut(&mut T, io::Result<(OwnedFd, SocketAddr)>),
    ) {
        assert!(self.accepts, "kernels before 6.10 would block");
        let mut results = [NOT_DONE; RING_LEN_MAX];
        let results = &mut results[..list.len()];
        let mut addresses = std::mem::take(&mut self.addresses);
        addresses.clear();
        addresses.resize(list.len(), (empty_storage(), STORAGE_LEN));
        self.enter(
            results,
            list.iter().zip(&mut addresses).map(|(of, (address, len))| {
                let to = std::ptr::from_mut(address).cast();
                let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
                let accept = opcode::Accept::new(Fd(entry(of).as_raw_fd()), to, len);
                with_priority(accept.flags(flags).build(), ACCEPT_DONTWAIT)
            }),
        );
        for ((of, result), (address, _)) in list.iter_mut().zip(results).zip(&addresses) {
            let result = outcome(Operation::accept, *result).map(|fd| {
                let fd = RawFd::try_from(fd).expect("a descriptor");
                // SAFETY: the operation returned a new descriptor without another owner.
                (unsafe { OwnedFd::from_raw_fd(fd) }, peer_of(address))
            });
            done(of, result);
        }
        self.addresses = addresses;
    }

    /// `close(2)` for all descriptors of a list, which must be sockets: closing a file may wait,
    /// which makes the ring unusable (see above). Errors are ignored, because the caller cannot
    /// react to them. Descriptors that are left in the list after a [`fault`](Self::fault) are
    /// open.
    pub fn close(&mut self, fds: &mut Vec<OwnedFd>) {
        while !fds.is_empty() && self.fault.is_none() {
            let mut results = [NOT_DONE; RING_LEN_MAX];
            let from = fds.len() - fds.len().min(RING_LEN_MAX);
            let results = &mut results[..fds.len() - from];
            let close = |fd: &OwnedFd| opcode::Close::new(Fd(fd.as_raw_fd())).build();
            self.enter(results, fds[from..].iter().map(close));
            let mut results = results.iter();
            let closed = |_: &mut OwnedFd| results.next() != Some(&NOT_DONE);
            for fd in fds.extract_if(from.., closed) {
                let _ = fd.into_raw_fd(); // closed by the ring
                enter_operation(Operation::close, false);
            }
        }
    }

    /// Submits all entries, and stores their results in `results`; unfinished entries, which exist
    /// only after a fault, have `NOT_DONE`. No operation is in flight when it returns.
    fn enter(&mut self, results: &mut [i32], entries: impl Iterator<Item = Entry>) {
        match &mut self.lists_left {
            Some(0) => {
                self.fault = Some(io::Error::other("io_uring: simulated failure for a test"))
            }
            Some(lists) => *lists -= 1,
            None => {}
        }
        if self.fault.is_some() {
            return;
        }
        self.entries.clear();
        // `entries` is code of the caller and may panic: nothing of this list is in the queue yet.
        self.entries.extend((0..).zip(entries).map(|(at, entry)| entry.user_data(at)));
        // SAFETY: the memory that the entries point to is borrowed by the caller until this
        // returns. Nothing below unwinds while an operation is in flight.
        let pushed = unsafe { self.ring.submission().push_multiple(&self.entries) };
        pushed.expect("lists have at most as many entries as the ring");
        while !self.ring.submission().is_empty() && self.fault.is_none() {
            let entered = self.ring.submit();
            let _ = syscall!(io_uring_enter, if entered.is_ok() { 0 } else { -1 });
            self.fault = entered.err().filter(|error| error.kind() != io::ErrorKind::Interrupted);
        }
        let taken = results.len() - self.ring.submission().len();
        let answers = self.take_completions(results);
        if answers < taken {
            self.cancel_all(results, taken - answers);
        }
    }

    /// Stores the completions in `results`; returns their number.
    fn take_completions(&mut self, results: &mut [i32]) -> usize {
        let mut answers = 0;
        for answer in self.ring.completion() {
            let at = usize::try_from(answer.user_data()).expect("an index of the list");
            results[at] = match answer.result() {
                code if code == -libc::ECANCELED => NOT_DONE,
                result => result,
            };
            answers += 1;
        }
        answers
    }

    /// Cancels the operations in flight, and waits until they have finished. This takes as long as
    /// a close at most; operations that wait for a peer are cancelled.
    #[cold]
    fn cancel_all(&mut self, results: &mut [i32], mut missing: usize) {
        let text = "io_uring: operations were not finished when io_uring_enter returned";
        self.fault.get_or_insert_with(|| io::Error::other(text));
        let _ = self.cancel(); // entries that it does not find have finished or finish soon
        while missing > 0 {
            // SAFETY: nothing is submitted, and no argument is passed.
            let entered = unsafe {
                let all = u32::try_from(missing).expect("lists have at most 64 entries");
                self.ring.submitter().enter::<()>(0, all, EnterFlags::GETEVENTS.bits(), None)
            };
            let _ = syscall!(io_uring_enter, if entered.is_ok() { 0 } else { -1 });
            missing -= self.take_completions(results);
        }
    }

    fn cancel(&self) -> io::Result<()> {
        let any = CancelBuilder::any();
        let cancelled = match self.ring.submitter().register_sync_cancel(None, any) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()), // nothing to cancel
            result => result,
        };
        let _ = syscall!(io_uring_register, if cancelled.is_ok() { 0 } else { -1 });
        cancelled
    }
}

/// Functions for tests.
#[cfg(any(test, feature = "testing"))]
impl Ring {
    /// Simulates a failure of the kernel after `lists` more lists.
    pub fn set_lists_max(&mut self, lists: u32) {
        self.lists_left = Some(lists);
    }

    /// Behaves like a kernel before 6.10.
    pub fn set_accepts_unknown(&mut self) {
        self.accepts = false;
    }
}

/// Converts the result of an operation. The ledger counts it if it was executed.
fn outcome(operation: Operation, result: i32) -> io::Result<usize> {
    let outcome = usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
    if result != NOT_DONE {
        let again = matches!(&outcome, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        enter_operation(operation, again);
    }
    outcome
}

/// Sets flags in `ioprio` of an entry; the `io-uring` crate has no function for accepts.
fn with_priority(mut entry: Entry, flags: u16) -> Entry {
    let words = std::ptr::from_mut(&mut entry).cast::<[u16; size_of::<Entry>() / 2]>();
    // SAFETY: an entry is the `struct io_uring_sqe` of io_uring_enter(2), in which any bit pattern
    // is valid. It is owned by this function.
    unsafe { (*words)[PRIORITY_AT] = flags };
    entry
}

fn unfit(operation: &str, found: &dyn fmt::Debug) -> io::Error {
    let text = format!("io_uring: {operation} does not work as required: {found:?}");
    io::Error::new(io::ErrorKind::Unsupported, text)
}

/// Maximum number of entries in a list.
pub const RING_LEN_MAX: usize = 64;
/// The result of an unfinished operation, as of a call interrupted by a signal: nothing happened.
const NOT_DONE: i32 = -libc::EINTR;
/// `IORING_ACCEPT_DONTWAIT` (linux/io_uring.h).
const ACCEPT_DONTWAIT: u16 = 1 << 1;
/// Index of `ioprio` in `struct io_uring_sqe`, in units of two bytes.
const PRIORITY_AT: usize = 1;

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::{Call, Ledger};

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        near.set_nodelay(true).unwrap();
        (near, listener.accept().unwrap().0)
    }

    /// Receives at most 512 bytes from each socket.
    fn receive(
        ring: &mut Ring,
        from: &[&TcpStream],
        block: &mut BytesMut,
    ) -> Vec<io::Result<usize>> {
        let mut list: Vec<_> = from.iter().map(|it| (it.as_fd(), Ok(0))).collect();
        ring.receive(&mut list, 512, block, |it| (it.0, 512), |it, result| it.1 = result);
        list.into_iter().map(|it| it.1).collect()
    }

    #[test]
    fn a_list_is_one_call_with_separately_counted_operations() {
        let mut ring = Ring::new().unwrap();
        let pairs: Vec<_> = (0..RING_LEN_MAX).map(|_| pair()).collect();
        let before = Ledger::here();
        let bytes = [7; 100];
        let mut sends: Vec<_> = pairs.iter().enumerate().collect();
        let mut sent = 0;
        ring.send(
            &mut sends,
            |(at, (near, _))| (near.as_fd(), &bytes[..=*at], false),
            |(at, _), n| {
                assert_eq!(n.unwrap(), *at + 1);
                sent += 1;
            },
        );
        let mut block = BytesMut::with_capacity(64 * 1024);
        block.extend_from_slice(b"before");
        let fars: Vec<_> = pairs.iter().map(|(_, far)| far).collect();
        let first = receive(&mut ring, &fars, &mut block);
        let all: usize = first.into_iter().map(Result::unwrap).sum();
        assert_eq!(all, (1..=RING_LEN_MAX).sum());
        assert!(
            block.len() == 6 + all && block.starts_with(b"before"),
            "received bytes have no gaps"
        );
        assert!(block[6..].iter().all(|byte| *byte == 7));
        block.clear();
        let second = receive(&mut ring, &fars, &mut block);
        let again = |it: io::Result<usize>| it.unwrap_err().kind() == io::ErrorKind::WouldBlock;
        assert!(second.into_iter().all(again), "no call waits");
        let made = Ledger::here() - before;
        assert_eq!((sent, made.count(Call::io_uring_enter).calls, made.total()), (64, 3, 3));
        assert_eq!(made.operation(Operation::send).calls, 64);
        let receives = made.operation(Operation::recv);
        assert_eq!((receives.calls, receives.eagain), (128, 64));
    }

    fn listener() -> TcpListener {
        TcpListener::bind("127.0.0.1:0").unwrap()
    }

    fn accept(
        ring: &mut Ring,
        listeners: &[BorrowedFd<'_>],
    ) -> Vec<io::Result<(OwnedFd, SocketAddr)>> {
        let mut list: Vec<_> = listeners.iter().map(|it| (*it, None)).collect();
        ring.accept(&mut list, |it| it.0, |it, result| it.1 = Some(result));
        list.into_iter().map(|it| it.1.unwrap()).collect()
    }

    /// The listeners are blocking.
    #[test]
    fn a_list_of_accepts_is_one_call_that_does_not_block() {
        let mut ring = Ring::new().unwrap();
        if !ring.accepts() {
            return; // a kernel before 6.10
        }
        let (one, other) = (listener(), listener());
        let clients = [&one, &one, &other]
            .map(|listener| TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        let list = [&one, &other, &one, &other].map(AsFd::as_fd);
        let before = Ledger::here();
        let found = accept(&mut ring, &list);
        let made = Ledger::here() - before;
        let accepts = made.operation(Operation::accept);
        assert_eq!((made.total(), accepts.calls, accepts.eagain), (1, 4, 1));
        let [Ok(first), Ok(its), Ok(second), Err(nobody)] = &found[..] else { panic!("{found:?}") };
        assert_eq!(nobody.kind(), io::ErrorKind::WouldBlock);
        let peers = [first, second, its].map(|found| found.1);
        assert_eq!(peers, clients.each_ref().map(|client| client.local_addr().unwrap()));
        let mut stream = TcpStream::from(first.0.try_clone().unwrap());
        let empty = stream.read(&mut [0]).unwrap_err();
        assert_eq!(empty.kind(), io::ErrorKind::WouldBlock, "the new socket is non-blocking");
    }

    #[test]
    fn ring_accepts_of_unix_peers_have_no_address() {
        use std::os::linux::net::SocketAddrExt;
        use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
        let mut ring = Ring::new().unwrap();
        if !ring.accepts() {
            return; // a kernel before 6.10
        }
        let name = format!("fulmar-ring-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        let _client = UnixStream::connect_addr(&address).unwrap();
        let found = accept(&mut ring, &[listener.as_fd(), listener.as_fd()]);
        assert_eq!(found[0].as_ref().unwrap().1, crate::UNNAMED);
        assert_eq!(found[1].as_ref().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    /// The operation exists since 5.5, the flag since 6.10.
    #[test]
    fn an_unknown_accept_flag_is_detected_without_a_socket() {
        let mut ring = Ring::new().unwrap();
        let (mut address, mut len) = (empty_storage(), STORAGE_LEN);
        let to = std::ptr::from_mut(&mut address).cast();
        let accept = opcode::Accept::new(Fd(-1), to, &raw mut len).build();
        let mut results = [NOT_DONE];
        ring.enter(&mut results, std::iter::once(with_priority(accept, 1 << 15)));
        assert_eq!(results, [-libc::EINVAL]);
        assert!(ring.fault().is_none());
    }

    /// Another owner of the listener may shut it down; this is not a fault of the kernel.
    #[test]
    fn an_accept_on_a_shut_down_listener_is_only_its_own_error() {
        let mut ring = Ring::new().unwrap();
        if !ring.accepts() {
            return; // a kernel before 6.10
        }
        let socket = crate::tcp_socket("127.0.0.1:0".parse().unwrap()).unwrap();
        for found in accept(&mut ring, &[socket.as_fd(), socket.as_fd()]) {
            assert_eq!(found.unwrap_err().raw_os_error(), Some(libc::EINVAL));
        }
        assert!(ring.accepts() && ring.fault().is_none());
    }

    #[test]
    fn eof_and_errors_are_reported_as_by_recv() {
        let mut ring = Ring::new().unwrap();
        let ((ended, near), (reset, mut far)) = (pair(), pair());
        drop(ended);
        far.write_all(b"never read").unwrap();
        drop(reset); // unread bytes cause a reset
        // On loopback both are visible as soon as the other end is closed.
        let found = receive(&mut ring, &[&near, &far], &mut BytesMut::with_capacity(1024));
        assert_eq!(found[0].as_ref().unwrap(), &0);
        assert_eq!(found[1].as_ref().unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }

    #[test]
    fn a_full_socket_reports_a_partial_send() {
        let mut ring = Ring::new().unwrap();
        let (near, mut far) = pair();
        let bytes = vec![1; 32 << 20];
        let mut sent = 0;
        let full = loop {
            let mut list = [Ok(0)];
            ring.send(&mut list, |_| (near.as_fd(), &bytes, false), |it, n| *it = n);
            match list {
                [Ok(n)] => sent += n, // the receiving side may have read some bytes meanwhile
                [Err(error)] => break error,
            }
            assert!(sent < bytes.len(), "the buffers never fill without a reader");
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        drop(near);
        let mut all = Vec::new();
        far.read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), sent);
    }

    #[test]
    fn a_list_whose_iterator_panics_is_not_submitted() {
        let mut ring = Ring::new().unwrap();
        let (mut near, far) = pair();
        near.write_all(b"nobody's").unwrap();
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut block = BytesMut::with_capacity(1024);
            let entry = |number: &u32| match number {
                0 => (far.as_fd(), 512),
                _ => panic!("panic of the caller"),
            };
            ring.receive(&mut [0, 1], 512, &mut block, entry, |_, _| {});
        }));
        unwound.unwrap_err();
        let mut list = [Ok(0)];
        ring.send(&mut list, |_| (near.as_fd(), b"later", false), |it, n| *it = n);
        assert!(matches!(list, [Ok(5)]), "{list:?}");
        let mut text = [0; 16];
        let n = (&far).read(&mut text).expect("the bytes were not received into freed memory");
        assert_eq!(&text[..n], b"nobody'slater");
    }

    #[test]
    fn a_close_is_visible_to_the_peer() {
        let mut ring = Ring::new().unwrap();
        let (ours, theirs): (Vec<_>, Vec<_>) = (0..100).map(|_| pair()).unzip();
        let mut ours: Vec<OwnedFd> = ours.into_iter().map(OwnedFd::from).collect();
        let before = Ledger::here();
        ring.close(&mut ours);
        let made = Ledger::here() - before;
        assert_eq!((made.total(), made.operation(Operation::close).calls), (2, 100));
        for mut peer in theirs {
            assert_eq!(peer.read(&mut [0]).unwrap(), 0);
        }
    }

    /// Simulates a kernel that ignores `MSG_DONTWAIT`: it waits for bytes.
    #[test]
    fn unfinished_operations_are_cancelled_and_disable_the_ring() {
        let mut ring = Ring::new().unwrap();
        let (mut near, far) = pair();
        let mut bytes = [0; 8];
        let mut results = [NOT_DONE; 2];
        let waits = opcode::Recv::new(Fd(far.as_raw_fd()), bytes.as_mut_ptr(), 8).build();
        let sends = opcode::Send::new(Fd(far.as_raw_fd()), b"x".as_ptr(), 1).build();
        ring.enter(&mut results, [waits, sends].into_iter());
        assert_eq!(results, [NOT_DONE, 1]);
        assert!(ring.fault().unwrap().to_string().contains("not finished"));
        near.write_all(b"late").unwrap();
        let mut block = BytesMut::with_capacity(512);
        let found = receive(&mut ring, &[&far], &mut block);
        assert_eq!(found[0].as_ref().unwrap_err().kind(), io::ErrorKind::Interrupted);
        assert_eq!(bytes, [0; 8], "nothing writes there any more");
        let mut fds = vec![OwnedFd::from(far)];
        ring.close(&mut fds);
        let mut text = [0; 8];
        let n = TcpStream::from(fds.pop().expect("still open")).read(&mut text).unwrap();
        assert_eq!(&text[..n], b"late");
    }
}
