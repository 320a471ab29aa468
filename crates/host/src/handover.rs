//! Passes listening sockets from a process to its successor, over a Unix socket.
//!
//! The new process connects and sends the version of the protocol. The old one passes a descriptor
//! of the Unix socket itself and one for each of its listening sockets, each with its requested
//! address. When the new process serves, it reports that; the old one gives up the files of its
//! Unix sockets, confirms, and stops.
//!
//! ```text
//! new: "fulmar hand-over 1\n"
//! old: the same, then messages: length of the rest, kind, whether the file is ours, the requested
//!      address; a descriptor (SCM_RIGHTS) with all but the last, which has the kind `End`
//! new: "ready\n"       or nothing, and the connection ends: then nothing has happened
//! old: "done\n"
//! ```
//!
//! Descriptors could also be left open for a child. But then the old process has to start the new
//! one, with all that belongs to it (its file, its arguments, its environment, its place under a
//! supervisor), by a fork among threads; and the supervisor sees its child end.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str;
use std::time::Duration;

use fulmar_drive::{UnixListenOptions, listen_unix};
use fulmar_sys::{self as sys, PollEntry};

use crate::address::Address;
use crate::error::Error;
use crate::opened::OpenListener;
use crate::running::Stopper;
use crate::socket_file::SocketFile;

/// Where the next process will connect.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) path: PathBuf,
    /// Listens at the path.
    pub(crate) socket: OwnedFd,
    pub(crate) file: Option<SocketFile>,
}

/// What the process before us has handed over.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) taken: Taken,
    pub(crate) previous: Previous,
}

/// The process before us; it waits for our report.
#[derive(Debug)]
pub(crate) struct Previous {
    stream: UnixStream,
    path: PathBuf,
}

/// Sockets that were taken over and are not used yet.
#[derive(Debug, Default)]
pub(crate) struct Taken(Vec<Offer>);

/// A listening socket for another process.
#[derive(Debug)]
pub(crate) struct Offer {
    asked: Address,
    /// Its file is to be removed by the last of the processes.
    made: bool,
    socket: OwnedFd,
}

/// Requests the listeners of the process at `path`, and the socket of `path` itself. Without such a
/// process, listens there for the next one.
pub(crate) fn arrive(path: &Path) -> Result<(Control, Option<Left>), Error> {
    let result = match connect(path) {
        Ok(Some(previous)) => {
            take(path, previous).map(|(socket, left)| (control(path, socket, false), Some(left)))
        }
        Ok(None) => return offer(path).map(|control| (control, None)),
        Err(error) => Err(error),
    };
    result.map_err(|error| Error::HandOver { path: path.to_owned(), error })
}

/// Listens at `path` for the next process.
pub(crate) fn offer(path: &Path) -> Result<Control, Error> {
    match listen_unix(path, UnixListenOptions::default()) {
        Ok(socket) => Ok(control(path, socket, true)),
        Err(error) => Err(Error::HandOver { path: path.to_owned(), error }),
    }
}

/// Requests the listeners of the process at `path`; `None` if there is none.
pub(crate) fn ask(path: &Path) -> Result<Option<Left>, Error> {
    let result = connect(path).and_then(|previous| previous.map(|it| take(path, it)).transpose());
    let taken = result.map_err(|error| Error::HandOver { path: path.to_owned(), error })?;
    Ok(taken.map(|(_, left)| left))
}

fn control(path: &Path, socket: OwnedFd, ours: bool) -> Control {
    let file = Address::Unix(path.to_owned()).file().cloned();
    let file = file.map(if ours { SocketFile::armed } else { SocketFile::unarmed });
    Control { path: path.to_owned(), socket, file }
}

fn take(path: &Path, mut stream: UnixStream) -> io::Result<(OwnedFd, Left)> {
    stream.write_all(GREETING)?;
    let mut greeting = [0; GREETING.len()];
    stream.read_exact(&mut greeting).map_err(missing)?;
    if greeting != *GREETING {
        return Err(invalid("it speaks another protocol"));
    }
    let mut control = None;
    let mut offers = Vec::new();
    loop {
        match HandoverMessage::receive(&stream)? {
            HandoverMessage::Control(socket) => control = Some(socket),
            HandoverMessage::Offer(offer) if offers.len() < OFFERS_MAX => offers.push(offer),
            HandoverMessage::Offer(_) => return Err(invalid("it hands over too many sockets")),
            HandoverMessage::End => break,
        }
    }
    let control = control.ok_or_else(|| invalid("it did not hand over this socket itself"))?;
    let previous = Previous { stream, path: path.to_owned() };
    Ok((control, Left { taken: Taken(offers), previous }))
}

