//! Receiving: heads, bodies, tunnels, and input that is drained.

use crate::body_len::BodyLen;
use crate::errors::PeerError;
use crate::event::Event;
use crate::head::{
    FieldOrigin, Header, Headers, Request, Response, Scratch, Version, is_forbidden_trailer,
};
use crate::input::Input;
use crate::side::{Head, Side};

use super::chunked::{ChunkPart, Decoder};
use super::framing::{self, BodyRule, Facts, Framing, Length};
use super::leniency::{self, Leniency, SectionKind};
use super::libcurl::{self, Judging, LibcurlSection};
use super::parse::{self, Expect, Fields, RequestLine, StatusLine};
use super::{
    BLANK_LINES_MAX, BodyReader, DRAIN_SIZE_MAX, H1, HEAD_SIZE_MAX, Handover, HeadScan,
    INTERIM_LEN_MAX, Intake, LIBCURL_HEADS_SIZE_MAX, LINGER_SIZE_MAX, Recv, RequestFacts, Reuse,
    Send,
};

type Polled<'a, S> = Result<Option<Event<'a, S>>, PeerError>;

impl<S: Side> H1<S> {
    /// The next event from `input`, if it has a complete one.
    pub(super) fn poll_recv<'a>(
        &mut self,
        input: &mut Input<'_>,
        scratch: &'a mut Scratch,
    ) -> Polled<'a, S> {
        if self.has_responded()
            && matches!(self.recv, Recv::Body(_))
            && !self.drain(input, scratch)?
        {
            return Ok(None);
        }
        match self.recv {
            Recv::Rest => self.poll_rest(input),
            Recv::Head(head) => {
                let mut fields = Fields::default();
                match self.poll_head(head, input, scratch, &mut fields) {
                    Ok(Some(decoded)) => self.head_event(decoded, &fields, input, scratch),
                    Ok(None) => Ok(None),
                    Err(error) => Err(self.fail(error, input)),
                }
            }
            Recv::Body(_) => match self.poll_body(input, scratch) {
                Ok(Polling::Pending) => Ok(None),
                Ok(Polling::Data(n)) => Ok(Some(self.data(n, input))),
                Ok(Polling::End) => {
                    // Bytes behind the last expected response belong to no request, and must not
                    // be taken for the response to a later one.
                    self.excess = !S::SERVER && self.outstanding == 1 && !input.is_empty();
                    Ok(Some(self.end(scratch)))
                }
                Err(error) => Err(self.fail(error, input)),
            },
            Recv::Done => {
                self.poll_done(input);
                Ok(None)
            }
            Recv::Upgraded => {
                self.recv = Recv::Tunnel;
                Ok(Some(Event::Upgraded { stream: self.stream }))
            }
            Recv::Tunnel => Ok(self.poll_tunnel(input)),
            Recv::Discard(left) => {
                self.discard(left, input);
                Ok(None)
            }
            Recv::Closed => {
                self.poll_closed(input);
                Ok(None)
            }
        }
    }

    /// Client: nothing is outstanding, so nothing may come.
    fn poll_rest<'a>(&mut self, input: &Input<'_>) -> Polled<'a, S> {
        if !input.is_empty() {
            return match self.judge_unsolicited(input) {
                None => Ok(None),
                Some(error) => Err(self.fail(error, input)),
            };
        }
        if input.at_eof() {
            self.close();
        }
        Ok(None)
    }

    /// The head in front of the input, once it is complete.
    fn poll_head(
        &mut self,
        mut head: HeadScan,
        input: &mut Input<'_>,
        scratch: &mut Scratch,
        fields: &mut Fields,
    ) -> Result<Option<Decoded>, PeerError> {
        let is_fresh = head.scan.is_fresh();
        if S::SERVER && self.intake != Intake::Open && is_fresh {
            if !input.is_empty() || input.has_eof() {
                self.intake = Intake::Holding;
            }
            return Ok(None);
        }
        if input.is_empty() {
            return self.poll_quiet(head, input).map(|()| None);
        }
        if S::SERVER && is_fresh && matches!(input.bytes(), [b'\r' | b'\n', ..]) {
            let is_begun = self.skip_blank_lines(&mut head, input);
            self.recv = Recv::Head(head);
            if !is_begun {
                return self.poll_quiet(head, input).map(|()| None);
            }
        }
        if !S::SERVER && self.outstanding == 1 && (self.unsent_request || self.send == Send::Head) {
            return self.judge_unsolicited(input).map_or(Ok(None), Err);
        }
        // Most heads arrive whole. The scan finds what is missing or wrong in the others.
        let bytes = input.bytes();
        if is_fresh
            && let bytes = &bytes[..bytes.len().min(HEAD_SIZE_MAX)]
            && let Ok(start) = decode::<S>(bytes, &mut scratch.index, fields)
            && (S::SERVER || self.is_expected(head, bytes, start, fields))
        {
            return Ok(Some(Decoded { start, repaired_from: None, is_cut: false }));
        }
        if !S::SERVER && is_fresh {
            let error = match input.bytes()[0] {
                0 => self.speaks_http2(input).map(|does| does.then_some(PeerError::OnlyHttp2)),
                TLS_ALERT | TLS_HANDSHAKE => {
                    self.speaks_tls(input).map(|does| does.then_some(PeerError::OnlyTls))
                }
                _ => Some(None),
            };
            match error {
                None => return Ok(None),
                Some(Some(error)) => return Err(error),
                Some(None) => {}
            }
        }
        if !S::SERVER && self.leniency.has(Leniency::LIBCURL) {
            return self.poll_libcurl(head, input, scratch, fields);
        }
        self.poll_scanned(head, input, scratch, fields)
    }

    /// Parses a head that is incomplete or malformed, with the scan of [`Self::poll_head`].
    fn poll_scanned(
        &mut self,
        mut head: HeadScan,
        input: &Input<'_>,
        scratch: &mut Scratch,
        fields: &mut Fields,
    ) -> Result<Option<Decoded>, PeerError> {
        let bytes = input.bytes();
        if self.is_http09(input) {
            let start = Start::Response(parse::http09_response(&mut scratch.index, fields));
            return Ok(Some(Decoded { start, repaired_from: None, is_cut: false }));
        }
        let check =
            if S::SERVER { parse::check_request_start } else { parse::check_response_start };
        match parse::head_end(&mut head.scan, bytes, self.leniency, check)? {
            Some(end) => {
                decode_leniently::<S>(&bytes[..end], self.leniency, scratch, fields).map(Some)
            }
            None if input.has_eof() => Err(PeerError::UnexpectedEof),
            None => {
                self.recv = Recv::Head(head);
                Ok(None)
            }
        }
    }

    /// Client: true if a valid head needs no reading by the rules of libcurl.
    #[inline(always)]
    fn is_expected(&self, scan: HeadScan, head: &[u8], start: Start, fields: &Fields) -> bool {
        if !self.leniency.has(Leniency::LIBCURL) {
            return true;
        }
        let Start::Response(line) = start else { unreachable!("clients receive responses") };
        let sum = scan.earlier as usize + fields.end;
        let is_plain = libcurl::is_plain(head, line, fields)
            && !(self.leniency.has(Leniency::IGNORED_LENGTH)
                && matches!(fields.length, Length::Exact(_)));
        is_plain && sum <= LIBCURL_HEADS_SIZE_MAX as usize
    }

    /// Client: judges the lines of a head as libcurl does.
    fn poll_libcurl(
        &mut self,
        head: HeadScan,
        input: &Input<'_>,
        scratch: &mut Scratch,
        fields: &mut Fields,
    ) -> Result<Option<Decoded>, PeerError> {
        let bytes = input.bytes();
        let ignores_length = self.leniency.has(Leniency::IGNORED_LENGTH);
        let judging = Judging { has_eof: input.has_eof(), earlier: head.earlier, ignores_length };
        let aliases = S::aliases(&self.status_aliases).expect("only clients have these rules");
        match libcurl::judge(bytes, judging, &mut self.passed, aliases)? {
            LibcurlSection::Partial => {
                self.recv = Recv::Head(HeadScan { scan: head.scan.begun(), ..head });
                Ok(None)
            }
            LibcurlSection::Whole(end) => {
                let line = libcurl::decode(&bytes[..end], ignores_length, aliases, scratch, fields);
                let start = Start::Response(line);
                let is_cut = !libcurl::has_end(&bytes[..end]);
                Ok(Some(Decoded { start, repaired_from: Some(end), is_cut }))
            }
            LibcurlSection::Http09 if self.leniency.has(Leniency::HTTP_09) => {
                let start = Start::Response(parse::http09_response(&mut scratch.index, fields));
                Ok(Some(Decoded { start, repaired_from: None, is_cut: false }))
            }
            LibcurlSection::Http09 => Err(PeerError::BadStartLine),
        }
    }

    /// Client: the input is an HTTP/0.9 response, a body without a head, and may be one (RFC 1945
    /// §6).
    fn is_http09(&self, input: &Input<'_>) -> bool {
        let may_be = !S::SERVER
            && self.leniency.has(Leniency::HTTP_09)
            && (self.stream.0, self.interims) == (0, 0)
            && self.heads & 1 == 0
            && self.exchange.handover != Handover::Connect;
        may_be && !parse::is_status_line(input.bytes()).unwrap_or_else(|| !input.has_eof())
    }

    /// Client: the error of bytes that belong to no request, `None` if they are too few to decide.
    fn judge_unsolicited(&self, input: &Input<'_>) -> Option<PeerError> {
        let is_http2 = self.speaks_http2(input)?;
        Some(if is_http2 { PeerError::OnlyHttp2 } else { PeerError::Unsolicited })
    }

    /// Client: true if the first bytes of the server are a frame of HTTP/2, `None` if they are too
    /// few to decide. If HTTP/0.9 is allowed they are a body.
    fn speaks_http2(&self, input: &Input<'_>) -> Option<bool> {
        match self.expects_first_head() {
            true => begins_with_http2_frame(input.bytes(), input.has_eof()),
            false => Some(false),
        }
    }

    /// Client: true if the first bytes of the server are a record of TLS, as it responds to plain
    /// HTTP with an alert; `None` and HTTP/0.9 as above.
    fn speaks_tls(&self, input: &Input<'_>) -> Option<bool> {
        match (self.expects_first_head(), input.bytes()) {
            (false, _) => Some(false),
            (true, [_, 3, 0..=4, ..]) => Some(true),
            (true, [_] | [_, 3]) if !input.has_eof() => None,
            (true, _) => Some(false),
        }
    }

    /// Client: nothing has arrived before, and the first bytes have to be a head.
    fn expects_first_head(&self) -> bool {
        !S::SERVER
            && (self.stream.0, self.interims) == (0, 0)
            && !self.leniency.has(Leniency::HTTP_09)
    }

    /// Server: skips empty lines in front of a request, as old clients send them behind a body (RFC
    /// 9112 §2.2). False if nothing else has arrived.
    fn skip_blank_lines(&self, head: &mut HeadScan, input: &mut Input<'_>) -> bool {
        while head.blank_lines < BLANK_LINES_MAX {
            let line_len = match input.bytes() {
                [] => return false,
                [b'\r', b'\n', ..] => 2,
                [b'\n', ..] if self.leniency.has(Leniency::BARE_LF) => 1,
                [b'\r'] if !input.has_eof() => return false,
                _ => return true,
            };
            input.skip(line_len);
            head.blank_lines += 1;
        }
        !input.is_empty()
    }

    /// No byte has arrived: the connection may end here, if nothing is expected.
    fn poll_quiet(&mut self, head: HeadScan, input: &Input<'_>) -> Result<(), PeerError> {
        if !input.at_eof() {
            return Ok(());
        }
        if !S::SERVER || !head.scan.is_fresh() {
            return Err(PeerError::UnexpectedEof);
        }
        self.close();
        Ok(())
    }

    /// A head is valid: it is evaluated, and moved from the input into the scratch.
    fn head_event<'a>(
        &mut self,
        Decoded { start, repaired_from, is_cut }: Decoded,
        fields: &Fields,
        input: &mut Input<'_>,
        scratch: &'a mut Scratch,
    ) -> Polled<'a, S> {
        if repaired_from.is_none() {
            scratch.head.clear();
            scratch.head.extend_from_slice(&input.bytes()[..fields.end]);
            scratch.origin = FieldOrigin::Received;
        }
        let scratch: &'a Scratch = scratch;
        let is_libcurl = !S::SERVER && self.leniency.has(Leniency::LIBCURL);
        let earlier = if is_libcurl && let Recv::Head(head) = self.recv { head.earlier } else { 0 };
        let begun = match start {
            Start::Request(line) => self.begin_request(line, fields, scratch),
            Start::Response(line) => self.begin_response(line, fields, scratch, is_cut),
        };
        match begun {
            Ok(event) => {
                let len = repaired_from.unwrap_or(fields.end);
                if is_libcurl {
                    self.passed = 0;
                    if let (Recv::Head(next), Ok(len)) = (&mut self.recv, u32::try_from(len)) {
                        next.earlier = earlier + len;
                    }
                }
                match is_libcurl && is_cut {
                    true => input.clear(), // with the part of a line behind it
                    false => input.skip(len),
                }
                Ok(Some(event))
            }
            Err(error) => Err(self.fail(error, input)),
        }
    }

    /// A request begins; its head is in the scratch.
    fn begin_request<'a>(
        &mut self,
        line: RequestLine,
        fields: &Fields,
        scratch: &'a Scratch,
    ) -> Result<Event<'a, S>, PeerError> {
        let (version, method) = (line.version, line.method(&scratch.head));
        let (length, coding) = (fields.length, fields.coding);
        let facts = Facts { kind: BodyRule::Request, version, length, coding };
        let (mut framing, mut len) = self.framing(facts)?;
        let http10 = version == Version::Http10;
        // A 1.0 peer cannot expect (RFC 9110 §10.1.1).
        let expect = if http10 { Expect::Nothing } else { fields.expect };
        if expect == Expect::Unknown {
            return Err(PeerError::UnknownExpectation);
        }
        let upgrade = !http10 && fields.upgrade && fields.options.upgrade;
        let handover = match method {
            b"CONNECT" => Handover::Connect,
            _ if upgrade => Handover::Upgrade,
            _ => Handover::Nothing,
        };
        // CONNECT has no content, whatever its fields declare (RFC 9110 §9.3.6): the bytes behind
        // it are the tunnel's. If it is declined they may be a body or a request: none is read.
        if handover == Handover::Connect && len != BodyLen::Empty {
            (framing, len) = (Framing::Exact(0), BodyLen::Empty);
            if framing::declares_body(length, coding) {
                self.reuse = Reuse::No;
            }
        }
        let waiting = expect == Expect::Continue && len != BodyLen::Empty;
        let last = !keeps_alive(version, fields);
        self.excess = false;
        self.exchange = RequestFacts { handover, http10, waiting, last };
        self.heads = u64::from(method == b"HEAD");
        if last {
            self.reuse = Reuse::No;
        }
        self.send = Send::Head;
        self.recv = Recv::Body(framing.into());
        let request = Request {
            version,
            expects_continue: waiting,
            ..Request::new(method, line.target(&scratch.head), scratch.headers())
        };
        let head = S::received(Head::Request(request));
        Ok(Event::Head { stream: self.stream, head, len })
    }

    /// A response begins, or an interim one is complete; its head is in the scratch.
    fn begin_response<'a>(
        &mut self,
        line: StatusLine,
        fields: &Fields,
        scratch: &'a Scratch,
        is_cut: bool,
    ) -> Result<Event<'a, S>, PeerError> {
        let (StatusLine { status, version, .. }, stream) = (line, self.stream);
        let head = Response { version, ..Response::new(status, scratch.headers()) };
        // Only the last sent request can request a tunnel: nothing is sent after such a request.
        let handover =
            if self.outstanding == 1 { self.exchange.handover } else { Handover::Nothing };
        let is_libcurl = self.leniency.has(Leniency::LIBCURL);
        let handover = match status {
            101 => handover == Handover::Upgrade && (fields.upgrade || is_libcurl),
            200..=299 => handover == Handover::Connect,
            _ => false,
        };
        let is_unasked = status == 101 && !handover;
        if (is_unasked && !is_libcurl) || (handover && self.send != Send::Rest) {
            return Err(PeerError::UnexpectedUpgrade);
        }
        if status < 200 && !handover && !is_unasked && !is_cut {
            self.exchange.waiting &= status != 100;
            self.interims = self.interims.saturating_add(1);
            self.recv = super::NEXT_HEAD;
            let too_many = !is_libcurl && u32::from(self.interims) > INTERIM_LEN_MAX;
            let event = Event::Informational { stream, head };
            return if too_many { Err(PeerError::TooManyInterim) } else { Ok(event) };
        }
        let kind = match status {
            _ if handover => BodyRule::Bodiless,
            204 => BodyRule::Bodiless,
            304 => BodyRule::NotModified,
            _ if self.heads & 1 == 1 => BodyRule::HeadResponse,
            _ => BodyRule::Response,
        };
        self.exchange.waiting = false;
        let (length, coding) = (fields.length, fields.coding);
        let (framing, len) = self.framing(Facts { kind, version, length, coding })?;
        // A server that declares a body where there is none may send it nevertheless: it would be
        // taken for the next response.
        let lies = kind == BodyRule::Bodiless && framing::declares_body(length, coding);
        if !keeps_alive(version, fields) || framing == Framing::UntilEof || lies {
            self.reuse = Reuse::No;
        }
        self.recv = Recv::Body(framing.into());
        if is_libcurl
            && self.leniency.has(Leniency::RAW_CHUNKS)
            && let Recv::Body(BodyReader::Chunked(decoder)) = self.recv
        {
            self.recv = Recv::Body(BodyReader::RawChunks(decoder));
        }
        if handover {
            self.send = Send::Tunnel;
            self.recv = Recv::Done;
            self.advance();
        }
        Ok(Event::Head { stream, head: S::received(Head::Response(head)), len })
    }

    /// The framing of a body by the facts of its head, repaired if the connection is lenient.
    #[inline(always)]
    fn framing(&mut self, facts: Facts) -> Result<(Framing, BodyLen), PeerError> {
        if self.leniency == Leniency::strict() {
            return framing::framing(facts);
        }
        if self.leniency.has(Leniency::LIBCURL) {
            // The facts are final, also those of HTTP/1.0.
            return framing::framing(Facts { version: Version::Http11, ..facts });
        }
        let (facts, is_sound) = framing::repaired(facts, self.leniency);
        if !is_sound {
            self.reuse = Reuse::No;
        }
        framing::framing(facts)
    }

    fn poll_body(
        &mut self,
        input: &mut Input<'_>,
        scratch: &mut Scratch,
    ) -> Result<Polling, PeerError> {
        let Recv::Body(body) = &mut self.recv else { return Ok(Polling::Pending) };
        let polling = match body {
            BodyReader::Exact(0) => Polling::End,
            BodyReader::Exact(left) => {
                let n = at_most(*left, input);
                *left -= n as u64;
                Polling::Data(n)
            }
            BodyReader::UntilEof if input.at_eof() => Polling::End,
            BodyReader::UntilEof => Polling::Data(input.len()),
            BodyReader::RawChunks(decoder) => {
                let (n, is_end) = decoder.advance_raw(input.bytes(), self.leniency)?;
                if is_end {
                    *body = BodyReader::Exact(0);
                }
                Polling::Data(n)
            }
            BodyReader::Chunked(decoder) => poll_chunked(decoder, self.leniency, input, scratch)?,
        };
        match polling {
            Polling::Data(0) | Polling::Pending if input.has_eof() => Err(PeerError::UnexpectedEof),
            Polling::Data(0) => Ok(Polling::Pending),
            polling => Ok(polling),
        }
    }

    fn data<'a>(&mut self, n: usize, input: &mut Input<'_>) -> Event<'a, S> {
        self.exchange.waiting = false;
        self.hold(n as u64);
        let bytes = input.take(n);
        if let Recv::Body(BodyReader::Chunked(decoder)) = &mut self.recv {
            input.skip(decoder.data_end(input.bytes()));
        }
        Event::Data { stream: self.stream, bytes }
    }

    pub(super) fn hold(&mut self, n: u64) {
        let n = u32::try_from(n).unwrap_or(u32::MAX);
        self.unreleased = self.unreleased.saturating_add(n);
    }

    /// The message is complete; its trailers, if any, are in the scratch.
    fn end<'a>(&mut self, scratch: &'a Scratch) -> Event<'a, S> {
        let chunked = matches!(self.recv, Recv::Body(BodyReader::Chunked(_)));
        let stream = self.stream;
        self.exchange.waiting = false;
        self.recv = Recv::Done;
        self.advance();
        Event::End { stream, trailers: if chunked { scratch.headers() } else { Headers::EMPTY } }
    }

    /// Server: drains the rest of a request after its response is complete. True once the
    /// connection is in another state.
    fn drain(&mut self, input: &mut Input<'_>, scratch: &mut Scratch) -> Result<bool, PeerError> {
        while matches!(self.recv, Recv::Body(_)) {
            if input.at_eof() {
                self.close();
                return Ok(true);
            }
            let before = input.len();
            let polling = match self.poll_body(input, scratch) {
                Ok(polling) => polling,
                Err(PeerError::UnexpectedEof) => {
                    input.clear();
                    self.close();
                    return Ok(true);
                }
                Err(error) => return Err(self.fail(error, input)),
            };
            if let Polling::Data(n) = polling {
                input.skip(n);
            }
            let swallowed = u32::try_from(before - input.len()).unwrap_or(u32::MAX);
            self.passed = self.passed.saturating_add(swallowed);
            match polling {
                _ if self.passed > DRAIN_SIZE_MAX => self.linger(),
                Polling::Pending => return Ok(false),
                Polling::Data(_) => {}
                Polling::End => {
                    self.recv = Recv::Done;
                    self.advance();
                }
            }
        }
        Ok(true)
    }

    /// Server: a response is expected. The bytes behind the request wait in the input if they can
    /// be the next request or the first bytes of a tunnel. Otherwise they are dropped.
    fn poll_done(&mut self, input: &mut Input<'_>) {
        let may_be_tunnel = self.exchange.handover != Handover::Nothing;
        if input.at_eof() {
            self.reuse = Reuse::No;
        } else if !input.is_empty() {
            self.excess = true;
            if self.reuse != Reuse::Yes && !may_be_tunnel {
                input.clear();
                if input.has_eof() {
                    self.recv = Recv::Closed;
                }
            }
        }
    }

    fn poll_tunnel<'a>(&mut self, input: &mut Input<'_>) -> Option<Event<'a, S>> {
        if !input.is_empty() {
            let n = input.len();
            return Some(self.data(n, input));
        }
        input.at_eof().then(|| {
            self.recv = Recv::Closed;
            Event::End { stream: self.stream, trailers: Headers::EMPTY }
        })
    }

    /// Drains input until the peer closes or has sent too much.
    fn discard(&mut self, left: u32, input: &mut Input<'_>) {
        let size = u32::try_from(input.len()).unwrap_or(u32::MAX);
        input.clear();
        self.recv = match input.at_eof() {
            true => Recv::Closed,
            false => Recv::Discard(left.saturating_sub(size)),
        };
    }

    /// Nothing more is parsed. While our last message is on its way, input behind the last request
    /// is drained.
    fn poll_closed(&mut self, input: &mut Input<'_>) {
        let is_sending = self.send == Send::Closed && !self.outbox.is_empty();
        if S::SERVER && is_sending && !input.is_empty() {
            self.linger();
            return self.discard(LINGER_SIZE_MAX, input);
        }
        input.clear();
    }

    /// The peer broke the protocol: queues a response, if one is possible, and stops parsing.
    fn fail(&mut self, error: PeerError, input: &Input<'_>) -> PeerError {
        if !S::SERVER {
            self.outbox.clear();
            self.close();
            return error;
        }
        if self.is_before_head() && error != PeerError::UnexpectedEof {
            self.refuse(error.into());
        }
        match input.has_eof() {
            true => self.close(),
            false => self.linger(),
        }
        error
    }
}

