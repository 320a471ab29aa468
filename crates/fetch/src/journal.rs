//! The journal: an append-only file that lets an interrupted run continue where it stopped.
//!
//! | line | meaning |
//! |---|---|
//! | `@BOOT` | A run starts, on this start of the system ([`fulmar_sys::boot_id`]). |
//! | `+DIGEST` | The download of a URL into a name begins; written before the file gets its name. |
//! | `*DIGEST LEN` | The file is complete: LEN bytes, which are on the disk, and so is its name. |
//! | `!DIGEST` | The file is complete, but the disk failed to store it. |
//! | `=DIGEST VALIDATOR` | A part of this version is kept (`--resume`). |
//! | `-DIGEST` | It is not kept any more. |
//!
//! A file that exists counts as done if it has the length of its `*` line. If a kill came between
//! its name and its `*` line, there is only the `+` line: then the file is complete as long as
//! the system has not been restarted, because it got its name last. After a restart its content
//! may never have reached the disk, and it is fetched again. Journals of older versions have
//! neither `@` nor `*` lines: there every `+` line counts.
//!
//! Lines are written many at a time. A line that a kill tears or loses belongs to a download that
//! has not ended.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::fmt;
use std::hash::Hasher;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use fastbloom::BloomFilter;
use fulmar_semantics::content_range::Validator;
use fulmar_sys as sys;
use siphasher::sip::SipHasher13;

use crate::name::OutputName;

/// A line of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
enum JournalLine {
    Run(String),
    Begun(DownloadKey),
    Done(DownloadKey, u64),
    Lost(DownloadKey),
    Kept(DownloadKey, Validator),
    Dropped(DownloadKey),
}

/// A digest of a URL and the name of its file: the same in every run, version and machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DownloadKey(pub(crate) u64);

/// The position of a line; see [`Journal::is_written`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// The history of earlier runs.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// [`DownloadFact`]s: 17 bytes per file for names of any length. A false positive (once in some
    /// millions) must also match an existing file of the same name.
    facts: Option<BloomFilter>,
    /// Downloads that the run being read has begun and not completed.
    unfinished: HashSet<DownloadKey>,
    /// Whether the run being read was on this start of the system.
    segment: RunSegment,
    /// The versions of kept parts.
    kept: HashMap<DownloadKey, Validator>,
}

/// A fact about a download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DownloadFact {
    /// It was begun.
    Begun,
    /// It was begun, and its file is complete if it exists.
    Whole,
    /// It is complete with this length.
    Done(u64),
}

/// The run that wrote the lines being read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RunSegment {
    /// A run of an older version, which wrote no `@` line.
    #[default]
    Old,
    /// A run since the system was started.
    SameBoot,
    /// A run before the system was started.
    EarlierBoot,
}

/// The journal of this run.
#[derive(Debug)]
pub(crate) struct Journal {
    /// `None`: nothing is recorded.
    file: Option<JournalFile>,
    len: u64,
    /// See [`Journal::is_needed`].
    is_needed: bool,
    pending: Vec<u8>,
    begun: Ticket,
    written: Ticket,
}

#[derive(Debug)]
struct JournalFile {
    dir: OwnedFd,
    name: CString,
    fd: Arc<OwnedFd>,
}

impl DownloadKey {
    pub(crate) fn new(url: &str, name: &OutputName) -> Self {
        let mut hasher = SipHasher13::new();
        hasher.write(url.as_bytes());
        hasher.write(&[0]); // in neither of them
        hasher.write(name.as_bytes());
        Self(hasher.finish())
    }
}

impl JournalLine {
    fn encode(&self, out: &mut Vec<u8>) {
        let _memory_takes_it = match self {
            Self::Run(boot) => write!(out, "@{boot}"),
            Self::Begun(key) => write!(out, "+{key}"),
            Self::Done(key, len) => write!(out, "*{key} {len}"),
            Self::Lost(key) => write!(out, "!{key}"),
            Self::Kept(key, validator) => {
                let start = write!(out, "={key} ");
                out.extend_from_slice(validator.as_bytes());
                start
            }
            Self::Dropped(key) => write!(out, "-{key}"),
        };
        out.push(b'\n');
    }

