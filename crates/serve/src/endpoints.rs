//! Answers for tests and benchmarks: sizes, delays, streams, statuses, on request.
//!
//! | target | answer |
//! |---|---|
//! | `/bytes/N` | N bytes |
//! | `/stream/CHUNK` | chunks of CHUNK bytes, without end |
//! | `/delay/MS` | after MS milliseconds |
//! | `/status/CODE` | that status |
//! | `/echo` | the request's body |
//! | `/idle` | never |
//! | `/.ledger` | the system calls of the thread that answers, as JSON |

use std::time::Duration;

use bytes::Bytes;
use fulmar_proto::{
    BodyLen, Connection, Event, HeaderBuf, Headers, Misuse, Request, Response, Server,
    ServerConnection, StreamId,
};
use fulmar_server::Context;
use fulmar_sys::Ledger;

use crate::ledger;

/// What a target asks of the endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `/bytes/N`.
    Bytes(u64),
    /// `/stream/CHUNK`.
    Stream(u32),
    /// `/delay/MS`.
    Delay(Duration),
    /// `/status/CODE`.
    Status(u16),
    /// `/echo`.
    Echo,
    /// `/idle`.
    Idle,
    /// `/.ledger`.
    Ledger,
}

/// What an exchange with an endpoint still owes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Task {
    /// Nothing.
    #[default]
    None,
    /// So many bytes.
    Bytes(StreamId, u64),
    /// Chunks of this size for ever.
    Stream(StreamId, u32),
    /// An answer when the timer says so.
    Delay(StreamId),
    /// What comes in goes out; so many bytes are given back when there is room.
    Echo(StreamId, usize),
}

/// A request as an endpoint sees it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Its head.
    pub request: &'a Request<'a>,
    /// The length of its body.
    pub len: BodyLen,
    /// Requests so far, this one among them.
    pub requests: u64,
    /// The value of `Date`.
    pub date: &'a [u8],
}

/// The memory that bodies are cut from.
#[derive(Debug)]
pub struct Endpoints {
    pattern: Bytes,
    plain: HeaderBuf,
    json: HeaderBuf,
}

impl Endpoint {
    /// What `target` asks for; `None` if it is a file's business.
    pub fn parse(target: &[u8]) -> Option<Self> {
        let path = target.split(|byte| *byte == b'?').next()?;
        let path = std::str::from_utf8(path).ok()?;
        match path {
            "/echo" => return Some(Self::Echo),
            "/idle" => return Some(Self::Idle),
            "/.ledger" => return Some(Self::Ledger),
            _ => {}
        }
        let (name, number) = path.strip_prefix('/')?.split_once('/')?;
        match name {
            "bytes" => number.parse().ok().map(Self::Bytes),
            "stream" => number.parse().ok().filter(is_chunk).map(Self::Stream),
            "delay" => {
                let ms: u32 = number.parse().ok()?;
                Some(Self::Delay(Duration::from_millis(ms.into())))
            }
            "status" => number.parse().ok().filter(is_final).map(Self::Status),
            _ => None,
        }
    }
}

fn is_chunk(size: &u32) -> bool {
    (1..=CHUNK_SIZE_MAX).contains(size)
}

fn is_final(status: &u16) -> bool {
    (200..=599).contains(status)
}

impl Endpoints {
    /// Ready to answer.
    pub fn new() -> Self {
        let pattern: Vec<u8> = (0..PATTERN_SIZE).map(|at| PATTERN[at % PATTERN.len()]).collect();
        let (mut plain, mut json) = (HeaderBuf::new(), HeaderBuf::new());
        plain.push("Content-Type", b"text/plain").expect("a good field");
        json.push("Content-Type", b"application/json").expect("a good field");
        Self { pattern: pattern.into(), plain, json }
    }

    /// Answers, or begins to; the status and the length that the answer declares.
    ///
    /// # Errors
    /// The connection refused what was sent: an error of ours.
    pub fn begin(
        &self,
        endpoint: Endpoint,
        asked: Asked<'_>,
        context: &mut Context,
        reply: &mut ServerConnection,
        task: &mut Task,
    ) -> Result<Option<(u16, u64)>, Misuse> {
        let stream = context.exchange.stream;
        let added = [("Date", asked.date)];
        let head = |status| Response { added: &added, ..self.plain(status) };
        match endpoint {
            Endpoint::Idle => Ok(None),
            Endpoint::Bytes(n) => {
                reply.send_head(stream, head(200), BodyLen::Exact(n))?;
                *task = Task::Bytes(stream, n);
                self.resume(reply, task)?;
                Ok(Some((200, n)))
            }
            Endpoint::Stream(size) => {
                reply.send_head(stream, head(200), BodyLen::Unknown)?;
                *task = Task::Stream(stream, size);
                self.resume(reply, task)?;
                Ok(Some((200, 0)))
            }
            Endpoint::Delay(time) => {
                context.set_timer(Some(context.now + time));
                *task = Task::Delay(stream);
                Ok(Some((200, DELAYED.len() as u64)))
            }
            Endpoint::Status(status) => {
                answer(reply, stream, head(status), format!("{status}\n").into()).map(Some)
            }
            Endpoint::Ledger => {
                let text = ledger::to_json(&Ledger::here(), asked.requests);
                let head = Response { headers: self.json.as_headers(), ..head(200) };
                answer(reply, stream, head, text.into()).map(Some)
            }
            Endpoint::Echo => {
                if asked.request.expects_continue {
                    let go_on = Response::new(100, Headers::EMPTY);
                    reply.send_head(stream, go_on, BodyLen::Empty)?;
                }
                reply.send_head(stream, head(200), asked.len)?;
                *task = Task::Echo(stream, 0);
                Ok(Some((200, if let BodyLen::Exact(n) = asked.len { n } else { 0 })))
            }
        }
    }

