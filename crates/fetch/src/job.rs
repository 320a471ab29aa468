//! One URL in progress.

use std::time::Duration;

use fulmar_client::{Done, Request, TransferId};
use fulmar_semantics::content_range::{Resume, Validator};

use crate::checksum::{FileChecksum, Hasher};
use crate::fault::FetchFault;
use crate::journal::{DownloadKey, Ticket};
use crate::name::OutputName;
use crate::output_dir::BodyOutput;
use crate::partial::{Naming, Partial};

/// An entry of the list with its file name.
#[derive(Debug)]
pub(crate) struct ListItem {
    pub(crate) url: Box<str>,
    pub(crate) line: Option<u64>,
    pub(crate) name: Option<OutputName>,
    pub(crate) checksum: Option<FileChecksum>,
}

/// An item in progress.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) item: ListItem,
    /// The request for the whole file. The rest of a file needs another one.
    pub(crate) request: Request,
    pub(crate) key: DownloadKey,
    /// Its line in the journal, once it has begun.
    pub(crate) ticket: Option<Ticket>,
    /// The result if the existing file has the expected checksum, which is being verified.
    pub(crate) existing: Option<ItemResult>,
    /// How to treat an existing file.
    pub(crate) naming: Naming,
    pub(crate) retries: u32,
    /// `None` while waiting for a retry, and while an existing file is verified.
    pub(crate) transfer: Option<TransferId>,
    pub(crate) attempt: FetchAttempt,
    /// The version of the received bytes.
    pub(crate) version: ResourceVersion,
}

/// The state of one attempt.
#[derive(Debug, Default)]
pub(crate) struct FetchAttempt {
    /// The part to resume from.
    pub(crate) resume: Option<Resume>,
    pub(crate) partial: Option<Partial>,
    pub(crate) hasher: Option<Hasher>,
    pub(crate) status: Option<u16>,
    /// The offset of the response body in the file.
    pub(crate) base: u64,
    /// The kernel splices the body into the file.
    pub(crate) splices: bool,
    /// The body is ignored; this attempt fails with this fault.
    pub(crate) refused: Option<FetchFault>,
    /// The kept part was complete already, and the body is ignored.
    pub(crate) is_whole: bool,
    /// The length of the complete file, if it is known from more than the framing.
    pub(crate) whole_len: Option<u64>,
    /// The announced length of the file, if any.
    pub(crate) expected: Option<u64>,
    /// Ignored bytes of the body.
    pub(crate) ignored: u64,
    /// The delay that the server requested.
    pub(crate) rest: Duration,
}

/// The version of the resource being fetched; used with `--resume` only.
#[derive(Debug, Default)]
pub(crate) struct ResourceVersion {
    pub(crate) validator: Option<Validator>,
    /// The version is in the journal.
    pub(crate) noted: bool,
}

/// The result of an item.
#[derive(Debug)]
pub(crate) enum ItemResult {
    /// The file is new.
    Fetched,
    /// An earlier run has fetched it.
    Earlier,
    /// The file exists and is skipped.
    Skipped,
    Failed(FetchFault),
}

impl ItemResult {
    /// The result for programs, stable across versions.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Fetched => "fetched",
            Self::Earlier => "earlier",
            Self::Skipped => "skipped",
            Self::Failed(_) => "failed",
        }
    }
}

/// The history of an item.
#[derive(Debug, Default)]
pub(crate) struct Course {
    pub(crate) done: Option<Done>,
    pub(crate) status: Option<u16>,
    pub(crate) retries: u32,
    pub(crate) resumed_from: u64,
    /// The length of the file.
    pub(crate) len: u64,
}

impl Job {
    /// A job that has not begun and has no item yet.
    pub(crate) fn new(request: Request, key: DownloadKey) -> Self {
        Self {
            item: ListItem { url: Box::default(), line: None, name: None, checksum: None },
            request,
            key,
            ticket: None,
            existing: None,
            naming: Naming::New,
            retries: 0,
            transfer: None,
            attempt: FetchAttempt::default(),
            version: ResourceVersion::default(),
        }
    }

    /// Opens the kept part of the file, if it can be resumed.
    pub(crate) fn resume(&mut self, outlet: &mut BodyOutput) -> std::io::Result<Option<Resume>> {
        let Some(validator) = &self.version.validator else { return Ok(None) };
        let BodyOutput::Files(store) = outlet else { return Ok(None) };
        let Some(partial) = Partial::kept(&store.place(self.name())?, self.key)? else {
            self.version.validator = None;
            return Ok(None);
        };
        let mut hasher = self.item.checksum.as_ref().map(FileChecksum::hasher);
        if let Some(hasher) = &mut hasher {
            partial.read(|bytes| hasher.update(bytes))?;
        }
        let resume = Resume { have: partial.len(), validator: validator.clone() };
        self.attempt.hasher = hasher;
        self.attempt.partial = Some(partial);
        Ok(Some(resume))
    }

    /// The name of its file.
    pub(crate) fn name(&self) -> &OutputName {
        self.item.name.as_ref().expect("every job has a name")
    }

    /// The remaining bytes and the received fraction, if both are known.
    pub(crate) fn rest(&self) -> Option<(u64, f64)> {
        let expected = self.attempt.expected?;
        let have = self.attempt.partial.as_ref().map_or(0, Partial::len).min(expected);
        #[expect(clippy::cast_precision_loss, reason = "for display")]
        let part = if expected == 0 { 1.0 } else { have as f64 / expected as f64 };
        Some((expected - have, part))
    }

    /// The history so far.
    pub(crate) fn course(&self) -> Course {
        Course {
            status: self.attempt.status,
            retries: self.retries,
            resumed_from: self.attempt.base,
            ..Course::default()
        }
    }
}

impl FetchAttempt {
    /// Ignores a piece of the body. True as long as receiving it is cheaper than a new connection.
    pub(crate) fn ignore(&mut self, len: usize) -> bool {
        self.ignored += len as u64;
        self.ignored <= IGNORED_SIZE_MAX
    }
}

/// Bytes of an ignored body received to keep its connection.
const IGNORED_SIZE_MAX: u64 = 64 * 1024;
