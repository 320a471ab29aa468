//! The costs of four kinds of response on five platforms, as plans of calls: compared with
//! libmicrohttpd, and as the tables of `docs/platforms.md`.
//!
//! The responses come from the real machine; the plans are pure, so that each can be tested on
//! Linux.

use std::fmt::Write;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use fulmar_proto::{
    Abilities, BodyLen, Connection, Event, FileRange, Headers, Input, Response, Scratch, Segment,
    ServerConnection, Signals, Step, StreamId,
};

/// The scenarios of libmicrohttpd's report on its calls (Google Summer of Code 2019).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scenario {
    /// A body of unknown length, in pieces of one byte that are all available.
    Ready,
    /// The same, each piece later than the one before.
    Late,
    /// Head and body in one packet.
    Tiny,
    /// 64 KB from memory.
    Modest,
    /// 104 KB of a file.
    Sendfile,
}

const SCENARIOS: [Scenario; 5] =
    [Scenario::Ready, Scenario::Late, Scenario::Tiny, Scenario::Modest, Scenario::Sendfile];

const PLATFORMS: [(&str, Abilities); 5] = [
    ("Linux", Abilities::LINUX),
    ("FreeBSD", Abilities::FREEBSD),
    ("macOS", Abilities::MACOS),
    ("NetBSD", Abilities::NETBSD),
    ("Windows", Abilities::WINDOWS),
];

/// The cost of a connection with one response, besides receives and waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PlanCost {
    options: usize, // `setsockopt` on the connection
    sends: usize,
    reads: usize, // `pread`
}

impl PlanCost {
    fn total(self) -> usize {
        self.options + self.sends + self.reads
    }
}

/// What is left after that report's changes, its "resulting syscall behavior". Options are those
/// of the connection; the last one, of a listener, is not among them. Where the report prints no
/// sends, the fewest that can do it. macOS was left out there and is held against FreeBSD; its
/// Windows is cygwin. The pieces are later ones, which is what it prints.
fn theirs(platform: &str, scenario: Scenario) -> PlanCost {
    // A send for the head, and one for each piece.
    let pieces = 1 + PIECES;
    let (options, sends, reads) = match (platform, scenario) {
        ("Linux", Scenario::Ready | Scenario::Late) => (1, pieces, 0),
        ("Linux", Scenario::Tiny | Scenario::Modest) => (1, 1, 0),
        ("Linux", Scenario::Sendfile) => (1, 2, 0),
        ("FreeBSD" | "macOS", Scenario::Ready | Scenario::Late) => (4, pieces, 0),
        ("FreeBSD" | "macOS", Scenario::Tiny | Scenario::Modest) => (2, 1, 0),
        ("FreeBSD" | "macOS", Scenario::Sendfile) => (3, 1, 0),
        ("NetBSD", Scenario::Ready | Scenario::Late) => (4, pieces, 0),
        ("NetBSD", Scenario::Tiny | Scenario::Modest) => (1, 1, 0),
        ("NetBSD", Scenario::Sendfile) => (3, 2, 1),
        ("Windows", Scenario::Ready | Scenario::Late) => (3, pieces, 0),
        ("Windows", Scenario::Tiny | Scenario::Modest) => (1, 1, 0),
        ("Windows", Scenario::Sendfile) => (2, 2, 1),
        _ => panic!("{platform} is not in the report"),
    };
    PlanCost { options, sends, reads }
}