/// True if the bytes begin with SETTINGS or GOAWAY: what servers of HTTP/2 send first (RFC 9113
/// §3.4), or to a request of HTTP/1. `None`: they may, if more follow.
fn begins_with_http2_frame(bytes: &[u8], has_eof: bool) -> Option<bool> {
    let begins = bytes.iter().zip(0..HTTP2_FRAME_SIZE).all(|(byte, at)| match at {
        2 => true, // the length
        3 => matches!(byte, 4 | 7),
        _ => *byte == 0,
    });
    let is_whole = bytes.len() >= HTTP2_FRAME_SIZE;
    if begins && !is_whole && !has_eof { None } else { Some(begins && is_whole) }
}

/// Content types of records of TLS (RFC 8446 §5.1).
const TLS_ALERT: u8 = 21;
const TLS_HANDSHAKE: u8 = 22;

/// The header of a frame.
const HTTP2_FRAME_SIZE: usize = 9;

/// The start line of a head, of the kind that a role receives.
#[derive(Clone, Copy, Debug)]
enum Start {
    Request(RequestLine),
    Response(StatusLine),
}

/// A complete head. The scratch has the index of its fields; their facts are written to the place
/// that the caller provides, since a copy of them costs more than most of them.
#[derive(Clone, Copy, Debug)]
struct Decoded {
    start: Start,
    /// Its length in the input, if it was repaired; the repaired head is in the scratch.
    repaired_from: Option<usize>,
    /// The connection ended before its empty line. By libcurl's rules it is final nevertheless.
    is_cut: bool,
}

