//! Builds a form from the bytes of a body, without a connection.

use std::{fmt, io};

use bytes::{Bytes, BytesMut};
use fulmar_proto::{BodyLen, Headers};
use fulmar_semantics::form::{
    FormEvent, FormLimits, Parser, ParserError, PartHead, URLENCODED, fields,
};

use super::{Content, File, FileStorage, Form, FormField, Options, Value};

/// A form that is being received.
#[derive(Debug)]
pub struct Collector {
    syntax: Syntax,
    options: Options,
    form: Form,
    /// The field that is being received.
    field: Option<FormField>,
    /// Bytes of the body received so far.
    received: u64,
    /// Bytes in memory, in `form` and in `syntax`.
    held: usize,
}

#[derive(Debug)]
enum Syntax {
    /// The body received so far; it is parsed when it is complete.
    Urlencoded(BytesMut),
    Multipart(Box<Parser>),
}

impl Collector {
    /// For the body of a request with these fields and this length.
    ///
    /// # Errors
    /// The body is not a form, or is longer than allowed.
    pub fn new(headers: Headers<'_>, len: BodyLen, options: Options) -> Result<Self, FormError> {
        let mut types = headers.get_all("Content-Type");
        let (Some(media), None) = (types.next(), types.next()) else {
            return Err(FormError::OtherType);
        };
        if headers.get_all("Content-Encoding").any(|how| !how.eq_ignore_ascii_case(b"identity")) {
            return Err(FormError::Coded);
        }
        let essence = media.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        let syntax = if essence.eq_ignore_ascii_case(URLENCODED.as_bytes()) {
            Syntax::Urlencoded(BytesMut::new())
        } else if essence.eq_ignore_ascii_case(b"multipart/form-data") {
            let limits = FormLimits { parts_max: options.fields_max, ..FormLimits::default() };
            Syntax::Multipart(Box::new(Parser::new(media, limits)?))
        } else {
            return Err(FormError::OtherType);
        };
        if matches!(len, BodyLen::Exact(len) if len > options.body_size_max) {
            return Err(FormError::TooLarge(FormLimit::Body));
        }
        Ok(Self { syntax, options, form: Form::default(), field: None, received: 0, held: 0 })
    }

    /// Adds bytes of the body. Must not be called after an error.
    ///
    /// # Errors
    /// The variant describes the error.
    pub fn push(&mut self, bytes: Bytes) -> Result<(), FormError> {
        self.received += bytes.len() as u64;
        if self.received > self.options.body_size_max {
            return Err(FormError::TooLarge(FormLimit::Body));
        }
        match &mut self.syntax {
            Syntax::Multipart(parser) => parser.push(bytes),
            Syntax::Urlencoded(text) => {
                text.extend_from_slice(&bytes);
                self.hold(bytes.len())?;
            }
        }
        while let Syntax::Multipart(parser) = &mut self.syntax {
            match parser.poll_event()? {
                None => break,
                Some(FormEvent::Part(head)) => self.begin(head)?,
                Some(FormEvent::Data(data)) => self.enter(&data)?,
                Some(FormEvent::PartEnd) => self.form.fields.extend(self.field.take()),
                Some(FormEvent::End) => {}
            }
        }
        Ok(())
    }

    /// Called when the body is complete.
    ///
    /// # Errors
    /// The form is incomplete, or exceeds a limit.
    pub fn finish(mut self) -> Result<Form, FormError> {
        match self.syntax {
            Syntax::Multipart(parser) => parser.finish()?,
            Syntax::Urlencoded(text) => {
                for (name, value) in fields(&text) {
                    if self.form.fields.len() >= self.options.fields_max as usize {
                        return Err(FormError::TooLarge(FormLimit::Fields));
                    }
                    if value.len() > self.options.text_size_max {
                        return Err(FormError::TooLarge(FormLimit::Text));
                    }
                    let value = Value::Text(value.into_owned());
                    self.form.fields.push(FormField { name: name.into_owned(), value });
                }
            }
        }
        Ok(self.form)
    }

    fn begin(&mut self, head: PartHead) -> Result<(), FormError> {
        let PartHead { name, filename, content_type } = head;
        let said = [Some(&name), filename.as_ref(), content_type.as_ref()];
        self.hold(said.into_iter().flatten().map(Vec::len).sum())?;
        let value = match filename {
            None => Value::Text(Vec::new()),
            Some(_) if matches!(self.options.files, FileStorage::Refuse) => {
                return Err(FormError::File);
            }
            // A temporary file is created with its first byte: an empty file input needs none.
            Some(filename) => {
                Value::File(File { filename, content_type, content: Content::Memory(Vec::new()) })
            }
        };
        self.field = Some(FormField { name, value });
        Ok(())
    }

