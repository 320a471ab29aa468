//! Sockets that the service manager has opened for us (`sd_listen_fds(3)`).

use std::error;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::{env, process, str};

use fulmar_sys as sys;

use crate::listen::Listen;

/// Listening sockets that this process was started with, by name: systemd's socket activation.
///
/// systemd (or `systemd-socket-activate`, or another parent) opens sockets, leaves them open from
/// descriptor 3 on, and describes them in `LISTEN_PID`, `LISTEN_FDS` and `LISTEN_FDNAMES`. A
/// socket's name is `FileDescriptorName=` of its unit, or the unit's name. Between two runs of a
/// service its sockets stay open, so a restart loses no connection.
///
/// ```
/// use fulmar_host::{Activation, Listen};
/// let mut activation = Activation::from_environment()?;
/// let listen = match activation.take("web") {
///     Some(listen) => listen,
///     None => Listen::tcp("127.0.0.1:8080".parse().unwrap()), // started by hand
/// };
/// # Ok::<(), fulmar_host::ActivationError>(())
/// ```
#[derive(Debug, Default)]
pub struct Activation {
    sockets: Vec<(String, OwnedFd)>,
}

impl Activation {
    /// Takes over what this process was given; nothing, if nothing was meant for it. A second call
    /// fails as long as the variables are there.
    ///
    /// Children do not inherit the sockets. If no other thread runs yet, the variables are
    /// removed; otherwise no thread may change the environment, and children see from `LISTEN_PID`
    /// that others were meant.
    ///
    /// # Errors
    /// The variables contradict each other, or the descriptors.
    pub fn from_environment() -> Result<Self, ActivationError> {
        let [pid, count, names] = VARIABLES.map(env::var_os);
        let told = ActivationVariables {
            pid: pid.as_deref(),
            count: count.as_deref(),
            names: names.as_deref(),
        };
        let names = told.names_for(process::id())?;
        let mut sockets = Vec::new();
        for (name, number) in names.into_iter().zip(FIRST..) {
            let socket = sys::inherited(number)
                .map_err(|error| ActivationError::Descriptor { number, error })?;
            sockets.push((name, socket));
        }
        if !sockets.is_empty() {
            sys::forget_environment(&VARIABLES);
        }
        Ok(Self { sockets })
    }

    /// The names that are left, in the order of the descriptors; several sockets may have one.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.sockets.iter().map(|(name, _)| name.as_str())
    }

    /// All sockets of this name, which are bound to one address, such as those of a unit with
    /// `ReusePort=`. `None` if there are none.
    pub fn take(&mut self, name: &str) -> Option<Listen> {
        let sockets: Vec<OwnedFd> =
            self.sockets.extract_if(.., |(its, _)| its == name).map(|(_, socket)| socket).collect();
        (!sockets.is_empty()).then(|| Listen::inherited_all(sockets))
    }

    /// The socket of the lowest descriptor that is left, with its name: for a program that takes
    /// whatever it is given.
    pub fn take_next(&mut self) -> Option<(String, Listen)> {
        let mut next = self.sockets.drain(..self.sockets.len().min(1));
        next.next().map(|(name, socket)| (name, Listen::inherited(socket)))
    }
}

/// The values of the variables.
#[derive(Clone, Copy, Debug, Default)]
struct ActivationVariables<'a> {
    pid: Option<&'a OsStr>,
    count: Option<&'a OsStr>,
    names: Option<&'a OsStr>,
}

impl ActivationVariables<'_> {
    /// A name for each descriptor from [`FIRST`] on; none, if this process is not meant.
    fn names_for(self, us: u32) -> Result<Vec<String>, ActivationError> {
        let (Some(pid), Some(count)) = (self.pid, self.count) else {
            return Ok(Vec::new());
        };
        let pid: u32 = number(pid).ok_or(ActivationError::Pid)?;
        if pid != us {
            return Ok(Vec::new()); // our parent was meant
        }
        let count = number(count).filter(|count| *count <= SOCKETS_MAX);
        let count = usize::try_from(count.ok_or(ActivationError::Count)?).expect("a small number");
        let Some(names) = self.names else {
            return Ok(vec![UNKNOWN.to_owned(); count]);
        };
        let names = names.to_str().ok_or(ActivationError::Names { names: 0, count })?;
        let names: Vec<String> = match (names, count) {
            ("", 0) => Vec::new(),
            (names, _) => names.split(':').map(str::to_owned).collect(),
        };
        if names.len() != count {
            return Err(ActivationError::Names { names: names.len(), count });
        }
        Ok(names)
    }
}

