//! Formats the arguments of a call as strace does, for the calls of network programs. Other calls
//! show `...`.

use std::fmt::Write as _;

use syscalls::Sysno;

use crate::data_location::{DataLocation, low};
use crate::event::{CallEvent, look};
use crate::kinds;
use crate::operation::Operation;

/// The kind of an argument, in the order of the call's parameters.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// A descriptor, or another `int`.
    Int,
    /// A length or another number.
    Number,
    /// `AT_FDCWD` or a descriptor.
    Folder,
    /// A pointer to memory of the program. The memory was read.
    Memory,
    /// A pointer to memory that is not read: an address or NULL.
    Address,
    /// A number with a name, without combinations.
    Named(&'static [(i32, &'static str)]),
    /// A set of named bits.
    Flags(&'static [(i32, &'static str)]),
    /// A number in octal.
    Mode,
    /// The argument that selects the call's kind ([`kinds`]). If two do, both.
    Kind,
    /// Already covered by the previous argument.
    Skip,
}

/// The argument list between the parentheses.
pub(crate) fn text(event: &CallEvent) -> String {
    if let Some(operation) = event.operation() {
        return of_operation(event, &operation);
    }
    let known = CALLS.iter().find(|(number, _)| *number as u32 == event.call);
    let Some((_, shapes)) = known else { return "...".to_owned() };
    let mut parts = Vec::new();
    for (shape, value) in shapes.iter().zip(event.arguments) {
        let part = match shape {
            Int => low(value).to_string(),
            Number => value.to_string(),
            Folder if low(value) == libc::AT_FDCWD => "AT_FDCWD".to_owned(),
            Folder => low(value).to_string(),
            Memory => memory(event, value),
            Address => address(value),
            Named(names) => named(low(value), names),
            Flags(names) => flags(low(value), names),
            Mode => format!("{value:#o}"),
            Kind => kind(event, value),
            Skip => continue,
        };
        parts.push(part);
    }
    parts.join(", ")
}

/// Formats an operation with data: descriptor, data, length and flags. Other operations
/// show only the descriptor. A registered descriptor of the ring is in brackets.
fn of_operation(event: &CallEvent, operation: &Operation) -> String {
    let descriptor = match operation.is_registered {
        true => format!("[{}]", operation.descriptor),
        false => operation.descriptor.to_string(),
    };
    match look(event.call) {
        Some(DataLocation::Path(_)) => {
            let folder = match operation.descriptor {
                libc::AT_FDCWD => "AT_FDCWD".to_owned(),
                _ => descriptor,
            };
            format!("{folder}, {}", memory(event, event.arguments[1]))
        }
        Some(_) => {
            let data = memory(event, event.arguments[1]);
            let flags = flags(operation.flags, MESSAGES);
            format!("{descriptor}, {data}, {}, {flags}", operation.length)
        }
        None => descriptor,
    }
}

/// The first bytes of data or of a path; the address if no data were read.
fn memory(event: &CallEvent, value: u64) -> String {
    let is_path = matches!(look(event.call), Some(DataLocation::Path(_)));
    if event.memory.is_empty() && !is_path {
        return address(value);
    }
    let shown = &event.memory[..event.memory.len().min(SHOWN)];
    let shown_text = shown.escape_ascii().to_string().replace(r"\'", "'"); // as in C
    let mut text = format!("\"{shown_text}\"");
    let whole = match is_path {
        true => event.memory.len() <= SHOWN,
        false => u64::try_from(event.result).is_ok_and(|size| size <= shown.len() as u64),
    };
    if !whole {
        text += "...";
    }
    text
}

fn address(value: u64) -> String {
    if value == 0 { "NULL".to_owned() } else { format!("{value:#x}") }
}

fn kind(event: &CallEvent, value: u64) -> String {
    match kinds::kind(event.call, &event.arguments) {
        Some(kind) => kinds::name(event.call, kind),
        None => low(value).to_string(),
    }
}

fn named(value: i32, names: &[(i32, &str)]) -> String {
    let known = names.iter().find(|(number, _)| *number == value);
    known.map_or_else(|| value.to_string(), |(_, name)| (*name).to_owned())
}

fn flags(value: i32, names: &[(i32, &str)]) -> String {
    let mut text = String::new();
    let mut left = value;
    for (bits, name) in names {
        if left & bits == *bits && *bits != 0 {
            left &= !bits;
            let _ = write!(text, "{}{name}", if text.is_empty() { "" } else { "|" });
        }
    }
    match (text.is_empty(), left) {
        (true, left) => named(left, names),
        (false, 0) => text,
        (false, left) => format!("{text}|{left:#x}"),
    }
}

/// strace shows as many bytes.
const SHOWN: usize = 32;

use Shape::{Address, Flags, Folder, Int, Kind, Memory, Mode, Named, Number, Skip};

