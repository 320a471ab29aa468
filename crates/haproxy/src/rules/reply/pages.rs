//! The error pages that are built in: small, without anything to load, readable in the dark.

use std::sync::LazyLock;

use super::{Reply, ReplyBody};
use crate::rules::format::Format;

/// The page of a status; of one that has none, it says the status alone.
pub fn built_in(status: u16) -> &'static Reply {
    static BUILT: LazyLock<Vec<Reply>> = LazyLock::new(|| PAGES.iter().map(make).collect());
    static OTHER: LazyLock<Reply> = LazyLock::new(|| make(&FALLBACK));
    BUILT.iter().find(|page| page.status == status).unwrap_or(&OTHER)
}

fn make((status, title, text): &(u16, &str, &str)) -> Reply {
    let field = |name: &str, value: &str| (name.to_owned(), Format::literal(value.as_bytes()));
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
    Reply { status: *status, fields, body: ReplyBody::Fixed(page.into()) }
}

/// Statuses that have a page: with a title, and what it says.
pub const PAGES: &[(u16, &str, &str)] = &[
    (200, "OK", "The service is up."),
    (400, "Bad Request", "What arrived here was not a request that can be understood."),
    (401, "Unauthorized", "A name and a password are needed here."),
    (403, "Forbidden", "This is not for you: the rules of this site do not allow it."),
    (404, "Not Found", "There is nothing here."),
    (405, "Method Not Allowed", "This cannot be done here."),
    (407, "Proxy Authentication Required", "A name and a password are needed here."),
    (408, "Request Timeout", "The request did not arrive in time."),
    (410, "Gone", "What was here is gone, and will not come back."),
    (413, "Content Too Large", "This is more than can be taken here."),
    (425, "Too Early", "The request came too early to be safe. Please send it again."),
    (429, "Too Many Requests", "There were too many requests. Please wait a while."),
    (500, "Internal Server Error", "Something went wrong here."),
    (501, "Not Implemented", "The request asks for something that is not there."),
    (502, "Bad Gateway", "The server behind this address gave no proper answer."),
    (503, "Service Unavailable", "No server can take this request now. Please try again later."),
    (504, "Gateway Timeout", "The server behind this address did not answer in time."),
];

/// What is shown for a status that nobody expected.
const FALLBACK: (u16, &str, &str) = (500, "Internal Server Error", "Something went wrong here.");

/// Type in the middle of the page, in the reader's own colours and fonts.
const STYLE: &str = "\
    :root{color-scheme:light dark}\
    body{margin:0;min-height:100vh;display:grid;place-items:center;font:1rem/1.5 system-ui,sans-serif}\
    main{padding:2rem;max-width:32rem}\
    h1{margin:0;font-size:4rem;line-height:1.1;font-weight:300}\
    small{display:block;font-size:1.25rem;font-weight:600}";
