//! What makes a run that was killed continue where it stopped: a file that is only ever appended to.
//!
//! A line says that a download begins, by a digest of its URL and name: `+DIGEST`. It is written
//! before the file can appear under its name, so that a file which is there and whose beginning
//! stands here is one that a run has finished. Lines are written many at a time; one that a kill
//! tears or loses stands for a download that has not ended, which is simply begun again.
//!
//! With `--resume`, `=DIGEST VALIDATOR` says which version of a resource the beginning of is kept,
//! and `-DIGEST` that it is not any more.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::hash::Hasher;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use fastbloom::BloomFilter;
use fulmar_semantics::content_range::Validator;
use fulmar_sys as sys;
use siphasher::sip::SipHasher13;

use crate::name::Name;

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Line {
    Begun(Key),
    Kept(Key, Validator),
    Dropped(Key),
}

/// A digest of a URL and the name of its file: the same in every run, version and machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key(pub(crate) u64);

/// The number of a beginning; see [`Journal::is_written`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// What earlier runs did.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// 4 bytes a file, however long its name. A file that is taken for a finished one by mistake
    /// (once in some millions) must also be there under the very name.
    begun: Option<BloomFilter>,
    /// One for each body of which the beginning is kept.
    kept: HashMap<Key, Validator>,
}

/// The file.
#[derive(Debug)]
pub(crate) struct Journal {
    dir: OwnedFd,
    name: CString,
    fd: OwnedFd,
    len: u64,
    pending: Vec<u8>,
    begun: Ticket,
    written: Ticket,
}

impl Key {
    pub(crate) fn new(url: &str, name: &Name) -> Self {
        let mut hasher = SipHasher13::new();
        hasher.write(url.as_bytes());
        hasher.write(&[0]); // in neither
        hasher.write(name.as_bytes());
        Self(hasher.finish())
    }
}

impl Line {
    fn encode(&self, out: &mut Vec<u8>) {
        let (mark, key, rest) = match self {
            Self::Begun(key) => (b'+', key, &[][..]),
            Self::Kept(key, validator) => (b'=', key, validator.as_bytes()),
            Self::Dropped(key) => (b'-', key, &[][..]),
        };
        out.push(mark);
        write!(out, "{:016x}", key.0).expect("memory takes it");
        if mark == b'=' {
            out.push(b' ');
            out.extend_from_slice(rest);
        }
        out.push(b'\n');
    }

    /// `None` if it is torn, or not ours.
    fn parse(line: &[u8]) -> Option<Self> {
        let (mark, rest) = line.split_first()?;
        let (digits, rest) = rest.split_at_checked(KEY_DIGITS)?;
        let lower = digits.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let digits = std::str::from_utf8(digits).ok().filter(|_| lower)?;
        let key = Key(u64::from_str_radix(digits, 16).ok()?);
        match (mark, rest) {
            (b'+', []) => Some(Self::Begun(key)),
            (b'-', []) => Some(Self::Dropped(key)),
            (b'=', [b' ', validator @ ..]) => {
                Some(Self::Kept(key, Validator::from_bytes(validator)?))
            }
            _ => None,
        }
    }
}

impl History {
    /// For a journal of so many bytes.
    fn sized(len: u64) -> Self {
        let lines = usize::try_from(len / BEGUN_LEN).unwrap_or(usize::MAX);
        let begun = (lines > 0).then(|| {
            let bits = lines.saturating_mul(BITS_PER_FILE).max(BITS_MIN);
            BloomFilter::with_num_bits(bits).seed(&SEED).expected_items(lines)
        });
        Self { begun, kept: HashMap::new() }
    }

    /// Notes every whole line of `bytes`, and returns how many bytes they were.
    fn replay(&mut self, bytes: &[u8]) -> usize {
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        for line in bytes[..whole].split(|byte| *byte == b'\n').filter_map(Line::parse) {
            match line {
                Line::Begun(key) => {
                    self.begun.iter_mut().for_each(|begun| {
                        begun.insert(&key.0);
                    });
                }
                Line::Kept(key, validator) => drop(self.kept.insert(key, validator)),
                Line::Dropped(key) => drop(self.kept.remove(&key)),
            }
        }
        whole
    }

    /// True if an earlier run began this download.
    pub(crate) fn has_begun(&self, key: Key) -> bool {
        self.begun.as_ref().is_some_and(|begun| begun.contains(&key.0))
    }

    /// Which version the beginning of is kept, if one is.
    pub(crate) fn take_kept(&mut self, key: Key) -> Option<Validator> {
        self.kept.remove(&key)
    }
}

