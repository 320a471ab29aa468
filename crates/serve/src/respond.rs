//! The answer to a request: status, fields, body (RFC 9110 §9.3, §13, §14, §15).
//!
//! Pure: what was asked and what was found go in; what is to be sent comes out, as data. Where a
//! file is sent whole, nothing is allocated: its fields were made when it was opened, and what is
//! new in each answer is lent beside them.

use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};

use bytes::Bytes;
use fulmar_proto::head::Added;
use fulmar_proto::{BodyLen, FileRange, HeaderBuf, Headers, Request, Response, Segment};

use fulmar_semantics::conditional::{Conditions, Selected};
use fulmar_semantics::range::{MultipartRanges, Selection, Span};
use fulmar_semantics::range::{write_content_range, write_unsatisfied_range};

use fulmar_server::{Call, Outcome};

use crate::cache::Found;
use crate::file::{File, push};
use crate::pages::{Pages, UNLISTED, page};
use crate::path::{PathError, query_of};
use crate::root::OpenError;

/// What to send. Borrows from the site until it is.
#[derive(Debug)]
pub struct Answer<'a> {
    /// 200 to 599.
    pub status: u16,
    /// The fields that belong to what was found.
    pub headers: Headers<'a>,
    /// The one that belongs to this answer alone: `Content-Range` or `Location`.
    added: Option<(&'a str, &'a [u8])>,
    /// What follows the head. Empty if the request was HEAD.
    pub body: Body,
    /// The framing; with HEAD, the length that GET would have had.
    pub len: BodyLen,
}

/// The body of an answer.
#[derive(Clone, Debug)]
pub enum Body {
    /// None.
    Empty,
    /// Bytes in memory.
    Bytes(Bytes),
    /// Part of a file, or all of it.
    File(FileRange),
    /// Several parts of a file, framed.
    Parts(Vec<Segment>),
}

/// What a static file server makes of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Fetch.
    Get,
    /// Fetch the head only.
    Head,
    /// Ask what may be asked.
    Options,
    /// Anything else: not here.
    Other,
}

/// Why nothing was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The target is no path.
    Path(PathError),
    /// The path leads to nothing that may be read.
    Open(OpenError),
}

/// What answers are made of, besides the request and what was found.
#[derive(Debug)]
pub struct Stage<'a> {
    /// Pages and fixed fields.
    pub pages: &'a Pages,
    /// Seconds since 1970.
    pub unix_now: i64,
    /// Where fields of this answer alone are written.
    pub scratch: &'a mut Scratch,
}

/// Memory for the fields of one answer, kept for the next.
#[derive(Debug, Default)]
pub struct Scratch {
    content_range: Vec<u8>,
    location: String,
    fields: HeaderBuf,
    boundary: String,
    /// Boundaries come from here: nobody outside can know one beforehand and write it into a file.
    secret: RandomState,
    boundaries: u64,
}

impl Method {
    /// Methods are compared with case (§9.1).
    pub fn of(method: &[u8]) -> Self {
        match method {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"OPTIONS" => Self::Options,
            _ => Self::Other,
        }
    }
}

/// Decides the answer. `found` is not looked at unless the method is GET or HEAD.
pub fn respond<'a>(
    method: Method,
    request: &Request<'_>,
    found: Result<&'a Found, Refusal>,
    stage: Stage<'a>,
) -> Answer<'a> {
    let headers = request.headers;
    let mut answer = match (method, found) {
        (Method::Options, _) => Answer::empty(204, stage.pages.allow.as_headers()),
        (Method::Other, _) => Answer::page(405, stage.pages.html_allow.as_headers()),
        (_, Err(refusal)) => stage.error(refusal.status()),
        (_, Ok(Found::File(file))) => send_file(method, headers, file.choose(headers), stage),
        (_, Ok(Found::Redirect(location))) => {
            let location = stage.scratch.location(location, request.target);
            Answer::page(301, stage.pages.html.as_headers()).with("Location", location)
        }
        (_, Ok(Found::Unlisted)) => {
            let body = Segment::Bytes(Bytes::from_static(UNLISTED));
            Answer::full(403, stage.pages.html.as_headers(), body)
        }
        (_, Ok(Found::Listing(html))) => {
            let fields = stage.pages.listing.as_headers();
            Answer::full(200, fields, Segment::Bytes(html.clone()))
        }
    };
    if method == Method::Head {
        answer.body = Body::Empty;
    }
    answer
}

