//! Requests, compiled once: the URL is parsed, the connection key known, the head written.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fulmar_engine::TickSpan;
use fulmar_proto as proto;
use fulmar_proto::h1::{EncodedRequest, VerbatimHead};
use fulmar_proto::{BodyLen, FileRange, HeaderBuf, Segment};
use fulmar_semantics::auth::{self, Credentials};
use fulmar_semantics::coding;
use fulmar_semantics::form::EncodedForm;
use fulmar_semantics::proxy::Login;
use fulmar_semantics::redirect::{Follow, NextMethod, OriginChange};

use crate::connection_key::{Hashed, Key, Protocol, Route};
use crate::error::BuildError;
use crate::options::Options;
use crate::request_url::RequestUrl;
use crate::transfer_stage::TransferStage;

/// A request that can be started any number of times. A clone is a reference; starting it parses
/// and allocates nothing.
///
/// ```
/// use fulmar_client::Request;
/// let request = Request::get("http://example.com/a").header("Accept", b"text/html").build()?;
/// assert_eq!(request.url().as_str(), "http://example.com/a");
/// assert!(Request::get("http://example.com/").header("X", b"a\r\nEvil: 1").build().is_err());
/// # Ok::<(), fulmar_client::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Request {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    origin: CompiledOrigin,
    method: Box<str>,
    headers: HeaderBuf,
    body: RequestBody,
    tag: u64,
    /// For challenges. Credentials that are sent without one are among the headers.
    credentials: Option<Arc<Credentials>>,
    encoded: Option<EncodedRequest>,
    /// The head of the caller; with HTTP/2, `headers` has its fields.
    verbatim: Option<VerbatimHead>,
    purpose: ConnectionPurpose,
}

/// What a transfer needs its connection for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionPurpose {
    Exchange,
    /// There is no request: the connection carries the bytes of the application.
    Tunnel,
    /// There is no request: the connection is for later ones.
    Later,
}

/// A URL and options, compiled once for requests whose heads are the caller's: the URL is parsed,
/// and the connection key known. A clone is a reference.
///
/// ```
/// use fulmar_client::{CompiledOrigin, Options, RequestBody, VerbatimHead};
/// let origin = CompiledOrigin::new("http://127.0.0.1:8080/", Options::default())?;
/// let head = VerbatimHead::new("GET /a HTTP/1.1\r\nhost: example.com\r\n\r\n").unwrap();
/// let request = origin.request(head, RequestBody::Empty)?;
/// assert_eq!(request.key().port, 8080);
/// # Ok::<(), fulmar_client::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct CompiledOrigin {
    shared: Arc<SharedOrigin>,
}

#[derive(Debug)]
struct SharedOrigin {
    target: RequestUrl, // its path is of the first request
    options: Arc<Options>,
    key: Hashed,
    stage_timeouts: StageTimeouts,
}

impl CompiledOrigin {
    /// Compiles a URL and options.
    ///
    /// # Errors
    /// The URL is malformed, or a certificate of the options cannot be read.
    pub fn new(url: &str, options: Options) -> Result<Self, BuildError> {
        let (target, _) = RequestUrl::with_user(url).map_err(BuildError::Url)?;
        Self::compile(target, Arc::new(options), false)
    }

    /// The options.
    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    pub(crate) fn key(&self) -> &Hashed {
        &self.shared.key
    }

    /// The same for requests that ask for another protocol ([`VerbatimHead::upgrades`]).
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn for_upgrades(&self) -> Result<Self, BuildError> {
        let SharedOrigin { target, options, .. } = &*self.shared;
        Self::compile(target.clone(), Arc::clone(options), true)
    }

    /// A request with this head: see [`Request::with_verbatim_head`].
    ///
    /// # Errors
    /// The head has a malformed field, and the connection may be one of HTTP/2.
    pub fn request(&self, head: VerbatimHead, body: RequestBody) -> Result<Request, BuildError> {
        let origin = match head.upgrades {
            true => self.for_upgrades()?,
            false => self.clone(),
        };
        origin.verbatim_request(head, body, 0)
    }

