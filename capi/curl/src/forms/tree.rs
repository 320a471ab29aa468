//! `curl_mime` and `curl_mimepart`: trees of parts that the application may change at any time
//! between transfers.
//!
//! A tree has at most one parent: a part, which frees it with itself, or the hidden root of an easy
//! handle, which does not. No field is borrowed while the application is called.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use bytes::Bytes;

use crate::border::CBorder;
use crate::code::CurlCode;
use crate::form_sources::{CallbackSource, FormSource, FormSources, file_size};
use crate::mime::{Mime, MimeContent, MimeEncoder, MimePart};
use crate::values::CPointer;

/// A multipart content (curl_mime_init(3)).
#[derive(Debug)]
pub struct FormTree {
    random: [u8; 16],
    parts: RefCell<Vec<Rc<FormNode>>>,
    parent: RefCell<Weak<FormNode>>,
}

/// A part (curl_mime_addpart(3)).
#[derive(Debug)]
pub struct FormNode {
    this: Weak<Self>,
    tree: Weak<FormTree>,
    fields: RefCell<NodeFields>,
}

#[derive(Debug, Default)]
struct NodeFields {
    name: Option<Vec<u8>>,
    filename: Option<Vec<u8>>,
    mime_type: Option<Vec<u8>>,
    headers: NodeHeaders,
    encoder: Option<MimeEncoder>,
    content: NodeContent,
}

/// Header lines of the application.
#[derive(Debug, Default)]
enum NodeHeaders {
    #[default]
    None,
    /// A list of the application's, which may grow until the request begins.
    List(CPointer),
    /// As before, and it is freed with the part.
    OwnedList(CPointer),
    /// Copies.
    Lines(Vec<Vec<u8>>),
}

#[derive(Debug, Default)]
enum NodeContent {
    #[default]
    Empty,
    Data(Bytes),
    File(NodeFile),
    Callback(Rc<CallbackSource>, Option<u64>),
    /// Freed with the part.
    Parts(Rc<FormTree>),
    /// The application frees it.
    BorrowedParts(Weak<FormTree>),
}

#[derive(Clone, Debug)]
struct NodeFile {
    path: Vec<u8>,
    /// `None` if it is not a regular file.
    size: Option<u64>,
    has_read: Rc<Cell<bool>>,
}

impl FormTree {
    /// Without parts; `None` without random numbers for the boundary.
    pub fn new() -> Option<Rc<Self>> {
        let (random, parts, parent) = (random_digits()?, RefCell::default(), RefCell::default());
        Some(Rc::new(Self { random, parts, parent }))
    }

    /// Appends an empty part.
    pub fn add_part(self: &Rc<Self>) -> Rc<FormNode> {
        let part = FormNode::new(Rc::downgrade(self));
        self.parts.borrow_mut().push(Rc::clone(&part));
        part
    }

    /// Removes it from its parent. Returns it if the parent owned it.
    pub fn detach(&self) -> Option<Rc<Self>> {
        let parent = self.parent.take().upgrade()?;
        let content = std::mem::take(&mut parent.fields.borrow_mut().content);
        match content {
            NodeContent::Parts(this) => Some(this),
            _ => None,
        }
    }

    /// Frees what the parts hold, in their order.
    pub fn release(&self, border: &dyn CBorder) {
        self.parent.take();
        for part in self.parts.take() {
            part.release(border);
        }
    }

    fn copy(&self, border: &dyn CBorder) -> Option<Rc<Self>> {
        let copy = Self::new()?;
        for part in self.parts.borrow().iter() {
            part.copy_to(&copy.add_part(), border)?;
        }
        Some(copy)
    }

    fn mime(&self, sources: &mut FormSources, border: &dyn CBorder) -> Mime {
        let mut mime = Mime::new(self.random);
        let parts = self.parts.borrow();
        mime.parts = parts.iter().map(|part| part.part(sources, border)).collect();
        mime
    }
}

impl FormNode {
    fn new(tree: Weak<FormTree>) -> Rc<Self> {
        Rc::new_cyclic(|this| Self { this: Weak::clone(this), tree, fields: RefCell::default() })
    }

    /// The hidden part of an easy handle, whose parts are those of `CURLOPT_MIMEPOST`.
    pub(crate) fn root() -> Rc<Self> {
        Self::new(Weak::new())
    }

    /// The name of the field (curl_mime_name(3)).
    pub fn set_name(&self, name: Option<&[u8]>) {
        self.fields.borrow_mut().name = name.map(<[u8]>::to_vec);
    }

    /// The remote file name (curl_mime_filename(3)).
    pub fn set_filename(&self, filename: Option<&[u8]>) {
        self.fields.borrow_mut().filename = filename.map(<[u8]>::to_vec);
    }

    /// The content type (curl_mime_type(3)).
    pub fn set_type(&self, mime_type: Option<&[u8]>) {
        self.fields.borrow_mut().mime_type = mime_type.map(<[u8]>::to_vec);
    }