const CALLS: &[(Sysno, &[Shape])] = &[
    (Sysno::accept, &[Int, Address, Address]),
    (Sysno::accept4, &[Int, Address, Address, Flags(SOCKETS)]),
    (Sysno::bind, &[Int, Address, Number]),
    (Sysno::brk, &[Address]),
    (Sysno::chdir, &[Memory]),
    (Sysno::clock_gettime, &[Named(CLOCKS), Address]),
    (Sysno::close, &[Int]),
    (Sysno::connect, &[Int, Address, Number]),
    (Sysno::dup, &[Int]),
    (Sysno::epoll_create1, &[Flags(&[(libc::EPOLL_CLOEXEC, "EPOLL_CLOEXEC")])]),
    (Sysno::epoll_ctl, &[Int, Kind, Int, Address]),
    (Sysno::epoll_pwait, &[Int, Address, Int, Int, Address, Number]),
    (Sysno::epoll_pwait2, &[Int, Address, Int, Address, Address, Number]),
    (Sysno::eventfd2, &[Int, Number]),
    (Sysno::fcntl, &[Int, Kind, Number]),
    (Sysno::fstat, &[Int, Address]),
    (Sysno::futex, &[Address, Int, Int]),
    (Sysno::getpeername, &[Int, Address, Address]),
    (Sysno::getrandom, &[Address, Number, Number]),
    (Sysno::getsockname, &[Int, Address, Address]),
    (Sysno::getsockopt, &[Int, Int, Int, Address, Address]),
    (Sysno::io_uring_enter, &[Int, Int, Int, Flags(ENTERS), Address, Number]),
    (Sysno::ioctl, &[Int, Kind, Address]),
    (Sysno::listen, &[Int, Int]),
    (Sysno::lseek, &[Int, Int, Int]),
    (Sysno::madvise, &[Address, Number, Int]),
    (Sysno::mmap, &[Address, Number, Int, Int, Int, Number]),
    (Sysno::mprotect, &[Address, Number, Int]),
    (Sysno::munmap, &[Address, Number]),
    (Sysno::openat, &[Folder, Memory, Flags(OPENS), Mode]),
    (Sysno::openat2, &[Folder, Memory, Address, Number]),
    (Sysno::pread64, &[Int, Memory, Number, Number]),
    (Sysno::pwrite64, &[Int, Memory, Number, Number]),
    (Sysno::read, &[Int, Memory, Number]),
    (Sysno::readv, &[Int, Memory, Int]),
    (Sysno::recvfrom, &[Int, Memory, Number, Flags(MESSAGES), Address, Address]),
    (Sysno::recvmsg, &[Int, Memory, Flags(MESSAGES)]),
    (Sysno::sendfile, &[Int, Int, Address, Number]),
    (Sysno::sendmsg, &[Int, Memory, Flags(MESSAGES)]),
    (Sysno::sendto, &[Int, Memory, Number, Flags(MESSAGES), Address, Number]),
    (Sysno::setsockopt, &[Int, Kind, Skip, Address, Number]),
    (Sysno::shutdown, &[Int, Named(SHUTS)]),
    (Sysno::socket, &[Named(DOMAINS), Flags(SOCKETS), Int]),
    (Sysno::splice, &[Int, Address, Int, Address, Number, Int]),
    (Sysno::statx, &[Folder, Memory, Int, Int, Address]),
    (Sysno::timerfd_settime, &[Int, Int, Address, Address]),
    (Sysno::write, &[Int, Memory, Number]),
    (Sysno::writev, &[Int, Memory, Int]),
    #[cfg(target_arch = "x86_64")]
    (Sysno::access, &[Memory, Int]),
    #[cfg(target_arch = "x86_64")]
    (Sysno::epoll_wait, &[Int, Address, Int, Int]),
    #[cfg(target_arch = "x86_64")]
    (Sysno::newfstatat, &[Folder, Memory, Address, Number]),
    #[cfg(target_arch = "x86_64")]
    (Sysno::open, &[Memory, Flags(OPENS), Mode]),
    #[cfg(target_arch = "x86_64")]
    (Sysno::poll, &[Address, Number, Int]),
    #[cfg(target_arch = "x86_64")]
    (Sysno::stat, &[Memory, Address]),
];

macro_rules! names {
    ($name:ident: $($value:ident)*) => {
        const $name: &[(i32, &str)] = &[$((libc::$value, stringify!($value))),*];
    };
}

names!(SOCKETS: SOCK_NONBLOCK SOCK_CLOEXEC SOCK_SEQPACKET SOCK_RAW SOCK_DGRAM SOCK_STREAM);
names!(DOMAINS: AF_UNIX AF_INET AF_INET6 AF_NETLINK);
names!(SHUTS: SHUT_RD SHUT_WR SHUT_RDWR);
names!(CLOCKS: CLOCK_REALTIME CLOCK_MONOTONIC CLOCK_PROCESS_CPUTIME_ID CLOCK_THREAD_CPUTIME_ID
    CLOCK_MONOTONIC_RAW CLOCK_REALTIME_COARSE CLOCK_MONOTONIC_COARSE CLOCK_BOOTTIME);
names!(MESSAGES: MSG_DONTWAIT MSG_NOSIGNAL MSG_MORE MSG_PEEK MSG_TRUNC MSG_WAITALL MSG_OOB
    MSG_CMSG_CLOEXEC MSG_ERRQUEUE MSG_ZEROCOPY);
