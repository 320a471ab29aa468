//! Classifies calls by an argument that shows whether the call was necessary.

use syscalls::Sysno;

/// How the arguments of a call determine its kind, which is a number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KindRule {
    /// The value of an argument.
    Value(u8),
    /// The values of two arguments.
    Pair(u8, u8),
    /// Whether the call may block, by a timeout argument in milliseconds.
    Millis(u8),
    /// Whether the call may block, by an argument that points to a `timespec`.
    Timespec(u8),
}

impl KindRule {
    /// The encoding of `questions` in the eBPF program.
    pub(crate) fn packed(self) -> u32 {
        let [shape, first, second] = match self {
            Self::Value(which) => [1, which, 0],
            Self::Pair(first, second) => [2, first, second],
            Self::Millis(which) => [3, which, 0],
            Self::Timespec(which) => [4, which, 0],
        };
        u32::from_le_bytes([shape, first, second, 0])
    }

    /// The kind. `None` if memory of the program would have to be read.
    fn answer(self, arguments: &[u64; 6]) -> Option<u32> {
        let low = |which: u8, mask: u64| {
            u32::try_from(arguments[usize::from(which)] & mask).expect("masked")
        };
        match self {
            Self::Value(which) => Some(low(which, 0xffff_ffff)),
            Self::Pair(first, second) => Some(low(first, 0xffff) << 16 | low(second, 0xffff)),
            Self::Millis(which) => Some(match low(which, 0xffff_ffff) {
                0 => NOT,
                1..0x8000_0000 => A_TIME,
                _ => FOREVER, // negative as an int
            }),
            Self::Timespec(which) => (arguments[usize::from(which)] == 0).then_some(FOREVER),
        }
    }
}

/// The kind of an io_uring operation that received into a buffer chosen by the ring: its data were
/// not read.
pub(crate) const UNSEEN: &str = "unseen";

/// The kind of a call with these arguments. `None` if it has none, or it is unknown.
pub(crate) fn kind(number: u32, arguments: &[u64; 6]) -> Option<u32> {
    QUESTIONS.iter().find(|(call, _)| *call as u32 == number)?.1.answer(arguments)
}

/// The name of a kind of this call. It has no spaces.
pub(crate) fn name(number: u32, kind: u32) -> String {
    let named = |table: &[(u32, &str)]| {
        let found = table.iter().find(|(number, _)| *number == kind);
        found.map(|(_, name)| (*name).to_owned())
    };
    let known = match usize::try_from(number).ok().and_then(Sysno::new) {
        Some(Sysno::epoll_ctl) => named(&[(1, "ADD"), (2, "DEL"), (3, "MOD")]),
        Some(Sysno::fcntl) => named(COMMANDS),
        Some(Sysno::ioctl) => named(&[(0x5421, "FIONBIO"), (0x541b, "FIONREAD")]),
        Some(Sysno::setsockopt) => {
            Some(named(OPTIONS).unwrap_or_else(|| format!("{}:{}", kind >> 16, kind & 0xffff)))
        }
        _ => named(WAITS),
    };
    known.unwrap_or_else(|| format!("{kind:#x}"))
}

/// The arguments that are counted, by call. `ppoll` and `select` are missing: they overwrite their
/// timeouts before they return.
pub(crate) const QUESTIONS: &[(Sysno, KindRule)] = &[
    (Sysno::epoll_ctl, KindRule::Value(1)),
    (Sysno::fcntl, KindRule::Value(1)),
    (Sysno::ioctl, KindRule::Value(1)),
    (Sysno::setsockopt, KindRule::Pair(1, 2)),
    #[cfg(target_arch = "x86_64")]
    (Sysno::epoll_wait, KindRule::Millis(3)),
    (Sysno::epoll_pwait, KindRule::Millis(3)),
    (Sysno::epoll_pwait2, KindRule::Timespec(3)),
    #[cfg(target_arch = "x86_64")]
    (Sysno::poll, KindRule::Millis(2)),
];

/// `enum wait` of the eBPF program.
const NOT: u32 = 0;
const A_TIME: u32 = 1;
const FOREVER: u32 = 2;
const WAITS: &[(u32, &str)] = &[(NOT, "zero"), (A_TIME, "timed"), (FOREVER, "forever")];

