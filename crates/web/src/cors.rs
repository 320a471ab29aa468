//! Who may read answers from pages of elsewhere (the Fetch standard, the CORS protocol).
//!
//! Without credentials: no cookie comes along, so a page learns nothing that anybody could not ask
//! for. `*` is all that has to be said to everybody. To some, their own origin is said, and caches
//! are told that it depends on that (`Vary`).
//!
//! ```
//! use fulmar_proto::Request;
//! use fulmar_server::{Call, Outcome};
//! use fulmar_web::cors::Cors;
//!
//! let cors = Cors::only(["https://example.com"])?;
//! let handler = move |call: &mut Call<'_>, request: &Request<'_>| -> Outcome {
//!     if cors.is_preflight(call, request)? {
//!         return Ok(());
//!     }
//!     call.text(200, "for everybody, and for pages of example.com\n")
//! };
//! # let _ = handler;
//! # Ok::<(), fulmar_web::cors::BadOrigin>(())
//! ```

use std::fmt;

use fulmar_proto::{Headers, Misuse, Request, Response};
use fulmar_server::{Body, Call};

/// From which origins pages may read answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cors {
    /// `None`: from all.
    origins: Option<Vec<Box<str>>>,
    methods: &'static str,
}

impl Cors {
    /// From everywhere.
    pub fn any() -> Self {
        Self { origins: None, methods: "GET, HEAD" }
    }

    /// From these only: `https://example.com`, with a port if it is not the usual one.
    ///
    /// # Errors
    /// One is no origin as browsers write it, and would never match.
    pub fn only<'a>(origins: impl IntoIterator<Item = &'a str>) -> Result<Self, BadOrigin> {
        let check = |origin: &str| match is_origin(origin) {
            true => Ok(origin.into()),
            false => Err(BadOrigin(origin.into())),
        };
        let origins = origins.into_iter().map(check).collect::<Result<_, _>>()?;
        Ok(Self { origins: Some(origins), ..Self::any() })
    }

    /// What pages may do, separated by commas; `GET, HEAD` if nothing is said.
    #[must_use]
    pub fn methods(self, methods: &'static str) -> Self {
        Self { methods, ..self }
    }

    /// Adds to the answer what its reader's browser needs. True if the request only asks whether
    /// another would be allowed: then it has been answered, and nothing is left to be done. Such
    /// requests carry no credentials, so this comes before users are asked for.
    ///
    /// # Errors
    /// Passed on from `call`.
    pub fn is_preflight(&self, call: &mut Call<'_>, request: &Request<'_>) -> Result<bool, Misuse> {
        let asking = request.headers.get("Origin");
        let is_preflight = request.method == b"OPTIONS"
            && asking.is_some()
            && request.headers.get("Access-Control-Request-Method").is_some();
        let is_allowed = match &self.origins {
            None => {
                call.add_field("Access-Control-Allow-Origin", &b"*"[..]);
                true
            }
            Some(origins) => {
                call.add_field("Vary", &b"Origin"[..]);
                let known = origins.iter().find(|known| asking == Some(known.as_bytes()));
                if let Some(known) = known {
                    call.add_field("Access-Control-Allow-Origin", known.as_bytes().to_vec());
                }
                known.is_some()
            }
        };
        if is_allowed && !is_preflight {
            call.add_field("Access-Control-Expose-Headers", &b"*"[..]);
        }
        if is_allowed && is_preflight {
            call.add_field("Access-Control-Allow-Methods", self.methods.as_bytes());
            // The star is all but `Authorization`.
            call.add_field("Access-Control-Allow-Headers", &b"*, Authorization"[..]);
            call.add_field("Access-Control-Max-Age", MAX_AGE);
        }
        if is_preflight {
            call.reply(Response::new(204, Headers::EMPTY), Body::Empty)?;
        }
        Ok(is_preflight)
    }
}

/// As browsers write it: a scheme, a host, a port if it is not the usual one; in small letters,
/// and nothing after it.
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

/// This is no origin.
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

/// How long a browser need not ask again, in seconds: what the strictest of them grant at most.
const MAX_AGE: &[u8] = b"7200";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_as_browsers_write_them() {
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