    /// `None` if the line is torn or unknown.
    fn parse(line: &[u8]) -> Option<Self> {
        let (mark, rest) = line.split_first()?;
        if *mark == b'@' {
            let legal = |byte: &u8| byte.is_ascii_hexdigit() || *byte == b'-';
            let boot = std::str::from_utf8(rest).ok()?;
            let fits = (1..=BOOT_LEN_MAX).contains(&rest.len()) && rest.iter().all(legal);
            return fits.then(|| Self::Run(boot.to_owned()));
        }
        let (digits, rest) = rest.split_at_checked(KEY_DIGITS)?;
        let lower = digits.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let digits = std::str::from_utf8(digits).ok().filter(|_| lower)?;
        let key = DownloadKey(u64::from_str_radix(digits, 16).ok()?);
        match (mark, rest) {
            (b'+', []) => Some(Self::Begun(key)),
            (b'!', []) => Some(Self::Lost(key)),
            (b'*', [b' ', len @ ..]) => {
                let text = std::str::from_utf8(len).ok()?;
                let len: u64 = text.parse().ok()?;
                (len.to_string() == text).then_some(Self::Done(key, len))
            }
            (b'-', []) => Some(Self::Dropped(key)),
            (b'=', [b' ', validator @ ..]) => {
                Some(Self::Kept(key, Validator::from_bytes(validator)?))
            }
            _ => None,
        }
    }
}

impl History {
    /// Sized for a journal of `len` bytes.
    fn sized(len: u64) -> Self {
        let lines = usize::try_from(len / BEGUN_LEN).unwrap_or(usize::MAX);
        let facts = (lines > 0).then(|| {
            let bits = lines.saturating_mul(BITS_PER_LINE).max(BITS_MIN);
            BloomFilter::with_num_bits(bits).seed(&SEED).expected_items(lines.saturating_mul(2))
        });
        Self { facts, ..Self::default() }
    }

    /// Applies every complete line of `bytes`, and returns their length. `boot` is this start of
    /// the system, if known.
    fn replay(&mut self, bytes: &[u8], boot: Option<&str>) -> usize {
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        for line in bytes[..whole].split(|byte| *byte == b'\n').filter_map(JournalLine::parse) {
            match line {
                JournalLine::Run(run) => {
                    self.end_segment();
                    self.segment = match boot {
                        Some(boot) if boot == run => RunSegment::SameBoot,
                        _ => RunSegment::EarlierBoot,
                    };
                }
                JournalLine::Begun(key) => {
                    self.note(key, DownloadFact::Begun);
                    match self.segment {
                        RunSegment::Old => self.note(key, DownloadFact::Whole),
                        RunSegment::SameBoot => {
                            if self.unfinished.len() >= UNFINISHED_LEN_MAX {
                                self.end_segment();
                            }
                            self.unfinished.insert(key);
                        }
                        RunSegment::EarlierBoot => {}
                    }
                }
                JournalLine::Done(key, len) => {
                    self.unfinished.remove(&key);
                    self.note(key, DownloadFact::Done(len));
                }
                JournalLine::Lost(key) => drop(self.unfinished.remove(&key)),
                JournalLine::Kept(key, validator) => drop(self.kept.insert(key, validator)),
                JournalLine::Dropped(key) => drop(self.kept.remove(&key)),
            }
        }
        whole
    }

    /// The end of a run: files of downloads that it had begun are complete if they exist and the
    /// system has not been restarted since.
    fn end_segment(&mut self) {
        for key in std::mem::take(&mut self.unfinished) {
            self.note(key, DownloadFact::Whole);
        }
    }

    fn note(&mut self, key: DownloadKey, fact: DownloadFact) {
        if let Some(facts) = &mut self.facts {
            facts.insert(&fact.digest(key));
        }
    }

    fn knows(&self, key: DownloadKey, fact: DownloadFact) -> bool {
        self.facts.as_ref().is_some_and(|facts| facts.contains(&fact.digest(key)))
    }

    /// True if an earlier run began this download.
    pub(crate) fn has_begun(&self, key: DownloadKey) -> bool {
        self.knows(key, DownloadFact::Begun)
    }

    /// True if an earlier run completed this download with a file of `len` bytes.
    pub(crate) fn is_done(&self, key: DownloadKey, len: u64) -> bool {
        self.knows(key, DownloadFact::Done(len)) || self.knows(key, DownloadFact::Whole)
    }

