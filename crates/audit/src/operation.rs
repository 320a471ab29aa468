//! An operation of io_uring, decoded from an event.
//!
//! The fields are those of its submission queue entry (`struct io_uring_sqe` of io_uring_enter(2)).

use crate::data_location::{DataLocation, low};

/// One operation, or one result of a multishot operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    /// [`UNKNOWN_OPCODE`] if the eBPF program does not know it.
    pub(crate) opcode: u32,
    /// A result of a multishot operation other than its last.
    pub(crate) is_repeated: bool,
    /// The descriptor, or an index in the ring's table.
    pub(crate) descriptor: i32,
    pub(crate) length: u32,
    /// The flags of the operation, for example `MSG_PEEK`.
    pub(crate) flags: i32,
    pub(crate) offset: u64,
    /// For a registered descriptor to install or close: its index plus one, or [`ANY_PLACE`], or 0.
    /// For a splice: the descriptor to read.
    pub(crate) place: u32,
    /// The descriptor is an index in the ring's table.
    pub(crate) is_registered: bool,
    /// The ring chooses the buffer: the entry's buffer address is not used.
    pub(crate) chooses_buffer: bool,
    /// The ring: not 0, and unique while the ring exists.
    pub(crate) ring: u64,
}

impl Operation {
    /// Decodes the number and the arguments of an event. `None` if it is a call.
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
            chooses_buffer: place >> 32 & BUFFER_SELECT != 0 && place != NOT_KNOWN,
            ring,
        })
    }
}

/// The first number of an operation; calls have lower ones. `CALLS` in the eBPF program.
pub(crate) const FIRST: u32 = 1024;
/// An unused opcode: `OPCODE_UNKNOWN` in the eBPF program.
pub(crate) const UNKNOWN_OPCODE: u32 = 255;
/// The kernel chooses the index, and returns it.
pub(crate) const ANY_PLACE: u32 = u32::MAX;

/// As in the eBPF program.
const REPEATED: u32 = 0x1000;
/// `IOSQE_FIXED_FILE`.
const FIXED_FILE: u64 = 1;
/// `IOSQE_BUFFER_SELECT`.
const BUFFER_SELECT: u64 = 1 << 5;
/// An argument of an operation that was submitted before counting began.
const NOT_KNOWN: u64 = u64::MAX;

/// The values of `enum io_uring_op` in `<linux/io_uring.h>` that this crate uses.
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

/// The operations with data that show the state of a connection, and those that name a file.
pub(crate) const LOOKS: &[(u32, DataLocation)] = &[
    (opcode::READV, DataLocation::Vector(1)),
    (opcode::WRITEV, DataLocation::Vector(1)),
    (opcode::READ_FIXED, DataLocation::Data(1)),
    (opcode::WRITE_FIXED, DataLocation::Data(1)),
    (opcode::SENDMSG, DataLocation::Message(1)),
    (opcode::RECVMSG, DataLocation::Message(1)),
    (opcode::OPENAT, DataLocation::Path(1)),
    (opcode::READ, DataLocation::Data(1)),
    (opcode::WRITE, DataLocation::Data(1)),
    (opcode::SEND, DataLocation::Data(1)),
    (opcode::RECV, DataLocation::Data(1)),
    (opcode::OPENAT2, DataLocation::Path(1)),
    (opcode::SEND_ZC, DataLocation::Data(1)),
    (opcode::SENDMSG_ZC, DataLocation::Message(1)),
    (opcode::READV_FIXED, DataLocation::Vector(1)),
    (opcode::WRITEV_FIXED, DataLocation::Vector(1)),
];
