//! Request bodies that the read callback supplies.

use std::rc::Rc;

use bytes::Bytes;

use crate::border::{CBorder, DebugKind, READ_ABORT, READ_PAUSE, SEEK_OK};
use crate::code::CurlCode;
use crate::custom_fields::CustomFields;
use crate::easy_options::RequestKind;
use crate::failure::Failure;
use crate::forms::FormUpload;
use crate::handles::{Easy, Multi};
use crate::mime::{FormEscape, MimeRead};
use crate::option::OptionId as Id;
use crate::updates::send_delay;
use crate::upload_lines::{converts, with_line_ends};

/// What a read callback returned.
pub(crate) enum ReadPiece {
    Bytes(Bytes),
    Paused,
}

impl Multi {
    /// Reads a piece of the body and sends it. `is_writable`: the client has room now.
    pub(crate) fn feed_upload(
        &self,
        easy: &Rc<Easy>,
        is_writable: bool,
        border: &dyn CBorder,
    ) -> Result<(), Failure> {
        let feed = easy.with_state(|state| {
            let upload_size = state.options.values.number(Id::UPLOAD_BUFFERSIZE);
            let transfer = state.transfer.as_mut()?;
            if !transfer.upload.has_body || transfer.upload.is_whole {
                return None; // WebSockets have frames, whose room does not concern the upload
            }
            transfer.upload.is_writable |= is_writable;
            let is_halted = transfer.upload.is_paused || transfer.upload.is_stopped;
            let id = transfer.id.filter(|_| transfer.upload.is_writable && !is_halted)?;
            let max = match state.options.values.number(Id::MAX_SEND_SPEED_LARGE) {
                ..=0 => upload_size,
                speed => upload_size.min(speed),
            };
            let upload = &transfer.upload;
            let max = if upload.is_chunked { max - CHUNK_FRAME_SIZE } else { max };
            let max = usize::try_from(max).unwrap_or(usize::MAX).max(1);
            Some((id, upload.left, max, converts(&state.options.values, upload)))
        });
        let Some((id, left, max, is_text)) = feed else { return Ok(()) };
        if easy.with_state(send_delay).is_some() {
            return Ok(());
        }
        let len = left.map_or(max, |left| max.min(usize::try_from(left).unwrap_or(usize::MAX)));
        let bytes = match len {
            0 => Bytes::new(),
            // The callback gets the whole buffer, and may return more than is left.
            len => match self.read_piece(easy, max, border)? {
                ReadPiece::Bytes(bytes) if is_text => with_line_ends(bytes),
                ReadPiece::Bytes(bytes) => bytes.slice(..len.min(bytes.len())),
                ReadPiece::Paused => {
                    easy.with_state(|state| {
                        if let Some(transfer) = &mut state.transfer {
                            transfer.upload.is_paused = true;
                        }
                    });
                    return Ok(());
                }
            },
        };
        let left = left.map(|left| left - bytes.len() as u64);
        if bytes.is_empty() && left.is_some_and(|left| left > 0) {
            return Err(Failure::new(
                CurlCode::PartialFile,
                "transfer closed with outstanding read data remaining",
            ));
        }
        let is_whole = bytes.is_empty() || left == Some(0);
        let trailers = if is_whole { self.trailers(easy, border)? } else { None };
        easy.with_state(|state| {
            if let Some(transfer) = &mut state.transfer {
                transfer.upload.left = left;
                transfer.upload.sent += bytes.len() as u64;
                transfer.upload.is_writable = false;
                transfer.upload.is_whole = is_whole;
            }
            state.info.sent += i64::try_from(bytes.len()).unwrap_or(i64::MAX);
        });
        self.debug(easy, DebugKind::DataOut, &bytes, border);
        self.reactor.borrow_mut().with(|client, now| {
            client.with(now, |_, context| {
                if !bytes.is_empty() {
                    context.send(id, bytes);
                }
                match trailers {
                    Some(trailers) => context.finish_with(id, trailers),
                    None if is_whole => context.finish(id),
                    None => {}
                }
            });
        });
        Ok(())
    }

