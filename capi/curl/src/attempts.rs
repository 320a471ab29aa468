//! The requests of a transfer that were begun: what later ones know of earlier ones.

use crate::code::CurlCode;
use crate::failure::Failure;
use crate::handles::EasyState;
use crate::http2_upgrade::requests_http2;
use crate::option::OptionId;

/// True if a failed request is sent again: the server had closed a used connection before it read
/// the request, or at the same time. libcurl does so for every method.
pub(crate) fn retries_on_new_connection(
    state: &mut EasyState,
    is_reused: bool,
    result: &mut Result<(), Failure>,
) -> bool {
    let Some(transfer) = &mut state.transfer else { return false };
    let Err(failure) = result else { return false };
    let is_lost =
        matches!(failure.code, CurlCode::GotNothing | CurlCode::RecvError | CurlCode::SendError);
    let is_silent = !transfer.response.has_head
        && !transfer.response.has_interim
        && transfer.response.malformed.is_none()
        && transfer.download.received == 0;
    if !is_lost || !is_silent || !is_reused {
        return false;
    }
    if transfer.attempts.retries == RETRIES_MAX {
        let text = format!("Connection died, tried {RETRIES_MAX} times before giving up");
        *failure = Failure::new(CurlCode::SendError, text);
        return false;
    }
    transfer.attempts.retries += 1;
    state.headers.start_request();
    true
}

/// True if another tunnel is opened for a request: its own was closed before.
pub(crate) fn retries_tunnel(state: &mut EasyState) -> bool {
    let was_upgraded = requests_http2(state); // the server may have acted on the request
    let Some(transfer) = &mut state.transfer else { return false };
    transfer.attempts.retries += 1;
    transfer.attempts.retries <= RETRIES_MAX && !was_upgraded
}

/// An error response to a request whose body has not been sent: the rest is not sent. True if the
/// request is repeated without `Expect`.
pub(crate) fn stop_upload(state: &mut EasyState, status: u16) -> bool {
    let keeps_sending = state.options.values.is_on(OptionId::KEEP_SENDING_ON_ERROR);
    let Some(transfer) = &mut state.transfer else { return false };
    if status < 300 || transfer.upload.is_whole || !transfer.upload.has_body {
        return false;
    }
    let repeats = status == 417 && transfer.upload.expects;
    transfer.attempts.refuses_expect |= repeats;
    transfer.upload.is_stopped = repeats || !keeps_sending;
    repeats
}

/// `CONN_MAX_RETRIES` of libcurl.
const RETRIES_MAX: u32 = 5;
