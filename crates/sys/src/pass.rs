//! Passing descriptors to another process over a Unix socket (`unix(7)`, `SCM_RIGHTS`).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::ledger::syscall;
use crate::platform::{NO_SIGNAL, RECEIVE_CLOSED_ON_EXEC};
use crate::process::close_on_exec;

/// `sendmsg(2)`: sends bytes (at least one), with a descriptor attached to the first byte.
///
/// # Errors
/// See the manual page; `EPIPE` if the peer has closed the connection.
pub fn send_passing(fd: BorrowedFd<'_>, bytes: &[u8], passed: BorrowedFd<'_>) -> io::Result<usize> {
    let mut control = ControlBuffer::empty();
    let mut vector =
        libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let message = control.message(&mut vector);
    // SAFETY: `message` names a live control buffer that is large and aligned enough for a header.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    // SAFETY: CMSG_LEN computes from its argument only.
    let len = unsafe { libc::CMSG_LEN(RIGHTS_LEN) };
    // SAFETY: `header` points into the control buffer, which has room for a header.
    unsafe {
        header.write(libc::cmsghdr {
            cmsg_len: len as _,
            cmsg_level: libc::SOL_SOCKET,
            cmsg_type: libc::SCM_RIGHTS,
        });
    }
    // SAFETY: the data of a message follow its header, within the control buffer.
    let data = unsafe { libc::CMSG_DATA(header) }.cast::<RawFd>();
    // SAFETY: there is room for one descriptor; the buffer need not be aligned for it.
    unsafe { data.write_unaligned(passed.as_raw_fd()) };
    // SAFETY: `message` names live bytes, which the call only reads.
    let result = unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const message, NO_SIGNAL) };
    Ok(syscall!(sendmsg, result)?.unsigned_abs())
}

/// `recvmsg(2)`: receives bytes into `buffer`, and the descriptor attached to the first of them, if
/// there is one; 0 bytes at the end. The buffer has room for one descriptor; the kernel closes the
/// others.
///
/// # Errors
/// See the manual page.
pub fn receive_passed(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut control = ControlBuffer::empty();
    let mut vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut message = control.message(&mut vector);
    message.msg_controllen = CONTROL_LEN as _; // padding has room for another
    // SAFETY: `message` names live buffers, which the kernel may write up to their lengths.
    let result = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, RECEIVE_CLOSED_ON_EXEC) };
    let n = syscall!(recvmsg, result)?.unsigned_abs();
    // SAFETY: the kernel has set the length of what it wrote to the control buffer.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    if header.is_null() {
        return Ok((n, None));
    }
    // SAFETY: a header that is not null is completely inside the control buffer.
    let received = unsafe { header.read() };
    // SAFETY: CMSG_LEN computes from its argument only.
    let len = unsafe { libc::CMSG_LEN(RIGHTS_LEN) };
    let is_rights =
        received.cmsg_level == libc::SOL_SOCKET && received.cmsg_type == libc::SCM_RIGHTS;
    if !is_rights || received.cmsg_len < len as _ {
        return Ok((n, None));
    }
    // SAFETY: the data of a message follow its header, within the control buffer.
    let data = unsafe { libc::CMSG_DATA(header) }.cast::<RawFd>();
    // SAFETY: the length covers one descriptor, which need not be aligned.
    let passed = unsafe { data.read_unaligned() };
    // SAFETY: the kernel has created a new descriptor without another owner.
    let passed = unsafe { OwnedFd::from_raw_fd(passed) };
    if RECEIVE_CLOSED_ON_EXEC == 0 {
        close_on_exec(&passed)?;
    }
    Ok((n, Some(passed)))
}

/// Space for a header and one descriptor.
#[repr(C)]
union ControlBuffer {
    bytes: [MaybeUninit<u8>; CONTROL_SIZE],
    aligned: libc::cmsghdr,
}

impl ControlBuffer {
    fn empty() -> Self {
        Self { bytes: [MaybeUninit::zeroed(); CONTROL_SIZE] }
    }

    /// A message of these bytes and this control buffer; both must outlive it.
    #[allow(clippy::cast_possible_truncation, reason = "some systems have 32-bit lengths")]
    fn message(&mut self, vector: &mut libc::iovec) -> libc::msghdr {
        // SAFETY: msghdr is plain data; all-zero is a valid value of it.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = vector;
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut *self).cast();
        message.msg_controllen = CONTROL_SIZE as _;
        message
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a descriptor has four bytes")]
const RIGHTS_LEN: u32 = size_of::<RawFd>() as u32;
// SAFETY: CMSG_SPACE computes from its argument only.
const CONTROL_SIZE: usize = unsafe { libc::CMSG_SPACE(RIGHTS_LEN) } as usize;
// SAFETY: CMSG_LEN computes from its argument only.
const CONTROL_LEN: usize = unsafe { libc::CMSG_LEN(RIGHTS_LEN) } as usize;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_passed_descriptor_refers_to_the_same_file() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut reader, mut writer) = UnixStream::pair().unwrap();
        assert_eq!(send_passing(ours.as_fd(), b"one", reader.as_fd()).unwrap(), 3);
        (&ours).write_all(b"two").unwrap();
        let mut buffer = [0; 16];
        let (n, passed) = receive_passed(theirs.as_fd(), &mut buffer).unwrap();
        assert_eq!(&buffer[..n], b"one");
        let mut passed = UnixStream::from(passed.expect("it was sent with the bytes"));
        writer.write_all(b"x").unwrap();
        passed.read_exact(&mut buffer[..1]).unwrap();
        assert_eq!(buffer[0], b'x');
        reader.set_nonblocking(true).unwrap();
        assert!(reader.read(&mut buffer).is_err(), "the other descriptor has read the bytes");
        let (n, none) = receive_passed(theirs.as_fd(), &mut buffer).unwrap();
        assert_eq!((&buffer[..n], none.is_none()), (&b"two"[..], true));
        drop(ours);
        assert_eq!(receive_passed(theirs.as_fd(), &mut buffer).unwrap().0, 0);
    }

    /// The padding of a header has room for a second descriptor.
    #[cfg(target_os = "linux")]
    #[test]
    fn only_the_first_of_several_descriptors_is_kept() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let ((near, _near_end), (other, mut other_end)) =
            (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        let words = |low: i32, high: i32| {
            u64::from_ne_bytes([low.to_ne_bytes(), high.to_ne_bytes()].concat().try_into().unwrap())
        };
        // The total length: a header of 16 bytes, and two descriptors.
        let rights = words(libc::SOL_SOCKET, libc::SCM_RIGHTS);
        let mut control = [24, rights, words(near.as_raw_fd(), other.as_raw_fd())];
        let mut vector = libc::iovec { iov_base: c"x".as_ptr().cast_mut().cast(), iov_len: 1 };
        // SAFETY: msghdr is plain data; all-zero is a valid value of it.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (&raw mut vector, 1);
        (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), 24);
        // SAFETY: `message` names live buffers, which the call only reads.
        let sent = unsafe { libc::sendmsg(ours.as_raw_fd(), &raw const message, 0) };
        assert_eq!(sent, 1);
        let (n, passed) = receive_passed(theirs.as_fd(), &mut [0; 4]).unwrap();
        assert!(n == 1 && passed.is_some());
        drop((near, other, passed));
        other_end.set_nonblocking(true).unwrap();
        assert_eq!(other_end.read(&mut [0]).expect("the other end is closed"), 0);
    }
}
