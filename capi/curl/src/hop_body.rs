//! The body of a request.

use bytes::Bytes;
use fulmar_client::RequestBody;

use crate::border::CBorder;
use crate::easy_options::RequestKind;
use crate::forms::FormUpload;
use crate::handles::EasyState;
use crate::option::OptionId as Id;
use crate::transfer::UploadState;
use crate::upload_lines::sent_len;

/// A request's body, and how its head announces it.
pub(crate) struct HopBody {
    pub(crate) body: RequestBody,
    pub(crate) len: Option<u64>,
    /// The fields that a form needs.
    pub(crate) lines: Vec<Vec<u8>>,
}

impl HopBody {
    fn none() -> Self {
        Self { body: RequestBody::Empty, len: None, lines: Vec::new() }
    }
}

/// The body of the current request; `form` if it is one.
pub(crate) fn hop_body(
    state: &mut EasyState,
    form: Option<Box<FormUpload>>,
    border: &dyn CBorder,
) -> HopBody {
    let values = &state.options.values;
    let Some(transfer) = &mut state.transfer else {
        return HopBody::none();
    };
    transfer.upload.reset();
    let length = |id| u64::try_from(values.number(id)).ok();
    let streamed = |upload: &mut UploadState, len: Option<u64>| {
        *upload = UploadState { left: len, ..UploadState::default() };
        let body = if len == Some(0) { RequestBody::Empty } else { RequestBody::Stream(len) };
        HopBody { body, len, ..HopBody::none() }
    };
    // Of an empty body nothing is skipped.
    let from = u64::try_from(values.number(Id::RESUME_FROM_LARGE)).unwrap_or(0);
    let from = if transfer.attempts.has_resumed { from } else { 0 };
    let skipped = |len: u64| if len > 0 { from } else { 0 };
    match state.options.request {
        _ if transfer.drops_body => HopBody::none(),
        RequestKind::Get | RequestKind::Head => HopBody::none(),
        RequestKind::Put => {
            let len = length(Id::INFILESIZE_LARGE).map(|len| len.saturating_sub(skipped(len)));
            streamed(&mut transfer.upload, sent_len(values, len))
        }
        RequestKind::Post => {
            let size = length(Id::POSTFIELDSIZE_LARGE);
            let fields = match (values.bytes(Id::COPYPOSTFIELDS), values.pointer(Id::POSTFIELDS)) {
                (Some(copied), _) => Some(Bytes::copy_from_slice(copied)),
                (None, pointer) if pointer.is_null() => None,
                (None, pointer) => {
                    let size = size.map(|size| usize::try_from(size).unwrap_or(usize::MAX));
                    Some(border.memory(pointer, size).into())
                }
            };
            match fields {
                Some(fields) => {
                    let fields = match size {
                        Some(size) => fields
                            .slice(..fields.len().min(usize::try_from(size).unwrap_or(usize::MAX))),
                        None => fields,
                    };
                    let len = Some(fields.len() as u64);
                    let body = if fields.is_empty() {
                        RequestBody::Empty
                    } else {
                        RequestBody::Bytes(fields)
                    };
                    HopBody { body, len, ..HopBody::none() }
                }
                None => {
                    let len = size.map(|len| len.saturating_sub(skipped(len)));
                    streamed(&mut transfer.upload, sent_len(values, len))
                }
            }
        }
        RequestKind::PostForm | RequestKind::PostMime => match form {
            Some(form) => {
                let line = [b"Content-Type: ", form.content_type()].concat();
                let body = streamed(&mut transfer.upload, form.size());
                transfer.upload.form = Some(form);
                HopBody { lines: vec![line], ..body }
            }
            None => HopBody { len: Some(0), ..HopBody::none() },
        },
    }
}

/// How a body is sent: in chunks if its head says so, and without them if the head declares none
/// for a body of unknown length.
pub(crate) fn framed(body: RequestBody, is_chunked: bool, is_post: bool) -> RequestBody {
    match (body, is_chunked) {
        (RequestBody::Bytes(bytes), true) => RequestBody::Bytes(in_chunks(&bytes).into()),
        (RequestBody::Empty, true) if is_post => RequestBody::Bytes(in_chunks(b"").into()),
        (RequestBody::Stream(_), true) => RequestBody::Stream(None),
        (body, _) => body,
    }
}

/// Bytes in chunks, as large as those of libcurl, with the last one.
fn in_chunks(bytes: &[u8]) -> Vec<u8> {
    let size = if bytes.len() < SMALL_POST_SIZE { SMALL_POST_SIZE } else { CHUNK_SIZE };
    let mut out = Vec::with_capacity(bytes.len() + 32);
    for chunk in bytes.chunks(size) {
        out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        out.extend_from_slice(chunk);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"0\r\n\r\n");
    out
}

/// A smaller body is sent together with its head, in one chunk.
const SMALL_POST_SIZE: usize = 64 * 1024;
/// What fits into the buffer of an upload beside the size of a chunk.
const CHUNK_SIZE: usize = 64 * 1024 - 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_sent_in_the_chunks_of_libcurl() {
        assert_eq!(in_chunks(b""), b"0\r\n\r\n");
        assert_eq!(in_chunks(b"we post this"), b"c\r\nwe post this\r\n0\r\n\r\n");
        let large = in_chunks(&[b'x'; SMALL_POST_SIZE]);
        assert!(
            large.starts_with(b"fff4\r\nx")
                && large.ends_with(b"\r\nc\r\nxxxxxxxxxxxx\r\n0\r\n\r\n")
        );
        assert_eq!(in_chunks(&[b'x'; SMALL_POST_SIZE - 1])[..6], *b"ffff\r\n");
    }
}
