//! `io_uring(7)` as a vectored system call that does not wait: a list in, a result for each entry
//! out, one `io_uring_enter(2)`.
//!
//! Every entry carries `MSG_DONTWAIT` (an accept: `IORING_ACCEPT_DONTWAIT`), which makes the kernel
//! finish it inside the call and never try it again. So nothing is on its way between two calls:
//! memory and descriptors are lent for as long as a function runs, as to any other system call. That
//! is checked after every call. A kernel that does otherwise is asked to give back what it has, and
//! the ring is not used again: what was not done is told as `Interrupted`, and can be done by a call
//! of its own. A close has no such flag, and needs none: that of a socket never waits.

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

/// A ring, empty between two calls. It may be used by one thread after another.
pub struct Ring {
    ring: IoUring,
    fault: Option<io::Error>,
    /// The list that is made, or was done last.
    entries: Vec<Entry>,
    /// Accepts can be asked not to wait.
    accepts: bool,
    /// Of those who are accepted, and how long each is.
    addresses: Vec<(libc::sockaddr_storage, libc::socklen_t)>,
    /// Lists until it fails by arrangement.
    lists_left: Option<u32>,
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fd = self.ring.as_raw_fd();
        f.debug_struct("Ring").field("fd", &fd).field("fault", &self.fault).finish()
    }
}

impl Ring {
    /// `io_uring_setup(2)`, and some `io_uring_enter(2)` that show whether operations on sockets
    /// finish as they have to here.
    ///
    /// # Errors
    /// As the manual page says: `EPERM` where a filter or `kernel.io_uring_disabled` forbids it,
    /// `ENOSYS` and `EINVAL` on kernels without it or before 6.0, `ENOMEM`. `Unsupported` if an
    /// operation cannot be done in it.
    pub fn new() -> io::Result<Self> {
        let len = u32::try_from(RING_LEN_MAX).expect("a list is short");
        // Children have its memory too (no `dontfork`): one that drops its copy of the ring would
        // unmap what has come to lie there instead.
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
        ring.try_out()?;
        Ok(ring)
    }

    /// Why it must not be used any more: the kernel has not done what it did before. From then on
    /// every operation answers `Interrupted`.
    pub fn fault(&self) -> Option<&io::Error> {
        self.fault.as_ref()
    }

    /// As [`fault`](Self::fault), and gives the ring up.
    pub fn into_fault(self) -> Option<io::Error> {
        self.fault
    }

    /// Whether it does what it is for. What `io_uring_enter(2)` failed with says more than what came of
    /// an operation that was never begun.
    fn try_out(&mut self) -> io::Result<()> {
        let tried = self.try_operations();
        self.fault.take().map_or(tried, Err)
    }

    /// An empty receive finishes at once with `EAGAIN`, a send and a close with success; and what
    /// would not finish could be taken back.
    fn try_operations(&mut self) -> io::Result<()> {
        self.cancel()?; // which kernels can since 6.0
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
        // Only the answer tells: a child that another thread starts now may have a copy of it, so
        // that the other end sees nothing, and its number may be another's already.
        if closed != [0] {
            return Err(unfit("CLOSE", &closed));
        }
        let _ = other.into_raw_fd(); // nobody's any more
        enter_operation(Operation::close, false);
        self.accepts = self.knows_accepts();
        Ok(())
    }

    /// Flags that a kernel does not know (before 6.10) are `EINVAL`, before it looks for the socket,
    /// which is none.
    fn knows_accepts(&mut self) -> bool {
        let (mut address, mut len) = (empty_storage(), STORAGE_LEN);
        let to = std::ptr::from_mut(&mut address).cast();
        let accept = opcode::Accept::new(Fd(-1), to, &raw mut len).build();
        let mut results = [NOT_DONE];
        self.enter(&mut results, std::iter::once(with_priority(accept, ACCEPT_DONTWAIT)));
        results == [-libc::EBADF]
    }

