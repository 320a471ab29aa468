//! Forms: their fields in memory, their files in memory or on a disk, within limits.
//!
//! ```no_run
//! use fulmar_proto::Request;
//! use fulmar_server::{Call, Outcome};
//! use fulmar_web::form::{self, Options};
//!
//! fn greet(call: &mut Call<'_>, request: &Request<'_>) -> Outcome {
//!     form::collect(call, request, &Options::default(), |call, form| {
//!         match form.text("name") {
//!             Some(name) => call.text(200, format!("hello, {name}\n")),
//!             None => call.text(400, "who are you?\n"),
//!         }
//!     })
//! }
//! ```
//!
//! What the client says of a file, its name above all, is text and never a path. Data are written
//! as they arrive, so a client is never faster than the disk.

mod collector;

pub use collector::{Collector, FormError, Part};

use bytes::Bytes;
use fulmar_proto::{Headers, Request};
use fulmar_server::{Call, Outcome, Work};

use crate::temporary::{Place, Temporary};

/// A form that has come in whole: its fields in order, several of one name among them.
#[derive(Debug, Default)]
pub struct Form {
    /// The fields.
    pub fields: Vec<Field>,
}

/// A field of a form.
#[derive(Debug)]
pub struct Field {
    /// Its name: mostly UTF-8.
    pub name: Vec<u8>,
    /// What was entered.
    pub value: Value,
}

/// What was entered in a field.
#[derive(Debug)]
pub enum Value {
    /// A text: mostly UTF-8.
    Text(Vec<u8>),
    /// A file.
    File(File),
}

/// A file of a form.
#[derive(Debug)]
pub struct File {
    /// What the client calls it: perhaps nothing, perhaps `../../etc/passwd`. For showing only.
    pub filename: Vec<u8>,
    /// What the client says that it is.
    pub content_type: Option<Vec<u8>>,
    /// What it holds.
    pub content: Content,
}

/// What a file holds.
#[derive(Debug)]
pub enum Content {
    /// All of it, here.
    Memory(Vec<u8>),
    /// On the disk, for as long as this is kept; [`Temporary::keep_new`] gives it a name.
    Temporary(Temporary),
}

impl Form {
    /// The first field of this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let mut fields = self.fields.iter();
        fields.find(|field| field.name == name.as_bytes()).map(|field| &field.value)
    }

    /// The text of the first field of this name. `None` if it is a file, or not UTF-8.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            Value::Text(text) => str::from_utf8(text).ok(),
            Value::File(_) => None,
        }
    }

    /// Takes the file out of the first field of this name, which is gone then. `None` if it is a
    /// text.
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
    /// How many bytes it has.
    pub fn len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Temporary(file) => file.len(),
        }
    }

    /// True if it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What a form may have. Whatever is beyond is refused as soon as that is known.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of the body, framing and files and all.
    pub body_size_max: u64,
    /// Fields.
    pub fields_max: u32,
    /// Bytes of one text.
    pub text_size_max: usize,
    /// Bytes of all that is kept in memory: names, texts, and files if they are kept there.
    pub memory_max: usize,
    /// Bytes of one file.
    pub file_size_max: u64,
    /// Where files go.
    pub files: Files,
}

/// Where the files of a form go.
#[derive(Clone, Debug)]
pub enum Files {
    /// There must be none.
    Refuse,
    /// Into memory.
    Memory,
    /// Into temporary files there.
    Temporary(Place),
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
            files: Files::Refuse,
        }
    }
}

impl Options {
    /// For forms with files up to this size, each in a temporary file, and as many bytes in all.
    pub fn with_files(place: Place, file_size_max: u64) -> Self {
        let usual = Self::default();
        Self {
            body_size_max: file_size_max.saturating_add(usual.body_size_max),
            file_size_max,
            files: Files::Temporary(place),
            ..usual
        }
    }
}

/// Collects the form that comes as the body of `request`, and has `then` go on with it. What is no
/// form, or more than `options` allow, is answered: see [`FormError::status`]. A client that goes
/// away leaves nothing behind.
///
/// # Errors
/// Passed on from `call`.
pub fn collect(
    call: &mut Call<'_>,
    request: &Request<'_>,
    options: &Options,
    then: impl FnOnce(&mut Call<'_>, Form) -> Outcome + 'static,
) -> Outcome {
    match Collector::new(request.headers, call.body_len(), options.clone()) {
        Ok(collector) => call.attach(Collect { under_way: Some((collector, then)) }),
        Err(error) => refuse(call, &error),
    }
}

fn refuse(call: &mut Call<'_>, error: &FormError) -> Outcome {
    call.text(error.status(), format!("{error}\n"))
}

/// A form on its way. Nothing is left of it once it is refused.
struct Collect<F> {
    under_way: Option<(Collector, F)>,
}

impl<F: FnOnce(&mut Call<'_>, Form) -> Outcome + 'static> Work for Collect<F> {
    fn data(&mut self, call: &mut Call<'_>, bytes: Bytes) -> Outcome {
        let Some((collector, _)) = &mut self.under_way else { return Ok(()) };
        match collector.push(bytes) {
            Ok(()) => Ok(()),
            Err(error) => {
                self.under_way = None;
                refuse(call, &error)
            }
        }
    }

    fn end(&mut self, call: &mut Call<'_>, _: Headers<'_>) -> Outcome {
        let Some((collector, then)) = self.under_way.take() else { return Ok(()) };
        match collector.finish() {
            Ok(form) => then(call, form),
            Err(error) => refuse(call, &error),
        }
    }
}
