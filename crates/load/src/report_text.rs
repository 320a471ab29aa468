//! The report for people.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use fulmar_drive::DriverInfo;

use crate::histogram::Latency;
use crate::limited_by::LimitedBy;
use crate::report::{CallCount, RunReport, StreamsReport, float, per, ratio};

impl RunReport {
    /// The report for people, aligned and with units. It ends with a line feed.
    pub fn text(&self) -> String {
        let mut out = String::new();
        self.write_head(&mut out);
        self.write_counts(&mut out);
        self.write_latency(&mut out);
        self.write_cost(&mut out);
        self.write_limit(&mut out);
        out
    }

    /// The table of system calls for people, and the drivers of the loops.
    pub fn ledger_text(&self) -> String {
        let mut out = String::new();
        line(
            &mut out,
            format_args!(
                "  {:<16}{:>14}{:>14}{:>10}",
                "system call", "calls", "per request", "EAGAIN"
            ),
        );
        let mut all = CallCount::default();
        for (name, count) in &self.syscalls {
            self.write_call(&mut out, name, *count);
            all.calls += count.calls;
            all.eagain += count.eagain;
        }
        self.write_call(&mut out, "all", all);
        for (name, count) in &self.operations {
            self.write_call(&mut out, &format!("in a ring: {name}"), *count);
        }
        if let Some(steady) = &self.steady {
            let requests = grouped(steady.requests);
            let each = known(steady.syscalls_per_request, |calls| format!("{calls:.3}"));
            line(
                &mut out,
                format_args!("\n  once connected  {each} per request over {requests} requests"),
            );
        }
        let turns = &self.turns;
        let of = |n: u64| ratio(float(n), float(turns.turns));
        line(
            &mut out,
            format_args!(
                "  driven by       {}: {} turns, {:.1} events and {:.2} clock reads per turn, \
                 {} clock reads per request",
                self.drivers(),
                grouped(turns.turns),
                of(turns.events),
                of(turns.clock_reads),
                known(per(float(turns.clock_reads), self.requests), |it| format!("{it:.3}")),
            ),
        );
        out
    }

    fn write_call(&self, out: &mut String, name: &str, count: CallCount) {
        let each = known(per(float(count.calls), self.requests), |calls| format!("{calls:.3}"));
        let (calls, eagain) = (grouped(count.calls), grouped(count.eagain));
        line(out, format_args!("  {name:<16}{calls:>14}{each:>14}{eagain:>10}"));
    }

    /// The drivers of the loops; usually one.
    fn drivers(&self) -> String {
        let all: BTreeSet<_> = self.drivers.iter().map(DriverInfo::to_string).collect();
        Vec::from_iter(all).join(", ")
    }

    fn write_head(&self, out: &mut String) {
        let requested = self.connections.requested;
        let mut settings = vec![
            format!("{:.1} s", self.duration_s),
            counted(requested.into(), "connection"),
            counted(self.threads.into(), "thread"),
        ];
        match &self.streams {
            Some(streams) => {
                let each = counted(streams.requested.into(), "stream");
                settings.push(format!("HTTP/2, {each} each"));
            }
            None if self.depth > 1 => settings.push(format!("{} pipelined", self.depth)),
            None => {}
        }
        settings.push(self.drivers());
        line(out, format_args!("{}\n{}\n", self.url, settings.join(", ")));
    }

    fn write_counts(&self, out: &mut String) {
        let rps = grouped(whole(self.rps));
        field(out, "requests", &format!("{} answered, {rps} per second", grouped(self.requests)));
        let rate = bytes(ratio(float(self.bytes), self.duration_s));
        field(out, "received", &format!("{}, {rate} per second", bytes(float(self.bytes))));
        let status: Vec<_> =
            self.status.iter().map(|(c, n)| format!("{c}: {}", grouped(*n))).collect();
        if !status.is_empty() {
            field(out, "status", &status.join(", "));
        }
        let errors: Vec<_> =
            self.errors.iter().map(|(k, n)| format!("{k}: {}", grouped(*n))).collect();
        let none = "none".to_owned();
        field(out, "errors", &if errors.is_empty() { none } else { errors.join(", ") });
        for (what, n) in &self.broken {
            field(out, "", &format!("{what} ({})", grouped(*n)));
        }
        if self.only_http2 {
            field(out, "", "use --http2 for servers that speak HTTP/2 without negotiation");
        }
        if self.errors.contains_key("address_unavailable") {
            field(out, "", "no free source port: give more source addresses with --bind");
        }
        let connections = &self.connections;
        let (requested, established) =
            (grouped(connections.requested.into()), grouped(connections.established.into()));
        let opened = grouped(connections.opened);
        let mut counts =
            format!("{requested} requested, {established} established, {opened} opened");
        if self.outage_s > 0.0 {
            let outage = micros(self.outage_s * 1e6);
            write!(counts, "; none for {outage}, when connects failed").expect(TAKES);
        }
        field(out, "connections", &counts);
        if let Some(streams) = &self.streams {
            write_streams(out, streams);
        }
        if let Some(tls) = &self.tls {
            let (done, failed) = (grouped(tls.handshakes), grouped(tls.failed));
            let agreed = [tls.version, tls.cipher].into_iter().flatten();
            let agreed: String = agreed.map(|what| format!(", {what}")).collect();
            field(out, "handshakes", &format!("{done} done, {failed} failed{agreed}"));
            for (cause, n) in &tls.causes {
                field(out, "", &format!("{cause} ({})", grouped(*n)));
            }
        }
        if self.without_descriptor > 0 {
            let n = grouped(self.without_descriptor.into());
            field(out, "", &format!("{n} had no descriptor: {established} fit (see ulimit -n)"));
        }
        out.push('\n');
    }

