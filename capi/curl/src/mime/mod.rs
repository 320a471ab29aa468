//! MIME bodies as libcurl 7.88 sends them over HTTP: the parts of `curl_mime_*` as plain values,
//! the bytes of a form, its size, and a reader that holds no file in memory.
//!
//! Parts are built by the caller; [`MimeBody::new`] makes a body of them, once all parts are
//! complete. Files and callbacks are [`SourceId`]s there: the caller opens and reads them through
//! [`MimeSources`].
//!
//! ```
//! use fulmar_curl::mime::{FormEscape, Mime, MimeBody, MimeContent, MimePart, MimeRead};
//! # use fulmar_curl::mime::NoSources;
//! let mut form = Mime::new(*b"0123456789abcdef");
//! form.parts.push(MimePart {
//!     name: Some(b"a".to_vec()),
//!     content: MimeContent::Data(b"1".to_vec().into()),
//!     ..MimePart::default()
//! });
//! let mut body = MimeBody::new(form, None, FormEscape::Percent);
//! assert_eq!(body.size(), Some(137));
//! assert!(body.content_type().starts_with(b"multipart/form-data; boundary=-----"));
//! let mut buffer = [0; 200];
//! assert_eq!(body.read(&mut NoSources, &mut buffer), MimeRead::Data(137));
//! assert_eq!(&buffer[40..86], b"ef\r\nContent-Disposition: form-data; name=\"a\"\r\n");
//! ```

mod body;
mod encoder;
mod formpost;
mod head;

pub use body::{MimeBody, MimeRead, MimeSources, NoSources};
pub use encoder::MimeEncoder;
pub use formpost::{FormFile, FormPost, FormValue};
pub use head::{FormEscape, content_type_of};

use bytes::Bytes;

/// A multipart content: `curl_mime`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mime {
    /// See [`Mime::new`].
    pub boundary: Vec<u8>,
    /// In the order of the body.
    pub parts: Vec<MimePart>,
}

impl Mime {
    /// Without parts. The boundary has 24 dashes before these 16 characters, which are random
    /// hexadecimal digits.
    pub fn new(random: [u8; 16]) -> Self {
        let mut boundary = vec![b'-'; 24];
        boundary.extend_from_slice(&random);
        Self { boundary, parts: Vec::new() }
    }
}

/// A part: `curl_mimepart`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MimePart {
    /// The name of the field.
    pub name: Option<Vec<u8>>,
    /// The remote file name; for files by default the last component of their path.
    pub filename: Option<Vec<u8>>,
    /// The content type. By default, it is derived from the file name.
    pub mime_type: Option<Vec<u8>>,
    /// Header lines of the caller, without line ends.
    pub headers: Vec<Vec<u8>>,
    /// How the content is encoded.
    pub encoder: Option<MimeEncoder>,
    /// The content.
    pub content: MimeContent,
}

/// The content of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MimeContent {
    /// Not set.
    #[default]
    Empty,
    /// Bytes in memory.
    Data(Bytes),
    /// A file.
    File {
        /// Its path, which may decide the content type.
        path: Vec<u8>,
        /// Its name in [`MimeSources`].
        source: SourceId,
        /// `None` if it is not a regular file.
        size: Option<u64>,
    },
    /// A callback of the application.
    Callback {
        /// Its name in [`MimeSources`].
        source: SourceId,
        /// `None` if it is unknown.
        size: Option<u64>,
    },
    /// Parts below this one.
    Multipart(Mime),
}

/// A file or a callback; the caller chooses the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u64);

#[cfg(test)]
mod tests;
