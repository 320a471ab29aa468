//! Forms: their fields in memory, their files in memory or on disk, within limits.
//!
//! ```no_run
//! use fulmar_proto::Request;
//! use fulmar_server::{HandlerResult, Responder};
//! use fulmar_web::form::{self, Options};
//!
//! fn greet(responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
//!     form::collect(responder, request, &Options::default(), |responder, form| {
//!         match form.text("name") {
//!             Some(name) => responder.text(200, format!("hello, {name}\n")),
//!             None => responder.text(400, "missing field: name\n"),
//!         }
//!     })
//! }
//! ```
//!
//! File names and types from the client are text, never paths. Data is written as it arrives, so a
//! client is never faster than the disk.

mod collector;

pub use collector::{Collector, FormError, FormLimit};

use bytes::Bytes;
use fulmar_proto::{Headers, Request};
use fulmar_server::{BodyHandler, HandlerResult, Responder};

use crate::temporary::{Temporary, TemporaryDir};

/// A complete form: its fields in order; names may repeat.
#[derive(Debug, Default)]
pub struct Form {
    /// The fields.
    pub fields: Vec<FormField>,
}

/// A field of a form.
#[derive(Debug)]
pub struct FormField {
    /// The name, usually in UTF-8.
    pub name: Vec<u8>,
    /// The value.
    pub value: Value,
}

/// The value of a field.
#[derive(Debug)]
pub enum Value {
    /// A text, usually in UTF-8.
    Text(Vec<u8>),
    /// A file.
    File(File),
}

/// A file of a form.
#[derive(Debug)]
pub struct File {
    /// The file name sent by the client, for display only: it may be empty, or `../../etc/passwd`.
    pub filename: Vec<u8>,
    /// The content type sent by the client.
    pub content_type: Option<Vec<u8>>,
    /// The content.
    pub content: Content,
}

/// The content of a file.
#[derive(Debug)]
pub enum Content {
    /// In memory.
    Memory(Vec<u8>),
    /// A temporary file, deleted on drop; [`Temporary::keep_new`] gives it a name.
    Temporary(Temporary),
}

impl Form {
    /// The value of the first field with this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let mut fields = self.fields.iter();
        fields.find(|field| field.name == name.as_bytes()).map(|field| &field.value)
    }

    /// The text of the first field with this name. `None` if it is a file, or not UTF-8.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            Value::Text(text) => str::from_utf8(text).ok(),
            Value::File(_) => None,
        }
    }

    /// Takes the file out of the first field with this name, and removes the field. `None` if it is
    /// a text.
    pub fn take_file(&mut self, name: &str) -> Option<File> {
        let at = self.fields.iter().position(|field| field.name == name.as_bytes())?;
        match self.fields[at].value {
            Value::Text(_) => None,
            Value::File(_) => match self.fields.remove(at).value {
                Value::File(file) => Some(file),
                Value::Text(_) => None,
            },
        }
    }
}

impl Content {
    /// The size in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Temporary(file) => file.len(),
        }
    }

    /// True if the size is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The limits of a form. A form is rejected as soon as it exceeds a limit.
#[derive(Clone, Debug)]
pub struct Options {
    /// Maximum size of the body in bytes, including framing and files.
    pub body_size_max: u64,
    /// Maximum number of fields.
    pub fields_max: u32,
    /// Maximum size of a text in bytes.
    pub text_size_max: usize,
    /// Maximum memory in bytes: names, texts, and files in memory.
    pub memory_max: usize,
    /// Maximum size of a file in bytes.
    pub file_size_max: u64,
    /// Storage of files.
    pub files: FileStorage,
}

/// Storage of the files of a form.
#[derive(Clone, Debug)]
pub enum FileStorage {
    /// Files are not accepted.
    Refuse,
    /// In memory.
    Memory,
    /// In temporary files in this directory.
    Temporary(TemporaryDir),
}

impl Default for Options {
    /// For forms without files.
    fn default() -> Self {
        Self {
            body_size_max: 2 << 20,
            fields_max: 1_000,
            text_size_max: 1 << 20,
            memory_max: 1 << 20,
            file_size_max: 0,
            files: FileStorage::Refuse,
        }
    }
}

impl Options {
    /// For forms with files up to this size, in temporary files, and with the same limit for all
    /// bytes.
    pub fn with_files(place: TemporaryDir, file_size_max: u64) -> Self {
        let usual = Self::default();
        Self {
            body_size_max: file_size_max.saturating_add(usual.body_size_max),
            file_size_max,
            files: FileStorage::Temporary(place),
            ..usual
        }
    }
}

/// Receives the form in the body of `request`, then calls `then`. If it is not a form, or exceeds
/// `options`, the error response is sent: see [`FormError::status`]. If the client closes the
/// connection, all temporary files are deleted.
///
/// # Errors
/// Passed on from `responder`.
pub fn collect(
    responder: &mut Responder<'_>,
    request: &Request<'_>,
    options: &Options,
    then: impl FnOnce(&mut Responder<'_>, Form) -> HandlerResult + 'static,
) -> HandlerResult {
    match Collector::new(request.headers, responder.body_len(), options.clone()) {
        Ok(collector) => responder.attach(FormReceiver { under_way: Some((collector, then)) }),
        Err(error) => refuse(responder, &error),
    }
}

fn refuse(responder: &mut Responder<'_>, error: &FormError) -> HandlerResult {
    responder.text(error.status(), format!("{error}\n"))
}

/// Receives a form as the body of a request. After a rejection, its data is dropped.
struct FormReceiver<F> {
    under_way: Option<(Collector, F)>,
}

impl<F: FnOnce(&mut Responder<'_>, Form) -> HandlerResult + 'static> BodyHandler
    for FormReceiver<F>
{
    fn data(&mut self, responder: &mut Responder<'_>, bytes: Bytes) -> HandlerResult {
        let Some((collector, _)) = &mut self.under_way else { return Ok(()) };
        match collector.push(bytes) {
            Ok(()) => Ok(()),
            Err(error) => {
                self.under_way = None;
                refuse(responder, &error)
            }
        }
    }

    fn end(&mut self, responder: &mut Responder<'_>, _: Headers<'_>) -> HandlerResult {
        let Some((collector, then)) = self.under_way.take() else { return Ok(()) };
        match collector.finish() {
            Ok(form) => then(responder, form),
            Err(error) => refuse(responder, &error),
        }
    }
}