/// `fcntl(2)`.
const COMMANDS: &[(u32, &str)] = &[
    (0, "F_DUPFD"),
    (1, "F_GETFD"),
    (2, "F_SETFD"),
    (3, "F_GETFL"),
    (4, "F_SETFL"),
    (1030, "F_DUPFD_CLOEXEC"),
    (1031, "F_SETPIPE_SZ"),
];

/// `ip(7)`, `socket(7)`, `tcp(7)`, `ipv6(7)`: level and option.
const OPTIONS: &[(u32, &str)] = &[
    (24, "IP_BIND_ADDRESS_NO_PORT"),
    (1 << 16 | 2, "SO_REUSEADDR"),
    (1 << 16 | 7, "SO_SNDBUF"),
    (1 << 16 | 8, "SO_RCVBUF"),
    (1 << 16 | 9, "SO_KEEPALIVE"),
    (1 << 16 | 13, "SO_LINGER"),
    (1 << 16 | 15, "SO_REUSEPORT"),
    (1 << 16 | 20, "SO_RCVTIMEO"),
    (1 << 16 | 21, "SO_SNDTIMEO"),
    (6 << 16 | 1, "TCP_NODELAY"),
    (6 << 16 | 3, "TCP_CORK"),
    (6 << 16 | 4, "TCP_KEEPIDLE"),
    (6 << 16 | 5, "TCP_KEEPINTVL"),
    (6 << 16 | 6, "TCP_KEEPCNT"),
    (6 << 16 | 9, "TCP_DEFER_ACCEPT"),
    (6 << 16 | 12, "TCP_QUICKACK"),
    (6 << 16 | 18, "TCP_USER_TIMEOUT"),
    (6 << 16 | 23, "TCP_FASTOPEN"),
    (6 << 16 | 30, "TCP_FASTOPEN_CONNECT"),
    (6 << 16 | 31, "TCP_ULP"),
    (41 << 16 | 26, "IPV6_V6ONLY"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of(call: Sysno, arguments: [u64; 6]) -> Option<String> {
        let number = call as u32;
        kind(number, &arguments).map(|kind| name(number, kind))
    }

    #[test]
    fn kinds_follow_from_arguments() {
        let infinite = u64::from(u32::MAX); // -1
        let table: &[(Sysno, [u64; 6], Option<&str>)] = &[
            (Sysno::epoll_ctl, [4, 3, 9, 0, 0, 0], Some("MOD")),
            (Sysno::fcntl, [4, 4, 0x800, 0, 0, 0], Some("F_SETFL")),
            (Sysno::fcntl, [4, 77, 0, 0, 0, 0], Some("0x4d")),
            (Sysno::ioctl, [4, 0x5421, 0, 0, 0, 0], Some("FIONBIO")),
            (Sysno::setsockopt, [4, 6, 1, 0, 0, 0], Some("TCP_NODELAY")),
            (Sysno::setsockopt, [4, 41, 26, 0, 0, 0], Some("IPV6_V6ONLY")),
            (Sysno::setsockopt, [4, 41, 99, 0, 0, 0], Some("41:99")),
            (Sysno::epoll_pwait, [4, 0, 64, 0, 0, 0], Some("zero")),
            (Sysno::epoll_pwait, [4, 0, 64, infinite, 0, 0], Some("forever")),
            (Sysno::epoll_pwait, [4, 0, 64, 250, 0, 0], Some("timed")),
            (Sysno::epoll_pwait2, [4, 0, 64, 0, 0, 0], Some("forever")),
            (Sysno::epoll_pwait2, [4, 0, 64, 0x7fff_0000, 0, 0], None),
            (Sysno::read, [4, 0, 64, 0, 0, 0], None),
        ];
        for (call, arguments, expected) in table {
            assert_eq!(kind_of(*call, *arguments).as_deref(), *expected, "{call} {arguments:?}");
        }
        let words = [OPTIONS, COMMANDS, WAITS].concat();
        assert!(words.iter().all(|(_, word)| !word.contains([' ', '='])), "records cut there");
    }
}
