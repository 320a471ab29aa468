//! Where the data of a call or of an operation are in the memory of the program.

/// Where the input or output data of a call are in the memory of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataLocation {
    /// The argument points to data. The result is their length.
    Data(u8),
    /// The argument points to an array of `iovec`. Only the first is read.
    Vector(u8),
    /// The argument points to a `msghdr`, which points to such an array.
    Message(u8),
    /// The argument points to an array of `mmsghdr`. Only the first is read.
    Letters(u8),
    /// The argument points to a string.
    Path(u8),
}

impl DataLocation {
    /// The encoding of `looks` in the eBPF program.
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

    /// Reads the data as the eBPF program does. `read` returns up to the given number of bytes of
    /// memory from an address.
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

/// The lower half of a register, as an `int`.
#[expect(clippy::cast_possible_truncation, reason = "the kernel reads only these bits")]
pub(crate) fn low(register: u64) -> i32 {
    register as i32
}

fn within(size: u64) -> usize {
    usize::try_from(size).map_or(MEMORY, |size| size.min(MEMORY))
}

/// `MEMORY` in the eBPF program.
pub(crate) const MEMORY: usize = 64;

/// Offsets in `struct msghdr`, `struct mmsghdr` and `struct iovec` on 64-bit machines.
const MSGHDR_IOV: u64 = 16;
const MMSGHDR_LEN: u64 = 56;
const IOVEC_LEN: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_are_read_where_the_arguments_point() {
        let mut memory = vec![0; 300];
        let mut put = |at: usize, bytes: &[u8]| memory[at..at + bytes.len()].copy_from_slice(bytes);
        put(8, &100_u64.to_ne_bytes()); // an iovec at 8: seven bytes at 100
        put(16, &7_u64.to_ne_bytes());
        put(40, &8_u64.to_ne_bytes()); // a msghdr at 24
        put(80, &3_u32.to_ne_bytes()); // msg_len of the mmsghdr at 24: three bytes were moved
        put(100, b"HTTP/1.1 200 OK\0");
        put(120, &[b'x'; 100]);
        let read = |at: u64, size: usize| {
            let at = usize::try_from(at).unwrap().min(memory.len());
            memory[at..memory.len().min(at + size)].to_vec()
        };
        let cases: &[(DataLocation, u64, i64, &[u8])] = &[
            (DataLocation::Data(1), 100, 4, b"HTTP"),
            (DataLocation::Data(1), 120, 90, &[b'x'; MEMORY]),
            (DataLocation::Data(1), 100, -11, b""),
            (DataLocation::Vector(1), 8, 200, b"HTTP/1."),
            (DataLocation::Vector(1), 8, 2, b"HT"),
            (DataLocation::Message(1), 24, 200, b"HTTP/1."),
            (DataLocation::Letters(1), 24, 2, b"HTT"),
            (DataLocation::Letters(1), 24, 0, b""),
            (DataLocation::Path(1), 100, -2, b"HTTP/1.1 200 OK"),
            (DataLocation::Path(1), 290, 0, b""),
            (DataLocation::Vector(1), 9_000, 5, b""),
        ];
        for (look, argument, result, expected) in cases {
            let found = look.at(&[0, *argument, 0, 0, 0, 0], *result, read);
            assert_eq!(found, *expected, "{look:?} {argument} {result}");
        }
    }
}
