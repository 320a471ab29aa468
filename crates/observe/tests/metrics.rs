//! Metrics: all counters, and the validity of the text format.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use fulmar_engine::End;
use fulmar_observe::{Metrics, Recorder};
use fulmar_proto::{PeerError, Phase, UsageError};
use fulmar_semantics::clock::Clock;
use fulmar_server::{
    ExchangeSummary, HandlerError, HandlerFailure, Observer, RequestId, RequestSummary,
};
use fulmar_sys as sys;

fn exchange(method: &[u8], status: u16, bytes: u64, duration: Duration) -> ExchangeSummary<'_> {
    ExchangeSummary {
        peer: sys::UNNAMED,
        request: RequestSummary { method, target: b"/", ..RequestSummary::default() },
        id: RequestId { server: 1, number: 1 },
        status,
        bytes,
        duration,
        complete: status != 0,
        error: None,
        fault: None,
    }
}

fn answer(recorder: &mut Recorder, now: Instant, exchange: &ExchangeSummary<'_>) {
    recorder.exchange_ended(now, &Clock::new(UNIX_EPOCH, now), exchange);
}

/// A family of the exposition format: its type, and its samples by name and labels.
#[derive(Debug, Default)]
struct ParsedFamily {
    kind: String,
    samples: BTreeMap<String, f64>,
}

/// Strict parser of the text format, version 0.0.4.
fn parse(text: &str) -> BTreeMap<String, ParsedFamily> {
    assert!(text.ends_with('\n'));
    let mut families: BTreeMap<String, ParsedFamily> = BTreeMap::new();
    let (mut helped, mut current) = (BTreeSet::new(), String::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(!help.is_empty() && helped.insert(name.to_owned()), "{line}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            assert!(helped.contains(name), "{line}");
            let family = ParsedFamily { kind: kind.to_owned(), ..ParsedFamily::default() };
            assert!(families.insert(name.to_owned(), family).is_none(), "twice: {line}");
            current = name.to_owned();
        } else {
            let (sample, value) = line.rsplit_once(' ').unwrap();
            let name = sample.split('{').next().unwrap();
            let is_name = |c: char| c.is_ascii_alphanumeric() || "_:".contains(c);
            assert!(name.chars().all(is_name) && !name.starts_with(|c: char| c.is_ascii_digit()));
            let of = |suffix| name.strip_suffix(suffix).is_some_and(|base| base == current);
            assert!(name == current || ["_bucket", "_sum", "_count"].into_iter().any(of), "{line}");
            check_labels(&sample[name.len()..]);
            let family = families.get_mut(&current).unwrap();
            let value = value.parse().unwrap();
            assert!(family.samples.insert(sample.to_owned(), value).is_none(), "twice: {line}");
        }
    }
    families.iter().filter(|(_, family)| family.kind == "histogram").for_each(check_histogram);
    families
}

fn check_labels(labels: &str) {
    let Some(inner) = labels.strip_prefix('{') else { return assert_eq!(labels, "") };
    for label in inner.strip_suffix('}').unwrap().split(',') {
        let (name, value) = label.split_once('=').unwrap();
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{label}");
        let value = value.strip_prefix('"').unwrap().strip_suffix('"').unwrap();
        assert!(!value.contains(['"', '\\', '\n']), "{label}");
    }
}

fn check_histogram((name, family): (&String, &ParsedFamily)) {
    let limit = |sample: &str| -> Option<f64> {
        let rest = sample.strip_prefix(&format!("{name}_bucket{{le=\""))?;
        rest.strip_suffix("\"}")?.parse().ok()
    };
    let mut buckets: Vec<_> =
        family.samples.iter().filter_map(|(sample, n)| Some((limit(sample)?, *n))).collect();
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert!(buckets.is_sorted_by(|a, b| a.1 <= b.1), "{buckets:?}");
    let (last, all) = buckets.last().unwrap();
    assert_eq!((*last, *all), (f64::INFINITY, family.samples[&format!("{name}_count")]));
    assert!(family.samples[&format!("{name}_sum")] >= 0.0);
}