impl Journal {
    /// Opens or makes it, for this process alone, and reads what it says.
    ///
    /// # Errors
    /// `WouldBlock`: another run has it. `InvalidData`: it is something else.
    pub(crate) fn open(path: &Path) -> io::Result<(Self, History)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let name = CString::new(name.as_bytes()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let dir = sys::open_dir(parent.unwrap_or_else(|| Path::new(".")))?;
        let fd = open(&dir, &name)?;
        sys::lock(fd.as_fd())?;
        let begun = Ticket(0);
        let mut journal =
            Self { dir, name, fd, len: 0, pending: Vec::new(), begun, written: begun };
        let history = journal.read()?;
        Ok((journal, history))
    }

    fn read(&mut self) -> io::Result<History> {
        let info = sys::fstat(self.fd.as_fd())?;
        if info.kind != sys::FileKind::Regular {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a file"));
        }
        self.len = info.len;
        let mut history = History::sized(info.len);
        let mut buffer = Vec::new();
        let mut chunk = vec![0; READ_SIZE];
        let mut at = 0;
        while at < info.len {
            let n = sys::pread(self.fd.as_fd(), &mut chunk, at)?;
            if n == 0 {
                break;
            }
            at += n as u64;
            buffer.extend_from_slice(&chunk[..n]);
            if !HEADER.starts_with(&buffer[..buffer.len().min(HEADER.len())]) && at == n as u64 {
                let message = "not a journal of fulmar get; name another with --journal";
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            let read = history.replay(&buffer);
            buffer.drain(..read);
            if buffer.len() > READ_SIZE {
                buffer.clear(); // no line of ours is so long
            }
        }
        if self.len < HEADER.len() as u64 {
            self.len = 0; // new, or torn before it began
            self.pending.extend_from_slice(HEADER);
        } else if !buffer.is_empty() {
            self.pending.push(b'\n'); // ends what was torn
        }
        Ok(history)
    }

    /// A download begins.
    pub(crate) fn begin(&mut self, key: Key) -> Ticket {
        Line::Begun(key).encode(&mut self.pending);
        self.begun.0 += 1;
        self.begun
    }

    /// The beginning of this version is kept.
    pub(crate) fn keep(&mut self, key: Key, validator: &Validator) {
        if validator.as_bytes().len() <= VALIDATOR_LEN_MAX {
            Line::Kept(key, validator.clone()).encode(&mut self.pending);
        }
    }

    /// Nothing of it is kept any more.
    pub(crate) fn drop_kept(&mut self, key: Key) {
        Line::Dropped(key).encode(&mut self.pending);
    }

    /// True if the beginning is in the file, so that what follows from it may be.
    pub(crate) fn is_written(&self, ticket: Ticket) -> bool {
        ticket <= self.written
    }

    /// Writes what is pending.
    ///
    /// # Errors
    /// The disk is full, and so on; what was pending is lost.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let pending = std::mem::take(&mut self.pending);
        self.written = self.begun;
        let mut rest = &pending[..];
        while !rest.is_empty() {
            match sys::pwrite(self.fd.as_fd(), rest, self.len) {
                Ok(0) => return self.torn(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    self.len += n as u64;
                    rest = &rest[n..];
                }
                Err(error) => return self.torn(error),
            }
        }
        self.pending = pending;
        self.pending.clear();
        Ok(())
    }

    fn torn(&mut self, error: io::Error) -> io::Result<()> {
        self.pending.push(b'\n');
        Err(error)
    }

    /// Nothing is left to be continued.
    pub(crate) fn remove(&self) -> io::Result<()> {
        sys::unlink_at(self.dir.as_fd(), &self.name)
    }
}

fn open(dir: &OwnedFd, name: &CStr) -> io::Result<OwnedFd> {
    match sys::create_new(dir.as_fd(), name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            sys::open_write(dir.as_fd(), name)
        }
        other => other,
    }
}