names!(OPENS: O_WRONLY O_RDWR O_CREAT O_EXCL O_TRUNC O_APPEND O_NONBLOCK O_DIRECTORY O_NOFOLLOW
    O_CLOEXEC O_PATH O_RDONLY);

/// `<linux/io_uring.h>`.
const ENTERS: &[(i32, &str)] = &[
    (1, "IORING_ENTER_GETEVENTS"),
    (2, "IORING_ENTER_SQ_WAKEUP"),
    (4, "IORING_ENTER_SQ_WAIT"),
    (8, "IORING_ENTER_EXT_ARG"),
    (16, "IORING_ENTER_REGISTERED_RING"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(call: Sysno, arguments: [u64; 6], result: i64, memory: &[u8]) -> String {
        let memory = memory[..memory.len().min(64)].to_vec();
        let call = call as u32;
        let (start, process) = (None, 1);
        text(&CallEvent { start, end: 0, process, thread: 1, call, result, arguments, memory })
    }

    #[test]
    fn arguments_are_formatted_like_strace() {
        let none = u64::from(u32::MAX); // -1
        let folder = u64::from(libc::AT_FDCWD.cast_unsigned());
        let long = [b'a'; 64];
        type Case<'a> = (Sysno, [u64; 6], i64, &'a [u8], &'a str);
        let cases: &[Case<'_>] = &[
            (
                Sysno::recvfrom,
                [7, 5, 99, 0, 0, 0],
                5,
                b"GET /\n",
                r#"7, "GET /\n", 99, 0, NULL, NULL"#,
            ),
            (
                Sysno::recvfrom,
                [7, 5, 9, 0x4040, 0, 0],
                -11,
                b"",
                "7, 0x5, 9, MSG_DONTWAIT|MSG_NOSIGNAL, NULL, NULL",
            ),
            (
                Sysno::write,
                [1, 5, 64, 0, 0, 0],
                64,
                &long,
                r#"1, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"..., 64"#,
            ),
            (
                Sysno::accept4,
                [6, 0, 0, 0x80800, 0, 0],
                7,
                b"",
                "6, NULL, NULL, SOCK_NONBLOCK|SOCK_CLOEXEC",
            ),
            (
                Sysno::socket,
                [2, 0x801, 0, 0, 0, 0],
                7,
                b"",
                "AF_INET, SOCK_NONBLOCK|SOCK_STREAM, 0",
            ),
            (
                Sysno::openat,
                [folder, 5, 0x80000, 0, 0, 0],
                3,
                b"/etc/a",
                r#"AT_FDCWD, "/etc/a", O_CLOEXEC, 0o0"#,
            ),
            (Sysno::openat, [4, 0, 0, 0, 0, 0], 3, b"", r#"4, "", O_RDONLY, 0o0"#),
            (Sysno::epoll_ctl, [4, 1, 7, 9, 0, 0], 0, b"", "4, ADD, 7, 0x9"),
            (Sysno::setsockopt, [7, 6, 1, 9, 4, 0], 0, b"", "7, TCP_NODELAY, 0x9, 4"),
            (Sysno::shutdown, [7, 1, 0, 0, 0, 0], 0, b"", "7, SHUT_WR"),
            (Sysno::shutdown, [7, 9, 0, 0, 0, 0], 0, b"", "7, 9"),
            (Sysno::close, [none, 0, 0, 0, 0, 0], -9, b"", "-1"),
            (Sysno::getpid, [0; 6], 1, b"", "..."),
        ];
        for (call, arguments, result, memory, expected) in cases {
            assert_eq!(shown(*call, *arguments, *result, memory), *expected, "{call}");
        }
    }

    #[test]
    fn ring_operations_are_formatted_like_calls() {
        let shown = |opcode: u32, arguments: [u64; 6], result: i64, memory: &[u8]| {
            let (call, memory) = (1_024 + opcode, memory.to_vec());
            text(&CallEvent {
                start: None,
                end: 0,
                process: 1,
                thread: 1,
                call,
                result,
                arguments,
                memory,
            })
        };
        let recv = [7, 0x50, 0x40 << 32 | 99, 0, 0, 0x9000];
        assert_eq!(shown(27, recv, 5, b"GET /"), r#"7, "GET /", 99, MSG_DONTWAIT"#);
        let registered = [2, 0x50, 99, 0, 1 << 32, 0x9000];
        assert_eq!(shown(26, registered, -11, b""), "[2], 0x50, 99, 0");
        assert_eq!(shown(19, [7, 0, 0, 0, 0, 0x9000], 0, b""), "7");
        let folder = u64::from(libc::AT_FDCWD.cast_unsigned());
        assert_eq!(shown(18, [folder, 0x50, 0, 0, 0, 1], 3, b"/etc/a"), r#"AT_FDCWD, "/etc/a""#);
    }

    #[test]
    fn bits_without_a_name_are_shown() {
        assert_eq!(flags(0x80_0040, MESSAGES), "MSG_DONTWAIT|0x800000");
        assert_eq!((flags(0, OPENS), flags(0, MESSAGES)), ("O_RDONLY".into(), "0".into()));
    }
}
