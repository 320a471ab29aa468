//! The requests of a transfer: the first one, and those that responses lead to.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fulmar_client::{
    Done, Error, ExchangeFacts, Options, Request, RequestBody, StatusAliases, TransferId,
    VerbatimHead,
};
use fulmar_sys as sys;

use crate::attempts::{retries_on_new_connection, retries_tunnel};
use crate::border::CBorder;
use crate::code::CurlCode;
use crate::connection_texts::NO_URL;
use crate::custom_fields::CustomFields;
use crate::decoding::BodyDecoder;
use crate::easy_options::RequestKind;
use crate::events::EventQueue;
use crate::failure::{Failure, FailureContext};
use crate::follow::follow;
use crate::handles::{Easy, EasyState, Multi};
use crate::hop_auth::authorize;
use crate::hop_body::{framed, hop_body};
use crate::hop_head::{first_method, write_head};
use crate::hop_target::HopTarget;
use crate::http2_upgrade::{failure_without_tunnel, requests_http2};
use crate::info::{RequestInfo, TransferInfo};
use crate::line_ends;
use crate::option::{OptionId as Id, auth_mask};
use crate::rare::Rare;
use crate::socks_failure::{RESOLVE_HOST, socks_failure};
use crate::transfer::EasyTransfer;
use crate::unsupported::refuse_unsupported;
use crate::url::{UrlFlags, UrlPart};
use crate::verification::note_verification;
use crate::websocket::{is_websocket, judge_end};

impl Multi {
    /// Reads the options of a handle for a new transfer.
    pub(crate) fn begin(&self, easy: &Easy, border: &dyn CBorder) -> Result<(), Failure> {
        self.reset_error(easy, border);
        if easy.has_url() {
            easy.load_cookies(border);
            easy.load_hsts_files(border);
            easy.read_hsts(border)?;
        }
        let given = border.url(easy.pointer(Id::CURLU));
        easy.with_state(|state| {
            state.forget_last();
            state.request.method = first_method(state);
            let values = &state.options.values;
            if let Some(url) = values.bytes(Id::URL) {
                state.request.url = Arc::clone(url); // until it was understood
            }
            let missing = || Failure::new(CurlCode::UrlMalformat, NO_URL);
            let target = match given {
                Some(given) if given.get(UrlPart::Url, UrlFlags::default()).is_err() => {
                    Err(missing())
                }
                Some(given) => HopTarget::given(given, &state.options),
                None => {
                    HopTarget::parse(values.bytes(Id::URL).ok_or_else(missing)?, &state.options)
                }
            };
            refuse_unsupported(&state.options)?;
            line_ends::refuse_in_options(&state.options.values)?;
            let target = state.apply_hsts(Rc::new(target?))?;
            state.begin_transfer(target);
            Ok(())
        })
    }

    /// Clears `CURLOPT_ERRORBUFFER`.
    pub(crate) fn reset_error(&self, easy: &Easy, border: &dyn CBorder) {
        let buffer = easy.pointer(Id::ERRORBUFFER);
        if !buffer.is_null() {
            border.set_error(buffer, "");
        }
    }

    /// Starts the current request of a transfer. Through a proxy, CONNECT may come first.
    pub(crate) fn start_hop(&self, easy: &Rc<Easy>, border: &dyn CBorder) -> Result<(), Failure> {
        easy.note_switch(border);
        if easy.with_state(|it| it.transfer.as_ref().is_some_and(|it| it.target.is_file)) {
            self.request_permission(easy, border)?;
            self.transfer_file(easy, border);
            return Ok(());
        }
        easy.with_state(|state| {
            if let Some(transfer) = &mut state.transfer {
                transfer.http2_streams = None;
            }
        });
        self.prepare_login(easy)?;
        self.select_end(easy, border)?;
        self.begin_texts(easy, border);
        let mut options = self.options_of_hop(easy, border)?;
        let origin = easy.with_state(|state| state.transfer.as_ref().map(|it| it.hop_origin()));
        let origin = origin.unwrap_or_default();
        self.start_resolver(easy, &origin, &options, border)?;
        if Self::connects_only(easy) && options.tunnel.is_none() {
            return self.start_connect_only(easy, options, None);
        }
        let custom = custom_fields(easy, border)?;
        if options.tunnel.is_some() {
            self.reactor.borrow_mut().check_unwatched(sys::now());
            let has_idle = !options.fresh_connection
                && self.reactor.borrow().engine.has_idle(&origin, &options);
            if !has_idle || Self::connects_only(easy) {
                let [custom, proxy_custom] = &custom;
                return self.start_connect(easy, options, custom, proxy_custom);
            }
        }
        self.select_upgrade(easy, &mut options);
        self.note_connection(easy, &origin, &options);
        self.start_request(easy, options, &custom, None, border)
    }

