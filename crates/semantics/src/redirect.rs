//! Redirects: the next URL, method and fields (RFC 9110 §15.4, §10.2.2).
//!
//! Needs the feature `url`.
//!
//! Pure functions of a response. The client counts the hops, sends the next request and reports to
//! the user.

use std::fmt;

use url::Url;

/// The redirect policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Maximum number of consecutive redirects.
    pub hops_max: u32,
    /// The permitted schemes.
    pub reach: Reach,
    /// What to do with a POST at 301 and 302.
    pub post: Post,
}

impl Default for Policy {
    fn default() -> Self {
        Self { hops_max: HOPS_USUAL, reach: Reach::NoDowngrade, post: Post::BecomesGet }
    }
}

/// The schemes that a redirect may lead to; no others are ever followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Only `https`.
    HttpsOnly,
    /// `https`, and from `http` also `http`.
    NoDowngrade,
    /// `http` also from `https`: the next request is not encrypted.
    HttpAndHttps,
}

/// What to do with a POST at 301 and 302; the RFC permits both (RFC 9110 §15.4.2, §15.4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Post {
    /// Change to GET, like all browsers.
    BecomesGet,
    /// Repeat the POST, as the status originally meant.
    Stays,
}

/// A response, and its request.
#[derive(Clone, Copy, Debug)]
pub struct Hop<'a> {
    /// The method of the request.
    pub method: &'a [u8],
    /// The URL of the request, with its fragment.
    pub url: &'a Url,
    /// The status of the response.
    pub status: u16,
    /// The `Location` field; of several, the first.
    pub location: Option<&'a [u8]>,
    /// Number of redirects followed so far.
    pub followed: u32,
}

/// What to do after a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The response is final.
    Stop,
    /// Send another request.
    Follow(Follow),
}

/// The next request of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Follow {
    /// The URL. Its userinfo comes from the server, not from the user.
    pub url: Url,
    /// The method.
    pub next_method: NextMethod,
    /// Whether the origin changes.
    pub origin: OriginChange,
}

/// The method of a redirected request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextMethod {
    /// The same method and body.
    Same,
    /// GET, or HEAD if that was the method, without a body.
    Retrieve,
}

/// Whether scheme, host and port are those of the previous request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginChange {
    /// All are the same.
    Same,
    /// They differ: credentials are removed for the rest of the chain.
    Other,
}

/// Decides what to do after a response.
///
/// # Errors
/// A redirect that must not be followed.
pub fn decide(policy: Policy, hop: Hop<'_>) -> Result<Decision, RedirectError> {
    let Some(next_method) = next_method(policy.post, hop.status, hop.method) else {
        return Ok(Decision::Stop);
    };
    let Some(location) = hop.location else { return Ok(Decision::Stop) };
    if hop.followed >= policy.hops_max {
        return Err(RedirectError::TooMany { max: policy.hops_max });
    }
    let mut url = resolve(hop.url, location).ok_or(RedirectError::BadLocation)?;
    check_scheme(policy.reach, hop.url, &url)?;
    if url.fragment().is_none() {
        url.set_fragment(hop.url.fragment()); // RFC 9110 §10.2.2
    }
    let origin =
        if url.origin() == hop.url.origin() { OriginChange::Same } else { OriginChange::Other };
    Ok(Decision::Follow(Follow { url, next_method, origin }))
}

/// The method of the next request, if this status is a redirect. 300 leaves the choice to the user;
/// 304 to 306 are not redirects.
fn next_method(post: Post, status: u16, method: &[u8]) -> Option<NextMethod> {
    match status {
        301 | 302 if method == b"POST" && post == Post::BecomesGet => Some(NextMethod::Retrieve),
        301 | 302 | 307 | 308 => Some(NextMethod::Same),
        303 => Some(NextMethod::Retrieve),
        _ => None,
    }
}

/// Resolves a `Location`. Non-ASCII bytes, which are invalid in URIs, are interpreted as UTF-8, as
/// in browsers.
fn resolve(base: &Url, location: &[u8]) -> Option<Url> {
    // The URL parser would remove tabs and line ends silently, so the checked text would differ
    // from the used one.
    if location.len() > LOCATION_SIZE_MAX || location.iter().any(u8::is_ascii_control) {
        return None;
    }
    let mut ascii = String::with_capacity(location.len());
    for byte in location {
        if byte.is_ascii() {
            ascii.push((*byte).into());
        } else {
            ascii.push_str(&format!("%{byte:02X}"));
        }
    }
    base.join(&ascii).ok()
}

fn check_scheme(reach: Reach, from: &Url, to: &Url) -> Result<(), RedirectError> {
    match (to.scheme(), reach) {
        ("https", _) | ("http", Reach::HttpAndHttps) => Ok(()),
        ("http", Reach::NoDowngrade) if from.scheme() != "https" => Ok(()),
        ("http", _) => Err(RedirectError::Downgrade),
        (scheme, _) => Err(RedirectError::BadScheme(scheme.into())),
    }
}

impl Follow {
    /// The method of the next request.
    pub fn method<'a>(&self, method: &'a [u8]) -> &'a [u8] {
        match self.next_method {
            NextMethod::Retrieve if method != b"HEAD" => b"GET",
            _ => method,
        }
    }

    /// True if a field of the last request is sent in the next one too. `private` names additional
    /// fields that must not be sent to another origin.
    pub fn keeps(&self, name: &[u8], private: &[&str]) -> bool {
        let in_list = |list: &[&str]| list.iter().any(|n| name.eq_ignore_ascii_case(n.as_bytes()));
        let stays_behind =
            self.origin == OriginChange::Other && (in_list(PRIVATE) || in_list(private));
        let is_of_body = self.next_method == NextMethod::Retrieve
            && (in_list(OF_BODY)
                || name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case(b"content-")));
        !stays_behind && !is_of_body
    }
}

/// The `Referer` of a request to `to` caused by `from`: without userinfo and fragment (RFC 9110
/// §10.1.3); `None` from `https` to `http`.
pub fn referer(from: &Url, to: &Url) -> Option<String> {
    if from.scheme() == "https" && to.scheme() != "https" {
        return None;
    }
    let mut url = from.clone();
    url.set_fragment(None);
    url.set_password(None).ok()?;
    url.set_username("").ok()?;
    Some(url.into())
}

/// Why a redirect was not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RedirectError {
    /// More than [`Policy::hops_max`] redirects.
    TooMany {
        /// The limit.
        max: u32,
    },
    /// `Location` is not a valid URL reference, or is longer than [`LOCATION_SIZE_MAX`].
    BadLocation,
    /// The scheme is neither `http` nor `https`.
    BadScheme(Box<str>),
    /// The scheme is `http`, which [`Policy::reach`] does not permit.
    Downgrade,
}

impl fmt::Display for RedirectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany { max } => write!(f, "more than {max} redirects"),
            Self::BadLocation => f.write_str("malformed Location in redirect"),
            Self::BadScheme(scheme) => write!(f, "redirect to unsupported scheme {scheme:?}"),
            Self::Downgrade => f.write_str("redirect from https to http is not allowed"),
        }
    }
}

impl std::error::Error for RedirectError {}

/// The maximum of most browsers.
pub const HOPS_USUAL: u32 = 20;
/// The maximum length of a request target.
pub const LOCATION_SIZE_MAX: usize = 8 * 1024;
/// Fields that are specific to one origin.
const PRIVATE: &[&str] = &["authorization", "cookie", "host", "origin", "proxy-authorization"];
/// Fields about a body, besides `Content-*`.
const OF_BODY: &[&str] = &["digest", "expect", "last-modified", "trailer", "transfer-encoding"];
