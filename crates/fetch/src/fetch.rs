//! The work list on top of the client: decides which URL is requested when, and handles its
//! response.
//!
//! At most [`JOBS_LEN_MAX`] URLs are in progress. The client enforces its limits; this module
//! assigns names and files, and retries.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use fulmar_client::{Application, Context, Done, TransferEvent, TransferId};
use fulmar_proto::{Headers, Response};
use fulmar_semantics::content_range::{Resumption, Validator};
use fulmar_sys::{self as sys, Ledger};
use slab::Slab;

use crate::backoff;
use crate::checksum::FileChecksum;
use crate::disk::{Disk, DiskEvent, VerifyTask};
use crate::fault::{FetchFault, FileOperation, file};
use crate::job::{Course, FetchAttempt, ItemResult, Job, ListItem, ResourceVersion};
use crate::journal::{DownloadKey, History, Journal};
use crate::list::ListEntry;
use crate::list_reader::{Feed, Next};
use crate::name::OutputName;
use crate::output_dir::BodyOutput;
use crate::partial::{Naming, Partial};
use crate::progress::Outlook;
use crate::report::Tally;
use crate::request_plan::RequestPlan;
use crate::run_log::RunLog;

/// The work list, as the client's application.
#[derive(Debug)]
pub(crate) struct Fetch {
    pub(crate) plan: RequestPlan,
    pub(crate) feed: Feed,
    pub(crate) outlet: BodyOutput,
    pub(crate) disk: Disk,
    pub(crate) journal: Journal,
    pub(crate) history: History,
    pub(crate) book: RunLog,
    pub(crate) work: JobTable,
}

/// What to do with a URL before a request is sent.
enum Prepared {
    /// Fetch it. The job has no item yet.
    Start(Job),
    /// The existing file is verified first.
    Verify(Job, OwnedFd, FileChecksum),
    /// It has ended.
    Over(ItemResult),
}

/// The jobs in progress.
#[derive(Debug, Default)]
pub(crate) struct JobTable {
    jobs: Slab<Job>,
    /// The job of each transfer.
    owners: Vec<usize>,
    /// The names of the jobs.
    names: HashSet<OutputName>,
    /// Jobs that wait for a retry, and until when.
    resting: BinaryHeap<Reverse<(Instant, usize)>>,
    /// Jobs with a version that is not in the journal yet. It is recorded if they are still running
    /// after the turn.
    unnoted: Vec<usize>,
    /// The list has ended.
    exhausted: bool,
}

impl Fetch {
    /// Takes URLs from the list up to the limit.
    pub(crate) fn fill(&mut self, context: &mut Context<'_>) {
        let jobs_len_max = match self.outlet {
            BodyOutput::Files(_) => JOBS_LEN_MAX,
            BodyOutput::Stdout => 1, // one body after the other
        };
        while !self.work.exhausted && self.work.jobs.len() < jobs_len_max {
            match self.feed.next() {
                Next::Entry(entry, line) => self.admit(context, entry, line),
                Next::Bad(shown, line, error) => {
                    let url = shown.into();
                    let item = ListItem { url, line: Some(line), name: None, checksum: None };
                    let verdict = ItemResult::Failed(FetchFault::Line(error));
                    self.book.settle(&item, &verdict, &Course::default());
                }
                Next::Later => return,
                Next::End => self.work.exhausted = true,
                Next::Failed(error) => {
                    self.work.exhausted = true;
                    self.book.errors.push(format!("cannot read the rest of the list: {error}"));
                }
            }
        }
    }

    /// True once no work is left.
    pub(crate) fn is_finished(&self) -> bool {
        self.work.exhausted && self.work.jobs.is_empty()
    }

    /// Aborts all jobs, and returns the number of URLs begun.
    pub(crate) fn stop(&mut self, context: &mut Context<'_>) -> usize {
        self.feed.close();
        self.work.exhausted = true;
        self.work.resting.clear();
        self.count_spliced(context);
        let jobs = std::mem::take(&mut self.work.jobs);
        let count = jobs.len();
        for (_, mut job) in jobs {
            if let Some(transfer) = job.transfer.take() {
                context.remove(transfer);
            }
            self.lay_aside(&mut job, true);
        }
        count
    }

