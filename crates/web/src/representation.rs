//! Responses that support conditional requests and ranges (RFC 9110 §13, §14), for any content of a
//! handler.
//!
//! ```
//! use fulmar_proto::Request;
//! use fulmar_semantics::conditional::Validators;
//! use fulmar_server::{HandlerResult, Responder};
//! use fulmar_web::representation::Representation;
//!
//! fn report(responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
//!     let text = "all is well\n";
//!     let validators = Validators { etag: Some("\"v1\"".into()), modified: None };
//!     Representation::new(text, "text/plain", validators).reply(responder, request)
//! }
//! # let _ = report;
//! ```
//!
//! For files of a directory use `fulmar_serve::Site`, which implements all of this.

use std::hash::{BuildHasher, RandomState};

use bytes::Bytes;
use fulmar_proto::{BodyLen, FileRange, Headers, Request, Response, Segment};
use fulmar_semantics::conditional::{Conditions, Selected, Validators};
use fulmar_semantics::date::format_date;
use fulmar_semantics::range::{
    MultipartRanges, Selection, Span, write_content_range, write_unsatisfied_range,
};
use fulmar_server::{HandlerResult, Responder};

/// The current representation of a resource.
#[derive(Clone, Debug)]
pub struct Representation<'a> {
    /// The content: in memory, or part of a file.
    pub content: Segment,
    /// The media type.
    pub content_type: &'a str,
    /// Validators of the content. Without tag and date, the content is always sent.
    pub validators: Validators,
    /// Additional fields, such as `Cache-Control`.
    pub headers: Headers<'a>,
}

impl<'a> Representation<'a> {
    /// Without additional fields.
    pub fn new(content: impl Into<Bytes>, content_type: &'a str, validators: Validators) -> Self {
        let content = Segment::Bytes(content.into());
        Self { content, content_type, validators, headers: Headers::EMPTY }
    }

    /// Responds to a GET or HEAD with the content (200), one or more parts (206), or without
    /// content (304, 412, 416). Other methods must be handled by the caller; here they receive 405.
    ///
    /// # Errors
    /// Passed on from `responder`: a field has invalid bytes.
    pub fn reply(self, responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
        if !matches!(request.method, b"GET" | b"HEAD") {
            let added = [("Allow", &b"GET, HEAD"[..])];
            return responder.reply(head(405, Headers::EMPTY, &added), Bytes::new());
        }
        let (unix_now, len) = (responder.clock().unix(), self.content.len());
        let conditions = Conditions::of(request.headers);
        let is_get = request.method == b"GET";
        match conditions.select(is_get, &self.validators, len, unix_now) {
            Selected::Failed => responder.text(412, "the resource has changed\n"),
            Selected::NotModified => self.not_modified(responder),
            // Several parts of a coded content are not one body in that coding.
            Selected::Content(Selection::Several(_))
                if self.headers.get("Content-Encoding").is_some() =>
            {
                self.send(responder, 200, None, is_get, vec![self.content.clone()])
            }
            Selected::Content(Selection::Whole) => {
                self.send(responder, 200, None, is_get, vec![self.content.clone()])
            }
            Selected::Content(Selection::One(span)) => {
                let mut range = Vec::new();
                write_content_range(&mut range, span, len);
                self.send(responder, 206, Some(&range), is_get, vec![self.piece(span)])
            }
            Selected::Content(Selection::Several(spans)) => self.send_parts(responder, &spans),
            Selected::Content(Selection::Unsatisfiable) => {
                let mut range = Vec::new();
                write_unsatisfied_range(&mut range, len);
                let added = [("Content-Range", &range[..])];
                responder.reply(head(416, Headers::EMPTY, &added), Bytes::new())
            }
        }
    }

