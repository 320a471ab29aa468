//! Cookies (RFC 6265bis): a client's [`Jar`], and the fields on a server: reading ([`Pairs`]) and
//! writing ([`NewCookie`]).
//!
//! Needs the feature `cookies`.
//!
//! On a client, the inputs of a [`Jar`] are `Set-Cookie` fields with the URL of the response; the
//! output is the `Cookie` field for the URL of a request. Without clock and files: time and texts
//! are arguments.
//!
//! ```
//! use fulmar_semantics::cookies::{Jar, JarLimits, UrlParts};
//! use std::time::SystemTime;
//!
//! let now = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
//! let mut jar = Jar::new(JarLimits::default());
//! let url = UrlParts { is_secure: true, host: "www.example.com", path: "/shop/cart" };
//! jar.store(now, url, b"id=7; Domain=example.com; Secure; Path=/").unwrap();
//!
//! let mut value = Vec::new();
//! let other = UrlParts { host: "img.example.com", ..url };
//! assert!(jar.header(now, other, &mut value));
//! assert_eq!(value, b"id=7");
//! assert!(!jar.header(now, UrlParts { is_secure: false, ..other }, &mut value));
//! ```
//!
//! Not implemented for clients: restrictions between sites (`SameSite` is stored but not applied,
//! because a client that is not a browser has no current site), and scripts (`HttpOnly` is stored).

mod cookie;
mod date;
mod host;
mod jar;
mod netscape;
mod new_cookie;
mod pairs;
mod set_cookie;

pub use cookie::{Cookie, SameSite};
pub use jar::{Jar, JarLimits};
pub use netscape::{CookieLineError, ImportError};
pub use new_cookie::{BadCookie, NewCookie};
pub use pairs::Pairs;

use std::fmt;

/// The parts of a URL that matter for cookies.
#[derive(Clone, Copy, Debug)]
pub struct UrlParts<'a> {
    /// True if the connection is confidential and authenticated: `https`.
    pub is_secure: bool,
    /// A name in ASCII (IDNA), or an address, with or without brackets; no port.
    pub host: &'a str,
    /// The path as sent; a query is ignored.
    pub path: &'a str,
}

/// Why a cookie was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rejected {
    /// It has a control character. A tab inside a name, value or path is rejected too, although the
    /// RFC permits it: a cookie file could not store it.
    Control,
    /// Name and value are empty.
    Empty,
    /// Name and value together are longer than 4,096 bytes.
    PairTooLong,
    /// The default path from the URL is longer than 1,024 bytes.
    PathTooLong,
    /// The URL's host is neither a name in ASCII nor an address.
    BadHost,
    /// `Domain` is not a valid host name.
    BadDomain,
    /// `Domain` is neither the host nor a parent of it.
    ForeignDomain,
    /// `Domain` is a public suffix, such as `co.uk`: it would be sent to unrelated hosts.
    PublicSuffix,
    /// `Secure` on a connection that is not secure.
    InsecureConnection,
    /// It would hide or replace a `Secure` cookie, on a connection that is not secure.
    HidesSecure,
    /// `SameSite=None` without `Secure`.
    InsecureCrossSite,
    /// The attributes do not satisfy the name's prefix: `__Secure-`, `__Host-`, `__Http-`.
    Prefix,
    /// The domain is full of `Secure` cookies, which have priority.
    DomainFull,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Control => "cookie has a control character",
            Self::Empty => "cookie has neither name nor value",
            Self::PairTooLong => "cookie name and value are longer than 4096 bytes",
            Self::PathTooLong => "cookie path is longer than 1024 bytes",
            Self::BadHost => "host is neither an ASCII name nor an address",
            Self::BadDomain => "cookie domain is not a host name",
            Self::ForeignDomain => "cookie domain is neither the host nor a parent of it",
            Self::PublicSuffix => "cookie domain is a public suffix",
            Self::InsecureConnection => "Secure cookie needs a secure connection",
            Self::HidesSecure => "cookie would hide a Secure cookie",
            Self::InsecureCrossSite => "SameSite=None needs Secure",
            Self::Prefix => "cookie attributes do not satisfy the name prefix",
            Self::DomainFull => "cookie domain is full of Secure cookies",
        })
    }
}

impl std::error::Error for Rejected {}