    /// The content transfer encoding (curl_mime_encoder(3)).
    ///
    /// # Errors
    /// It is unknown; then there is none.
    pub fn set_encoder(&self, name: Option<&[u8]>) -> Result<(), CurlCode> {
        let encoder = name.and_then(MimeEncoder::parse);
        self.fields.borrow_mut().encoder = encoder;
        match name.is_some() && encoder.is_none() {
            true => Err(CurlCode::BadFunctionArgument),
            false => Ok(()),
        }
    }

    /// Header lines (curl_mime_headers(3)).
    pub fn set_headers(&self, list: CPointer, takes: bool, border: &dyn CBorder) {
        let headers = match (list.is_null(), takes) {
            (true, _) => NodeHeaders::None,
            (false, true) => NodeHeaders::OwnedList(list),
            (false, false) => NodeHeaders::List(list),
        };
        let old = std::mem::replace(&mut self.fields.borrow_mut().headers, headers);
        if let NodeHeaders::OwnedList(old) = old
            && old != list
        {
            border.free_list(old);
        }
    }

    /// Bytes as the content; `None`: no content (curl_mime_data(3)).
    pub fn set_data(&self, data: Option<&[u8]>, border: &dyn CBorder) {
        let data = data.map(|data| NodeContent::Data(Bytes::copy_from_slice(data)));
        self.set_content(data.unwrap_or_default(), border);
    }

    /// A file as the content, with its name; `None`: no content (curl_mime_filedata(3)).
    ///
    /// # Errors
    /// It cannot be read; it is set nevertheless.
    pub fn set_file(&self, path: Option<&[u8]>, border: &dyn CBorder) -> Result<(), CurlCode> {
        let Some(path) = path else {
            self.set_content(NodeContent::Empty, border);
            return Ok(());
        };
        let (file, is_readable) = NodeFile::of(path);
        self.set_content(NodeContent::File(file), border);
        self.set_filename(Some(last_component(path)));
        if is_readable { Ok(()) } else { Err(CurlCode::ReadError) }
    }

    /// Callbacks as the content; without one that reads: no content (curl_mime_data_cb(3)).
    pub fn set_callback(&self, source: CallbackSource, size: Option<u64>, border: &dyn CBorder) {
        let content = match source.read.is_null() {
            true => NodeContent::Empty,
            false => NodeContent::Callback(Rc::new(source), size),
        };
        self.set_content(content, border);
    }

    /// Parts as the content; `None`: no content (curl_mime_subparts(3)). True if they were
    /// attached: the part owns them from now on.
    ///
    /// # Errors
    /// They are attached already, or the part is below them.
    pub fn set_parts(
        &self,
        parts: Option<&Rc<FormTree>>,
        border: &dyn CBorder,
    ) -> Result<bool, CurlCode> {
        let attached = self.attach(parts, border)?;
        if let Some(parts) = attached {
            self.fields.borrow_mut().content = NodeContent::Parts(Rc::clone(parts));
        }
        Ok(attached.is_some())
    }

    /// As [`FormNode::set_parts`], but the application keeps and frees them.
    pub(crate) fn borrow_parts(
        &self,
        parts: Option<&Rc<FormTree>>,
        border: &dyn CBorder,
    ) -> Result<(), CurlCode> {
        if let Some(parts) = self.attach(parts, border)? {
            self.fields.borrow_mut().content = NodeContent::BorrowedParts(Rc::downgrade(parts));
        }
        Ok(())
    }

