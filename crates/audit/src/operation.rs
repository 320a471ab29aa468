//! An operation of io_uring as an event tells of it: which one, and what the program asked for.
//!
//! What it asked for is the entry of the ring's queue (`struct io_uring_sqe` of io_uring_enter(2)).

use crate::event::{Look, low};

/// One operation, or one of several results of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    /// What the program in the kernel does not know is [`UNTOLD`].
    pub(crate) opcode: u32,
    /// A result of an operation that repeats itself (multishot), and not its last.
    pub(crate) is_repeated: bool,
    /// The descriptor, unless it is one of the ring's own table.
    pub(crate) descriptor: i32,
    pub(crate) length: u32,
    /// Those of the operation: `MSG_PEEK` of a receive.
    pub(crate) flags: i32,
    pub(crate) offset: u64,
    /// A place in the ring's table, or 0: one more than it, or [`ANY_PLACE`]; of a splice the
    /// descriptor that it reads.
    pub(crate) place: u32,
    /// The descriptor is one of the ring's own table.
    pub(crate) is_registered: bool,
    /// Which ring: not 0, and its own while it lives.
    pub(crate) ring: u64,
}

impl Operation {
    /// Of the number and the arguments of an event, if that is an operation.
    pub(crate) fn of(call: u32, arguments: &[u64; 6]) -> Option<Self> {
        let opcode = (call & !REPEATED).checked_sub(FIRST)?;
        let [descriptor, _, length, offset, place, ring] = *arguments;
        Some(Self {
            opcode,
            is_repeated: call & REPEATED != 0,
            descriptor: low(descriptor),
            length: low(length).cast_unsigned(),
            flags: low(length >> 32),
            offset,
            place: low(place).cast_unsigned(),
            is_registered: place >> 32 & FIXED_FILE != 0,
            ring,
        })
    }
}

/// Numbers of calls end before it, and those of operations begin: `CALLS` of the program in the
/// kernel.
pub(crate) const FIRST: u32 = 1024;
/// An opcode that nothing has: `OPCODE_UNTOLD` of the program.
pub(crate) const UNTOLD: u32 = 255;
/// The kernel chooses the place, and its result says which.
pub(crate) const ANY_PLACE: u32 = u32::MAX;

/// As in the program.
const REPEATED: u32 = 0x1000;
/// `IOSQE_FIXED_FILE`.
const FIXED_FILE: u64 = 1;

/// `enum io_uring_op` of `<linux/io_uring.h>`, as far as somebody asks for it.
pub(crate) mod opcode {
    pub(crate) const READV: u32 = 1;
    pub(crate) const WRITEV: u32 = 2;
    pub(crate) const READ_FIXED: u32 = 4;
    pub(crate) const WRITE_FIXED: u32 = 5;
    pub(crate) const POLL_ADD: u32 = 6;
    pub(crate) const SENDMSG: u32 = 9;
    pub(crate) const RECVMSG: u32 = 10;
    pub(crate) const ACCEPT: u32 = 13;
    pub(crate) const CONNECT: u32 = 16;
    pub(crate) const OPENAT: u32 = 18;
    pub(crate) const CLOSE: u32 = 19;
    pub(crate) const READ: u32 = 22;
    pub(crate) const WRITE: u32 = 23;
    pub(crate) const SEND: u32 = 26;
    pub(crate) const RECV: u32 = 27;
    pub(crate) const OPENAT2: u32 = 28;
    pub(crate) const EPOLL_CTL: u32 = 29;
    pub(crate) const SPLICE: u32 = 30;
    pub(crate) const SHUTDOWN: u32 = 34;
    pub(crate) const SOCKET: u32 = 45;
    pub(crate) const URING_CMD: u32 = 46;
    pub(crate) const SEND_ZC: u32 = 47;
    pub(crate) const SENDMSG_ZC: u32 = 48;
    pub(crate) const READ_MULTISHOT: u32 = 49;
    pub(crate) const BIND: u32 = 56;
    pub(crate) const LISTEN: u32 = 57;
    pub(crate) const RECV_ZC: u32 = 58;
    pub(crate) const READV_FIXED: u32 = 60;
    pub(crate) const WRITEV_FIXED: u32 = 61;
}

/// The operations whose data say what a connection is at, and those that name a file.
pub(crate) const LOOKS: &[(u32, Look)] = &[
    (opcode::READV, Look::Vector(1)),
    (opcode::WRITEV, Look::Vector(1)),
    (opcode::READ_FIXED, Look::Data(1)),
    (opcode::WRITE_FIXED, Look::Data(1)),
    (opcode::SENDMSG, Look::Message(1)),
    (opcode::RECVMSG, Look::Message(1)),
    (opcode::OPENAT, Look::Path(1)),
    (opcode::READ, Look::Data(1)),
    (opcode::WRITE, Look::Data(1)),
    (opcode::SEND, Look::Data(1)),
    (opcode::RECV, Look::Data(1)),
    (opcode::OPENAT2, Look::Path(1)),
    (opcode::SEND_ZC, Look::Data(1)),
    (opcode::SENDMSG_ZC, Look::Message(1)),
    (opcode::READV_FIXED, Look::Vector(1)),
    (opcode::WRITEV_FIXED, Look::Vector(1)),
];
