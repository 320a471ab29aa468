//! The response to a request: status, fields, body (RFC 9110 §9.3, §13, §14, §15).
//!
//! Pure: the request and the lookup result go in; the response comes out as data. Sending a whole
//! file allocates nothing: its fields were built when it was opened, and additional fields are
//! borrowed.

use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};

use bytes::Bytes;
use fulmar_proto::head::Added;
use fulmar_proto::{BodyLen, FileRange, HeaderBuf, Headers, Request, Response, Segment};

use fulmar_semantics::conditional::{Conditions, Selected};
use fulmar_semantics::range::{MultipartRanges, Selection, Span};
use fulmar_semantics::range::{write_content_range, write_unsatisfied_range};

use fulmar_server::{HandlerResult, Responder};

use crate::cache::CachedName;
use crate::file::{File, push};
use crate::pages::{Pages, UNLISTED, page};
use crate::path::{PathError, query_of};
use crate::root::OpenError;

/// A response. Borrows from the site until it is sent.
#[derive(Debug)]
pub struct SiteResponse<'a> {
    /// 200 to 599.
    pub status: u16,
    /// The fields of the file or page.
    pub headers: Headers<'a>,
    /// One additional field: `Content-Range` or `Location`.
    added: Option<(&'a str, &'a [u8])>,
    /// The body. Empty for HEAD.
    pub body: SiteBody,
    /// The framing. For HEAD, the length that GET would have had.
    pub len: BodyLen,
}

/// The body of a response.
#[derive(Clone, Debug)]
pub enum SiteBody {
    /// No body.
    Empty,
    /// Bytes in memory.
    Bytes(Bytes),
    /// Part of a file, or all of it.
    File(FileRange),
    /// Several parts of a file, framed.
    Parts(Vec<Segment>),
}

/// The methods of a static file server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteMethod {
    /// Fetch.
    Get,
    /// Fetch the head only.
    Head,
    /// OPTIONS: the allowed methods.
    Options,
    /// Any other method.
    Other,
}

/// Why nothing was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupError {
    /// The target is not a valid path.
    Path(PathError),
    /// No readable file has this path.
    Open(OpenError),
}

/// Inputs of a response in addition to the request and the lookup result.
#[derive(Debug)]
pub struct ResponseContext<'a> {
    /// Pages and constant fields.
    pub pages: &'a Pages,
    /// Seconds since 1970.
    pub unix_now: i64,
    /// Buffers for additional fields.
    pub scratch: &'a mut ResponseBuffers,
}

/// Buffers for the fields of one response, reused for the next.
#[derive(Debug, Default)]
pub struct ResponseBuffers {
    content_range: Vec<u8>,
    location: String,
    fields: HeaderBuf,
    boundary: String,
    /// Random source of boundaries, which cannot be predicted and placed in a file.
    secret: RandomState,
    boundaries: u64,
}

impl SiteMethod {
    /// Methods are case-sensitive (§9.1).
    pub fn of(method: &[u8]) -> Self {
        match method {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"OPTIONS" => Self::Options,
            _ => Self::Other,
        }
    }
}

/// Selects the response. `found` is used for GET and HEAD only.
pub fn respond<'a>(
    method: SiteMethod,
    request: &Request<'_>,
    found: Result<&'a CachedName, LookupError>,
    stage: ResponseContext<'a>,
) -> SiteResponse<'a> {
    let headers = request.headers;
    let mut answer = match (method, found) {
        (SiteMethod::Options, _) => SiteResponse::empty(204, stage.pages.allow.as_headers()),
        (SiteMethod::Other, _) => SiteResponse::page(405, stage.pages.html_allow.as_headers()),
        (_, Err(refusal)) => stage.error(refusal.status()),
        (_, Ok(CachedName::File(file))) => send_file(method, headers, file.choose(headers), stage),
        (_, Ok(CachedName::Redirect(location))) => {
            let location = stage.scratch.location(location, request.target);
            SiteResponse::page(301, stage.pages.html.as_headers()).with("Location", location)
        }
        (_, Ok(CachedName::Unlisted)) => {
            let body = Segment::Bytes(Bytes::from_static(UNLISTED));
            SiteResponse::full(403, stage.pages.html.as_headers(), body)
        }
        (_, Ok(CachedName::Listing(html))) => {
            let fields = stage.pages.listing.as_headers();
            SiteResponse::full(200, fields, Segment::Bytes(html.clone()))
        }
    };
    if method == SiteMethod::Head {
        answer.body = SiteBody::Empty;
    }
    answer
}

fn send_file<'a>(
    method: SiteMethod,
    headers: Headers<'_>,
    file: &'a File,
    stage: ResponseContext<'a>,
) -> SiteResponse<'a> {
    let is_get = method == SiteMethod::Get;
    let conditions = Conditions::of(headers);
    match conditions.select(is_get, &file.validators, file.len(), stage.unix_now) {
        Selected::Failed => stage.error(412),
        Selected::NotModified => SiteResponse::empty(304, file.unchanged.as_headers()),
        Selected::Content(Selection::Whole) => {
            SiteResponse::full(200, file.headers.as_headers(), file.whole())
        }
        Selected::Content(Selection::One(span)) => send_part(file, span, stage),
        Selected::Content(Selection::Several(spans)) => send_parts(file, &spans, stage),
        Selected::Content(Selection::Unsatisfiable) => refuse_range(file, stage),
    }
}

fn send_part<'a>(file: &'a File, span: Span, stage: ResponseContext<'a>) -> SiteResponse<'a> {
    let content_range = stage.scratch.content_range(|out| {
        write_content_range(out, span, file.len());
    });
    SiteResponse::full(206, file.headers.as_headers(), file.piece(span))
        .with("Content-Range", content_range)
}

