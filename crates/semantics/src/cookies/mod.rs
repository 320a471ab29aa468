//! Cookies (RFC 6265bis): a client's [`Jar`], and the two fields as a server reads ([`Pairs`]) and
//! writes ([`NewCookie`]) them.
//!
//! Needs the feature `cookies`.
//!
//! Of a client:
//!
//! What a `Set-Cookie` field says goes in with the URL that it came from, the value of a `Cookie`
//! field comes out for the URL that is asked. No clock, no file: time and texts are arguments.
//!
//! ```
//! use fulmar_semantics::cookies::{Jar, Limits, UrlParts};
//! use std::time::SystemTime;
//!
//! let now = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
//! let mut jar = Jar::new(Limits::default());
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
//! Not the client's work: what one page may set for another (`SameSite` is kept, and never
//! applied: a client that is not a browser has no site of its own), and scripts, for which
//! `HttpOnly` is kept.

mod cookie;
mod date;
mod host;
mod jar;
mod netscape;
mod new_cookie;
mod pairs;
mod set_cookie;

pub use cookie::{Cookie, SameSite};
pub use jar::{Jar, Limits};
pub use netscape::{ImportError, LineError};
pub use new_cookie::{BadCookie, NewCookie};
pub use pairs::Pairs;

use std::fmt;

/// What cookies depend on in a URL.
#[derive(Clone, Copy, Debug)]
pub struct UrlParts<'a> {
    /// True if nobody between could read or change what is sent: `https`.
    pub is_secure: bool,
    /// A name as IDNA writes it in ASCII, or an address, with or without brackets; no port.
    pub host: &'a str,
    /// As it is sent; a query after it is cut off.
    pub path: &'a str,
}

/// Why a cookie was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rejected {
    /// It has a control character. HTAB inside a name, value or path counts as one, although the
    /// RFC lets it pass: no exported file could hold it.
    Control,
    /// Neither name nor value.
    Empty,
    /// Name and value together are longer than 4,096 bytes.
    PairTooLong,
    /// The path that it gets from the URL is longer than 1,024 bytes.
    PathTooLong,
    /// The URL's host is neither a name in ASCII nor an address.
    BadHost,
    /// `Domain` is not the name of a host.
    BadDomain,
    /// `Domain` is neither the host nor a parent of it.
    ForeignDomain,
    /// `Domain` is a public suffix, such as `co.uk`: it would go to everybody there.
    PublicSuffix,
    /// `Secure`, over a connection that is not.
    InsecureConnection,
    /// It would hide or replace a `Secure` cookie, over a connection that is not.
    HidesSecure,
    /// `SameSite=None` without `Secure`.
    InsecureCrossSite,
    /// Its name promises what its attributes do not keep: `__Secure-`, `__Host-`, `__Http-`.
    Prefix,
    /// Its domain is full of cookies that are worth more: those that are `Secure`.
    Crowded,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Control => "the cookie has a control character",
            Self::Empty => "the cookie has neither name nor value",
            Self::PairTooLong => "name and value are longer than 4096 bytes",
            Self::PathTooLong => "the path is longer than 1024 bytes",
            Self::BadHost => "the host is neither a name in ASCII nor an address",
            Self::BadDomain => "the domain is not the name of a host",
            Self::ForeignDomain => "the domain is neither the host nor a parent of it",
            Self::PublicSuffix => "the domain is a public suffix",
            Self::InsecureConnection => "a Secure cookie needs a secure connection",
            Self::HidesSecure => "it would hide a Secure cookie",
            Self::InsecureCrossSite => "SameSite=None needs Secure",
            Self::Prefix => "the attributes do not keep what the name's prefix promises",
            Self::Crowded => "the domain is full of Secure cookies",
        })
    }
}

impl std::error::Error for Rejected {}