/// Decodes a complete head. One that is refused is repaired and decoded again, if allowed.
fn decode_leniently<S: Side>(
    bytes: &[u8],
    leniency: Leniency,
    scratch: &mut Scratch,
    fields: &mut Fields,
) -> Result<Decoded, PeerError> {
    let Scratch { head, index, .. } = scratch;
    match decode::<S>(bytes, index, fields) {
        Err(_) if leniency.repairs_fields() => {
            leniency::repair(bytes, SectionKind::Head, leniency, head);
            let start = decode::<S>(head, index, fields)?;
            scratch.append_received(bytes);
            Ok(Decoded { start, repaired_from: Some(bytes.len()), is_cut: false })
        }
        decoded => decoded.map(|start| Decoded { start, repaired_from: None, is_cut: false }),
    }
}

/// Decodes the head that `bytes` begin with, and fills the index and the facts of its fields.
fn decode<S: Side>(
    bytes: &[u8],
    index: &mut Vec<Header>,
    fields: &mut Fields,
) -> Result<Start, PeerError> {
    if S::SERVER {
        parse::request(bytes, index, fields).map(Start::Request)
    } else {
        parse::response(bytes, index, fields).map(Start::Response)
    }
}

/// The next part of a body.
#[derive(Clone, Copy, Debug)]
enum Polling {
    /// It has not arrived.
    Pending,
    /// This number of bytes at the front of the input.
    Data(usize),
    /// Nothing more.
    End,
}

