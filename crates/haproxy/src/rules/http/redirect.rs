//! Sending a client elsewhere (HAProxy's manual, §4.2, `redirect`).

use super::verdict::Refused;
use crate::rules::exchange::Exchange;
use crate::rules::format::Format;
use crate::rules::head::{RequestHead, ResponseHead};
use crate::rules::target::path_of;

/// Where a client is sent, and how.
#[derive(Clone, Debug)]
pub struct Redirect {
    /// Whither.
    pub to: RedirectTo,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    /// Without the query of the request.
    pub drop_query: bool,
    /// A location that ends without a slash gets one.
    pub append_slash: bool,
    /// An empty location makes no redirection.
    pub ignore_empty: bool,
    /// The value of a `Set-Cookie`.
    pub cookie: Option<String>,
    /// It was written as `redirect` and not as `http-request redirect`: an `allow` before it does
    /// not keep it from being looked at.
    pub is_keyword: bool,
}

/// What a location is made of.
#[derive(Clone, Debug)]
pub enum RedirectTo {
    /// This, as it is.
    Location(Format),
    /// This, and then the path; `/` alone is nothing.
    Prefix(Format),
    /// This scheme, the host and the path.
    Scheme(Format),
}

impl Redirect {
    /// The head of the answer; `None` if there is nowhere to go to.
    pub(super) fn head(&self, exchange: &dyn Exchange) -> Result<Option<ResponseHead>, Refused> {
        let request = exchange.request().ok_or(Refused)?;
        let mut location = Vec::new();
        let (RedirectTo::Location(format)
        | RedirectTo::Prefix(format)
        | RedirectTo::Scheme(format)) = &self.to;
        format.render(exchange, &mut location);
        let is_empty = location.is_empty();
        match self.to {
            RedirectTo::Location(_) if is_empty && self.ignore_empty => return Ok(None),
            RedirectTo::Location(_) => {}
            RedirectTo::Prefix(_) => {
                if location == b"/" {
                    location.clear();
                }
                self.append_path(request, &mut location);
            }
            RedirectTo::Scheme(_) => {
                location.extend_from_slice(b"://");
                let host = request.fields.as_headers().get("host").unwrap_or_default();
                location.extend_from_slice(host);
                self.append_path(request, &mut location);
            }
        }
        self.answer(&location).map(Some)
    }

    fn append_path(&self, request: &RequestHead, location: &mut Vec<u8>) {
        let path = path_of(&request.target);
        let (path, query) = (&request.target[path.clone()], &request.target[path.end..]);
        let path = if path.first() == Some(&b'/') { path } else { b"/" };
        location.extend_from_slice(path);
        if !self.drop_query {
            location.extend_from_slice(query);
        }
        if self.append_slash && !location.ends_with(b"/") {
            location.push(b'/');
        }
    }

    fn answer(&self, location: &[u8]) -> Result<ResponseHead, Refused> {
        let mut head = ResponseHead { status: self.status, ..ResponseHead::default() };
        let mut push =
            |name, value: &[u8]| head.fields.push(name, value.trim_ascii()).map_err(|_| Refused);
        push("location", location)?;
        // Whoever keeps these would go on sending clients there when the rule is long gone.
        if matches!(self.status, 302 | 303 | 307) {
            push("cache-control", b"no-cache")?;
        }
        if let Some(cookie) = &self.cookie {
            push("set-cookie", cookie.as_bytes())?;
        }
        Ok(head)
    }
}
