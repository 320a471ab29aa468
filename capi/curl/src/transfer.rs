//! The state of a transfer between `curl_multi_add_handle` and its end: requests that follow each
//! other, and what each has received and sent.

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::time::{Duration, Instant};

use fulmar_client::TransferId;
use fulmar_drive::SocketId;

use crate::auth_state::LoginPair;
use crate::cookies::SentCookie;
use crate::decoding::BodyDecoder;
use crate::document::DocumentFacts;
use crate::easy_options::EasyOptions;
use crate::failure::Failure;
use crate::forms::FormUpload;
use crate::held_body::HeldBody;
use crate::hop_response::HopResponse;
use crate::hop_target::HopTarget;
use crate::hop_texts::HopTexts;
use crate::ntlm_lanes::NtlmLane;
use crate::option::OptionId as Id;
use crate::progress::ProgressState;
use crate::proxy_choice::{ProxyRoute, ProxyScheme};
use crate::rare::{ConstDefault, Rare};
use crate::values::OptionValues;

/// A transfer: one request, and those that redirects and challenges add.
#[derive(Debug)]
pub(crate) struct EasyTransfer {
    pub(crate) started: Instant,
    pub(crate) target: Rc<HopTarget>,
    /// That of the first request.
    pub(crate) first: Rc<HopTarget>,
    /// The credentials for the current server.
    pub(crate) login: Rare<LoginPair>,
    /// Those for the proxy.
    pub(crate) proxy_login: Rare<LoginPair>,
    pub(crate) route: Rare<ProxyRoute>,
    /// The current request is CONNECT.
    pub(crate) is_connecting: bool,
    /// The streams of HTTP/2 to which the current request requests an upgrade, if it does.
    pub(crate) http2_streams: Option<NonZeroU32>,
    /// The credentials are those of the `.netrc` file, which are for this host.
    pub(crate) is_netrc: bool,
    /// The connection that NTLM authenticates.
    pub(crate) lane: Option<Rc<NtlmLane>>,
    pub(crate) method: Cow<'static, [u8]>,
    /// A redirect has dropped the body (RFC 9110 §15.4.4).
    pub(crate) drops_body: bool,
    pub(crate) redirects: i64,
    pub(crate) attempts: Attempts,
    /// The client's transfer, while a request is under way.
    pub(crate) id: Option<TransferId>,
    /// The connection, if it is opened before the request is written.
    pub(crate) preconnect: Preconnect,
    /// Verbose output of the current request, if it is on.
    pub(crate) texts: Option<Box<HopTexts>>,
    /// Its server has responded with HTTP/1.0.
    pub(crate) on_http10: bool,
    /// Cookies for the current request, of the cookie engine.
    pub(crate) cookies: Vec<SentCookie>,
    pub(crate) response: Rare<HopResponse>,
    pub(crate) progress: Rare<ProgressState>,
    /// Host and port of `CURLOPT_CONNECT_TO`, if they are not those of the URL.
    pub(crate) connect_to: Option<Box<(String, u16)>>,
    /// When its speeds are to be checked.
    pub(crate) check_at: Option<Instant>,
    pub(crate) download: Rare<DownloadState>,
    pub(crate) upload: Rare<UploadState>,
}

impl EasyTransfer {
    pub(crate) fn new(started: Instant, target: Rc<HopTarget>, method: Cow<'static, [u8]>) -> Self {
        Self {
            started,
            first: Rc::clone(&target),
            target,
            login: Rare::default(),
            proxy_login: Rare::default(),
            route: Rare::default(),
            is_connecting: false,
            http2_streams: None,
            is_netrc: false,
            lane: None,
            method,
            drops_body: false,
            redirects: 0,
            attempts: Attempts::default(),
            id: None,
            preconnect: Preconnect::None,
            texts: None,
            on_http10: false,
            cookies: Vec::new(),
            response: Rare::default(),
            progress: Rare::default(),
            connect_to: None,
            check_at: None,
            download: Rare::default(),
            upload: Rare::default(),
        }
    }

    /// True if the HTTP proxy gets credentials.
    pub(crate) fn has_proxy_login(&self) -> bool {
        self.route.http.is_some() && self.proxy_login.user.is_some()
    }

    /// The host and port that the connection leads to first.
    pub(crate) fn peer(&self) -> (&str, u16) {
        match self.route.socks.as_ref().or(self.route.http.as_ref()) {
            Some(proxy) => (&proxy.host, proxy.port),
            None => self.end(),
        }
    }

    /// The host and port that it leads to at last: those of the URL, or of `CURLOPT_CONNECT_TO`.
    pub(crate) fn end(&self) -> (&str, u16) {
        match self.connect_to.as_deref() {
            Some((host, port)) => (host, *port),
            None => (&self.target.host, self.target.port),
        }
    }

    /// The host and port that a SOCKS proxy connects to.
    pub(crate) fn socks_target(&self) -> (&str, u16) {
        match &self.route.http {
            Some(proxy) => (&proxy.host, proxy.port),
            None => self.end(),
        }
    }