impl Previous {
    /// Where it answered.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// We serve: it may go. Fails if it has given us up, and so goes on itself.
    pub(crate) fn dismiss(mut self) -> io::Result<()> {
        self.stream.write_all(READY)?;
        // It confirms, or ends in any other way: its sockets are ours.
        let _ = self.stream.read_exact(&mut [0; DONE.len()]);
        Ok(())
    }
}

/// `None` if no process listens.
fn connect(path: &Path) -> io::Result<Option<UnixStream>> {
    let socket = sys::unix_socket()?;
    match sys::connect_unix(socket.as_fd(), path) {
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Ok(None),
            _ => Err(error),
        },
        Ok(_) => waiting(socket).map(Some),
    }
}

/// A blocking socket with timeouts; the peer must have our user or be the superuser.
fn waiting(socket: OwnedFd) -> io::Result<UnixStream> {
    let (peer, us) = (sys::peer_user(socket.as_fd())?, sys::user()?);
    if peer != us && peer != SUPERUSER {
        let text = format!("it belongs to user {peer}, and we are user {us}");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

impl Taken {
    /// The sockets that listen at the requested address, or had the same request.
    pub(crate) fn take(&mut self, asked: &Address) -> Option<OpenListener> {
        let at = |offer: &Offer| Address::of(offer.socket.as_fd()).ok();
        let wanted = |offer: &&Offer| offer.asked == *asked || at(offer).as_ref() == Some(asked);
        let address = self.0.iter().find(wanted).and_then(at)?;
        let same = |offer: &mut Offer| at(offer).as_ref() == Some(&address);
        let group: Vec<Offer> = self.0.extract_if(.., same).collect();
        let made = group.iter().any(|offer| offer.made);
        let file = address.file().filter(|_| made).cloned().map(SocketFile::unarmed);
        let sockets = group.into_iter().map(|offer| offer.socket).collect();
        Some(OpenListener { address, sockets, layers: None, asked: asked.clone(), file })
    }
}

impl OpenListener {
    /// What the next process is offered; the file is ours until then.
    pub(crate) fn into_offers(self) -> (impl Iterator<Item = Offer>, Option<SocketFile>) {
        let (asked, made) = (self.asked, self.file.is_some());
        let sockets = self.sockets.into_iter();
        (sockets.map(move |socket| Offer { asked: asked.clone(), made, socket }), self.file)
    }
}

/// Serves the process that takes our place.
#[derive(Debug)]
pub(crate) struct HandoverServer {
    pub(crate) path: PathBuf,
    pub(crate) control: OwnedFd,
    pub(crate) offers: Vec<Offer>,
    /// Its other end is closed when we stop.
    pub(crate) quit: OwnedFd,
    pub(crate) stopper: Stopper,
}

impl HandoverServer {
    /// Runs until we stop, or another process has taken our place.
    pub(crate) fn run(self) -> Result<(), Error> {
        self.serve().map_err(|error| Error::HandOver { path: self.path.clone(), error })
    }

    fn serve(&self) -> io::Result<()> {
        while self.wait_for(self.control.as_fd(), None)? {
            let successor = match sys::accept(self.control.as_fd()) {
                Ok((socket, _)) => socket,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(_) => {
                    // Descriptors have run out: the waiting connection would wake us again.
                    self.wait_for(self.quit.as_fd(), Some(REST))?;
                    continue;
                }
            };
            // After an error we continue as if the other process had not connected.
            if matches!(self.hand_over(successor), Ok(true)) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// True if our place was taken.
    fn hand_over(&self, successor: OwnedFd) -> io::Result<bool> {
        let mut successor = waiting(successor)?;
        if !self.receive_word(&mut successor, GREETING, PATIENCE)? {
            return Ok(false);
        }
        successor.write_all(GREETING)?;
        HandoverMessage::send(
            &successor,
            HandoverKind::Control,
            false,
            b"",
            Some(self.control.as_fd()),
        )?;
        for offer in &self.offers {
            let (kind, text) = match &offer.asked {
                Address::Tcp(address) => (HandoverKind::Tcp, address.to_string().into_bytes()),
                Address::Unix(path) => (HandoverKind::Unix, path.as_os_str().as_bytes().to_vec()),
            };
            HandoverMessage::send(&successor, kind, offer.made, &text, Some(offer.socket.as_fd()))?;
        }
        HandoverMessage::send(&successor, HandoverKind::End, false, b"", None)?;
        if !self.receive_word(&mut successor, READY, START_MAX)? {
            return Ok(false);
        }
        self.stopper.leave_files();
        let _ = successor.write_all(DONE); // it serves, even if this fails
        self.stopper.stop();
        Ok(true)
    }

    /// True if the other process sends exactly this, in time, and before we stop.
    fn receive_word(
        &self,
        from: &mut UnixStream,
        word: &[u8],
        patience: Duration,
    ) -> io::Result<bool> {
        let mut received = vec![0; word.len()];
        if !self.wait_for(from.as_fd(), Some(patience))? {
            return Ok(false);
        }
        from.read_exact(&mut received)?;
        Ok(received == word)
    }

    /// True if there is something to read; false if we stop first, or time is up.
    fn wait_for(&self, fd: BorrowedFd<'_>, patience: Option<Duration>) -> io::Result<bool> {
        let mut entries = [PollEntry::reading(self.quit.as_fd()), PollEntry::reading(fd)];
        loop {
            match sys::poll(&mut entries, patience) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    let [quit, other] = entries.map(|entry| !entry.events().is_empty());
                    return Ok(other && !quit);
                }
            }
        }
    }
}

/// What the old process sends.
#[derive(Debug)]
enum HandoverMessage {
    Control(OwnedFd),
    Offer(Offer),
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum HandoverKind {
    Control = b'c',
    Tcp = b't',
    Unix = b'u',
    End = b'e',
}

impl HandoverMessage {
    fn send(
        to: &UnixStream,
        kind: HandoverKind,
        made: bool,
        text: &[u8],
        socket: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        let len = u8::try_from(text.len() + 2).map_err(|_| invalid("the address is too long"))?;
        let mut bytes = vec![len, kind as u8, u8::from(made)];
        bytes.extend_from_slice(text);
        let sent = match socket {
            Some(socket) => sys::send_passing(to.as_fd(), &bytes, socket)?,
            None => 0,
        };
        let mut to = to;
        to.write_all(&bytes[sent..])
    }

    fn receive(from: &UnixStream) -> io::Result<Self> {
        let mut len = [0];
        let (n, socket) = sys::receive_passed(from.as_fd(), &mut len).map_err(missing)?;
        if n == 0 {
            return Err(missing(io::ErrorKind::UnexpectedEof.into()));
        }
        let mut bytes = vec![0; len[0].into()];
        let mut from = from;
        from.read_exact(&mut bytes).map_err(missing)?;
        Self::parse(&bytes, socket)
    }

    fn parse(bytes: &[u8], socket: Option<OwnedFd>) -> io::Result<Self> {
        let (&[kind, made], text) =
            bytes.split_first_chunk().ok_or_else(|| invalid("a message is cut short"))?;
        let asked = match kind {
            b'e' => return Ok(Self::End),
            b'c' => None,
            b't' => {
                let address = str::from_utf8(text).ok().and_then(|text| text.parse().ok());
                Some(Address::Tcp(address.ok_or_else(|| invalid("that is no address"))?))
            }
            b'u' => Some(Address::Unix(OsStr::from_bytes(text).into())),
            _ => return Err(invalid("a message of an unknown kind")),
        };
        let socket = socket.ok_or_else(|| invalid("a message came without its socket"))?;
        if !sys::accepts(socket.as_fd())? {
            return Err(invalid("it handed over what does not listen"));
        }
        Ok(match asked {
            None => Self::Control(socket),
            Some(asked) => Self::Offer(Offer { asked, made: made == 1, socket }),
        })
    }
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Why what was expected did not come; a time limit of a socket shows as `EAGAIN`.
fn missing(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            io::Error::new(io::ErrorKind::UnexpectedEof, "it does not hand over to us")
        }
        io::ErrorKind::WouldBlock => {
            io::Error::new(io::ErrorKind::TimedOut, "it is there, but does not answer")
        }
        _ => error,
    }
}

const GREETING: &[u8] = b"fulmar hand-over 1\n";
const READY: &[u8] = b"ready\n";
const DONE: &[u8] = b"done\n";
/// For a process that only has to reply.
const PATIENCE: Duration = Duration::from_secs(5);
/// From our sockets to its report that it serves: it may have much to read first.
const START_MAX: Duration = Duration::from_secs(60);
/// When descriptors have run out.
const REST: Duration = Duration::from_millis(100);
/// Sockets of one hand-over: one a thread and address.
const OFFERS_MAX: usize = 16_384;
const SUPERUSER: u32 = 0;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn listener() -> OwnedFd {
        TcpListener::bind("127.0.0.1:0").unwrap().into()
    }

    #[test]
    fn messages_arrive_as_they_were_sent() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let socket = listener();
        HandoverMessage::send(
            &ours,
            HandoverKind::Tcp,
            false,
            b"127.0.0.1:0",
            Some(socket.as_fd()),
        )
        .unwrap();
        HandoverMessage::send(&ours, HandoverKind::Unix, true, b"/a/\xff", Some(socket.as_fd()))
            .unwrap();
        HandoverMessage::send(&ours, HandoverKind::Control, false, b"", Some(socket.as_fd()))
            .unwrap();
        HandoverMessage::send(&ours, HandoverKind::End, false, b"", None).unwrap();
        drop(ours);
        let HandoverMessage::Offer(tcp) = HandoverMessage::receive(&theirs).unwrap() else {
            panic!("an offer")
        };
        assert_eq!(tcp.asked, Address::Tcp("127.0.0.1:0".parse().unwrap()));
        assert_eq!((tcp.made, Address::of(tcp.socket.as_fd()).unwrap()), {
            (false, Address::of(socket.as_fd()).unwrap())
        });
        let HandoverMessage::Offer(unix) = HandoverMessage::receive(&theirs).unwrap() else {
            panic!("an offer")
        };
        assert_eq!(unix.asked, Address::Unix(OsStr::from_bytes(b"/a/\xff").into()));
        assert!(unix.made);
        assert!(matches!(HandoverMessage::receive(&theirs).unwrap(), HandoverMessage::Control(_)));
        assert!(matches!(HandoverMessage::receive(&theirs).unwrap(), HandoverMessage::End));
        let error = HandoverMessage::receive(&theirs).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn invalid_messages_are_reported() {
        let (pair, _) = UnixStream::pair().unwrap();
        let no_listener = || Some(OwnedFd::from(pair.try_clone().unwrap()));
        let cases: [(&[u8], Option<OwnedFd>, &str); 7] = [
            (b"", None, "cut short"),
            (b"t", Some(listener()), "cut short"),
            (b"t\x00127.0.0.1:1", None, "without its socket"),
            (b"t\x00127.0.0.1", Some(listener()), "no address"),
            (b"t\x00\xff", Some(listener()), "no address"),
            (b"x\x00", Some(listener()), "unknown kind"),
            (b"u\x00/a", no_listener(), "does not listen"),
        ];
        for (bytes, socket, why) in cases {
            let error = HandoverMessage::parse(bytes, socket).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert!(error.to_string().contains(why), "{bytes:?}: {error}");
        }
    }

    #[test]
    fn an_address_is_taken_once_and_whole() {
        let (a, b) = (listener(), listener());
        let any = Address::Tcp("127.0.0.1:0".parse().unwrap());
        let at = Address::of(a.as_fd()).unwrap();
        let offer = |socket: &OwnedFd| Offer {
            asked: any.clone(),
            made: false,
            socket: socket.try_clone().unwrap(),
        };
        let mut taken = Taken(vec![offer(&a), offer(&b), offer(&a)]);
        let first = taken.take(&any).unwrap();
        assert_eq!((&first.address, first.sockets.len()), (&at, 2));
        let second = taken.take(&any).unwrap();
        assert_eq!((second.address, second.sockets.len()), (Address::of(b.as_fd()).unwrap(), 1));
        assert!(taken.take(&any).is_none());
        let mut taken = Taken(vec![offer(&a)]);
        assert!(taken.take(&at).is_some(), "it listens where we are asked to");
    }
}