    /// The options of the current request, with its route.
    pub(crate) fn options_of_hop(
        &self,
        easy: &Easy,
        border: &dyn CBorder,
    ) -> Result<Options, Failure> {
        let mut options = easy.with_state(|state| self.client_options(state))?;
        options.status_aliases = status_aliases(easy, border);
        self.select_route(easy, &mut options)?;
        Ok(options)
    }

    /// The proxy has opened a tunnel for the current request.
    pub(crate) fn start_in_tunnel(
        &self,
        easy: &Rc<Easy>,
        border: &dyn CBorder,
    ) -> Result<(), Failure> {
        let tunnel = self.release(easy);
        self.report_tunnel(easy, border);
        easy.with_state(|state| {
            if let Some(transfer) = &mut state.transfer {
                transfer.is_connecting = false;
            }
        });
        let started = self.continue_in(tunnel, easy, border);
        if let Some(tunnel) = tunnel.filter(|_| started.is_err()) {
            self.forget(tunnel);
        }
        started
    }

    /// The connection of the current request is known, or leads through `tunnel`.
    pub(crate) fn continue_in(
        &self,
        tunnel: Option<TransferId>,
        easy: &Rc<Easy>,
        border: &dyn CBorder,
    ) -> Result<(), Failure> {
        let mut options = self.options_of_hop(easy, border)?; // as for CONNECT: it is found so
        if Self::connects_only(easy) {
            return self.start_connect_only(easy, options, tunnel);
        }
        if tunnel.is_none() {
            self.select_upgrade(easy, &mut options);
        }
        self.start_request(easy, options, &custom_fields(easy, border)?, tunnel, border)
    }

    /// Sends the current request: on the connection of `tunnel`, or on any.
    fn start_request(
        &self,
        easy: &Rc<Easy>,
        mut options: Options,
        [custom, proxy_custom]: &[CustomFields; 2],
        tunnel: Option<TransferId>,
        border: &dyn CBorder,
    ) -> Result<(), Failure> {
        if self.start_preconnect(easy, &mut options, tunnel)? {
            return Ok(());
        }
        self.prepare_upload(easy, border)?;
        self.lock_for_request(easy, &options, border);
        easy.select_cookies(custom, border);
        let form = self.form_of(easy, custom, border)?;
        let mut body = easy.with_state(|state| hop_body(state, form, border));
        let body_len = body.len;
        let auth =
            easy.with_state(|state| authorize(state, custom, proxy_custom, bytes_of(&body.body)))?;
        if easy.with_state(|state| state.auth.negotiates) {
            body.body = RequestBody::Empty;
        }
        let head =
            easy.with_state(|state| write_head(state, custom, proxy_custom, &body, &auth))?;
        let is_post = easy.with_state(|state| {
            if let Some(transfer) = &mut state.transfer {
                let has_body = matches!(body.body, RequestBody::Stream(_))
                    || (head.expects_continue && !body.body.is_empty());
                if has_body || head.is_chunked || head.expects_continue {
                    transfer.upload.is_chunked = head.is_chunked;
                    transfer.upload.expects = head.expects_continue;
                    transfer.upload.has_body = has_body;
                }
                if head.is_chunked {
                    // The end of the last read ends the body, whatever its size was set to.
                    transfer.upload.left = None;
                }
            }
            state.auth.negotiates || state.options.request == RequestKind::Post
        });
        let body = framed(body.body, head.is_chunked, is_post);
        let sent = bytes_of(&body).len();
        Self::print_request(easy, &head.bytes, &body, tunnel.is_some());
        let mut verbatim = VerbatimHead::new(head.bytes)
            .map_err(|_| Failure::new(CurlCode::UrlMalformat, "the request head is malformed"))?;
        verbatim.pauses_upgraded = easy.with_state(|state| requests_http2(state));
        verbatim.upgrades =
            verbatim.pauses_upgraded || easy.with_state(|state| is_websocket(state));
        verbatim.expects_continue = head.expects_continue;
        verbatim.is_unframed = !head.is_chunked;
        verbatim.closes =
            head.closes || easy.with_state(|state| state.options.values.is_on(Id::FORBID_REUSE));
        let request = self.origin_of(easy, options)?.request(verbatim, body);
        let request = request.map_err(|error| Self::build_failure(easy, &error))?;
        let id = self.send_request(easy, &request, tunnel);
        easy.with_state(|state| {
            self.keep_prepared(state, &request);
            state.note_request(id, sent, body_len);
        });
        Ok(())
    }

