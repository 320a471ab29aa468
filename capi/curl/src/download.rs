//! Responses on their way to the application: header lines, and the body.

use std::rc::Rc;

use bytes::{Buf, Bytes};
use fulmar_proto::Version;
use fulmar_sys as sys;

use crate::attempts::stop_upload;
use crate::border::{CBorder, DebugKind, WRITE_PAUSE, WRITE_SIZE_MAX};
use crate::code::CurlCode;
use crate::document::{BodyVerdict, DocumentFacts, is_beyond_end, retry_after};
use crate::easy_options::{EasyOptions, RequestKind};
use crate::events::ReceivedHead;
use crate::failure::{Failure, UNREAD_CHUNKS};
use crate::handles::{Easy, EasyState, Multi};
use crate::header_list::HeaderOrigin;
use crate::held_body::HeldKind;
use crate::hop_auth::{is_final, read_challenges, repeats};
use crate::option::OptionId as Id;
use crate::response_field::ResponseField;
use crate::stamp::unix_time;
use crate::transfer::EasyTransfer;
use crate::websocket::accept;

/// Result of a write callback for a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Accepted,
    Paused,
    Refused,
}

impl Written {
    /// `result`: what the callback returned for a piece of `len` bytes.
    fn of(result: usize, len: usize) -> Self {
        match result {
            WRITE_PAUSE => Self::Paused,
            _ if result == len => Self::Accepted,
            _ => Self::Refused,
        }
    }
}

impl Multi {
    /// Delivers a head line by line, and decides what follows the response.
    pub(crate) fn deliver_head(
        &self,
        easy: &Rc<Easy>,
        head: &ReceivedHead,
        border: &dyn CBorder,
    ) -> Result<(), Failure> {
        let heads = easy.with_state(|state| {
            note_head(state, head);
            state.headers.reserve(head.bytes.len());
            state.info.header_size
        });
        if heads > HEADS_SIZE_MAX {
            return Err(Failure::of_large_heads(heads, HEADS_SIZE_MAX));
        }
        self.note_version(easy, head.version == Version::Http10);
        let origin = match head.is_interim {
            true => HeaderOrigin::Interim,
            false => HeaderOrigin::Header,
        };
        let is_read = easy.with_state(reads_lines);
        for (number, (line, field)) in head.lines().enumerate() {
            if let Some((field, value)) = field {
                easy.store_field(field, value, Some(head.version), border);
                if !head.is_interim {
                    easy.with_state(|state| note_coding(state, field, value))?;
                }
            }
            // The status line is no header.
            let origin = Some(origin).filter(|_| number > 0);
            match is_read {
                true => {
                    self.debug(easy, DebugKind::HeaderIn, line, border);
                    self.deliver_line(easy, line, origin, border)?;
                }
                false => easy.with_state(|state| store_line(state, line, origin))?,
            }
        }
        if !head.is_interim && easy.with_state(|state| fails(state, head.status)) {
            return Err(Failure::new(
                CurlCode::HttpReturnedError,
                format!("The requested URL returned error: {}", head.status),
            ));
        }
        if !head.is_interim {
            easy.with_state(|state| accept(state, head.status))?;
        }
        self.check_size(easy, head)?;
        // A response of HTTP/0.9 is a body.
        if head.version == Version::Http09 && easy.with_state(|state| state.options.is_bodiless) {
            return Err(Failure::new(CurlCode::WeirdServerReply, ""));
        }
        let is_over = !head.is_interim && easy.with_state(|state| has_unwanted_body(state));
        if is_over {
            self.leave_hop(easy, border);
        }
        Ok(())
    }

    /// The current request is given up, and what follows it begins.
    fn leave_hop(&self, easy: &Rc<Easy>, border: &dyn CBorder) {
        self.note_unfinished(easy);
        self.detach(easy);
        self.end_response(easy, Ok(()), border);
    }

