//! The report of a run for machines. `report_text` has the same for people.

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_drive::DriverInfo;
use fulmar_proto::PeerError;
use fulmar_proto::h2::ErrorCode;
use fulmar_sys::{self as sys, CpuTimes, Ledger};
use serde::Serialize;

use crate::histogram::Latency;
use crate::limited_by::{Basis, LimitedBy, limited_by};
use crate::options::LoadProtocol;
use crate::run_plan::RunPlan;
use crate::schedule::planned_within;
use crate::tally::{ErrorKind, Handshakes, RunTally};
use crate::thread::ThreadResult;

/// The report of a run. Its JSON form is stable. A figure without samples is `None`, and `null` in
/// JSON.
#[derive(Clone, Debug, Serialize)]
pub struct RunReport {
    /// The URL; several are separated by blanks.
    pub url: String,
    /// The driver of the loops: `ring` (`ring:N`, if requested so), or `epoll` if each operation
    /// was a call in one thread at least.
    pub driver: String,
    /// Connections.
    pub connections: ConnectionCounts,
    /// Complete responses, whatever their status.
    pub requests: u64,
    /// Failed requests and connects, by [`ErrorKind`].
    pub errors: BTreeMap<&'static str, u64>,
    /// Responses by status code.
    pub status: BTreeMap<u16, u64>,
    /// From the start to the end, with connecting.
    pub duration_s: f64,
    /// Responses per second.
    pub rps: f64,
    /// Bytes received, with heads.
    pub bytes: u64,
    /// From the send to the end of the response; in an open loop from the planned time.
    pub latency_us: Latency,
    /// In an open loop: from the send.
    pub raw_latency_us: Option<Latency>,
    /// Processor time of the load threads per request.
    pub cpu_us_per_request: Option<f64>,
    /// Memory of the process at the end, before connections are closed.
    pub rss_bytes: Option<u64>,
    /// The limit of the rate.
    pub limited_by: LimitedBy,
    /// System calls of the load threads, with those that open connections.
    pub syscalls: BTreeMap<&'static str, CallCount>,
    /// All of them per request.
    pub syscalls_per_request: Option<f64>,
    /// Of an open loop.
    pub rate: Option<RateReport>,
    /// Processor time of the load threads, of all the time that they had: 1 is saturated.
    pub cpu_share: f64,
    /// The part of `cpu_us_per_request` that is not the kernel's. The kernel samples this part at
    /// its clock ticks (proc_pid_stat(5)). After a second of processor time, 100 ticks of 10 ms
    /// make it exact to 5 %; below that it is `None`.
    pub cpu_user_us_per_request: Option<f64>,
    /// Load threads.
    pub threads: u32,
    /// The maximum of outstanding requests on one connection.
    pub depth: u32,
    /// Counters of the loops.
    pub turns: Turns,
    /// The part of the run in which every connection was established.
    pub steady: Option<Steady>,
    /// Violations of HTTP by the server.
    pub broken: BTreeMap<String, u64>,
    /// True if a server responded to HTTP/1.1 with frames of HTTP/2.
    #[serde(skip)]
    pub only_http2: bool,
    /// Connections given up for lack of descriptors.
    pub without_descriptor: u32,
    /// Handshakes, if there is an `https` URL. They are part of no latency.
    pub tls: Option<TlsReport>,
    /// True if no connection was established at the end, and connects failed. The run has ended
    /// early if that lasted for 5 seconds.
    pub lost: bool,
    /// Seconds in which no connection was established, and connects failed.
    pub outage_s: f64,
    /// Operations inside `io_uring_enter(2)`; none without a ring.
    pub operations: BTreeMap<&'static str, CallCount>,
    /// `HTTP/1.1` or `HTTP/2`.
    pub protocol: &'static str,
    /// Streams, of HTTP/2.
    pub streams: Option<StreamsReport>,
    /// Whether the loop polled before it slept: `off`, `auto`, or the number of microseconds.
    pub spin: String,
    /// The driver of each thread's loop at its end, and why there was no ring.
    #[serde(skip)]
    pub drivers: Vec<DriverInfo>,
}

