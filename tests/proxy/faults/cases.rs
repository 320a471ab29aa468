//! The injected faults, and the expected result of each.

use crate::faults::message::{BodyFraming, FaultRequest, ReceivedMessage, answers};
use crate::faults::origin::well;
use fulmar_engine::sim::PeerStep;

/// A fault of one side.
#[derive(Debug)]
pub(crate) struct InjectedFault {
    pub(crate) name: &'static str,
    /// With which requests it can.
    pub(crate) fits: fn(&FaultRequest) -> bool,
    /// The client's steps in place of a request.
    pub(crate) client: Option<fn(&FaultRequest) -> Vec<PeerStep>>,
    /// The server's steps once it has the head; its argument waits for the whole request.
    pub(crate) server: Option<fn(&FaultRequest, PeerStep) -> Vec<PeerStep>>,
    pub(crate) comes: Comes,
}

/// What comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comes {
    /// A whole response with this status; the log has one of these codes.
    Whole(u16, &'static [&'static str]),
    /// The beginning of a response with status 200, and then the end of the connection.
    Cut(&'static [&'static str]),
    /// The client is gone; the log has one of these.
    Gone(&'static [&'static str]),
    /// No response, and this status unless the request is retried.
    Fails(RetryCause, u16, &'static [&'static str]),
    /// No request came of it: this status, or nothing but the end of the connection.
    Unheard(u16, &'static [&'static str]),
}

/// What `retry-on` may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryCause {
    Empty,
    Junk,
    Silent,
    /// The connection failed or ended at once: the result depends on timing.
    Unmet,
}

const fn fault(name: &'static str, fits: fn(&FaultRequest) -> bool, comes: Comes) -> InjectedFault {
    InjectedFault { name, fits, client: None, server: None, comes }
}

impl InjectedFault {
    const fn by_client(self, client: fn(&FaultRequest) -> Vec<PeerStep>) -> Self {
        Self { client: Some(client), ..self }
    }

    const fn by_server(self, server: fn(&FaultRequest, PeerStep) -> Vec<PeerStep>) -> Self {
        Self { server: Some(server), ..self }
    }
}

fn any(ask: &FaultRequest) -> bool {
    ask.path == "/"
}

fn has_body(ask: &FaultRequest) -> bool {
    any(ask) && ask.body.is_some()
}

fn is_bodiless(ask: &FaultRequest) -> bool {
    any(ask) && ask.body.is_none()
}

/// The response has a body that can be truncated.
fn is_answered(ask: &FaultRequest) -> bool {
    any(ask) && ask.method != "HEAD" && ask.answer.1 > 100
}

/// The end of the response is explicit.
fn is_framed(ask: &FaultRequest) -> bool {
    is_answered(ask) && ask.answer.0 != BodyFraming::Close
}

/// A reset discards unreceived bytes, so few may be in flight.
fn is_short(ask: &FaultRequest) -> bool {
    is_framed(ask) && ask.answer.1 < 50_000
}

fn is_chunked(ask: &FaultRequest) -> bool {
    is_answered(ask) && ask.answer.0 == BodyFraming::Chunks
}

/// The buffers of the proxy and of the kernel together do not hold the response.
fn is_huge(ask: &FaultRequest) -> bool {
    is_answered(ask) && ask.answer.1 > 4_000_000
}

fn send(text: &str) -> PeerStep {
    PeerStep::Send(text.as_bytes().to_vec())
}

/// The first half of the right response: its head, and some of its body.
fn half(ask: &FaultRequest) -> PeerStep {
    let mut reply = ask.reply("200 OK");
    reply.truncate(ask.reply_head("200 OK").len() + ask.answer.1 / 2);
    PeerStep::Send(reply)
}

fn refusal(fields: &str) -> PeerStep {
    send(&format!("HTTP/1.1 413 Content Too Large\r\n{fields}Content-Length: 4\r\n\r\nmuch"))
}

/// The head, and the first half of the body.
fn half_request(ask: &FaultRequest) -> PeerStep {
    let mut all = ask.whole();
    let (head, len) = (ask.head().len(), all.len());
    all.truncate(head + (len - head) / 2);
    PeerStep::Send(all)
}

fn half_head(ask: &FaultRequest) -> PeerStep {
    let mut head = ask.head();
    head.truncate(head.len() / 2);
    PeerStep::Send(head)
}

/// Waits for whole responses to all of these.
pub(crate) fn until_answered(all: &[&FaultRequest]) -> PeerStep {
    let is_head: Vec<bool> = all.iter().map(|ask| ask.method == "HEAD").collect();
    PeerStep::Until(Box::new(move |got| {
        let last = answers(got, &is_head).into_iter().nth(is_head.len() - 1);
        last.is_some_and(|(answer, _)| answer.end.is_some())
    }))
}