    /// Delivers the lines of a malformed head before the one that is not accepted.
    pub(crate) fn deliver_malformed_head(
        &self,
        easy: &Rc<Easy>,
        bytes: &[u8],
        judged: usize,
        border: &dyn CBorder,
    ) -> Result<(), Failure> {
        let status = status_of_malformed(bytes, judged);
        easy.with_state(|state| {
            state.info.status = status.unwrap_or(state.info.status);
            if judged > 0 {
                state.info.http_version = match bytes.get(..8) {
                    Some(b"HTTP/1.0") => http_version(Version::Http10),
                    Some(b"HTTP/1.1") => http_version(Version::Http11),
                    _ => state.info.http_version,
                };
            }
            state.info.header_size += i64::try_from(judged).unwrap_or(i64::MAX);
            if let Some(transfer) = &mut state.transfer {
                transfer.response.malformed = Some(bytes.to_vec());
            }
        });
        for (number, line) in bytes[..judged].split_inclusive(|byte| *byte == b'\n').enumerate() {
            if let Some((field, value)) = ResponseField::of(line) {
                easy.store_field(field, value, None, border);
            }
            self.debug(easy, DebugKind::HeaderIn, line, border);
            // The status line is no header.
            let origin = Some(HeaderOrigin::Header).filter(|_| number > 0);
            self.deliver_line(easy, line, origin, border)?;
        }
        Ok(())
    }

