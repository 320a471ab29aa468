//! `CURLOPT_RESUME_FROM` for uploads, returning a body to its beginning, the trailers behind it.

use fulmar_proto::HeaderBuf;

use crate::border::{CBorder, READ_ABORT, SEEK_CANNOT, SEEK_OK};
use crate::code::CurlCode;
use crate::easy_options::RequestKind;
use crate::failure::Failure;
use crate::handles::{Easy, Multi};
use crate::option::OptionId as Id;

impl Multi {
    /// Moves the body to the place where it begins in the next request.
    pub(crate) fn prepare_upload(&self, easy: &Easy, border: &dyn CBorder) -> Result<(), Failure> {
        let must_rewind = easy.with_state(|state| {
            let Some(transfer) = &mut state.transfer else { return false };
            std::mem::take(&mut transfer.upload.has_read) && !transfer.drops_body
        });
        if must_rewind {
            self.rewind_upload(easy, border)?;
        }
        self.resume_upload(easy, border)
    }

    /// Moves the body of a first request to the place where it resumes.
    fn resume_upload(&self, easy: &Easy, border: &dyn CBorder) -> Result<(), Failure> {
        let Some((from, size)) = easy.with_state(|state| {
            let values = &state.options.values;
            let from = u64::try_from(values.number(Id::RESUME_FROM_LARGE)).unwrap_or(0);
            let is_fields = values.bytes(Id::COPYPOSTFIELDS).is_some()
                || !values.pointer(Id::POSTFIELDS).is_null();
            let size = match state.options.request {
                RequestKind::Put => values.number(Id::INFILESIZE_LARGE),
                RequestKind::Post if !is_fields => values.number(Id::POSTFIELDSIZE_LARGE),
                _ => return None,
            };
            let transfer = state.transfer.as_mut()?;
            let is_first = transfer.redirects == 0 && !transfer.attempts.has_resumed;
            transfer.attempts.has_resumed |= from > 0;
            (from > 0 && is_first).then_some((from, size))
        }) else {
            return Ok(());
        };
        let (seek, data) = (easy.pointer(Id::SEEKFUNCTION), easy.pointer(Id::SEEKDATA));
        let sought = match (seek.is_null(), i64::try_from(from)) {
            (false, Ok(from)) => self.call_for(easy, || border.seek(seek, data, from))?,
            _ => SEEK_CANNOT,
        };
        match sought {
            SEEK_OK => {}
            SEEK_CANNOT => self.skip_upload(easy, from, border)?,
            _ => return Err(Failure::new(CurlCode::ReadError, "Could not seek stream")),
        }
        match u64::try_from(size) {
            Ok(size) if size > 0 && size <= from => {
                Err(Failure::new(CurlCode::PartialFile, "File already completely uploaded"))
            }
            _ => Ok(()),
        }
    }

    /// Reads and drops the first bytes of the body.
    fn skip_upload(&self, easy: &Easy, len: u64, border: &dyn CBorder) -> Result<(), Failure> {
        let (function, data) = (easy.pointer(Id::READFUNCTION), easy.pointer(Id::READDATA));
        let size = easy.with_state(|state| state.options.values.number(Id::BUFFERSIZE));
        let mut buffer = vec![0; usize::try_from(size).unwrap_or(SKIP_SIZE)];
        let mut passed = 0;
        while passed < len {
            let max = buffer.len().min(usize::try_from(len - passed).unwrap_or(usize::MAX));
            let read = self.call_for(easy, || border.read(function, data, &mut buffer[..max]))?;
            // READ_ABORT is larger than every buffer.
            debug_assert!(max < READ_ABORT);
            // libcurl counts what the callback returned before it looks at it.
            passed += read as u64;
            if read == 0 || read > max {
                let text = format!("Could only read {passed} bytes from the input");
                return Err(Failure::new(CurlCode::ReadError, text));
            }
        }
        Ok(())
    }

    /// The trailers behind a body in chunks, if `CURLOPT_TRAILERFUNCTION` is set.
    pub(crate) fn trailers(
        &self,
        easy: &Easy,
        border: &dyn CBorder,
    ) -> Result<Option<HeaderBuf>, Failure> {
        let (function, data) = (easy.pointer(Id::TRAILERFUNCTION), easy.pointer(Id::TRAILERDATA));
        let is_chunked = easy.with_state(|state| {
            state.transfer.as_ref().is_some_and(|transfer| transfer.upload.is_chunked)
        });
        if function.is_null() || !is_chunked {
            return Ok(None);
        }
        let Some(lines) = self.call_for(easy, || border.trailers(function, data))? else {
            return Err(Failure::new(
                CurlCode::AbortedByCallback,
                "operation aborted by trailing headers callback",
            ));
        };
        let mut trailers = HeaderBuf::new();
        for line in lines {
            // Lines without a colon and a space are skipped, as by libcurl.
            let Some(colon) = memchr::memchr(b':', &line) else { continue };
            let (name, value) = (&line[..colon], &line[colon + 1..]);
            if let (Ok(name), Some(value)) = (std::str::from_utf8(name), value.strip_prefix(b" ")) {
                let _ = trailers.push(name, value); // a malformed one is skipped, too
            }
        }
        Ok(Some(trailers))
    }
}

/// `CURLOPT_BUFFERSIZE` by default.
const SKIP_SIZE: usize = 16_384;