fn send_file<'a>(
    method: Method,
    headers: Headers<'_>,
    file: &'a File,
    stage: Stage<'a>,
) -> Answer<'a> {
    let is_get = method == Method::Get;
    let conditions = Conditions::of(headers);
    match conditions.select(is_get, &file.validators, file.len(), stage.unix_now) {
        Selected::Failed => stage.error(412),
        Selected::NotModified => Answer::empty(304, file.unchanged.as_headers()),
        Selected::Content(Selection::Whole) => {
            Answer::full(200, file.headers.as_headers(), file.whole())
        }
        Selected::Content(Selection::One(span)) => send_part(file, span, stage),
        Selected::Content(Selection::Several(spans)) => send_parts(file, &spans, stage),
        Selected::Content(Selection::Unsatisfiable) => refuse_range(file, stage),
    }
}

fn send_part<'a>(file: &'a File, span: Span, stage: Stage<'a>) -> Answer<'a> {
    let content_range = stage.scratch.content_range(|out| {
        write_content_range(out, span, file.len());
    });
    Answer::full(206, file.headers.as_headers(), file.piece(span))
        .with("Content-Range", content_range)
}

fn send_parts<'a>(file: &'a File, spans: &[Span], stage: Stage<'a>) -> Answer<'a> {
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
    let mut answer = Answer::empty(206, fields.as_headers());
    (answer.body, answer.len) = (Body::Parts(segments), BodyLen::Exact(multipart.len));
    answer
}

fn refuse_range<'a>(file: &File, stage: Stage<'a>) -> Answer<'a> {
    let content_range = stage.scratch.content_range(|out| {
        write_unsatisfied_range(out, file.len());
    });
    Answer::page(416, stage.pages.html.as_headers()).with("Content-Range", content_range)
}

impl<'a> Stage<'a> {
    fn error(&self, status: u16) -> Answer<'a> {
        Answer::page(status, self.pages.html.as_headers())
    }
}

impl Scratch {
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

    /// The fields of a file whose type is `multipart/byteranges`, and the boundary.
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
            let name = str::from_utf8(name).expect("we have written it");
            push(&mut self.fields, name, value);
        }
        let media = format!("multipart/byteranges; boundary={}", self.boundary);
        push(&mut self.fields, "Content-Type", media.as_bytes());
        (&self.fields, &self.boundary)
    }
}

impl<'a> Answer<'a> {
    /// The head, to be sent.
    pub fn head(&self) -> Response<'_> {
        let mut head = Response::new(self.status, self.headers);
        head.added = self.added();
        head
    }

    /// Sends it.
    ///
    /// # Errors
    /// Passed on from `call`.
    pub fn send(mut self, call: &mut Call<'_>) -> Outcome {
        let body = std::mem::replace(&mut self.body, Body::Empty);
        call.send_head(self.head(), self.len)?;
        match body {
            Body::Empty => {}
            Body::Bytes(bytes) => call.send(bytes)?,
            Body::File(range) => call.send(range)?,
            Body::Parts(parts) => parts.into_iter().try_for_each(|part| call.send(part))?,
        }
        call.end()
    }

    /// The fields that belong to this answer alone.
    pub fn added(&self) -> Added<'_> {
        self.added.as_slice()
    }

    /// Bytes of the body that will be sent.
    pub fn body_len(&self) -> u64 {
        match &self.body {
            Body::Empty => 0,
            Body::Bytes(bytes) => bytes.len() as u64,
            Body::File(range) => range.len,
            Body::Parts(parts) => parts.iter().map(Segment::len).sum(),
        }
    }

    fn empty(status: u16, headers: Headers<'a>) -> Self {
        Self { status, headers, added: None, body: Body::Empty, len: BodyLen::Empty }
    }

    fn full(status: u16, headers: Headers<'a>, body: Segment) -> Self {
        let len = BodyLen::Exact(body.len());
        let body = match body {
            Segment::Bytes(bytes) => Body::Bytes(bytes),
            Segment::File(range) => Body::File(range),
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

impl Refusal {
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