    /// True if TLS begins with an HTTPS proxy, not with the server.
    pub(crate) fn secures_proxy(&self) -> bool {
        let proxy = self.route.http.as_ref();
        let is_https = proxy.is_some_and(|proxy| proxy.kind == ProxyScheme::Https);
        is_https && (self.is_connecting || !self.route.tunnels)
    }

    /// The host whose certificate is verified now.
    pub(crate) fn tls_host(&self) -> &str {
        match &self.route.http {
            Some(proxy) if self.secures_proxy() => &proxy.host,
            _ => &self.target.host,
        }
    }

    /// True if that is a proxy.
    pub(crate) fn is_proxied(&self) -> bool {
        self.route.socks.is_some() || self.route.http.is_some()
    }

    /// The server or proxy that the request is sent to, as a URL that selects the connection.
    pub(crate) fn hop_origin(&self) -> String {
        match self.route.http.as_ref().filter(|_| !self.route.tunnels) {
            Some(proxy) => proxy.origin(),
            // The name of the tunnel has the host, which the client need not understand.
            None if self.route.tunnels && !self.target.is_secure => {
                format!("http://tunnel.invalid:{}/", self.target.port)
            }
            None => self.target.origin(),
        }
    }

    /// True if no redirect has led to another host.
    pub(crate) fn has_first_host(&self) -> bool {
        Rc::ptr_eq(&self.target, &self.first)
            || self.target.host.eq_ignore_ascii_case(&self.first.host)
    }

    /// True if the credentials of the options, and custom `Authorization` and `Cookie` lines, may
    /// be sent to the current target: it is the first one, or the application trusts all.
    pub(crate) fn trusts_host(&self, options: &EasyOptions) -> bool {
        let (target, first) = (&self.target, &self.first);
        let is_first = self.has_first_host()
            && target.port == first.port
            && target.is_secure == first.is_secure;
        is_first || options.values.is_on(Id::UNRESTRICTED_AUTH)
    }
}

impl EasyTransfer {
    /// When `CURLOPT_TIMEOUT` has passed.
    pub(crate) fn deadline(&self, values: &OptionValues) -> Option<Instant> {
        let ms = u64::try_from(values.number(Id::TIMEOUT_MS)).ok().filter(|ms| *ms > 0)?;
        self.started.checked_add(Duration::from_millis(ms))
    }
}

/// State that the requests of a transfer share.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    /// `CURLOPT_RESUME_FROM`: the body was moved to its place.
    pub(crate) has_resumed: bool,
    /// A 417 response: no further request has a field `Expect` of ours.
    pub(crate) refuses_expect: bool,
    /// Requests that were repeated on another connection.
    pub(crate) retries: u32,
    /// When the first CONNECT for the current tunnel was sent.
    pub(crate) connect_began: Option<Instant>,
}

/// How far the connection of a request is that waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Preconnect {
    /// The request does not wait.
    #[default]
    None,
    Opening,
    /// The request may begin, on this connection.
    Open(SocketId),
}

/// The way of a body to the write callback.
#[derive(Debug, Default)]
pub(crate) struct DownloadState {
    /// Body bytes of the current response.
    pub(crate) received: u64,
    pub(crate) document: DocumentFacts,
    pub(crate) decoder: BodyDecoder,
    /// Pieces that the callback has not accepted, in order.
    pub(crate) held: HeldBody,
    pub(crate) is_paused: bool,
    /// The exchange has ended while pieces were held.
    pub(crate) ended: Option<Result<(), Failure>>,
}

impl ConstDefault for DownloadState {
    const DEFAULT: &'static Self = &Self {
        received: 0,
        document: DocumentFacts::NONE,
        decoder: BodyDecoder::NONE,
        held: HeldBody::EMPTY,
        is_paused: false,
        ended: None,
    };
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
    /// The limit of speed delays the next piece.
    pub(crate) is_delayed: bool,
    /// Since when the speed is measured, and what had been sent then.
    pub(crate) window: Option<(Instant, i64)>,
    /// The read callback was used: another request has to rewind it.
    pub(crate) has_read: bool,
    /// The current request has one.
    pub(crate) has_body: bool,
    /// It waits for `100 Continue`.
    pub(crate) expects: bool,
    /// It is sent in chunks.
    pub(crate) is_chunked: bool,
    /// All of it was passed on.
    pub(crate) is_whole: bool,
    /// The server has responded with an error: the rest is not sent.
    pub(crate) is_stopped: bool,
    /// The form that is sent, except while it is read.
    pub(crate) form: Option<Box<FormUpload>>,
}

impl ConstDefault for UploadState {
    const DEFAULT: &'static Self = &Self {
        sent: 0,
        left: None,
        is_paused: false,
        is_writable: false,
        is_delayed: false,
        window: None,
        has_read: false,
        has_body: false,
        expects: false,
        is_chunked: false,
        is_whole: false,
        is_stopped: false,
        form: None,
    };
}
