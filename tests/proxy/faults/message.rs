//! Requests and responses of the test: their bytes, and their parsing.

use std::ops::Range;

/// The framing of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyFraming {
    Length,
    Chunks,
    /// By the end of the connection.
    Close,
}

/// One request, and its response without a fault.
#[derive(Clone, Debug)]
pub(crate) struct FaultRequest {
    pub(crate) id: u32,
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    /// Of its body; `None`: it has none.
    pub(crate) body: Option<(BodyFraming, usize)>,
    /// Of the answer's body.
    pub(crate) answer: (BodyFraming, usize),
}

impl FaultRequest {
    pub(crate) fn get(id: u32, path: &'static str) -> Self {
        Self { id, method: "GET", path, body: None, answer: (BodyFraming::Length, 5) }
    }

    /// Whether it may be executed twice.
    pub(crate) fn is_idempotent(&self) -> bool {
        self.method != "POST"
    }

    /// The proxy may not hold all of its body when it would have to send it again.
    pub(crate) fn is_long(&self) -> bool {
        self.body.is_some_and(|(_, len)| len > 15_000)
    }

    /// Whether the proxy can repeat it for sure.
    pub(crate) fn is_repeatable(&self) -> bool {
        self.is_idempotent() && !self.is_long()
    }

    pub(crate) fn head(&self) -> Vec<u8> {
        let Self { id, method, path, .. } = self;
        let framing = match self.body {
            None => String::new(),
            Some((BodyFraming::Chunks, _)) => "Transfer-Encoding: chunked\r\n".to_owned(),
            Some((_, len)) => format!("Content-Length: {len}\r\n"),
        };
        format!("{method} {path} HTTP/1.1\r\nHost: h\r\nX-Id: {id}\r\n{framing}\r\n").into_bytes()
    }

    /// The body, with its framing.
    pub(crate) fn content(&self) -> Vec<u8> {
        let Some((framing, len)) = self.body else { return Vec::new() };
        framed(framing, &pattern(self.id, len))
    }

    pub(crate) fn whole(&self) -> Vec<u8> {
        [self.head(), self.content()].concat()
    }

    /// The right answer.
    pub(crate) fn reply(&self, status: &str) -> Vec<u8> {
        let body = framed(self.answer.0, &pattern(self.id, self.answer.1));
        let body = if self.method == "HEAD" { Vec::new() } else { body };
        [self.reply_head(status), body].concat()
    }

    pub(crate) fn reply_head(&self, status: &str) -> Vec<u8> {
        let framing = match self.answer {
            (BodyFraming::Length, len) => format!("Content-Length: {len}\r\n"),
            (BodyFraming::Chunks, _) => "Transfer-Encoding: chunked\r\n".to_owned(),
            (BodyFraming::Close, _) => "Connection: close\r\n".to_owned(),
        };
        format!("HTTP/1.1 {status}\r\n{framing}\r\n").into_bytes()
    }

    /// The content of the right response.
    pub(crate) fn expected(&self) -> Vec<u8> {
        pattern(self.id, if self.method == "HEAD" { 0 } else { self.answer.1 })
    }
}

/// Unique content.
fn pattern(id: u32, len: usize) -> Vec<u8> {
    let byte = |at: usize| (at.wrapping_mul(31) ^ (at >> 8) ^ id as usize).to_le_bytes()[0];
    (0..len).map(byte).collect()
}

fn framed(framing: BodyFraming, content: &[u8]) -> Vec<u8> {
    if framing != BodyFraming::Chunks {
        return content.to_vec();
    }
    let mut all = Vec::new();
    for chunk in content.chunks(9_000) {
        all.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        all.extend_from_slice(chunk);
        all.extend_from_slice(b"\r\n");
    }
    all.extend_from_slice(b"0\r\n\r\n");
    all
}

/// A message as far as it has come.
#[derive(Debug, Default)]
pub(crate) struct ReceivedMessage {
    pub(crate) head: String,
    /// Where it ends; `None`: not yet.
    pub(crate) end: Option<usize>,
    /// Where its content is.
    content: Vec<Range<usize>>,
}

impl ReceivedMessage {
    /// The first one of these bytes; `None`: not even its head is there.
    pub(crate) fn of(bytes: &[u8], has_content: bool) -> Option<Self> {
        let start = find(bytes, b"\r\n\r\n")? + 4;
        let head = String::from_utf8_lossy(&bytes[..start]).into_owned();
        let mut message = Self { head, ..Self::default() };
        if !has_content {
            message.end = Some(start);
        } else if message.field("transfer-encoding").is_some() {
            message.end = unchunk(bytes, start, &mut message.content);
        } else {
            let len = message.field("content-length").map_or(0, |len| len.parse().unwrap());
            let end: usize = start + len;
            message.content.push(start..end.min(bytes.len()));
            message.end = (bytes.len() >= end).then_some(end);
        }
        Some(message)
    }

    /// Its content, out of the bytes that it is in.
    pub(crate) fn content(&self, bytes: &[u8]) -> Vec<u8> {
        self.content.iter().flat_map(|range| bytes[range.clone()].iter().copied()).collect()
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        let mut named = fields.filter(|(known, _)| known.eq_ignore_ascii_case(name));
        named.next().map(|(_, value)| value.trim())
    }

    pub(crate) fn id(&self) -> u32 {
        self.field("x-id").expect("requests have a number").parse().unwrap()
    }

    pub(crate) fn status(&self) -> u16 {
        self.head[9..12].parse().unwrap_or_else(|_| panic!("no status: {}", self.head))
    }

    /// Nothing follows it on its connection.
    pub(crate) fn is_last(&self) -> bool {
        self.field("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

/// The responses in these bytes with their positions; the last may be incomplete. Interim ones are
/// left out.
pub(crate) fn answers(bytes: &[u8], is_head: &[bool]) -> Vec<(ReceivedMessage, usize)> {
    let (mut all, mut from) = (Vec::new(), 0);
    while let Some(first) = ReceivedMessage::of(&bytes[from..], false) {
        let is_interim = first.status() < 200;
        let asked_for_head = is_head.get(all.len()).copied().unwrap_or(false);
        let has_content = !is_interim && !asked_for_head;
        let message = ReceivedMessage::of(&bytes[from..], has_content).expect("a head");
        let end = message.end;
        if !is_interim {
            all.push((message, from));
        }
        let Some(end) = end else { break };
        from += end;
    }
    all
}

/// How long the first request is, if all of it is there.
pub(crate) fn request_len(bytes: &[u8]) -> Option<usize> {
    ReceivedMessage::of(bytes, true)?.end
}

/// Where a body in chunks ends that begins at `at`, and where its content is.
fn unchunk(bytes: &[u8], mut at: usize, content: &mut Vec<Range<usize>>) -> Option<usize> {
    loop {
        let line = find(&bytes[at..], b"\r\n")?;
        let text = std::str::from_utf8(&bytes[at..at + line]).ok()?;
        let len = usize::from_str_radix(text, 16).ok()?;
        let start = at + line + 2;
        if len == 0 {
            return bytes[start..].starts_with(b"\r\n").then_some(start + 2);
        }
        content.push(start..(start + len).min(bytes.len()));
        if bytes.get(start + len..start + len + 2)? != b"\r\n" {
            return None;
        }
        at = start + len + 2;
    }
}

fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}