/// Connections of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ConnectionCounts {
    /// Connections requested.
    pub requested: u32,
    /// The maximum established at one time.
    pub established: u32,
    /// Connections opened in total: more than `established` if the server closes.
    pub opened: u64,
}

/// Streams of a run over HTTP/2.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StreamsReport {
    /// Streams requested per connection.
    pub requested: u32,
    /// The limit of the server (SETTINGS_MAX_CONCURRENT_STREAMS), if it is lower.
    pub limited_to: Option<u32>,
    /// Streams that the server refused or did not process; their requests were sent again.
    pub refused: u64,
    /// Streams that were reset, by the name of the error code.
    pub resets: BTreeMap<String, u64>,
    /// Connections whose GOAWAY left requests without a response, by the name of the error code.
    pub goaways: BTreeMap<String, u64>,
}

/// A system call in the ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CallCount {
    /// How often it was made.
    pub calls: u64,
    /// How often it returned `EAGAIN`.
    pub eagain: u64,
}

/// Handshakes of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TlsReport {
    /// The version of the first handshake.
    pub version: Option<&'static str>,
    /// Its cipher suite.
    pub cipher: Option<&'static str>,
    /// Completed handshakes.
    pub handshakes: u64,
    /// Failed handshakes.
    pub failed: u64,
    /// Causes of failures, with their counts.
    pub causes: BTreeMap<String, u64>,
    /// From the established connection to the end of the handshake.
    pub latency_us: Latency,
}

impl From<&Handshakes> for TlsReport {
    fn from(tls: &Handshakes) -> Self {
        Self {
            version: tls.agreed.map(|(version, _)| version.as_str()),
            cipher: tls.agreed.map(|(_, cipher)| cipher),
            handshakes: tls.done,
            failed: tls.failed,
            causes: tls.causes.iter().cloned().collect(),
            latency_us: tls.latency.summary(),
        }
    }
}

/// The rate of an open loop.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RateReport {
    /// Requests per second that were planned.
    pub planned: f64,
    /// Requests per second that were sent.
    pub sent: f64,
    /// The delay of sends: 99 % were at most this late.
    pub lateness_p99_us: Option<u64>,
}

/// Counters of the loops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Turns {
    /// Waits, each with the work that follows from it.
    pub turns: u64,
    /// Turns in which nothing was ready.
    pub empty: u64,
    /// Readiness events.
    pub events: u64,
    /// Turns in which a deadline had passed.
    pub timeouts: u64,
    /// Reads of the clock.
    pub clock_reads: u64,
}

/// A part of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Steady {
    /// Responses in it.
    pub requests: u64,
    /// System calls in it.
    pub syscalls: BTreeMap<&'static str, CallCount>,
    /// All of them, for each request.
    pub syscalls_per_request: Option<f64>,
}

impl RunReport {
    /// One JSON object on one line.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers")
    }

    /// Failed requests and failed connects.
    pub fn errors_total(&self) -> u64 {
        self.errors.values().sum()
    }
}

/// The sum of the threads' results.
#[derive(Debug)]
pub(crate) struct Summary {
    url: String,
    requested: u32,
    protocol: LoadProtocol,
    threads: u32,
    rate: Option<u64>,
    planned_max: Option<u64>,
    tally: RunTally,
    given_up: u32,
    waited: u64, // nanoseconds, of the oldest request without a response
    total: Ledger,
    steady: Option<(Ledger, u64)>,
    cpu: CpuTimes,
    resident: Option<u64>,
    turns: Turns,
    drivers: Vec<DriverInfo>,
    ended: u64,     // nanoseconds, of the last thread
    thread_ns: u64, // of all threads together
}

impl Summary {
    pub(crate) fn new(plan: &RunPlan, url: String) -> Self {
        Self {
            url,
            requested: plan.connections,
            protocol: plan.protocol,
            threads: plan.threads,
            rate: plan.rate,
            planned_max: plan.planned_max(),
            tally: RunTally::new(plan.rate.is_some(), plan.has_tls()),
            given_up: 0,
            waited: 0,
            total: Ledger::ZERO,
            steady: None,
            cpu: CpuTimes::default(),
            resident: None,
            turns: Turns::default(),
            drivers: Vec::new(),
            ended: 0,
            thread_ns: 0,
        }
    }

