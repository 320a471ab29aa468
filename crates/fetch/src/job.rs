//! One URL on its way to being a file.

use std::time::Duration;

use fulmar_client::{Done, Request, TransferId};
use fulmar_semantics::content_range::{Resume, Validator};

use crate::checksum::{Checksum, Hasher};
use crate::fault::Fault;
use crate::journal::{Key, Ticket};
use crate::name::Name;
use crate::partial::{Naming, Partial};
use crate::store::BodyOutput;

/// What the list says, and the name that it leads to.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) url: Box<str>,
    pub(crate) line: Option<u64>,
    pub(crate) name: Option<Name>,
    pub(crate) checksum: Option<Checksum>,
}

/// An item that is under way.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) item: Item,
    /// For the whole; asking for the rest needs another.
    pub(crate) request: Request,
    pub(crate) key: Key,
    /// Its beginning in the journal, once it has begun.
    pub(crate) ticket: Option<Ticket>,
    /// What becomes of it if the existing file has its checksum, which is being verified.
    pub(crate) existing: Option<Verdict>,
    /// What happens to an existing file.
    pub(crate) naming: Naming,
    pub(crate) retries: u32,
    /// `None` while it rests before a retry, and while an existing file is verified.
    pub(crate) transfer: Option<TransferId>,
    pub(crate) attempt: Attempt,
    /// Which version the bytes that are there belong to.
    pub(crate) version: Version,
}

/// What one attempt has come to.
#[derive(Debug, Default)]
pub(crate) struct Attempt {
    /// What is asked for is what follows.
    pub(crate) resume: Option<Resume>,
    pub(crate) partial: Option<Partial>,
    pub(crate) hasher: Option<Hasher>,
    pub(crate) status: Option<u16>,
    /// Where in the file the body of this answer begins.
    pub(crate) base: u64,
    /// The kernel puts the body into the file.
    pub(crate) splices: bool,
    /// The body is of no interest: it is why this attempt fails.
    pub(crate) refused: Option<Fault>,
    /// What is there was whole already: the body is none of it.
    pub(crate) is_whole: bool,
    /// How long the file must be in the end, where more than the framing says so.
    pub(crate) whole_len: Option<u64>,
    /// How long the file will be, if the server said so.
    pub(crate) expected: Option<u64>,
    /// So much of the body was ignored.
    pub(crate) ignored: u64,
    /// The server wants to be left alone for so long.
    pub(crate) rest: Duration,
}

/// What is known of the version that is being fetched; kept with `--resume` only.
#[derive(Debug, Default)]
pub(crate) struct Version {
    pub(crate) validator: Option<Validator>,
    /// The journal says so too.
    pub(crate) noted: bool,
}

/// What became of an item.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The file is there, and was not before.
    Fetched,
    /// An earlier run has fetched it.
    Earlier,
    /// It is there, and that was to be left alone.
    Skipped,
    Failed(Fault),
}

impl Verdict {
    /// A word for machines, stable across versions.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Fetched => "fetched",
            Self::Earlier => "earlier",
            Self::Skipped => "skipped",
            Self::Failed(_) => "failed",
        }
    }
}

/// How an item came to its end.
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
    /// One that has not begun, and has no item yet.
    pub(crate) fn new(request: Request, key: Key) -> Self {
        Self {
            item: Item { url: Box::default(), line: None, name: None, checksum: None },
            request,
            key,
            ticket: None,
            existing: None,
            naming: Naming::New,
            retries: 0,
            transfer: None,
            attempt: Attempt::default(),
            version: Version::default(),
        }
    }

    /// Opens what is kept of the file, if it can be gone on with.
    pub(crate) fn resume(&mut self, outlet: &mut BodyOutput) -> std::io::Result<Option<Resume>> {
        let Some(validator) = &self.version.validator else { return Ok(None) };
        let BodyOutput::Files(store) = outlet else { return Ok(None) };
        let Some(partial) = Partial::kept(&store.place(self.name())?, self.key)? else {
            self.version.validator = None;
            return Ok(None);
        };
        let mut hasher = self.item.checksum.as_ref().map(Checksum::hasher);
        if let Some(hasher) = &mut hasher {
            partial.read(|bytes| hasher.update(bytes))?;
        }
        let resume = Resume { have: partial.len(), validator: validator.clone() };
        self.attempt.hasher = hasher;
        self.attempt.partial = Some(partial);
        Ok(Some(resume))
    }

    /// The name of its file.
    pub(crate) fn name(&self) -> &Name {
        self.item.name.as_ref().expect("no file is begun without a name")
    }

    /// So many bytes are still to come, and this part of them is there; if both are known.
    pub(crate) fn rest(&self) -> Option<(u64, f64)> {
        let expected = self.attempt.expected?;
        let have = self.attempt.partial.as_ref().map_or(0, Partial::len).min(expected);
        #[expect(clippy::cast_precision_loss, reason = "a figure to look at")]
        let part = if expected == 0 { 1.0 } else { have as f64 / expected as f64 };
        Some((expected - have, part))
    }

    /// How it has come this far.
    pub(crate) fn course(&self) -> Course {
        Course {
            status: self.attempt.status,
            retries: self.retries,
            resumed_from: self.attempt.base,
            ..Course::default()
        }
    }
}

impl Attempt {
    /// A piece of a body of no interest: true as long as its connection is worth it.
    pub(crate) fn ignore(&mut self, len: usize) -> bool {
        self.ignored += len as u64;
        self.ignored <= IGNORED_SIZE_MAX
    }
}

/// So much of a body that nobody wants is taken to keep its connection.
const IGNORED_SIZE_MAX: u64 = 64 * 1024;