    /// No request, but a connection for the next one with this origin: the transfer ends as soon as
    /// one is there, a new one or one that is kept.
    pub fn connection(&self) -> Request {
        let inner = Inner {
            origin: self.clone(),
            method: Box::default(),
            headers: HeaderBuf::new(),
            body: RequestBody::Empty,
            tag: 0,
            credentials: None,
            encoded: None,
            verbatim: None,
            purpose: ConnectionPurpose::Later,
        };
        Request { inner: Arc::new(inner) }
    }

    /// `upgrades`: the request asks for another protocol.
    fn compile(
        target: RequestUrl,
        options: Arc<Options>,
        upgrades: bool,
    ) -> Result<Self, BuildError> {
        let key = Hashed::new(options.key(&target, upgrades)?);
        let stage_timeouts = StageTimeouts::new(&options);
        Ok(Self { shared: Arc::new(SharedOrigin { target, options, key, stage_timeouts }) })
    }

    /// The fields of the head are parsed only if the connection may be one of HTTP/2.
    fn verbatim_request(
        self,
        head: VerbatimHead,
        body: RequestBody,
        tag: u64,
    ) -> Result<Request, BuildError> {
        let method: Box<str> = String::from_utf8_lossy(head.method()).into();
        let headers = match self.shared.key.key().protocol {
            Protocol::Http1 => HeaderBuf::new(),
            Protocol::Negotiated | Protocol::Http2 => {
                head.to_fields().map_err(|_| BuildError::Field(method.to_string()))?
            }
        };
        let encoded = match &body {
            RequestBody::Empty => Some(EncodedRequest::verbatim(&head, b"")),
            RequestBody::Bytes(bytes)
                if bytes.len() <= ENCODED_BODY_MAX && !head.expects_continue =>
            {
                Some(EncodedRequest::verbatim(&head, bytes))
            }
            RequestBody::Bytes(_)
            | RequestBody::File(_)
            | RequestBody::Segments(_)
            | RequestBody::Stream(_) => None,
        };
        let (credentials, verbatim) = (None, Some(head));
        let origin = self;
        let inner = Inner {
            origin,
            method,
            headers,
            body,
            tag,
            credentials,
            encoded,
            verbatim,
            purpose: ConnectionPurpose::Exchange,
        };
        Ok(Request { inner: Arc::new(inner) })
    }
}

/// The timeouts of stages, and whether no other deadline applies.
#[derive(Clone, Copy, Debug)]
struct StageTimeouts {
    no_other_deadlines: bool,
    queue: TickSpan,
    first_byte: TickSpan,
    idle: TickSpan,
}

impl StageTimeouts {
    fn new(options: &Options) -> Self {
        let span = |time: Option<Duration>| time.map_or(TickSpan::ENDLESS, TickSpan::from);
        let paced = options.lowest_speed.is_some() || options.highest_speed.is_some();
        Self {
            no_other_deadlines: options.total_timeout.or(options.exchange_timeout).is_none()
                && !paced,
            queue: span(options.queue_timeout),
            first_byte: span(options.first_byte_timeout),
            idle: span(options.idle_timeout),
        }
    }
}

/// The body of a request.
#[derive(Clone, Debug, Default)]
pub enum RequestBody {
    /// Nothing.
    #[default]
    Empty,
    /// Bytes in memory.
    Bytes(Bytes),
    /// Bytes of a file, by `sendfile(2)`.
    File(FileRange),
    /// Several segments in order, as in a form: see [`RequestBuilder::form`].
    Segments(Arc<[Segment]>),
    /// Bytes that the application sends when there is room ([`crate::TransferEvent::Writable`]);
    /// `None`: of unknown length, sent in chunks.
    Stream(Option<u64>),
}