    pub(crate) fn add(&mut self, outcome: &ThreadResult) {
        self.tally.merge(&outcome.tally);
        self.given_up += outcome.given_up;
        self.waited = self.waited.max(outcome.waited);
        self.total = self.total + outcome.total;
        if let Some((ledger, requests)) = outcome.steady {
            let (sum, before) = self.steady.unwrap_or((Ledger::ZERO, 0));
            self.steady = Some((sum + ledger, before + requests));
        }
        self.cpu.user += outcome.cpu.user;
        self.cpu.system += outcome.cpu.system;
        self.resident = self.resident.max(outcome.resident); // `None` is the least
        self.turns.turns += outcome.stats.turns;
        self.turns.empty += outcome.stats.empty;
        self.turns.events += outcome.stats.events;
        self.turns.timeouts += outcome.stats.timeouts;
        self.drivers.push(outcome.driver.clone());
        self.ended = self.ended.max(outcome.finish.at());
        self.thread_ns += outcome.finish.at();
    }

    /// True if no connection was ever established.
    pub(crate) fn has_nothing(&self) -> bool {
        self.tally.opened == 0
    }

    /// When the last thread ended, in nanoseconds of the run.
    pub(crate) fn ended(&self) -> u64 {
        self.ended
    }

    /// Requests that one connection could have outstanding.
    fn depth_reached(&self) -> u32 {
        self.tally.streams_max.unwrap_or(u32::MAX).min(self.protocol.depth().into())
    }

    fn streams(&self) -> StreamsReport {
        let reached = self.depth_reached();
        StreamsReport {
            requested: self.protocol.depth().into(),
            limited_to: (reached < self.protocol.depth().into()).then_some(reached),
            refused: self.tally.refused,
            resets: by_code(&self.tally.resets),
            goaways: by_code(&self.tally.goaways),
        }
    }

    fn connections(&self) -> ConnectionCounts {
        ConnectionCounts {
            requested: self.requested,
            established: self.tally.established_max,
            opened: self.tally.opened,
        }
    }

    /// `outage` is how long the run had no connection, in nanoseconds; `lost`: whether it ended so.
    pub(crate) fn report(self, outage: u64, lost: bool) -> RunReport {
        let Self { tally, total, cpu, .. } = &self;
        let elapsed = seconds(self.ended);
        let cpu_share = ratio(cpu.total().as_secs_f64(), seconds(self.thread_ns));
        let planned = self.rate.map(|rate| planned_within(rate, self.ended, self.planned_max));
        let limited_by = limited_by(Basis {
            lost,
            answered: tally.answered,
            failed: tally.failed,
            stalled: self.waited > 0 && self.waited >= self.ended / 2,
            cpu_share,
            planned_sent: planned.map(|planned| (planned, tally.issued)),
            in_flight_max: u64::from(tally.established_max) * u64::from(self.depth_reached()),
        });
        let least = self.drivers.iter().min_by_key(|info| info.driver != "epoll");
        let least = least.cloned().unwrap_or_default();
        let per_request = |seconds: f64| per(seconds * 1e6, tally.answered);
        let user = (cpu.total() >= SPLIT_MIN).then_some(cpu.user);
        RunReport {
            connections: self.connections(),
            requests: tally.answered,
            errors: errors(tally),
            status: tally.statuses().collect(),
            duration_s: round(elapsed, 1e6),
            rps: round(ratio(float(tally.answered), elapsed), 10.0),
            bytes: tally.bytes,
            latency_us: tally.latency.summary(),
            raw_latency_us: tally.open.as_ref().map(|open| open.raw.summary()),
            cpu_us_per_request: per_request(cpu.total().as_secs_f64()),
            rss_bytes: self.resident,
            limited_by,
            syscalls: calls(total),
            syscalls_per_request: per(float(total.total()), tally.answered),
            rate: self.rate.zip(tally.open.as_ref()).map(|(planned, open)| RateReport {
                planned: float(planned),
                sent: round(ratio(float(tally.issued), elapsed), 10.0),
                lateness_p99_us: open.lateness.at(0.99),
            }),
            cpu_share: round(cpu_share, 1e4),
            cpu_user_us_per_request: user.and_then(|user| per_request(user.as_secs_f64())),
            threads: self.threads,
            depth: self.protocol.depth().into(),
            turns: Turns { clock_reads: total.clock_reads(), ..self.turns },
            steady: self.steady.as_ref().map(|(ledger, requests)| Steady {
                requests: *requests,
                syscalls: calls(ledger),
                syscalls_per_request: per(float(ledger.total()), *requests),
            }),
            only_http2: tally.broken.iter().any(|(error, _)| *error == PeerError::OnlyHttp2),
            broken: tally.broken.iter().map(|(error, n)| (error.to_string(), *n)).collect(),
            without_descriptor: self.given_up,
            tls: tally.tls.as_ref().map(TlsReport::from),
            lost,
            outage_s: round(seconds(outage), 1e3),
            operations: operations(total),
            protocol: match self.protocol {
                LoadProtocol::Http1 { .. } => "HTTP/1.1",
                LoadProtocol::Http2 { .. } => "HTTP/2",
            },
            streams: match self.protocol {
                LoadProtocol::Http1 { .. } => None,
                LoadProtocol::Http2 { .. } => Some(self.streams()),
            },
            spin: least.spin.to_string(), // as all of them
            driver: least.driver,
            drivers: self.drivers,
            url: self.url,
        }
    }
}

