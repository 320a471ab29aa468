//! One call that returned, or one operation of io_uring that was done, with all that is known of it:
//! what phases and timelines are made of.
//!
//! Both counters make these of calls, the kernel's of operations too. What lies in the memory of the
//! program is looked at as the call returns, and only the beginning of it.

use syscalls::Sysno;

use crate::operation::{self, Operation};

/// A call that returned. Times are nanoseconds of a clock that every event has in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// `None` if it began before anybody looked.
    pub(crate) start: Option<u64>,
    pub(crate) end: u64,
    pub(crate) process: u32,
    pub(crate) thread: u32,
    /// Its number. Numbers from [`operation::FIRST`] on are operations.
    pub(crate) call: u32,
    /// An error number less than zero.
    pub(crate) result: i64,
    /// Of an operation, what [`Operation`] reads.
    pub(crate) arguments: [u64; 6],
    /// What [`LOOKS`] says, as far as there was room.
    pub(crate) memory: Vec<u8>,
}

/// Where what a call was given, or gave, lies in the memory of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// This argument points to as many bytes as the result says.
    Data(u8),
    /// This argument points to an array of `iovec`, of which the first is looked at.
    Vector(u8),
    /// This argument points to a `msghdr`, which points to such an array.
    Message(u8),
    /// This argument points to an array of `mmsghdr`, of which the first is looked at.
    Letters(u8),
    /// This argument points to a string.
    Path(u8),
}

impl Look {
    /// As in `looks` of the program in the kernel.
    pub(crate) fn packed(self) -> u32 {
        let [shape, which] = match self {
            Self::Data(which) => [1, which],
            Self::Vector(which) => [2, which],
            Self::Message(which) => [3, which],
            Self::Letters(which) => [4, which],
            Self::Path(which) => [5, which],
        };
        u32::from_le_bytes([shape, which, 0, 0])
    }

    /// The same as the program in the kernel does, of memory that `read` reads: from an address
    /// so many bytes, or fewer if there are no more.
    pub(crate) fn at(
        self,
        arguments: &[u64; 6],
        result: i64,
        read: impl Fn(u64, usize) -> Vec<u8>,
    ) -> Vec<u8> {
        let word = |at: u64| {
            let bytes = read(at, size_of::<u64>());
            bytes.try_into().map_or(0, u64::from_ne_bytes)
        };
        let [_, which, ..] = self.packed().to_le_bytes();
        let given = arguments[usize::from(which)];
        let size = match self {
            Self::Letters(_) if result > 0 => {
                let size = read(given.wrapping_add(MMSGHDR_LEN), size_of::<u32>());
                size.try_into().map_or(0, |size| u32::from_ne_bytes(size).into())
            }
            _ => u64::try_from(result).unwrap_or(0),
        };
        let vector = match self {
            Self::Path(_) => {
                let mut path = read(given, MEMORY - 1);
                path.truncate(path.iter().position(|byte| *byte == 0).unwrap_or(path.len()));
                return path;
            }
            _ if size == 0 => return Vec::new(),
            Self::Data(_) => return read(given, within(size)),
            Self::Vector(_) => given,
            Self::Message(_) | Self::Letters(_) => word(given.wrapping_add(MSGHDR_IOV)),
        };
        let length = word(vector.wrapping_add(IOVEC_LEN));
        read(word(vector), within(size.min(length)))
    }
}

impl Event {
    /// What the program in the kernel wrote: `struct event`. `None` if it is none.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let [start, end] = [fields.u64()?, fields.u64()?];
        let [process, thread, call, size] =
            [fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?];
        let result = fields.u64()?.cast_signed();
        let mut arguments = [0; 6];
        for argument in &mut arguments {
            *argument = fields.u64()?;
        }
        let memory = fields.0.get(..MEMORY.min(usize::try_from(size).ok()?))?.to_vec();
        let start = (start > 0).then_some(start);
        let event = Self { start, end, process, thread, call, result, arguments, memory };
        // Whatever lies where the program would have had it, it is not what was received.
        let is_elsewhere = event.operation().is_some_and(|operation| operation.chooses_buffer);
        Some(if is_elsewhere { Self { memory: Vec::new(), ..event } } else { event })
    }

    /// The operation that it is, if it is no call.
    pub(crate) fn operation(&self) -> Option<Operation> {
        Operation::of(self.call, &self.arguments)
    }

    /// How many bytes it moved; of messages that were counted, as many as were looked at.
    pub(crate) fn size(&self) -> u64 {
        match look(self.call) {
            Some(Look::Letters(_)) => self.memory.len() as u64,
            _ => u64::try_from(self.result).unwrap_or(0),
        }
    }

    /// An argument as a descriptor, which is an `int`.
    pub(crate) fn descriptor(&self, which: u8) -> i32 {
        low(self.arguments[usize::from(which)])
    }

    /// The result as a descriptor. `None` if it failed.
    pub(crate) fn returned_descriptor(&self) -> Option<i32> {
        i32::try_from(self.result).ok().filter(|descriptor| *descriptor >= 0)
    }
}

/// Where to look for this call or operation.
pub(crate) fn look(call: u32) -> Option<Look> {
    looks().find(|(number, _)| *number == call).map(|(_, look)| look)
}

/// Of all that are looked at, by number.
pub(crate) fn looks() -> impl Iterator<Item = (u32, Look)> {
    let operations = operation::LOOKS.iter();
    let operations = operations.map(|(opcode, look)| (operation::FIRST + *opcode, *look));
    LOOKS.iter().map(|(call, look)| (*call as u32, *look)).chain(operations)
}

