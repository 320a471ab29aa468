//! The head of a request.

use std::borrow::Cow;

use crate::auth_state::AuthFields;
use crate::custom_fields::CustomFields;
use crate::document::{condition_line, range_line};
use crate::easy_options::{HTTP_VERSION_1_0, RequestKind};
use crate::failure::Failure;
use crate::handles::EasyState;
use crate::hop_body::HopBody;
use crate::http2_upgrade::encoded_settings;
use crate::option::OptionId as Id;
use crate::request_head::{HeadBody, HeadParts, WrittenHead};
use crate::values::OptionValues;
use crate::websocket::handshake_fields;

/// The method of the first request.
pub(crate) fn first_method(state: &EasyState) -> Cow<'static, [u8]> {
    if let Some(custom) = state.options.values.bytes(Id::CUSTOMREQUEST) {
        return custom.to_vec().into();
    }
    let method: &'static [u8] = match state.options.request {
        _ if state.options.is_bodiless => b"HEAD",
        RequestKind::Get => b"GET",
        RequestKind::Head => b"HEAD",
        RequestKind::Put => b"PUT",
        RequestKind::Post | RequestKind::PostForm | RequestKind::PostMime => b"POST",
    };
    method.into()
}

/// The head of the current request.
pub(crate) fn write_head(
    state: &mut EasyState,
    custom: &CustomFields,
    proxy_custom: &CustomFields,
    body: &HopBody,
    auth: &AuthFields,
) -> Result<WrittenHead, Failure> {
    let transfer = state.transfer.as_ref().expect("its request is being started");
    let target = &transfer.target;
    let values = &state.options.values;
    let len = body.len;
    let body = match state.options.request {
        _ if transfer.drops_body => HeadBody::None,
        RequestKind::Get | RequestKind::Head => HeadBody::None,
        RequestKind::Put => HeadBody::Put(len),
        RequestKind::Post => HeadBody::Post(len),
        RequestKind::PostForm | RequestKind::PostMime => HeadBody::Form(len, &body.lines),
    };
    let trusts_host = transfer.trusts_host(&state.options);
    let range = match body {
        HeadBody::None => range_line(&state.options, custom),
        HeadBody::Put(len) | HeadBody::Post(len) => content_range_line(values, len, custom),
        HeadBody::Form(..) => None,
    };
    let condition = condition_line(&state.options, custom)?;
    let is_proxied = transfer.route.http.is_some() && !transfer.route.tunnels;
    let absolute = is_proxied.then(|| target.absolute_form());
    let own_target = absolute.as_deref().unwrap_or(&target.path);
    let request_target = values.bytes(Id::REQUEST_TARGET).map_or(own_target, |it| &it[..]);
    let sends_proxy_fields = is_proxied && values.is_on(Id::HEADEROPT);
    let cookie = values.bytes(Id::COOKIE).filter(|_| custom.find("Cookie").is_none());
    let host = target.host_field();
    let referer = values.bytes(Id::REFERER).map(|referer| &referer[..]);
    let referer = state.info.referer.as_deref().or(referer);
    let parts = HeadParts {
        method: &transfer.method,
        target: request_target,
        host: &host,
        custom,
        proxy_custom: if sends_proxy_fields { proxy_custom } else { custom },
        sends_proxy_fields,
        has_left_host: !transfer.has_first_host(),
        trusts_host,
        is_proxied,
        proxy_authorization: auth.proxy.as_deref(),
        authorization: auth.server.as_deref(),
        range: range.as_deref(),
        referer: referer.filter(|it| !it.is_empty()),
        cookies: &transfer.cookies,
        cookie: cookie.map(|cookie| &cookie[..]),
        condition: condition.as_deref(),
        body,
        negotiates: state.auth.negotiates,
        refuses_expect: transfer.attempts.refuses_expect,
        http2_settings: transfer.http2_streams.map(encoded_settings),
        is_http10: state.info.http_version == HTTP_VERSION_1_0 || transfer.on_http10,
    };
    let mut head = WrittenHead::write(&state.options, &parts)
        .map_err(|code| Failure::new(code, "Chunky upload is not supported by HTTP 1.0"))?;
    if transfer.target.is_websocket {
        let end = head.bytes.len() - b"\r\n".len();
        head.bytes.splice(end..end, handshake_fields(custom)?);
    }
    state.note_head(head.bytes.len());
    Ok(head)
}

impl EasyState {
    /// A head of this length is sent.
    pub(crate) fn note_head(&mut self, len: usize) {
        if let Some(transfer) = &self.transfer {
            self.request.method.clone_from(&transfer.method);
        }
        self.request.size += i64::try_from(len).unwrap_or(i64::MAX);
    }
}

/// `Content-Range` of an upload, unless the application has its own.
fn content_range_line(
    values: &OptionValues,
    len: Option<u64>,
    custom: &CustomFields,
) -> Option<Vec<u8>> {
    if custom.find("Content-Range").is_some() {
        return None;
    }
    let from = values.number(Id::RESUME_FROM_LARGE);
    let len = len.and_then(|len| i64::try_from(len).ok()).unwrap_or(-1);
    let total = len.saturating_add(from);
    let range = match from {
        // The size of the server's part is unknown: everything is sent.
        ..=-1 => format!("0-{}/{len}", len - 1),
        0 => format!("{}/{len}", String::from_utf8_lossy(values.bytes(Id::RANGE)?)),
        _ => format!("{from}-{}/{total}", total - 1),
    };
    Some(format!("Content-Range: bytes {range}").into_bytes())
}