    fn write_latency(&self, out: &mut String) {
        let names = ["min", "mean", "p50", "p90", "p99", "p99.9", "max"];
        let header: String = names.iter().map(|name| format!("{name:>10}")).collect();
        line(out, format_args!("{:1$}{header}", "", LABEL - 4));
        write_row(out, "latency", &self.latency_us);
        if let Some(raw) = &self.raw_latency_us {
            write_row(out, "from send", raw);
        }
        if let Some(tls) = self.tls.as_ref().filter(|tls| tls.handshakes > 0) {
            write_row(out, "handshake", &tls.latency_us);
        }
        out.push('\n');
        if let Some(rate) = &self.rate {
            let (planned, sent) = (grouped(whole(rate.planned)), grouped(whole(rate.sent)));
            let late = known(rate.lateness_p99_us, |us| micros(float(us)));
            field(
                out,
                "rate",
                &format!("{planned} planned, {sent} sent per second, 99 % at most {late} late"),
            );
        }
    }

    fn write_cost(&self, out: &mut String) {
        let all = self.cpu_us_per_request;
        let split =
            all.zip(self.cpu_user_us_per_request).map_or_else(String::new, |(all, user)| {
                format!(" ({} user, {} system)", three(user), three(all - user))
            });
        let each = known(all, |us| format!("{} us", three(us)));
        let calls = known(self.syscalls_per_request, |calls| format!("{calls:.2}"));
        let cost = format!("{each} CPU per request{split}, {calls} system calls");
        field(out, "own cost", &cost);
        let share = self.cpu_share * 100.0;
        let memory = known(self.rss_bytes, |n| bytes(float(n)));
        field(out, "", &format!("{share:.0} % of {}, {memory} of memory", cores(self.threads)));
    }

    fn write_limit(&self, out: &mut String) {
        let share = self.cpu_share * 100.0;
        let sentence = match self.limited_by {
            LimitedBy::Lost => {
                "the server was lost: no connection was left at the end, and connects failed"
                    .to_owned()
            }
            LimitedBy::Generator => format!(
                "this generator: it was busy {share:.0} % of the time, so the server may be \
                 faster than this; use more threads (-t)"
            ),
            LimitedBy::Settings if self.rate.is_some() => {
                "the settings: the requested rate was kept".to_owned()
            }
            LimitedBy::Settings => {
                "the settings: with one request at a time both ends wait for each other; more \
                 connections (-c) show more"
                    .to_owned()
            }
            LimitedBy::Server if self.rate.is_some() => {
                "the server: its responses came too late to keep the rate on these connections"
                    .to_owned()
            }
            LimitedBy::Server => format!(
                "the server, or the way there: this generator was busy {share:.0} % of the time"
            ),
        };
        field(out, "limit", &sentence);
    }
}

/// What the server did not accept.
fn write_streams(out: &mut String, streams: &StreamsReport) {
    if let Some(limit) = streams.limited_to {
        let of = grouped(streams.requested.into());
        let limit = grouped(limit.into());
        field(out, "streams", &format!("{limit} of {of} per connection: the server's limit"));
    }
    if streams.refused > 0 {
        field(out, "", &format!("{} refused and sent again", grouped(streams.refused)));
    }
    for (code, n) in &streams.resets {
        field(out, "", &format!("reset with {code} ({})", grouped(*n)));
    }
    for (code, n) in &streams.goaways {
        field(out, "", &format!("connections ended with GOAWAY {code} ({})", grouped(*n)));
    }
}

