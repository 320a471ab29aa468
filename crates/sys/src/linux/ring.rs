//! `io_uring(7)` as a vectored system call that does not wait: a list in, a result for each entry
//! out, one `io_uring_enter(2)`.
//!
//! Every entry carries `MSG_DONTWAIT`, which makes the kernel finish it inside the call and never
//! try it again. So nothing is on its way between two calls: memory and descriptors are lent for
//! as long as a function runs, as to any other system call.

use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};

use bytes::BytesMut;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::Fd;
use io_uring::{IoUring, opcode};

use crate::ledger::{Operation, enter_operation, syscall};
use crate::platform::{MORE, NO_SIGNAL};

/// A ring, empty between two calls. It may be used by one thread after another.
pub struct Ring {
    ring: IoUring,
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("fd", &self.ring.as_raw_fd()).finish()
    }
}

impl Ring {
    /// `io_uring_setup(2)`, and one `io_uring_enter(2)` that shows whether operations on sockets
    /// finish as they have to here.
    ///
    /// # Errors
    /// As the manual page says: `EPERM` where a filter or `kernel.io_uring_disabled` forbids it,
    /// `ENOSYS` and `EINVAL` on kernels without it or before 5.18, `ENOMEM`. `Unsupported` if an
    /// operation cannot be done in it.
    pub fn new() -> io::Result<Self> {
        let built = IoUring::builder().setup_submit_all().setup_clamp().build(RING_LEN_MAX as u32);
        let result = if built.is_ok() { 0 } else { -1 };
        syscall!(io_uring_setup, result)?;
        let mut ring = Self { ring: built? };
        ring.try_out()?;
        Ok(ring)
    }

    /// An empty receive finishes at once with `EAGAIN`, and a close in silence.
    fn try_out(&mut self) -> io::Result<()> {
        let (one, other) = std::os::unix::net::UnixStream::pair()?;
        let mut found = None;
        let mut nothing = BytesMut::with_capacity(1);
        self.receive(1, 1, |_| (one.as_fd(), 1), &mut nothing, |_, result| found = Some(result));
        match found {
            Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
            found => return Err(unfit("RECV", &found)),
        }
        let mut found = None;
        self.send(1, |_| (one.as_fd(), b"x", false), |_, result| found = Some(result));
        match found {
            Some(Ok(1)) => {}
            found => return Err(unfit("SEND", &found)),
        }
        let fd = other.as_raw_fd();
        self.close(&mut vec![other.into()]);
        // SAFETY: F_GETFD takes no pointers; the number is asked about, not used.
        match unsafe { libc::fcntl(fd, libc::F_GETFD) } {
            -1 => Ok(()),
            _ => Err(unfit("CLOSE", &"left open")),
        }
    }

    /// `recv(2)` for each of `len` entries: at most so many bytes as it says, and no more than
    /// `share`. What arrives lies behind the contents of `block`, one after the other, which has
    /// room for all of them; `done` hears of each in order.
    ///
    /// # Panics
    /// If `len` is more than [`RING_LEN_MAX`], or `block` has less room than `len * share`.
    pub fn receive<'f>(
        &mut self,
        len: usize,
        share: usize,
        entry: impl Fn(usize) -> (BorrowedFd<'f>, usize),
        block: &mut BytesMut,
        mut done: impl FnMut(usize, io::Result<usize>),
    ) {
        let mut results = [0; RING_LEN_MAX];
        let room = &mut block.spare_capacity_mut()[..len * share];
        for (at, piece) in room.chunks_exact_mut(share.max(1)).enumerate() {
            let (fd, max) = entry(at);
            let piece = &mut piece[..max.min(share)];
            let size = u32::try_from(piece.len()).unwrap_or(u32::MAX);
            let receive = opcode::Recv::new(Fd(fd.as_raw_fd()), piece.as_mut_ptr().cast(), size);
            self.push(receive.flags(libc::MSG_DONTWAIT).build().user_data(at as u64));
        }
        let answers = self.enter(&mut results[..len]);
        assert_eq!(answers, len, "a receive was not finished when io_uring_enter returned");
        let mut end = 0;
        for (at, result) in results[..len].iter().enumerate() {
            let result = outcome(*result);
            enter_operation(Operation::recv, is_again(&result));
            if let Ok(n) = result {
                move_down(room, at * share, end, n);
                end += n;
            }
        }
        // SAFETY: every receive has written the bytes that it told of, and they were moved side
        // by side to the front of the spare capacity.
        unsafe { block.set_len(block.len() + end) };
        results[..len].iter().enumerate().for_each(|(at, result)| done(at, outcome(*result)));
    }

