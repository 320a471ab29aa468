//! `show errors [<proxy>|<id>] [request|response]`: the last malformed message of each proxy, in
//! HAProxy's layout. In place of HAProxy's internal state, it shows the error.

use std::fmt::Write;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use fulmar_proto::h1::HEAD_SIZE_MAX;
use fulmar_proxy::{Live, Malformed};
use fulmar_sys as sys;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::call::CommandCall;
use super::context::{CommandReply, Pieces};
use crate::statistics::rows::proxies;

/// A recorded message.
#[derive(Debug)]
struct Shown {
    malformed: Arc<Malformed>,
    is_request: bool,
}

pub(super) fn show(call: &mut CommandCall<'_>) -> CommandReply {
    let live = &call.context.live;
    let Some(wanted) = wanted(live, call.word(0)) else { return "No such proxy.\n".into() };
    let (requests, responses) = match call.word(1) {
        Some("request") => (true, false),
        Some("response") => (false, true),
        _ => (true, true),
    };
    let mut out = String::from("Total events captured on ");
    write_date(sys::wall_clock(), &mut out);
    writeln!(out, " : {}", live.malformed()).expect(TAKES);
    let mut shown = Vec::new();
    for proxy in proxies(live) {
        let request = proxy.frontend.filter(|_| requests);
        let request = request.and_then(|at| live.frontends[at].malformed.get());
        let response = proxy.backend.filter(|_| responses);
        let response = response.and_then(|at| live.backends[at].malformed.get());
        let request = request.map(|malformed| Shown { malformed, is_request: true });
        let response = response.map(|malformed| Shown { malformed, is_request: false });
        shown.extend(request.into_iter().chain(response).filter(|it| it.concerns(live, wanted)));
    }
    let (mut head, mut shown) = (Some(out), shown.into_iter());
    let pieces: Pieces = Box::new(move |context, _, out| {
        out.push_str(&head.take().unwrap_or_default());
        if let Some(next) = shown.next() {
            next.write(&context.live, out);
        }
        shown.len() > 0
    });
    CommandReply::Pieces(pieces)
}

/// The number of the selected proxy; `Some(None)`: any proxy; `None`: no such proxy.
fn wanted(live: &Live, word: Option<&str>) -> Option<Option<u32>> {
    let Some(word) = word else { return Some(None) };
    if let Some(found) = proxies(live).into_iter().find(|it| it.name(live) == word) {
        return Some(Some(found.id));
    }
    let number = word.parse::<i64>().ok().filter(|number| *number != 0)?;
    Some(u32::try_from(number).ok())
}

impl Shown {
    /// True if the message belongs to the proxy with this number.
    fn concerns(&self, live: &Live, wanted: Option<u32>) -> bool {
        let Some(wanted) = wanted else { return true };
        let it = &self.malformed;
        let backend = it.backend.map(|at| live.backends[at].config.id);
        live.frontends[it.frontend].config.id == wanted || backend == Some(wanted)
    }

    fn write(&self, live: &Live, out: &mut String) {
        let it = &self.malformed;
        let frontend = &live.frontends[it.frontend].config;
        let frontend = format!("frontend {} (#{})", frontend.name, frontend.id);
        let backend = it.backend.map(|at| &live.backends[at]);
        let server = backend.zip(it.server).map(|(backend, at)| &backend.servers[at].config);
        let backend = backend.map(|it| (&*it.config.name, it.config.id));
        let backend = named("backend", backend);
        let server = named("server", server.map(|it| (&*it.name, it.id)));
        let (ours, other, what) = match self.is_request {
            true => (frontend, backend, "request"),
            false => (backend, frontend, "response"),
        };
        out.push_str(" \n");
        write_date(UNIX_EPOCH + it.at, out);
        let (event, len, position) = (it.event, it.bytes.len(), it.position);
        let source = it.source.map_or_else(|| "unix:0".to_owned(), |source| source.to_string());
        writeln!(
            out,
            " {ours}: invalid {what}\n  {other}, {server}, event #{event}, src {source}\n  \
             buffer starts at 0 (including 0 out), {} free,\n  \
             len {len}, wraps at {HEAD_SIZE_MAX}, error at position {position}\n  {} :\n  ",
            HEAD_SIZE_MAX - len,
            it.error,
        )
        .expect(TAKES);
        write_bytes(&it.bytes, out);
    }
}

fn named(kind: &str, it: Option<(&str, u32)>) -> String {
    match it {
        Some((name, id)) => format!("{kind} {name} (#{id})"),
        None => format!("{kind} <NONE> (#-1)"),
    }
}

/// Local time as `[06/Feb/2009:12:14:14.655]`.
fn write_date(moment: SystemTime, out: &mut String) {
    let moment = Timestamp::try_from(moment).unwrap_or_default().to_zoned(TimeZone::system());
    write!(out, "[{}]", moment.strftime("%d/%b/%Y:%H:%M:%S%.3f")).expect(TAKES);
}

/// Lines of text, each after the offset of its first byte; `+` marks a continued line.
fn write_bytes(bytes: &[u8], out: &mut String) {
    let mut begins = true;
    let mut at = 0;
    while at < bytes.len() {
        write!(out, "  {at:05}{} ", if begins { ' ' } else { '+' }).expect(TAKES);
        let mut room = COLUMNS;
        begins = false;
        while let Some(byte) = bytes.get(at) {
            let shown = escaped(*byte);
            let Some(left) = room.checked_sub(shown.len()) else { break };
            out.push_str(&shown);
            (room, at) = (left, at + 1);
            if *byte == b'\n' {
                begins = true;
                break;
            }
        }
        out.push('\n');
    }
}

fn escaped(byte: u8) -> String {
    match byte {
        b'\t' => "\\t".into(),
        b'\n' => "\\n".into(),
        b'\r' => "\\r".into(),
        0x1b => "\\e".into(),
        b'\\' => "\\\\".into(),
        b' '..=b'~' => char::from(byte).into(),
        byte => format!("\\x{byte:02X}"),
    }
}

/// Length of a line after the offset.
const COLUMNS: usize = 70;
const TAKES: &str = "a String takes everything";