impl RequestBody {
    /// Its length for the head.
    pub fn len(&self) -> BodyLen {
        match self {
            Self::Empty => BodyLen::Empty,
            Self::Bytes(bytes) => BodyLen::Exact(bytes.len() as u64),
            Self::File(range) => BodyLen::Exact(range.len),
            Self::Segments(segments) => BodyLen::Exact(segments.iter().map(Segment::len).sum()),
            Self::Stream(Some(len)) => BodyLen::Exact(*len),
            Self::Stream(None) => BodyLen::Unknown,
        }
    }

    /// True if there is no body.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }

    /// True if it can be sent again.
    pub fn is_replayable(&self) -> bool {
        !matches!(self, Self::Stream(_))
    }
}

/// Builds a request.
#[derive(Clone, Debug)]
pub struct RequestBuilder {
    method: String,
    url: String,
    headers: HeaderBuf,
    refused: Option<String>,
    body: RequestBody,
    tag: u64,
    options: Option<Arc<Options>>,
    verbatim: Option<VerbatimHead>,
    purpose: ConnectionPurpose,
}

impl Request {
    /// A GET.
    pub fn get(url: &str) -> RequestBuilder {
        Self::with_method("GET", url)
    }

    /// A request with this method.
    pub fn with_method(method: &str, url: &str) -> RequestBuilder {
        RequestBuilder {
            method: method.to_owned(),
            url: url.to_owned(),
            headers: HeaderBuf::new(),
            refused: None,
            body: RequestBody::Empty,
            tag: 0,
            options: None,
            verbatim: None,
            purpose: ConnectionPurpose::Exchange,
        }
    }

    /// A request whose head is sent byte for byte. The URL decides where it is sent.
    ///
    /// The client adds no field: no cookies and no credentials. It delivers every response: it
    /// follows no redirect, and repeats the request after no 401, 417 or 421. The fields have to
    /// declare the length of the body. [`RequestBody::Stream`] without a length is sent in chunks.
    /// A body follows at once, unless [`VerbatimHead::expects_continue`] is set. Over HTTP/2 the
    /// fields are converted ([`VerbatimHead::to_fields`]), and a body follows at once.
    ///
    /// ```
    /// use fulmar_client::{Request, VerbatimHead};
    /// let head = VerbatimHead::new("GET /a HTTP/1.1\r\nhost: example.com\r\n\r\n").unwrap();
    /// let request = Request::with_verbatim_head("http://127.0.0.1:8080/", head).build()?;
    /// assert_eq!(request.method(), "GET");
    /// # Ok::<(), fulmar_client::BuildError>(())
    /// ```
    pub fn with_verbatim_head(url: &str, head: VerbatimHead) -> RequestBuilder {
        let method = String::from_utf8_lossy(head.method()).into_owned();
        RequestBuilder { verbatim: Some(head), ..Self::with_method(&method, url) }
    }

    /// No request, but a connection for the application's own bytes, with TLS if the scheme of the
    /// URL has it. With it the transfer receives [`crate::TransferEvent::Upgraded`], and is paused:
    /// nothing is read before [`crate::Context::resume`]. No other transfer uses the connection,
    /// which is closed when the transfer ends or is removed.
    pub fn tunnel(url: &str) -> RequestBuilder {
        RequestBuilder { purpose: ConnectionPurpose::Tunnel, ..Self::with_method("CONNECT", url) }
    }

    /// The URL, without user and password.
    pub fn url(&self) -> &url::Url {
        self.inner.origin.shared.target.url()
    }

    /// The method.
    pub fn method(&self) -> &str {
        &self.inner.method
    }

    /// The application's number of the request.
    pub fn tag(&self) -> u64 {
        self.inner.tag
    }

    /// The options.
    pub fn options(&self) -> &Arc<Options> {
        &self.inner.origin.shared.options
    }

    /// The key of its connections: requests with equal keys share them.
    pub fn key(&self) -> &Key {
        self.inner.origin.shared.key.key()
    }

    /// True if the server may execute it twice without harm (RFC 9110 §9.2.2), and it can be sent
    /// again.
    pub fn is_idempotent(&self) -> bool {
        let method =
            matches!(self.method(), "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE");
        method && self.inner.body.is_replayable()
    }

