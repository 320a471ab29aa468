//! Built-in services: the statistics page in all formats, and metrics.

use std::sync::Arc;
use std::time::Instant;

use fulmar_haproxy::model::{StatsPage, UserSecret};
use fulmar_haproxy::rules::RequestHead;
use fulmar_proto::{HeaderBuf, Headers};
use fulmar_proxy::{GeneratedPage, Live, Services};
use fulmar_semantics::form::fields;

use crate::logs::machine_name;
use crate::passwords;

use super::change::{ServerChange, find_backend, find_server};
use super::process::{Moment, Process};
use super::query::{Query, StatsFormat};
use super::rows::{RowFilter, rows};
use super::{json, lines, metrics, page};

/// Creates the pages of one thread.
#[derive(Clone, Debug)]
pub struct Reports {
    live: Arc<Live>,
    process: Arc<Process>,
    hostname: String,
}

impl Reports {
    /// For this proxy in this process.
    pub fn new(live: Arc<Live>, process: Arc<Process>) -> Self {
        Self { live, process, hostname: machine_name() }
    }
}

impl Services for Reports {
    fn statistics(
        &mut self,
        page: &StatsPage,
        request: &RequestHead,
        body: Option<&[u8]>,
        may_change: bool,
    ) -> GeneratedPage {
        let query = Query::parse(page, &request.target);
        let now = fulmar_sys::now();
        if request.method == b"POST" {
            let outcome = match may_change && is_same_origin(request.fields.as_headers()) {
                true => change(&self.live, page, body, now),
                false => "DENY",
            };
            return redirect(page, &query, outcome);
        }
        let moment = Moment::new(now, &self.live, &self.process);
        let wish = RowFilter {
            only_up: query.only_up,
            no_maintenance: query.no_maintenance,
            scope: page.scope.clone(),
            part: query.part.clone(),
            ..RowFilter::default()
        };
        let rows = rows(&self.live, &self.process, moment, &wish);
        let view = page::PageContext {
            page,
            live: &self.live,
            process: &self.process,
            moment,
            query: &query,
            may_change,
        };
        let (kind, text) = match query.form {
            StatsFormat::Html => ("text/html; charset=utf-8", page::html(&view, &rows)),
            StatsFormat::Csv => ("text/plain; charset=utf-8", csv(&rows)),
            StatsFormat::Json => ("application/json", json(&rows)),
            StatsFormat::Typed => ("text/plain; charset=utf-8", typed(&rows)),
        };
        let mut fields = no_cache(kind);
        match (query.form, page.refresh) {
            (StatsFormat::Html, _) => {
                put(&mut fields, "Content-Security-Policy", page::policy());
                put(&mut fields, "Referrer-Policy", "same-origin");
            }
            (_, Some(refresh)) if !query.no_refresh => {
                put(&mut fields, "Refresh", &refresh.as_secs().max(1).to_string());
            }
            _ => {}
        }
        GeneratedPage { status: 200, fields, body: text.into_bytes() }
    }

    fn metrics(&mut self, request: &RequestHead) -> GeneratedPage {
        let target = String::from_utf8_lossy(&request.target);
        let query = target.split_once('?').map_or("", |(_, query)| query);
        let Some(choice) = metrics::MetricScope::parse(query) else {
            let text =
                "Invalid scope: expected one of global, frontend, backend, server, listener, *.\n";
            return GeneratedPage { status: 400, fields: no_cache(PLAIN), body: text.into() };
        };
        let moment = Moment::new(fulmar_sys::now(), &self.live, &self.process);
        let text = metrics::write(&self.live, &self.process, moment, &choice);
        let fields = no_cache("text/plain; version=0.0.4; charset=utf-8");
        GeneratedPage { status: 200, fields, body: text.into_bytes() }
    }

    fn wall_clock(&self) -> std::time::SystemTime {
        fulmar_sys::wall_clock()
    }

    fn hostname(&self) -> &str {
        &self.hostname
    }

    fn is_secret(&self, secret: &UserSecret, password: &str) -> bool {
        passwords::matches(secret, password)
    }
}

fn csv(rows: &[super::value::StatsRow]) -> String {
    let mut out = String::new();
    lines::csv_head(&mut out);
    rows.iter().for_each(|row| lines::csv_line(row, &mut out));
    out
}

