//! Running as a service: background process, pidfile, service manager, previous processes.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use fulmar_sys::{self as sys, Fork, StandardStream, Target};

use crate::gateway::hand_over_name;

/// Which of the two processes this is after the fork.
#[derive(Debug)]
pub enum Background {
    /// The parent in the foreground, with its exit status: the child has started, or has failed.
    Front(u8),
    /// The child in the background.
    Back(ForegroundParent),
}

/// The pipe to the parent, which waits in the foreground until the start is complete.
#[derive(Debug)]
pub struct ForegroundParent(File);

/// Forks. The parent waits in the foreground until the child reports its start
/// ([`ForegroundParent::dismiss`]) or exits. The process must have no other thread yet.
///
/// # Errors
/// As in `fork(2)`, `pipe(2)` and `setsid(2)`.
pub fn background() -> io::Result<Background> {
    let (reader, writer) = sys::pipe()?;
    match sys::fork()? {
        Fork::Child => {
            sys::close(reader);
            sys::set_session()?;
            Ok(Background::Back(ForegroundParent(writer.into())))
        }
        Fork::Parent(_) => {
            sys::close(writer);
            let mut status = [1]; // exit status if the child sends nothing
            let _ = waiting(reader).read(&mut status);
            Ok(Background::Front(status[0]))
        }
    }
}

/// A blocking reader of the pipe.
fn waiting(reader: OwnedFd) -> impl Read {
    struct BlockingReader(File);
    impl Read for BlockingReader {
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
    BlockingReader(reader.into())
}

impl ForegroundParent {
    /// Reports that the start is complete: the parent exits, and the process leaves its terminal.
    ///
    /// # Errors
    /// `/dev/null` cannot be opened.
    pub fn dismiss(mut self) -> io::Result<()> {
        leave_terminal()?;
        let _ = self.0.write_all(&[0]); // the parent may have been interrupted
        Ok(())
    }
}

/// Connects standard input, output and error to `/dev/null`.
///
/// # Errors
/// `/dev/null` cannot be opened.
pub fn leave_terminal() -> io::Result<()> {
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    [StandardStream::In, StandardStream::Out, StandardStream::Error]
        .into_iter()
        .try_for_each(|stream| sys::redirect(stream, nothing.as_fd()))
}

/// Writes the process number to a file (`-p`, `pidfile`). The file is not removed at exit.
///
/// # Errors
/// The file cannot be written.
pub fn write_pidfile(path: &Path) -> io::Result<()> {
    fs::write(path, format!("{}\n", std::process::id()))
}

/// The notification socket of the service manager (`sd_notify(3)`).
#[derive(Debug)]
pub struct Notify(OwnedFd);

impl Notify {
    /// The socket in `NOTIFY_SOCKET`; `None` if the variable is unset or the socket cannot be
    /// reached.
    pub fn from_environment() -> Option<Self> {
        let path = PathBuf::from(env::var_os("NOTIFY_SOCKET")?);
        let socket = sys::unix_datagram_socket().ok()?;
        sys::connect_unix(socket.as_fd(), &path).ok()?;
        Some(Self(socket))
    }

    /// Reports `READY=1` with this process as the main one.
    pub fn ready(&self, status: &str) {
        let process = std::process::id();
        self.send_state(&format!("READY=1\nMAINPID={process}\nSTATUS={status}\n"));
    }

    /// Reports that the configuration is being reloaded.
    pub fn reloading(&self) {
        self.send_state("RELOADING=1\nSTATUS=Reloading\n");
    }

    /// Reports that the process is stopping.
    pub fn stopping(&self) {
        self.send_state("STOPPING=1\n");
    }

    fn send_state(&self, text: &str) {
        // errors are ignored: the manager may be gone
        let _ = sys::send(self.0.as_fd(), text.as_bytes(), false);
    }
}

/// Hand-over sockets of previous processes: first that of the process listening at `socket` (`-x`)
/// if its number can be determined, then those of `pids`.
pub fn predecessors(pids: &[u32], socket: Option<&Path>) -> Vec<PathBuf> {
    let at_socket = socket.and_then(|path| {
        let stream = sys::unix_socket().ok()?;
        sys::connect_unix(stream.as_fd(), path).ok()?;
        sys::peer_process(stream.as_fd()).ok().filter(|process| *process > 0)
    });
    at_socket.into_iter().chain(pids.iter().copied()).map(hand_over_name).collect()
}

/// Sends a signal to each of these processes. Processes that no longer exist are ignored.
pub fn signal_all(pids: &[u32], signal: i32) {
    for target in pids.iter().filter_map(|pid| Target::process(*pid)) {
        let _ = sys::send_signal(target, signal);
    }
}
