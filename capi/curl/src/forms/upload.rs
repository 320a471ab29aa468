//! A form that is being sent.

use super::reader::{SourceReader, rewind_all};
use super::tree::{FormNode, random_digits};
use crate::border::CBorder;
use crate::form_sources::{FormSources, PostedForm};
use crate::mime::{FormEscape, FormPost, MimeBody, MimeRead};

/// The body of a form, with its files and callbacks.
#[derive(Debug)]
pub struct FormUpload {
    body: MimeBody,
    sources: FormSources,
}

impl FormUpload {
    /// The parts of `CURLOPT_MIMEPOST`; `None` if there is no form. `content_type`: that of a
    /// custom `Content-Type`.
    pub(crate) fn of_tree(
        root: &FormNode,
        content_type: Option<&[u8]>,
        escape: FormEscape,
        border: &dyn CBorder,
    ) -> Option<Self> {
        let mut sources = FormSources::default();
        let mime = root.multipart(&mut sources, border)?;
        Some(Self { body: MimeBody::new(mime, content_type, escape), sources })
    }

    /// The sections of a `struct curl_httppost`.
    pub fn of_posted(form: PostedForm, content_type: Option<&[u8]>, escape: FormEscape) -> Self {
        let PostedForm { sections, sources } = form;
        // Without random numbers the boundary is a constant one.
        let mime = FormPost::into_mime(sections, || random_digits().unwrap_or([b'0'; 16]));
        Self { body: MimeBody::new(mime, content_type, escape), sources }
    }

    /// The value of `Content-Type`.
    pub fn content_type(&self) -> &[u8] {
        self.body.content_type()
    }

    /// The size of the body; `None` if it is unknown.
    pub(crate) fn size(&self) -> Option<u64> {
        self.body.size()
    }

    /// Reads the next bytes; calls the application.
    pub fn read(&mut self, border: &dyn CBorder, into: &mut [u8]) -> MimeRead {
        let mut reader = SourceReader { sources: &mut self.sources, border };
        self.body.read(&mut reader, into)
    }

    /// Returns sources that an earlier request has read to their beginning. False if one cannot.
    pub(crate) fn rewind_sources(&mut self, border: &dyn CBorder) -> bool {
        rewind_all(&mut self.sources, border)
    }
}
