//! Where an answer sends a request, and what goes along (RFC 9110 §15.4, §10.2.2).
//!
//! Needs the feature `url`.
//!
//! Pure: an answer goes in, a decision comes out. Counting the hops, sending the next request and
//! telling the user are the client's work.

use std::fmt;

use url::Url;

/// Which redirects are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How many, one after another.
    pub hops_max: u32,
    /// Where to.
    pub reach: Reach,
    /// What becomes of a POST at 301 and 302.
    pub post: Post,
}

impl Default for Policy {
    fn default() -> Self {
        Self { hops_max: HOPS_USUAL, reach: Reach::NoDowngrade, post: Post::BecomesGet }
    }
}

/// Which schemes a redirect may lead to. None but these two, ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// `https` only.
    HttpsOnly,
    /// `https`, and from `http` also `http`.
    NoDowngrade,
    /// `http` also from `https`: what was protected so far is not any more.
    HttpAndHttps,
}

/// What becomes of a POST at 301 and 302: both may be had (RFC 9110 §15.4.2, §15.4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Post {
    /// What every browser does.
    BecomesGet,
    /// What the status was meant to say.
    Stays,
}

/// An answer, and the request that it answers.
#[derive(Clone, Copy, Debug)]
pub struct Hop<'a> {
    /// The method of the request.
    pub method: &'a [u8],
    /// Where it went, with the fragment it came with.
    pub url: &'a Url,
    /// The status of the answer.
    pub status: u16,
    /// Its `Location`. Of several fields the caller takes the first.
    pub location: Option<&'a [u8]>,
    /// How many redirects were followed to get here.
    pub followed: u32,
}

/// What to do about an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is the final one.
    Stop,
    /// Ask there.
    Follow(Follow),
}

/// The next request of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Follow {
    /// Where it goes. Userinfo in it is the server's word, not the user's.
    pub url: Url,
    /// How it asks.
    pub ask: Ask,
    /// Whom it asks.
    pub origin: Origin,
}

/// How a redirected request asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// As before, with the same body.
    Same,
    /// With GET, or HEAD where that was the method, and without a body.
    Retrieve,
}

/// Whether scheme, host and port are those of the request before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// All three are.
    Same,
    /// Credentials stay behind, and never come back in this chain.
    Other,
}

/// What to do about the answer.
///
/// # Errors
/// The answer is a redirect that must not be followed.
pub fn decide(policy: Policy, hop: Hop<'_>) -> Result<Decision, RedirectError> {
    let Some(ask) = ask(policy.post, hop.status, hop.method) else { return Ok(Decision::Stop) };
    let Some(location) = hop.location else { return Ok(Decision::Stop) };
    if hop.followed >= policy.hops_max {
        return Err(RedirectError::TooMany { max: policy.hops_max });
    }
    let mut url = resolve(hop.url, location).ok_or(RedirectError::BadLocation)?;
    check_scheme(policy.reach, hop.url, &url)?;
    if url.fragment().is_none() {
        url.set_fragment(hop.url.fragment()); // RFC 9110 §10.2.2
    }
    let origin = if url.origin() == hop.url.origin() { Origin::Same } else { Origin::Other };
    Ok(Decision::Follow(Follow { url, ask, origin }))
}

/// How the next request asks, if this status is a redirect. 300 leaves the choice to the user,
/// 304 to 306 are none.
fn ask(post: Post, status: u16, method: &[u8]) -> Option<Ask> {
    match status {
        301 | 302 if method == b"POST" && post == Post::BecomesGet => Some(Ask::Retrieve),
        301 | 302 | 307 | 308 => Some(Ask::Same),
        303 => Some(Ask::Retrieve),
        _ => None,
    }
}

/// The URL that a `Location` means. Bytes beyond ASCII, which a URI cannot have, are taken for
/// the UTF-8 that browsers take them for.
fn resolve(base: &Url, location: &[u8]) -> Option<Url> {
    // The parser would drop tabs and line ends unseen: what was checked must be what is used.
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
        match self.ask {
            Ask::Retrieve if method != b"HEAD" => b"GET",
            _ => method,
        }
    }

    /// True if a field of the last request belongs into the next one too. `private` names more
    /// fields that no other origin may see.
    pub fn keeps(&self, name: &[u8], private: &[&str]) -> bool {
        let in_list = |list: &[&str]| list.iter().any(|n| name.eq_ignore_ascii_case(n.as_bytes()));
        let stays_behind = self.origin == Origin::Other && (in_list(PRIVATE) || in_list(private));
        let is_of_body = self.ask == Ask::Retrieve
            && (in_list(OF_BODY)
                || name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case(b"content-")));
        !stays_behind && !is_of_body
    }
}

/// The `Referer` of a request to `to` that `from` caused: without userinfo and fragment
/// (RFC 9110 §10.1.3), and none where it would be sent in the open what was not.
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

/// A redirect that is not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RedirectError {
    /// More than [`Policy::hops_max`].
    TooMany {
        /// That limit.
        max: u32,
    },
    /// `Location` is no URL reference, or longer than [`LOCATION_SIZE_MAX`].
    BadLocation,
    /// It leads to something else than `http` and `https`: the scheme.
    BadScheme(Box<str>),
    /// It leads to `http`, which [`Policy::reach`] does not allow.
    Downgrade,
}

impl fmt::Display for RedirectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany { max } => write!(f, "more than {max} redirects"),
            Self::BadLocation => f.write_str("the redirect's Location is malformed"),
            Self::BadScheme(scheme) => write!(f, "a redirect to the scheme {scheme:?}"),
            Self::Downgrade => f.write_str("a redirect to http, which the policy forbids"),
        }
    }
}

impl std::error::Error for RedirectError {}

/// As many as browsers follow.
pub const HOPS_USUAL: u32 = 20;
/// As long as a request target may be.
pub const LOCATION_SIZE_MAX: usize = 8 * 1024;
/// Fields that one origin was given, and the name of that origin.
const PRIVATE: &[&str] = &["authorization", "cookie", "host", "origin", "proxy-authorization"];
/// Fields about a body, besides `Content-*`.
const OF_BODY: &[&str] = &["digest", "expect", "last-modified", "trailer", "transfer-encoding"];