    pub(crate) fn body(&self) -> &RequestBody {
        &self.inner.body
    }

    pub(crate) fn hashed(&self) -> &Hashed {
        &self.inner.origin.shared.key
    }

    /// The whole encoded request, if it is always the same.
    pub(crate) fn encoded(&self) -> Option<&EncodedRequest> {
        self.inner.encoded.as_ref()
    }

    /// The head of the caller, if it is sent byte for byte.
    pub fn verbatim(&self) -> Option<&VerbatimHead> {
        self.inner.verbatim.as_ref()
    }

    /// True if only its response is outstanding ([`VerbatimHead::is_sent`]).
    pub(crate) fn is_sent(&self) -> bool {
        self.inner.verbatim.as_ref().is_some_and(|head| head.is_sent)
    }

    /// True if it is paused when its connection is upgraded ([`VerbatimHead::pauses_upgraded`]).
    pub(crate) fn pauses_upgraded(&self) -> bool {
        self.inner.verbatim.as_ref().is_some_and(|head| head.pauses_upgraded)
    }

    /// True if it is no request ([`Request::tunnel`]).
    pub(crate) fn is_tunnel(&self) -> bool {
        self.inner.purpose == ConnectionPurpose::Tunnel
    }

    /// True if it is no request ([`CompiledOrigin::connection`]).
    pub(crate) fn is_for_later(&self) -> bool {
        self.inner.purpose == ConnectionPurpose::Later
    }

    /// True if the response has no body, whatever its fields declare.
    pub(crate) fn is_bodiless(&self) -> bool {
        match &self.inner.verbatim {
            Some(head) => head.is_bodiless,
            None => self.method() == "HEAD",
        }
    }

    /// The credentials for challenges of its origin.
    pub(crate) fn credentials(&self) -> Option<&Arc<Credentials>> {
        self.inner.credentials.as_ref()
    }

    /// The request target in origin form.
    pub(crate) fn path(&self) -> &str {
        self.inner.origin.shared.target.path()
    }

