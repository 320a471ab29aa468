//! Forms of `curl_formadd`, the older interface, as MIME parts.

use bytes::Bytes;

use super::{Mime, MimeContent, MimePart, SourceId, content_type_of};

/// A section of `curl_formadd`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormPost {
    /// `CURLFORM_COPYNAME` or `CURLFORM_PTRNAME`.
    pub name: Vec<u8>,
    /// `CURLFORM_CONTENTHEADER` of a value that is not a file.
    pub headers: Vec<Vec<u8>>,
    /// `CURLFORM_CONTENTTYPE` of a value that is not a file.
    pub content_type: Option<Vec<u8>>,
    /// The content.
    pub value: FormValue,
}

/// The content of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormValue {
    /// `CURLFORM_COPYCONTENTS` or `CURLFORM_PTRCONTENTS`.
    Contents(Bytes),
    /// `CURLFORM_FILECONTENT`: the content of a file, without its name.
    FileContent(FormFile),
    /// `CURLFORM_FILE`; several files make a part with parts.
    Files(Vec<FormFile>),
    /// `CURLFORM_BUFFER` with its file name.
    Buffer(Vec<u8>, Bytes),
    /// `CURLFORM_STREAM`, with a file name.
    Stream(SourceId, Option<u64>, Option<Vec<u8>>),
}

/// A file of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormFile {
    /// The path.
    pub path: Vec<u8>,
    /// Its name in [`super::MimeSources`].
    pub source: SourceId,
    /// `None` if it is not a regular file.
    pub size: Option<u64>,
    /// `CURLFORM_CONTENTTYPE` of this file.
    pub content_type: Option<Vec<u8>>,
    /// `CURLFORM_FILENAME`, instead of the last component of the path. That of the first file is
    /// for all files of a section, the others are ignored.
    pub filename: Option<Vec<u8>>,
    /// `CURLFORM_CONTENTHEADER` of this file.
    pub headers: Vec<Vec<u8>>,
}

impl FormPost {
    /// The sections as parts. `boundary` returns 16 random hexadecimal digits, for the form and for
    /// each section with several files.
    pub fn into_mime(sections: Vec<Self>, mut boundary: impl FnMut() -> [u8; 16]) -> Mime {
        let mut form = Mime::new(boundary());
        form.parts = sections.into_iter().map(|section| section.into_part(&mut boundary)).collect();
        form
    }

    fn into_part(self, boundary: &mut impl FnMut() -> [u8; 16]) -> MimePart {
        let mut part = match self.value {
            FormValue::Contents(data) => content_part(MimeContent::Data(data)),
            FormValue::FileContent(file) => {
                MimePart { filename: None, ..file.into_part(None, &mut None, false) }
            }
            FormValue::Files(files) => files_part(files, boundary),
            FormValue::Buffer(filename, data) => MimePart {
                mime_type: Some(typed(&filename, &None)),
                filename: Some(filename),
                ..content_part(MimeContent::Data(data))
            },
            FormValue::Stream(source, size, filename) => {
                MimePart { filename, ..content_part(MimeContent::Callback { source, size }) }
            }
        };
        part.name = Some(self.name);
        part.headers.extend(self.headers);
        part.mime_type = self.content_type.or(part.mime_type);
        part
    }
}

/// One file, or several below a part. A file of unknown type has the type of the file before it.
fn files_part(files: Vec<FormFile>, boundary: &mut impl FnMut() -> [u8; 16]) -> MimePart {
    let shown = files.first().and_then(|file| file.filename.clone());
    let mut previous = None;
    let mut into_part = |file: FormFile| file.into_part(shown.clone(), &mut previous, true);
    let mut parts: Vec<_> = files.into_iter().map(&mut into_part).collect();
    if parts.len() == 1 {
        return parts.remove(0);
    }
    content_part(MimeContent::Multipart(Mime { parts, ..Mime::new(boundary()) }))
}

impl FormFile {
    fn into_part(
        self,
        shown: Option<Vec<u8>>,
        previous: &mut Option<Vec<u8>>,
        is_typed: bool,
    ) -> MimePart {
        let guess = || is_typed.then(|| typed(&self.path, previous));
        let mime_type = self.content_type.clone().or_else(guess);
        previous.clone_from(&mime_type);
        let base = self.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if self.path == b"-" {
            // The standard input, which has no name.
            let content = MimeContent::Callback { source: self.source, size: self.size };
            let headers = self.headers;
            return MimePart { filename: shown, mime_type, headers, ..content_part(content) };
        }
        let filename = Some(shown.unwrap_or_else(|| base.to_vec()));
        let content = MimeContent::File { path: self.path, source: self.source, size: self.size };
        MimePart { filename, mime_type, headers: self.headers, ..content_part(content) }
    }
}

fn typed(filename: &[u8], previous: &Option<Vec<u8>>) -> Vec<u8> {
    let of_name = content_type_of(filename).map(|name| name.as_bytes().to_vec());
    let known = of_name.or_else(|| previous.clone());
    known.unwrap_or_else(|| b"application/octet-stream".to_vec())
}

fn content_part(content: MimeContent) -> MimePart {
    MimePart { content, ..MimePart::default() }
}