    /// Delivers the lines behind a body, without the empty one.
    pub(crate) fn deliver_trailers(
        &self,
        easy: &Rc<Easy>,
        lines: &[u8],
        border: &dyn CBorder,
    ) -> Result<(), Failure> {
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            if line != b"\r\n" && line != b"\n" {
                self.debug(easy, DebugKind::HeaderIn, line, border);
                self.deliver_line(easy, line, Some(HeaderOrigin::Trailer), border)?;
            }
        }
        Ok(())
    }

    /// `CURLOPT_MAXFILESIZE`.
    fn check_size(&self, easy: &Easy, head: &ReceivedHead) -> Result<(), Failure> {
        let state = easy.state.borrow();
        let max = state.options.values.number(Id::MAXFILESIZE_LARGE);
        let Some(transfer) = state.transfer.as_ref().filter(|_| !head.is_interim) else {
            return Ok(());
        };
        let document = &transfer.download.document;
        let exceeds = document.overflows || document.size.is_some_and(|size| size > max);
        match max > 0 && exceeds {
            true => Err(Failure::new(CurlCode::FileSizeExceeded, "Maximum file size exceeded")),
            false => Ok(()),
        }
    }

    /// Delivers a header line, or keeps it while the application has paused. `origin`: that of a
    /// header, for `curl_easy_header`.
    pub(crate) fn deliver_line(
        &self,
        easy: &Easy,
        line: &[u8],
        origin: Option<HeaderOrigin>,
        border: &dyn CBorder,
    ) -> Result<(), Failure> {
        let piece = || Bytes::copy_from_slice(line);
        let (kind, held) = easy.with_state(|state| {
            store_line(state, line, origin)?;
            let kind = match state.options.values.is_on(Id::HEADER) {
                true => HeldKind::LinesAndBody(origin),
                false => HeldKind::Lines(origin),
            };
            Ok::<_, Failure>((kind, hold_if_paused(state, kind, piece)))
        })?;
        if let Some(held) = held {
            return held;
        }
        if kind == HeldKind::LinesAndBody(origin)
            && self.write_body(easy, kind, piece(), border)? == Written::Paused
        {
            return Ok(());
        }
        self.write_lines_of(easy, origin, line, border)
    }

    /// Keeps a line for the header API, and passes it to the header callback, which cannot pause.
    pub(crate) fn write_header(
        &self,
        easy: &Easy,
        line: &[u8],
        origin: Option<HeaderOrigin>,
        border: &dyn CBorder,
    ) -> Result<(), Failure> {
        easy.with_state(|state| store_line(state, line, origin))?;
        match self.write_lines(easy, line, border)? {
            Written::Accepted => Ok(()),
            Written::Paused | Written::Refused => Err(header_refused()),
        }
    }

    /// Passes header lines to the header callback.
    fn write_lines(
        &self,
        easy: &Easy,
        lines: &[u8],
        border: &dyn CBorder,
    ) -> Result<Written, Failure> {
        let call = {
            let state = easy.state.borrow();
            let values = &state.options.values;
            let (function, data) =
                (values.pointer(Id::HEADERFUNCTION), values.pointer(Id::HEADERDATA));
            match (function.is_null(), data.is_null()) {
                (true, true) => None,
                (true, false) => Some((values.pointer(Id::WRITEFUNCTION), data)),
                (false, _) => Some((function, data)),
            }
        };
        let Some((function, data)) = call else { return Ok(Written::Accepted) };
        let written = self.call_for(easy, || border.write(function, data, lines))?;
        Ok(Written::of(written, lines.len()))
    }

    /// Delivers received bytes of the body, decoded.
    pub(crate) fn deliver_data(
        &self,
        easy: &Rc<Easy>,
        bytes: Bytes,
        border: &dyn CBorder,
    ) -> Result<(), Failure> {
        // No piece is larger than the buffer of libcurl.
        let (id, max) = easy.with_state(|state| {
            let size = usize::try_from(state.options.values.number(Id::BUFFERSIZE));
            let id = state.transfer.as_ref().map(|transfer| transfer.id);
            (id, size.unwrap_or(WRITE_SIZE_MAX).max(WRITE_SIZE_MIN))
        });
        let mut rest = bytes;
        while !rest.is_empty() {
            let piece = rest.split_to(rest.len().min(max));
            self.deliver_received(easy, piece, border)?;
            if easy.with_state(|state| state.transfer.as_ref().map(|it| it.id)) != id {
                break; // the transfer has ended, or its next request has begun
            }
        }
        Ok(())
    }

    /// Delivers one piece of a body as it was received.
    fn deliver_received(
        &self,
        easy: &Rc<Easy>,
        bytes: Bytes,
        border: &dyn CBorder,
    ) -> Result<(), Failure> {
        let is_first = easy.with_state(|state| {
            state.transfer.as_ref().is_some_and(|it| it.download.received == 0)
        });
        if is_first && self.ends_early(easy, border)? {
            return Ok(());
        }
        if is_first {
            self.report_ignored_body(easy, border);
        }
        let decoder = easy.with_state(|state| {
            let transfer = state.transfer.as_mut()?;
            let len = bytes.len() as u64;
            transfer.download.received += len;
            state.info.received += i64::try_from(len).unwrap_or(i64::MAX);
            // While C runs nothing is borrowed, so the decoder is out of its place.
            let decoder = &mut transfer.download.decoder;
            (!transfer.response.ignores_body).then(|| std::mem::take(decoder))
        });
        self.debug(easy, DebugKind::DataIn, &bytes, border);
        let Some(mut decoder) = decoder else { return Ok(()) };
        let is_chunked = decoder.is_chunked;
        let decodes =
            !decoder.is_empty() && easy.with_state(|it| decodes_body(&it.options, is_chunked));
        let delivered = match decodes {
            true => decoder.decode(&bytes, &mut |piece| {
                self.deliver_piece(easy, HeldKind::Body, piece, border)
            }),
            false => self.deliver_piece(easy, HeldKind::Body, bytes, border),
        };
        easy.with_state(|state| {
            if let Some(transfer) = &mut state.transfer {
                transfer.download.decoder = decoder;
            }
        });
        delivered.map_err(|failure| match is_chunked && failure.text.is_empty() {
            true => Failure::new(failure.code, UNREAD_CHUNKS),
            false => failure,
        })
    }

    /// The first bytes of a body have arrived: true if none of them are wanted, and the transfer,
    /// or its request, has ended.
    fn ends_early(&self, easy: &Rc<Easy>, border: &dyn CBorder) -> Result<bool, Failure> {
        let verdict = easy.with_state(|state| {
            let options = &state.options;
            let Some(transfer) = &state.transfer else { return Ok(BodyVerdict::Deliver) };
            let document = &transfer.download.document;
            if transfer.response.ignores_body {
                return Ok(BodyVerdict::Deliver);
            }
            let is_get = options.request == RequestKind::Get || transfer.drops_body;
            document.judge_body(options, options.values.number(Id::RESUME_FROM_LARGE), is_get)
        })?;
        match verdict {
            BodyVerdict::Deliver => return Ok(false),
            BodyVerdict::IsComplete => self.finish(easy, Ok(()), border),
            BodyVerdict::IsUnchanged => {
                easy.with_state(|state| {
                    state.info.status = 304;
                    state.info.is_condition_unmet = true;
                });
                self.finish(easy, Ok(()), border);
            }
        }
        Ok(true)
    }

    /// Delivers a piece to the write callback, or keeps it while the application has paused.
    pub(crate) fn deliver_piece(
        &self,
        easy: &Rc<Easy>,
        kind: HeldKind,
        bytes: Bytes,
        border: &dyn CBorder,
    ) -> Result<(), Failure> {
        let held = easy.with_state(|state| hold_if_paused(state, kind, || bytes.clone()));
        match held {
            Some(held) => held,
            None => self.write_piece(easy, kind, bytes, border),
        }
    }

    /// Passes a piece to its callbacks: as in libcurl, the write callback is the first.
    fn write_piece(
        &self,
        easy: &Rc<Easy>,
        kind: HeldKind,
        bytes: Bytes,
        border: &dyn CBorder,
    ) -> Result<(), Failure> {
        match kind {
            HeldKind::Body => self.write_body(easy, kind, bytes, border).map(|_| ()),
            HeldKind::Frames => self.write_frames(easy, bytes, border),
            HeldKind::LinesAndBody(origin) => {
                match self.write_body(easy, kind, bytes.clone(), border)? {
                    Written::Paused => Ok(()),
                    _ => self.write_lines_of(easy, origin, &bytes, border),
                }
            }
            HeldKind::Lines(origin) => self.write_lines_of(easy, origin, &bytes, border),
        }
    }

    /// Passes header lines of one origin to the header callback, or holds them if it pauses.
    fn write_lines_of(
        &self,
        easy: &Easy,
        origin: Option<HeaderOrigin>,
        lines: &[u8],
        border: &dyn CBorder,
    ) -> Result<(), Failure> {
        match self.write_lines(easy, lines, border)? {
            Written::Accepted => {}
            Written::Paused => {
                self.hold(easy, HeldKind::Lines(origin), Bytes::copy_from_slice(lines));
            }
            Written::Refused => return Err(header_refused()),
        }
        Ok(())
    }

    /// Passes a piece to the write callback. What it does not accept is held.
    fn write_body(
        &self,
        easy: &Easy,
        kind: HeldKind,
        bytes: Bytes,
        border: &dyn CBorder,
    ) -> Result<Written, Failure> {
        let (function, data) = (easy.pointer(Id::WRITEFUNCTION), easy.pointer(Id::WRITEDATA));
        let mut rest = bytes;
        while !rest.is_empty() {
            let len = rest.len().min(WRITE_SIZE_MAX);
            let written = self.call(|| border.write(function, data, &rest[..len]));
            match Written::of(written, len) {
                Written::Accepted => rest.advance(len),
                Written::Paused => {
                    self.hold(easy, kind, rest);
                    return Ok(Written::Paused);
                }
                Written::Refused => {
                    return Err(Failure::new(
                        CurlCode::WriteError,
                        "Failure writing output to destination",
                    ));
                }
            }
            if easy.with_state(|state| state.is_halted()) && !rest.is_empty() {
                self.hold(easy, kind, rest);
                return Ok(Written::Paused);
            }
        }
        Ok(Written::Accepted)
    }

    /// Keeps a piece in front of those that came later, and stops the server.
    pub(crate) fn hold(&self, easy: &Easy, kind: HeldKind, bytes: Bytes) {
        easy.with_state(|state| {
            if let Some(transfer) = &mut state.transfer {
                transfer.download.held.put_back(kind, bytes);
            }
        });
        self.pause_download(easy);
    }

    /// Stops receiving.
    pub(crate) fn pause_download(&self, easy: &Easy) {
        let id = easy.with_state(|state| {
            let transfer = state.transfer.as_mut()?;
            transfer.download.is_paused = true;
            transfer.id
        });
        if let Some(id) = id {
            self.reactor.borrow_mut().with(|client, now| client.with(now, |_, c| c.pause(id)));
        }
    }

    /// Delivers what was held, and receives again, unless the application has paused.
    ///
    /// # Errors
    /// The write callback refuses what was held.
    pub(crate) fn resume_download(
        &self,
        easy: &Rc<Easy>,
        border: &dyn CBorder,
    ) -> Result<(), Failure> {
        while let Some((kind, piece)) = easy.with_state(pop_held) {
            self.write_piece(easy, kind, piece, border)?;
        }
        let id = easy.with_state(|state| {
            let transfer = state.transfer.as_ref().filter(|it| !it.download.is_paused)?;
            Some(transfer.id)
        });
        let Some(id) = id else { return Ok(()) };
        if let Some(id) = id {
            self.reactor.borrow_mut().with(|client, now| client.with(now, |_, c| c.resume(id)));
        }
        self.end_held(easy, border);
        Ok(())
    }
}