fn errors(tally: &RunTally) -> BTreeMap<&'static str, u64> {
    let named = ErrorKind::ALL.iter().map(|kind| (kind.name(), tally.count(*kind)));
    named.filter(|(_, n)| *n > 0).collect()
}

fn by_code(counts: &[(ErrorCode, u64)]) -> BTreeMap<String, u64> {
    counts.iter().map(|(code, n)| (code.to_string(), *n)).collect()
}

fn calls(ledger: &Ledger) -> BTreeMap<&'static str, CallCount> {
    let of = |count: sys::Count| CallCount { calls: count.calls, eagain: count.eagain };
    ledger.iter().map(|(call, count)| (call.name(), of(count))).collect()
}

fn operations(ledger: &Ledger) -> BTreeMap<&'static str, CallCount> {
    let of = |count: sys::Count| CallCount { calls: count.calls, eagain: count.eagain };
    ledger.operations().map(|(operation, count)| (operation.name(), of(count))).collect()
}

/// Nanoseconds in seconds.
fn seconds(nanos: u64) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64()
}

/// `a` for each of `n`, to a thousandth; `None` if there are none.
pub(crate) fn per(a: f64, n: u64) -> Option<f64> {
    (n > 0).then(|| round(a / float(n), 1e3))
}

/// `a / b`; 0 if `b` is 0.
pub(crate) fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

fn round(value: f64, steps: f64) -> f64 {
    (value * steps).round() / steps
}

#[expect(clippy::cast_precision_loss, reason = "a count beyond 2^53 is not printed exactly")]
pub(crate) fn float(n: u64) -> f64 {
    n as f64
}

