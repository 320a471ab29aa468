//! `io_uring(7)` as a vectored system call that does not wait: a list in, a result for each entry
//! out, one `io_uring_enter(2)`.
//!
//! Every entry carries `MSG_DONTWAIT`, which makes the kernel finish it inside the call and never
//! try it again. So nothing is on its way between two calls: memory and descriptors are lent for
//! as long as a function runs, as to any other system call.

use std::fmt;
use std::io;
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
        let fd = other.as_raw_fd();
        self.close(&mut vec![other.into()]);
        // SAFETY: F_GETFD takes no pointers; the number is asked about, not used.
        match unsafe { libc::fcntl(fd, libc::F_GETFD) } {
            -1 => Ok(()),
            _ => Err(unfit("CLOSE", &"left open")),
        }
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
        let mut results = [0; RING_LEN_MAX];
        let results = &mut results[..list.len()];
        let room = &mut block.spare_capacity_mut()[..list.len() * share];
        for (at, of) in list.iter().enumerate() {
            let (fd, max) = entry(of);
            let piece = &mut room[at * share..][..max.min(share)];
            let size = u32::try_from(piece.len()).unwrap_or(u32::MAX);
            let receive = opcode::Recv::new(Fd(fd.as_raw_fd()), piece.as_mut_ptr().cast(), size);
            self.push(receive.flags(libc::MSG_DONTWAIT).build().user_data(at as u64));
        }
        let answers = self.enter(results);
        assert_eq!(answers, list.len(), "a receive was not finished when io_uring_enter returned");
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
        let mut results = [0; RING_LEN_MAX];
        let results = &mut results[..list.len()];
        for (at, (of, result)) in list.iter().zip(results.iter_mut()).enumerate() {
            let (fd, bytes, more) = entry(of);
            let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            let more = if more { MORE } else { 0 };
            let flags = libc::MSG_DONTWAIT | libc::MSG_WAITALL | NO_SIGNAL | more;
            let send = opcode::Send::new(Fd(fd.as_raw_fd()), bytes.as_ptr(), size).flags(flags);
            *result = i32::try_from(size).unwrap_or(i32::MAX); // silence means all of it
            self.push(send.build().flags(Flags::SKIP_SUCCESS).user_data(at as u64));
        }
        self.enter(results);
        for (of, result) in list.iter_mut().zip(results) {
            done(of, outcome(Operation::send, *result));
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

/// What an operation has answered; it is entered in the ledger.
fn outcome(operation: Operation, result: i32) -> io::Result<usize> {
    let result = usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
    let again = matches!(&result, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
    enter_operation(operation, again);
    result
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
