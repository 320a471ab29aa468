//! The metrics page.

use fulmar_proto::{HeaderBuf, Headers, Request, Response};
use fulmar_server::{Handler, HandlerResult, Responder};

use crate::metrics::Metrics;

/// Responds to `GET /metrics` with the metrics; other paths are 404.
#[derive(Debug)]
pub struct Page {
    metrics: Metrics,
    /// The size of the last response, as an estimate of the next.
    size: usize,
}

impl Metrics {
    /// A handler for `GET /metrics`. Use a listener of its own if the metrics are not public.
    pub fn page(&self) -> Page {
        Page { metrics: self.clone(), size: 0 }
    }
}

impl Handler for Page {
    fn handle(&mut self, responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
        let path = request.target.split(|byte| *byte == b'?').next().unwrap_or_default();
        match (request.method, path) {
            (b"GET" | b"HEAD", b"/metrics") => {
                use std::fmt::Write;
                let mut text = String::with_capacity(self.size + self.size / 8);
                write!(text, "{}", self.metrics).expect("writing to a String cannot fail");
                self.size = text.len();
                let added = [("Content-Type", CONTENT_TYPE)];
                responder
                    .reply(Response { added: &added, ..Response::new(200, Headers::EMPTY) }, text)
            }
            (b"GET" | b"HEAD", _) => responder.text(404, "metrics are at /metrics\n"),
            _ => {
                let mut headers = HeaderBuf::new();
                headers.push("Allow", b"GET, HEAD")?;
                responder.reply(
                    Response::new(405, headers.as_headers()),
                    "only GET and HEAD are allowed\n",
                )
            }
        }
    }
}

const CONTENT_TYPE: &[u8] = b"text/plain; version=0.0.4; charset=utf-8";