    /// Syncs and writes pending data. Removes the journal if nothing is left to resume.
    pub(crate) fn finish(&mut self, stopped: bool) -> (Tally, Vec<String>, Ledger) {
        self.book.finish();
        let (events, ledger) = self.disk.finish();
        for event in events {
            if let DiskEvent::Synced { done, result } = event {
                self.synced(&done, result);
            }
        }
        self.close_journal(stopped);
        let RunLog { tally, errors, .. } = &mut self.book;
        (std::mem::take(tally), std::mem::take(errors), ledger + self.feed.ledger())
    }

    /// Writes the journal, or removes it if no later run needs it.
    fn close_journal(&mut self, stopped: bool) {
        if !self.journal.is_needed() {
            return self.remove_traces();
        }
        if self.book.tally.failed == 0 && self.book.errors.is_empty() && !stopped {
            let _ = self.journal.remove(); // a remaining journal does no harm
        } else if let Err(error) = self.journal.flush().and_then(|()| match self.plan.sync {
            true => self.disk.sync_journal(),
            false => Ok(()),
        }) {
            self.book.errors.push(format!("cannot write the journal: {error}"));
        }
    }

    /// Removes the journal and the directories that this run has made, unless something was
    /// received or an earlier run has left its journal.
    pub(crate) fn remove_traces(&mut self) {
        if self.journal.is_needed() {
            return;
        }
        let _ = self.journal.remove(); // a remaining journal does no harm
        if let BodyOutput::Files(store) = &mut self.outlet {
            store.remove_made();
        }
    }

    /// These downloads have been synced, or the disk has failed.
    fn synced(&mut self, done: &[(DownloadKey, u64)], result: std::io::Result<()>) {
        match result {
            Ok(()) => done.iter().for_each(|(key, len)| self.journal.done(*key, *len)),
            Err(error) => {
                done.iter().for_each(|(key, _)| self.journal.lost(*key));
                let count = done.len();
                self.book
                    .errors
                    .push(format!("cannot sync {count} of the files to the disk: {error}"));
            }
        }
    }

    /// Handles the finished tasks of the disk threads.
    fn poll_disk(&mut self, context: &mut Context<'_>) {
        while let Some(event) = self.disk.poll() {
            match event {
                DiskEvent::Synced { done, result } => {
                    self.synced(&done, result);
                    // Lines that cannot be written stay pending.
                    let _ = self.journal.flush();
                }
                DiskEvent::Verified { at, key, result } => {
                    self.verified(context, at, key, result);
                }
            }
        }
    }

    /// An existing file has been compared with its checksum.
    fn verified(
        &mut self,
        context: &mut Context<'_>,
        at: usize,
        key: DownloadKey,
        result: std::io::Result<Option<FileChecksum>>,
    ) {
        let job = self.work.jobs.get_mut(at).filter(|job| job.key == key);
        let Some((verdict, job)) = job.and_then(|job| Some((job.existing.take()?, job))) else {
            return; // the run was stopped meanwhile
        };
        match result {
            Ok(None) => {
                let course = job.course();
                self.settle(at, &verdict, course);
            }
            Ok(Some(_other)) => {
                job.naming = Naming::Replace;
                self.start(context, at);
            }
            Err(error) => {
                let fault = FetchFault::File { doing: FileOperation::Verify, error };
                self.fail(context, at, fault, None);
            }
        }
    }

    /// Records the versions of jobs that are still running after the turn.
    pub(crate) fn note_versions(&mut self) {
        for at in std::mem::take(&mut self.work.unnoted) {
            if let Some(job) = self.work.jobs.get_mut(at)
                && job.attempt.partial.is_some()
                && let Some(validator) = &job.version.validator
                && !std::mem::replace(&mut job.version.noted, true)
            {
                self.journal.keep(job.key, validator);
            }
        }
        // A version that cannot be written only means a full fetch after a kill.
        let _ = self.journal.flush();
    }

    /// True if [`Fetch::note_versions`] has work to do.
    pub(crate) fn has_versions(&self) -> bool {
        !self.work.unnoted.is_empty()
    }

