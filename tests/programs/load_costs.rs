//! What `load` may cost, asserted from its ledger against an embedded server.

use std::alloc::System;
use std::net::Ipv4Addr;
use std::time::Duration;

use fulmar_host::{Driver, Host, Listen, LoopOptions, Running};
use fulmar_load::{LoadProtocol, Options, RunReport, RunUntil};
use fulmar_serve::endpoints::Endpoints;
use fulmar_server::{HandlerApp, Limits};
use fulmar_sys as sys;
use fulmar_tests::loops::{has_ring, requested_options};
use fulmar_tests::own_process::own_process;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn serve() -> Running<()> {
    Host::new(|_| Ok(HandlerApp::new(Endpoints::new(), sys::now(), sys::wall_clock)))
        .loop_options(requested_options())
        .listen(Listen::tcp((Ipv4Addr::LOCALHOST, 0).into()))
        .limits(Limits { drain_timeout: Duration::from_millis(100), ..Limits::default() })
        .start()
        .expect("a server on loopback")
}

fn load(options: Options) -> (RunReport, Running<()>) {
    let server = serve();
    let urls = vec![format!("http://{}/bytes/128", server.addresses()[0])];
    let running = fulmar_load::start(&Options { urls, ..options }).expect("good options");
    (running.finish().expect("a report"), server)
}

/// The report of a run, and how many allocations the process made for it.
fn counted(options: Options) -> (RunReport, usize) {
    let region = Region::new(ALLOCATOR);
    let (report, server) = load(options);
    server.stop();
    server.join().expect("a good end");
    (report, region.change().allocations)
}

/// Nothing is allocated for a request: ten times the requests, the same allocations. Lists of one
/// turn grow to their largest once, so a few may differ.
fn allocates_nothing(options: &Options) {
    let run = |n| {
        let (until, loop_options) = (RunUntil::Requests(n), requested_options());
        counted(Options { until, loop_options, ..options.clone() }).1
    };
    run(20_000);
    let (few, many) = (run(20_000), run(200_000));
    let more = many.saturating_sub(few);
    assert!(more < 200, "{more} more allocations for 180,000 more requests");
}

#[test]
fn a_closed_loop_allocates_nothing() {
    own_process(|| {
        allocates_nothing(&Options { connections: 64, ..Options::default() });
    });
}

#[test]
fn a_pipelined_loop_allocates_nothing() {
    own_process(|| {
        let protocol = LoadProtocol::Http1 { pipelined: 16 };
        allocates_nothing(&Options { connections: 16, protocol, ..Options::default() });
    });
}

#[test]
fn an_open_loop_allocates_nothing() {
    own_process(|| {
        allocates_nothing(&Options { connections: 64, rate: Some(200_000), ..Options::default() });
    });
}

#[test]
fn a_request_costs_one_send_and_one_recv() {
    own_process(|| {
        let until = RunUntil::Requests(50_000);
        let loop_options = LoopOptions { driver: Driver::Epoll, ..LoopOptions::default() };
        let options = Options { connections: 64, until, loop_options, ..Options::default() };
        let (report, server) = load(options);
        server.stop();
        server.join().expect("a good end");
        assert_eq!((report.requests, report.errors_total()), (50_000, 0));
        let calls = |name: &str| report.syscalls.get(name).copied().unwrap_or_default();
        assert_eq!((calls("send").calls, calls("recv").calls), (50_000, 50_000));
        assert_eq!((calls("epoll_ctl").calls, calls("setsockopt").calls), (64, 64));
        let eagain: u64 = report.syscalls.values().map(|calls| calls.eagain).sum();
        assert!(eagain < 500, "{eagain} calls had nothing to do");
        let reads = report.turns.clock_reads;
        let turns = report.turns.turns;
        assert!(reads <= 2 * turns + 8, "{reads} clock reads in {turns} turns");
    });
}

/// The same operations, and none of them a call of its own.
#[test]
fn in_a_ring_no_receive_and_no_send_is_a_call() {
    own_process(|| {
        if !has_ring() {
            return;
        }
        let until = RunUntil::Requests(20_000);
        let loop_options =
            LoopOptions { driver: Driver::Ring { len_min: 1 }, ..Default::default() };
        let options = Options { connections: 64, until, loop_options, ..Options::default() };
        let (report, server) = load(options);
        server.stop();
        server.join().expect("a good end");
        assert_eq!(
            (report.requests, report.errors_total(), &*report.driver),
            (20_000, 0, "ring:1")
        );
        let calls = |name: &str| report.syscalls.get(name).map_or(0, |calls| calls.calls);
        let done = |name: &str| report.operations.get(name).map_or(0, |calls| calls.calls);
        // What is sent first goes out with the connects, one by one or in a list.
        assert_eq!(
            (calls("send") + calls("recv"), done("send"), done("recv")),
            (0, 20_000, 20_000)
        );
        // A turn has two lists at most: receives and sends.
        let enters = calls("io_uring_enter");
        assert!(enters <= 2 * report.turns.turns + 64, "{enters} in {} turns", report.turns.turns);
    });
}