    /// The version of the kept part, if there is one.
    pub(crate) fn take_kept(&mut self, key: DownloadKey) -> Option<Validator> {
        self.kept.remove(&key)
    }
}

impl DownloadFact {
    /// The value in the filter.
    fn digest(self, key: DownloadKey) -> u64 {
        let (kind, len) = match self {
            Self::Begun => return key.0,
            Self::Whole => (1, 0),
            Self::Done(len) => (2, len),
        };
        let mut hasher = SipHasher13::new();
        hasher.write_u64(key.0);
        hasher.write_u8(kind);
        hasher.write_u64(len);
        hasher.finish()
    }
}

impl fmt::Display for DownloadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Journal {
    /// A journal that records nothing.
    pub(crate) fn none() -> Self {
        let begun = Ticket(0);
        Self { file: None, len: 0, is_needed: false, pending: Vec::new(), begun, written: begun }
    }

    /// Opens or creates it with an exclusive lock, and reads its lines. `boot` is this start of the
    /// system, if known.
    ///
    /// # Errors
    /// `WouldBlock`: another process has locked it. `InvalidData`: it is not a journal.
    pub(crate) fn open(path: &Path, boot: Option<&str>) -> io::Result<(Self, History)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let name = CString::new(name.as_bytes()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let dir = sys::open_dir(parent.unwrap_or_else(|| Path::new(".")))?;
        let fd = open(&dir, &name)?;
        sys::lock(fd.as_fd())?;
        let file = JournalFile { dir, name, fd: fd.into() };
        let mut journal = Self::none();
        let history = journal.read((*file.fd).as_fd(), boot)?;
        JournalLine::Run(boot.unwrap_or("-").to_owned()).encode(&mut journal.pending);
        journal.file = Some(file);
        Ok((journal, history))
    }