    fn admit(&mut self, context: &mut Context<'_>, entry: ListEntry, line: Option<u64>) {
        let ListEntry { url, name, checksum } = entry;
        let mut item = ListItem { url, line, name: None, checksum };
        let verdict = match self.prepare(&mut item, name.as_deref()) {
            Ok(Prepared::Start(job)) => {
                let at = self.work.jobs.insert(Job { item, ..job });
                return self.start(context, at);
            }
            Ok(Prepared::Verify(job, file, checksum)) => {
                let key = job.key;
                let at = self.work.jobs.insert(Job { item, ..job });
                return match self.disk.verify(VerifyTask { at, key, file, checksum }) {
                    Ok(()) => {}
                    Err(error) => {
                        let fault = FetchFault::File { doing: FileOperation::Verify, error };
                        self.fail(context, at, fault, None);
                    }
                };
            }
            Ok(Prepared::Over(verdict)) => verdict,
            Err(fault) => ItemResult::Failed(fault),
        };
        self.book.settle(&item, &verdict, &Course::default());
    }

    /// All checks before a request is sent.
    fn prepare(
        &mut self,
        item: &mut ListItem,
        given: Option<&[u8]>,
    ) -> Result<Prepared, FetchFault> {
        let request = self.plan.request(&item.url, None).map_err(FetchFault::Request)?;
        let BodyOutput::Files(store) = &mut self.outlet else {
            return Ok(Prepared::Start(Job::new(request, DownloadKey(0))));
        };
        let name = match given {
            Some(bytes) => OutputName::given(bytes),
            None if self.plan.mirror => OutputName::mirrored(request.url()),
            None => OutputName::of_url(request.url()),
        };
        let name = name.map_err(FetchFault::Name)?;
        item.name = Some(name.clone());
        if self.work.names.contains(&name) {
            return Err(FetchFault::Duplicate);
        }
        let place = store.place(&name).map_err(file(FileOperation::Directory))?;
        let key = DownloadKey::new(&item.url, &name);
        let existing = store.existing(&name, &place).map_err(file(FileOperation::Directory))?;
        let mut job = Job::new(request, key);
        if let Some(info) = existing {
            let is_file = info.kind == sys::FileKind::Regular;
            let is_ours = self.history.has_begun(key);
            let verdict = match () {
                () if is_ours && is_file && self.history.is_done(key, info.len) => {
                    Some(ItemResult::Earlier)
                }
                () if is_ours && is_file => None, // truncated: it is fetched again
                () if self.plan.skip_existing => Some(ItemResult::Skipped),
                () => return Err(FetchFault::Exists),
            };
            match (verdict, &item.checksum) {
                (None, _) => job.naming = Naming::Replace,
                (Some(verdict), None) => return Ok(Prepared::Over(verdict)),
                (Some(_), Some(_)) if !is_file => return Err(FetchFault::Exists),
                (Some(verdict), Some(checksum)) => {
                    let opened = sys::open_step(place.dir.as_fd(), &place.last);
                    let opened = opened.map_err(file(FileOperation::Verify))?;
                    job.existing = Some(verdict);
                    self.work.names.insert(name);
                    return Ok(Prepared::Verify(job, opened, checksum.clone()));
                }
            }
        }
        self.work.names.insert(name);
        let validator = self.history.take_kept(key).filter(|_| self.plan.resume);
        if self.history.has_begun(key) && validator.is_none() {
            Partial::forget(&place, key);
        }
        job.version = ResourceVersion { noted: validator.is_some(), validator };
        Ok(Prepared::Start(job))
    }

    /// Begins an attempt.
    fn start(&mut self, context: &mut Context<'_>, at: usize) {
        let job = &mut self.work.jobs[at];
        job.attempt = FetchAttempt::default();
        if job.ticket.is_none() {
            job.ticket = Some(self.journal.begin(job.key));
        }
        let request = match job.resume(&mut self.outlet) {
            Ok(None) => job.request.clone(),
            Ok(Some(resume)) => match self.plan.request(&job.item.url, Some(&resume)) {
                Ok(request) => {
                    job.attempt.resume = Some(resume);
                    request
                }
                Err(error) => return self.fail(context, at, FetchFault::Request(error), None),
            },
            Err(error) => {
                let fault = FetchFault::File { doing: FileOperation::Read, error };
                return self.fail(context, at, fault, None);
            }
        };
        let transfer = context.start(&request);
        job.transfer = Some(transfer);
        self.book.begin(job.request.url().host_str());
        let owners = &mut self.work.owners;
        if owners.len() <= transfer.index() {
            owners.resize(transfer.index() + 1, usize::MAX);
        }
        owners[transfer.index()] = at;
    }