impl EasyState {
    /// True if a callback has paused the transfer, or ended it by removing its handle.
    pub(crate) fn is_halted(&self) -> bool {
        self.transfer.as_ref().is_none_or(|transfer| transfer.download.is_paused)
    }
}

/// Holds a piece if the application has paused, or not accepted the pieces before it.
fn hold_if_paused(
    state: &mut EasyState,
    kind: HeldKind,
    piece: impl FnOnce() -> Bytes,
) -> Option<Result<(), Failure>> {
    let download = &mut state.transfer.as_mut()?.download;
    // Behind the pieces that a callback has released, and that are not delivered yet.
    let is_held = download.is_paused || !download.held.is_empty();
    is_held.then(|| download.held.push(kind, piece()))
}

/// Stores a header line for `curl_easy_header`.
fn store_line(
    state: &mut EasyState,
    line: &[u8],
    origin: Option<HeaderOrigin>,
) -> Result<(), Failure> {
    let Some(origin) = origin else { return Ok(()) };
    match state.headers.push(line, origin) {
        true => Ok(()),
        false => Err(Failure::new(CurlCode::BadFunctionArgument, "")),
    }
}

/// True if header lines are passed to a callback, or held for one.
fn reads_lines(state: &mut EasyState) -> bool {
    let values = &state.options.values;
    let is_free =
        |transfer: &EasyTransfer| !transfer.download.is_paused && transfer.download.held.is_empty();
    values.is_on(Id::VERBOSE)
        || values.is_on(Id::HEADER)
        || !values.pointer(Id::HEADERFUNCTION).is_null()
        || !values.pointer(Id::HEADERDATA).is_null()
        || !state.transfer.as_deref().is_some_and(is_free)
}

