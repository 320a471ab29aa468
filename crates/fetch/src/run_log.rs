//! Reports a run: counts, a record and a message for each URL, and progress.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fulmar_client::Done;
use fulmar_semantics::userinfo::without_password;

use crate::job::{Course, ItemResult, ListItem};
use crate::progress::{FetchProgress, HostSpeeds, Outlook, SharedProgress};
use crate::report::Tally;
use crate::url_record::{RecordFile, RecordedFailure, UrlRecord};

/// Called with a message for each failed URL, without a line end.
pub(crate) type Complaints = Box<dyn FnMut(&str) + Send>;

/// The reports of a run.
pub(crate) struct RunLog {
    pub(crate) tally: Tally,
    /// Errors of the run itself, not of a URL.
    pub(crate) errors: Vec<String>,
    pub(crate) shared: Arc<SharedProgress>,
    records: Option<RecordFile>,
    complaints: Complaints,
    begun: Instant,
    /// Only if progress is requested.
    watch: Option<ProgressTracker>,
}

/// Data for progress only.
#[derive(Debug)]
struct ProgressTracker {
    hosts: HostSpeeds,
    due: Instant,
}

impl RunLog {
    pub(crate) fn new(
        now: Instant,
        shared: Arc<SharedProgress>,
        records: Option<RecordFile>,
        complaints: Complaints,
        watched: bool,
    ) -> Self {
        let watch = watched
            .then(|| ProgressTracker { hosts: HostSpeeds::new(now), due: now + PUBLISH_EVERY });
        Self {
            tally: Tally::default(),
            errors: Vec::new(),
            shared,
            records,
            complaints,
            begun: now,
            watch,
        }
    }

    /// An item has ended.
    pub(crate) fn settle(&mut self, item: &ListItem, verdict: &ItemResult, course: &Course) {
        let tally = &mut self.tally;
        match verdict {
            ItemResult::Fetched => tally.fetched += 1,
            ItemResult::Earlier => tally.earlier += 1,
            ItemResult::Skipped => tally.skipped += 1,
            ItemResult::Failed(fault) => {
                tally.failed += 1;
                *tally.faults.entry(fault.kind()).or_default() += 1;
                let line = item.line.map(|line| format!("line {line}: ")).unwrap_or_default();
                let url = without_password(&item.url);
                (self.complaints)(&format!("{line}{url}: {fault}"));
            }
        }
        tally.retries += u64::from(course.retries);
        tally.redirects += redirects(course) as u64;
        if let Some(records) = &mut self.records
            && let Err(error) = records.write(&record(item, verdict, course))
        {
            self.records = None;
            self.errors.push(format!("cannot write further records: {error}"));
        }
    }

    /// Writes pending records.
    pub(crate) fn finish(&mut self) {
        if let Some(Err(error)) = self.records.as_mut().map(RecordFile::flush) {
            self.errors.push(format!("cannot write the last records: {error}"));
        }
    }

    /// A transfer to `host` begins.
    pub(crate) fn begin(&mut self, host: Option<&str>) {
        if let (Some(watch), Some(host)) = (&mut self.watch, host) {
            watch.hosts.begin(host);
        }
    }

    /// A transfer to `host` has ended.
    pub(crate) fn end(&mut self, host: Option<&str>) {
        if let (Some(watch), Some(host)) = (&mut self.watch, host) {
            watch.hosts.end(host);
        }
    }

    /// Body bytes arrived from `host`.
    pub(crate) fn receive(&mut self, host: Option<&str>, bytes: u64) {
        self.tally.bytes += bytes;
        if let (Some(watch), Some(host)) = (&mut self.watch, host) {
            watch.hosts.add(host, bytes);
        }
    }

    /// The time of the next [`RunLog::publish`].
    pub(crate) fn due(&self) -> Option<Instant> {
        Some(self.watch.as_ref()?.due)
    }

    /// Publishes the progress of the run.
    pub(crate) fn publish(&mut self, now: Instant, outlook: &Outlook) {
        let Some(watch) = &mut self.watch else { return };
        watch.due = now + PUBLISH_EVERY;
        self.shared.publish(FetchProgress {
            elapsed: now - self.begun,
            over: self.tally.over(),
            failed: self.tally.failed,
            under_way: outlook.under_way,
            bytes: self.tally.bytes,
            bytes_left: outlook.bytes_left,
            share: outlook.done(self.tally.over()),
            slowest: watch.hosts.slowest(now),
        });
    }
}

/// The number of followed redirects. Other hops, such as requests repeated after a 401, do not
/// count.
fn redirects(course: &Course) -> usize {
    let hops = course.done.iter().flat_map(|done| &done.hops);
    hops.filter(|hop| (300..400).contains(&hop.status)).count()
}

fn record<'a>(item: &'a ListItem, verdict: &ItemResult, course: &'a Course) -> UrlRecord<'a> {
    let done = course.done.as_ref();
    let fault = match verdict {
        ItemResult::Failed(fault) => Some(fault),
        _ => None,
    };
    let tried = fault.into_iter().flat_map(|fault| fault.tried()).map(ToString::to_string);
    let peer = done.and_then(|done: &Done| done.peer).map(|peer| peer.ip().to_string());
    UrlRecord {
        url: without_password(&item.url),
        line: item.line,
        result: verdict.word(),
        final_url: done.map(|done| done.request.url().as_str()),
        output: item.name.as_ref().map(ToString::to_string),
        status: course.status,
        bytes: course.len,
        resumed_from: course.resumed_from,
        redirects: redirects(course),
        retries: course.retries,
        tried: peer.iter().cloned().chain(tried).collect(),
        peer,
        timings_us: done.map(|done| done.timings().into()),
        error: fault
            .map(|fault| RecordedFailure { kind: fault.kind(), message: fault.to_string() }),
    }
}

impl fmt::Debug for RunLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunLog").field("tally", &self.tally).finish_non_exhaustive()
    }
}

const PUBLISH_EVERY: Duration = Duration::from_millis(500);