    /// The head of a response.
    fn head(
        &mut self,
        context: &mut Context<'_>,
        at: usize,
        response: Response<'_>,
        len: Option<u64>,
    ) -> Result<(), FetchFault> {
        let job = &mut self.work.jobs[at];
        let (status, headers) = (response.status, response.headers);
        job.attempt.status = Some(status);
        let decision = match &job.attempt.resume {
            None => Resumption::Other,
            Some(resume) => resume.decide(status, headers).map_err(FetchFault::Range)?,
        };
        match decision {
            Resumption::Continue { len: rest, total } => {
                let have = job.attempt.partial.as_ref().map_or(0, Partial::len);
                job.attempt.base = have;
                job.attempt.whole_len = Some(total.unwrap_or(have + rest));
                job.attempt.expected = job.attempt.whole_len;
                self.splice(context, at, len);
            }
            Resumption::Complete => job.attempt.is_whole = true,
            Resumption::RequestAgain => job.attempt.refused = Some(FetchFault::Changed),
            Resumption::Restart => self.begin_body(context, at, headers, len)?,
            Resumption::Other if matches!(status, 200..=299) && status != 206 => {
                self.begin_body(context, at, headers, len)?;
            }
            Resumption::Other => {
                job.attempt.rest = self.plan.rest(context.now, status, headers);
                job.attempt.refused = Some(FetchFault::Status(status));
            }
        }
        Ok(())
    }

    /// The body of the response is the whole file.
    fn begin_body(
        &mut self,
        context: &mut Context<'_>,
        at: usize,
        headers: Headers<'_>,
        len: Option<u64>,
    ) -> Result<(), FetchFault> {
        let job = &mut self.work.jobs[at];
        match &mut job.attempt.partial {
            Some(partial) => partial.clear().map_err(file(FileOperation::Write))?,
            None => {
                let partial = match &mut self.outlet {
                    BodyOutput::Stdout => Partial::stdout(),
                    BodyOutput::Files(store) => {
                        let place =
                            store.place(job.name()).map_err(file(FileOperation::Directory))?;
                        Partial::create(&place, job.key)
                    }
                };
                job.attempt.partial = Some(partial.map_err(file(FileOperation::Create))?);
            }
        }
        job.attempt.expected = len;
        job.attempt.hasher = job.item.checksum.as_ref().map(|checksum| checksum.hasher());
        if self.plan.resume {
            let noted = std::mem::take(&mut job.version.noted);
            if noted {
                self.journal.drop_kept(job.key);
            }
            job.version.validator = Validator::of(headers);
            if job.version.validator.is_some() {
                self.work.unnoted.push(at);
            }
        }
        self.splice(context, at, len);
        Ok(())
    }

    /// Splices a long body into the file, if its bytes are not needed for a checksum.
    fn splice(&mut self, context: &mut Context<'_>, at: usize, len: Option<u64>) {
        let job = &mut self.work.jobs[at];
        let long = len.filter(|len| *len >= SPLICE_FROM && job.item.checksum.is_none());
        if let (Some(len), Some(partial), Some(transfer)) =
            (long, &job.attempt.partial, job.transfer)
            && let Some(range) = partial.range(len)
        {
            job.attempt.splices = context.store(transfer, range);
        }
    }

    /// Counts the bytes that the kernel has spliced so far.
    fn count_spliced(&mut self, context: &Context<'_>) {
        for (_, job) in self.work.jobs.iter_mut().filter(|(_, job)| job.attempt.splices) {
            if let Some(partial) = &mut job.attempt.partial
                && let Some(progress) = job.transfer.and_then(|it| context.progress(it))
            {
                let moved = partial.moved(job.attempt.base + progress.received);
                self.book.receive(job.request.url().host_str(), moved);
            }
        }
    }

    /// The remaining work, as far as it is known.
    fn outlook(&self) -> Outlook {
        let jobs = &self.work.jobs;
        let rests = || jobs.iter().map(|(_, job)| job.rest());
        let known = self.work.exhausted && rests().all(|rest| rest.is_some());
        Outlook {
            under_way: jobs.len(),
            partly: rests().flatten().map(|(_, part)| part).sum(),
            bytes_left: known.then(|| {
                rests().flatten().fold(0, |sum: u64, (bytes, _)| sum.saturating_add(bytes))
            }),
            share: if self.work.exhausted { Some(1.0) } else { self.feed.share() },
        }
    }