    /// True if the caller set this field.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.inner.headers.as_headers().get(name).is_some()
    }

    /// The timeout of this stage; `None` if other deadlines apply.
    pub(crate) fn stage_timeout(&self, stage: TransferStage) -> Option<TickSpan> {
        let stage_timeouts = self.inner.origin.shared.stage_timeouts;
        match stage {
            _ if !stage_timeouts.no_other_deadlines => None,
            TransferStage::Queued => Some(stage_timeouts.queue),
            TransferStage::Sending => Some(stage_timeouts.first_byte),
            TransferStage::Receiving => Some(stage_timeouts.idle),
            TransferStage::Detached | TransferStage::Expecting => None,
        }
    }

    /// Its head, with the fields `added` for this exchange.
    pub(crate) fn head<'a>(&'a self, added: proto::head::Added<'a>) -> proto::Request<'a> {
        let inner = &self.inner;
        let target = match &inner.verbatim {
            Some(head) => head.target(),
            None => {
                let SharedOrigin { target, key, .. } = &*inner.origin.shared;
                target.form(key.key().route == Route::Forward).as_bytes()
            }
        };
        let head = proto::Request::new(inner.method.as_bytes(), target, inner.headers.as_headers());
        let expects_continue = inner.verbatim.is_none() && self.expects_continue();
        proto::Request { added, expects_continue, ..head }
    }

    /// True if the body waits for 100 Continue.
    pub(crate) fn expects_continue(&self) -> bool {
        if let Some(head) = &self.inner.verbatim {
            return head.expects_continue && !self.inner.body.is_empty();
        }
        let from = self.options().expect_continue_from;
        match self.inner.body.len() {
            BodyLen::Empty => false,
            BodyLen::Exact(len) => from.is_some_and(|from| len >= from),
            BodyLen::Unknown => from.is_some(),
        }
    }

    /// The request after a redirect.
    pub(crate) fn redirected(&self, hop: &Redirected) -> Result<Self, BuildError> {
        let inner = &self.inner;
        let mut headers = HeaderBuf::new();
        let private: Vec<&str> = self.options().credential_fields.iter().map(|n| &n[..]).collect();
        let follow = &hop.follow;
        for (name, value) in inner.headers.as_headers().iter() {
            let kept = follow.keeps(name, &private);
            let name = String::from_utf8_lossy(name);
            let is = |known: &str| name.eq_ignore_ascii_case(known);
            let replaced = is("host") || (hop.referer.is_some() && is("referer"));
            if kept && !replaced {
                headers.push(&name, value).map_err(|_| BuildError::Field(name.into_owned()))?;
            }
        }
        if let Some(referer) = &hop.referer {
            let refused = |_| BuildError::Field("Referer".to_owned());
            headers.push("Referer", referer.as_bytes()).map_err(refused)?;
        }
        let mut draft = self.draft();
        draft.target = RequestUrl::from_url(follow.url.clone()).map_err(BuildError::Url)?;
        draft.method = hop.method.as_str().into();
        draft.headers = headers;
        if follow.next_method == NextMethod::Retrieve {
            draft.body = RequestBody::Empty;
        }
        if follow.origin == OriginChange::Other {
            draft.credentials = None;
        }
        draft.compile()
    }

    /// The same without `Expect`, for a server that does not know it (RFC 9110 §10.1.1).
    pub(crate) fn without_expect(&self) -> Result<Self, BuildError> {
        let mut draft = self.draft();
        let options = Options { expect_continue_from: None, ..Options::clone(&draft.options) };
        draft.options = Arc::new(options);
        draft.compile()
    }

    /// The same over HTTP/1.1, for a server that requires it (RFC 9113 §7: HTTP_1_1_REQUIRED).
    pub(crate) fn over_http1(&self) -> Result<Self, BuildError> {
        let mut draft = self.draft();
        let options = Options { protocol: Protocol::Http1, ..Options::clone(&draft.options) };
        draft.options = Arc::new(options);
        draft.compile()
    }

    fn draft(&self) -> Draft {
        let inner = &self.inner;
        Draft {
            target: inner.origin.shared.target.clone(),
            method: inner.method.clone(),
            headers: inner.headers.clone(),
            body: inner.body.clone(),
            tag: inner.tag,
            options: Arc::clone(self.options()),
            credentials: inner.credentials.clone(),
            verbatim: inner.verbatim.clone(),
            purpose: inner.purpose,
        }
    }
}

/// The changes of a redirect.
#[derive(Debug)]
pub(crate) struct Redirected {
    pub(crate) follow: Follow,
    pub(crate) method: String,
    pub(crate) referer: Option<String>,
}

impl RequestBuilder {
    /// Adds a field. The client adds framing fields and `Host`, unless `Host` is set here.
    #[must_use]
    pub fn header(mut self, name: &str, value: &[u8]) -> Self {
        if self.headers.push(name, value).is_err() {
            self.refused.get_or_insert_with(|| name.to_owned());
        }
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: RequestBody) -> Self {
        self.body = body;
        self
    }

    /// Sends a form with its content type; its files by `sendfile(2)`.
    #[must_use]
    pub fn form(self, form: EncodedForm) -> Self {
        let body = RequestBody::Segments(form.segments.into());
        self.header("Content-Type", form.content_type.as_bytes()).body(body)
    }

    /// A number for the application's own use; see [`Request::tag`].
    #[must_use]
    pub fn tag(mut self, tag: u64) -> Self {
        self.tag = tag;
        self
    }

    /// Sets the options, which requests share by reference.
    #[must_use]
    pub fn options(mut self, options: Arc<Options>) -> Self {
        self.options = Some(options);
        self
    }

