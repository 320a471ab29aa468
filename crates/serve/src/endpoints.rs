//! Responses for tests and benchmarks: sizes, delays, streams, statuses.
//!
//! | target | response |
//! |---|---|
//! | `/bytes/N` | N bytes |
//! | `/stream/CHUNK` | chunks of CHUNK bytes, without end |
//! | `/delay/MS` | after MS milliseconds |
//! | `/status/CODE` | that status |
//! | `/echo` | the request's body |
//! | `/idle` | never |
//! | `/.ledger` | the system calls of the responding thread, as JSON |

use std::time::Duration;

use bytes::Bytes;
use fulmar_proto::{BodyLen, HeaderBuf, Headers, Request, Response};
use fulmar_server::{BodyHandler, Handler, HandlerResult, Responder, ResponseBody};
use fulmar_sys::Ledger;

use crate::ledger;

/// The endpoint of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestEndpoint {
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

/// The pattern that bodies are made of.
#[derive(Debug)]
pub struct Endpoints {
    pattern: Bytes,
    plain: HeaderBuf,
    json: HeaderBuf,
}

impl TestEndpoint {
    /// Parses `target`. `None` if it is not an endpoint.
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
    /// Creates the endpoints.
    pub fn new() -> Self {
        let pattern: Vec<u8> = (0..PATTERN_SIZE).map(|at| PATTERN[at % PATTERN.len()]).collect();
        let (mut plain, mut json) = (HeaderBuf::new(), HeaderBuf::new());
        plain.push(PLAIN.0, PLAIN.1).expect("a good field");
        json.push("Content-Type", b"application/json").expect("a good field");
        Self { pattern: pattern.into(), plain, json }
    }

    /// Responds, or begins to.
    ///
    /// # Errors
    /// Passed on from `responder`.
    pub fn answer(&self, endpoint: TestEndpoint, responder: &mut Responder<'_>) -> HandlerResult {
        match endpoint {
            TestEndpoint::Idle => responder.attach(Idle),
            TestEndpoint::Bytes(n) => {
                responder.send_head(self.plain(200), BodyLen::Exact(n))?;
                let mut rest = RemainingBytes { pattern: self.pattern.clone(), left: n };
                rest.ready(responder)?;
                match rest.left {
                    0 => Ok(()),
                    _ => responder.attach(rest),
                }
            }
            TestEndpoint::Stream(size) => {
                responder.send_head(self.plain(200), BodyLen::Unknown)?;
                responder.attach(StreamBody(self.pattern.slice(..size as usize)))
            }
            TestEndpoint::Delay(time) => {
                responder.suspend_until(responder.now() + time, |responder| {
                    let head = Response { added: &[PLAIN], ..Response::new(200, Headers::EMPTY) };
                    responder.reply(head, DELAYED)
                });
                Ok(())
            }
            TestEndpoint::Status(status) => {
                let body =
                    if status == 204 { ResponseBody::Empty } else { format!("{status}\n").into() };
                responder.reply(self.plain(status), body)
            }
            TestEndpoint::Ledger => {
                let text = ledger::to_json(&Ledger::here(), responder.id().number);
                responder.reply(Response::new(200, self.json.as_headers()), text)
            }
            TestEndpoint::Echo => {
                responder.attach(EchoBody)?;
                responder.send_head(self.plain(200), responder.body_len())
            }
        }
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

/// Only endpoints.
impl Handler for Endpoints {
    fn handle(&mut self, responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
        match TestEndpoint::parse(request.target) {
            Some(endpoint) => self.answer(endpoint, responder),
            None => responder.text(404, "no such endpoint\n"),
        }
    }
}

/// Never responds.
struct Idle;

impl BodyHandler for Idle {}

/// The number of bytes still to be sent.
struct RemainingBytes {
    pattern: Bytes,
    left: u64,
}

impl BodyHandler for RemainingBytes {
    fn ready(&mut self, responder: &mut Responder<'_>) -> HandlerResult {
        while self.left > 0 && responder.room() > 0 {
            let size = self.left.min(self.pattern.len() as u64);
            let size = usize::try_from(size).expect("at most the pattern");
            responder.send(self.pattern.slice(..size))?;
            self.left -= size as u64;
        }
        if self.left == 0 { responder.end() } else { Ok(()) }
    }
}

/// Sends this chunk without end.
struct StreamBody(Bytes);

impl BodyHandler for StreamBody {
    fn ready(&mut self, responder: &mut Responder<'_>) -> HandlerResult {
        while responder.room() > 0 {
            responder.send(self.0.clone())?;
        }
        Ok(())
    }
}

/// Sends what it receives, as fast as the client reads.
struct EchoBody;

impl BodyHandler for EchoBody {
    fn data(&mut self, responder: &mut Responder<'_>, bytes: Bytes) -> HandlerResult {
        responder.send(bytes)?;
        if responder.room() == 0 {
            responder.pause();
        }
        Ok(())
    }

    fn ready(&mut self, responder: &mut Responder<'_>) -> HandlerResult {
        responder.unpause();
        Ok(())
    }

    fn end(&mut self, responder: &mut Responder<'_>, trailers: Headers<'_>) -> HandlerResult {
        responder.end_with(trailers)
    }
}

const PATTERN: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-\n";
const PATTERN_SIZE: usize = 64 * 1024;
const CHUNK_SIZE_MAX: u32 = 64 * 1024;
const DELAYED: &str = "delayed\n";
const PLAIN: (&str, &[u8]) = ("Content-Type", b"text/plain");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_name_endpoints() {
        let cases: [(&str, Option<TestEndpoint>); 12] = [
            ("/bytes/128", Some(TestEndpoint::Bytes(128))),
            ("/bytes/128?x=1", Some(TestEndpoint::Bytes(128))),
            ("/bytes/-1", None),
            ("/bytes/", None),
            ("/stream/0", None),
            ("/stream/1", Some(TestEndpoint::Stream(1))),
            ("/delay/250", Some(TestEndpoint::Delay(Duration::from_millis(250)))),
            ("/status/404", Some(TestEndpoint::Status(404))),
            ("/status/100", None),
            ("/echo", Some(TestEndpoint::Echo)),
            ("/.ledger", Some(TestEndpoint::Ledger)),
            ("/index.html", None),
        ];
        for (target, expected) in cases {
            assert_eq!(TestEndpoint::parse(target.as_bytes()), expected, "{target}");
        }
    }
}
