//! What a run has come to.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use fulmar_drive::{Driven, Stats};
use fulmar_sys::{CpuTimes, Ledger};

/// What became of the URLs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Files that are there now and were not before.
    pub fetched: u64,
    /// Files that an earlier run has fetched.
    pub earlier: u64,
    /// Files that were there and left alone.
    pub skipped: u64,
    /// URLs that failed.
    pub failed: u64,
    /// Those, by the kind of their fault.
    pub faults: BTreeMap<&'static str, u64>,
    /// Attempts after the first.
    pub retries: u64,
    /// Redirects followed.
    pub redirects: u64,
    /// Bytes of bodies received.
    pub bytes: u64,
}

/// What a run has come to.
#[derive(Clone, Debug)]
pub struct Report {
    /// What became of the URLs.
    pub tally: Tally,
    /// URLs that were begun when the run was stopped.
    pub unfinished: usize,
    /// It was stopped early.
    pub stopped: bool,
    /// Why not all of the list was read, or a record was not written.
    pub trouble: Vec<String>,
    /// From start to end.
    pub elapsed: Duration,
    /// Connections opened.
    pub connections: u64,
    /// System calls, those of the thread that reads the list included.
    pub ledger: Ledger,
    /// Processor time of the process.
    pub cpu: CpuTimes,
    /// Memory of the process at the end.
    pub resident: u64,
    /// What drove the loop.
    pub stats: Stats,
    /// What it ran on.
    pub driven: Driven,
}

impl Tally {
    /// URLs that are over.
    pub fn over(&self) -> u64 {
        self.fetched + self.earlier + self.skipped + self.failed
    }
}

impl Report {
    /// True if every URL has its file.
    pub fn is_success(&self) -> bool {
        self.tally.failed == 0 && self.unfinished == 0 && !self.stopped && self.trouble.is_empty()
    }

    /// A few lines for people.
    pub fn text(&self) -> String {
        let tally = &self.tally;
        let mut text = format!("  files         {} fetched", tally.fetched);
        let more = [
            (tally.earlier, "fetched by an earlier run"),
            (tally.skipped, "skipped"),
            (tally.failed, "failed"),
            (self.unfinished as u64, "unfinished"),
        ];
        for (count, what) in more.into_iter().filter(|(count, _)| *count > 0) {
            let _ = write!(text, ", {count} {what}");
        }
        text.push('\n');
        if !tally.faults.is_empty() {
            let faults = tally.faults.iter().map(|(kind, count)| format!("{kind} {count}"));
            let _ = writeln!(text, "  errors        {}", faults.collect::<Vec<_>>().join(", "));
        }
        let seconds = self.elapsed.as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a figure to look at")]
        let (bytes, files) = (tally.bytes as f64, tally.over() as f64);
        let rate = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
        let _ = writeln!(
            text,
            "  bytes         {} in {seconds:.2} s: {:.1} MB/s, {:.0} files/s",
            tally.bytes,
            rate(bytes) / 1e6,
            rate(files)
        );
        let _ = writeln!(
            text,
            "  connections   {} opened, {} redirects, {} retries",
            self.connections, tally.redirects, tally.retries
        );
        let cpu = self.cpu.total().as_secs_f64() * 1e6 / files.max(1.0);
        let _ = writeln!(text, "  cost          {cpu:.1} us CPU per file, {:.1} MB memory", {
            #[expect(clippy::cast_precision_loss, reason = "a figure to look at")]
            let resident = self.resident as f64;
            resident / 1e6
        });
        text
    }
}
