//! The cookie engine of libcurl 7.88, which differs from RFC 6265bis in details that programs see:
//! which cookies are refused, in which order they are sent, and the bytes of the jar.
//!
//! Pure: the time is an argument, and files are text.
//!
//! - `add_header` takes a field of a response, `sent` selects the cookies of a request, and
//!   `cookie_field` makes its field of them, as `header` does in one step;
//! - `load` reads a file, Netscape's format or `Set-Cookie:` lines; `jar` writes one;
//! - `add_line` is `CURLOPT_COOKIELIST` with a cookie, `list` is `CURLINFO_COOKIELIST`. Their
//!   commands are [`CookieCommand`]s.
//!
//! The number of cookies has no limit in libcurl. A response stores at most [`SET_COOKIE_MAX`],
//! which the caller counts, a request has at most [`SENT_COOKIES_MAX`].

mod matching;
mod parse;
mod store;
mod text;

pub(crate) use matching::is_secure_context;
pub(crate) use store::{CookieCommand, CookieEngine, cookie_field};

/// Cookies that one response may set; later fields are ignored. Refused cookies do not count.
pub(crate) const SET_COOKIE_MAX: usize = 50;

/// Cookies of one request.
pub(crate) const SENT_COOKIES_MAX: usize = 150;

/// The URL that a cookie comes from or is sent to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CookieOrigin<'a> {
    /// The host of a `Host` field of the application, or else of the URL; no port, no brackets.
    pub host: &'a [u8],
    /// The path, with or without a query.
    pub path: &'a [u8],
    /// See [`is_secure_context`].
    pub is_secure: bool,
}

/// A cookie of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SentCookie {
    /// The name.
    pub name: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
}

/// A stored cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StoredCookie {
    name: Vec<u8>,
    value: Vec<u8>,
    /// As received. `None` if it came from a header without `Path` in a file: for all paths.
    path: Option<Vec<u8>>,
    /// The path to compare: without quotes and without the last slash.
    match_path: Option<Vec<u8>>,
    /// `None` if it came from a header without `Domain` in a file: for all hosts.
    domain: Option<Vec<u8>>,
    /// Also for the hosts below the domain.
    includes_subdomains: bool,
    is_secure: bool,
    is_http_only: bool,
    /// In seconds since 1970; 0 for a session cookie.
    expires: i64,
    /// False if it was read from a file.
    is_live: bool,
    /// The order of creation. A cookie that replaces another one keeps its number.
    serial: u64,
}

#[cfg(test)]
mod tests;
