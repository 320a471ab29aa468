//! What a process does to be a service: the background, its number in a file, its manager, those
//! before it.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use fulmar_sys::{self as sys, Fork, StandardStream, Target};

use crate::gateway::hand_over_name;

/// Which process this is, once one of two is in the background.
#[derive(Debug)]
pub enum Background {
    /// The one that was started, with the status that it is to end with: the other has begun its
    /// work, or could not.
    Front(u8),
    /// The one that works.
    Back(Waiting),
}

/// Somebody waits in the foreground until it is known whether the work could begin.
#[derive(Debug)]
pub struct Waiting(File);

/// Doubles this process, which must have no other thread yet, and waits in the foreground until
/// the other one says that it works ([`Waiting::dismiss`]), or ends.
///
/// # Errors
/// As `fork(2)`, `pipe(2)` and `setsid(2)` say.
pub fn background() -> io::Result<Background> {
    let (reader, writer) = sys::pipe()?;
    match sys::fork()? {
        Fork::Child => {
            sys::close(reader);
            sys::set_session()?;
            Ok(Background::Back(Waiting(writer.into())))
        }
        Fork::Parent(_) => {
            sys::close(writer);
            let mut status = [1]; // what an end without a word means
            let _ = waiting(reader).read(&mut status);
            Ok(Background::Front(status[0]))
        }
    }
}

/// A pipe's reader that waits.
fn waiting(reader: OwnedFd) -> impl Read {
    struct Patient(File);
    impl Read for Patient {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let mut entries = [sys::PollEntry::reading(self.0.as_fd())];
            while let Err(error) = sys::poll(&mut entries, None) {
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
            self.0.read(buffer)
        }
    }
    Patient(reader.into())
}

impl Waiting {
    /// It works: whoever waits may go, and from now on there is no terminal to talk to.
    ///
    /// # Errors
    /// There is no `/dev/null`.
    pub fn dismiss(mut self) -> io::Result<()> {
        leave_terminal()?;
        let _ = self.0.write_all(&[0]); // whoever waited may have been interrupted
        Ok(())
    }
}

/// From now on there is no terminal to talk to, and nothing to be read.
///
/// # Errors
/// There is no `/dev/null`.
pub fn leave_terminal() -> io::Result<()> {
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    [StandardStream::In, StandardStream::Out, StandardStream::Error]
        .into_iter()
        .try_for_each(|stream| sys::redirect(stream, nothing.as_fd()))
}

/// Writes the number of this process to a file (`-p`, `pidfile`). It stays there at the end.
///
/// # Errors
/// It cannot be written.
pub fn write_pidfile(path: &Path) -> io::Result<()> {
    fs::write(path, format!("{}\n", std::process::id()))
}

/// Whoever started us as a service of its, and wants to hear how it is going (`sd_notify(3)`).
#[derive(Debug)]
pub struct Notify(OwnedFd);

impl Notify {
    /// As `NOTIFY_SOCKET` says; `None` if nobody wants to hear, or nobody is there.
    pub fn from_environment() -> Option<Self> {
        let path = PathBuf::from(env::var_os("NOTIFY_SOCKET")?);
        let socket = sys::unix_datagram_socket().ok()?;
        sys::connect_unix(socket.as_fd(), &path).ok()?;
        Some(Self(socket))
    }

    /// It serves, as the process of this number sees it.
    pub fn ready(&self, status: &str) {
        let process = std::process::id();
        self.say(&format!("READY=1\nMAINPID={process}\nSTATUS={status}\n"));
    }

    /// It begins to read its configuration anew.
    pub fn reloading(&self) {
        self.say("RELOADING=1\nSTATUS=Reloading\n");
    }

    /// It begins to end.
    pub fn stopping(&self) {
        self.say("STOPPING=1\n");
    }

    fn say(&self, text: &str) {
        let _ = sys::send(self.0.as_fd(), text.as_bytes(), false); // it does not listen: so be it
    }
}

/// Where the processes before us hand their listeners over: those of these numbers, after the one
/// that listens at `socket` (`-x`), if it can be asked who it is.
pub fn predecessors(pids: &[u32], socket: Option<&Path>) -> Vec<PathBuf> {
    let at_socket = socket.and_then(|path| {
        let stream = sys::unix_socket().ok()?;
        sys::connect_unix(stream.as_fd(), path).ok()?;
        sys::peer_process(stream.as_fd()).ok().filter(|process| *process > 0)
    });
    at_socket.into_iter().chain(pids.iter().copied()).map(hand_over_name).collect()
}

/// Sends a signal to each of these processes; who is gone already needs none.
pub fn signal_all(pids: &[u32], signal: i32) {
    for target in pids.iter().filter_map(|pid| Target::process(*pid)) {
        let _ = sys::send_signal(target, signal);
    }
}