    fn read(&mut self, fd: BorrowedFd<'_>, boot: Option<&str>) -> io::Result<History> {
        let info = sys::fstat(fd)?;
        if info.kind != sys::FileKind::Regular {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a file"));
        }
        self.len = info.len;
        let mut history = History::sized(info.len);
        let mut buffer = Vec::new();
        let mut chunk = vec![0; READ_SIZE];
        let mut at = 0;
        while at < info.len {
            let n = sys::pread(fd, &mut chunk, at)?;
            if n == 0 {
                break;
            }
            at += n as u64;
            buffer.extend_from_slice(&chunk[..n]);
            if !HEADER.starts_with(&buffer[..buffer.len().min(HEADER.len())]) && at == n as u64 {
                let message = "not a journal of fulmar get; choose another file with --journal";
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            let read = history.replay(&buffer, boot);
            buffer.drain(..read);
            if buffer.len() > READ_SIZE {
                buffer.clear(); // no valid line is as long
            }
        }
        history.end_segment();
        if self.len < HEADER.len() as u64 {
            self.len = 0; // new, or torn in the header
            self.pending.extend_from_slice(HEADER);
        } else if !buffer.is_empty() {
            self.pending.push(b'\n'); // ends the torn line
        }
        self.is_needed = self.len > 0;
        Ok(history)
    }

    /// A download begins.
    pub(crate) fn begin(&mut self, key: DownloadKey) -> Ticket {
        JournalLine::Begun(key).encode(&mut self.pending);
        self.begun.0 += 1;
        self.begun
    }

    /// A download is complete. Its file has `len` bytes and has reached the disk.
    pub(crate) fn done(&mut self, key: DownloadKey, len: u64) {
        self.is_needed = true;
        JournalLine::Done(key, len).encode(&mut self.pending);
    }

    /// A download is complete, but storing its file has failed.
    pub(crate) fn lost(&mut self, key: DownloadKey) {
        self.is_needed = true;
        JournalLine::Lost(key).encode(&mut self.pending);
    }

    /// A part of this version is kept.
    pub(crate) fn keep(&mut self, key: DownloadKey, validator: &Validator) {
        if validator.as_bytes().len() <= VALIDATOR_LEN_MAX {
            self.is_needed = true;
            JournalLine::Kept(key, validator.clone()).encode(&mut self.pending);
        }
    }

    /// The kept part was removed.
    pub(crate) fn drop_kept(&mut self, key: DownloadKey) {
        JournalLine::Dropped(key).encode(&mut self.pending);
    }

    /// True if a later run needs it: it has lines of earlier runs, of a complete file, or of a kept
    /// part.
    pub(crate) fn is_needed(&self) -> bool {
        self.is_needed
    }

    /// True if this line is in the file, so that its effects may follow.
    pub(crate) fn is_written(&self, ticket: Ticket) -> bool {
        ticket <= self.written
    }

    /// Writes pending lines.
    ///
    /// # Errors
    /// Errors of `write(2)`, such as a full disk. Unwritten lines stay pending.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let mut at = 0;
        let result = loop {
            let Some(file) = self.file.as_ref().filter(|_| at < self.pending.len()) else {
                break Ok(());
            };
            match sys::pwrite((*file.fd).as_fd(), &self.pending[at..], self.len) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    self.len += n as u64;
                    at += n;
                }
                Err(error) => break Err(error),
            }
        };
        match result {
            Ok(()) => {
                self.pending.clear();
                self.written = self.begun;
            }
            Err(_) => drop(self.pending.drain(..at)),
        }
        result
    }

    /// The open file, for syncing in another thread.
    pub(crate) fn descriptor(&self) -> Option<Arc<OwnedFd>> {
        self.file.as_ref().map(|file| Arc::clone(&file.fd))
    }

    /// Removes the journal: nothing is left to resume.
    pub(crate) fn remove(&self) -> io::Result<()> {
        match &self.file {
            None => Ok(()),
            Some(file) => sys::unlink_at(file.dir.as_fd(), &file.name),
        }
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

/// The default name.
pub(crate) const JOURNAL_NAME: &str = ".fulmar-get.journal";
const HEADER: &[u8] = b"fulmar get 1\n";
const KEY_DIGITS: usize = 16;
/// The length of a UUID with room to spare.
const BOOT_LEN_MAX: usize = 64;
/// The maximum number of unfinished downloads remembered while a journal is read: those in
/// progress, and those that failed.
const UNFINISHED_LEN_MAX: usize = 64 * 1024;
/// Mark, key, line end.
const BEGUN_LEN: u64 = 18;
/// For at most two facts each; a false positive once in some millions.
const BITS_PER_LINE: usize = 64;
const BITS_MIN: usize = 4_096;
/// Any constant: false positives cannot be exploited.
const SEED: u128 = 1;
const READ_SIZE: usize = 64 * 1024;
/// Validators of servers are shorter.
const VALIDATOR_LEN_MAX: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOOT: Option<&str> = Some("0f-1");

    fn key(number: u64) -> DownloadKey {
        DownloadKey::new(&format!("http://h/{number}"), &OutputName::given("a").unwrap())
    }

    fn text(journal: &Path) -> String {
        std::fs::read_to_string(journal).unwrap()
    }

    #[test]
    fn keys_are_stable() {
        assert_eq!(key(1), key(1));
        assert_ne!(key(1), key(2));
        let (a, b) = (OutputName::given("a").unwrap(), OutputName::given("b").unwrap());
        assert_ne!(DownloadKey::new("http://h/", &a), DownloadKey::new("http://h/", &b));
        assert_eq!(DownloadKey::new("http://h/", &a), DownloadKey(12_866_276_650_068_122_367));
    }

    #[test]
    fn written_lines_are_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let (mut journal, history) = Journal::open(&path, BOOT).unwrap();
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
        let busy = Journal::open(&path, BOOT).unwrap_err();
        assert_eq!(busy.kind(), io::ErrorKind::WouldBlock);
        drop(journal);
        let (journal, mut history) = Journal::open(&path, BOOT).unwrap();
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

    /// Whether `key(1)` has begun, and is done with 5 bytes or with none, after these lines.
    fn facts_of(lines: &str) -> (bool, bool, bool) {
        let lines = lines.replace('K', &key(1).to_string());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        std::fs::write(&path, format!("fulmar get 1\n{lines}")).unwrap();
        let (_, history) = Journal::open(&path, BOOT).unwrap();
        (history.has_begun(key(1)), history.is_done(key(1), 5), history.is_done(key(1), 0))
    }

    #[test]
    fn a_file_is_done_if_it_reached_the_disk_with_this_length() {
        for (lines, wanted) in [
            // Journals of older versions have no lengths: what exists is complete.
            ("+K\n", (true, true, true)),
            ("", (false, false, false)),
            // Killed before the file was synced: complete unless the system was restarted.
            ("@0f-1\n+K\n", (true, true, true)),
            ("@0f-2\n+K\n", (true, false, false)),
            ("@-\n+K\n", (true, false, false)),
            ("@0f-2\n+K\n@0f-1\n", (true, false, false)),
            ("@0f-1\n+K\n@0f-2\n", (true, true, true)),
            ("+K\n@0f-2\n", (true, true, true)),
            // Synced: its length counts.
            ("@0f-1\n+K\n*K 5\n", (true, true, false)),
            ("@0f-2\n+K\n*K 5\n", (true, true, false)),
            ("@0f-2\n+K\n*K 5\n@0f-1\n", (true, true, false)),
            // The disk failed.
            ("@0f-1\n+K\n!K\n", (true, false, false)),
        ] {
            assert_eq!(facts_of(lines), wanted, "{lines:?}");
        }
    }

    #[test]
    fn a_journal_that_records_nothing_never_fails() {
        let mut journal = Journal::none();
        let ticket = journal.begin(key(1));
        journal.flush().unwrap();
        journal.remove().unwrap();
        assert!(journal.is_written(ticket));
    }

    #[test]
    fn many_unfinished_downloads_do_not_use_up_memory() {
        let mut history = History::sized(10_000_000);
        let mut text = b"@0f-1\n".to_vec();
        for number in 0..UNFINISHED_LEN_MAX as u64 + 10 {
            JournalLine::Begun(DownloadKey(number)).encode(&mut text);
        }
        history.replay(&text, BOOT);
        assert!(history.unfinished.len() <= UNFINISHED_LEN_MAX);
        assert!(
            history.is_done(DownloadKey(0), 7),
            "an existing file counts if its line was dropped"
        );
    }

    #[test]
    fn a_torn_line_affects_no_other_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let mut whole = HEADER.to_vec();
        JournalLine::Begun(key(1)).encode(&mut whole);
        let first = whole.len();
        let etag = Validator::from_bytes(b"\"torn\"").unwrap();
        JournalLine::Kept(key(2), etag).encode(&mut whole);
        JournalLine::Begun(key(2)).encode(&mut whole);
        for len in 0..whole.len() {
            std::fs::write(&path, &whole[..len]).unwrap();
            let (mut journal, mut history) = Journal::open(&path, BOOT).unwrap();
            assert_eq!(history.has_begun(key(1)), len >= first, "{len}");
            assert!(!history.has_begun(key(2)), "{len}");
            if len < whole.len() - 18 {
                assert_eq!(history.take_kept(key(2)), None, "{len}");
            }
            journal.begin(key(3));
            journal.flush().unwrap();
            drop(journal);
            let (_, history) = Journal::open(&path, BOOT).unwrap();
            assert!(history.has_begun(key(3)), "{len}: {:?}", text(&path));
            // Only the line end was missing: the line is complete now.
            assert_eq!(history.has_begun(key(1)), len >= first - 1, "{len}");
        }
    }

    #[test]
    fn other_files_are_not_changed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        std::fs::write(&path, "precious\n").unwrap();
        assert_eq!(Journal::open(&path, BOOT).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(text(&path), "precious\n");
        assert!(Journal::open(dir.path(), BOOT).is_err());
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(Journal::open(&link, BOOT).is_err(), "links are not followed");
        assert!(Journal::open(&dir.path().join("none/journal"), BOOT).is_err());
    }

    #[test]
    fn a_long_journal_is_read_without_false_positives() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let (mut journal, _) = Journal::open(&path, BOOT).unwrap();
        for number in 0..20_000 {
            journal.begin(key(number));
        }
        journal.flush().unwrap();
        drop(journal);
        let (_, history) = Journal::open(&path, BOOT).unwrap();
        assert!((0..20_000).all(|number| history.has_begun(key(number))));
        let wrong = (20_000..120_000).filter(|number| history.has_begun(key(*number))).count();
        assert!(wrong < 3, "{wrong} false positives");
    }

    proptest! {
        #[test]
        fn any_bytes_are_lines_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let mut history = History::sized(100);
            let read = history.replay(&bytes, BOOT);
            prop_assert!(read <= bytes.len());
            if let Some(line) = JournalLine::parse(&bytes) {
                let mut again = Vec::new();
                line.encode(&mut again);
                prop_assert_eq!(&again[..again.len() - 1], &bytes[..]);
            }
        }
    }
}
