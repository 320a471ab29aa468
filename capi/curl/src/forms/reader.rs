//! Reading the files and callbacks of a form.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::border::{CBorder, READ_ABORT, READ_PAUSE, SEEK_OK};
use crate::form_sources::{FormSource, FormSources};
use crate::mime::{MimeRead, MimeSources, SourceId};

/// Returns every source that a request has read to its beginning. False if one cannot.
pub(super) fn rewind_all(sources: &mut FormSources, border: &dyn CBorder) -> bool {
    let rewound = sources.all().iter_mut().map(|source| rewind(source, border));
    rewound.fold(true, |all, is_rewound| all & is_rewound)
}

/// Reads sources by calls into the application.
pub(super) struct SourceReader<'a> {
    pub(super) sources: &'a mut FormSources,
    pub(super) border: &'a dyn CBorder,
}

impl MimeSources for SourceReader<'_> {
    fn read(&mut self, source: SourceId, into: &mut [u8]) -> MimeRead {
        self.find(source).map_or(MimeRead::Failed, |(source, border)| read(source, border, into))
    }
}

impl SourceReader<'_> {
    fn find(&mut self, source: SourceId) -> Option<(&mut FormSource, &dyn CBorder)> {
        let at = usize::try_from(source.0).ok()?;
        Some((self.sources.all().get_mut(at)?, self.border))
    }
}

fn read(source: &mut FormSource, border: &dyn CBorder, into: &mut [u8]) -> MimeRead {
    match source {
        FormSource::File { path, file, has_read, .. } => {
            has_read.set(true);
            read_file(path, file, into)
        }
        FormSource::Callback(callback) => {
            callback.has_read.set(true);
            match border.read(callback.read, callback.user, into) {
                READ_PAUSE => MimeRead::Pause,
                READ_ABORT => MimeRead::Abort,
                len if len <= into.len() => MimeRead::Data(len),
                _ => MimeRead::Failed,
            }
        }
    }
}

fn rewind(source: &mut FormSource, border: &dyn CBorder) -> bool {
    match source {
        FormSource::File { has_read, .. } if !has_read.get() => true,
        FormSource::File { is_regular: false, .. } => false,
        FormSource::File { file, .. } => file.as_mut().is_none_or(|file| file.rewind().is_ok()),
        FormSource::Callback(callback) if !callback.has_read.get() => true,
        FormSource::Callback(callback) => {
            let has_seek = !callback.seek.is_null();
            has_seek && border.seek(callback.seek, callback.user, 0) == SEEK_OK
        }
    }
}

/// Fills the buffer as `fread` does. The file is closed at its end.
fn read_file(path: &[u8], file: &mut Option<File>, into: &mut [u8]) -> MimeRead {
    if file.is_none() {
        *file = File::open(Path::new(std::ffi::OsStr::from_bytes(path))).ok();
    }
    let Some(open) = file else { return MimeRead::Failed };
    let mut filled = 0;
    while filled < into.len() {
        match open.read(&mut into[filled..]) {
            Ok(0) => break,
            Ok(len) => filled += len,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    MimeRead::Data(filled)
}