fn value(families: &BTreeMap<String, ParsedFamily>, sample: &str) -> f64 {
    let all = families.values().find_map(|family| family.samples.get(sample));
    *all.unwrap_or_else(|| panic!("no {sample} in {families:#?}"))
}

#[test]
fn all_events_are_counted() {
    let (metrics, now) = (Metrics::new(), sys::now());
    let mut recorder = metrics.observer();
    for _ in 0..3 {
        recorder.accepted(now, sys::UNNAMED);
    }
    let (short, long) = (Duration::from_micros(700), Duration::from_secs(60));
    answer(&mut recorder, now, &exchange(b"GET", 200, 10, Duration::ZERO));
    answer(&mut recorder, now, &exchange(b"GET", 206, 5, short));
    answer(&mut recorder, now, &exchange(b"BREW\"\n", 404, 7, long));
    answer(&mut recorder, now, &exchange(b"POST", 0, 0, short));
    answer(&mut recorder, now, &exchange(b"GET", 999, 0, short));
    recorder.malformed(now, &Clock::new(UNIX_EPOCH, now), sys::UNNAMED, PeerError::BadHost);
    let errors =
        [HandlerError::NoResponse, UsageError::BadHead.into(), UsageError::NoSuchStream.into()];
    for error in &errors {
        let failure = HandlerFailure { error, peer: None, request: None };
        recorder.handler_failed(now, &Clock::new(UNIX_EPOCH, now), &failure);
    }
    recorder.exhausted(now);
    recorder.gone(now, sys::UNNAMED, &End::Peer(PeerError::BadHost));
    recorder.gone(now, sys::UNNAMED, &End::TimedOut(Some(Phase::Send)));
    let families = parse(&metrics.to_string());
    for (sample, expected) in [
        ("fulmar_connections_accepted_total", 3.0),
        ("fulmar_connections_open", 1.0),
        ("fulmar_connections_ended_total{reason=\"malformed\"}", 1.0),
        ("fulmar_connections_ended_total{reason=\"send_timeout\"}", 1.0),
        ("fulmar_accept_failures_total", 1.0),
        ("fulmar_http_requests_total{code=\"2xx\",method=\"GET\"}", 2.0),
        ("fulmar_http_requests_total{code=\"4xx\",method=\"other\"}", 1.0),
        ("fulmar_http_requests_total{code=\"none\",method=\"POST\"}", 1.0),
        ("fulmar_http_requests_total{code=\"other\",method=\"GET\"}", 1.0),
        ("fulmar_http_requests_incomplete_total", 1.0),
        ("fulmar_http_requests_malformed_total", 1.0),
        ("fulmar_http_handler_errors_total{cause=\"misuse\"}", 2.0),
        ("fulmar_http_handler_errors_total{cause=\"no_response\"}", 1.0),
        ("fulmar_http_response_body_bytes_total", 22.0),
        ("fulmar_http_request_duration_seconds_bucket{le=\"0.0001\"}", 1.0),
        ("fulmar_http_request_duration_seconds_bucket{le=\"0.001\"}", 4.0),
        ("fulmar_http_request_duration_seconds_bucket{le=\"30\"}", 4.0),
        ("fulmar_http_request_duration_seconds_bucket{le=\"+Inf\"}", 5.0),
        ("fulmar_http_request_duration_seconds_sum", 60.0021),
        ("fulmar_threads", 1.0),
    ] {
        assert_eq!(value(&families, sample), expected, "{sample}");
    }
}

