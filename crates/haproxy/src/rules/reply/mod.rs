//! Responses of the proxy itself (HAProxy's manual, §4.2, `http-request return`, `errorfile`,
//! `http-error`).

mod file;
mod pages;
mod parse;

use std::sync::Arc;

use bytes::Bytes;
use fulmar_proto::HeaderBuf;

use crate::rules::eval_context::EvalContext;
use crate::rules::format::FormatString;
use crate::rules::head::ResponseHead;
use crate::rules::words::WordError;

pub use file::parse_file;
pub use pages::{PAGES, built_in};
pub(crate) use parse::{ReplyKind, parse, status};
pub use parse::{parse_errorfile, parse_errorloc, parse_http_error};

/// A response template.
#[derive(Clone, Debug)]
pub struct ReplyTemplate {
    /// 200 to 599.
    pub status: u16,
    /// Its fields, without the length of the body.
    pub fields: Vec<(String, FormatString)>,
    /// Its body.
    pub body: ReplyBody,
}

/// The body of a response of the proxy.
#[derive(Clone, Debug)]
pub enum ReplyBody {
    /// None.
    Empty,
    /// A constant.
    Fixed(Bytes),
    /// A format.
    Format(FormatString),
    /// The error page of this status, including its fields: a configured or a built-in one.
    ErrorPage,
    /// The error page in an `http-errors` section. [`ReplyTemplate::resolve`] replaces it.
    PageOf {
        /// The name of the section.
        section: String,
        /// Column of the name.
        column: u32,
    },
    /// No response: the connection is closed (`errorfile 408 /dev/null`).
    Silence,
}

/// Error responses by status (`errorfile`, `http-error`, `errorfiles`); for others, the built-in
/// ones are used.
#[derive(Clone, Debug, Default)]
pub struct ErrorPages {
    /// By status.
    pub pages: Vec<(u16, Arc<ReplyTemplate>)>,
}

impl ErrorPages {
    /// The page of a status.
    pub fn get(&self, status: u16) -> Option<&Arc<ReplyTemplate>> {
        self.pages.iter().find(|(known, _)| *known == status).map(|(_, page)| page)
    }

    /// Sets the page of a status.
    pub fn set(&mut self, status: u16, page: Arc<ReplyTemplate>) {
        self.remove(status);
        self.pages.push((status, page));
    }

    /// Removes the page of a status, so that the next source applies (`default-errorfiles`).
    pub fn remove(&mut self, status: u16) {
        self.pages.retain(|(known, _)| *known != status);
    }
}

impl ReplyTemplate {
    /// The error page of a status.
    pub fn error_page(status: u16) -> Self {
        Self { status, fields: Vec::new(), body: ReplyBody::ErrorPage }
    }

    /// Head and body of this response. The caller adds the length, and omits the body for HEAD.
    /// `None`: no response, the connection is closed.
    ///
    /// `pages` are searched for error pages: the backend's, then the frontend's. Fields with
    /// invalid values (for example with control characters) are omitted.
    pub fn render(
        &self,
        subject: &dyn EvalContext,
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
            let _ = fields.push(name, value.trim_ascii()); // invalid values are omitted
        }
        Some((ResponseHead { status: page.status, fields, ..ResponseHead::default() }, body))
    }

    /// The response that requests authentication (RFC 7617 §2): the error page of 401, with this
    /// realm. `None`: no response.
    pub fn challenge(
        realm: &[u8],
        subject: &dyn EvalContext,
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

    /// Resolves a page of an `http-errors` section. `section` finds a section by name.
    ///
    /// # Errors
    /// The section does not exist. If it has no page of this status, the default one is used.
    pub fn resolve<'s>(
        &mut self,
        section: impl Fn(&str) -> Option<&'s ErrorPages>,
    ) -> Result<(), WordError> {
        let ReplyBody::PageOf { section: name, column } = &self.body else { return Ok(()) };
        let pages = section(name).ok_or_else(|| {
            WordError::new(*column, format!("unknown http-errors section '{name}'"))
        })?;
        *self = match pages.get(self.status) {
            Some(page) => Self::clone(page),
            None => Self::error_page(self.status),
        };
        Ok(())
    }

    /// This response, or the error page that it refers to.
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
