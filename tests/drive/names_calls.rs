//! The system calls of a lookup, by strace: c-ares's calls are in no ledger.

use std::fs;

use fulmar_names::{Names, Options};
use fulmar_sys::Ledger;
use fulmar_tests::dns::{self, Dns};
use fulmar_tests::lookups::LookupEngine;
use fulmar_tests::loops::{AppLoop, Loop};
use fulmar_tests::process::{PATIENCE, peer, run, text};
use tempfile::TempDir;

#[test]
fn a_cached_lookup_makes_no_system_call() {
    if std::env::var_os(TRACED).is_some() {
        return look_up();
    }
    let probe = peer("strace").args(["-o", "/dev/null", "true"]).output().unwrap();
    if !probe.status.success() {
        let said = text(&probe.stderr).to_lowercase();
        assert!(said.contains("ptrace") && said.contains("not permitted"), "{said}");
        return look_up(); // the ledger at least
    }
    let dir = TempDir::new().unwrap();
    let output = dir.path().join("strace");
    let mut strace = peer("strace");
    strace.args(["-f", "-o"]).arg(&output).arg(std::env::current_exe().unwrap());
    run(strace
        .args(["--exact", "names_calls::a_cached_lookup_makes_no_system_call"])
        .env(TRACED, "1"));
    let trace = fs::read_to_string(output).unwrap();
    let first = between(&trace, BEGIN, ASKED);
    assert!(first.iter().any(|line| line.contains("socket(")), "{first:?}");
    assert_eq!(between(&trace, ASKED, END), [""; 0]);
}

/// Queries a server once, and the cache often, between marks that strace shows.
fn look_up() {
    let address = [192, 0, 2, 1].into();
    let server = Dns::start(move |heard| dns::addresses(&heard.name, heard.kind, &[address]));
    let (mut app, _) = <AppLoop<LookupEngine>>::start(LookupEngine::default());
    let servers = vec![server.address];
    // No query is repeated, however slow strace makes the server.
    let options =
        Options { servers, try_timeout: PATIENCE, deadline: PATIENCE, ..Options::default() };
    app.set_resolver(Box::new(Names::new(options)));
    mark(BEGIN);
    let lookup = app.engine().lookup("host.example");
    app.kick();
    app.turn_until(|app| app.engine().answer(lookup).is_some());
    let now = fulmar_sys::now();
    let mut repeat_lookup = |times: usize| {
        for _ in 0..times {
            app.reactor.engine.lookup("host.example");
            app.reactor.timeout_action(now);
        }
        app.reactor.engine.answers.len()
    };
    repeat_lookup(LOOKUPS); // tables have grown
    let before = Ledger::here();
    mark(ASKED);
    let answers = repeat_lookup(LOOKUPS);
    mark(END);
    assert_eq!(Ledger::here() - before, Ledger::ZERO);
    assert_eq!(answers, 1 + 2 * LOOKUPS);
    assert_eq!(server.count("host.example"), 2);
}

fn mark(name: &str) {
    assert!(fs::metadata(name).is_err());
}

/// The calls of the thread that made the marks.
fn between<'a>(trace: &'a str, begin: &str, end: &str) -> Vec<&'a str> {
    let mark = |line: &str, name: &str| line.contains(&format!("\"{name}\""));
    let thread = trace.lines().find(|line| mark(line, begin)).expect("a mark");
    let thread = &thread[..=thread.find(' ').unwrap()];
    let lines = trace.lines().filter(|line| line.starts_with(thread));
    let from_mark = lines.skip_while(|line| !mark(line, begin)).skip(1);
    let lines = from_mark.take_while(|line| !mark(line, end)).map(|line| &line[thread.len()..]);
    lines.filter(|line| !line.trim_start().starts_with(['<', '-', '+'])).collect()
}

const TRACED: &str = "FULMAR_TEST_TRACED";
const LOOKUPS: usize = 100;
/// Files that are nowhere.
const BEGIN: &str = "/nowhere/begin";
const ASKED: &str = "/nowhere/asked";
const END: &str = "/nowhere/end";
