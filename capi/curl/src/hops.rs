//! The requests of a transfer: the first one, and those that responses lead to.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use fulmar_client::{Done, Options, Protocol, Request, RequestBody, VerbatimHead};
use fulmar_proto::h1::{Leniency, ResponseProfile};
use fulmar_sys as sys;

use crate::border::{CBorder, DebugKind};
use crate::code::CurlCode;
use crate::custom_fields::CustomFields;
use crate::easy_options::{EasyOptions, RequestKind};
use crate::failure::{Failure, FailureContext};
use crate::handles::{Easy, EasyState, Multi};
use crate::hop_response::HopResponse;
use crate::hop_target::HopTarget;
use crate::info::TransferInfo;
use crate::option::OptionId as Id;
use crate::request_head::{HeadBody, HeadParts, WrittenHead};
use crate::transfer::{DownloadState, EasyTransfer, UploadState};

/// A request's body, and how its head announces it.
struct HopBody {
    body: RequestBody,
    len: Option<u64>,
}

impl Multi {
    /// Reads the options of a handle for a new transfer.
    pub(crate) fn begin(&self, easy: &Easy, border: &dyn CBorder) -> Result<(), Failure> {
        let buffer = easy.pointer(Id::ERRORBUFFER);
        if !buffer.is_null() {
            border.set_error(buffer, "");
        }
        easy.with_state(|state| {
            let values = &state.options.values;
            state.info =
                TransferInfo { content_length: -1, upload_length: -1, ..TransferInfo::default() };
            let url = values.bytes(Id::URL);
            let url = url.ok_or_else(|| Failure::new(CurlCode::UrlMalformat, "No URL set"))?;
            refuse_unsupported(&state.options)?;
            let target = HopTarget::parse(url, &state.options)?;
            let first_host = (target.host.clone(), target.port);
            state.transfer = Some(Box::new(EasyTransfer {
                started: sys::now(),
                first_host,
                method: method(state),
                target,
                drops_body: false,
                redirects: 0,
                id: None,
                response: HopResponse::default(),
                download: DownloadState::default(),
                upload: UploadState::default(),
            }));
            Ok(())
        })
    }

