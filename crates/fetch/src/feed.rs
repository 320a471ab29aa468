//! The list, read by a thread of its own: a pipe may let us wait, and transfers must not.
//!
//! The thread is a few blocks ahead, however long the list is.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;

use fulmar_drive::Waker;
use fulmar_semantics::userinfo::without_password;
use fulmar_sys::{self as sys, Ledger};

use crate::list::{self, Entry, LINE_LEN_MAX, LineError};

/// Where a list comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Standard input.
    Stdin,
    /// A file.
    File(PathBuf),
}

/// Where records go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sink {
    /// Standard output.
    Stdout,
    /// A file, which is appended to.
    File(PathBuf),
}

impl Sink {
    /// Its name, for messages.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::Stdout => "standard output".into(),
            Self::File(path) => path.clone(),
        }
    }
}

impl Source {
    /// Its name, for messages.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::Stdin => "-".into(),
            Self::File(path) => path.clone(),
        }
    }
}

/// What the thread tells.
#[derive(Debug)]
enum News {
    /// Whole lines, but for the last of a list, and one that is too long.
    Block(Vec<u8>),
    Failed(io::Error),
    End(Box<Ledger>),
}

/// URLs to come: those of the command line, then those of a list.
#[derive(Debug)]
pub(crate) struct Feed {
    urls: std::vec::IntoIter<String>,
    /// How many URLs the command line had.
    urls_len: usize,
    /// The name of the first one's file.
    name: Option<String>,
    news: Option<Receiver<News>>,
    block: Vec<u8>,
    at: usize,
    line: u64,
    /// Bytes of the list that were taken, and how many there are, if it is a file.
    taken: u64,
    size: Option<u64>,
    ledger: Ledger,
}

/// What comes next.
#[derive(Debug)]
pub(crate) enum Next {
    /// A URL, and the line that it stands in.
    Entry(Entry, Option<u64>),
    /// A line that cannot be used: its beginning, and why.
    Bad(String, u64, LineError),
    /// Nothing yet: the waker will wake.
    Later,
    /// Nothing any more.
    End,
    /// The list cannot be read any further.
    Failed(io::Error),
}

impl Feed {
    /// These URLs, and no list yet. `name` is that of the first one's file, if it is given.
    pub(crate) fn new(urls: Vec<String>, name: Option<String>) -> Self {
        Self {
            urls_len: urls.len(),
            urls: urls.into_iter(),
            name,
            news: None,
            block: Vec::new(),
            at: 0,
            line: 0,
            taken: 0,
            size: None,
            ledger: Ledger::ZERO,
        }
    }

    /// Opens the list that follows; `waker` wakes when there is more of it.
    pub(crate) fn open(&mut self, list: &Source, waker: Waker) -> io::Result<()> {
        let (sender, news) = sync_channel(BLOCKS_AHEAD);
        let builder = thread::Builder::new().name("list".into()).stack_size(STACK_SIZE);
        match list {
            Source::Stdin => builder.spawn(move || read(io::stdin().as_fd(), &sender, &waker))?,
            Source::File(path) => {
                let file = File::open(path)?;
                let info = sys::fstat(file.as_fd())?;
                self.size = (info.kind == sys::FileKind::Regular).then_some(info.len);
                builder.spawn(move || read(file.as_fd(), &sender, &waker))?
            }
        };
        self.news = Some(news);
        Ok(())
    }

    /// The next URL, without waiting.
    pub(crate) fn next(&mut self) -> Next {
        if let Some(url) = self.urls.next() {
            let name = self.name.take().map(Into::into);
            return Next::Entry(Entry { url: url.into(), name, checksum: None }, None);
        }
        loop {
            while let Some((from, to)) = self.next_line() {
                let line = &self.block[from..to];
                match list::parse(line) {
                    Ok(None) => {}
                    Ok(Some(entry)) => return Next::Entry(entry, Some(self.line)),
                    Err(error) => {
                        let text = String::from_utf8_lossy(line);
                        // Before the cut, which could remove the `@` behind a password.
                        let text = without_password(&text);
                        let shown = text.chars().take(SHOWN_LEN_MAX).collect();
                        return Next::Bad(shown, self.line, error);
                    }
                }
            }
            let Some(news) = &self.news else { return Next::End };
            match news.try_recv() {
                Ok(News::Block(block)) => (self.block, self.at) = (block, 0),
                Ok(News::End(ledger)) => {
                    self.ledger = *ledger;
                    self.news = None;
                }
                Ok(News::Failed(error)) => {
                    self.news = None;
                    return Next::Failed(error);
                }
                Err(TryRecvError::Empty) => return Next::Later,
                Err(TryRecvError::Disconnected) => self.news = None,
            }
        }
    }

    /// Where the next line of the block is, without its end.
    fn next_line(&mut self) -> Option<(usize, usize)> {
        let rest = &self.block[self.at..];
        if rest.is_empty() {
            return None;
        }
        let len = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        let from = self.at;
        self.at = self.block.len().min(from + len + 1);
        self.taken += (self.at - from) as u64;
        self.line += 1;
        Some((from, from + len))
    }

    /// Nothing more is wanted.
    pub(crate) fn close(&mut self) {
        self.urls = Vec::new().into_iter();
        self.news = None;
        self.at = self.block.len();
    }