    /// Compiles the request.
    ///
    /// # Errors
    /// The URL, the method or a field cannot be sent.
    pub fn build(self) -> Result<Request, BuildError> {
        if let Some(name) = self.refused {
            return Err(BuildError::Field(name));
        }
        let options = self.options.unwrap_or_default();
        let (target, user) = RequestUrl::with_user(&self.url).map_err(BuildError::Url)?;
        if self.verbatim.is_some()
            && let Some((name, _)) = self.headers.iter().next()
        {
            return Err(BuildError::Field(String::from_utf8_lossy(name).into_owned()));
        }
        // The URL's credentials have priority over the options'.
        let credentials = match user {
            _ if self.verbatim.is_some() => None,
            Some(user) => Some(Arc::new(password(&user)?)),
            None => options.credentials.clone(),
        };
        let draft = Draft {
            target,
            method: self.method.into(),
            headers: self.headers,
            body: self.body,
            tag: self.tag,
            options,
            credentials,
            verbatim: self.verbatim,
            purpose: self.purpose,
        };
        draft.compile()
    }
}

/// Everything that a request is compiled from.
struct Draft {
    target: RequestUrl,
    method: Box<str>,
    headers: HeaderBuf,
    body: RequestBody,
    tag: u64,
    options: Arc<Options>,
    credentials: Option<Arc<Credentials>>,
    verbatim: Option<VerbatimHead>,
    purpose: ConnectionPurpose,
}

impl Draft {
    fn compile(mut self) -> Result<Request, BuildError> {
        if let Some(head) = self.verbatim.take() {
            let origin = CompiledOrigin::compile(self.target, self.options, head.upgrades)?;
            return origin.verbatim_request(head, self.body, self.tag);
        }
        if self.purpose == ConnectionPurpose::Tunnel {
            let inner = Inner {
                origin: CompiledOrigin::compile(self.target, self.options, true)?,
                method: self.method,
                headers: HeaderBuf::new(),
                body: RequestBody::Empty,
                tag: self.tag,
                credentials: None,
                encoded: None,
                verbatim: None,
                purpose: ConnectionPurpose::Tunnel,
            };
            return Ok(Request { inner: Arc::new(inner) });
        }
        if self.credentials.is_none() {
            self.credentials = self.login()?;
        }
        let headers = self.complete()?;
        let upgrades = headers.as_headers().get("upgrade").is_some();
        let origin = CompiledOrigin::compile(self.target, self.options, upgrades)?;
        let mut inner = Inner {
            origin,
            method: self.method,
            headers,
            body: self.body,
            tag: self.tag,
            credentials: self.credentials,
            encoded: None,
            verbatim: None,
            purpose: ConnectionPurpose::Exchange,
        };
        let bytes = match &inner.body {
            RequestBody::Empty => Some(Bytes::new()),
            RequestBody::Bytes(bytes) if bytes.len() <= ENCODED_BODY_MAX => Some(bytes.clone()),
            RequestBody::Bytes(_)
            | RequestBody::File(_)
            | RequestBody::Segments(_)
            | RequestBody::Stream(_) => None,
        };
        let request = Request { inner: Arc::new(inner) };
        let bad = |_| BuildError::Field(request.method().to_owned());
        let head = EncodedRequest::new(&request.head(&[]), bytes.as_deref().unwrap_or_default());
        let encoded = head.map_err(bad)?;
        if bytes.is_none() || request.expects_continue() {
            return Ok(request);
        }
        inner = Arc::into_inner(request.inner).expect("made above, and not shared");
        inner.encoded = Some(encoded);
        Ok(Request { inner: Arc::new(inner) })
    }

    /// The netrc login of this host.
    fn login(&self) -> Result<Option<Arc<Credentials>>, BuildError> {
        let Some(netrc) = &self.options.netrc else { return Ok(None) };
        let Some(login) = netrc.lookup(&self.target.host(), None) else { return Ok(None) };
        let (user, password) = (login.user.unwrap_or_default(), login.password.unwrap_or_default());
        let credentials = Credentials::password(user, password);
        Ok(Some(Arc::new(credentials.map_err(BuildError::Credentials)?)))
    }

