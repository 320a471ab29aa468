//! Redirects (HAProxy's manual, §4.2, `redirect`).

use super::verdict::InvalidChange;
use crate::rules::eval_context_mut::EvalContextMut;
use crate::rules::format::FormatString;
use crate::rules::head::{RequestHead, ResponseHead};
use crate::rules::target::path_of;

/// A redirect.
#[derive(Clone, Debug)]
pub struct Redirect {
    /// The location.
    pub to: RedirectTo,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    /// Drops the query of the request.
    pub drop_query: bool,
    /// Appends a slash to a location without one at its end.
    pub append_slash: bool,
    /// No redirect if the location is empty.
    pub ignore_empty: bool,
    /// The value of a `Set-Cookie`.
    pub cookie: Option<String>,
    /// Written as the keyword `redirect`, not as `http-request redirect`: an earlier `allow` does
    /// not skip it.
    pub is_keyword: bool,
}

/// How the location is built.
#[derive(Clone, Debug)]
pub enum RedirectTo {
    /// The format alone.
    Location(FormatString),
    /// The format, followed by the path; `/` counts as empty.
    Prefix(FormatString),
    /// The format as the scheme, followed by host and path.
    Scheme(FormatString),
}

impl Redirect {
    /// The head of the response; `None` if there is no location.
    pub(super) fn head(
        &self,
        exchange: &dyn EvalContextMut,
    ) -> Result<Option<ResponseHead>, InvalidChange> {
        let request = exchange.request().ok_or(InvalidChange)?;
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

    fn answer(&self, location: &[u8]) -> Result<ResponseHead, InvalidChange> {
        let mut head = ResponseHead { status: self.status, ..ResponseHead::default() };
        let mut push = |name, value: &[u8]| {
            head.fields.push(name, value.trim_ascii()).map_err(|_| InvalidChange)
        };
        push("location", location)?;
        // Caches would keep redirecting clients after the rule is gone.
        if matches!(self.status, 302 | 303 | 307) {
            push("cache-control", b"no-cache")?;
        }
        if let Some(cookie) = &self.cookie {
            push("set-cookie", cookie.as_bytes())?;
        }
        Ok(head)
    }
}