/// A server's connection with a request.
fn asked() -> (ServerConnection, StreamId) {
    let mut connection = ServerConnection::default();
    let mut block = BytesMut::from(&b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"[..]);
    let mut scratch = Scratch::default();
    let mut stream = None;
    let mut input = Input::all(&mut block, false);
    while let Some(event) = connection.poll_event(&mut input, &mut scratch).unwrap() {
        if let Event::End { stream: of, .. } = event {
            stream = Some(of);
            break;
        }
    }
    (connection, stream.unwrap())
}

/// The calls of a response, one by one, and their cost.
fn answer(scenario: Scenario, on: Abilities) -> (Vec<String>, PlanCost) {
    let (mut connection, stream) = asked();
    let options = usize::from(on.signals == Signals::Option);
    let mut cost = PlanCost { options, sends: 0, reads: 0 };
    let mut calls = Vec::new();
    let mut leave = |connection: &mut ServerConnection| {
        let transmit = connection.poll_transmit().unwrap();
        let mut sent = 0;
        for step in transmit.steps(on) {
            calls.push(named(&step));
            cost.sends += 1;
            cost.reads += usize::from(matches!(step, Step::Read { .. }));
            sent += step.len();
        }
        connection.handle_sent(sent);
        assert!(connection.poll_transmit().is_none(), "all of it has left");
    };
    let (body, len): (Segment, _) = match scenario {
        Scenario::Ready | Scenario::Late => (b"b"[..].into(), BodyLen::Unknown),
        Scenario::Tiny => (b"b"[..].into(), BodyLen::Exact(1)),
        Scenario::Modest => (Bytes::from(vec![b'b'; MODEST]).into(), BodyLen::Exact(MODEST as u64)),
        Scenario::Sendfile => {
            let file = Arc::new(OwnedFd::from(File::open("/dev/null").unwrap()));
            (FileRange { file, offset: 0, len: LARGE }.into(), BodyLen::Exact(LARGE))
        }
    };
    connection.send_head(stream, Response::new(200, Headers::EMPTY), len).unwrap();
    let pieces = if len == BodyLen::Unknown { PIECES } else { 1 };
    for at in 1..=pieces {
        connection.send_data(stream, body.clone()).unwrap();
        if at == pieces {
            connection.send_end(stream, Headers::EMPTY).unwrap();
        }
        if at == pieces || scenario == Scenario::Late {
            leave(&mut connection);
        }
    }
    (calls, cost)
}

/// The call of a step, by its manual page.
fn named(step: &Step<'_>) -> String {
    match step {
        Step::Gather { run, more } => {
            let call = if run.buffers.is_empty() { "send" } else { "sendmsg" };
            let flag = if *more { "(MSG_MORE)" } else { "" };
            format!("{call}{flag}")
        }
        Step::File { run, .. } if run.is_empty() => "sendfile".into(),
        Step::File { .. } => "sendfile(head)".into(),
        Step::Read { .. } | Step::Weave { .. } => "pread, sendmsg".into(),
        Step::Pipe { .. } => "splice".into(),
    }
}

#[test]
fn no_plan_has_more_calls_than_libmicrohttpd_has_after_its_changes() {
    for (platform, on) in PLATFORMS {
        for scenario in SCENARIOS {
            let (ours, theirs) = (answer(scenario, on).1, theirs(platform, scenario));
            let what = format!("{scenario:?} on {platform}: {ours:?}, theirs {theirs:?}");
            assert!(ours.sends <= theirs.sends && ours.reads <= theirs.reads, "{what}");
            assert!(ours.options <= theirs.options, "{what}");
            assert!(ours.total() < theirs.total(), "{what}");
        }
    }
}

#[test]
fn no_option_is_set_but_the_one_that_macos_has_no_flag_for() {
    for (platform, on) in PLATFORMS {
        for scenario in SCENARIOS {
            let options = answer(scenario, on).1.options;
            assert_eq!(options, usize::from(platform == "macOS"), "{scenario:?} on {platform}");
        }
    }
}

#[test]
fn the_head_leaves_with_the_first_piece_and_the_end_with_the_last() {
    for (platform, on) in PLATFORMS {
        let sends = |scenario| answer(scenario, on).1.sends;
        assert_eq!(sends(Scenario::Ready), 1, "{platform}");
        assert_eq!(sends(Scenario::Late), PIECES, "{platform}");
        assert_eq!(sends(Scenario::Tiny), 1, "{platform}");
        assert_eq!(sends(Scenario::Modest), 1, "{platform}");
        assert_eq!(sends(Scenario::Sendfile), 1 + usize::from(platform == "Linux"), "{platform}");
    }
}

/// The tables of the page, one row for each platform.
fn tables() -> String {
    let mut page = String::from(
        "| | ten pieces, all ready | ten pieces, one by one | tiny | 64 KB of memory | 104 KB of a \
         file |\n\
         |---|---|---|---|---|---|\n",
    );
    for (platform, on) in PLATFORMS {
        let cell = |scenario| match &answer(scenario, on).0[..] {
            [call] => format!("`{call}`"),
            [first, rest @ ..] if rest.iter().all(|call| call == first) => {
                format!("`{first}` × {}", rest.len() + 1)
            }
            calls => format!("`{}`", calls.join(", ")),
        };
        let cells = SCENARIOS.map(cell).join(" | ");
        writeln!(page, "| {platform} | {cells} |").unwrap();
    }
    page.push_str(
        "\n\
         | options + sends + reads, ours / theirs | ten pieces, all ready | ten pieces, one by one \
         | tiny | 64 KB of memory | 104 KB of a file |\n|---|---|---|---|---|---|\n",
    );
    for (platform, on) in PLATFORMS {
        let sum = |cost: PlanCost| match cost {
            PlanCost { options, sends, reads: 0 } => format!("{options}+{sends}"),
            PlanCost { options, sends, reads } => format!("{options}+{sends}+{reads}"),
        };
        let cell = |scenario| {
            format!("{} / {}", sum(answer(scenario, on).1), sum(theirs(platform, scenario)))
        };
        let cells = SCENARIOS.map(cell).join(" | ");
        writeln!(page, "| {platform} | {cells} |").unwrap();
    }
    page
}

#[test]
fn the_page_shows_these_plans() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/platforms.md");
    let page = fs::read_to_string(path).unwrap();
    let tables = tables();
    assert!(
        page.contains(&tables),
        "docs/platforms.md has other tables; these are right:\n{tables}"
    );
}

const PIECES: usize = 10;
const MODEST: usize = 64 * 1024;
const LARGE: u64 = 104 * 1024;