    /// `send(2)` for each of `len` entries: its bytes, and whether more follows at once
    /// (`MSG_MORE`). `done` hears how many have left, in order.
    ///
    /// # Panics
    /// If `len` is more than [`RING_LEN_MAX`].
    pub fn send<'f>(
        &mut self,
        len: usize,
        entry: impl Fn(usize) -> (BorrowedFd<'f>, &'f [u8], bool),
        mut done: impl FnMut(usize, io::Result<usize>),
    ) {
        let mut results = [0; RING_LEN_MAX];
        for (at, result) in results[..len].iter_mut().enumerate() {
            let (fd, bytes, more) = entry(at);
            let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            let more = if more { MORE } else { 0 };
            let flags = libc::MSG_DONTWAIT | libc::MSG_WAITALL | NO_SIGNAL | more;
            let send = opcode::Send::new(Fd(fd.as_raw_fd()), bytes.as_ptr(), size).flags(flags);
            *result = i32::try_from(size).unwrap_or(i32::MAX); // silence means all of it
            self.push(send.build().flags(Flags::SKIP_SUCCESS).user_data(at as u64));
        }
        self.enter(&mut results[..len]);
        for (at, result) in results[..len].iter().enumerate() {
            let result = outcome(*result);
            enter_operation(Operation::send, is_again(&result));
            done(at, result);
        }
    }

    /// `close(2)` for all of them. Errors are no news that anybody could act on.
    pub fn close(&mut self, fds: &mut Vec<OwnedFd>) {
        while !fds.is_empty() {
            let mut results = [0; RING_LEN_MAX];
            let len = fds.len().min(RING_LEN_MAX);
            for (at, fd) in fds.drain(..len).enumerate() {
                let close = opcode::Close::new(Fd(fd.into_raw_fd())).build();
                self.push(close.flags(Flags::SKIP_SUCCESS).user_data(at as u64));
            }
            self.enter(&mut results[..len]);
            (0..len).for_each(|_| enter_operation(Operation::close, false));
        }
    }

    fn push(&mut self, entry: Entry) {
        // SAFETY: what the entry points to outlives `enter`, which each caller calls before it
        // returns, and no entry outlives `enter` (see the module).
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("lists are no longer than the ring");
    }

    /// Has everything that was pushed done; the results of those that answer go to `results`, and
    /// how many that were is returned.
    ///
    /// # Panics
    /// If the kernel refuses what it did before: that nothing is on its way could not be known
    /// then, and memory would have to be given up.
    fn enter(&mut self, results: &mut [i32]) -> usize {
        loop {
            let entered = self.ring.submit();
            let outcome = syscall!(io_uring_enter, if entered.is_ok() { 0 } else { -1 });
            match (entered, outcome) {
                (Ok(_), _) if self.ring.submission().is_empty() => break,
                (Err(error), _) if error.raw_os_error() != Some(libc::EINTR) => {
                    panic!("io_uring_enter failed after it had worked: {error}")
                }
                _ => {}
            }
        }
        let mut answers = 0;
        for answer in self.ring.completion() {
            let at = usize::try_from(answer.user_data()).expect("a place in the list");
            results[at] = answer.result();
            answers += 1;
        }
        answers
    }
}