    /// `recv(2)` for each entry of a list: at most so many bytes as `entry` says, and no more than
    /// `share`. What arrives lies behind the contents of `block`, one after the other, which has
    /// room for all of it; `done` is told what came of each, in order.
    ///
    /// # Panics
    /// If there are more than [`RING_LEN_MAX`], or `block` has less room than `share` for each.
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
        // SAFETY: every receive has written the bytes that it told of, and they were moved side
        // by side to the front of the spare capacity.
        unsafe { block.set_len(block.len() + end) };
    }

    /// `send(2)` for each entry of a list: its bytes, and whether more follows at once
    /// (`MSG_MORE`). `done` is told how many have left, in order.
    ///
    /// # Panics
    /// If there are more than [`RING_LEN_MAX`].
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

    /// Whether the kernel can [`accept`](Self::accept) in a ring without waiting (since 6.10).
    pub fn accepts(&self) -> bool {
        self.accepts
    }

    /// [`crate::accept`] for each entry of a list of listeners; `done` is told who has come, in
    /// order.
    ///
    /// # Panics
    /// If there are more than [`RING_LEN_MAX`], or the kernel cannot do it.
    pub fn accept<'f, T>(
        &mut self,
        list: &mut [T],
        entry: impl Fn(&T) -> BorrowedFd<'f>,
        mut done: impl FnMut(&mut T, io::Result<(OwnedFd, SocketAddr)>),
    ) {
        assert!(self.accepts, "an older kernel would wait for somebody");
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
                // SAFETY: the operation returned a new descriptor that nobody else owns.
                (unsafe { OwnedFd::from_raw_fd(fd) }, peer_of(address))
            });
            done(of, result);
        }
        self.addresses = addresses;
    }

    /// `close(2)` for all of them, which are sockets: a file's may have to wait, which ends the use
    /// of the ring as described above. Errors are no news that anybody could act on. What is left in
    /// the list after a [`fault`](Self::fault) is open.
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
                let _ = fd.into_raw_fd(); // nobody's any more
                enter_operation(Operation::close, false);
            }
        }
    }

    /// Has all entries done, and their results in `results`: `NOT_DONE` for those that were not,
    /// which only happens with a fault. Nothing is on its way when it returns.
    fn enter(&mut self, results: &mut [i32], entries: impl Iterator<Item = Entry>) {
        match &mut self.lists_left {
            Some(0) => self.fault = Some(io::Error::other("io_uring: it was to fail, for a test")),
            Some(lists) => *lists -= 1,
            None => {}
        }
        if self.fault.is_some() {
            return;
        }
        self.entries.clear();
        // Callers' code, which may panic: nothing of this list is in the queue yet.
        self.entries.extend((0..).zip(entries).map(|(at, entry)| entry.user_data(at)));
        // SAFETY: what the entries point to is borrowed by the caller until this returns, and
        // nothing below unwinds before none of them is worked on any more.
        let pushed = unsafe { self.ring.submission().push_multiple(&self.entries) };
        pushed.expect("lists are no longer than the ring");
        while !self.ring.submission().is_empty() && self.fault.is_none() {
            let entered = self.ring.submit();
            let _ = syscall!(io_uring_enter, if entered.is_ok() { 0 } else { -1 });
            self.fault = entered.err().filter(|error| error.kind() != io::ErrorKind::Interrupted);
        }
        let taken = results.len() - self.ring.submission().len();
        let answers = self.answers(results);
        if answers < taken {
            self.take_back(results, taken - answers);
        }
    }

    /// Notes what the kernel says; how many operations that was about.
    fn answers(&mut self, results: &mut [i32]) -> usize {
        let mut answers = 0;
        for answer in self.ring.completion() {
            let at = usize::try_from(answer.user_data()).expect("a place in the list");
            results[at] = match answer.result() {
                code if code == -libc::ECANCELED => NOT_DONE,
                result => result,
            };
            answers += 1;
        }
        answers
    }

    /// Operations are on their way that have to be finished: they are cancelled, and waited for.
    /// That can take as long as a close, but not as long as a peer: those are cancelled.
    #[cold]
    fn take_back(&mut self, results: &mut [i32], mut missing: usize) {
        let text = "io_uring: operations were not finished when io_uring_enter returned";
        self.fault.get_or_insert_with(|| io::Error::other(text));
        let _ = self.cancel(); // what it does not find has an answer by now, or soon
        while missing > 0 {
            // SAFETY: nothing is submitted, and no argument is passed.
            let entered = unsafe {
                let all = u32::try_from(missing).expect("a list is short");
                self.ring.submitter().enter::<()>(0, all, EnterFlags::GETEVENTS.bits(), None)
            };
            let _ = syscall!(io_uring_enter, if entered.is_ok() { 0 } else { -1 });
            missing -= self.answers(results);
        }
    }

    fn cancel(&self) -> io::Result<()> {
        let any = CancelBuilder::any();
        let cancelled = match self.ring.submitter().register_sync_cancel(None, any) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()), // there is nothing
            result => result,
        };
        let _ = syscall!(io_uring_register, if cancelled.is_ok() { 0 } else { -1 });
        cancelled
    }
}

