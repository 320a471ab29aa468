//! One completed call, or one completed operation of io_uring, with everything known about it: the
//! input of phases and timelines.
//!
//! Both counters produce events of calls; the kernel's counter also produces events of operations.
//! The first bytes of the program's data are read when the call returns.

use syscalls::Sysno;

use crate::data_location::{DataLocation, MEMORY, low};
use crate::operation::{self, Operation};

/// A call that returned. Times are nanoseconds of one clock for all events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallEvent {
    /// `None` if the call began before counting did.
    pub(crate) start: Option<u64>,
    pub(crate) end: u64,
    pub(crate) process: u32,
    pub(crate) thread: u32,
    /// The call number. Numbers from [`operation::FIRST`] on are operations.
    pub(crate) call: u32,
    /// The result; negative error numbers for failures.
    pub(crate) result: i64,
    /// For an operation: the fields that [`Operation`] reads.
    pub(crate) arguments: [u64; 6],
    /// The data at the location in [`LOOKS`], up to [`MEMORY`] bytes.
    pub(crate) memory: Vec<u8>,
}

impl CallEvent {
    /// Decodes `struct event` as written by the eBPF program. `None` if it is incomplete.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = WordReader(bytes);
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
        // The ring chose another buffer, so the bytes at the program's address are not the received
        // ones.
        let is_elsewhere = event.operation().is_some_and(|operation| operation.chooses_buffer);
        Some(if is_elsewhere { Self { memory: Vec::new(), ..event } } else { event })
    }

    /// The operation, if this event is one.
    pub(crate) fn operation(&self) -> Option<Operation> {
        Operation::of(self.call, &self.arguments)
    }

    /// How many bytes were transferred. For a batch of messages: the bytes that were read.
    pub(crate) fn size(&self) -> u64 {
        match look(self.call) {
            Some(DataLocation::Letters(_)) => self.memory.len() as u64,
            _ => u64::try_from(self.result).unwrap_or(0),
        }
    }

    /// An argument as a descriptor, which is an `int`.
    pub(crate) fn descriptor(&self, which: u8) -> i32 {
        low(self.arguments[usize::from(which)])
    }

    /// The result as a descriptor. `None` if the call failed.
    pub(crate) fn returned_descriptor(&self) -> Option<i32> {
        i32::try_from(self.result).ok().filter(|descriptor| *descriptor >= 0)
    }
}

/// Where the data of this call or operation are.
pub(crate) fn look(call: u32) -> Option<DataLocation> {
    looks().find(|(number, _)| *number == call).map(|(_, look)| look)
}

/// The locations of all data that are read, by call or operation.
pub(crate) fn looks() -> impl Iterator<Item = (u32, DataLocation)> {
    let operations = operation::LOOKS.iter();
    let operations = operations.map(|(opcode, look)| (operation::FIRST + *opcode, *look));
    LOOKS.iter().map(|(call, look)| (*call as u32, *look)).chain(operations)
}

/// Decodes integers in native byte order.
struct WordReader<'b>(&'b [u8]);

impl WordReader<'_> {
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

/// The calls with data that show the state of a connection, and those that name a file. `execve` is
/// missing: its arguments no longer exist when it returns.
const LOOKS: &[(Sysno, DataLocation)] = &[
    (Sysno::read, DataLocation::Data(1)),
    (Sysno::recvfrom, DataLocation::Data(1)),
    (Sysno::pread64, DataLocation::Data(1)),
    (Sysno::write, DataLocation::Data(1)),
    (Sysno::sendto, DataLocation::Data(1)),
    (Sysno::pwrite64, DataLocation::Data(1)),
    (Sysno::readv, DataLocation::Vector(1)),
    (Sysno::writev, DataLocation::Vector(1)),
    (Sysno::recvmsg, DataLocation::Message(1)),
    (Sysno::sendmsg, DataLocation::Message(1)),
    (Sysno::recvmmsg, DataLocation::Letters(1)),
    (Sysno::sendmmsg, DataLocation::Letters(1)),
    (Sysno::preadv2, DataLocation::Vector(1)),
    (Sysno::pwritev2, DataLocation::Vector(1)),
    #[cfg(target_arch = "x86_64")]
    (Sysno::open, DataLocation::Path(0)),
    #[cfg(target_arch = "x86_64")]
    (Sysno::stat, DataLocation::Path(0)),
    #[cfg(target_arch = "x86_64")]
    (Sysno::access, DataLocation::Path(0)),
    (Sysno::chdir, DataLocation::Path(0)),
    (Sysno::openat, DataLocation::Path(1)),
    (Sysno::openat2, DataLocation::Path(1)),
    #[cfg(target_arch = "x86_64")]
    (Sysno::newfstatat, DataLocation::Path(1)),
    (Sysno::statx, DataLocation::Path(1)),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// An event in the encoding of the eBPF program.
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
    fn events_decode_as_encoded() {
        let bytes = written(b"HTTP");
        let event = CallEvent::read(&bytes).unwrap();
        assert_eq!((event.start, event.end, event.process, event.thread), (Some(5), 9, 70, 71));
        assert_eq!((event.call, event.result), (Sysno::sendto as u32, -11));
        assert_eq!((event.arguments, &event.memory[..]), ([1, 2, 3, 4, 5, 6], &b"HTTP"[..]));
        assert_eq!((event.descriptor(2), event.returned_descriptor()), (3, None));
        for cut in 0..88 {
            assert_eq!(CallEvent::read(&bytes[..cut]), None, "{cut} bytes");
        }
    }
}