    /// Passes a request of a transfer to the client: it is sent in the tunnel, if there is one.
    pub(crate) fn send_request(
        &self,
        easy: &Rc<Easy>,
        request: &Request,
        tunnel: Option<TransferId>,
    ) -> TransferId {
        let local = easy.with_state(|state| state.info.local);
        let id = self.reactor.borrow_mut().with(|client, now| match tunnel {
            Some(tunnel) => client.start_in_tunnel(now, tunnel, request, local),
            None => client.start(now, request),
        });
        self.attach(id, easy);
        id
    }

    /// A request has ended: another one follows, or the transfer has ended.
    pub(crate) fn end_hop(&self, easy: &Rc<Easy>, done: Done, border: &dyn CBorder) {
        self.lock_after_request(easy, &done, border);
        self.release(easy);
        if matches!(done.result, Err(Error::NoTunnel)) {
            // The tunnel was closed meanwhile: another one is opened.
            return match easy.with_state(retries_tunnel) {
                true => self.queue_hop(easy),
                false => self.finish(
                    easy,
                    Err(easy.with_state(|state| failure_without_tunnel(state))),
                    border,
                ),
            };
        }
        self.report_unconnected(easy, &done.result, border);
        if matches!(done.result, Err(Error::Resolve(_))) {
            self.forget_name(easy);
        }
        let (is_reused, has_connection) = (done.reused, is_connected(&done));
        let mut result = easy.with_state(|state| {
            let info = &mut state.info;
            if done.certificates.is_some() {
                info.certificates = done.certificates.clone();
            }
            if !state.transfer.as_ref().is_some_and(|it| it.is_connecting) {
                note_exchange(info, &facts_of(&done), is_connected(&done));
            }
            forget_unsent(&mut state.request, info, &done);
            let Some(transfer) = &mut state.transfer else { return Ok(()) };
            note_verification(info, transfer, &done);
            let socks = transfer.route.socks.as_ref().map(|it| it.kind.socks_version());
            if let Err(error) = &done.result {
                note_numbers(info, error, socks.is_some());
            }
            done.result.map_err(|error| {
                Failure::of(
                    &error,
                    FailureContext {
                        host: transfer.peer().0,
                        target: transfer.socks_target().0,
                        port: transfer.peer().1,
                        is_proxied: transfer.is_proxied(),
                        tls_host: transfer.tls_host(),
                        socks,
                        has_connection,
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
        if easy.with_state(|state| state.transfer.as_ref().is_some_and(|it| it.is_connecting)) {
            return self.end_connect(easy, result, border);
        }
        easy.with_state(|state| judge_end(state, &mut result));
        if easy.with_state(|state| retries_on_new_connection(state, is_reused, &mut result)) {
            return self.repeat_hop(easy, border);
        }
        let is_held = easy.with_state(|state| hold_end(state, &result));
        let result = match self.update(easy, true, border) {
            Err(failure) => result.and(Err(failure)),
            Ok(()) => result,
        };
        match is_held {
            true => self.watch_held(easy),
            false => self.follow_or_finish(easy, result, border),
        }
    }

    fn repeat_hop(&self, easy: &Rc<Easy>, border: &dyn CBorder) {
        self.report_repetition(easy, border);
        self.queue_hop(easy);
    }

    /// The current request is given up: notes what is known of its exchange.
    pub(crate) fn note_unfinished(&self, easy: &Easy) {
        let id = easy.with_state(|state| state.transfer.as_ref().and_then(|it| it.id));
        let Some(id) = id else { return };
        let mut reactor = self.reactor.borrow_mut();
        let running = reactor.with(|client, now| client.with(now, |_, c| c.exchange(id)));
        let done = |queue: &EventQueue| queue.done(id).filter(|it| is_connected(it)).map(facts_of);
        let ended = || done(reactor.engine.application());
        if let Some(exchange) = running.or_else(ended) {
            easy.with_state(|state| note_exchange(&mut state.info, &exchange, true));
        }
    }

    /// True if another request follows, and the connection is not kept anyway: the body need not
    /// be received.
    pub(crate) fn skips_body(&self, easy: &Easy) -> bool {
        easy.with_state(|state| {
            let transfer = state.transfer.as_ref();
            transfer.is_some_and(|it| it.response.ignores_body && it.download.document.closes)
        })
    }

    /// Ends a request whose response is not needed.
    pub(crate) fn skip_body(&self, easy: &Rc<Easy>, border: &dyn CBorder) {
        self.note_unfinished(easy);
        self.detach(easy);
        match easy.with_state(|state| state.transfer.as_ref().is_some_and(|it| it.is_connecting)) {
            true => self.end_connect(easy, Ok(()), border),
            false => self.end_response(easy, Ok(()), border),
        }
    }

    /// A response has ended: what follows waits until the application accepts the rest of it.
    pub(crate) fn end_response(
        &self,
        easy: &Rc<Easy>,
        result: Result<(), Failure>,
        border: &dyn CBorder,
    ) {
        match easy.with_state(|state| hold_end(state, &result)) {
            true => self.watch_held(easy),
            false => self.follow_or_finish(easy, result, border),
        }
    }

    /// The held end of a response, once everything before it was delivered.
    pub(crate) fn end_held(&self, easy: &Rc<Easy>, border: &dyn CBorder) {
        let ended = easy.with_state(|state| state.transfer.as_mut()?.download.ended.take());
        if let Some(result) = ended {
            self.follow_or_finish(easy, result, border);
        }
    }

    pub(crate) fn follow_or_finish(
        &self,
        easy: &Rc<Easy>,
        result: Result<(), Failure>,
        border: &dyn CBorder,
    ) {
        let follows = match result {
            Ok(()) => {
                self.report_end(easy, false, border);
                easy.with_state(follow)
            }
            Err(failure) => Err(failure),
        };
        match follows {
            Ok(true) => {
                easy.with_state(|state| state.headers.start_request());
                self.report_next(easy, border);
                self.queue_hop(easy);
            }
            Ok(false) => self.finish(easy, Ok(()), border),
            Err(failure) => self.finish(easy, Err(failure), border),
        }
    }
}

impl EasyState {
    /// Forgets what is known of the last transfer.
    fn forget_last(&mut self) {
        if let Some(headers) = self.headers.changed() {
            headers.clear();
        }
        self.websocket = None;
        self.request = RequestInfo::default();
        self.info.restore();
    }

    /// A transfer begins with a request for this target.
    pub(crate) fn begin_transfer(&mut self, target: Rc<HopTarget>) {
        self.forget_last();
        self.options.values.shrink();
        self.request.url = Arc::clone(&target.url);
        let mask = |id| auth_mask(self.options.values.number(id));
        self.auth.begin(mask(Id::HTTPAUTH), mask(Id::PROXYAUTH));
        let method = first_method(self);
        self.transfer = Some(Box::new(EasyTransfer::new(sys::now(), target, method)));
    }

    /// The current request was started: `sent` bytes of its body with it.
    pub(crate) fn note_request(&mut self, id: TransferId, sent: usize, body_len: Option<u64>) {
        if let Some(info) = self.info.changed() {
            (info.received, info.content_length) = (0, -1);
            (info.sent, info.upload_length) = (0, -1);
        }
        if let Some(len) = body_len {
            self.info.sent = i64::try_from(sent).unwrap_or(i64::MAX);
            self.info.upload_length = i64::try_from(len).unwrap_or(-1);
        }
        if let Some(transfer) = &mut self.transfer {
            transfer.id = Some(id);
            transfer.response.reset();
            if let Some(progress) = transfer.progress.changed() {
                progress.restart_speed();
            }
            if let Some(download) = transfer.download.changed() {
                download.received = 0;
                download.decoder = BodyDecoder::default();
            }
        }
    }
}

/// `CURLOPT_HTTP200ALIASES`.
fn status_aliases(easy: &Easy, border: &dyn CBorder) -> StatusAliases {
    let list = easy.pointer(Id::HTTP200ALIASES);
    match list.is_null() {
        true => StatusAliases::default(),
        false => StatusAliases::new(border.list(list)),
    }
}

/// `CURLOPT_HTTPHEADER` and `CURLOPT_PROXYHEADER`.
fn custom_fields(easy: &Easy, border: &dyn CBorder) -> Result<[CustomFields; 2], Failure> {
    let fields = [Id::HTTPHEADER, Id::PROXYHEADER].map(|id| match easy.pointer(id) {
        list if list.is_null() => CustomFields::default(),
        list => CustomFields::new(border.list(list)),
    });
    line_ends::refuse_in_fields(&fields)?;
    Ok(fields)
}

/// The bytes of a body that is in memory.
fn bytes_of(body: &RequestBody) -> &[u8] {
    match body {
        RequestBody::Bytes(bytes) => bytes,
        _ => b"",
    }
}

/// Keeps the end of a response if the application has paused, or has not accepted all of it.
fn hold_end(state: &mut EasyState, result: &Result<(), Failure>) -> bool {
    let Some(transfer) = &mut state.transfer else { return false };
    let download = &mut transfer.download;
    let is_held = !download.held.is_empty() || (download.is_paused && result.is_ok());
    if is_held {
        download.ended = Some(result.clone());
    }
    is_held
}

fn facts_of(done: &Done) -> ExchangeFacts {
    let Done { connection, peer, reused, .. } = *done;
    ExchangeFacts { connection, peer, reused, timings: done.timings() }
}

/// True if the transfer had a connection, with TLS or without.
fn is_connected(done: &Done) -> bool {
    done.connection.is_some() || matches!(done.result, Err(Error::Layer(_)))
}

fn note_exchange(info: &mut TransferInfo, exchange: &ExchangeFacts, is_connected: bool) {
    if is_connected && !exchange.reused {
        info.connects += 1;
    }
    info.peer = exchange.peer.or(info.peer);
    let times = exchange.timings;
    info.name = times.queue + times.name;
    info.connect = info.name + times.connect;
    info.handshake =
        if times.handshake.is_zero() { Duration::ZERO } else { info.connect + times.handshake };
    info.pretransfer = info.connect + times.handshake;
    info.first_byte = info.pretransfer + times.first_byte;
}

/// A request without a connection was not sent.
fn forget_unsent(request: &mut RequestInfo, info: &mut Rare<TransferInfo>, done: &Done) {
    if done.connection.is_some() || done.result.is_ok() {
        return;
    }
    let head = done.request.verbatim().map_or(0, |head| head.as_bytes().len());
    request.size -= i64::try_from(head).unwrap_or(i64::MAX);
    if let Some(info) = info.changed() {
        (info.sent, info.upload_length) = (0, -1);
        [info.connect, info.handshake, info.pretransfer, info.first_byte] = [Duration::ZERO; 4];
        if matches!(done.result, Err(Error::Resolve(_))) {
            info.name = Duration::ZERO;
        }
    }
}

/// Notes the numbers of a failure: that of the system, and that of a SOCKS proxy.
fn note_numbers(info: &mut TransferInfo, error: &Error, has_socks: bool) {
    match error {
        Error::Connect(error) => {
            let number = error.tried.last().and_then(|(_, error)| error.raw_os_error());
            info.os_error = number.map_or(info.os_error, i64::from);
        }
        Error::Layer(error) => {
            info.proxy_error = socks_failure(&**error, "").map_or(0, |(_, number)| number);
        }
        Error::Resolve(_) if has_socks => info.proxy_error = RESOLVE_HOST,
        _ => {}
    }
}