/// Digits, and nothing else.
fn number(text: &OsStr) -> Option<u32> {
    let text = str::from_utf8(text.as_bytes()).ok()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// The description of the sockets in the environment is wrong.
#[derive(Debug)]
#[non_exhaustive]
pub enum ActivationError {
    /// `LISTEN_PID` is no process's number.
    Pid,
    /// `LISTEN_FDS` is no number, or too large.
    Count,
    /// `LISTEN_FDNAMES` and `LISTEN_FDS` differ in the number of descriptors.
    Names {
        /// How many it names.
        names: usize,
        /// How many there should be.
        count: usize,
    },
    /// One of the descriptors is not open, or has been taken over before.
    Descriptor {
        /// Which one.
        number: RawFd,
        /// What is wrong with it.
        error: io::Error,
    },
}

impl fmt::Display for ActivationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("socket activation: ")?;
        match self {
            Self::Pid => f.write_str("LISTEN_PID is not the number of a process"),
            Self::Count => write!(f, "LISTEN_FDS is not a number up to {SOCKETS_MAX}"),
            Self::Names { names, count } => {
                write!(f, "LISTEN_FDNAMES has {names} names, and LISTEN_FDS is {count}")
            }
            Self::Descriptor { number, error } => write!(f, "descriptor {number}: {error}"),
        }
    }
}

impl error::Error for ActivationError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Descriptor { error, .. } => Some(error),
            Self::Pid | Self::Count | Self::Names { .. } => None,
        }
    }
}

impl From<ActivationError> for io::Error {
    fn from(error: ActivationError) -> Self {
        Self::new(io::ErrorKind::InvalidInput, error)
    }
}

const VARIABLES: [&str; 3] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"];
/// `SD_LISTEN_FDS_START`.
const FIRST: RawFd = 3;
/// Far more than any unit has; descriptors beyond it were hardly meant.
const SOCKETS_MAX: u32 = 4_096;
/// As `sd_listen_fds_with_names(3)` has it.
const UNKNOWN: &str = "unknown";

#[cfg(test)]
mod tests {
    use super::*;

    fn names(pid: &str, count: &str, names: Option<&str>) -> Result<Vec<String>, String> {
        let told = ActivationVariables {
            pid: Some(pid.as_ref()),
            count: Some(count.as_ref()),
            names: names.map(AsRef::as_ref),
        };
        told.names_for(7).map_err(|error| error.to_string())
    }

    #[test]
    fn each_descriptor_has_a_name() {
        assert_eq!(names("7", "2", Some("a:b")), Ok(vec!["a".into(), "b".into()]));
        assert_eq!(names("7", "2", Some("a:a")), Ok(vec!["a".into(), "a".into()]));
        assert_eq!(names("7", "2", Some("a:")), Ok(vec!["a".into(), String::new()]));
        assert_eq!(names("7", "2", None), Ok(vec!["unknown".into(), "unknown".into()]));
        assert_eq!(names("7", "0", Some("")), Ok(vec![]));
        assert_eq!(names("7", "0", None), Ok(vec![]));
    }

    #[test]
    fn what_was_meant_for_others_is_nothing() {
        assert_eq!(names("8", "2", Some("nonsense")), Ok(vec![]));
        assert_eq!(names("8", "nonsense", None), Ok(vec![]));
        let (pid, count) = (Some("7".as_ref()), Some("1".as_ref()));
        for told in [
            ActivationVariables::default(),
            ActivationVariables { pid, ..ActivationVariables::default() },
            ActivationVariables { count, ..ActivationVariables::default() },
        ] {
            assert!(told.names_for(7).unwrap().is_empty());
        }
    }

    #[test]
    fn contradictions_are_said() {
        for (pid, count, given, why) in [
            ("", "1", None, "LISTEN_PID"),
            ("+7", "1", None, "LISTEN_PID"),
            (" 7", "1", None, "LISTEN_PID"),
            ("7x", "1", None, "LISTEN_PID"),
            ("99999999999", "1", None, "LISTEN_PID"),
            ("7", "", None, "LISTEN_FDS"),
            ("7", "-1", None, "LISTEN_FDS"),
            ("7", "1 ", None, "LISTEN_FDS"),
            ("7", "4097", None, "LISTEN_FDS"),
            ("7", "1", Some("a:b"), "2 names"),
            ("7", "3", Some("a:b"), "2 names"),
            ("7", "0", Some("a"), "1 names"),
        ] {
            let error = names(pid, count, given).unwrap_err();
            assert!(error.contains(why), "{pid} {count} {given:?}: {error}");
        }
    }
}
