//! The small pages and fixed fields of answers that are not files.

use bytes::Bytes;
use fulmar_proto::HeaderBuf;

use crate::file::push;

/// Fields that never change, made once.
#[derive(Debug)]
pub struct Pages {
    /// Of a page.
    pub html: HeaderBuf,
    /// Of a listing, which needs its own style and nothing else.
    pub listing: HeaderBuf,
    /// Of a page that also says which methods there are.
    pub html_allow: HeaderBuf,
    /// Of an answer without a page that says which methods there are.
    pub allow: HeaderBuf,
}

impl Pages {
    /// Makes them; of a site that takes uploads, or not.
    pub fn new(takes_uploads: bool) -> Self {
        let methods = if takes_uploads { METHODS_WITH_PUT } else { METHODS };
        let mut html = HeaderBuf::new();
        push(&mut html, "Content-Type", b"text/html; charset=utf-8");
        let mut listing = html.clone();
        let policy = b"default-src 'none'; style-src 'unsafe-inline'";
        push(&mut listing, "Content-Security-Policy", policy);
        let mut allow = HeaderBuf::new();
        push(&mut allow, "Allow", methods);
        let mut html_allow = html.clone();
        push(&mut html_allow, "Allow", methods);
        Self { html, listing, html_allow, allow }
    }
}

/// The page for a status that is not success. Nothing of the request is repeated in it.
pub fn page(status: u16) -> Bytes {
    Bytes::from_static(match status {
        301 => html!("301 Moved Permanently", "This is a directory; its address ends in a slash."),
        400 => html!("400 Bad Request", "The address is not one that this server understands."),
        403 => html!("403 Forbidden", "This is not permitted."),
        404 => html!("404 Not Found", "There is nothing by this name."),
        405 => html!("405 Method Not Allowed", "This cannot be done with a file."),
        409 => html!("409 Conflict", "No file can be there."),
        412 => html!("412 Precondition Failed", "It has changed meanwhile."),
        413 => html!("413 Content Too Large", "The file is larger than this server takes."),
        415 => html!("415 Unsupported Media Type", "Files are taken without a content coding."),
        416 => html!("416 Range Not Satisfiable", "The file does not reach that far."),
        507 => html!("507 Insufficient Storage", "There is no room for the file."),
        503 => html!("503 Service Unavailable", "Too much is open; please try again."),
        _ => html!("500 Internal Server Error", "The file could not be read."),
    })
}

macro_rules! html {
    ($title:literal, $text:literal) => {
        concat!(
            "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">",
            "<meta name=\"viewport\" content=\"width=device-width\">",
            "<meta name=\"color-scheme\" content=\"light dark\"><title>",
            $title,
            "</title>\n<style>body{font:1rem/1.5 system-ui,sans-serif;margin:4rem auto;",
            "max-width:36rem;padding:0 1rem}h1{font-size:1.4rem}</style>\n<h1>",
            $title,
            "</h1>\n<p>",
            $text,
            "\n"
        )
        .as_bytes()
    };
}
use html;

/// The page of a directory without an index file that is not listed: it names the option, since
/// this is often the first page that the owner of a site sees.
pub const UNLISTED: &[u8] = html!(
    "403 Forbidden",
    "This directory has no index file, and is not listed: option --list is off."
);

const METHODS: &[u8] = b"GET, HEAD, OPTIONS";
const METHODS_WITH_PUT: &[u8] = b"GET, HEAD, OPTIONS, PUT";
