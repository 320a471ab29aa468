//! The flags of `MHD_start_daemon` (`enum MHD_FLAG`): which combinations start, and which flags
//! `MHD_DAEMON_INFO_FLAGS` reports then.

use std::fmt;

/// Flags of a daemon. Unknown bits are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DaemonFlags(pub u32);

/// Why a daemon does not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlagRefusal {
    /// `MHD_USE_TLS` in a build without TLS.
    NoTls,
    /// `MHD_USE_POLL` without a thread of the daemon.
    PollWithoutThread,
    /// `MHD_USE_EPOLL` with a thread for each connection.
    EpollPerConnection,
    /// `MHD_USE_POLL` and `MHD_USE_EPOLL`.
    PollAndEpoll,
    /// `MHD_USE_AUTO` with one of them.
    AutoAndChosen,
}

impl DaemonFlags {
    /// `MHD_USE_ERROR_LOG`.
    pub const ERROR_LOG: Self = Self(1);
    /// `MHD_USE_TLS`.
    pub const TLS: Self = Self(1 << 1);
    /// `MHD_USE_THREAD_PER_CONNECTION`.
    pub const THREAD_PER_CONNECTION: Self = Self(1 << 2);
    /// `MHD_USE_INTERNAL_POLLING_THREAD`.
    pub const INTERNAL_THREAD: Self = Self(1 << 3);
    /// `MHD_USE_IPv6`.
    pub const IPV6: Self = Self(1 << 4);
    /// `MHD_USE_POLL`.
    pub const POLL: Self = Self(1 << 6);
    /// `MHD_USE_SUPPRESS_DATE_NO_CLOCK`.
    pub const SUPPRESS_DATE: Self = Self(1 << 7);
    /// `MHD_USE_NO_LISTEN_SOCKET`.
    pub const NO_LISTEN_SOCKET: Self = Self(1 << 8);
    /// `MHD_USE_EPOLL`.
    pub const EPOLL: Self = Self(1 << 9);
    /// `MHD_USE_ITC`: other threads wake the daemon.
    pub const WAKER: Self = Self(1 << 10);
    /// The bit of `MHD_USE_DUAL_STACK` beside `MHD_USE_IPv6`.
    pub const DUAL_STACK: Self = Self(1 << 11);
    /// `MHD_USE_TURBO`.
    pub const TURBO: Self = Self(1 << 12);
    /// The bit of `MHD_ALLOW_SUSPEND_RESUME` beside `MHD_USE_ITC`.
    pub const SUSPEND_RESUME: Self = Self(1 << 13);
    /// `MHD_USE_TCP_FASTOPEN`.
    pub const TCP_FASTOPEN: Self = Self(1 << 14);
    /// `MHD_ALLOW_UPGRADE`.
    pub const UPGRADE: Self = Self(1 << 15);
    /// `MHD_USE_AUTO`.
    pub const AUTO: Self = Self(1 << 16);

    /// True if all bits of the other are set.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The flags in effect.
    ///
    /// # Errors
    /// [`FlagRefusal`].
    pub fn resolve(self, has_tls: bool) -> Result<Self, FlagRefusal> {
        let mut flags = self;
        if flags.has(Self::TLS) && !has_tls {
            return Err(FlagRefusal::NoTls);
        }
        if flags.has(Self::THREAD_PER_CONNECTION) {
            flags = flags.with(Self::INTERNAL_THREAD);
        }
        if flags.has(Self::AUTO) {
            if flags.has(Self::POLL) || flags.has(Self::EPOLL) {
                return Err(FlagRefusal::AutoAndChosen);
            }
            let per_connection = flags.has(Self::THREAD_PER_CONNECTION);
            flags = flags.with(if per_connection { Self::POLL } else { Self::EPOLL });
        }
        if flags.has(Self::POLL) && flags.has(Self::EPOLL) {
            return Err(FlagRefusal::PollAndEpoll);
        }
        if flags.has(Self::EPOLL) && flags.has(Self::THREAD_PER_CONNECTION) {
            return Err(FlagRefusal::EpollPerConnection);
        }
        if flags.has(Self::POLL) && !flags.has(Self::INTERNAL_THREAD) {
            return Err(FlagRefusal::PollWithoutThread);
        }
        if flags.has(Self::UPGRADE) {
            flags = flags.with(Self::SUSPEND_RESUME);
        }
        if !flags.has(Self::INTERNAL_THREAD) {
            flags.0 &= !Self::WAKER.0;
        } else if flags.has(Self::NO_LISTEN_SOCKET) || flags.has(Self::UPGRADE) {
            flags = flags.with(Self::WAKER);
        }
        Ok(flags)
    }

    fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for FlagRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoTls => "MHD_USE_TLS: this build has no TLS",
            Self::PollWithoutThread => "MHD_USE_POLL needs MHD_USE_INTERNAL_POLLING_THREAD",
            Self::EpollPerConnection => {
                "MHD_USE_EPOLL and MHD_USE_THREAD_PER_CONNECTION exclude each other"
            }
            Self::AutoAndChosen => "MHD_USE_AUTO excludes MHD_USE_POLL and MHD_USE_EPOLL",
            Self::PollAndEpoll => "MHD_USE_POLL and MHD_USE_EPOLL exclude each other",
        })
    }
}

impl std::error::Error for FlagRefusal {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requested and reported flags, from daemons without TLS; `None` if NULL was returned.
    const RECORDED: &[(u32, Option<u32>)] = &[
        (0x1, Some(0x1)),
        (0x2, None),
        (0x4, Some(0xc)),
        (0x8, Some(0x8)),
        (0x10, Some(0x10)),
        (0x20, Some(0x20)),
        (0x40, None),
        (0x80, Some(0x80)),
        (0x100, Some(0x100)),
        (0x200, Some(0x200)),
        (0x400, Some(0x0)),
        (0x800, Some(0x800)),
        (0x1000, Some(0x1000)),
        (0x2000, Some(0x2000)),
        (0x4000, Some(0x4000)),
        (0x8000, Some(0xa000)),
        (0x10000, Some(0x10200)),
        (0x20000, Some(0x20000)),
        (0x40000, Some(0x40000)),
        (0x9, Some(0x9)),
        (0xa, None),
        (0xc, Some(0xc)),
        (0x18, Some(0x18)),
        (0x28, Some(0x28)),
        (0x48, Some(0x48)),
        (0x88, Some(0x88)),
        (0x108, Some(0x508)),
        (0x208, Some(0x208)),
        (0x408, Some(0x408)),
        (0x808, Some(0x808)),
        (0x1008, Some(0x1008)),
        (0x2008, Some(0x2008)),
        (0x4008, Some(0x4008)),
        (0x8008, Some(0xa408)),
        (0x10008, Some(0x10208)),
        (0x20008, Some(0x20008)),
        (0x40008, Some(0x40008)),
        (0x0, Some(0x0)),
        (0x4c, Some(0x4c)),
        (0x248, None),
        (0x204, None),
        (0x20c, None),
        (0x1000c, Some(0x1004c)),
        (0x810, Some(0x810)),
        (0x80000, Some(0x80000)),
        (0x40000000, Some(0x40000000)),
        (0x800c, Some(0xa40c)),
        (0x240, None),
        (0x4048, Some(0x4048)),
        (0x2200, Some(0x2200)),
        (0x10c, Some(0x50c)),
        (0x2400, Some(0x2000)),
        (0x2408, Some(0x2408)),
        (0x240c, Some(0x240c)),
        (0x8400, Some(0xa000)),
        (0x500, Some(0x100)),
        (0x508, Some(0x508)),
        (0x10100, Some(0x10300)),
        (0x10108, Some(0x10708)),
        (0x10040, None),
        (0x10048, None),
        (0x10208, None),
        (0x1020c, None),
        (0x1004c, None),
        (0x18008, Some(0x1a608)),
        (0x12408, Some(0x12608)),
        (0x10404, Some(0x1044c)),
        (0x140, None),
        (0x44, Some(0x4c)),
        (0x8c, Some(0x8c)),
        (0x20000008, Some(0x20000008)),
        (0x2404, Some(0x240c)),
    ];

    #[test]
    fn flags_are_resolved_as_by_the_original() {
        for (requested, reported) in RECORDED {
            let resolved = DaemonFlags(*requested).resolve(false);
            assert_eq!(resolved.ok(), reported.map(DaemonFlags), "{requested:#x}");
        }
    }

    #[test]
    fn refusals_name_their_cause() {
        let refusal = |flags: u32| DaemonFlags(flags).resolve(false).unwrap_err();
        assert_eq!(refusal(0x2), FlagRefusal::NoTls);
        assert_eq!(refusal(0x40), FlagRefusal::PollWithoutThread);
        assert_eq!(refusal(0x204), FlagRefusal::EpollPerConnection);
        assert_eq!(refusal(0x248), FlagRefusal::PollAndEpoll);
        assert_eq!(refusal(0x10048), FlagRefusal::AutoAndChosen);
        assert_eq!(DaemonFlags(0xa).resolve(true), Ok(DaemonFlags(0xa)));
    }
}