/// The lower half of a register, as an `int`.
#[expect(clippy::cast_possible_truncation, reason = "the kernel takes no more of it")]
pub(crate) fn low(register: u64) -> i32 {
    register as i32
}

fn within(size: u64) -> usize {
    usize::try_from(size).map_or(MEMORY, |size| size.min(MEMORY))
}

/// Words of the machine's order, one after the other.
struct Fields<'b>(&'b [u8]);

impl Fields<'_> {
    fn u32(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_ne_bytes(*word))
    }

    fn u64(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*word))
    }
}

/// The calls whose data say what a connection is at, and those that name a file. `execve` is not
/// among them: when it returns, its arguments are gone.
const LOOKS: &[(Sysno, Look)] = &[
    (Sysno::read, Look::Data(1)),
    (Sysno::recvfrom, Look::Data(1)),
    (Sysno::pread64, Look::Data(1)),
    (Sysno::write, Look::Data(1)),
    (Sysno::sendto, Look::Data(1)),
    (Sysno::pwrite64, Look::Data(1)),
    (Sysno::readv, Look::Vector(1)),
    (Sysno::writev, Look::Vector(1)),
    (Sysno::recvmsg, Look::Message(1)),
    (Sysno::sendmsg, Look::Message(1)),
    (Sysno::recvmmsg, Look::Letters(1)),
    (Sysno::sendmmsg, Look::Letters(1)),
    (Sysno::preadv2, Look::Vector(1)),
    (Sysno::pwritev2, Look::Vector(1)),
    #[cfg(target_arch = "x86_64")]
    (Sysno::open, Look::Path(0)),
    #[cfg(target_arch = "x86_64")]
    (Sysno::stat, Look::Path(0)),
    #[cfg(target_arch = "x86_64")]
    (Sysno::access, Look::Path(0)),
    (Sysno::chdir, Look::Path(0)),
    (Sysno::openat, Look::Path(1)),
    (Sysno::openat2, Look::Path(1)),
    #[cfg(target_arch = "x86_64")]
    (Sysno::newfstatat, Look::Path(1)),
    (Sysno::statx, Look::Path(1)),
];

/// `MEMORY` of the program in the kernel.
const MEMORY: usize = 64;
/// Of `struct msghdr`, `struct mmsghdr` and `struct iovec`, on machines of 64 bits.
const MSGHDR_IOV: u64 = 16;
const MMSGHDR_LEN: u64 = 56;
const IOVEC_LEN: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// As the program writes it.
    fn written(memory: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [5_u64, 9] {
            bytes.extend(word.to_ne_bytes());
        }
        let size = u32::try_from(memory.len()).unwrap();
        for word in [70_u32, 71, Sysno::sendto as u32, size] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend((-11_i64).to_ne_bytes());
        for word in 1..=6_u64 {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(memory);
        bytes.resize(88 + MEMORY, 0xaa);
        bytes
    }

    #[test]
    fn events_are_read_as_they_were_written() {
        let bytes = written(b"HTTP");
        let event = Event::read(&bytes).unwrap();
        assert_eq!((event.start, event.end, event.process, event.thread), (Some(5), 9, 70, 71));
        assert_eq!((event.call, event.result), (Sysno::sendto as u32, -11));
        assert_eq!((event.arguments, &event.memory[..]), ([1, 2, 3, 4, 5, 6], &b"HTTP"[..]));
        assert_eq!((event.descriptor(2), event.returned_descriptor()), (3, None));
        for cut in 0..88 {
            assert_eq!(Event::read(&bytes[..cut]), None, "{cut} bytes");
        }
    }

    #[test]
    fn memory_is_looked_at_where_the_arguments_point() {
        let mut memory = vec![0; 300];
        let mut put = |at: usize, bytes: &[u8]| memory[at..at + bytes.len()].copy_from_slice(bytes);
        put(8, &100_u64.to_ne_bytes()); // an iovec at 8: seven bytes at 100
        put(16, &7_u64.to_ne_bytes());
        put(40, &8_u64.to_ne_bytes()); // a msghdr at 24
        put(80, &3_u32.to_ne_bytes()); // of a mmsghdr at 24, which has moved three bytes
        put(100, b"HTTP/1.1 200 OK\0");
        put(120, &[b'x'; 100]);
        let read = |at: u64, size: usize| {
            let at = usize::try_from(at).unwrap().min(memory.len());
            memory[at..memory.len().min(at + size)].to_vec()
        };
        let cases: &[(Look, u64, i64, &[u8])] = &[
            (Look::Data(1), 100, 4, b"HTTP"),
            (Look::Data(1), 120, 90, &[b'x'; MEMORY]),
            (Look::Data(1), 100, -11, b""),
            (Look::Vector(1), 8, 200, b"HTTP/1."),
            (Look::Vector(1), 8, 2, b"HT"),
            (Look::Message(1), 24, 200, b"HTTP/1."),
            (Look::Letters(1), 24, 2, b"HTT"),
            (Look::Letters(1), 24, 0, b""),
            (Look::Path(1), 100, -2, b"HTTP/1.1 200 OK"),
            (Look::Path(1), 290, 0, b""),
            (Look::Vector(1), 9_000, 5, b""),
        ];
        for (look, argument, result, expected) in cases {
            let found = look.at(&[0, *argument, 0, 0, 0, 0], *result, read);
            assert_eq!(found, *expected, "{look:?} {argument} {result}");
        }
    }
}