/// Bytes that have arrived at `from` are moved to `to`, which is not behind it.
fn move_down(room: &mut [MaybeUninit<u8>], from: usize, to: usize, len: usize) {
    if from != to {
        room.copy_within(from..from + len, to);
    }
}

fn outcome(result: i32) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}

fn is_again(result: &io::Result<usize>) -> bool {
    matches!(result, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

fn unfit(operation: &str, found: &dyn fmt::Debug) -> io::Error {
    let text = format!("io_uring: {operation} does not do here what it does elsewhere: {found:?}");
    io::Error::new(io::ErrorKind::Unsupported, text)
}

/// Entries of one list.
pub const RING_LEN_MAX: usize = 64;

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

    #[test]
    fn a_list_is_one_call_and_its_operations_are_counted_apart() {
        let mut ring = Ring::new().unwrap();
        let pairs: Vec<_> = (0..RING_LEN_MAX).map(|_| pair()).collect();
        let before = Ledger::here();
        let bytes = [7; 100];
        let mut sent = 0;
        ring.send(
            pairs.len(),
            |at| (pairs[at].0.as_fd(), &bytes[..=at], false),
            |at, n| {
                assert_eq!(n.unwrap(), at + 1);
                sent += 1;
            },
        );
        let mut block = BytesMut::with_capacity(64 * 1024);
        block.extend_from_slice(b"before");
        let mut received = Vec::new();
        let mut receive = |ring: &mut Ring, block: &mut BytesMut| {
            received.clear();
            let done = |_, n: io::Result<usize>| received.push(n.map_err(|error| error.kind()));
            ring.receive(pairs.len(), 512, |at| (pairs[at].1.as_fd(), 512), block, done);
            received.clone()
        };
        let first = receive(&mut ring, &mut block);
        assert_eq!(first, (1..=RING_LEN_MAX).map(Ok).collect::<Vec<_>>());
        let all: usize = (1..=RING_LEN_MAX).sum();
        assert!(block.len() == 6 + all && block.starts_with(b"before"), "side by side");
        assert!(block[6..].iter().all(|byte| *byte == 7));
        block.clear();
        let second = receive(&mut ring, &mut block);
        assert!(second.iter().all(|it| *it == Err(io::ErrorKind::WouldBlock)), "nobody waits");
        let made = Ledger::here() - before;
        assert_eq!((sent, made.count(Call::io_uring_enter).calls, made.total()), (64, 3, 3));
        assert_eq!(made.operation(Operation::send).calls, 64);
        let receives = made.operation(Operation::recv);
        assert_eq!((receives.calls, receives.eagain), (128, 64));
    }

    #[test]
    fn the_end_and_a_failure_are_told_as_by_recv_itself() {
        let mut ring = Ring::new().unwrap();
        let ((ended, near), (reset, far)) = (pair(), pair());
        drop(ended);
        far.set_nonblocking(true).unwrap();
        (&far).write_all(b"never read").unwrap();
        drop(reset); // with bytes that nobody has read: a reset
        let mut block = BytesMut::with_capacity(1024);
        let mut found = Vec::new();
        let fds = [near.as_fd(), far.as_fd()];
        // The reset is there as soon as the other end is closed: loopback knows no delay.
        ring.receive(2, 512, |at| (fds[at], 512), &mut block, |_, n| found.push(n));
        assert_eq!(found[0].as_ref().unwrap(), &0);
        assert_eq!(found[1].as_ref().unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }

    #[test]
    fn a_full_socket_takes_what_fits_and_says_how_much() {
        let mut ring = Ring::new().unwrap();
        let (near, mut far) = pair();
        let bytes = vec![1; 32 << 20];
        let mut send = || {
            let mut found = None;
            ring.send(1, |_| (near.as_fd(), &bytes, false), |_, n| found = Some(n));
            found.unwrap()
        };
        let mut sent = 0;
        let full = loop {
            match send() {
                Ok(n) => sent += n, // the receiving side may have taken some meanwhile
                Err(error) => break error,
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
}