    /// Starts the current request of a transfer.
    pub(crate) fn start_hop(&self, easy: &Rc<Easy>, border: &dyn CBorder) -> Result<(), Failure> {
        let list = easy.pointer(Id::HTTPHEADER);
        let custom = match list.is_null() {
            true => CustomFields::default(),
            false => CustomFields::new(border.list(list)),
        };
        let must_rewind = easy.with_state(|state| {
            let transfer = state.transfer.as_mut();
            transfer.is_some_and(|it| std::mem::take(&mut it.upload.has_read) && !it.drops_body)
        });
        if must_rewind {
            self.rewind_upload(easy, border)?;
        }
        let body = easy.with_state(|state| hop_body(state, border));
        let (head, origin) = easy.with_state(|state| write_head(state, &custom, body.len))?;
        self.debug(easy, DebugKind::HeaderOut, &head.bytes, border);
        let body = match (body.body, head.is_chunked) {
            (RequestBody::Stream(_), true) => RequestBody::Stream(None),
            (body, _) => body,
        };
        let sent = match &body {
            RequestBody::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        let mut verbatim = VerbatimHead::new(head.bytes)
            .map_err(|_| Failure::new(CurlCode::UrlMalformat, "the request head is malformed"))?;
        verbatim.expects_continue = head.expects_continue;
        verbatim.closes =
            head.closes || easy.with_state(|state| state.options.values.is_on(Id::FORBID_REUSE));
        let options = easy.with_state(|state| self.client_options(state))?;
        let request = Request::with_verbatim_head(&origin, verbatim)
            .body(body)
            .options(Arc::new(options))
            .build()
            .map_err(|error| Failure::new(CurlCode::FailedInit, error.to_string()))?;
        let id = self.reactor.borrow_mut().with(|client, now| client.start(now, &request));
        self.attach(id, easy);
        easy.with_state(|state| {
            state.info.sent += i64::try_from(sent).unwrap_or(i64::MAX);
            if let Some(transfer) = &mut state.transfer {
                transfer.id = Some(id);
                transfer.response = HopResponse::default();
                transfer.download.received = 0;
            }
        });
        Ok(())
    }

    fn client_options(&self, state: &EasyState) -> Result<Options, Failure> {
        let values = &state.options.values;
        let transfer = state.transfer.as_ref().expect("its request is being started");
        let elapsed = sys::now().saturating_duration_since(transfer.started);
        let positive = |id| u64::try_from(values.number(id)).ok().filter(|number| *number > 0);
        let timeout = positive(Id::TIMEOUT_MS);
        let span = |id| positive(id).map(Duration::from_millis);
        let seconds = |id| positive(id).map(Duration::from_secs);
        let http2 = values.number(Id::HTTP_VERSION) == HTTP_VERSION_2_PRIOR_KNOWLEDGE;
        let unix_socket = values.bytes(Id::UNIX_SOCKET_PATH);
        let leniency = match values.is_on(Id::HTTP09_ALLOWED) {
            true => Leniency::HTTP_09,
            false => Leniency::strict(),
        };
        Ok(Options {
            cookies: false,
            idle_timeout: None,
            expect_continue_from: None,
            continue_timeout: Duration::from_millis(
                u64::try_from(values.number(Id::EXPECT_100_TIMEOUT_MS)).unwrap_or(0),
            ),
            queue_timeout: span(Id::CONNECTTIMEOUT_MS),
            idle_age_max: seconds(Id::MAXAGE_CONN),
            lifetime_max: seconds(Id::MAXLIFETIME_CONN),
            fresh_connection: values.is_on(Id::FRESH_CONNECT),
            total_timeout: timeout.map(|ms| Duration::from_millis(ms).saturating_sub(elapsed)),
            tls: transfer.target.is_secure.then(|| self.tls(&state.options)).transpose()?,
            protocol: if http2 { Protocol::Http2 } else { Protocol::Negotiated },
            unix_socket: unix_socket.map(|path| String::from_utf8_lossy(path).into_owned().into()),
            leniency,
            profile: ResponseProfile::Libcurl,
            ..Options::default()
        })
    }

    /// A request has ended: another one follows, or the transfer has ended.
    pub(crate) fn end_hop(&self, easy: &Rc<Easy>, done: Done, border: &dyn CBorder) {
        let result = easy.with_state(|state| {
            let info = &mut state.info;
            if !done.reused {
                info.connects += 1;
            }
            info.peer = done.peer.or(info.peer);
            note_times(info, &done);
            let Some(transfer) = &mut state.transfer else { return Ok(()) };
            transfer.id = None;
            done.result.map_err(|error| {
                Failure::of(
                    &error,
                    FailureContext {
                        host: &transfer.target.host,
                        port: transfer.target.port,
                        elapsed_ms: sys::now()
                            .saturating_duration_since(transfer.started)
                            .as_millis(),
                        heads: info.header_size,
                        received: transfer.download.received,
                        response: &transfer.response,
                    },
                )
            })
        });
        let is_held = easy.with_state(|state| match &mut state.transfer {
            Some(transfer) if !transfer.download.held.is_empty() => {
                transfer.download.ended = Some(result.clone());
                true
            }
            _ => false,
        });
        if !is_held {
            self.follow_or_finish(easy, result, border);
        }
    }

    /// The held end of a transfer, once everything before it was delivered.
    pub(crate) fn end_held(&self, easy: &Rc<Easy>, border: &dyn CBorder) {
        let ended = easy.with_state(|state| state.transfer.as_mut()?.download.ended.take());
        if let Some(result) = ended {
            self.follow_or_finish(easy, result, border);
        }
    }

    fn follow_or_finish(&self, easy: &Rc<Easy>, result: Result<(), Failure>, border: &dyn CBorder) {
        let follows = match result {
            Ok(()) => easy.with_state(follow),
            Err(failure) => Err(failure),
        };
        match follows {
            Ok(true) => self.queue_hop(easy),
            Ok(false) => self.finish(easy, Ok(()), border),
            Err(failure) => self.finish(easy, Err(failure), border),
        }
    }
}

/// A transfer that would silently differ from what its options demand does not begin.
fn refuse_unsupported(options: &EasyOptions) -> Result<(), Failure> {
    let values = &options.values;
    let is_form = matches!(options.request, RequestKind::PostForm | RequestKind::PostMime);
    let has_user =
        values.bytes(Id::USERNAME).is_some() || values.bytes(Id::XOAUTH2_BEARER).is_some();
    let is_immediate = matches!(values.number(Id::HTTPAUTH), AUTH_BASIC | AUTH_BEARER);
    let has = |id| values.bytes(id).is_some_and(|text| !text.is_empty());
    let decodes =
        values.bytes(Id::ACCEPT_ENCODING).is_some() && values.is_on(Id::HTTP_CONTENT_DECODING);
    let refused = [
        (has_user && !is_immediate, "only Basic and Bearer authentication are built in"),
        (is_form, "forms are not built in"),
        (decodes, "content decoding is not built in"),
        (has(Id::PROXY) || has(Id::PRE_PROXY), "proxies are not built in"),
        (values.number(Id::CONNECT_ONLY) != 0, "CURLOPT_CONNECT_ONLY is not built in"),
        (has(Id::COOKIEFILE) || has(Id::COOKIEJAR), "the cookie engine is not built in"),
        (values.number(Id::TIMECONDITION) != 0, "time conditions are not built in"),
        (values.is_on(Id::NETRC), ".netrc files are not built in"),
        (!values.pointer(Id::RESOLVE).is_null(), "CURLOPT_RESOLVE is not built in"),
        (!values.pointer(Id::CONNECT_TO).is_null(), "CURLOPT_CONNECT_TO is not built in"),
        (has(Id::AWS_SIGV4), "AWS signatures are not built in"),
        (!values.pointer(Id::SHARE).is_null(), "shared data are not built in"),
    ];
    match refused.into_iter().find(|(is_set, _)| *is_set) {
        Some((_, text)) => Err(Failure::new(CurlCode::NotBuiltIn, text)),
        None => Ok(()),
    }
}

/// Prepares the next request after a redirect. False if there is none.
fn follow(state: &mut EasyState) -> Result<bool, Failure> {
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

fn method(state: &EasyState) -> Vec<u8> {
    if let Some(custom) = state.options.values.bytes(Id::CUSTOMREQUEST) {
        return custom.to_vec();
    }
    let method: &[u8] = match state.options.request {
        RequestKind::Get => b"GET",
        RequestKind::Head => b"HEAD",
        RequestKind::Put => b"PUT",
        RequestKind::Post | RequestKind::PostForm | RequestKind::PostMime => b"POST",
    };
    method.to_vec()
}

/// The body of the current request.
fn hop_body(state: &mut EasyState, border: &dyn CBorder) -> HopBody {
    let values = &state.options.values;
    let Some(transfer) = &mut state.transfer else {
        return HopBody { body: RequestBody::Empty, len: None };
    };
    let length = |id| u64::try_from(values.number(id)).ok();
    let streamed = |upload: &mut UploadState, len: Option<u64>| {
        *upload = UploadState { left: len, ..UploadState::default() };
        let body = if len == Some(0) { RequestBody::Empty } else { RequestBody::Stream(len) };
        HopBody { body, len }
    };
    match state.options.request {
        _ if transfer.drops_body => HopBody { body: RequestBody::Empty, len: None },
        RequestKind::Get | RequestKind::Head => HopBody { body: RequestBody::Empty, len: None },
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
                    HopBody { body, len }
                }
                None => streamed(&mut transfer.upload, size),
            }
        }
        RequestKind::PostForm | RequestKind::PostMime => {
            HopBody { body: RequestBody::Empty, len: Some(0) }
        }
    }
}

