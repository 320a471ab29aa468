//! `file:` URLs: downloads and uploads of local files.
//!
//! libcurl reads and writes files with blocking calls in the turn that starts the transfer; so does
//! this. The host of the URL and its query have no meaning.

use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;

use crate::border::CBorder;
use crate::code::CurlCode;
use crate::document::meets_condition;
use crate::easy_options::EasyOptions;
use crate::escape::unescape;
use crate::failure::Failure;
use crate::file_range::FileSpan;
use crate::handles::{Easy, Multi};
use crate::header_list::HeaderOrigin;
use crate::held_body::HeldKind;
use crate::option::OptionId as Id;
use crate::stamp::http_date;
use crate::upload::ReadPiece;

impl Multi {
    /// Carries out a transfer of a file, and ends it.
    pub(crate) fn transfer_file(&self, easy: &Rc<Easy>, border: &dyn CBorder) {
        let result = self.run_file(easy, border);
        let result = match self.update(easy, true, border) {
            Err(failure) => result.and(Err(failure)),
            Ok(()) => result,
        };
        self.finish(easy, result, border);
    }

    fn run_file(&self, easy: &Rc<Easy>, border: &dyn CBorder) -> Result<(), Failure> {
        let (url_path, is_upload) = easy.with_state(|state| {
            let target = state.transfer.as_ref().map(|it| it.target.clone());
            let target = target.expect("its transfer is being started");
            state.request.url = Arc::clone(&target.url);
            (target.path.clone(), state.options.values.is_on(Id::UPLOAD))
        });
        let path = unescape(&url_path);
        if path.contains(&0) {
            return Err(Failure::new(CurlCode::UrlMalformat, ""));
        }
        if is_upload {
            return self.upload_file(easy, &path, border);
        }
        let file = File::open(Path::new(&OsString::from_vec(path))).map_err(|_| {
            let text = format!("Couldn't open file {}", String::from_utf8_lossy(&url_path));
            Failure::new(CurlCode::FileCouldntReadFile, text)
        })?;
        self.download_file(easy, file, border)
    }

    fn download_file(
        &self,
        easy: &Rc<Easy>,
        mut file: File,
        border: &dyn CBorder,
    ) -> Result<(), Failure> {
        let known = file.metadata().ok();
        let options = easy.with_state(|state| state.options.clone());
        if let Some(known) = &known {
            let modified = known.mtime();
            easy.with_state(|state| state.info.file_time = modified);
            let is_whole = FileSpan::is_whole(&options);
            let is_conditional = is_whole && options.values.is_on(Id::TIMECONDITION);
            if is_conditional && !meets_condition(&options, modified) {
                easy.with_state(|state| state.info.is_condition_unmet = true);
                return Ok(());
            }
            self.describe_file(easy, known, options.is_bodiless, border)?;
            if options.is_bodiless {
                return Ok(());
            }
        }
        let size = known.as_ref().filter(|known| !known.is_dir());
        let size = size.map(|known| i64::try_from(known.len()).unwrap_or(i64::MAX));
        let span = FileSpan::of(&options, size)?;
        if let Some(len) = span.len {
            easy.with_state(|state| state.info.content_length = len);
        }
        let start = u64::try_from(span.start).unwrap_or(0);
        if start > 0 && file.seek(SeekFrom::Start(start)).is_err() {
            return Err(Failure::new(CurlCode::BadDownloadResume, ""));
        }
        self.read_file(easy, file, span.len, border)
    }

    /// The lines that describe a file as a response would.
    fn describe_file(
        &self,
        easy: &Easy,
        known: &Metadata,
        is_bodiless: bool,
        border: &dyn CBorder,
    ) -> Result<(), Failure> {
        if !known.is_dir() {
            let len = i64::try_from(known.len()).unwrap_or(i64::MAX);
            self.write_header(
                easy,
                format!("Content-Length: {len}\r\n").as_bytes(),
                HEADER,
                border,
            )?;
            self.write_header(easy, b"Accept-ranges: bytes\r\n", HEADER, border)?;
            easy.with_state(|state| state.info.content_length = len);
        }
        let date = http_date(known.mtime()).unwrap_or_default();
        let end = if is_bodiless { "" } else { "\r\n" };
        self.write_header(
            easy,
            format!("Last-Modified: {date}\r\n{end}").as_bytes(),
            HEADER,
            border,
        )
    }