    /// The part of the list that was taken, if that is known; without a list, that of the URLs.
    pub(crate) fn share(&self) -> Option<f64> {
        let (taken, size) = match (self.size, &self.news) {
            (Some(size), _) => (self.taken, size),
            (None, Some(_)) => return None, // a pipe may bring any number
            (None, None) => ((self.urls_len - self.urls.len()) as u64, self.urls_len as u64),
        };
        #[expect(clippy::cast_precision_loss, reason = "a figure to look at")]
        (size > 0).then(|| taken as f64 / size as f64)
    }

    /// The system calls of the thread, once the list has ended.
    pub(crate) fn ledger(&self) -> Ledger {
        self.ledger
    }
}

/// The life of the thread: it ends with the list, or when nobody listens any more.
fn read(list: BorrowedFd<'_>, to: &SyncSender<News>, waker: &Waker) {
    let mut blocks = Blocks::default();
    loop {
        let news = match sys::read(list, blocks.room()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => News::Failed(error),
            Ok(0) => match blocks.finish() {
                Some(block) => News::Block(block),
                None => News::End(Box::new(Ledger::here())),
            },
            Ok(n) => match blocks.fill(n) {
                Some(block) => News::Block(block),
                None => continue,
            },
        };
        let last = !matches!(news, News::Block(_));
        if to.send(news).is_err() {
            return;
        }
        waker.wake();
        if last {
            return;
        }
    }
}

/// Bytes as they come to blocks of whole lines.
#[derive(Debug)]
struct Blocks {
    buffer: Box<[u8]>,
    len: usize,
    /// The rest of a line that was too long is left out.
    skipping: bool,
}

impl Default for Blocks {
    fn default() -> Self {
        Self { buffer: vec![0; BLOCK_SIZE].into(), len: 0, skipping: false }
    }
}

impl Blocks {
    /// Where the next bytes go; never empty.
    fn room(&mut self) -> &mut [u8] {
        &mut self.buffer[self.len..]
    }

    /// So many bytes have come: the whole lines that are there.
    fn fill(&mut self, n: usize) -> Option<Vec<u8>> {
        self.len += n;
        if self.skipping {
            let end = self.buffer[..self.len].iter().position(|byte| *byte == b'\n');
            self.skipping = end.is_none();
            self.consume(end.map_or(self.len, |at| at + 1));
        }
        let end = self.buffer[..self.len].iter().rposition(|byte| *byte == b'\n');
        self.skipping |= end.is_none() && self.len == self.buffer.len();
        let end = if self.skipping { self.len } else { end? + 1 };
        (end > 0).then(|| self.take(end))
    }

    /// Nothing comes any more: a last line without its end.
    fn finish(&mut self) -> Option<Vec<u8>> {
        (self.len > 0).then(|| self.take(self.len))
    }

    fn take(&mut self, end: usize) -> Vec<u8> {
        let block = self.buffer[..end].to_vec();
        self.consume(end);
        block
    }

    fn consume(&mut self, end: usize) {
        self.buffer.copy_within(end..self.len, 0);
        self.len -= end;
    }
}

/// Some thousand URLs.
const BLOCK_SIZE: usize = 64 * 1024;
const BLOCKS_AHEAD: usize = 2;
/// What is shown of a line that cannot be used.
const SHOWN_LEN_MAX: usize = 100;
const STACK_SIZE: usize = 64 * 1024;
const _: () = assert!(LINE_LEN_MAX < BLOCK_SIZE, "a line that fills a block is too long");

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of `bytes` when they come in pieces of `piece`.
    fn blocks(bytes: &[u8], piece: usize) -> Vec<u8> {
        let mut blocks = Blocks::default();
        let mut out = Vec::new();
        for piece in bytes.chunks(piece) {
            let mut rest = piece;
            while !rest.is_empty() {
                let room = blocks.room();
                let n = room.len().min(rest.len());
                room[..n].copy_from_slice(&rest[..n]);
                rest = &rest[n..];
                if let Some(block) = blocks.fill(n) {
                    out.extend(block);
                }
            }
        }
        out.extend(blocks.finish().into_iter().flatten());
        assert!(blocks.finish().is_none());
        out
    }

    #[test]
    fn lines_are_the_same_however_they_come() {
        let text: Vec<u8> =
            (0..5_000).flat_map(|n| format!("http://h/{n}\n").into_bytes()).collect();
        for piece in [1, 2, 7, 4_096, 100_000] {
            assert!(blocks(&text, piece) == text, "{piece}");
            assert!(blocks(&text[..text.len() - 1], piece) == text[..text.len() - 1], "{piece}");
        }
        assert_eq!(blocks(b"", 1), b"");
        assert_eq!(blocks(b"\n\n", 1), b"\n\n");
    }

    #[test]
    fn a_line_without_end_is_cut_and_the_next_one_is_whole() {
        let text = [&b"first\n"[..], &vec![b'x'; 3 * BLOCK_SIZE], b"\nlast\n"].concat();
        for piece in [1_000, BLOCK_SIZE, text.len()] {
            let out = blocks(&text, piece);
            let long = out.split(|byte| *byte == b'\n').nth(1).unwrap();
            assert!(long.len() > LINE_LEN_MAX, "it is seen to be too long");
            assert!(out.len() <= 2 * BLOCK_SIZE && out.ends_with(b"last\n"), "{piece}");
        }
    }
}
