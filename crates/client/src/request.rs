//! A request, compiled once: URL parsed, connection key known, head written.

use std::sync::Arc;

use bytes::Bytes;
use fulmar_proto as proto;
use fulmar_proto::h1::EncodedRequest;
use fulmar_proto::{BodyLen, FileRange, HeaderBuf};

use crate::error::BuildError;
use crate::key::{Hashed, Key, Protocol, Route};
use crate::options::Options;
use crate::target::Target;

/// A request that can be started as often as one likes: cloning takes a reference, starting it
/// parses and allocates nothing.
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
    target: Target,
    method: Box<str>,
    headers: HeaderBuf,
    body: Body,
    tag: u64,
    options: Arc<Options>,
    key: Hashed,
    encoded: Option<EncodedRequest>,
}

/// What is sent after the head.
#[derive(Clone, Debug, Default)]
pub enum Body {
    /// Nothing.
    #[default]
    Empty,
    /// Bytes in memory.
    Bytes(Bytes),
    /// Bytes of a file, by `sendfile(2)`.
    File(FileRange),
    /// Bytes that the application sends when there is room
    /// ([`crate::Event::Writable`]); `None`: the length is not known, and it is sent in chunks.
    Stream(Option<u64>),
}

impl Body {
    /// Its length, as the head says it.
    pub fn len(&self) -> BodyLen {
        match self {
            Self::Empty => BodyLen::Empty,
            Self::Bytes(bytes) => BodyLen::Exact(bytes.len() as u64),
            Self::File(range) => BodyLen::Exact(range.len),
            Self::Stream(Some(len)) => BodyLen::Exact(*len),
            Self::Stream(None) => BodyLen::Unknown,
        }
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }

    /// True if it can be sent twice.
    pub fn is_replayable(&self) -> bool {
        !matches!(self, Self::Stream(_))
    }
}

/// A request to be.
#[derive(Clone, Debug)]
pub struct RequestBuilder {
    method: String,
    url: String,
    headers: HeaderBuf,
    refused: Option<String>,
    body: Body,
    tag: u64,
    options: Option<Arc<Options>>,
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
            body: Body::Empty,
            tag: 0,
            options: None,
        }
    }

    /// What is asked for, without user and password.
    pub fn url(&self) -> &url::Url {
        self.inner.target.url()
    }

    /// The method.
    pub fn method(&self) -> &str {
        &self.inner.method
    }

    /// The number that the application gave it.
    pub fn tag(&self) -> u64 {
        self.inner.tag
    }

    /// How it is carried out.
    pub fn options(&self) -> &Arc<Options> {
        &self.inner.options
    }

    /// What it must have in common with another to share its connection.
    pub fn key(&self) -> &Key {
        self.inner.key.key()
    }

    /// True if the server may carry it out twice without harm (RFC 9110 §9.2.2), and it can be
    /// sent twice.
    pub fn is_idempotent(&self) -> bool {
        let method =
            matches!(self.method(), "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE");
        method && self.inner.body.is_replayable()
    }

    pub(crate) fn target(&self) -> &Target {
        &self.inner.target
    }

    pub(crate) fn body(&self) -> &Body {
        &self.inner.body
    }

    pub(crate) fn hashed(&self) -> &Hashed {
        &self.inner.key
    }

    /// The whole request as it goes on the wire, where that is always the same.
    pub(crate) fn encoded(&self) -> Option<&EncodedRequest> {
        self.inner.encoded.as_ref()
    }

    /// Its head, with what is added this time.
    pub(crate) fn head<'a>(&'a self, added: proto::head::Added<'a>) -> proto::Request<'a> {
        let inner = &self.inner;
        let head = proto::Request::new(
            inner.method.as_bytes(),
            inner.target.form(inner.key.key().route == Route::Forward).as_bytes(),
            inner.headers.as_headers(),
        );
        proto::Request { added, expects_continue: self.expects_continue(), ..head }
    }

    /// True if the body waits until the server wants it.
    pub(crate) fn expects_continue(&self) -> bool {
        let from = self.inner.options.expect_continue_from;
        match self.inner.body.len() {
            BodyLen::Empty => false,
            BodyLen::Exact(len) => from.is_some_and(|from| len >= from),
            BodyLen::Unknown => from.is_some(),
        }
    }

    /// The request that a redirect leads to.
    pub(crate) fn redirected(&self, hop: &Redirected) -> Result<Self, BuildError> {
        let inner = &self.inner;
        let mut headers = HeaderBuf::new();
        let sensitive = &inner.options.credential_fields;
        for (name, value) in inner.headers.as_headers().iter() {
            let name = String::from_utf8_lossy(name);
            let is = |known: &str| name.eq_ignore_ascii_case(known);
            let about_body = ["content-type", "content-encoding", "content-language"];
            let dropped = is("host")
                || (hop.drop_body && about_body.into_iter().any(is))
                || (hop.drop_credentials
                    && (CREDENTIAL_FIELDS.into_iter().any(is) || sensitive.iter().any(|n| is(n))))
                || (hop.referer.is_some() && is("referer"));
            if !dropped {
                headers.push(&name, value).map_err(|_| BuildError::Field(name.into_owned()))?;
            }
        }
        if let Some(referer) = &hop.referer {
            let refused = |_| BuildError::Field("Referer".to_owned());
            headers.push("Referer", referer.as_bytes()).map_err(refused)?;
        }
        let body = if hop.drop_body { Body::Empty } else { inner.body.clone() };
        let target = Target::from_url(hop.url.clone()).map_err(BuildError::Url)?;
        let options = match hop.drop_credentials && inner.options.credentials.is_some() {
            true => Arc::new(Options { credentials: None, ..(*inner.options).clone() }),
            false => inner.options.clone(),
        };
        compile(target, hop.method.as_str().into(), headers, body, inner.tag, options)
    }
}

