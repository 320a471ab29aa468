//! The built-in error pages: small, without external resources, with a dark mode.

use std::sync::LazyLock;

use super::{ReplyBody, ReplyTemplate};
use crate::rules::format::FormatString;

/// The page of a status; for other statuses, a page with only the status.
pub fn built_in(status: u16) -> &'static ReplyTemplate {
    static BUILT: LazyLock<Vec<ReplyTemplate>> = LazyLock::new(|| PAGES.iter().map(make).collect());
    static OTHER: LazyLock<ReplyTemplate> = LazyLock::new(|| make(&FALLBACK));
    BUILT.iter().find(|page| page.status == status).unwrap_or(&OTHER)
}

fn make((status, title, text): &(u16, &str, &str)) -> ReplyTemplate {
    let field =
        |name: &str, value: &str| (name.to_owned(), FormatString::literal(value.as_bytes()));
    let mut fields =
        vec![field("cache-control", "no-cache"), field("content-type", "text/html; charset=utf-8")];
    match status {
        405 => fields.push(field("allow", "GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH")),
        425 => fields.push(field("retry-after", "0")),
        _ => {}
    }
    let page = format!(
        "<!doctype html><html lang=en><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width\"><title>{status} {title}</title>\
         <style>{STYLE}</style><main><h1>{status}<small>{title}</small></h1><p>{text}</main>\n"
    );
    ReplyTemplate { status: *status, fields, body: ReplyBody::Fixed(page.into()) }
}

/// Statuses with a page: title and text.
pub const PAGES: &[(u16, &str, &str)] = &[
    (200, "OK", "The service is up."),
    (400, "Bad Request", "Your browser sent an invalid request."),
    (401, "Unauthorized", "You need a valid user and password to access this content."),
    (403, "Forbidden", "Request forbidden by administrative rules."),
    (404, "Not Found", "The resource could not be found."),
    (405, "Method Not Allowed", "The resource does not support this request method."),
    (
        407,
        "Proxy Authentication Required",
        "You need a valid user and password to access this content.",
    ),
    (408, "Request Timeout", "Your browser did not send a complete request in time."),
    (410, "Gone", "The resource is no longer available and will not be available again."),
    (413, "Content Too Large", "The request entity exceeds the maximum allowed."),
    (425, "Too Early", "Your browser sent early data. Please send the request again."),
    (429, "Too Many Requests", "You have sent too many requests in a given amount of time."),
    (500, "Internal Server Error", "An internal server error occurred."),
    (
        501,
        "Not Implemented",
        "The server does not support the functionality required to fulfill the request.",
    ),
    (502, "Bad Gateway", "The server returned an invalid or incomplete response."),
    (
        503,
        "Service Unavailable",
        "No server is available to handle this request. Please try again later.",
    ),
    (504, "Gateway Timeout", "The server did not respond in time."),
];

/// The page of any other status.
const FALLBACK: (u16, &str, &str) =
    (500, "Internal Server Error", "An internal server error occurred.");

/// A centered text in the reader's colours and fonts.
const STYLE: &str = "\
    :root{color-scheme:light dark}\
    body{margin:0;min-height:100vh;display:grid;place-items:center;font:1rem/1.5 \
    system-ui,sans-serif}\
    main{padding:2rem;max-width:32rem}\
    h1{margin:0;font-size:4rem;line-height:1.1;font-weight:300}\
    small{display:block;font-size:1.25rem;font-weight:600}";
