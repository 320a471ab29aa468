//! What an argument asked for, where that says whether the call was needed at all.

use syscalls::Sysno;

/// How a kind, a number, comes of the arguments of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Question {
    /// It is an argument.
    Value(u8),
    /// It is two arguments.
    Pair(u8, u8),
    /// It is 1 if an argument is zero.
    IsZero(u8),
    /// It is 1 if an argument points to a time of zero.
    TimeZero(u8),
}

impl Question {
    /// As in `questions` of the program in the kernel.
    pub(crate) fn packed(self) -> u32 {
        let [shape, first, second] = match self {
            Self::Value(which) => [1, which, 0],
            Self::Pair(first, second) => [2, first, second],
            Self::IsZero(which) => [3, which, 0],
            Self::TimeZero(which) => [4, which, 0],
        };
        u32::from_le_bytes([shape, first, second, 0])
    }

    /// The kind. `None` where memory of the program would have to be read.
    fn answer(self, arguments: &[u64; 6]) -> Option<u32> {
        let low = |which: u8, mask: u64| {
            u32::try_from(arguments[usize::from(which)] & mask).expect("masked")
        };
        match self {
            Self::Value(which) => Some(low(which, 0xffff_ffff)),
            Self::Pair(first, second) => Some(low(first, 0xffff) << 16 | low(second, 0xffff)),
            Self::IsZero(which) => Some((low(which, 0xffff_ffff) == 0).into()),
            Self::TimeZero(which) => (arguments[usize::from(which)] == 0).then_some(0),
        }
    }
}

/// The kind of a call with these arguments. `None` if it has none, or it cannot be known.
pub(crate) fn kind(number: u32, arguments: &[u64; 6]) -> Option<u32> {
    QUESTIONS.iter().find(|(call, _)| *call as u32 == number)?.1.answer(arguments)
}

/// The name of a kind of this call.
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
        _ => named(&[(0, "waiting"), (1, "zero")]),
    };
    known.unwrap_or_else(|| format!("{kind:#x}"))
}

/// The calls of which an argument is looked at.
pub(crate) const QUESTIONS: &[(Sysno, Question)] = &[
    (Sysno::epoll_ctl, Question::Value(1)),
    (Sysno::fcntl, Question::Value(1)),
    (Sysno::ioctl, Question::Value(1)),
    (Sysno::setsockopt, Question::Pair(1, 2)),
    #[cfg(target_arch = "x86_64")]
    (Sysno::epoll_wait, Question::IsZero(3)),
    (Sysno::epoll_pwait, Question::IsZero(3)),
    (Sysno::epoll_pwait2, Question::TimeZero(3)),
    #[cfg(target_arch = "x86_64")]
    (Sysno::poll, Question::IsZero(2)),
    (Sysno::ppoll, Question::TimeZero(2)),
];

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

/// `socket(7)`, `tcp(7)`: level and option.
const OPTIONS: &[(u32, &str)] = &[
    (1 << 16 | 2, "SO_REUSEADDR"),
    (1 << 16 | 7, "SO_SNDBUF"),
    (1 << 16 | 8, "SO_RCVBUF"),
    (1 << 16 | 9, "SO_KEEPALIVE"),
    (1 << 16 | 13, "SO_LINGER"),
    (1 << 16 | 15, "SO_REUSEPORT"),
    (6 << 16 | 1, "TCP_NODELAY"),
    (6 << 16 | 3, "TCP_CORK"),
    (6 << 16 | 4, "TCP_KEEPIDLE"),
    (6 << 16 | 5, "TCP_KEEPINTVL"),
    (6 << 16 | 6, "TCP_KEEPCNT"),
    (6 << 16 | 9, "TCP_DEFER_ACCEPT"),
    (6 << 16 | 12, "TCP_QUICKACK"),
    (6 << 16 | 18, "TCP_USER_TIMEOUT"),
    (6 << 16 | 23, "TCP_FASTOPEN"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of(call: Sysno, arguments: [u64; 6]) -> Option<String> {
        let number = call as u32;
        kind(number, &arguments).map(|kind| name(number, kind))
    }

    #[test]
    fn arguments_tell_kinds() {
        let no_wait = u64::from(u32::MAX); // -1: for ever
        let table: &[(Sysno, [u64; 6], Option<&str>)] = &[
            (Sysno::epoll_ctl, [4, 3, 9, 0, 0, 0], Some("MOD")),
            (Sysno::fcntl, [4, 4, 0x800, 0, 0, 0], Some("F_SETFL")),
            (Sysno::fcntl, [4, 77, 0, 0, 0, 0], Some("0x4d")),
            (Sysno::ioctl, [4, 0x5421, 0, 0, 0, 0], Some("FIONBIO")),
            (Sysno::setsockopt, [4, 6, 1, 0, 0, 0], Some("TCP_NODELAY")),
            (Sysno::setsockopt, [4, 41, 26, 0, 0, 0], Some("41:26")),
            (Sysno::epoll_pwait, [4, 0, 64, 0, 0, 0], Some("zero")),
            (Sysno::epoll_pwait, [4, 0, 64, no_wait, 0, 0], Some("waiting")),
            (Sysno::epoll_pwait2, [4, 0, 64, 0, 0, 0], Some("waiting")),
            (Sysno::epoll_pwait2, [4, 0, 64, 0x7fff_0000, 0, 0], None),
            (Sysno::read, [4, 0, 64, 0, 0, 0], None),
        ];
        for (call, arguments, expected) in table {
            assert_eq!(kind_of(*call, *arguments).as_deref(), *expected, "{call} {arguments:?}");
        }
    }
}