/// For tests.
#[cfg(any(test, feature = "testing"))]
impl Ring {
    /// Has it fail after so many lists more, as if the kernel did.
    pub fn set_lists_max(&mut self, lists: u32) {
        self.lists_left = Some(lists);
    }

    /// Has it be as on a kernel before 6.10.
    pub fn set_accepts_unknown(&mut self) {
        self.accepts = false;
    }
}

/// What an operation has answered; it is entered in the ledger if it was done.
fn outcome(operation: Operation, result: i32) -> io::Result<usize> {
    let outcome = usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
    if result != NOT_DONE {
        let again = matches!(&outcome, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        enter_operation(operation, again);
    }
    outcome
}

/// The entry with these flags in `ioprio`, which the binding has no other way to set for an accept.
fn with_priority(mut entry: Entry, flags: u16) -> Entry {
    let words = std::ptr::from_mut(&mut entry).cast::<[u16; size_of::<Entry>() / 2]>();
    // SAFETY: an entry is the `struct io_uring_sqe` of io_uring_enter(2), in which any bits are
    // numbers; it is live, and nobody else's.
    unsafe { (*words)[PRIORITY_AT] = flags };
    entry
}

fn unfit(operation: &str, found: &dyn fmt::Debug) -> io::Error {
    let text = format!("io_uring: {operation} does not do here what it does elsewhere: {found:?}");
    io::Error::new(io::ErrorKind::Unsupported, text)
}

/// Entries of one list.
pub const RING_LEN_MAX: usize = 64;
/// The answer of what the kernel did not take or gave back: as of a call that a signal has
/// interrupted, nothing of it has happened.
const NOT_DONE: i32 = -libc::EINTR;
/// `IORING_ACCEPT_DONTWAIT` (linux/io_uring.h).
const ACCEPT_DONTWAIT: u16 = 1 << 1;
/// Where `ioprio` stands in `struct io_uring_sqe`, in words of two bytes.
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

    /// Receives at most 512 bytes from each.
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
    fn a_list_is_one_call_and_its_operations_are_counted_apart() {
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
        assert!(block.len() == 6 + all && block.starts_with(b"before"), "side by side");
        assert!(block[6..].iter().all(|byte| *byte == 7));
        block.clear();
        let second = receive(&mut ring, &fars, &mut block);
        let again = |it: io::Result<usize>| it.unwrap_err().kind() == io::ErrorKind::WouldBlock;
        assert!(second.into_iter().all(again), "nobody waits");
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

    /// Also where a call on the listener would wait.
    #[test]
    fn a_list_of_accepts_is_one_call_over_several_listeners_and_nobody_waits() {
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
        assert_eq!(empty.kind(), io::ErrorKind::WouldBlock, "it does not block");
    }

    #[test]
    fn whoever_comes_to_a_unix_socket_has_no_address_in_a_ring_either() {
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

    /// As the operation is known since 5.5, and the flag since 6.10.
    #[test]
    fn a_kernel_that_does_not_know_a_flag_of_accepts_says_so_without_a_socket() {
        let mut ring = Ring::new().unwrap();
        let (mut address, mut len) = (empty_storage(), STORAGE_LEN);
        let to = std::ptr::from_mut(&mut address).cast();
        let accept = opcode::Accept::new(Fd(-1), to, &raw mut len).build();
        let mut results = [NOT_DONE];
        ring.enter(&mut results, std::iter::once(with_priority(accept, 1 << 15)));
        assert_eq!(results, [-libc::EINVAL]);
        assert!(ring.fault().is_none());
    }

    /// Who shares a listener may end its listening; that says nothing about the kernel.
    #[test]
    fn an_accept_where_nobody_listens_any_more_is_an_error_of_its_own() {
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
    fn the_end_and_a_failure_are_told_as_by_recv_itself() {
        let mut ring = Ring::new().unwrap();
        let ((ended, near), (reset, mut far)) = (pair(), pair());
        drop(ended);
        far.write_all(b"never read").unwrap();
        drop(reset); // with bytes that nobody has read: a reset
        // Both are there as soon as the other end is closed: loopback knows no delay.
        let found = receive(&mut ring, &[&near, &far], &mut BytesMut::with_capacity(1024));
        assert_eq!(found[0].as_ref().unwrap(), &0);
        assert_eq!(found[1].as_ref().unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }

    #[test]
    fn a_full_socket_takes_what_fits_and_says_how_much() {
        let mut ring = Ring::new().unwrap();
        let (near, mut far) = pair();
        let bytes = vec![1; 32 << 20];
        let mut sent = 0;
        let full = loop {
            let mut list = [Ok(0)];
            ring.send(&mut list, |_| (near.as_fd(), &bytes, false), |it, n| *it = n);
            match list {
                [Ok(n)] => sent += n, // the receiving side may have taken some meanwhile
                [Err(error)] => break error,
            }
            assert!(sent < bytes.len(), "nobody reads, and nothing is ever full");
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        drop(near);
        let mut all = Vec::new();
        far.read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), sent);
    }

    #[test]
    fn a_list_that_its_caller_did_not_finish_is_never_done() {
        let mut ring = Ring::new().unwrap();
        let (mut near, far) = pair();
        near.write_all(b"nobody's").unwrap();
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut block = BytesMut::with_capacity(1024);
            let entry = |number: &u32| match number {
                0 => (far.as_fd(), 512),
                _ => panic!("the caller's own fault"),
            };
            ring.receive(&mut [0, 1], 512, &mut block, entry, |_, _| {});
        }));
        unwound.unwrap_err();
        let mut list = [Ok(0)];
        ring.send(&mut list, |_| (near.as_fd(), b"later", false), |it, n| *it = n);
        assert!(matches!(list, [Ok(5)]), "{list:?}");
        let mut text = [0; 16];
        let n = (&far).read(&mut text).expect("nobody has received it into memory that is gone");
        assert_eq!(&text[..n], b"nobody'slater");
    }

    #[test]
    fn what_is_closed_is_gone_for_its_peer_too() {
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

    /// As a kernel would that does not care for `MSG_DONTWAIT`: it waits for bytes.
    #[test]
    fn what_is_left_unfinished_is_taken_back_and_the_ring_is_not_used_again() {
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
        assert_eq!(bytes, [0; 8], "nobody writes there any more");
        let mut fds = vec![OwnedFd::from(far)];
        ring.close(&mut fds);
        let mut text = [0; 8];
        let n = TcpStream::from(fds.pop().expect("still open")).read(&mut text).unwrap();
        assert_eq!(&text[..n], b"late");
    }
}