    /// What comes after the head of a request.
    ///
    /// # Errors
    /// The connection refused what was sent: an error of ours.
    pub fn handle(
        &self,
        event: Event<'_, Server>,
        reply: &mut ServerConnection,
        task: &mut Task,
    ) -> Result<(), Misuse> {
        match (event, &mut *task) {
            (Event::Data { bytes, .. }, Task::Echo(stream, held)) => {
                *held += bytes.len();
                reply.send_data(*stream, bytes.into())?;
                release(reply, *stream, held);
                Ok(())
            }
            (Event::Data { stream, bytes }, _) => {
                reply.release(stream, bytes.len());
                Ok(())
            }
            (Event::End { trailers, .. }, Task::Echo(stream, _)) => {
                reply.send_end(*stream, trailers)?;
                *task = Task::None;
                Ok(())
            }
            (Event::Writable { .. }, _) => self.resume(reply, task),
            _ => Ok(()),
        }
    }

    /// The timer of a delay has come.
    ///
    /// # Errors
    /// The connection refused what was sent: an error of ours.
    pub fn handle_timer(
        &self,
        reply: &mut ServerConnection,
        task: &mut Task,
        date: &[u8],
    ) -> Result<(), Misuse> {
        if let Task::Delay(stream) = std::mem::take(task) {
            let added = [("Date", date)];
            let head = Response { added: &added, ..self.plain(200) };
            answer(reply, stream, head, Bytes::from_static(DELAYED))?;
        }
        Ok(())
    }

    /// Sends as much of what is owed as there is room for.
    fn resume(&self, reply: &mut ServerConnection, task: &mut Task) -> Result<(), Misuse> {
        match task {
            Task::Bytes(stream, left) => {
                while *left > 0 && reply.room(*stream) > 0 {
                    let size = (*left).min(self.pattern.len() as u64);
                    let size = usize::try_from(size).expect("at most the pattern");
                    reply.send_data(*stream, self.pattern.slice(..size).into())?;
                    *left -= size as u64;
                }
                if *left == 0 {
                    reply.send_end(*stream, Headers::EMPTY)?;
                    *task = Task::None;
                }
            }
            Task::Stream(stream, size) => {
                let size = *size as usize;
                while reply.room(*stream) > 0 {
                    reply.send_data(*stream, self.pattern.slice(..size).into())?;
                }
            }
            Task::Echo(stream, held) => release(reply, *stream, held),
            Task::None | Task::Delay(_) => {}
        }
        Ok(())
    }

    fn plain(&self, status: u16) -> Response<'_> {
        Response::new(status, self.plain.as_headers())
    }
}

impl Default for Endpoints {
    fn default() -> Self {
        Self::new()
    }
}

/// A whole answer: the status and the length that it declares.
fn answer(
    reply: &mut ServerConnection,
    stream: StreamId,
    head: Response<'_>,
    body: Bytes,
) -> Result<(u16, u64), Misuse> {
    let len = if head.status == 204 { 0 } else { body.len() as u64 };
    let declared = if len == 0 { BodyLen::Empty } else { BodyLen::Exact(len) };
    reply.send_head(stream, head, declared)?;
    if len > 0 {
        reply.send_data(stream, body.into())?;
    }
    reply.send_end(stream, Headers::EMPTY)?;
    Ok((head.status, len))
}

/// Gives back what was echoed, unless the client has to take some of it first.
fn release(reply: &mut ServerConnection, stream: StreamId, held: &mut usize) {
    if reply.room(stream) > 0 {
        reply.release(stream, std::mem::take(held));
    }
}

const PATTERN: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-\n";
const PATTERN_SIZE: usize = 64 * 1024;
const CHUNK_SIZE_MAX: u32 = 64 * 1024;
const DELAYED: &[u8] = b"delayed\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_name_endpoints() {
        let cases: [(&str, Option<Endpoint>); 12] = [
            ("/bytes/128", Some(Endpoint::Bytes(128))),
            ("/bytes/128?x=1", Some(Endpoint::Bytes(128))),
            ("/bytes/-1", None),
            ("/bytes/", None),
            ("/stream/0", None),
            ("/stream/1", Some(Endpoint::Stream(1))),
            ("/delay/250", Some(Endpoint::Delay(Duration::from_millis(250)))),
            ("/status/404", Some(Endpoint::Status(404))),
            ("/status/100", None),
            ("/echo", Some(Endpoint::Echo)),
            ("/.ledger", Some(Endpoint::Ledger)),
            ("/index.html", None),
        ];
        for (target, expected) in cases {
            assert_eq!(Endpoint::parse(target.as_bytes()), expected, "{target}");
        }
    }
}