fn send_parts<'a>(file: &'a File, spans: &[Span], stage: ResponseContext<'a>) -> SiteResponse<'a> {
    let said_of_each = ["Content-Type", "Content-Encoding"];
    let values = said_of_each.map(|name| (name, file.headers.as_headers().get(name)));
    let of_each = values.iter().filter_map(|(name, value)| Some((*name, (*value)?)));
    let (fields, boundary) = stage.scratch.multipart_fields(file);
    let multipart = MultipartRanges::new(spans, file.len(), of_each, boundary);
    let mut segments = Vec::with_capacity(multipart.parts.len() * 2 + 1);
    for (head, span) in multipart.parts {
        segments.push(Segment::Bytes(head));
        segments.push(file.piece(span));
    }
    segments.push(Segment::Bytes(multipart.tail));
    let mut answer = SiteResponse::empty(206, fields.as_headers());
    (answer.body, answer.len) = (SiteBody::Parts(segments), BodyLen::Exact(multipart.len));
    answer
}

fn refuse_range<'a>(file: &File, stage: ResponseContext<'a>) -> SiteResponse<'a> {
    let content_range = stage.scratch.content_range(|out| {
        write_unsatisfied_range(out, file.len());
    });
    SiteResponse::page(416, stage.pages.html.as_headers()).with("Content-Range", content_range)
}

impl<'a> ResponseContext<'a> {
    fn error(&self, status: u16) -> SiteResponse<'a> {
        SiteResponse::page(status, self.pages.html.as_headers())
    }
}

impl ResponseBuffers {
    fn content_range(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> &[u8] {
        self.content_range.clear();
        write(&mut self.content_range);
        &self.content_range
    }

    /// `Location` of a redirect to a directory, with the query of the request.
    fn location(&mut self, directory: &str, target: &[u8]) -> &[u8] {
        self.location.clear();
        write!(self.location, "{directory}{}", query_of(target))
            .expect("a String takes everything");
        self.location.as_bytes()
    }

    /// The fields of a multipart response (`multipart/byteranges`), and the boundary.
    fn multipart_fields(&mut self, file: &File) -> (&HeaderBuf, &str) {
        self.boundaries += 1;
        self.boundary.clear();
        for half in [0_u8, 1] {
            let half = self.secret.hash_one((self.boundaries, half));
            write!(self.boundary, "{half:016x}").expect("a String takes everything");
        }
        self.fields.clear();
        push(&mut self.fields, "Accept-Ranges", b"bytes");
        for (name, value) in file.unchanged.as_headers().iter() {
            let name = str::from_utf8(name).expect("it was written above");
            push(&mut self.fields, name, value);
        }
        let media = format!("multipart/byteranges; boundary={}", self.boundary);
        push(&mut self.fields, "Content-Type", media.as_bytes());
        (&self.fields, &self.boundary)
    }
}

impl<'a> SiteResponse<'a> {
    /// The head to send.
    pub fn head(&self) -> Response<'_> {
        let mut head = Response::new(self.status, self.headers);
        head.added = self.added();
        head
    }

    /// Sends it.
    ///
    /// # Errors
    /// Passed on from `responder`.
    pub fn send(mut self, responder: &mut Responder<'_>) -> HandlerResult {
        let body = std::mem::replace(&mut self.body, SiteBody::Empty);
        responder.send_head(self.head(), self.len)?;
        match body {
            SiteBody::Empty => {}
            SiteBody::Bytes(bytes) => responder.send(bytes)?,
            SiteBody::File(range) => responder.send(range)?,
            SiteBody::Parts(parts) => {
                parts.into_iter().try_for_each(|part| responder.send(part))?
            }
        }
        responder.end()
    }

    /// The additional fields of this response.
    pub fn added(&self) -> Added<'_> {
        self.added.as_slice()
    }

    /// The number of body bytes to send.
    pub fn body_len(&self) -> u64 {
        match &self.body {
            SiteBody::Empty => 0,
            SiteBody::Bytes(bytes) => bytes.len() as u64,
            SiteBody::File(range) => range.len,
            SiteBody::Parts(parts) => parts.iter().map(Segment::len).sum(),
        }
    }

    fn empty(status: u16, headers: Headers<'a>) -> Self {
        Self { status, headers, added: None, body: SiteBody::Empty, len: BodyLen::Empty }
    }

    fn full(status: u16, headers: Headers<'a>, body: Segment) -> Self {
        let len = BodyLen::Exact(body.len());
        let body = match body {
            Segment::Bytes(bytes) => SiteBody::Bytes(bytes),
            Segment::File(range) => SiteBody::File(range),
            Segment::Pipe(_) => unreachable!("a site has bytes and files"),
        };
        Self { body, len, ..Self::empty(status, headers) }
    }

    fn page(status: u16, headers: Headers<'a>) -> Self {
        Self::full(status, headers, Segment::Bytes(page(status)))
    }

    fn with(mut self, name: &'static str, value: &'a [u8]) -> Self {
        self.added = Some((name, value));
        self
    }
}

impl LookupError {
    fn status(self) -> u16 {
        match self {
            Self::Path(error) if error.is_malformed() => 400,
            Self::Path(_) | Self::Open(OpenError::NotFound) => 404,
            Self::Open(OpenError::Forbidden) => 403,
            Self::Open(OpenError::Exhausted) => 503,
            Self::Open(OpenError::Broken) => 500,
        }
    }
}