    /// A piece of the body.
    fn data(&mut self, context: &Context<'_>, at: usize, bytes: &[u8]) -> Result<(), FetchFault> {
        let job = &mut self.work.jobs[at];
        let attempt = &mut job.attempt;
        if attempt.is_whole || attempt.refused.is_some() {
            if matches!(attempt.refused, Some(FetchFault::Status(400)))
                && FetchFault::needs_tls(bytes)
            {
                attempt.refused = Some(FetchFault::NeedsTls);
            }
            return match attempt.ignore(bytes.len()) {
                true => Ok(()),
                false => Err(attempt.refused.take().unwrap_or(FetchFault::Changed)),
            };
        }
        let Some(partial) = &mut attempt.partial else { return Ok(()) };
        self.book.receive(job.request.url().host_str(), bytes.len() as u64);
        if attempt.splices
            && let Some(progress) = job.transfer.and_then(|transfer| context.progress(transfer))
        {
            let len = attempt.base + progress.received - bytes.len() as u64;
            self.book.receive(job.request.url().host_str(), partial.moved(len));
        }
        if let Some(hasher) = &mut attempt.hasher {
            hasher.update(bytes);
        }
        partial.append(bytes).map_err(file(FileOperation::Write))
    }

    /// An attempt has ended.
    fn done(&mut self, context: &mut Context<'_>, at: usize, mut done: Done) {
        let job = &mut self.work.jobs[at];
        job.transfer = None;
        let host = job.request.url().host_str();
        self.book.end(host);
        if job.attempt.splices
            && let Some(partial) = &mut job.attempt.partial
        {
            self.book.receive(host, partial.moved(job.attempt.base + done.received));
        }
        let result = std::mem::replace(&mut done.result, Ok(()));
        let fault = match job.attempt.refused.take() {
            Some(fault) => Some(fault),
            None if result.is_ok() && done.excess => Some(FetchFault::Excess),
            None => result.err().map(FetchFault::Transfer),
        };
        match fault.map_or_else(|| self.complete(context.now, at), Err) {
            Ok(course) => {
                self.settle(at, &ItemResult::Fetched, Course { done: Some(done), ..course })
            }
            Err(fault) => self.fail(context, at, fault, Some(done)),
        }
    }

    /// The body is complete: the file gets its name.
    fn complete(&mut self, now: Instant, at: usize) -> Result<Course, FetchFault> {
        let job = &mut self.work.jobs[at];
        let attempt = &mut job.attempt;
        if let (Some(expected), Some(hasher)) = (&job.item.checksum, attempt.hasher.take())
            && let Some(found) = expected.differs(hasher)
        {
            return Err(FetchFault::Checksum { expected: expected.clone(), found });
        }
        if !job.ticket.is_some_and(|ticket| self.journal.is_written(ticket)) {
            self.journal.flush().map_err(file(FileOperation::Journal))?;
        }
        let len = attempt.partial.as_ref().map_or(0, Partial::len);
        if attempt.whole_len.is_some_and(|whole| whole != len) {
            return Err(FetchFault::Changed); // fewer or more bytes than missing
        }
        let partial = attempt.partial.take().expect("a body was written to it");
        let written = partial.commit(job.naming).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => FetchFault::Exists,
            _ => FetchFault::File { doing: FileOperation::Rename, error },
        })?;
        match written {
            Some(written) if self.plan.sync => self.disk.add(now, (job.key, len), written),
            Some(written) => {
                written.close();
                self.journal.done(job.key, len);
            }
            None => {}
        }
        if std::mem::take(&mut job.version.noted) {
            self.journal.drop_kept(job.key);
        }
        Ok(Course { len, ..job.course() })
    }

    /// An attempt has failed: retries or ends the job.
    fn fail(
        &mut self,
        context: &mut Context<'_>,
        at: usize,
        fault: FetchFault,
        done: Option<Done>,
    ) {
        let job = &mut self.work.jobs[at];
        let mut course = job.course();
        let keep = fault.keeps_part();
        let rest = job.attempt.rest;
        // The kept part is invalid and is not kept again, so this cannot happen twice.
        let changed = matches!(fault, FetchFault::Changed) && job.attempt.resume.is_some();
        let streamed = matches!(self.outlet, BodyOutput::Stdout)
            && job.attempt.partial.as_ref().is_some_and(|partial| partial.len() > 0);
        let retry = fault.is_transient() && job.retries < self.plan.retries && !streamed;
        job.retries += u32::from(retry && !changed);
        let retries = job.retries;
        let mut attempt = std::mem::take(&mut job.attempt);
        let mut version = std::mem::take(&mut job.version);
        aside(&mut self.journal, job.key, &mut attempt, &mut version, keep && self.plan.resume);
        job.version = version;
        if changed {
            return self.start(context, at);
        }
        if retry {
            let wait = backoff::wait(retries - 1, fastrand::f64()).max(rest);
            return self.work.resting.push(Reverse((context.now + wait, at)));
        }
        course.done = done;
        self.settle(at, &ItemResult::Failed(fault), course);
    }

    fn lay_aside(&mut self, job: &mut Job, keep: bool) {
        let keep = keep && self.plan.resume;
        aside(&mut self.journal, job.key, &mut job.attempt, &mut job.version, keep);
    }

    fn settle(&mut self, at: usize, verdict: &ItemResult, course: Course) {
        let job = self.work.jobs.remove(at);
        if let Some(name) = &job.item.name {
            self.work.names.remove(name);
        }
        self.book.settle(&job.item, verdict, &course);
    }

    /// The job of a transfer.
    fn owner(&self, transfer: TransferId) -> Option<usize> {
        let at = *self.work.owners.get(transfer.index())?;
        let job = self.work.jobs.get(at)?;
        (job.transfer == Some(transfer)).then_some(at)
    }
}