fn json(rows: &[super::value::StatsRow]) -> String {
    let mut out = String::from("[");
    for (at, row) in rows.iter().enumerate() {
        out.push_str(if at > 0 { "," } else { "" });
        json::row_json(row, &mut out);
    }
    out.push(']');
    out
}

fn typed(rows: &[super::value::StatsRow]) -> String {
    let mut out = String::new();
    rows.iter().for_each(|row| lines::typed_lines(row, &mut out));
    out
}

/// Applies the changes of a form (`s`, repeatable, `b` and `action`), and returns HAProxy's code of
/// the result.
fn change(live: &Live, page: &StatsPage, body: Option<&[u8]>, now: Instant) -> &'static str {
    let Some(body) = body.filter(|body| body.len() <= FORM_SIZE_MAX) else { return "EXCD" };
    let all: Vec<(String, String)> = fields(body)
        .map(|(name, value)| {
            (
                String::from_utf8_lossy(&name).into_owned(),
                String::from_utf8_lossy(&value).into_owned(),
            )
        })
        .collect();
    let last = |name| all.iter().rev().find(|field| field.0 == name).map(|field| &*field.1);
    let (Some(action), Some(backend)) = (last("action"), last("b")) else { return "NONE" };
    let backend = find_backend(live, backend).filter(|at| {
        let name = &live.backends[at.0].config.name;
        // proxies outside the scope cannot be changed
        page.scope.is_empty() || page.scope.contains(name)
    });
    let (Some(change), Some(backend)) = (ServerChange::named(action), backend) else {
        return "ERRP";
    };
    let (mut done, mut failed) = (0, 0);
    for (_, server) in all.iter().filter(|field| field.0 == "s") {
        match find_server(&live.backends[backend.0], server) {
            Some(server) => done += usize::from(change.apply(live, backend, server, now)),
            None => failed += 1,
        }
    }
    match (done, failed) {
        (0, 0) => "NONE",
        (0, _) => "ERRP",
        (_, 0) => "DONE",
        _ => "PART",
    }
}

/// Rejects forms of other sites (CSRF), even for authenticated users. Browsers send the origin of a
/// form; a request without both fields is not from a browser.
fn is_same_origin(headers: Headers<'_>) -> bool {
    let is_near = |site: &[u8]| matches!(site, b"same-origin" | b"none");
    if !headers.get("sec-fetch-site").is_none_or(is_near) {
        return false;
    }
    let Some(origin) = headers.get("origin") else { return true };
    let authority = origin.split(|byte| *byte == b'/').nth(2);
    authority.is_some() && authority == headers.get("host")
}

fn redirect(page: &StatsPage, query: &Query, outcome: &str) -> GeneratedPage {
    let mut fields = no_cache(PLAIN);
    put(&mut fields, "Location", &format!("{}{};st={outcome}", page.uri, query.selection()));
    GeneratedPage { status: 303, fields, body: Vec::new() }
}

fn no_cache(kind: &str) -> HeaderBuf {
    let mut fields = HeaderBuf::new();
    put(&mut fields, "Cache-Control", "no-cache");
    put(&mut fields, "Content-Type", kind);
    put(&mut fields, "X-Content-Type-Options", "nosniff");
    fields
}

/// Adds a field. An address in the configuration may contain bytes that a field value cannot hold;
/// the field is then omitted.
fn put(fields: &mut HeaderBuf, name: &str, value: &str) {
    let _ = fields.push(name, value.as_bytes());
}

const PLAIN: &str = "text/plain; charset=utf-8";
/// A hundred servers with long names.
const FORM_SIZE_MAX: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_other_sites_are_refused() {
        let table: [(&[(&str, &str)], bool); 7] = [
            (&[("host", "a:1")], true),
            (&[("host", "a:1"), ("origin", "http://a:1")], true),
            (&[("host", "a:1"), ("origin", "http://b:1")], false),
            (&[("host", "a:1"), ("origin", "null")], false),
            (&[("host", "a:1"), ("sec-fetch-site", "cross-site")], false),
            (&[("host", "a:1"), ("sec-fetch-site", "same-site")], false),
            (&[("host", "a:1"), ("sec-fetch-site", "same-origin")], true),
        ];
        for (given, expected) in table {
            let mut fields = HeaderBuf::new();
            given.iter().for_each(|(name, value)| put(&mut fields, name, value));
            assert_eq!(is_same_origin(fields.as_headers()), expected, "{given:?}");
        }
    }
}
