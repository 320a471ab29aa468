//! The body of a request.

use bytes::Bytes;
use fulmar_client::RequestBody;

use crate::border::CBorder;
use crate::easy_options::RequestKind;
use crate::forms::FormUpload;
use crate::handles::EasyState;
use crate::option::OptionId as Id;
use crate::transfer::UploadState;

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
    let length = |id| u64::try_from(values.number(id)).ok();
    let streamed = |upload: &mut UploadState, len: Option<u64>| {
        *upload = UploadState { left: len, ..UploadState::default() };
        let body = if len == Some(0) { RequestBody::Empty } else { RequestBody::Stream(len) };
        HopBody { body, len, ..HopBody::none() }
    };
    match state.options.request {
        _ if transfer.drops_body => HopBody::none(),
        RequestKind::Get | RequestKind::Head => HopBody::none(),
        RequestKind::Put => streamed(&mut transfer.upload, length(Id::INFILESIZE_LARGE)),
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
                None => streamed(&mut transfer.upload, size),
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