/// Keeps the received part of a file if it can be resumed, or removes it.
fn aside(
    journal: &mut Journal,
    key: DownloadKey,
    attempt: &mut FetchAttempt,
    version: &mut ResourceVersion,
    keep: bool,
) {
    let partial = attempt.partial.take();
    let kept = version.validator.as_ref().filter(|_| keep);
    match (partial, kept) {
        (Some(partial), Some(validator)) if partial.len() > 0 => {
            if !std::mem::replace(&mut version.noted, true) {
                journal.keep(key, validator);
            }
            partial.keep();
        }
        (partial, _) => {
            partial.into_iter().for_each(Partial::discard);
            version.validator = None;
            if std::mem::take(&mut version.noted) {
                journal.drop_kept(key);
            }
        }
    }
}

impl Application for Fetch {
    fn handle(
        &mut self,
        context: &mut Context<'_>,
        transfer: TransferId,
        event: TransferEvent<'_>,
    ) {
        let Some(at) = self.owner(transfer) else { return };
        let result = match event {
            TransferEvent::Head { response, len } => self.head(context, at, response, len),
            TransferEvent::Data(bytes) => self.data(context, at, &bytes),
            TransferEvent::Upgraded => Err(FetchFault::Status(101)),
            TransferEvent::Done(done) => {
                self.done(context, at, done);
                return self.fill(context);
            }
            TransferEvent::Connected(_)
            | TransferEvent::Informational(_)
            | TransferEvent::MalformedHead { .. }
            | TransferEvent::Trailers(_)
            | TransferEvent::Redirect { .. }
            | TransferEvent::Writable => Ok(()),
        };
        if let Err(fault) = result {
            context.remove(transfer);
            let job = &mut self.work.jobs[at];
            job.transfer = None;
            self.book.end(job.request.url().host_str());
            self.fail(context, at, fault, None);
            self.fill(context);
        }
    }

    fn handle_wake(&mut self, context: &mut Context<'_>) {
        if !self.book.shared.is_stopped() {
            self.poll_disk(context);
            self.fill(context);
        }
    }

    fn handle_timeout(&mut self, context: &mut Context<'_>) {
        while let Some(Reverse((due, at))) = self.work.resting.peek().copied()
            && due <= context.now
        {
            self.work.resting.pop();
            self.start(context, at);
        }
        self.fill(context);
        self.disk.sync_batch(context.now);
        if self.book.due().is_some_and(|due| due <= context.now) {
            self.count_spliced(context);
            self.book.publish(context.now, &self.outlook());
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let resting = self.work.resting.peek().map(|Reverse((due, _))| *due);
        resting.into_iter().chain(self.book.due()).chain(self.disk.due()).min()
    }
}

/// URLs in progress, with names, requests and places in the client's queues; some KB each.
const JOBS_LEN_MAX: usize = 1_024;
/// Shorter bodies are copied, which saves the pipe and two calls for each piece.
const SPLICE_FROM: u64 = 256 * 1024;