    /// 304 with the fields that may have changed without the content (§15.4.5).
    fn not_modified(&self, responder: &mut Responder<'_>) -> HandlerResult {
        let date = self.validators.modified.map(format_date);
        let mut added = self.validator_fields(date.as_ref().map(|date| &date[..]));
        for name in ["Cache-Control", "Content-Location", "Expires", "Vary"] {
            added.extend(self.headers.get_all(name).map(|value| (name, value)));
        }
        responder.reply(head(304, Headers::EMPTY, &added), Bytes::new())
    }

    fn send(
        &self,
        responder: &mut Responder<'_>,
        status: u16,
        range: Option<&[u8]>,
        is_get: bool,
        body: Vec<Segment>,
    ) -> HandlerResult {
        let date = self.validators.modified.map(format_date);
        let mut added = self.validator_fields(date.as_ref().map(|date| &date[..]));
        added.push(("Accept-Ranges", b"bytes"));
        added.push(("Content-Type", self.content_type.as_bytes()));
        added.extend(range.map(|range| ("Content-Range", range)));
        self.send_as(responder, head(status, self.headers, &added), is_get, body)
    }

    /// Responds with `multipart/byteranges` (§14.6). It replaces the content type, which is in each
    /// part.
    fn send_parts(&self, responder: &mut Responder<'_>, spans: &[Span]) -> HandlerResult {
        // The hash has random keys, so the content cannot contain the boundary by intent.
        let half = |_: u8| RandomState::new().hash_one(self.content.len());
        let boundary = format!("{:016x}{:016x}", half(0), half(1));
        let fields = [("Content-Type", self.content_type.as_bytes())].into_iter();
        let multipart = MultipartRanges::new(spans, self.content.len(), fields, &boundary);
        let mut body = Vec::with_capacity(multipart.parts.len() * 2 + 1);
        for (head, span) in multipart.parts {
            body.extend([Segment::Bytes(head), self.piece(span)]);
        }
        body.push(Segment::Bytes(multipart.tail));
        let media = format!("multipart/byteranges; boundary={boundary}");
        let date = self.validators.modified.map(format_date);
        let mut added = self.validator_fields(date.as_ref().map(|date| &date[..]));
        added.push(("Accept-Ranges", b"bytes"));
        added.push(("Content-Type", media.as_bytes()));
        self.send_as(responder, head(206, self.headers, &added), true, body)
    }

    fn send_as(
        &self,
        responder: &mut Responder<'_>,
        head: Response<'_>,
        is_get: bool,
        body: Vec<Segment>,
    ) -> HandlerResult {
        let len = body.iter().map(Segment::len).sum();
        responder.send_head(head, if len == 0 { BodyLen::Empty } else { BodyLen::Exact(len) })?;
        if is_get {
            let mut body = body.into_iter().filter(|segment| !segment.is_empty());
            body.try_for_each(|segment| responder.send(segment))?;
        }
        responder.end()
    }

    fn validator_fields<'f>(&'f self, date: Option<&'f [u8]>) -> Vec<(&'f str, &'f [u8])> {
        let etag = self.validators.etag.as_ref().map(|etag| ("ETag", etag.as_bytes()));
        etag.into_iter().chain(date.map(|date| ("Last-Modified", date))).collect()
    }

    /// A part of the content, without copying.
    fn piece(&self, span: Span) -> Segment {
        match &self.content {
            Segment::Bytes(bytes) => {
                let at = |n: u64| usize::try_from(n).expect("at most the length of the bytes");
                Segment::Bytes(bytes.slice(at(span.start)..at(span.start + span.len)))
            }
            Segment::File(range) => Segment::File(FileRange {
                file: range.file.clone(),
                offset: range.offset + span.start,
                len: span.len,
            }),
            Segment::Pipe(_) => panic!("bytes in a pipe cannot be sent in parts"),
        }
    }
}

fn head<'a>(status: u16, headers: Headers<'a>, added: &'a [(&'a str, &'a [u8])]) -> Response<'a> {
    Response { added, ..Response::new(status, headers) }
}
