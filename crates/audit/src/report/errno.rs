//! The names of `errno(3)`.

use std::borrow::Cow;

macro_rules! names {
    ($($name:ident)*) => {
        const NAMES: &[(i32, &str)] = &[$((libc::$name, stringify!($name))),*];
    };
}

names! {
    EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT
    ENOTBLK EBUSY EEXIST EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG
    ENOSPC ESPIPE EROFS EMLINK EPIPE EDOM ERANGE EDEADLK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP
    EPROTO EBADMSG EOVERFLOW EILSEQ ENOTSOCK EDESTADDRREQ EMSGSIZE EPROTOTYPE ENOPROTOOPT
    EPROTONOSUPPORT ESOCKTNOSUPPORT EOPNOTSUPP EPFNOSUPPORT EAFNOSUPPORT EADDRINUSE EADDRNOTAVAIL
    ENETDOWN ENETUNREACH ENETRESET ECONNABORTED ECONNRESET ENOBUFS EISCONN ENOTCONN ESHUTDOWN
    ETIMEDOUT ECONNREFUSED EHOSTDOWN EHOSTUNREACH EALREADY EINPROGRESS ESTALE EDQUOT ECANCELED
}

/// Internal error numbers: the kernel restarts the call after a signal (linux/errno.h).
const RESTARTS: &[(i32, &str)] = &[
    (512, "ERESTARTSYS"),
    (513, "ERESTARTNOINTR"),
    (514, "ERESTARTNOHAND"),
    (516, "ERESTART_RESTARTBLOCK"),
];

/// The name of an error; `E` and the number if it has none here.
pub(crate) fn name(errno: i32) -> Cow<'static, str> {
    let known = all().find(|(number, _)| *number == errno);
    known.map_or_else(|| format!("E{errno}").into(), |(_, name)| name.into())
}

/// The inverse of [`name`].
pub(crate) fn number(name: &str) -> Option<i32> {
    let known = all().find(|(_, known)| *known == name);
    known.map(|(number, _)| number).or_else(|| {
        let number = name.strip_prefix('E')?.parse().ok()?;
        (number > 0).then_some(number)
    })
}

/// The error of calls that had nothing to do.
pub(crate) const EAGAIN: i32 = libc::EAGAIN;

fn all() -> impl Iterator<Item = (i32, &'static str)> {
    NAMES.iter().chain(RESTARTS).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_name_of_its_own() {
        for errno in 1..600 {
            assert_eq!(number(&name(errno)), Some(errno));
        }
        assert_eq!((&*name(11), &*name(512), &*name(599)), ("EAGAIN", "ERESTARTSYS", "E599"));
        for bad in ["", "E", "E0", "E-1", "EWHAT", "11"] {
            assert_eq!(number(bad), None, "{bad}");
        }
    }
}