    pub(crate) fn read_piece(
        &self,
        easy: &Easy,
        len: usize,
        border: &dyn CBorder,
    ) -> Result<ReadPiece, Failure> {
        let (function, data) = (easy.pointer(Id::READFUNCTION), easy.pointer(Id::READDATA));
        let mut buffer = vec![0; len];
        if let Some(read) = self.read_form(easy, &mut buffer, border)? {
            return match read {
                MimeRead::Data(len) => {
                    buffer.truncate(len);
                    Ok(ReadPiece::Bytes(buffer.into()))
                }
                MimeRead::Pause => Ok(ReadPiece::Paused),
                MimeRead::Abort => Err(aborted()),
                MimeRead::Failed => Err(unreadable()),
            };
        }
        easy.with_state(|state| {
            if let Some(transfer) = &mut state.transfer {
                transfer.upload.has_read = true;
            }
        });
        match self.call_for(easy, || border.read(function, data, &mut buffer))? {
            READ_ABORT => Err(aborted()),
            READ_PAUSE => Ok(ReadPiece::Paused),
            read if read <= len => {
                buffer.truncate(read);
                Ok(ReadPiece::Bytes(buffer.into()))
            }
            _ => Err(unreadable()),
        }
    }

    /// Reads the form of a transfer; `None` if there is none.
    fn read_form(
        &self,
        easy: &Easy,
        into: &mut [u8],
        border: &dyn CBorder,
    ) -> Result<Option<MimeRead>, Failure> {
        let form = easy.with_state(|state| state.transfer.as_mut()?.upload.form.take());
        let Some(mut form) = form else { return Ok(None) };
        let read = self.call_for(easy, || form.read(border, into))?;
        easy.with_state(|state| {
            if let Some(transfer) = &mut state.transfer {
                transfer.upload.form = Some(form);
            }
        });
        Ok(Some(read))
    }

    /// The form of a request; `None` if its body is another one, or the form is empty.
    pub(crate) fn form_of(
        &self,
        easy: &Easy,
        custom: &CustomFields,
        border: &dyn CBorder,
    ) -> Result<Option<Box<FormUpload>>, Failure> {
        let (request, is_wanted, options) = easy.with_state(|state| {
            let is_wanted = state.transfer.as_ref().is_some_and(|transfer| !transfer.drops_body);
            (state.options.request, is_wanted, state.options.values.number(Id::MIME_OPTIONS))
        });
        let escape = match options & MIME_OPTION_ESCAPE {
            0 => FormEscape::Percent,
            _ => FormEscape::Backslash,
        };
        let content_type = custom.find("Content-Type").map(|line| {
            let value = &line["Content-Type:".len()..];
            &value[value.iter().take_while(|byte| **byte == b' ').count()..]
        });
        let form = match request {
            RequestKind::PostMime if is_wanted => {
                FormUpload::of_tree(easy.form(), content_type, escape, border)
            }
            RequestKind::PostForm if is_wanted => {
                let list = easy.pointer(Id::HTTPPOST);
                let form = border.form(list, easy.pointer(Id::READFUNCTION));
                let is_empty = form.sections.is_empty();
                (!is_empty).then(|| FormUpload::of_posted(form, content_type, escape))
            }
            _ => None,
        };
        let Some(mut form) = form else { return Ok(None) };
        match self.call(|| form.rewind_sources(border)) {
            true => Ok(Some(Box::new(form))),
            false => Err(Failure::new(CurlCode::SendFailRewind, "")),
        }
    }

    /// Moves the application's body back to its start, for another request with it.
    pub(crate) fn rewind_upload(&self, easy: &Easy, border: &dyn CBorder) -> Result<(), Failure> {
        let fails = |text| Err(Failure::new(CurlCode::SendFailRewind, text));
        let (seek, ioctl) = (easy.pointer(Id::SEEKFUNCTION), easy.pointer(Id::IOCTLFUNCTION));
        if !seek.is_null() {
            let data = easy.pointer(Id::SEEKDATA);
            return match self.call_for(easy, || border.seek(seek, data, 0))? {
                SEEK_OK => Ok(()),
                error => fails(format!("seek callback returned error {error}")),
            };
        }
        if !ioctl.is_null() {
            let data = easy.pointer(Id::IOCTLDATA);
            return match self.call_for(easy, || border.restart_read(easy.handle, ioctl, data))? {
                0 => Ok(()),
                error => fails(format!("ioctl callback returned error {error}")),
            };
        }
        let is_file = easy.pointer(Id::READFUNCTION).is_null();
        match is_file && border.rewind_file(easy.pointer(Id::READDATA)) {
            true => Ok(()),
            false => fails("necessary data rewind wasn't possible".to_owned()),
        }
    }
}

fn aborted() -> Failure {
    Failure::new(CurlCode::AbortedByCallback, "operation aborted by callback")
}

fn unreadable() -> Failure {
    Failure::new(CurlCode::ReadError, "read function returned funny value")
}

/// What libcurl leaves free in its buffer for the size and the end of a chunk.
const CHUNK_FRAME_SIZE: i64 = 12;
/// `CURLMIMEOPT_FORMESCAPE`.
const MIME_OPTION_ESCAPE: i64 = 1;