/// Consumes framing up to the next data, or up to the end with its trailers.
#[inline(always)] // every piece of a chunked body
fn poll_chunked(
    decoder: &mut Decoder,
    leniency: Leniency,
    input: &mut Input<'_>,
    scratch: &mut Scratch,
) -> Result<Polling, PeerError> {
    let (framing, piece) = decoder.advance(input.bytes(), leniency)?;
    input.skip(framing);
    match piece {
        ChunkPart::Nothing => Ok(Polling::Pending),
        ChunkPart::Data(left) => {
            let n = at_most(left, input);
            decoder.taken(n as u64);
            Ok(Polling::Data(n))
        }
        ChunkPart::Trailers(size) => {
            trailers(&input.bytes()[..size], leniency, scratch)?;
            input.skip(size);
            Ok(Polling::End)
        }
    }
}

fn trailers(section: &[u8], leniency: Leniency, scratch: &mut Scratch) -> Result<(), PeerError> {
    if leniency.has(Leniency::LIBCURL) {
        return libcurl::trailers(section, scratch);
    }
    let Scratch { head, index, origin } = scratch;
    head.clear();
    head.extend_from_slice(section);
    *origin = FieldOrigin::Received;
    let mut fields = Fields::default();
    if fields.decode(head, 0, index).is_none() {
        if !leniency.repairs_fields() {
            return Err(PeerError::BadTrailer);
        }
        leniency::repair(section, SectionKind::Trailers, leniency, head);
        fields.decode(head, 0, index).ok_or(PeerError::BadTrailer)?;
        scratch.append_received(section);
    }
    let forbidden = |(name, _): (&[u8], &[u8])| is_forbidden_trailer(name);
    let refused = scratch.headers().iter().any(forbidden);
    if refused { Err(PeerError::BadTrailer) } else { Ok(()) }
}

fn at_most(left: u64, input: &Input<'_>) -> usize {
    usize::try_from(left).unwrap_or(usize::MAX).min(input.len())
}

/// RFC 9112 §9.3.
fn keeps_alive(version: Version, fields: &Fields) -> bool {
    let options = fields.options;
    !options.close && (version == Version::Http11 || options.keep_alive)
}

impl From<Framing> for BodyReader {
    fn from(framing: Framing) -> Self {
        match framing {
            Framing::Exact(n) => Self::Exact(n),
            Framing::Chunked => Self::Chunked(Decoder::new()),
            Framing::UntilEof => Self::UntilEof,
        }
    }
}
