//! The work list over the client: which URL is asked for when, and what its answer becomes.
//!
//! At most [`JOBS_LEN_MAX`] URLs are in hand. The client holds them to its limits; here they are
//! given their names, their files, and another attempt.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::time::Instant;

use fulmar_client::{Application, Context, Done, Event, TransferId};
use fulmar_proto::{Headers, Response};
use fulmar_semantics::content_range::{Resumption, Validator};
use fulmar_sys::Ledger;
use slab::Slab;

use crate::backoff;
use crate::book::Book;
use crate::fault::{Doing, Fault, file};
use crate::feed::{Feed, Next};
use crate::job::{Attempt, Course, Item, Job, Verdict, Version};
use crate::journal::{History, Journal, Key};
use crate::list::Entry;
use crate::name::Name;
use crate::partial::Partial;
use crate::plan::Plan;
use crate::report::Tally;
use crate::store::Store;

/// The work list, as the client's application.
#[derive(Debug)]
pub(crate) struct Fetch {
    pub(crate) plan: Plan,
    pub(crate) feed: Feed,
    pub(crate) store: Store,
    pub(crate) journal: Journal,
    pub(crate) history: History,
    pub(crate) book: Book,
    pub(crate) work: Work,
}

/// What is in hand.
#[derive(Debug, Default)]
pub(crate) struct Work {
    jobs: Slab<Job>,
    /// The job of each transfer.
    owners: Vec<usize>,
    /// The names of the jobs.
    names: HashSet<Name>,
    /// Jobs to be tried again, and when.
    resting: BinaryHeap<Reverse<(Instant, usize)>>,
    /// Jobs whose version the journal is to be told, if they outlast the turn.
    unnoted: Vec<usize>,
    /// Nothing more comes from the list.
    exhausted: bool,
}

impl Fetch {
    /// Takes as much from the list as may be in hand.
    pub(crate) fn fill(&mut self, context: &mut Context<'_>) {
        while !self.work.exhausted && self.work.jobs.len() < JOBS_LEN_MAX {
            match self.feed.next() {
                Next::Entry(entry, line) => self.admit(context, entry, line),
                Next::Bad(shown, line, error) => {
                    let url = shown.into();
                    let item = Item { url, line: Some(line), name: None, checksum: None };
                    let verdict = Verdict::Failed(Fault::Line(error));
                    self.book.settle(&item, &verdict, &Course::default());
                }
                Next::Later => return,
                Next::End => self.work.exhausted = true,
                Next::Failed(error) => {
                    self.work.exhausted = true;
                    self.book.trouble.push(format!("the list cannot be read any further: {error}"));
                }
            }
        }
    }

    /// True once nothing is left to be done.
    pub(crate) fn is_finished(&self) -> bool {
        self.work.exhausted && self.work.jobs.is_empty()
    }

    /// Gives up what is in hand, and what would follow: how many URLs were begun.
    pub(crate) fn stop(&mut self, context: &mut Context<'_>) -> usize {
        self.feed.close();
        self.work.exhausted = true;
        self.work.resting.clear();
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

    /// Writes what is pending, and removes the journal if nothing is left to be continued.
    pub(crate) fn finish(&mut self, stopped: bool) -> (Tally, Vec<String>, Ledger) {
        self.book.finish();
        if let Err(error) = self.journal.flush() {
            self.book.trouble.push(format!("the journal is not complete: {error}"));
        }
        let Book { tally, trouble, .. } = &mut self.book;
        if tally.failed == 0 && trouble.is_empty() && !stopped {
            let _ = self.journal.remove(); // one that stays only says what is true
        }
        (std::mem::take(tally), std::mem::take(trouble), self.feed.ledger())
    }

    /// The journal is told what outlasted the turn.
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
        // What cannot be written now is only fetched from its beginning after a kill.
        let _ = self.journal.flush();
    }

    /// True if [`Fetch::note_versions`] has something to do.
    pub(crate) fn has_versions(&self) -> bool {
        !self.work.unnoted.is_empty()
    }

    fn admit(&mut self, context: &mut Context<'_>, entry: Entry, line: Option<u64>) {
        let Entry { url, name, checksum } = entry;
        let mut item = Item { url, line, name: None, checksum };
        let verdict = match self.prepare(&mut item, name.as_deref()) {
            Ok(Ok(job)) => {
                let at = self.work.jobs.insert(Job { item, ..job });
                return self.start(context, at);
            }
            Ok(Err(verdict)) => verdict,
            Err(fault) => Verdict::Failed(fault),
        };
        self.book.settle(&item, &verdict, &Course::default());
    }