    fn attach<'a>(
        &self,
        parts: Option<&'a Rc<FormTree>>,
        border: &dyn CBorder,
    ) -> Result<Option<&'a Rc<FormTree>>, CurlCode> {
        let current = self.parts();
        if let (Some(current), Some(parts)) = (&current, parts)
            && Rc::ptr_eq(current, parts)
        {
            return Ok(None);
        }
        self.set_content(NodeContent::Empty, border);
        let Some(parts) = parts else { return Ok(None) };
        let is_attached = parts.parent.borrow().strong_count() > 0;
        if is_attached || self.top().is_some_and(|top| Rc::ptr_eq(&top, parts)) {
            return Err(CurlCode::BadFunctionArgument);
        }
        parts.parent.replace(Weak::clone(&self.this));
        Ok(Some(parts))
    }

    /// The tree at the top of those that the part is in.
    fn top(&self) -> Option<Rc<FormTree>> {
        let mut top = self.tree.upgrade()?;
        loop {
            let parent = top.parent.borrow().upgrade();
            match parent.and_then(|parent| parent.tree.upgrade()) {
                Some(above) => top = above,
                None => return Some(top),
            }
        }
    }

    fn parts(&self) -> Option<Rc<FormTree>> {
        match &self.fields.borrow().content {
            NodeContent::Parts(parts) => Some(Rc::clone(parts)),
            NodeContent::BorrowedParts(parts) => parts.upgrade(),
            _ => None,
        }
    }

    fn set_content(&self, content: NodeContent, border: &dyn CBorder) {
        let old = std::mem::replace(&mut self.fields.borrow_mut().content, content);
        match old {
            NodeContent::Callback(source, _) if !source.free.is_null() => {
                border.free(source.free, source.user);
            }
            NodeContent::Parts(parts) => parts.release(border),
            NodeContent::BorrowedParts(parts) => {
                if let Some(parts) = parts.upgrade() {
                    parts.parent.take();
                }
            }
            _ => {}
        }
    }

    /// Frees what the part holds.
    pub(crate) fn release(&self, border: &dyn CBorder) {
        self.set_content(NodeContent::Empty, border);
        self.set_headers(CPointer::NULL, false, border);
        self.fields.take();
    }

    /// Makes an empty part a copy of this one, with all parts below it (curl_easy_duphandle(3)).
    /// `None` without random numbers for a boundary.
    pub(crate) fn copy_to(&self, copy: &Self, border: &dyn CBorder) -> Option<()> {
        let fields = self.fields.borrow();
        let content = match &fields.content {
            NodeContent::Empty => NodeContent::Empty,
            NodeContent::Data(data) => NodeContent::Data(data.clone()),
            NodeContent::File(file) => NodeContent::File(NodeFile::of(&file.path).0),
            NodeContent::Callback(source, size) => {
                let CallbackSource { read, seek, free, user, .. } = **source;
                let has_read = Cell::new(false);
                let source = CallbackSource { read, seek, free, user, has_read };
                NodeContent::Callback(Rc::new(source), *size)
            }
            NodeContent::Parts(_) | NodeContent::BorrowedParts(_) => match self.parts() {
                Some(parts) => {
                    let parts = parts.copy(border)?;
                    parts.parent.replace(Weak::clone(&copy.this));
                    NodeContent::Parts(parts)
                }
                None => NodeContent::Empty,
            },
        };
        *copy.fields.borrow_mut() = NodeFields {
            name: fields.name.clone(),
            filename: fields.filename.clone(),
            mime_type: fields.mime_type.clone(),
            headers: match &fields.headers {
                NodeHeaders::None => NodeHeaders::None,
                headers => NodeHeaders::Lines(headers.lines(border)),
            },
            encoder: fields.encoder,
            content,
        };
        Some(())
    }

    /// The multipart content as a value, if there is one.
    pub(crate) fn multipart(
        &self,
        sources: &mut FormSources,
        border: &dyn CBorder,
    ) -> Option<Mime> {
        self.parts().map(|parts| parts.mime(sources, border))
    }

    fn part(&self, sources: &mut FormSources, border: &dyn CBorder) -> MimePart {
        let fields = self.fields.borrow();
        MimePart {
            name: fields.name.clone(),
            filename: fields.filename.clone(),
            mime_type: fields.mime_type.clone(),
            headers: fields.headers.lines(border),
            encoder: fields.encoder,
            content: fields.content.value(sources, border),
        }
    }
}

impl NodeHeaders {
    fn lines(&self, border: &dyn CBorder) -> Vec<Vec<u8>> {
        match self {
            Self::None => Vec::new(),
            Self::List(list) | Self::OwnedList(list) => border.list(*list),
            Self::Lines(lines) => lines.clone(),
        }
    }
}

impl NodeContent {
    fn value(&self, sources: &mut FormSources, border: &dyn CBorder) -> MimeContent {
        match self {
            Self::Empty => MimeContent::Empty,
            Self::Data(data) => MimeContent::Data(data.clone()),
            Self::File(NodeFile { path, size, has_read }) => {
                let source = sources.add(FormSource::File {
                    path: path.clone(),
                    is_regular: size.is_some(),
                    file: None,
                    has_read: Rc::clone(has_read),
                });
                MimeContent::File { path: path.clone(), source, size: *size }
            }
            Self::Callback(source, size) => {
                let source = sources.add(FormSource::Callback(Rc::clone(source)));
                MimeContent::Callback { source, size: *size }
            }
            Self::Parts(parts) => MimeContent::Multipart(parts.mime(sources, border)),
            Self::BorrowedParts(parts) => match parts.upgrade() {
                Some(parts) => MimeContent::Multipart(parts.mime(sources, border)),
                None => MimeContent::Empty,
            },
        }
    }
}

impl NodeFile {
    /// False if it cannot be read.
    fn of(path: &[u8]) -> (Self, bool) {
        let (size, is_readable) = file_size(path);
        (Self { path: path.to_vec(), size, has_read: Rc::default() }, is_readable)
    }
}

/// As `basename` of C: a `/` at the end counts for nothing.
pub(super) fn last_component(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    match (path.is_empty(), end) {
        (true, _) => b".",
        (false, 0) => b"/",
        (false, end) => path[..end].rsplit(|byte| *byte == b'/').next().unwrap_or_default(),
    }
}

/// 16 random hexadecimal digits, for a boundary.
pub(super) fn random_digits() -> Option<[u8; 16]> {
    let mut random = [0; 8];
    crate::random::fill(&mut random).ok()?;
    let digits = format!("{:016x}", u64::from_ne_bytes(random));
    digits.into_bytes().try_into().ok()
}
