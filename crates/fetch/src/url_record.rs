//! A line of JSON for each URL.

use std::borrow::Cow;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use fulmar_client::Timings;
use fulmar_sys as sys;
use serde::Serialize;

use crate::list_reader::RecordSink;

/// The fields of a record. The format is stable: fields are added, never renamed or removed.
#[derive(Debug, Serialize)]
pub(crate) struct UrlRecord<'a> {
    /// The URL without its password.
    pub(crate) url: Cow<'a, str>,
    /// The line number in the list.
    pub(crate) line: Option<u64>,
    pub(crate) result: &'static str,
    pub(crate) final_url: Option<&'a str>,
    pub(crate) output: Option<String>,
    pub(crate) status: Option<u16>,
    pub(crate) bytes: u64,
    pub(crate) resumed_from: u64,
    pub(crate) redirects: usize,
    pub(crate) retries: u32,
    pub(crate) peer: Option<String>,
    pub(crate) tried: Vec<String>,
    pub(crate) timings_us: Option<Micros>,
    pub(crate) error: Option<RecordedFailure>,
}

/// The durations of the parts.
#[derive(Debug, Serialize)]
pub(crate) struct Micros {
    queue: u64,
    name: u64,
    connect: u64,
    handshake: u64,
    first_byte: Option<u64>,
    total: u64,
}

/// The failure.
#[derive(Debug, Serialize)]
pub(crate) struct RecordedFailure {
    pub(crate) kind: &'static str,
    pub(crate) message: String,
}

impl From<Timings> for Micros {
    fn from(timings: Timings) -> Self {
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        Self {
            queue: micros(timings.queue),
            name: micros(timings.name),
            connect: micros(timings.connect),
            handshake: micros(timings.handshake),
            first_byte: Some(micros(timings.first_byte)).filter(|it| *it > 0), // no response began
            total: micros(timings.total),
        }
    }
}

/// The file of records, written many lines at a time.
#[derive(Debug)]
pub(crate) struct RecordFile {
    fd: OwnedFd,
    pending: Vec<u8>,
}

impl RecordFile {
    pub(crate) fn open(sink: &RecordSink) -> io::Result<Self> {
        let fd = match sink {
            RecordSink::Stdout => sys::duplicate(io::stdout().as_raw_fd())?,
            RecordSink::File(path) => sys::open_log(path)?,
        };
        Ok(Self { fd, pending: Vec::new() })
    }

    pub(crate) fn write(&mut self, record: &UrlRecord<'_>) -> io::Result<()> {
        serde_json::to_writer(&mut self.pending, record)?;
        self.pending.push(b'\n');
        if self.pending.len() < PENDING_SIZE {
            return Ok(());
        }
        self.flush()
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let mut rest = &self.pending[..];
        while !rest.is_empty() {
            match sys::write(self.fd.as_fd(), rest)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => rest = &rest[n..],
            }
        }
        self.pending.clear();
        Ok(())
    }
}

/// Some hundred lines.
const PENDING_SIZE: usize = 64 * 1024;
