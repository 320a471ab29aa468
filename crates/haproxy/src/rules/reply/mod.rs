//! Answers that the proxy gives itself (HAProxy's manual, §4.2, `http-request return`,
//! `errorfile`, `http-error`).

mod file;
mod pages;
mod parse;

use std::sync::Arc;

use bytes::Bytes;
use fulmar_proto::HeaderBuf;

use crate::rules::format::Format;
use crate::rules::head::ResponseHead;
use crate::rules::subject::Subject;
use crate::rules::words::Fault;

pub use file::parse_file;
pub use pages::{PAGES, built_in};
pub(crate) use parse::{ReplyKind, parse, status};
pub use parse::{parse_errorfile, parse_errorloc, parse_http_error};

/// An answer to be made.
#[derive(Clone, Debug)]
pub struct Reply {
    /// 200 to 599.
    pub status: u16,
    /// Its fields, beside the length of its body.
    pub fields: Vec<(String, Format)>,
    /// Its body.
    pub body: ReplyBody,
}

/// The body of an answer of our own.
#[derive(Clone, Debug)]
pub enum ReplyBody {
    /// None.
    Empty,
    /// As it stands.
    Fixed(Bytes),
    /// To be made.
    Format(Format),
    /// The whole answer, with its fields, is the error page of this status, as configured or built
    /// in.
    ErrorPage,
    /// The same, but as a section `http-errors` has it: this one. [`Reply::resolve`] puts it here.
    PageOf {
        /// The name of the section.
        section: String,
        /// Where it is named.
        column: u32,
    },
    /// There is no answer: the connection ends without a word (`errorfile 408 /dev/null`).
    Silence,
}

/// What is answered to errors of our own, by status (`errorfile`, `http-error`, `errorfiles`):
/// those that are not there are built in.
#[derive(Clone, Debug, Default)]
pub struct ErrorPages {
    /// By status.
    pub pages: Vec<(u16, Arc<Reply>)>,
}

impl ErrorPages {
    /// The page of a status, if it is one of these.
    pub fn get(&self, status: u16) -> Option<&Arc<Reply>> {
        self.pages.iter().find(|(known, _)| *known == status).map(|(_, page)| page)
    }

    /// The page of a status is this from now on.
    pub fn set(&mut self, status: u16, page: Arc<Reply>) {
        self.remove(status);
        self.pages.push((status, page));
    }

    /// The page of a status is the built-in one again, or that of somebody else
    /// (`default-errorfiles`).
    pub fn remove(&mut self, status: u16) {
        self.pages.retain(|(known, _)| *known != status);
    }
}

impl Reply {
    /// The error page of a status.
    pub fn error_page(status: u16) -> Self {
        Self { status, fields: Vec::new(), body: ReplyBody::ErrorPage }
    }

    /// The head and the body of this answer, and no more than that: that it has no body if the
    /// request was HEAD, and how long it is, is said by who sends it. `None`: there is no answer,
    /// and the connection ends.
    ///
    /// `pages` are where error pages are looked for: the backend's, then the frontend's. Fields
    /// whose value is not one (a control character, say) are left out.
    pub fn render(
        &self,
        subject: &dyn Subject,
        pages: &[&ErrorPages],
    ) -> Option<(ResponseHead, Bytes)> {
        let page = self.page(pages);
        let body = match &page.body {
            ReplyBody::Silence => return None,
            ReplyBody::Fixed(bytes) => bytes.clone(),
            ReplyBody::Format(format) => {
                let mut text = Vec::new();
                format.render(subject, &mut text);
                text.into()
            }
            ReplyBody::Empty | ReplyBody::ErrorPage | ReplyBody::PageOf { .. } => Bytes::new(),
        };
        let mut fields = HeaderBuf::new();
        let mut value = Vec::new();
        for (name, format) in &page.fields {
            value.clear();
            format.render(subject, &mut value);
            let _ = fields.push(name, value.trim_ascii()); // what is not a value is left out
        }
        Some((ResponseHead { status: page.status, fields, ..ResponseHead::default() }, body))
    }

    /// The answer that asks for a name and a password (RFC 7617 §2): the error page of 401, with
    /// this realm. `None`: there is no answer.
    pub fn challenge(
        realm: &[u8],
        subject: &dyn Subject,
        pages: &[&ErrorPages],
    ) -> Option<(ResponseHead, Bytes)> {
        let (mut head, body) = Self::error_page(401).render(subject, pages)?;
        let mut value = b"Basic realm=\"".to_vec();
        for byte in realm.iter().filter(|byte| !byte.is_ascii_control()) {
            value.extend(matches!(byte, b'"' | b'\\').then_some(b'\\'));
            value.push(*byte);
        }
        value.push(b'"');
        let set = head.fields.replace("www-authenticate", &value);
        set.expect("control characters have been left out");
        Some((head, body))
    }

    /// If it is a page of a section `http-errors`: puts that page in its place. `section` finds
    /// the section with a name.
    ///
    /// # Errors
    /// There is no such section. One that has no page of this status means the usual one.
    pub fn resolve<'s>(
        &mut self,
        section: impl Fn(&str) -> Option<&'s ErrorPages>,
    ) -> Result<(), Fault> {
        let ReplyBody::PageOf { section: name, column } = &self.body else { return Ok(()) };
        let pages = section(name).ok_or_else(|| {
            Fault::new(*column, format!("there is no section 'http-errors {name}'"))
        })?;
        *self = match pages.get(self.status) {
            Some(page) => Self::clone(page),
            None => Self::error_page(self.status),
        };
        Ok(())
    }

    /// Itself, or the error page that it stands for.
    fn page<'a>(&'a self, pages: &[&'a ErrorPages]) -> &'a Self {
        match self.body {
            ReplyBody::ErrorPage | ReplyBody::PageOf { .. } => {
                let own = pages.iter().find_map(|pages| pages.get(self.status));
                own.map_or_else(|| built_in(self.status), Arc::as_ref)
            }
            _ => self,
        }
    }
}