fn header_refused() -> Failure {
    Failure::new(CurlCode::WriteError, "Failed writing header")
}

/// The next piece that was held, unless the application has paused.
fn pop_held(state: &mut EasyState) -> Option<(HeldKind, Bytes)> {
    let download = &mut state.transfer.as_mut()?.download;
    if download.is_paused { None } else { download.held.pop() }
}

/// The status of a malformed head whose first `judged` bytes are accepted lines.
pub(crate) fn status_of_malformed(head: &[u8], judged: usize) -> Option<i64> {
    // A status line with a NUL has a status nevertheless.
    let has_status = judged > 0 || memchr::memchr(0, head).is_some();
    let status = head.get(9..12).and_then(|text| std::str::from_utf8(text).ok());
    status.and_then(|text| text.parse().ok()).filter(|_| has_status)
}

/// Stores the facts of a head.
fn note_head(state: &mut EasyState, head: &ReceivedHead) {
    let info = &mut state.info;
    if head.version != Version::Http09 {
        info.status = head.status.into();
    }
    info.http_version = http_version(head.version);
    info.header_size += i64::try_from(head.bytes.len()).unwrap_or(i64::MAX);
    if head.is_interim {
        if let Some(transfer) = &mut state.transfer {
            transfer.response.has_interim = true;
        }
        return;
    }
    let content_type = head.values(ResponseField::ContentType).next_back();
    let content_type = content_type.filter(|text| !text.is_empty());
    info.content_type = content_type.map(<[u8]>::to_vec).or_else(|| info.content_type.take());
    let resumed = state.options.values.number(Id::RESUME_FROM_LARGE);
    let document = DocumentFacts::of(head, &state.options, resumed);
    info.content_length = document.size.unwrap_or(-1);
    info.file_time = document.file_time(&state.options).unwrap_or(info.file_time);
    let is_conditional = state.options.values.is_on(Id::TIMECONDITION);
    info.is_condition_unmet |= is_conditional && head.status == 304;
    if let Some(value) = head.values(ResponseField::RetryAfter).next_back() {
        info.retry_after = retry_after(value, unix_time(sys::wall_clock()));
    }
    if let Some(transfer) = &mut state.transfer {
        transfer.download.document = document;
    }
    read_challenges(state, head);
    let repeats = !fails(state, head.status)
        && (repeats(state, head.status) | stop_upload(state, head.status));
    let follows = state.options.values.is_on(Id::FOLLOWLOCATION);
    if let Some(transfer) = &mut state.transfer {
        let location = head.values(ResponseField::Location).find(|value| !value.is_empty());
        let response = &mut transfer.response;
        response.status = head.status.into();
        response.has_head = true;
        response.content_length = head.len;
        response.location =
            location.filter(|_| (300..400).contains(&head.status)).map(<[u8]>::to_vec);
        response.repeats = repeats;
        response.ignores_body = repeats
            || (follows && response.location.is_some())
            || is_beyond_end(&state.options, resumed, head.status);
        transfer.download.received = 0;
    }
}

