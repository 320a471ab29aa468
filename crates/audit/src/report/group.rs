//! Calls that do the same thing, whatever they are called.

use crate::counts::Counts;

/// What a call does for a program that moves bytes between sockets. Each call is in one group, so
/// the groups of a run add up to all of its calls. A group that is named as a call holds that call
/// and its variants only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Waits until something is ready; submits to a ring and reaps from it.
    Wait,
    /// Says what to wait for: `epoll_ctl`.
    Watch,
    /// `accept4` and `accept`.
    Accept,
    /// `connect`.
    Connect,
    /// Reads.
    Receive,
    /// Writes.
    Send,
    /// Moves bytes without showing them: `splice`, `tee`, `vmsplice`.
    Splice,
    /// `close` and `close_range`.
    Close,
    /// Makes, names, ends and sets up descriptors: `socket`, `shutdown`, `setsockopt`, `fcntl`.
    Sockets,
    /// Opens, looks at and moves about in files.
    Files,
    /// Asks for memory and gives it back.
    Memory,
    /// Waits for threads, starts and ends them.
    Threads,
    /// Signals, and what is to happen at one.
    Signals,
    /// Asks what time it is, and sleeps until one.
    Clock,
    /// Everything else.
    Other,
}

impl Group {
    /// In the order of a connection's life.
    pub const ALL: [Self; 15] = [
        Self::Wait,
        Self::Watch,
        Self::Accept,
        Self::Connect,
        Self::Receive,
        Self::Send,
        Self::Splice,
        Self::Close,
        Self::Sockets,
        Self::Files,
        Self::Memory,
        Self::Threads,
        Self::Signals,
        Self::Clock,
        Self::Other,
    ];

    /// Its name in reports and budgets.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Watch => "watch",
            Self::Accept => "accept",
            Self::Connect => "connect",
            Self::Receive => "receive",
            Self::Send => "send",
            Self::Splice => "splice",
            Self::Close => "close",
            Self::Sockets => "sockets",
            Self::Files => "files",
            Self::Memory => "memory",
            Self::Threads => "threads",
            Self::Signals => "signals",
            Self::Clock => "clock",
            Self::Other => "other",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.name() == name)
    }

    /// The group of a call, by the kernel's name.
    pub fn of(call: &str) -> Self {
        let member = Self::ALL.into_iter().find(|group| group.members().contains(&call));
        member.unwrap_or(Self::Other)
    }

    /// How often its calls were made.
    pub fn count(self, counts: &Counts) -> u64 {
        let ours = counts.calls.iter().filter(|(name, _)| Self::of(name) == self);
        ours.map(|(_, tally)| tally.count).sum()
    }

    fn members(self) -> &'static [&'static str] {
        MEMBERS.iter().find(|(group, _)| *group == self).map_or(&[], |(_, members)| members)
    }
}

/// Whose calls are not `other`.
const MEMBERS: &[(Group, &[&str])] = &[
    (
        Group::Wait,
        &[
            "epoll_wait",
            "epoll_pwait",
            "epoll_pwait2",
            "poll",
            "ppoll",
            "select",
            "pselect6",
            "io_uring_enter",
            "io_getevents",
            "io_pgetevents",
        ],
    ),
    (Group::Watch, &["epoll_ctl", "epoll_create", "epoll_create1"]),
    (Group::Accept, &["accept", "accept4"]),
    (Group::Connect, &["connect"]),
    (
        Group::Receive,
        &["read", "readv", "preadv", "preadv2", "pread64", "recvfrom", "recvmsg", "recvmmsg"],
    ),
    (
        Group::Send,
        &[
            "write", "writev", "pwrite64", "pwritev", "pwritev2", "sendto", "sendmsg", "sendmmsg",
            "sendfile",
        ],
    ),
    (Group::Splice, &["splice", "tee", "vmsplice"]),
    (Group::Close, &["close", "close_range"]),
    (
        Group::Sockets,
        &[
            "socket",
            "socketpair",
            "bind",
            "listen",
            "shutdown",
            "getsockname",
            "getpeername",
            "setsockopt",
            "getsockopt",
            "fcntl",
            "ioctl",
            "dup",
            "dup2",
            "dup3",
            "pipe",
            "pipe2",
            "eventfd",
            "eventfd2",
            "timerfd_create",
            "timerfd_settime",
            "io_uring_setup",
            "io_uring_register",
        ],
    ),
    (
        Group::Files,
        &[
            "open",
            "openat",
            "openat2",
            "creat",
            "stat",
            "lstat",
            "fstat",
            "newfstatat",
            "statx",
            "access",
            "faccessat",
            "faccessat2",
            "readlink",
            "readlinkat",
            "getdents",
            "getdents64",
            "lseek",
            "fadvise64",
            "ftruncate",
            "fallocate",
            "fsync",
            "fdatasync",
            "unlink",
            "unlinkat",
            "rename",
            "renameat",
            "renameat2",
            "mkdir",
            "mkdirat",
            "statfs",
            "fstatfs",
        ],
    ),
    (Group::Memory, &["mmap", "munmap", "mremap", "mprotect", "madvise", "brk"]),
    (
        Group::Threads,
        &[
            "futex",
            "clone",
            "clone3",
            "fork",
            "vfork",
            "execve",
            "wait4",
            "waitid",
            "sched_yield",
            "set_robust_list",
            "rseq",
            "membarrier",
        ],
    ),
    (
        Group::Signals,
        &[
            "rt_sigaction",
            "rt_sigprocmask",
            "rt_sigreturn",
            "rt_sigpending",
            "rt_sigtimedwait",
            "rt_sigsuspend",
            "sigaltstack",
            "signalfd",
            "signalfd4",
            "kill",
            "tkill",
            "tgkill",
        ],
    ),
    (
        Group::Clock,
        &["clock_gettime", "clock_getres", "gettimeofday", "time", "clock_nanosleep", "nanosleep"],
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::report::run::tests::counts;

    #[test]
    fn every_call_is_in_one_group() {
        let mut seen = BTreeSet::new();
        for group in Group::ALL {
            assert_eq!(Group::named(group.name()), Some(group));
            for call in group.members() {
                assert!(seen.insert(*call), "{call} is in two groups");
                assert_eq!(Group::of(call), group);
            }
        }
        assert_eq!((Group::of("getpid"), Group::named("accept4")), (Group::Other, None));
    }

    #[test]
    fn a_name_that_a_group_and_a_call_share_means_that_call() {
        for group in Group::ALL {
            let namesake = Group::of(group.name());
            assert!(namesake == group || namesake == Group::Other, "{}", group.name());
        }
    }

    #[test]
    fn groups_add_up_to_all_calls() {
        let counts = counts(&[("recvfrom", 7), ("accept", 1), ("accept4", 2), ("getpid", 4)]);
        let sums: Vec<_> = Group::ALL.iter().map(|group| group.count(&counts)).collect();
        assert_eq!(sums.iter().sum::<u64>(), counts.total());
        assert_eq!((Group::Accept.count(&counts), Group::Receive.count(&counts)), (3, 7));
    }
}