    /// Everything that can be found out before anything is asked: a job without its item, or what
    /// becomes of it without being asked for.
    fn prepare(
        &mut self,
        item: &mut Item,
        given: Option<&str>,
    ) -> Result<Result<Job, Verdict>, Fault> {
        let request = self.plan.request(&item.url, None).map_err(Fault::Request)?;
        let name = match given {
            Some(text) => Name::given(text),
            None if self.plan.mirror => Name::mirrored(request.url()),
            None => Name::of_url(request.url()),
        };
        let name = name.map_err(Fault::Name)?;
        item.name = Some(name.clone());
        if self.work.names.contains(&name) {
            return Err(Fault::Duplicate);
        }
        let place = self.store.place(&name).map_err(file(Doing::Directory))?;
        let key = Key::new(&item.url, &name);
        if self.store.is_taken(&name, &place).map_err(file(Doing::Directory))? {
            return match () {
                () if self.history.has_begun(key) => Ok(Err(Verdict::Earlier)),
                () if self.plan.skip_existing => Ok(Err(Verdict::Skipped)),
                () => Err(Fault::Exists),
            };
        }
        self.work.names.insert(name);
        let validator = self.history.take_kept(key).filter(|_| self.plan.resume);
        if self.history.has_begun(key) && validator.is_none() {
            Partial::forget(&place, key);
        }
        let nothing = Item { url: Box::default(), line: None, name: None, checksum: None };
        Ok(Ok(Job {
            item: nothing,
            request,
            key,
            ticket: self.journal.begin(key),
            retries: 0,
            transfer: None,
            attempt: Attempt::default(),
            version: Version { noted: validator.is_some(), validator },
        }))
    }

    /// Begins an attempt.
    fn start(&mut self, context: &mut Context<'_>, at: usize) {
        let job = &mut self.work.jobs[at];
        job.attempt = Attempt::default();
        let request = match job.resume(&mut self.store) {
            Ok(None) => job.request.clone(),
            Ok(Some(resume)) => match self.plan.request(&job.item.url, Some(&resume)) {
                Ok(request) => {
                    job.attempt.resume = Some(resume);
                    request
                }
                Err(error) => return self.fail(context, at, Fault::Request(error), None),
            },
            Err(error) => {
                let fault = Fault::File { doing: Doing::Read, error };
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

    /// The answer begins.
    fn head(
        &mut self,
        context: &mut Context<'_>,
        at: usize,
        response: Response<'_>,
        len: Option<u64>,
    ) -> Result<(), Fault> {
        let job = &mut self.work.jobs[at];
        let (status, headers) = (response.status, response.headers);
        job.attempt.status = Some(status);
        let decision = match &job.attempt.resume {
            None => Resumption::Other,
            Some(resume) => resume.decide(status, headers).map_err(Fault::Range)?,
        };
        match decision {
            Resumption::Continue { len: rest, total } => {
                let have = job.attempt.partial.as_ref().map_or(0, Partial::len);
                job.attempt.base = have;
                job.attempt.whole_len = Some(total.unwrap_or(have + rest));
                self.splice(context, at, len);
            }
            Resumption::Complete => job.attempt.is_whole = true,
            Resumption::AskAgain => job.attempt.refused = Some(Fault::Changed),
            Resumption::Restart => self.begin_body(context, at, headers, len)?,
            Resumption::Other if matches!(status, 200..=299) && status != 206 => {
                self.begin_body(context, at, headers, len)?;
            }
            Resumption::Other => {
                job.attempt.rest = self.plan.rest(context.now, status, headers);
                job.attempt.refused = Some(Fault::Status(status));
            }
        }
        Ok(())
    }

    /// The body of the answer is the whole file.
    fn begin_body(
        &mut self,
        context: &mut Context<'_>,
        at: usize,
        headers: Headers<'_>,
        len: Option<u64>,
    ) -> Result<(), Fault> {
        let job = &mut self.work.jobs[at];
        match &mut job.attempt.partial {
            Some(partial) => partial.clear().map_err(file(Doing::Write))?,
            None => {
                let place = self.store.place(job.name()).map_err(file(Doing::Directory))?;
                let partial = Partial::create(&place, job.key).map_err(file(Doing::Create))?;
                job.attempt.partial = Some(partial);
            }
        }
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

    /// Has the kernel put a long body into the file, if nobody needs to see it.
    fn splice(&mut self, context: &mut Context<'_>, at: usize, len: Option<u64>) {
        let job = &mut self.work.jobs[at];
        let long = len.filter(|len| *len >= SPLICE_FROM && job.item.checksum.is_none());
        if let (Some(len), Some(partial), Some(transfer)) =
            (long, &job.attempt.partial, job.transfer)
        {
            job.attempt.splices = context.store(transfer, partial.range(len));
        }
    }

    /// A piece of the body.
    fn data(&mut self, context: &Context<'_>, at: usize, bytes: &[u8]) -> Result<(), Fault> {
        let job = &mut self.work.jobs[at];
        self.book.receive(job.request.url().host_str(), bytes.len() as u64);
        let attempt = &mut job.attempt;
        if attempt.is_whole || attempt.refused.is_some() {
            return match attempt.ignore(bytes.len()) {
                true => Ok(()),
                false => Err(attempt.refused.take().unwrap_or(Fault::Changed)),
            };
        }
        let Some(partial) = &mut attempt.partial else { return Ok(()) };
        if attempt.splices
            && let Some(progress) = job.transfer.and_then(|transfer| context.progress(transfer))
        {
            let len = attempt.base + progress.received - bytes.len() as u64;
            self.book.receive(job.request.url().host_str(), partial.moved(len));
        }
        if let Some(hasher) = &mut attempt.hasher {
            hasher.update(bytes);
        }
        partial.append(bytes).map_err(file(Doing::Write))
    }

    /// An attempt is over.
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
            None if result.is_ok() && done.excess => Some(Fault::Excess),
            None => result.err().map(Fault::Transfer),
        };
        match fault.map_or_else(|| self.complete(at), Err) {
            Ok(course) => self.settle(at, &Verdict::Fetched, Course { done: Some(done), ..course }),
            Err(fault) => self.fail(context, at, fault, Some(done)),
        }
    }

    /// The body is complete: the file gets its name.
    fn complete(&mut self, at: usize) -> Result<Course, Fault> {
        let job = &mut self.work.jobs[at];
        let attempt = &mut job.attempt;
        if let (Some(expected), Some(hasher)) = (&job.item.checksum, attempt.hasher.take())
            && let Some(found) = expected.differs(hasher)
        {
            return Err(Fault::Checksum { expected: expected.clone(), found });
        }
        if !self.journal.is_written(job.ticket) {
            self.journal.flush().map_err(file(Doing::Journal))?;
        }
        let len = attempt.partial.as_ref().map_or(0, Partial::len);
        if attempt.whole_len.is_some_and(|whole| whole != len) {
            return Err(Fault::Changed); // not all that was missing, or more
        }
        let partial = attempt.partial.take().expect("a body was written to it");
        partial.commit().map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => Fault::Exists,
            _ => Fault::File { doing: Doing::Rename, error },
        })?;
        if std::mem::take(&mut job.version.noted) {
            self.journal.drop_kept(job.key);
        }
        Ok(Course { len, ..job.course() })
    }