/// Its name, unless another is given.
pub(crate) const JOURNAL_NAME: &str = ".fulmar-get.journal";
const HEADER: &[u8] = b"fulmar get 1\n";
const KEY_DIGITS: usize = 16;
/// Mark, key, line end.
const BEGUN_LEN: u64 = 18;
/// A wrong yes once in some millions.
const BITS_PER_FILE: usize = 32;
const BITS_MIN: usize = 4_096;
/// Any fixed one: nobody gains by a wrong yes.
const SEED: u128 = 1;
const READ_SIZE: usize = 64 * 1024;
/// No validator that servers send is longer.
const VALIDATOR_LEN_MAX: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(number: u64) -> Key {
        Key::new(&format!("http://h/{number}"), &Name::given("a").unwrap())
    }

    fn text(journal: &Path) -> String {
        std::fs::read_to_string(journal).unwrap()
    }

    #[test]
    fn a_key_is_the_same_for_ever() {
        assert_eq!(key(1), key(1));
        assert_ne!(key(1), key(2));
        let (a, b) = (Name::given("a").unwrap(), Name::given("b").unwrap());
        assert_ne!(Key::new("http://h/", &a), Key::new("http://h/", &b));
        assert_eq!(Key::new("http://h/", &a), Key(12_866_276_650_068_122_367));
    }

    #[test]
    fn what_is_written_is_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let (mut journal, history) = Journal::open(&path).unwrap();
        assert!(!history.has_begun(key(1)));
        let ticket = journal.begin(key(1));
        let etag = Validator::from_bytes(b"\"x-y\"").unwrap();
        journal.keep(key(1), &etag);
        journal.keep(key(2), &etag);
        journal.drop_kept(key(2));
        assert!(!journal.is_written(ticket) && text(&path).is_empty());
        journal.flush().unwrap();
        assert!(journal.is_written(ticket));
        assert!(!journal.is_written(journal.begun_next()));
        let busy = Journal::open(&path).unwrap_err();
        assert_eq!(busy.kind(), io::ErrorKind::WouldBlock);
        drop(journal);
        let (journal, mut history) = Journal::open(&path).unwrap();
        assert!(history.has_begun(key(1)) && !history.has_begun(key(2)));
        assert_eq!(history.take_kept(key(1)), Some(etag));
        assert_eq!(history.take_kept(key(2)), None);
        journal.remove().unwrap();
        assert!(!path.exists());
    }

    impl Journal {
        fn begun_next(&self) -> Ticket {
            Ticket(self.begun.0 + 1)
        }
    }

    #[test]
    fn a_line_torn_anywhere_is_no_line_and_harms_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let mut whole = HEADER.to_vec();
        Line::Begun(key(1)).encode(&mut whole);
        let first = whole.len();
        let etag = Validator::from_bytes(b"\"torn\"").unwrap();
        Line::Kept(key(2), etag).encode(&mut whole);
        Line::Begun(key(2)).encode(&mut whole);
        for len in 0..whole.len() {
            std::fs::write(&path, &whole[..len]).unwrap();
            let (mut journal, mut history) = Journal::open(&path).unwrap();
            assert_eq!(history.has_begun(key(1)), len >= first, "{len}");
            assert!(!history.has_begun(key(2)), "{len}");
            if len < whole.len() - 18 {
                assert_eq!(history.take_kept(key(2)), None, "{len}");
            }
            journal.begin(key(3));
            journal.flush().unwrap();
            drop(journal);
            let (_, history) = Journal::open(&path).unwrap();
            assert!(history.has_begun(key(3)), "{len}: {:?}", text(&path));
            // All but its end was there: it is a line now.
            assert_eq!(history.has_begun(key(1)), len >= first - 1, "{len}");
        }
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        std::fs::write(&path, "precious\n").unwrap();
        assert_eq!(Journal::open(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(text(&path), "precious\n");
        assert!(Journal::open(dir.path()).is_err());
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(Journal::open(&link).is_err(), "a link may lead anywhere");
        assert!(Journal::open(&dir.path().join("none/journal")).is_err());
    }

    #[test]
    fn a_long_journal_is_remembered_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let (mut journal, _) = Journal::open(&path).unwrap();
        for number in 0..20_000 {
            journal.begin(key(number));
        }
        journal.flush().unwrap();
        drop(journal);
        let (_, history) = Journal::open(&path).unwrap();
        assert!((0..20_000).all(|number| history.has_begun(key(number))));
        let wrong = (20_000..120_000).filter(|number| history.has_begun(key(*number))).count();
        assert!(wrong < 3, "{wrong} wrong answers");
    }

    proptest! {
        #[test]
        fn any_bytes_are_lines_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let mut history = History::sized(100);
            let read = history.replay(&bytes);
            prop_assert!(read <= bytes.len());
            if let Some(line) = Line::parse(&bytes) {
                let mut again = Vec::new();
                line.encode(&mut again);
                prop_assert_eq!(&again[..again.len() - 1], &bytes[..]);
            }
        }
    }
}