/// The head of the current request, and the origin that it goes to.
fn write_head(
    state: &mut EasyState,
    custom: &CustomFields,
    len: Option<u64>,
) -> Result<(WrittenHead, String), Failure> {
    let transfer = state.transfer.as_ref().expect("its request is being started");
    let target = &transfer.target;
    let values = &state.options.values;
    let body = match state.options.request {
        _ if transfer.drops_body => HeadBody::None,
        RequestKind::Get | RequestKind::Head => HeadBody::None,
        RequestKind::Put => HeadBody::Put(len),
        RequestKind::Post => HeadBody::Post(len),
        RequestKind::PostForm | RequestKind::PostMime => HeadBody::Form(len, &[]),
    };
    let is_first = target.host.eq_ignore_ascii_case(&transfer.first_host.0);
    let trusts_host =
        values.is_on(Id::UNRESTRICTED_AUTH) || (is_first && target.port == transfer.first_host.1);
    let range = values.bytes(Id::RANGE).filter(|_| body == HeadBody::None);
    let range = match (range, values.number(Id::RESUME_FROM_LARGE)) {
        (Some(range), _) => Some([b"Range: bytes=", &range[..]].concat()),
        (None, from) if from > 0 && body == HeadBody::None => {
            Some(format!("Range: bytes={from}-").into_bytes())
        }
        _ => None,
    };
    let range = range.filter(|_| custom.find("Range").is_none());
    let request_target = values.bytes(Id::REQUEST_TARGET).map_or(&target.path[..], |it| &it[..]);
    let cookie = values.bytes(Id::COOKIE).filter(|_| custom.find("Cookie").is_none());
    let host = target.host_field();
    let authorization = authorization(&state.options, target).filter(|_| trusts_host);
    let parts = HeadParts {
        method: &transfer.method,
        target: request_target,
        host: &host,
        custom,
        has_left_host: !is_first,
        trusts_host,
        is_proxied: false,
        proxy_authorization: None,
        authorization: authorization.as_deref(),
        range: range.as_deref(),
        referer: values.bytes(Id::REFERER).map(|referer| &referer[..]).filter(|it| !it.is_empty()),
        cookie: cookie.map(|cookie| &cookie[..]).filter(|_| trusts_host),
        condition: None,
        body,
        negotiates: false,
    };
    let head = WrittenHead::write(&state.options, &parts)
        .map_err(|code| Failure::new(code, "Chunky upload is not supported by HTTP 1.0"))?;
    state.info.effective_url.clone_from(&target.url);
    state.info.effective_method.clone_from(&transfer.method);
    state.info.request_size += i64::try_from(head.bytes.len()).unwrap_or(i64::MAX);
    Ok((head, target.origin()))
}

