//! What follows a response: a redirect, or nothing.

use std::rc::Rc;
use std::sync::Arc;

use fulmar_sys as sys;

use crate::code::CurlCode;
use crate::easy_options::RequestKind;
use crate::failure::Failure;
use crate::handles::EasyState;
use crate::info::TransferInfo;
use crate::option::OptionId as Id;
use crate::transfer::EasyTransfer;

/// Prepares the next request after a redirect. False if there is none.
pub(crate) fn follow(state: &mut EasyState) -> Result<bool, Failure> {
    let values = &state.options.values;
    let Some(transfer) = &mut state.transfer else { return Ok(false) };
    if transfer.response.repeats {
        return repeat(transfer, &mut state.info, values.number(Id::MAXREDIRS));
    }
    let Some(location) = transfer.response.location.take() else { return Ok(false) };
    if !values.is_on(Id::FOLLOWLOCATION) {
        state.info.redirect_url = Some(transfer.target.would_be(&location));
        return Ok(false);
    }
    let max = values.number(Id::MAXREDIRS);
    if max >= 0 && transfer.redirects >= max {
        state.info.redirect_url = Some(transfer.target.would_be(&location));
        return Err(Failure::new(
            CurlCode::TooManyRedirects,
            format!("Maximum ({max}) redirects followed"),
        ));
    }
    // Also if the target is refused.
    transfer.redirects += 1;
    state.info.redirects = transfer.redirects;
    if values.is_on(Id::AUTOREFERER) {
        state.info.referer = transfer.target.referer();
    }
    let next = transfer.target.join(&location, &state.options)?;
    state.info.redirect = sys::now().saturating_duration_since(transfer.started);
    let is_post =
        !matches!(state.options.request, RequestKind::Get | RequestKind::Head | RequestKind::Put);
    let keeps = values.number(Id::POSTREDIR);
    let becomes_get = match transfer.response.status {
        301 => is_post && keeps & REDIR_POST_301 == 0,
        302 => is_post && keeps & REDIR_POST_302 == 0,
        303 => {
            state.options.request != RequestKind::Head && !(is_post && keeps & REDIR_POST_303 != 0)
        }
        _ => false,
    };
    if becomes_get && !transfer.drops_body {
        transfer.drops_body = true;
        if values.bytes(Id::CUSTOMREQUEST).is_none() {
            transfer.method = b"GET"[..].into();
        }
    }
    let next = state.apply_hsts(Rc::new(next))?;
    if let Some(transfer) = &mut state.transfer {
        state.request.url = Arc::clone(&next.url);
        transfer.target = next;
    }
    Ok(true)
}

/// The same request again, with other credentials. It counts as a redirect.
fn repeat(transfer: &mut EasyTransfer, info: &mut TransferInfo, max: i64) -> Result<bool, Failure> {
    if max >= 0 && transfer.redirects >= max {
        return Err(Failure::new(
            CurlCode::TooManyRedirects,
            format!("Maximum ({max}) redirects followed"),
        ));
    }
    transfer.redirects += 1;
    info.redirects = transfer.redirects;
    Ok(true)
}

/// Bits of `CURLOPT_POSTREDIR`.
const REDIR_POST_301: i64 = 1;
const REDIR_POST_302: i64 = 2;
const REDIR_POST_303: i64 = 4;
