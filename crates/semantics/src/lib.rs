//! HTTP semantics beyond message framing (RFC 9110), for clients and servers.
//!
//! Pure functions and small state machines: this crate opens no sockets and reads no clock.
//!
//! # Features
//!
//! All are enabled by default. Without any, this crate depends on `bytes`, `fulmar-proto`,
//! `httpdate` and `memchr`.
//!
//! | feature | brings | depends on |
//! |---|---|---|
//! | `auth` | [`auth`]: Basic and Digest, both sides | hashes, `base64`, `subtle` |
//! | `cookies` | [`cookies`]: the jar, `Cookie` and `Set-Cookie` | `psl`, `smallvec`, `time` |
//! | `decoding` | [`coding::ContentDecoder`] | `flate2`, `brotli-decompressor`, `zstd` (C) |
//! | `form` | [`form`]: multipart and urlencoded forms | `form_urlencoded`, `percent-encoding` |
//! | `proxy-protocol` | [`proxy_protocol`]: PROXY headers, versions 1 and 2 | `crc`, `ipnet` |
//! | `url` | [`proxy`], [`redirect`], [`tunnel`], [`userinfo`] | `url`, `percent-encoding` |
#![forbid(unsafe_code)]

#[cfg(feature = "auth")]
pub mod auth;
pub mod clock;
pub mod coding;
pub mod conditional;
pub mod content_range;
#[cfg(feature = "cookies")]
pub mod cookies;
pub mod date;
#[cfg(feature = "form")]
pub mod form;
pub mod netrc;
#[cfg(feature = "url")]
pub mod proxy;
#[cfg(feature = "proxy-protocol")]
pub mod proxy_protocol;
pub mod range;
#[cfg(feature = "url")]
pub mod redirect;
pub mod retry_after;
#[cfg(feature = "url")]
pub mod tunnel;
#[cfg(feature = "url")]
pub mod userinfo;

#[cfg(any(feature = "auth", feature = "cookies", feature = "form"))]
mod token;