/// `CURLOPT_FAILONERROR`: true if the status is an error.
fn fails(state: &EasyState, status: u16) -> bool {
    let resumed = state.options.values.number(Id::RESUME_FROM_LARGE);
    let resumed = state.transfer.as_ref().map_or(0, |it| it.download.document.resumed(resumed));
    state.options.values.is_on(Id::FAILONERROR)
        && is_final(state, status)
        && !is_beyond_end(&state.options, resumed, status)
}

/// `CURLOPT_NOBODY` with a method whose response may have a body.
fn has_unwanted_body(state: &EasyState) -> bool {
    let is_head = state.transfer.as_ref().is_none_or(|it| *it.method == *b"HEAD");
    state.options.is_bodiless && !is_head
}

/// Notes what a field means for the body.
fn note_coding(state: &mut EasyState, field: ResponseField, value: &[u8]) -> Result<(), Failure> {
    let decodes_content = state.options.values.bytes(Id::ACCEPT_ENCODING).is_some();
    let Some(transfer) = &mut state.transfer else { return Ok(()) };
    match transfer.response.status {
        204 | 304 => Ok(()),
        _ => transfer.download.decoder.add_field(field, value, decodes_content),
    }
}

/// `CURLOPT_HTTP_CONTENT_DECODING`, which holds for the codings of a transfer too. Chunks that are
/// delivered with their framing (`CURLOPT_HTTP_TRANSFER_DECODING`) cannot be decoded.
fn decodes_body(options: &EasyOptions, is_chunked: bool) -> bool {
    let is_raw = is_chunked && !options.values.is_on(Id::HTTP_TRANSFER_DECODING);
    options.values.is_on(Id::HTTP_CONTENT_DECODING) && !is_raw
}

/// `CURL_HTTP_VERSION_*`, as `CURLINFO_HTTP_VERSION` returns it.
fn http_version(version: Version) -> i64 {
    match version {
        Version::Http09 => 0,
        Version::Http10 => 1,
        Version::Http11 => 2,
        Version::Http2 => 3,
    }
}

/// The least that `CURLOPT_BUFFERSIZE` can be set to.
const WRITE_SIZE_MIN: usize = 1_024;
/// All heads of a transfer, with those of redirects: they are kept. As in later libcurl.
const HEADS_SIZE_MAX: i64 = 20 * 300 * 1024;