    fn read_file(
        &self,
        easy: &Rc<Easy>,
        mut file: File,
        len: Option<i64>,
        border: &dyn CBorder,
    ) -> Result<(), Failure> {
        let size = easy.with_state(|state| state.options.values.number(Id::BUFFERSIZE));
        let mut left = len;
        loop {
            let wanted = left.map_or(size - 1, |left| left.min(size));
            let mut buffer = vec![0; usize::try_from(wanted).unwrap_or(0)];
            // A directory cannot be read: it is empty.
            let read = file.read(&mut buffer).unwrap_or(0);
            if read == 0 {
                return self.update(easy, false, border);
            }
            buffer.truncate(read);
            let read = i64::try_from(read).unwrap_or(i64::MAX);
            left = left.map(|left| left - read);
            self.deliver_piece(easy, HeldKind::Body, Bytes::from(buffer), border)?;
            let is_paused = easy.with_state(|state| {
                state.info.received += read;
                state.transfer.as_ref().is_some_and(|it| it.download.is_paused)
            });
            if is_paused {
                let text = "Write callback asked for PAUSE when not supported";
                return Err(Failure::new(CurlCode::WriteError, text));
            }
            self.update(easy, false, border)?;
        }
    }

    fn upload_file(
        &self,
        easy: &Rc<Easy>,
        path: &[u8],
        border: &dyn CBorder,
    ) -> Result<(), Failure> {
        let slash = path.iter().position(|byte| *byte == b'/');
        if slash.is_none_or(|at| at + 1 == path.len()) {
            return Err(Failure::new(CurlCode::FileCouldntReadFile, ""));
        }
        let options = easy.with_state(|state| state.options.clone());
        let (mut file, mut skipped) = open_for_writing(path, &options)?;
        let length = options.values.number(Id::INFILESIZE_LARGE);
        easy.with_state(|state| state.info.upload_length = length);
        let size = usize::try_from(options.values.number(Id::BUFFERSIZE)).unwrap_or(usize::MAX);
        loop {
            let bytes = match self.read_piece(easy, size, border)? {
                ReadPiece::Bytes(bytes) => bytes,
                ReadPiece::Paused => {
                    let text = "Read callback asked for PAUSE when not supported";
                    return Err(Failure::new(CurlCode::ReadError, text));
                }
            };
            if bytes.is_empty() {
                return self.update(easy, false, border);
            }
            let skip = bytes.len().min(usize::try_from(skipped).unwrap_or(usize::MAX));
            skipped -= skip as u64;
            if file.write_all(&bytes[skip..]).is_err() {
                return Err(Failure::new(CurlCode::SendError, ""));
            }
            let sent = i64::try_from(bytes.len() - skip).unwrap_or(i64::MAX);
            easy.with_state(|state| state.info.sent += sent);
            self.update(easy, false, border)?;
        }
    }
}

/// Opens the target of an upload; also how many bytes of it exist, and are not to be written again.
fn open_for_writing(path: &[u8], options: &EasyOptions) -> Result<(File, u64), Failure> {
    let resumed = options.values.number(Id::RESUME_FROM_LARGE);
    let failed = |text: &str, end: &str| {
        let text = format!("{text} {}{end}", String::from_utf8_lossy(path));
        Failure::new(CurlCode::WriteError, text)
    };
    let mode = u32::try_from(options.values.number(Id::NEW_FILE_PERMS)).unwrap_or(0);
    let mut opening = OpenOptions::new();
    opening.create(true).mode(mode);
    match resumed {
        0 => opening.write(true).truncate(true),
        _ => opening.append(true),
    };
    let file = opening
        .open(Path::new(std::ffi::OsStr::from_bytes(path)))
        .map_err(|_| failed("Can't open", " for writing"))?;
    let skipped = match u64::try_from(resumed) {
        Ok(resumed) => resumed,
        Err(_) => file.metadata().map_err(|_| failed("Can't get the size of", ""))?.len(),
    };
    Ok((file, skipped))
}

/// The lines count as header fields.
const HEADER: Option<HeaderOrigin> = Some(HeaderOrigin::Header);
