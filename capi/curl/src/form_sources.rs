//! The files and callbacks of a form, as data.

use std::cell::Cell;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use crate::mime::{FormPost, SourceId};
use crate::values::CPointer;

/// The callbacks of a part (`curl_mime_data_cb`).
#[derive(Debug, PartialEq, Eq)]
pub struct CallbackSource {
    /// Reads; `NULL` for `fread`.
    pub read: CPointer,
    /// Returns to the beginning; `NULL` if that is impossible.
    pub seek: CPointer,
    /// Called when the part has another content, or is freed.
    pub free: CPointer,
    /// The last argument of each.
    pub user: CPointer,
    /// A request has read from it: another one has to return to the beginning.
    pub has_read: Cell<bool>,
}

/// A file or a callback.
#[derive(Debug)]
pub enum FormSource {
    /// Opened when it is read.
    File {
        /// Its path.
        path: Vec<u8>,
        /// Only a regular file can be read again.
        is_regular: bool,
        /// While it is read.
        file: Option<File>,
        /// A request has read from it.
        has_read: Rc<Cell<bool>>,
    },
    /// Callbacks of the application.
    Callback(Rc<CallbackSource>),
}

/// The sources of a form, by their number.
#[derive(Debug, Default)]
pub struct FormSources(Vec<FormSource>);

/// The sections of a `struct curl_httppost`, and their sources.
#[derive(Debug, Default)]
pub struct PostedForm {
    /// The sections.
    pub sections: Vec<FormPost>,
    /// Their files and callbacks.
    pub sources: FormSources,
}

impl FormSources {
    /// Adds a source.
    pub fn add(&mut self, source: FormSource) -> SourceId {
        self.0.push(source);
        SourceId(self.0.len() as u64 - 1)
    }

    /// Adds a file. Returns its size too, if it is a regular file.
    pub fn add_file(&mut self, path: &[u8]) -> (SourceId, Option<u64>) {
        let (size, _) = file_size(path);
        let source = FormSource::File {
            path: path.to_vec(),
            is_regular: size.is_some(),
            file: None,
            has_read: Rc::default(),
        };
        (self.add(source), size)
    }

    /// All of them, for a request that begins.
    pub(crate) fn all(&mut self) -> &mut [FormSource] {
        &mut self.0
    }
}

/// The size of a regular file that can be read, and if a file can be read.
pub(crate) fn file_size(path: &[u8]) -> (Option<u64>, bool) {
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    let Ok(metadata) = std::fs::metadata(path) else { return (None, false) };
    // A pipe must not be opened here: that would wait for the other end.
    let is_readable = !metadata.is_file() || File::open(path).is_ok();
    (Some(metadata.len()).filter(|_| metadata.is_file() && is_readable), is_readable)
}
