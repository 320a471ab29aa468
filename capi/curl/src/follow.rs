//! What follows a response: a redirect, or nothing.

use crate::code::CurlCode;
use crate::easy_options::RequestKind;
use crate::failure::Failure;
use crate::handles::EasyState;
use crate::option::OptionId as Id;

/// Prepares the next request after a redirect. False if there is none.
pub(crate) fn follow(state: &mut EasyState) -> Result<bool, Failure> {
    let values = &state.options.values;
    let Some(transfer) = &mut state.transfer else { return Ok(false) };
    let Some(location) = transfer.response.location.take() else { return Ok(false) };
    let next = transfer.target.join(&location, &state.options);
    if !values.is_on(Id::FOLLOWLOCATION) {
        state.info.redirect_url = next.ok().map(|target| target.url);
        return Ok(false);
    }
    let max = values.number(Id::MAXREDIRS);
    if max >= 0 && transfer.redirects >= max {
        return Err(Failure::new(
            CurlCode::TooManyRedirects,
            format!("Maximum ({max}) redirects followed"),
        ));
    }
    let mut next = next?;
    let is_same_host = next.host.eq_ignore_ascii_case(&transfer.target.host);
    if next.user.is_none() && is_same_host {
        next.user = transfer.target.user.take();
        next.password = transfer.target.password.take();
    }
    transfer.redirects += 1;
    state.info.redirects = transfer.redirects;
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
            transfer.method = b"GET".to_vec();
        }
    }
    transfer.target = next;
    Ok(true)
}

/// Bits of `CURLOPT_POSTREDIR`.
const REDIR_POST_301: i64 = 1;
const REDIR_POST_302: i64 = 2;
const REDIR_POST_303: i64 = 4;