/// The value of `Authorization`: Basic, with the login of the URL or of the options, or a token.
fn authorization(options: &EasyOptions, target: &HopTarget) -> Option<Vec<u8>> {
    let values = &options.values;
    let schemes = values.number(Id::HTTPAUTH);
    let own = || values.bytes(Id::USERNAME).map(|user| &user[..]);
    let user = target.user.as_deref().or_else(own);
    let login = user.map(|user| {
        let password = match target.user {
            Some(_) => target.password.as_deref(),
            None => values.bytes(Id::PASSWORD).map(|password| &password[..]),
        };
        [user, b":", password.unwrap_or_default()].concat()
    });
    let login = login.filter(|_| schemes & AUTH_BASIC != 0);
    let token = values.bytes(Id::XOAUTH2_BEARER).filter(|_| schemes & AUTH_BEARER != 0);
    match (token, login) {
        (Some(token), _) => Some([b"Bearer ", &token[..]].concat()),
        (None, Some(login)) => {
            Some(format!("Basic {}", BASE64_STANDARD.encode(login)).into_bytes())
        }
        (None, None) => None,
    }
}

fn note_times(info: &mut TransferInfo, done: &Done) {
    let times = done.timings();
    info.name = times.queue + times.name;
    info.connect = info.name + times.connect;
    info.handshake =
        if times.handshake.is_zero() { Duration::ZERO } else { info.connect + times.handshake };
    info.pretransfer = info.connect + times.handshake;
    info.first_byte = info.pretransfer + times.first_byte;
}

/// `CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE`.
const HTTP_VERSION_2_PRIOR_KNOWLEDGE: i64 = 5;
/// `CURLAUTH_BASIC`.
const AUTH_BASIC: i64 = 1;
/// `CURLAUTH_BEARER`.
const AUTH_BEARER: i64 = 1 << 6;
const REDIR_POST_301: i64 = 1;
const REDIR_POST_302: i64 = 2;
const REDIR_POST_303: i64 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::easy_options::Argument;

    /// Otherwise the application would receive the encoded bytes.
    #[test]
    fn content_decoding_is_refused_until_it_is_built() {
        let mut options = EasyOptions::default();
        assert_eq!(refuse_unsupported(&options), Ok(()));
        options.set(Id::ACCEPT_ENCODING, Argument::Bytes(Some(b""))).expect("accepted");
        let refused = refuse_unsupported(&options).map_err(|failure| failure.code);
        assert_eq!(refused, Err(CurlCode::NotBuiltIn));
        options.set(Id::HTTP_CONTENT_DECODING, Argument::Number(0)).expect("accepted");
        assert_eq!(refuse_unsupported(&options), Ok(()));
    }
}