    /// The given fields, and default fields that are not among them.
    fn complete(&self) -> Result<HeaderBuf, BuildError> {
        let has = |name: &str| self.headers.as_headers().get(name).is_some();
        let mut headers = HeaderBuf::new();
        let mut put = |name: &str, value: &[u8]| {
            headers.push(name, value).map_err(|_| BuildError::Field(name.to_owned()))
        };
        if !has("host") {
            put("Host", self.target.authority().as_bytes())?;
        }
        if !has("user-agent") {
            put("User-Agent", USER_AGENT.as_bytes())?;
        }
        if !has("accept") {
            put("Accept", b"*/*")?;
        }
        if self.options.decode.is_some() && !has("accept-encoding") && !has("range") {
            put("Accept-Encoding", coding::ACCEPT_ENCODING.as_bytes())?;
        }
        if !has("authorization")
            && let Some(value) = self.preemptive_auth()
        {
            put("Authorization", &value)?;
        }
        if !has("proxy-authorization")
            && let Some(login) = self.options.proxy_login(&self.target)
        {
            put("Proxy-Authorization", &basic(login)?)?;
        }
        for (name, value) in self.headers.as_headers().iter() {
            let name = std::str::from_utf8(name).expect("a token was pushed");
            put(name, value)?;
        }
        Ok(headers)
    }

    /// Credentials that are sent without a challenge: tokens always, passwords if the options
    /// require it.
    fn preemptive_auth(&self) -> Option<Vec<u8>> {
        let credentials = self.credentials.as_deref()?;
        let mut session = auth::AuthSession::preemptive(credentials)?;
        let token = session.scheme() == auth::Scheme::Bearer;
        (token || self.options.preemptive_auth).then(|| fixed(&mut session))
    }
}

fn password(login: &Login) -> Result<Credentials, BuildError> {
    let (user, password) =
        (String::from_utf8_lossy(&login.user), String::from_utf8_lossy(&login.password));
    Credentials::password(&user, &password).map_err(BuildError::Credentials)
}

/// The value for Basic, which cannot carry a user with a colon (RFC 7617 §2).
pub(crate) fn basic(login: &Login) -> Result<Vec<u8>, BuildError> {
    let session = auth::AuthSession::preemptive(&password(login)?);
    let mut session = session.ok_or_else(|| BuildError::Field("Proxy-Authorization".to_owned()))?;
    Ok(fixed(&mut session))
}

fn fixed(session: &mut auth::AuthSession) -> Vec<u8> {
    let mut value = Vec::new();
    let request = auth::AuthRequest { method: b"", target: b"", body: None };
    session.authorize(request, &mut value).expect("Basic and Bearer are the same for all requests");
    value
}

const USER_AGENT: &str = concat!("fulmar/", env!("CARGO_PKG_VERSION"));
/// A body up to this size is compiled together with its head, as one piece.
const ENCODED_BODY_MAX: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that would break the message, or begin another one, are refused before anything is
    /// sent.
    #[test]
    fn header_injection_is_refused() {
        for bad in ["a\r\nEvil: 1", "a\nb", "a\rb", "a\0b", "\r\n\r\n"] {
            let url = "http://a/";
            let field = Request::get(url).header("X", bad.as_bytes()).build();
            assert!(matches!(field, Err(BuildError::Field(name)) if name == "X"), "{bad:?}");
            assert!(Request::get(url).header(bad, b"x").build().is_err(), "{bad:?}");
            assert!(Request::get(url).header("Host", bad.as_bytes()).build().is_err(), "{bad:?}");
            assert!(Request::with_method(bad, url).build().is_err(), "{bad:?}");
            for url in [format!("http://a/{bad}"), format!("http://{bad}/"), format!("{bad}://a/")]
            {
                assert!(Request::get(&url).build().is_err(), "{url:?}");
            }
        }
        for method in ["", " ", "GET ", "GE T", "G(T", "GET\u{e9}"] {
            assert!(Request::with_method(method, "http://a/").build().is_err(), "{method:?}");
        }
        for name in ["", " ", "a b", "a:", "a\u{e9}", "(a)"] {
            assert!(Request::get("http://a/").header(name, b"x").build().is_err(), "{name:?}");
        }
    }
}