fn write_row(out: &mut String, name: &str, latency: &Latency) {
    let Latency { min, mean, p50, p90, p99, p999, max } = *latency;
    let [min, p50, p90, p99, p999, max] = [min, p50, p90, p99, p999, max].map(|us| us.map(float));
    let values = [min, mean, p50, p90, p99, p999, max];
    let row: String = values.iter().map(|us| format!("{:>10}", known(*us, micros))).collect();
    line(out, format_args!("  {name:<0$}{row}", LABEL - 6));
}

fn field(out: &mut String, name: &str, value: &str) {
    line(out, format_args!("  {name:<0$}{value}", LABEL - 2));
}

fn line(out: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(out, "{line}").expect(TAKES);
}

fn counted(n: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(n), if n == 1 { "" } else { "s" })
}

fn cores(threads: u32) -> String {
    if threads == 1 { "a core".to_owned() } else { format!("{threads} cores") }
}

/// A figure, or `-` where there are no samples.
fn known<T>(figure: Option<T>, show: impl FnOnce(T) -> String) -> String {
    figure.map_or_else(|| "-".to_owned(), show)
}

/// `1,234,567`.
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

/// Microseconds with three digits and a unit that fits.
fn micros(us: f64) -> String {
    match us {
        us if us < 1e3 => format!("{us:.0} us"),
        us if us < 1e6 => format!("{} ms", three(us / 1e3)),
        us => format!("{} s", three(us / 1e6)),
    }
}

fn bytes(n: f64) -> String {
    match n {
        n if n < 1e3 => format!("{n:.0} B"),
        n if n < 1e6 => format!("{} kB", three(n / 1e3)),
        n if n < 1e9 => format!("{} MB", three(n / 1e6)),
        n => format!("{} GB", three(n / 1e9)),
    }
}

fn three(value: f64) -> String {
    match value {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

fn whole(value: f64) -> u64 {
    Duration::try_from_secs_f64(value.round()).map_or(u64::MAX, |d| d.as_secs())
}

/// The column of values.
const LABEL: usize = 16;
const TAKES: &str = "a string takes everything";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{http2_sample, sample};

    #[test]
    fn numbers_are_short_and_have_units() {
        for (us, text) in [
            (0.4, "0 us"),
            (612.0, "612 us"),
            (1_100.0, "1.10 ms"),
            (23_456.0, "23.5 ms"),
            (912_000.0, "912 ms"),
            (2_310_000.0, "2.31 s"),
            (3_600e6, "3600 s"),
        ] {
            assert_eq!(micros(us), text);
        }
        assert_eq!(
            (grouped(7), grouped(1_234), grouped(123_456)),
            ("7".into(), "1,234".into(), "123,456".into())
        );
        assert_eq!((bytes(12.0), bytes(12_100_000.0)), ("12 B".to_owned(), "12.1 MB".to_owned()));
        assert_eq!((whole(2_000.4), whole(-1.0)), (2_000, u64::MAX));
    }

    #[test]
    fn the_limit_of_streams_is_named() {
        let text = http2_sample().text();
        for part in [
            "1 connection, 1 thread, HTTP/2, 100 streams each",
            "streams       50 of 100 per connection: the server's limit",
            "              21 refused and sent again",
            "              reset with INTERNAL_ERROR (2)",
            "              connections ended with GOAWAY ENHANCE_YOUR_CALM (3)",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }

    #[test]
    fn servers_without_http1_are_named() {
        let mut report = sample(None);
        assert!(!report.only_http2 && !report.text().contains("--http2"));
        report.only_http2 = true;
        assert!(report.text().contains("use --http2 for servers that speak HTTP/2"));
    }

    #[test]
    fn the_report_for_people_names_the_limit_and_lines_up() {
        let report = sample(Some(2_000));
        let text = report.text();
        for part in [
            "http://127.0.0.1:1/",
            "2,000 answered, 2,000 per second",
            "protocol: 2",
            "the Content-Length is malformed or ambiguous (2)",
            "8 requested, 8 established, 8 opened",
            "2,000 planned, 2,002 sent per second, 99 % at most 7 us late",
            "limit         the settings: the requested rate",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        let rows: Vec<_> = text
            .lines()
            .filter(|l| l.ends_with("us") || l.ends_with("max") || l.ends_with("ms"))
            .collect();
        assert!(rows.len() == 3 && rows.iter().all(|row| row.len() == rows[0].len()), "{text}");
        assert!(report.ledger_text().contains("driven by       epoll: 20 turns"));
    }
}
