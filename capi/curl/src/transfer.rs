//! The state of a transfer between `curl_multi_add_handle` and its end: requests that follow each
//! other, and what each has received and sent.

use std::time::Instant;

use bytes::Bytes;
use fulmar_client::TransferId;

use crate::decoding::BodyDecoder;
use crate::failure::Failure;
use crate::hop_response::HopResponse;
use crate::hop_target::HopTarget;

/// A transfer: one request, and those that redirects and challenges add.
#[derive(Debug)]
pub(crate) struct EasyTransfer {
    pub(crate) started: Instant,
    pub(crate) target: HopTarget,
    pub(crate) first_host: (String, u16),
    pub(crate) method: Vec<u8>,
    /// A redirect has dropped the body (RFC 9110 §15.4.4).
    pub(crate) drops_body: bool,
    pub(crate) redirects: i64,
    /// The client's transfer, while a request is under way.
    pub(crate) id: Option<TransferId>,
    pub(crate) response: HopResponse,
    pub(crate) download: DownloadState,
    pub(crate) upload: UploadState,
}

/// The way of a body to the write callback.
#[derive(Debug, Default)]
pub(crate) struct DownloadState {
    /// Body bytes of the current response.
    pub(crate) received: u64,
    pub(crate) decoder: BodyDecoder,
    /// Pieces that the callback has not accepted, in order.
    pub(crate) held: Vec<Bytes>,
    pub(crate) is_paused: bool,
    /// The exchange has ended while pieces were held.
    pub(crate) ended: Option<Result<(), Failure>>,
}

/// The way of a body from the read callback.
#[derive(Debug, Default)]
pub(crate) struct UploadState {
    pub(crate) sent: u64,
    /// Bytes still to read; `None`: until the callback returns 0.
    pub(crate) left: Option<u64>,
    pub(crate) is_paused: bool,
    /// The client has room for more.
    pub(crate) is_writable: bool,
    /// The read callback was used: another request has to rewind it.
    pub(crate) has_read: bool,
}
