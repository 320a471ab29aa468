//! An answer that a client may have already, or want a part of: conditional requests and ranges
//! (RFC 9110 §13, §14) for whatever a handler has at hand.
//!
//! ```
//! use fulmar_proto::Request;
//! use fulmar_semantics::conditional::Validators;
//! use fulmar_server::{Call, Outcome};
//! use fulmar_web::representation::Representation;
//!
//! fn report(call: &mut Call<'_>, request: &Request<'_>) -> Outcome {
//!     let text = "all is well\n";
//!     let validators = Validators { etag: Some("\"v1\"".into()), modified: None };
//!     Representation::new(text, "text/plain", validators).reply(call, request)
//! }
//! # let _ = report;
//! ```
//!
//! A file of a directory is `fulmar_serve::Site`'s, which remembers all of this.

use std::hash::{BuildHasher, RandomState};

use bytes::Bytes;
use fulmar_proto::{BodyLen, FileRange, Headers, Request, Response, Segment};
use fulmar_semantics::conditional::{Conditions, Selected, Validators};
use fulmar_semantics::date::format_date;
use fulmar_semantics::range::{
    Multipart, Selection, Span, write_content_range, write_unsatisfied_range,
};
use fulmar_server::{Call, Outcome};

/// What a resource is at the moment.
#[derive(Clone, Debug)]
pub struct Representation<'a> {
    /// All of it: in memory, or part of a file.
    pub content: Segment,
    /// What it is.
    pub content_type: &'a str,
    /// By which a later state is told from this one. With neither tag nor date, it is always sent.
    pub validators: Validators,
    /// Further fields, such as `Cache-Control`.
    pub headers: Headers<'a>,
}

impl<'a> Representation<'a> {
    /// Without further fields.
    pub fn new(content: impl Into<Bytes>, content_type: &'a str, validators: Validators) -> Self {
        let content = Segment::Bytes(content.into());
        Self { content, content_type, validators, headers: Headers::EMPTY }
    }

    /// Answers a GET or HEAD with all of it (200), a part or several (206), or with what the client
    /// is to know instead (304, 412, 416). Any other method is the caller's, and refused here (405).
    ///
    /// # Errors
    /// Passed on from `call`: a field has bytes that are not allowed there.
    pub fn reply(self, call: &mut Call<'_>, request: &Request<'_>) -> Outcome {
        if !matches!(request.method, b"GET" | b"HEAD") {
            let added = [("Allow", &b"GET, HEAD"[..])];
            return call.reply(head(405, Headers::EMPTY, &added), Bytes::new());
        }
        let (unix_now, len) = (call.clock().unix(), self.content.len());
        let conditions = Conditions::of(request.headers);
        let is_get = request.method == b"GET";
        match conditions.select(is_get, &self.validators, len, unix_now) {
            Selected::Failed => call.text(412, "it has changed meanwhile\n"),
            Selected::NotModified => self.not_modified(call),
            // Several parts in a coding would not be one body in that coding.
            Selected::Content(Selection::Several(_))
                if self.headers.get("Content-Encoding").is_some() =>
            {
                self.send(call, 200, None, is_get, vec![self.content.clone()])
            }
            Selected::Content(Selection::Whole) => {
                self.send(call, 200, None, is_get, vec![self.content.clone()])
            }
            Selected::Content(Selection::One(span)) => {
                let mut range = Vec::new();
                write_content_range(&mut range, span, len);
                self.send(call, 206, Some(&range), is_get, vec![self.piece(span)])
            }
            Selected::Content(Selection::Several(spans)) => self.send_parts(call, &spans),
            Selected::Content(Selection::Unsatisfiable) => {
                let mut range = Vec::new();
                write_unsatisfied_range(&mut range, len);
                let added = [("Content-Range", &range[..])];
                call.reply(head(416, Headers::EMPTY, &added), Bytes::new())
            }
        }
    }

    /// What may have changed without the content (§15.4.5).
    fn not_modified(&self, call: &mut Call<'_>) -> Outcome {
        let date = self.validators.modified.map(format_date);
        let mut added = self.validator_fields(date.as_ref().map(|date| &date[..]));
        for name in ["Cache-Control", "Content-Location", "Expires", "Vary"] {
            added.extend(self.headers.get_all(name).map(|value| (name, value)));
        }
        call.reply(head(304, Headers::EMPTY, &added), Bytes::new())
    }

    fn send(
        &self,
        call: &mut Call<'_>,
        status: u16,
        range: Option<&[u8]>,
        is_get: bool,
        body: Vec<Segment>,
    ) -> Outcome {
        let date = self.validators.modified.map(format_date);
        let mut added = self.validator_fields(date.as_ref().map(|date| &date[..]));
        added.push(("Accept-Ranges", b"bytes"));
        added.push(("Content-Type", self.content_type.as_bytes()));
        added.extend(range.map(|range| ("Content-Range", range)));
        self.send_as(call, head(status, self.headers, &added), is_get, body)
    }

    /// As `multipart/byteranges` (§14.6): its own type takes the place of the content's, which
    /// stands in each part.
    fn send_parts(&self, call: &mut Call<'_>, spans: &[Span]) -> Outcome {
        // Its keys are random: nobody can know a boundary beforehand and write it into the content.
        let half = |_: u8| RandomState::new().hash_one(self.content.len());
        let boundary = format!("{:016x}{:016x}", half(0), half(1));
        let fields = [("Content-Type", self.content_type.as_bytes())].into_iter();
        let multipart = Multipart::new(spans, self.content.len(), fields, &boundary);
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
        self.send_as(call, head(206, self.headers, &added), true, body)
    }

    fn send_as(
        &self,
        call: &mut Call<'_>,
        head: Response<'_>,
        is_get: bool,
        body: Vec<Segment>,
    ) -> Outcome {
        let len = body.iter().map(Segment::len).sum();
        call.send_head(head, if len == 0 { BodyLen::Empty } else { BodyLen::Exact(len) })?;
        if is_get {
            let mut body = body.into_iter().filter(|segment| !segment.is_empty());
            body.try_for_each(|segment| call.send(segment))?;
        }
        call.end()
    }

    fn validator_fields<'f>(&'f self, date: Option<&'f [u8]>) -> Vec<(&'f str, &'f [u8])> {
        let etag = self.validators.etag.as_ref().map(|etag| ("ETag", etag.as_bytes()));
        etag.into_iter().chain(date.map(|date| ("Last-Modified", date))).collect()
    }

    /// Nothing is copied.
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
            Segment::Pipe(_) => panic!("bytes in a pipe can be sent once, and not in parts"),
        }
    }
}

fn head<'a>(status: u16, headers: Headers<'a>, added: &'a [(&'a str, &'a [u8])]) -> Response<'a> {
    Response { added, ..Response::new(status, headers) }
}