    fn enter(&mut self, data: &[u8]) -> Result<(), FormError> {
        let field = self.field.as_mut().expect("data follows the head of a part");
        let text = match &mut field.value {
            Value::Text(text) => {
                if text.len() + data.len() > self.options.text_size_max {
                    return Err(FormError::TooLarge(FormLimit::Text));
                }
                text
            }
            Value::File(file) => {
                if file.content.len() + data.len() as u64 > self.options.file_size_max {
                    return Err(FormError::TooLarge(FormLimit::File));
                }
                match (&mut file.content, &self.options.files) {
                    (Content::Temporary(file), _) => {
                        return file.write_all(data).map_err(FormError::Storage);
                    }
                    (content, FileStorage::Temporary(place)) => {
                        let mut file = place.create().map_err(FormError::Storage)?;
                        file.write_all(data).map_err(FormError::Storage)?;
                        *content = Content::Temporary(file);
                        return Ok(());
                    }
                    (Content::Memory(bytes), _) => bytes,
                }
            }
        };
        text.extend_from_slice(data);
        self.hold(data.len())
    }

    /// Counts bytes kept in memory.
    fn hold(&mut self, size: usize) -> Result<(), FormError> {
        self.held += size;
        let is_allowed = self.held <= self.options.memory_max;
        is_allowed.then_some(()).ok_or(FormError::TooLarge(FormLimit::Memory))
    }
}

/// Why a form was rejected.
#[derive(Debug)]
#[non_exhaustive]
pub enum FormError {
    /// `Content-Type` is missing, or is not that of a form.
    OtherType,
    /// The body is compressed, or has another content coding.
    Coded,
    /// The body does not match `Content-Type`.
    Malformed(ParserError),
    /// The form has a file, and files are not allowed.
    File,
    /// A part of the form exceeds its limit.
    TooLarge(FormLimit),
    /// A file could not be created or written.
    Storage(io::Error),
}

/// The part of a form that is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormLimit {
    /// [`Options::body_size_max`].
    Body,
    /// [`Options::fields_max`].
    Fields,
    /// [`Options::text_size_max`].
    Text,
    /// [`Options::memory_max`].
    Memory,
    /// [`Options::file_size_max`].
    File,
}

impl FormError {
    /// The status of the response: 400, 413, 415, 500, or 507 if the disk is full (RFC 4918 §11.5).
    pub fn status(&self) -> u16 {
        match self {
            Self::OtherType | Self::Coded => 415,
            Self::Malformed(ParserError::HeadTooLarge | ParserError::TooManyParts)
            | Self::TooLarge(_) => 413,
            Self::Malformed(_) | Self::File => 400,
            Self::Storage(error) if error.kind() == io::ErrorKind::FileTooLarge => 413,
            Self::Storage(error) if is_full(error) => 507,
            Self::Storage(_) => 500,
        }
    }
}

/// True if the disk is full, or our quota is used up.
fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

impl From<ParserError> for FormError {
    fn from(error: ParserError) -> Self {
        Self::Malformed(error)
    }
}

impl fmt::Display for FormError {
    /// For the client: without details of local failures.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherType => f.write_str(
                "expected a form (multipart/form-data or application/x-www-form-urlencoded)",
            ),
            Self::Coded => f.write_str("expected a form without content coding"),
            Self::Malformed(error) => error.fmt(f),
            Self::File => f.write_str("files are not accepted"),
            Self::TooLarge(FormLimit::Body) => f.write_str("the form is too large"),
            Self::TooLarge(FormLimit::Fields) => f.write_str("the form has too many fields"),
            Self::TooLarge(FormLimit::Text) => f.write_str("a field of the form is too large"),
            Self::TooLarge(FormLimit::Memory) => {
                f.write_str("the fields of the form are too large")
            }
            Self::TooLarge(FormLimit::File) => f.write_str("a file of the form is too large"),
            Self::Storage(error) if is_full(error) => f.write_str("no space left for the file"),
            Self::Storage(_) => f.write_str("the file could not be stored"),
        }
    }
}

impl std::error::Error for FormError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Malformed(error) => Some(error),
            Self::Storage(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
