//! Error pages, and the constant fields of responses.

use bytes::Bytes;
use fulmar_proto::HeaderBuf;

use crate::file::push;

/// Constant fields, built once.
#[derive(Debug)]
pub struct Pages {
    /// The fields of a page.
    pub html: HeaderBuf,
    /// The fields of a listing, which has its own inline style.
    pub listing: HeaderBuf,
    /// The fields of a page with `Allow`.
    pub html_allow: HeaderBuf,
    /// The fields of a response without a page, with `Allow`.
    pub allow: HeaderBuf,
}

impl Pages {
    /// Builds the fields for a site with or without uploads.
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

/// The page for an error status. It contains nothing of the request.
pub fn page(status: u16) -> Bytes {
    Bytes::from_static(match status {
        301 => html!("301 Moved Permanently", "This is a directory; its address ends in a slash."),
        400 => html!("400 Bad Request", "The address is not valid."),
        403 => html!("403 Forbidden", "This is not permitted."),
        404 => html!("404 Not Found", "No file has this name."),
        405 => html!("405 Method Not Allowed", "Files do not support this method."),
        409 => html!("409 Conflict", "A file cannot be stored here."),
        412 => html!("412 Precondition Failed", "The file has changed."),
        413 => html!("413 Content Too Large", "The file exceeds the maximum size."),
        415 => html!("415 Unsupported Media Type", "Uploads must not have a content coding."),
        416 => html!("416 Range Not Satisfiable", "The range is beyond the end of the file."),
        507 => html!("507 Insufficient Storage", "The disk is full."),
        503 => html!("503 Service Unavailable", "Too many files are open; please try again."),
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

/// The page of a directory without an index file if listings are disabled. It names the option,
/// because the owner of a site often sees this page first.
pub const UNLISTED: &[u8] = html!(
    "403 Forbidden",
    "This directory has no index file, and is not listed: option --list is off."
);

const METHODS: &[u8] = b"GET, HEAD, OPTIONS";
const METHODS_WITH_PUT: &[u8] = b"GET, HEAD, OPTIONS, PUT";
