//! What is told of a run: counts, a record and a message for each URL, progress.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fulmar_client::Done;
use fulmar_semantics::userinfo::without_password;

use crate::job::{Course, Item, Verdict};
use crate::progress::{Hosts, Outlook, Progress, Shared};
use crate::record::{Failure, Record, Records};
use crate::report::Tally;

/// Is told of each URL that fails: a line without its end.
pub(crate) type Complaints = Box<dyn FnMut(&str) + Send>;

/// The books of a run.
pub(crate) struct Book {
    pub(crate) tally: Tally,
    /// What went wrong with the run itself.
    pub(crate) trouble: Vec<String>,
    pub(crate) shared: Arc<Shared>,
    records: Option<Records>,
    complaints: Complaints,
    begun: Instant,
    /// Only if somebody looks at the progress.
    watch: Option<Watch>,
}

/// What is only kept for somebody who looks.
#[derive(Debug)]
struct Watch {
    hosts: Hosts,
    due: Instant,
}

impl Book {
    pub(crate) fn new(
        now: Instant,
        shared: Arc<Shared>,
        records: Option<Records>,
        complaints: Complaints,
        watched: bool,
    ) -> Self {
        let watch = watched.then(|| Watch { hosts: Hosts::new(now), due: now + PUBLISH_EVERY });
        Self {
            tally: Tally::default(),
            trouble: Vec::new(),
            shared,
            records,
            complaints,
            begun: now,
            watch,
        }
    }

    /// An item is over.
    pub(crate) fn settle(&mut self, item: &Item, verdict: &Verdict, course: &Course) {
        let tally = &mut self.tally;
        match verdict {
            Verdict::Fetched => tally.fetched += 1,
            Verdict::Earlier => tally.earlier += 1,
            Verdict::Skipped => tally.skipped += 1,
            Verdict::Failed(fault) => {
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
            self.trouble.push(format!("no more records are written: {error}"));
        }
    }

    /// Writes what is pending.
    pub(crate) fn finish(&mut self) {
        if let Some(Err(error)) = self.records.as_mut().map(Records::flush) {
            self.trouble.push(format!("the last records are not written: {error}"));
        }
    }

    /// A transfer to `host` begins.
    pub(crate) fn begin(&mut self, host: Option<&str>) {
        if let (Some(watch), Some(host)) = (&mut self.watch, host) {
            watch.hosts.begin(host);
        }
    }

    /// A transfer to `host` is over.
    pub(crate) fn end(&mut self, host: Option<&str>) {
        if let (Some(watch), Some(host)) = (&mut self.watch, host) {
            watch.hosts.end(host);
        }
    }

    /// Bytes of a body have come from `host`.
    pub(crate) fn receive(&mut self, host: Option<&str>, bytes: u64) {
        self.tally.bytes += bytes;
        if let (Some(watch), Some(host)) = (&mut self.watch, host) {
            watch.hosts.add(host, bytes);
        }
    }

    /// When [`Book::publish`] is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        Some(self.watch.as_ref()?.due)
    }

    /// Publishes how far the run is.
    pub(crate) fn publish(&mut self, now: Instant, outlook: &Outlook) {
        let Some(watch) = &mut self.watch else { return };
        watch.due = now + PUBLISH_EVERY;
        self.shared.publish(Progress {
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

/// Redirects that were followed. Other hops, such as requests repeated after a 401, do not count.
fn redirects(course: &Course) -> usize {
    let hops = course.done.iter().flat_map(|done| &done.hops);
    hops.filter(|hop| (300..400).contains(&hop.status)).count()
}

fn record<'a>(item: &'a Item, verdict: &Verdict, course: &'a Course) -> Record<'a> {
    let done = course.done.as_ref();
    let fault = match verdict {
        Verdict::Failed(fault) => Some(fault),
        _ => None,
    };
    let tried = fault.into_iter().flat_map(|fault| fault.tried()).map(ToString::to_string);
    let peer = done.and_then(|done: &Done| done.peer).map(|peer| peer.to_string());
    Record {
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
        error: fault.map(|fault| Failure { kind: fault.kind(), message: fault.to_string() }),
    }
}

impl fmt::Debug for Book {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Book").field("tally", &self.tally).finish_non_exhaustive()
    }
}

const PUBLISH_EVERY: Duration = Duration::from_millis(500);
