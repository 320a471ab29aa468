//! The result of a run.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use fulmar_drive::{DriverInfo, Stats};
use fulmar_sys::{CpuTimes, Ledger};

/// The results of the URLs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// New files.
    pub fetched: u64,
    /// Files that an earlier run has fetched.
    pub earlier: u64,
    /// Existing files that were skipped.
    pub skipped: u64,
    /// URLs that failed.
    pub failed: u64,
    /// Failures by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Attempts after the first.
    pub retries: u64,
    /// Redirects followed.
    pub redirects: u64,
    /// Bytes received of the bodies of files; those of errors do not count.
    pub bytes: u64,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// The results of the URLs.
    pub tally: Tally,
    /// URLs in progress when the run was stopped.
    pub unfinished: usize,
    /// It was stopped early.
    pub stopped: bool,
    /// Errors of the run itself: the list could not be read completely, or a record not written.
    pub errors: Vec<String>,
    /// Duration of the run.
    pub elapsed: Duration,
    /// Connections established.
    pub connections: u64,
    /// System calls, including those of the thread that reads the list.
    pub ledger: Ledger,
    /// CPU time of the process.
    pub cpu: CpuTimes,
    /// Memory of the process at the end.
    pub resident: u64,
    /// Statistics of the event loop.
    pub stats: Stats,
    /// The driver of the event loop.
    pub driver: DriverInfo,
}

impl Tally {
    /// URLs that have ended.
    pub fn over(&self) -> u64 {
        self.fetched + self.earlier + self.skipped + self.failed
    }
}

impl Report {
    /// True if every URL has its file.
    pub fn is_success(&self) -> bool {
        self.tally.failed == 0 && self.unfinished == 0 && !self.stopped && self.errors.is_empty()
    }

    /// The summary as text.
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
        #[expect(clippy::cast_precision_loss, reason = "for display")]
        let (bytes, fetched) = (tally.bytes as f64, tally.fetched as f64);
        let rate = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
        let _ = writeln!(
            text,
            "  bytes         {} in {seconds:.2} s: {}/s, {:.0} files/s",
            grouped(tally.bytes),
            size(rate(bytes)),
            rate(fetched)
        );
        let _ = writeln!(
            text,
            "  connections   {} opened, {}, {}",
            self.connections,
            plural(tally.redirects, "redirect", "redirects"),
            plural(tally.retries, "retry", "retries")
        );
        #[expect(clippy::cast_precision_loss, reason = "for display")]
        let urls = tally.over().max(1) as f64;
        let cpu = self.cpu.total().as_secs_f64() * 1e6 / urls;
        let _ = writeln!(text, "  cost          {cpu:.1} us CPU per URL, {:.1} MB memory", {
            #[expect(clippy::cast_precision_loss, reason = "for display")]
            let resident = self.resident as f64;
            resident / 1e6
        });
        text
    }
}

fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Formats with a comma between thousands.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats bytes in a suitable unit with three digits.
fn size(bytes: f64) -> String {
    let units = ["B", "kB", "MB", "GB"];
    let mut value = bytes;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1e3;
        unit += 1;
    }
    let decimals = match value {
        _ if unit == 0 => 0,
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_units_and_separators_that_fit() {
        for (bytes, text) in [
            (0.0, "0 B"),
            (999.0, "999 B"),
            (999.9, "1.00 kB"),
            (12_345.0, "12.3 kB"),
            (123_456_789.0, "123 MB"),
            (9_999.0, "10.0 kB"),
            (4e12, "4000 GB"),
        ] {
            assert_eq!(size(bytes), text, "{bytes}");
        }
        let grouped = [0, 999, 1_000, 83_529, 1_234_567].map(grouped);
        assert_eq!(grouped, ["0", "999", "1,000", "83,529", "1,234,567"]);
        assert_eq!(
            plural(1, "retry", "retries") + &plural(0, "", "redirects"),
            "1 retry0 redirects"
        );
    }
}