/// With less processor time, its split into user and system is noise.
const SPLIT_MIN: Duration = Duration::from_secs(1);

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::engine::Finish;
    use crate::flights::Flight;
    use crate::options::{Options, RunUntil};

    /// The possible results of two threads of a short run.
    pub(crate) fn sample(rate: Option<u64>) -> RunReport {
        sample_of(rate, 400)
    }

    /// The same with this processor time of each thread.
    fn sample_of(rate: Option<u64>, cpu_ms: u64) -> RunReport {
        let urls = vec!["http://127.0.0.1:1/".to_owned()];
        let options = Options { urls, rate, connections: 8, threads: 2, ..Options::default() };
        let mut summary = Summary::new(&RunPlan::new(&options).unwrap(), options.urls[0].clone());
        for _ in 0..2 {
            let mut tally = RunTally::new(rate.is_some(), false);
            tally.issued = 1_001;
            (0..4).for_each(|_| tally.connected());
            for i in 0..1_000 {
                let flight = Flight { planned: i * 1_000, sent: i * 1_000 + 7_000 };
                tally.answer(i * 1_000 + 600_000 + i * 500, flight, 200);
                tally.leave(flight.sent, flight.planned);
            }
            tally.fail(ErrorKind::Protocol, 1);
            tally.note_broken(PeerError::BadLength);
            tally.bytes = 123_456;
            let before = Ledger::here();
            let _ = sys::thread_cpu();
            summary.add(&ThreadResult {
                tally,
                finish: Finish::Done(1_000_000_000),
                failure: None,
                given_up: 0,
                waited: 0,
                total: Ledger::here() - before,
                steady: Some((Ledger::ZERO, 900)),
                cpu: CpuTimes { user: ms(cpu_ms / 4), system: ms(cpu_ms / 4 * 3) },
                resident: Some(3_000_000),
                stats: fulmar_drive::Stats { turns: 10, events: 1_000, ..Default::default() },
                driver: DriverInfo { driver: "epoll".to_owned(), ..DriverInfo::default() },
            });
        }
        summary.report(0, false)
    }

    /// Of HTTP/2, with a server that accepts 50 streams.
    pub(crate) fn http2_sample() -> RunReport {
        let urls = vec!["http://127.0.0.1:1/".to_owned()];
        let protocol = LoadProtocol::Http2 { streams: 100 };
        let options = Options { urls, protocol, connections: 1, ..Options::default() };
        let mut summary = Summary::new(&RunPlan::new(&options).unwrap(), options.urls[0].clone());
        for (streams, code) in [(250, 8), (50, 2), (128, 0x1234_5679)] {
            let mut tally = RunTally::new(false, false);
            tally.note_streams_max(streams);
            tally.refused = 7;
            tally.fail(ErrorKind::StreamReset, 1);
            tally.note_stream_reset(ErrorCode::from_code(code));
            tally.note_goaway(ErrorCode::EnhanceYourCalm);
            summary.tally.merge(&tally);
        }
        summary.report(0, false)
    }

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn keys(value: &serde_json::Value) -> Vec<&str> {
        value.as_object().unwrap().keys().map(String::as_str).collect()
    }

    #[test]
    fn the_json_form_is_the_documented_one() {
        let json = sample(Some(2_000)).json();
        let mut order = Vec::new();
        for key in [
            "url",
            "driver",
            "connections",
            "requests",
            "errors",
            "status",
            "duration_s",
            "rps",
            "bytes",
            "latency_us",
            "raw_latency_us",
            "cpu_us_per_request",
            "rss_bytes",
            "limited_by",
            "syscalls",
            "syscalls_per_request",
            "rate",
            "cpu_share",
            "cpu_user_us_per_request",
            "threads",
            "depth",
            "turns",
            "steady",
            "broken",
            "without_descriptor",
            "tls",
            "lost",
            "outage_s",
            "operations",
            "spin",
            "protocol",
            "streams",
        ] {
            order.push(json.find(&format!("\"{key}\":")).unwrap_or_else(|| panic!("{key}")));
        }
        assert!(order[..16].is_sorted());
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(keys(&value).len(), order.len());
        assert_eq!(keys(&value["connections"]), ["established", "opened", "requested"]);
        let latency = ["max", "mean", "min", "p50", "p90", "p99", "p999"];
        assert_eq!(keys(&value["latency_us"]), latency);
        assert_eq!(keys(&value["raw_latency_us"]), latency);
        assert_eq!(keys(&value["syscalls"]["getrusage"]), ["calls", "eagain"]);
        assert_eq!(value["status"]["200"], 2_000);
        assert_eq!(value["errors"]["protocol"], 2);
        assert_eq!(value["limited_by"], "settings");
        assert_eq!(value["cpu_us_per_request"], 400.0);
        assert_eq!(value["cpu_share"], 0.4);
    }

    #[test]
    fn nothing_is_planned_behind_the_duration() {
        let urls = vec!["http://127.0.0.1:1/".to_owned()];
        let until = RunUntil::Elapsed(Duration::from_secs(1));
        let options = Options { urls, rate: Some(50), until, ..Options::default() };
        let mut summary = Summary::new(&RunPlan::new(&options).unwrap(), String::new());
        // The last turn is late.
        (summary.ended, summary.thread_ns) = (1_000_200_000, 1_000_200_000);
        (summary.tally.issued, summary.tally.answered) = (50, 50);
        assert_eq!(summary.report(0, false).limited_by, LimitedBy::Settings);
    }

    #[test]
    fn figures_without_samples_are_null() {
        let urls = vec!["https://127.0.0.1:1/".to_owned()];
        let options = Options { urls, rate: Some(10), ..Options::default() };
        let plan = RunPlan::new(&options).unwrap();
        let mut summary = Summary::new(&plan, options.urls[0].clone());
        summary.add(&ThreadResult {
            tally: RunTally::new(true, true),
            finish: Finish::Done(10_000_000_000),
            failure: None,
            given_up: 0,
            waited: 0,
            total: Ledger::ZERO,
            steady: Some((Ledger::ZERO, 0)),
            cpu: CpuTimes { user: ms(2_000), system: ms(0) },
            resident: None,
            stats: fulmar_drive::Stats::default(),
            driver: DriverInfo::default(),
        });
        let report = summary.report(0, false);
        let value: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
        for place in ["/latency_us", "/raw_latency_us", "/tls/latency_us"] {
            let latency = value.pointer(place).unwrap().as_object().unwrap();
            assert!(latency.len() == 7 && latency.values().all(|v| v.is_null()), "{latency:?}");
        }
        for place in [
            "/cpu_us_per_request",
            "/cpu_user_us_per_request",
            "/rss_bytes",
            "/syscalls_per_request",
            "/steady/syscalls_per_request",
            "/rate/lateness_p99_us",
        ] {
            assert!(value.pointer(place).unwrap().is_null(), "{place}: {value}");
        }
        assert_eq!((&value["requests"], &value["rps"]), (&0.into(), &0.0.into()));
        assert_eq!((&value["rate"]["sent"], &value["limited_by"]), (&0.0.into(), &"server".into()));
        let texts = report.text() + &report.ledger_text();
        for row in ["  latency  ", "  from send"] {
            let row = texts.lines().find(|line| line.starts_with(row)).unwrap();
            let figures: Vec<_> = row.split_whitespace().skip_while(|word| *word != "-").collect();
            assert_eq!(figures, ["-"; 7], "{texts}");
        }
        for part in ["- late", "- CPU per request, - system calls", "- clock reads per request"] {
            assert!(texts.contains(part), "{part} in\n{texts}");
        }
        assert!(!texts.contains("NaN") && !texts.contains("handshake "), "{texts}");
    }

    #[test]
    fn the_split_of_processor_time_needs_a_second_of_it() {
        for (cpu_ms, user) in [(400, None), (496, None), (500, Some(125.0)), (4_000, Some(1_000.0))]
        {
            let report = sample_of(None, cpu_ms);
            assert_eq!(report.cpu_user_us_per_request, user, "{cpu_ms}");
            assert_eq!(report.text().contains(" user, "), user.is_some(), "{}", report.text());
        }
    }

    #[test]
    fn streams_of_http2_are_reported() {
        let value: serde_json::Value = serde_json::from_str(&http2_sample().json()).unwrap();
        assert_eq!((&value["protocol"], &value["depth"]), (&"HTTP/2".into(), &100.into()));
        let streams = &value["streams"];
        assert_eq!(keys(streams), ["goaways", "limited_to", "refused", "requested", "resets"]);
        assert_eq!((&streams["limited_to"], &streams["refused"]), (&50.into(), &21.into()));
        assert_eq!(streams["resets"], serde_json::json!({"CANCEL": 1, "INTERNAL_ERROR": 2}));
        assert_eq!(streams["goaways"], serde_json::json!({"ENHANCE_YOUR_CALM": 3}));
        assert_eq!(value["errors"]["stream_reset"], 3);
        assert!(serde_json::to_value(sample(None)).unwrap()["streams"].is_null());
    }

    #[test]
    fn a_closed_loop_has_no_raw_latency_and_no_rate() {
        let value: serde_json::Value = serde_json::from_str(&sample(None).json()).unwrap();
        assert!(value["raw_latency_us"].is_null() && value["rate"].is_null());
        assert_eq!(value["limited_by"], "server");
    }
}