#[test]
fn every_connection_end_has_a_reason() {
    let (metrics, now) = (Metrics::new(), sys::now());
    let mut recorder = metrics.observer();
    let phases = [
        Phase::Handshake,
        Phase::Idle,
        Phase::Head,
        Phase::Body,
        Phase::Response,
        Phase::Application,
        Phase::Send,
        Phase::Linger,
        Phase::Tunnel,
    ];
    let failed = || io::ErrorKind::Other.into();
    let mut ends: Vec<_> = phases.map(|phase| End::TimedOut(Some(phase))).into();
    ends.extend([End::Closed, End::TimedOut(None), End::Failed(failed()), End::File(failed())]);
    ends.push(End::Panicked);
    ends.iter().for_each(|end| recorder.gone(now, sys::UNNAMED, end));
    let families = parse(&metrics.to_string());
    let reasons = &families["fulmar_connections_ended_total"].samples;
    assert_eq!(reasons.values().sum::<f64>(), ends.len() as f64);
    assert!(!reasons.keys().any(|sample| sample.contains("other")), "{reasons:?}");
    assert_eq!(value(&families, "fulmar_connections_open"), 0.0);
}

#[test]
fn counts_of_threads_are_added() {
    let (metrics, now) = (Metrics::new(), sys::now());
    let waits = 7;
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut recorder = metrics.observer();
                for _ in 0..waits {
                    sys::close(sys::epoll_create().unwrap());
                }
                answer(&mut recorder, now, &exchange(b"GET", 200, 1, Duration::ZERO));
            });
        }
    });
    sys::close(sys::epoll_create().unwrap()); // not a server thread
    // The counters of finished threads stay.
    let families = parse(&metrics.to_string());
    let calls = f64::from(2 * waits);
    assert_eq!(value(&families, "fulmar_threads"), 2.0);
    assert_eq!(value(&families, "fulmar_syscalls_total{call=\"epoll_create1\"}"), calls);
    assert_eq!(value(&families, "fulmar_syscalls_total{call=\"close\"}"), calls);
    assert_eq!(value(&families, "fulmar_syscalls_per_request"), calls);
    assert_eq!(value(&families, "fulmar_syscalls_eagain_total"), 0.0);
}

#[test]
fn loops_are_reported_with_current_settings() {
    let metrics = Metrics::new();
    for thread in 0..3 {
        metrics.set_loop(thread, "ring".into(), "auto".into());
    }
    metrics.set_loop(1, "epoll".into(), "auto".into());
    let families = parse(&metrics.to_string());
    assert_eq!(value(&families, "fulmar_loops{driver=\"ring\",spin=\"auto\"}"), 2.0);
    assert_eq!(value(&families, "fulmar_loops{driver=\"epoll\",spin=\"auto\"}"), 1.0);
}

#[test]
fn metrics_without_requests_are_valid() {
    let metrics = Metrics::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            let _recorder = metrics.observer();
            sys::close(sys::epoll_create().unwrap());
        });
    });
    let families = parse(&metrics.to_string());
    assert_eq!(value(&families, "fulmar_syscalls_total{call=\"close\"}"), 1.0);
    let each = value(&families, "fulmar_syscalls_per_request");
    assert!(each.is_nan(), "{each}: NaN without requests");
    assert!(families["fulmar_http_requests_total"].samples.is_empty());
}

#[test]
fn counting_makes_no_allocation_and_no_system_call() {
    let (metrics, now) = (Metrics::new(), sys::now());
    let mut recorder = metrics.observer();
    let clock = Clock::new(UNIX_EPOCH, now);
    let before = sys::Ledger::here();
    let memory = allocation_counter::measure(|| {
        for _ in 0..1_000 {
            recorder.accepted(now, sys::UNNAMED);
            recorder.exchange_ended(now, &clock, &exchange(b"GET", 200, 10, Duration::ZERO));
            recorder.gone(now, sys::UNNAMED, &End::Closed);
        }
    });
    assert_eq!(memory.count_total, 0);
    assert_eq!((sys::Ledger::here() - before).total(), 0);
}
