//! Cross-origin access: which origins may read responses (CORS, Fetch standard).
//!
//! Only without credentials: browsers send no cookies, so a page can read nothing that is not
//! public. If all origins are allowed, the response has `*`. Otherwise it has the origin of the
//! request, and `Vary` for caches.
//!
//! ```
//! use fulmar_proto::Request;
//! use fulmar_server::{HandlerResult, Responder};
//! use fulmar_web::cors::Cors;
//!
//! let cors = Cors::only(["https://example.com"])?;
//! let handler = move |responder: &mut Responder<'_>, request: &Request<'_>| -> HandlerResult {
//!     if cors.is_preflight(responder, request)? {
//!         return Ok(());
//!     }
//!     responder.text(200, "readable by pages of example.com\n")
//! };
//! # let _ = handler;
//! # Ok::<(), fulmar_web::cors::BadOrigin>(())
//! ```

use std::fmt;

use fulmar_proto::{Headers, Request, Response, UsageError};
use fulmar_server::{Responder, ResponseBody};

/// The origins that may read responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cors {
    /// `None`: all origins.
    origins: Option<Vec<Box<str>>>,
    methods: &'static str,
}

impl Cors {
    /// All origins.
    pub fn any() -> Self {
        Self { origins: None, methods: "GET, HEAD" }
    }

    /// Only these origins: `https://example.com`, with a port if it is not the default.
    ///
    /// # Errors
    /// A text is not an origin as browsers send it, and would never match.
    pub fn only<'a>(origins: impl IntoIterator<Item = &'a str>) -> Result<Self, BadOrigin> {
        let check = |origin: &str| match is_origin(origin) {
            true => Ok(origin.into()),
            false => Err(BadOrigin(origin.into())),
        };
        let origins = origins.into_iter().map(check).collect::<Result<_, _>>()?;
        Ok(Self { origins: Some(origins), ..Self::any() })
    }

    /// The methods that pages may use, separated by commas (default: `GET, HEAD`).
    #[must_use]
    pub fn methods(self, methods: &'static str) -> Self {
        Self { methods, ..self }
    }

    /// Adds the CORS fields to the response. Returns true if the request was a preflight: then the
    /// response is queued, and nothing is left to do. Preflights carry no credentials, so call this
    /// before checking users.
    ///
    /// # Errors
    /// Passed on from `responder`.
    pub fn is_preflight(
        &self,
        responder: &mut Responder<'_>,
        request: &Request<'_>,
    ) -> Result<bool, UsageError> {
        let asking = request.headers.get("Origin");
        let is_preflight = request.method == b"OPTIONS"
            && asking.is_some()
            && request.headers.get("Access-Control-Request-Method").is_some();
        let is_allowed = match &self.origins {
            None => {
                responder.add_field("Access-Control-Allow-Origin", &b"*"[..]);
                true
            }
            Some(origins) => {
                responder.add_field("Vary", &b"Origin"[..]);
                let known = origins.iter().find(|known| asking == Some(known.as_bytes()));
                if let Some(known) = known {
                    responder.add_field("Access-Control-Allow-Origin", known.as_bytes().to_vec());
                }
                known.is_some()
            }
        };
        if is_allowed && !is_preflight {
            responder.add_field("Access-Control-Expose-Headers", &b"*"[..]);
        }
        if is_allowed && is_preflight {
            responder.add_field("Access-Control-Allow-Methods", self.methods.as_bytes());
            // `*` does not include `Authorization`.
            responder.add_field("Access-Control-Allow-Headers", &b"*, Authorization"[..]);
            responder.add_field("Access-Control-Max-Age", MAX_AGE);
        }
        if is_preflight {
            responder.reply(Response::new(204, Headers::EMPTY), ResponseBody::Empty)?;
        }
        Ok(is_preflight)
    }
}

/// True for an origin as browsers send it: a scheme, a host, and a port if it is not the default;
/// in lower case, with nothing after it.
fn is_origin(text: &str) -> bool {
    let Some((scheme, host)) = text.split_once("://") else { return false };
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|n| n.to_string() == port);
    let is_usual = matches!((scheme, port), ("http", Some("80")) | ("https", Some("443")));
    let in_scheme = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c);
    let in_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._[]:".contains(c);
    scheme.starts_with(|c: char| c.is_ascii_lowercase())
        && scheme.chars().all(in_scheme)
        && !name.is_empty()
        && name.chars().all(in_name)
        && (name.starts_with('[') || !name.contains(':'))
        && port.is_none_or(is_port)
        && !is_usual
}

/// The text is not an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadOrigin(Box<str>);

impl fmt::Display for BadOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no origin; write it as browsers do: https://example.com, in small letters, \
             without a path, with a port only if it is not the usual one",
            self.0
        )
    }
}

impl std::error::Error for BadOrigin {}

/// How long browsers may cache a preflight, in seconds: the lowest maximum of the common browsers.
const MAX_AGE: &[u8] = b"7200";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_must_be_as_browsers_send_them() {
        for good in [
            "https://example.com",
            "http://localhost:8080",
            "https://[::1]",
            "https://[::1]:8443",
            "moz-extension://3c1e0f9a-1",
            "http://a_b.example",
        ] {
            assert_eq!(Cors::only([good]).map(drop), Ok(()), "{good}");
        }
        for bad in [
            "",
            "*",
            "null",
            "example.com",
            "https://",
            "https://Example.com",
            "https://example.com/",
            "https://example.com:443",
            "http://example.com:080",
            "http://example.com:65536",
            "http://::1",
            "https://example.com https://example.org",
            "https://user@example.com",
        ] {
            let error = Cors::only([bad]).unwrap_err();
            assert!(error.to_string().contains("https://example.com"), "{bad}");
        }
    }
}