    /// An attempt has failed: another one, or none.
    fn fail(&mut self, context: &mut Context<'_>, at: usize, fault: Fault, done: Option<Done>) {
        let job = &mut self.work.jobs[at];
        let mut course = job.course();
        let keep = fault.leaves_a_beginning();
        let rest = job.attempt.rest;
        // What was kept is of no use, and is not kept again: this cannot come twice.
        let changed = matches!(fault, Fault::Changed) && job.attempt.resume.is_some();
        let retry = fault.is_transient() && job.retries < self.plan.retries;
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
        self.settle(at, &Verdict::Failed(fault), course);
    }

    fn lay_aside(&mut self, job: &mut Job, keep: bool) {
        let keep = keep && self.plan.resume;
        aside(&mut self.journal, job.key, &mut job.attempt, &mut job.version, keep);
    }

    fn settle(&mut self, at: usize, verdict: &Verdict, course: Course) {
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

/// Keeps the beginning of a file, if it can be gone on with, or removes it.
fn aside(
    journal: &mut Journal,
    key: Key,
    attempt: &mut Attempt,
    version: &mut Version,
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
    fn handle(&mut self, context: &mut Context<'_>, transfer: TransferId, event: Event<'_>) {
        let Some(at) = self.owner(transfer) else { return };
        let result = match event {
            Event::Head { response, len } => self.head(context, at, response, len),
            Event::Data(bytes) => self.data(context, at, &bytes),
            Event::Upgraded => Err(Fault::Status(101)),
            Event::Done(done) => {
                self.done(context, at, done);
                return self.fill(context);
            }
            Event::Informational(_) | Event::Redirect { .. } | Event::Writable => Ok(()),
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
        self.book.publish(context.now, self.work.jobs.len(), self.feed.share());
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let resting = self.work.resting.peek().map(|Reverse((due, _))| *due);
        resting.into_iter().chain(self.book.due()).min()
    }
}

/// URLs in hand: their names, their requests, their places in the client's queues. Some KB each.
const JOBS_LEN_MAX: usize = 1_024;
/// A shorter body costs less when it is copied: the pipe, and two calls for each piece, are saved.
const SPLICE_FROM: u64 = 256 * 1024;