/// What a redirect changes.
#[derive(Debug)]
pub(crate) struct Redirected {
    pub(crate) url: url::Url,
    pub(crate) method: String,
    pub(crate) drop_body: bool,
    pub(crate) drop_credentials: bool,
    pub(crate) referer: Option<String>,
}

impl RequestBuilder {
    /// Adds a field. Framing fields and `Host` are ours, unless `Host` is set here.
    #[must_use]
    pub fn header(mut self, name: &str, value: &[u8]) -> Self {
        if self.headers.push(name, value).is_err() {
            self.refused.get_or_insert_with(|| name.to_owned());
        }
        self
    }

    /// What is sent after the head.
    #[must_use]
    pub fn body(mut self, body: Body) -> Self {
        self.body = body;
        self
    }

    /// A number for the application's own use; see [`Request::tag`].
    #[must_use]
    pub fn tag(mut self, tag: u64) -> Self {
        self.tag = tag;
        self
    }

    /// How it is carried out; requests share options by reference.
    #[must_use]
    pub fn options(mut self, options: Arc<Options>) -> Self {
        self.options = Some(options);
        self
    }

    /// Compiles it.
    ///
    /// # Errors
    /// The URL, the method or a field cannot be sent.
    pub fn build(self) -> Result<Request, BuildError> {
        if let Some(name) = self.refused {
            return Err(BuildError::Field(name));
        }
        let options = self.options.unwrap_or_default();
        let (target, user) = Target::with_user(&self.url).map_err(BuildError::Url)?;
        let options = match user {
            // What stands in the URL counts more than what was given for all.
            Some(user) => Arc::new(Options { credentials: Some(user), ..(*options).clone() }),
            None => options,
        };
        compile(target, self.method.into(), self.headers, self.body, self.tag, options)
    }
}

fn compile(
    target: Target,
    method: Box<str>,
    given: HeaderBuf,
    body: Body,
    tag: u64,
    options: Arc<Options>,
) -> Result<Request, BuildError> {
    let headers = complete(&target, &given, &options)?;
    let key = Hashed::new(options.key(&target));
    let mut inner = Inner { target, method, headers, body, tag, options, key, encoded: None };
    let bytes = match &inner.body {
        Body::Empty => Some(Bytes::new()),
        Body::Bytes(bytes) if bytes.len() <= ENCODED_BODY_MAX => Some(bytes.clone()),
        _ => None,
    };
    let request = Request { inner: Arc::new(inner) };
    let bad = |_| BuildError::Field(request.method().to_owned());
    let head = EncodedRequest::new(&request.head(&[]), bytes.as_deref().unwrap_or_default());
    let encoded = head.map_err(bad)?;
    if bytes.is_none() || request.expects_continue() {
        return Ok(request);
    }
    inner = Arc::into_inner(request.inner).expect("made above, shared with nobody");
    inner.encoded = Some(encoded);
    Ok(Request { inner: Arc::new(inner) })
}

/// The fields given, and those that every request of ours has unless it was given them.
fn complete(
    target: &Target,
    given: &HeaderBuf,
    options: &Options,
) -> Result<HeaderBuf, BuildError> {
    let has = |name: &str| given.as_headers().get(name).is_some();
    let mut headers = HeaderBuf::new();
    let mut put = |name: &str, value: &[u8]| {
        headers.push(name, value).map_err(|_| BuildError::Field(name.to_owned()))
    };
    if !has("host") {
        put("Host", target.authority().as_bytes())?;
    }
    if !has("user-agent") {
        put("User-Agent", USER_AGENT.as_bytes())?;
    }
    if !has("accept") {
        put("Accept", b"*/*")?;
    }
    if options.decode.is_some() && !has("accept-encoding") && !has("range") {
        put("Accept-Encoding", fulmar_semantics::coding::ACCEPT_ENCODING.as_bytes())?;
    }
    for (name, value) in given.as_headers().iter() {
        let name = std::str::from_utf8(name).expect("a token was pushed");
        put(name, value)?;
    }
    Ok(headers)
}

/// Fields that belong to the origin that they were meant for.
const CREDENTIAL_FIELDS: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];
const USER_AGENT: &str = concat!("fulmar/", env!("CARGO_PKG_VERSION"));
/// A body up to here is compiled together with its head: one piece, one copy.
const ENCODED_BODY_MAX: usize = 16 * 1024;
/// So far there is nothing else.
pub(crate) const PROTOCOL: Protocol = Protocol::Http1;
