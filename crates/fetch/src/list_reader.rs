//! Reads the list in a separate thread, because a pipe may block and transfers must not.
//!
//! The thread is at most a few blocks ahead, for any length of the list.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;

use fulmar_drive::Waker;
use fulmar_semantics::userinfo::without_password;
use fulmar_sys::{self as sys, Ledger};

use crate::list::{self, LINE_LEN_MAX, ListEntry, ListLineError};

/// The source of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListSource {
    /// Standard input.
    Stdin,
    /// A file.
    File(PathBuf),
}

/// The destination of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordSink {
    /// Standard output.
    Stdout,
    /// A file; records are appended.
    File(PathBuf),
}

impl RecordSink {
    /// The name in messages.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::Stdout => "standard output".into(),
            Self::File(path) => path.clone(),
        }
    }
}

impl ListSource {
    /// The name in messages.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::Stdin => "-".into(),
            Self::File(path) => path.clone(),
        }
    }
}

/// A message of the thread.
#[derive(Debug)]
enum ListMessage {
    /// Whole lines, except the last line of a list and lines that are too long.
    Block(Vec<u8>),
    Failed(io::Error),
    End(Box<Ledger>),
}

/// The remaining URLs: those of the command line, then those of the list.
#[derive(Debug)]
pub(crate) struct Feed {
    urls: std::vec::IntoIter<String>,
    /// The number of URLs of the command line.
    urls_len: usize,
    /// The file name of the first one.
    name: Option<Box<[u8]>>,
    news: Option<Receiver<ListMessage>>,
    block: Vec<u8>,
    at: usize,
    line: u64,
    /// Bytes of the list read so far, and its size if it is a file.
    taken: u64,
    size: Option<u64>,
    ledger: Ledger,
}

/// The next URL.
#[derive(Debug)]
pub(crate) enum Next {
    /// A URL and its line number.
    Entry(ListEntry, Option<u64>),
    /// An invalid line: its beginning, its number, and why.
    Bad(String, u64, ListLineError),
    /// Nothing yet. The waker reports more.
    Later,
    /// The end.
    End,
    /// The list cannot be read any further.
    Failed(io::Error),
}

impl Feed {
    /// These URLs without a list. `name` is the file name of the first one, if given.
    pub(crate) fn new(urls: Vec<String>, name: Option<Box<[u8]>>) -> Self {
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

    /// Opens the list. `waker` reports when more of it is available.
    pub(crate) fn open(&mut self, list: &ListSource, waker: Waker) -> io::Result<()> {
        let (sender, news) = sync_channel(BLOCKS_AHEAD);
        let builder = thread::Builder::new().name("list".into()).stack_size(STACK_SIZE);
        match list {
            ListSource::Stdin => {
                builder.spawn(move || read(io::stdin().as_fd(), &sender, &waker))?
            }
            ListSource::File(path) => {
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
            let name = self.name.take();
            return Next::Entry(ListEntry { url: url.into(), name, checksum: None }, None);
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
                Ok(ListMessage::Block(block)) => (self.block, self.at) = (block, 0),
                Ok(ListMessage::End(ledger)) => {
                    self.ledger = *ledger;
                    self.news = None;
                }
                Ok(ListMessage::Failed(error)) => {
                    self.news = None;
                    return Next::Failed(error);
                }
                Err(TryRecvError::Empty) => return Next::Later,
                Err(TryRecvError::Disconnected) => self.news = None,
            }
        }
    }

    /// The position of the next line in the block, without its line end.
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

    /// Stops reading the list.
    pub(crate) fn close(&mut self) {
        self.urls = Vec::new().into_iter();
        self.news = None;
        self.at = self.block.len();
    }

    /// The part of the list that was read, if its size is known. Without a list: the part of the
    /// URLs.
    pub(crate) fn share(&self) -> Option<f64> {
        let (taken, size) = match (self.size, &self.news) {
            (Some(size), _) => (self.taken, size),
            (None, Some(_)) => return None, // the size of a pipe is unknown
            (None, None) => ((self.urls_len - self.urls.len()) as u64, self.urls_len as u64),
        };
        #[expect(clippy::cast_precision_loss, reason = "for display")]
        (size > 0).then(|| taken as f64 / size as f64)
    }

    /// The system calls of the thread, after the list has ended.
    pub(crate) fn ledger(&self) -> Ledger {
        self.ledger
    }
}

/// The body of the thread. It ends with the list, or when the receiver is dropped.
fn read(list: BorrowedFd<'_>, to: &SyncSender<ListMessage>, waker: &Waker) {
    let mut blocks = Blocks::default();
    loop {
        let news = match sys::read(list, blocks.room()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => ListMessage::Failed(error),
            Ok(0) => match blocks.finish() {
                Some(block) => ListMessage::Block(block),
                None => ListMessage::End(Box::new(Ledger::here())),
            },
            Ok(n) => match blocks.fill(n) {
                Some(block) => ListMessage::Block(block),
                None => continue,
            },
        };
        let last = !matches!(news, ListMessage::Block(_));
        if to.send(news).is_err() {
            return;
        }
        waker.wake();
        if last {
            return;
        }
    }
}

/// Splits bytes into blocks of whole lines.
#[derive(Debug)]
struct Blocks {
    buffer: Box<[u8]>,
    len: usize,
    /// Skips the rest of a line that is too long.
    skipping: bool,
}

impl Default for Blocks {
    fn default() -> Self {
        Self { buffer: vec![0; BLOCK_SIZE].into(), len: 0, skipping: false }
    }
}

impl Blocks {
    /// The buffer for the next bytes; never empty.
    fn room(&mut self) -> &mut [u8] {
        &mut self.buffer[self.len..]
    }

    /// Takes `n` bytes that were read, and returns the complete lines.
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

    /// The end of the data: returns a last line without a line end.
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
/// Bytes shown of an invalid line.
const SHOWN_LEN_MAX: usize = 100;
const STACK_SIZE: usize = 64 * 1024;
const _: () = assert!(LINE_LEN_MAX < BLOCK_SIZE, "a line that fills a block is too long");

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of `bytes` in pieces of `piece` bytes.
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
    fn lines_do_not_depend_on_the_split() {
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
            assert!(long.len() > LINE_LEN_MAX, "too long");
            assert!(out.len() <= 2 * BLOCK_SIZE && out.ends_with(b"last\n"), "{piece}");
        }
    }
}
