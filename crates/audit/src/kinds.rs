//! What an argument of a call asked for, by name.
//!
//! A counter that looks at arguments tells a number for each call of [`Tally::kinds`]; which
//! argument it is, `bpf/audit.bpf.c` says.
//!
//! [`Tally::kinds`]: crate::Tally::kinds

/// The name of a kind, without blanks: `MOD` of `epoll_ctl`.
pub(crate) fn name(call: &str, kind: u32) -> String {
    let (names, rest): (&[(u32, &str)], _) = match call {
        "epoll_ctl" => (OPERATIONS, "other"),
        "fcntl" => (COMMANDS, "other"),
        "ioctl" => (&[(1, "FIONBIO")], "other"),
        "setsockopt" => match OPTIONS.iter().find(|(l, o, _)| l << 16 | o == kind) {
            Some((_, _, name)) => return (*name).to_owned(),
            None => return format!("level-{}-option-{}", kind >> 16, kind & OPTION_MAX),
        },
        _ => (WAITS, "other"),
    };
    names.iter().find(|(number, _)| *number == kind).map_or(rest, |(_, name)| name).to_owned()
}

/// `epoll_ctl(2)`.
const OPERATIONS: &[(u32, &str)] = &[(1, "ADD"), (2, "DEL"), (3, "MOD")];
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
/// `enum wait` of the counter.
const WAITS: &[(u32, &str)] = &[(0, "zero"), (1, "timed"), (2, "forever")];
/// `socket(7)`, `tcp(7)`, `ip(7)`: level, option.
const OPTIONS: &[(u32, u32, &str)] = &[
    (1, 2, "SO_REUSEADDR"),
    (1, 7, "SO_SNDBUF"),
    (1, 8, "SO_RCVBUF"),
    (1, 9, "SO_KEEPALIVE"),
    (1, 13, "SO_LINGER"),
    (1, 15, "SO_REUSEPORT"),
    (1, 20, "SO_RCVTIMEO"),
    (1, 21, "SO_SNDTIMEO"),
    (6, 1, "TCP_NODELAY"),
    (6, 3, "TCP_CORK"),
    (6, 4, "TCP_KEEPIDLE"),
    (6, 5, "TCP_KEEPINTVL"),
    (6, 6, "TCP_KEEPCNT"),
    (6, 9, "TCP_DEFER_ACCEPT"),
    (6, 12, "TCP_QUICKACK"),
    (6, 18, "TCP_USER_TIMEOUT"),
    (6, 23, "TCP_FASTOPEN"),
    (6, 30, "TCP_FASTOPEN_CONNECT"),
    (6, 31, "TCP_ULP"),
    (0, 24, "IP_BIND_ADDRESS_NO_PORT"),
    (41, 26, "IPV6_V6ONLY"),
];
const OPTION_MAX: u32 = 0xffff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_the_names_of_the_manual_pages() {
        for (call, kind, expected) in [
            ("epoll_ctl", 3, "MOD"),
            ("epoll_ctl", 9, "other"),
            ("fcntl", 4, "F_SETFL"),
            ("fcntl", 99, "other"),
            ("ioctl", 1, "FIONBIO"),
            ("ioctl", 0, "other"),
            ("setsockopt", 6 << 16 | 1, "TCP_NODELAY"),
            ("setsockopt", 1 << 16 | 999, "level-1-option-999"),
            ("epoll_wait", 0, "zero"),
            ("poll", 2, "forever"),
        ] {
            assert_eq!(name(call, kind), expected);
        }
        let words = OPTIONS.iter().map(|row| row.2).chain(COMMANDS.iter().map(|row| row.1));
        assert!(words.into_iter().all(|word| !word.contains([' ', '='])), "records cut there");
    }
}