fn until_begun() -> PeerStep {
    PeerStep::Until(Box::new(|got| ReceivedMessage::of(got, false).is_some()))
}

const GOOD: &[&str] = &["--"];
/// Before it was with a server, or afterwards.
const LEFT: &[&str] = &["CQ", "CC", "CD"];
const LEFT_WAITING: &[&str] = &["CQ", "CC", "CH"];
const SLOW: &[&str] = &["cQ", "cC", "cD"];
const EMPTY: Comes = Comes::Fails(RetryCause::Empty, 502, &["SH"]);
const JUNK: Comes = Comes::Fails(RetryCause::Junk, 502, &["PH"]);
const TRUNCATED: Comes = Comes::Fails(RetryCause::Junk, 502, &["SH"]);
const SILENT: Comes = Comes::Fails(RetryCause::Silent, 504, &["sH"]);
const UNREAD: Comes = Comes::Fails(RetryCause::Silent, 504, &["sH", "sD"]);

/// The server closes idle connections just as they are used.
pub(crate) static RACE: InjectedFault = fault("the server closes what is idle", any, EMPTY);

pub(crate) static FAULTS: &[InjectedFault] = &[
    fault("nothing", any, Comes::Whole(200, GOOD)),
    // The server fails before its response.
    fault("the server closes when it has the head", any, EMPTY)
        .by_server(|_, _| vec![PeerStep::Close]),
    fault("the server resets when it has the head", any, EMPTY)
        .by_server(|_, _| vec![PeerStep::Reset]),
    fault("the server ends its side when it has the head", any, EMPTY)
        .by_server(|_, _| vec![PeerStep::Fin]),
    fault("the server closes when it has the request", any, EMPTY)
        .by_server(|_, whole| vec![whole, PeerStep::Close]),
    fault("the server resets when it has the request", any, EMPTY)
        .by_server(|_, whole| vec![whole, PeerStep::Reset]),
    fault("the server says nothing", any, SILENT)
        .by_server(|_, whole| vec![whole, PeerStep::never()]),
    fault("the server reads nothing", has_body, UNREAD)
        .by_server(|_, _| vec![PeerStep::StopReading, PeerStep::never()]),
    // In the head of its answer.
    fault("the server closes within the head", any, TRUNCATED)
        .by_server(|_, whole| vec![whole, send("HTTP/1.1 200 OK\r\nConte"), PeerStep::Close]),
    fault("the server resets within the head", any, TRUNCATED)
        .by_server(|_, whole| vec![whole, send("HTTP/1.1 200 OK\r\nConte"), PeerStep::Reset]),
    fault("the server stalls within the head", any, SILENT)
        .by_server(|_, whole| vec![whole, send("HTTP/1.1 200 OK\r\nConte"), PeerStep::never()]),
    fault("the server says something else", any, JUNK)
        .by_server(|_, whole| vec![whole, send("SSH-2.0-OpenSSH_9.2\r\n\r\n"), PeerStep::never()]),
    fault("the server says two lengths", any, JUNK).by_server(|_, whole| {
        let two = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd";
        vec![whole, send(two), PeerStep::never()]
    }),
    fault("the server closes after an interim answer", any, TRUNCATED).by_server(|_, whole| {
        vec![whole, send("HTTP/1.1 103 Early Hints\r\n\r\n"), PeerStep::Close]
    }),
    fault("the server sends an interim answer first", any, Comes::Whole(200, GOOD)).by_server(
        |ask, whole| {
            let mut steps = vec![send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")];
            steps.extend(well(ask, whole));
            steps
        },
    ),
    // In the body of its answer.
    fault("the server closes within the body", is_framed, Comes::Cut(&["SD"]))
        .by_server(|ask, whole| vec![whole, half(ask), PeerStep::Close]),
    fault("the server resets within the body", is_answered, Comes::Cut(&["SD"]))
        .by_server(|ask, whole| vec![whole, half(ask), PeerStep::Reset]),
    fault("the server ends its side within the body", is_framed, Comes::Cut(&["SD"]))
        .by_server(|ask, whole| vec![whole, half(ask), PeerStep::Fin]),
    fault("the server stalls within the body", is_answered, Comes::Cut(&["sD"]))
        .by_server(|ask, whole| vec![whole, half(ask), PeerStep::never()]),
    fault("the server breaks a chunk", is_chunked, Comes::Cut(&["SD"])).by_server(|ask, whole| {
        vec![
            whole,
            PeerStep::Send(ask.reply_head("200 OK")),
            send("5\r\nabcdeXX"),
            PeerStep::never(),
        ]
    }),
    // After its answer.
    fault("the server closes after the body", is_framed, Comes::Whole(200, GOOD))
        .by_server(|ask, whole| vec![whole, PeerStep::Send(ask.reply("200 OK")), PeerStep::Close]),
    fault("the server resets after the body", is_short, Comes::Whole(200, GOOD))
        .by_server(|ask, whole| vec![whole, PeerStep::Send(ask.reply("200 OK")), PeerStep::Reset]),
    fault("the server ends its side after the body", is_framed, Comes::Whole(200, GOOD))
        .by_server(|ask, whole| vec![whole, PeerStep::Send(ask.reply("200 OK")), PeerStep::Fin]),
    fault("the server says too much", is_framed, Comes::Whole(200, GOOD)).by_server(
        |ask, whole| vec![whole, PeerStep::Send([ask.reply("200 OK"), b"junk".to_vec()].concat())],
    ),
    fault("the server answers twice", is_framed, Comes::Whole(200, GOOD)).by_server(
        |ask, whole| {
            vec![whole, PeerStep::Send([ask.reply("200 OK"), ask.reply("200 OK")].concat())]
        },
    ),
    // Before it has the request.
    fault("the server refuses the body, and reads it", has_body, Comes::Whole(413, GOOD))
        .by_server(|_, _| vec![refusal("")]),
    fault("the server refuses the body, and closes", has_body, Comes::Whole(413, GOOD))
        .by_server(|_, _| vec![refusal("Connection: close\r\n"), PeerStep::Close]),
    fault("the server refuses the body, and resets", has_body, Comes::Whole(413, GOOD))
        .by_server(|_, _| vec![refusal(""), PeerStep::Reset]),
    fault("the server refuses the body, and ends its side", has_body, Comes::Whole(413, GOOD))
        .by_server(|_, _| vec![refusal("Connection: close\r\n"), PeerStep::Fin]),
    // No server is there.
    fault(
        "the server closes every connection",
        |ask| ask.path == "/closed",
        Comes::Fails(RetryCause::Unmet, 502, &["SH"]),
    ),
    fault(
        "the server resets every connection",
        |ask| ask.path == "/reset",
        Comes::Fails(RetryCause::Unmet, 502, &["SH"]),
    ),
    fault("no listener", |ask| ask.path == "/refused", Comes::Whole(503, &["SC"])),
    fault("one of two listens", |ask| ask.path == "/half", Comes::Whole(200, GOOD)),
    // The client, in its request.
    fault("the client resets within the head", any, Comes::Unheard(400, &["CR"]))
        .by_client(|ask| vec![half_head(ask), PeerStep::Reset]),
    fault("the client ends its side within the head", any, Comes::Unheard(400, &["CR"]))
        .by_client(|ask| vec![half_head(ask), PeerStep::Fin]),
    fault("the client stalls within the head", any, Comes::Unheard(408, &["cR"]))
        .by_client(|ask| vec![half_head(ask), PeerStep::never()]),
    fault("the client says something else", any, Comes::Unheard(400, &["PR"]))
        .by_client(|_| vec![send("\x16\x03\x01\x02\0\x01\r\n\r\n"), PeerStep::never()]),
    fault("the client resets within the body", has_body, Comes::Gone(LEFT))
        .by_client(|ask| vec![half_request(ask), PeerStep::Reset]),
    fault("the client ends its side within the body", has_body, Comes::Gone(LEFT))
        .by_client(|ask| vec![half_request(ask), PeerStep::Fin]),
    fault("the client stalls within the body", has_body, Comes::Whole(408, SLOW))
        .by_client(|ask| vec![half_request(ask), PeerStep::never()]),
    // And after it.
    fault("the client ends its side after the request", any, Comes::Whole(200, GOOD))
        .by_client(|ask| vec![PeerStep::Send(ask.whole()), PeerStep::Fin, PeerStep::never()]),
    fault("the client resets after the request", is_bodiless, Comes::Gone(LEFT_WAITING))
        .by_client(|ask| vec![PeerStep::Send(ask.whole()), PeerStep::Reset])
        .by_server(|_, _| vec![PeerStep::never()]),
    fault("the client resets within the answer", is_huge, Comes::Gone(&["CD"]))
        .by_client(|ask| vec![PeerStep::Send(ask.whole()), until_begun(), PeerStep::Reset]),
    fault("the client closes within the answer", is_huge, Comes::Gone(&["CD"]))
        .by_client(|ask| vec![PeerStep::Send(ask.whole()), until_begun(), PeerStep::Close]),
    fault("the client reads no more", is_huge, Comes::Gone(&["cD"])).by_client(|ask| {
        vec![PeerStep::Send(ask.whole()), until_begun(), PeerStep::StopReading, PeerStep::never()]
    }),
];
