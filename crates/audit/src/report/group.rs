//! Groups of calls with the same purpose.

use crate::counts::CallCounts;

/// The purpose of a call in a program that moves bytes between sockets. Each call is in one group,
/// so the groups of a run add up to all of its calls. A group with the name of a call contains only
/// that call and its variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallGroup {
    /// Waits until something is ready; submits to a ring and reaps from it.
    Wait,
    /// Changes what to wait for: `epoll_ctl`.
    Watch,
    /// `accept4` and `accept`.
    Accept,
    /// `connect`.
    Connect,
    /// Reads.
    Receive,
    /// Writes.
    Send,
    /// Moves bytes without copying them to the program: `splice`, `tee`, `vmsplice`.
    Splice,
    /// `close` and `close_range`.
    Close,
    /// Creates, configures and shuts down descriptors: `socket`, `shutdown`, `setsockopt`, `fcntl`.
    Sockets,
    /// Opens, examines and changes files.
    Files,
    /// Allocates and frees memory.
    Memory,
    /// Starts, ends and waits for threads.
    Threads,
    /// Sends signals and configures their handling.
    Signals,
    /// Reads the clock and sleeps.
    Clock,
    /// Everything else.
    Other,
}

impl CallGroup {
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

    /// The group with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.name() == name)
    }

    /// The group of a call, by the kernel's name.
    pub fn of(call: &str) -> Self {
        let member = Self::ALL.into_iter().find(|group| group.members().contains(&call));
        member.unwrap_or(Self::Other)
    }

    /// The number of calls in this group.
    pub fn count(self, counts: &CallCounts) -> u64 {
        let ours = counts.calls.iter().filter(|(name, _)| Self::of(name) == self);
        ours.map(|(_, tally)| tally.count).sum()
    }

    fn members(self) -> &'static [&'static str] {
        MEMBERS.iter().find(|(group, _)| *group == self).map_or(&[], |(_, members)| members)
    }
}

/// The calls of each group except `other`.
const MEMBERS: &[(CallGroup, &[&str])] = &[
    (
        CallGroup::Wait,
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
    (CallGroup::Watch, &["epoll_ctl", "epoll_create", "epoll_create1"]),
    (CallGroup::Accept, &["accept", "accept4"]),
    (CallGroup::Connect, &["connect"]),
    (
        CallGroup::Receive,
        &["read", "readv", "preadv", "preadv2", "pread64", "recvfrom", "recvmsg", "recvmmsg"],
    ),
    (
        CallGroup::Send,
        &[
            "write", "writev", "pwrite64", "pwritev", "pwritev2", "sendto", "sendmsg", "sendmmsg",
            "sendfile",
        ],
    ),
    (CallGroup::Splice, &["splice", "tee", "vmsplice"]),
    (CallGroup::Close, &["close", "close_range"]),
    (
        CallGroup::Sockets,
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
        CallGroup::Files,
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
    (CallGroup::Memory, &["mmap", "munmap", "mremap", "mprotect", "madvise", "brk"]),
    (
        CallGroup::Threads,
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
        CallGroup::Signals,
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
        CallGroup::Clock,
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
        for group in CallGroup::ALL {
            assert_eq!(CallGroup::named(group.name()), Some(group));
            for call in group.members() {
                assert!(seen.insert(*call), "{call} is in two groups");
                assert_eq!(CallGroup::of(call), group);
            }
        }
        assert_eq!(
            (CallGroup::of("getpid"), CallGroup::named("accept4")),
            (CallGroup::Other, None)
        );
    }

    #[test]
    fn a_group_named_like_a_call_contains_that_call() {
        for group in CallGroup::ALL {
            let namesake = CallGroup::of(group.name());
            assert!(namesake == group || namesake == CallGroup::Other, "{}", group.name());
        }
    }

    #[test]
    fn groups_add_up_to_all_calls() {
        let counts = counts(&[("recvfrom", 7), ("accept", 1), ("accept4", 2), ("getpid", 4)]);
        let sums: Vec<_> = CallGroup::ALL.iter().map(|group| group.count(&counts)).collect();
        assert_eq!(sums.iter().sum::<u64>(), counts.total());
        assert_eq!((CallGroup::Accept.count(&counts), CallGroup::Receive.count(&counts)), (3, 7));
    }
}
