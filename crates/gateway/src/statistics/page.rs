//! The statistics page: one document without external resources.
//!
//! It is complete without JavaScript. With it, the numbers are refreshed from the page's JSON:
//! elements with `data-c` show a column, in the format `data-k`. All text from the configuration is
//! escaped.

mod markup;
mod proxy;

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fulmar_haproxy::model::StatsPage;
use fulmar_proxy::{Live, Stat, Timing};
use sha2::{Digest, Sha256};

use super::columns::Column;
use super::info::{VERSION, frontends};
use super::kind::RowKind;
use super::process::{Moment, Process};
use super::query::Query;
use super::value::StatsRow;

use markup::{bytes, count, escape, long_time};

/// The input of a page.
#[derive(Clone, Copy, Debug)]
pub struct PageContext<'a> {
    /// Its configuration.
    pub page: &'a StatsPage,
    /// The proxy that is shown.
    pub live: &'a Live,
    /// The process.
    pub process: &'a Process,
    /// The time.
    pub moment: Moment,
    /// The query of the request.
    pub query: &'a Query,
    /// `stats admin` allows changes.
    pub may_change: bool,
}

impl PageContext<'_> {
    /// `description` of a proxy.
    fn about(&self, id: u32) -> Option<&str> {
        let frontends = self.live.frontends.iter().map(|it| (it.config.id, &it.config.description));
        let backends = self.live.backends.iter().map(|it| (it.config.id, &it.config.description));
        let mut all = frontends.chain(backends).filter(|(number, _)| *number == id);
        all.find_map(|(_, text)| text.as_deref())
    }
}

/// The document.
pub fn html(view: &PageContext<'_>, rows: &[StatsRow]) -> String {
    let mut out = String::with_capacity(64 * 1024);
    put_head(view, &mut out);
    put_masthead(view, &mut out);
    put_tiles(rows, view, &mut out);
    put_tools(view, &mut out);
    put_notice(view.query.outcome.as_deref(), &mut out);
    if view.page.show_legends {
        put_legend(&mut out);
    }
    out.push_str("<main>\n");
    for group in rows.chunk_by(|a, b| a.proxy == b.proxy) {
        proxy::put_proxy(view, group, &mut out);
    }
    out.push_str("</main>\n");
    put_foot(view, &mut out);
    out
}

/// The Content-Security-Policy: only the page's own style and script.
pub fn policy() -> &'static str {
    static POLICY: LazyLock<String> = LazyLock::new(|| {
        let hash = |text: &str| STANDARD.encode(Sha256::digest(text));
        format!(
            "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; \
             img-src data:; connect-src 'self'; form-action 'self'; base-uri 'none'; \
             frame-ancestors 'self'",
            hash(STYLE),
            hash(SCRIPT)
        )
    });
    &POLICY
}

fn put_head(view: &PageContext<'_>, out: &mut String) {
    let title = match &view.page.node {
        Some(node) => format!("Statistics of {}", escape(node)),
        None => "Statistics".to_owned(),
    };
    let refresh = view.page.refresh.map(|time| time.as_secs().max(1));
    let reload = match refresh.filter(|_| !view.query.no_refresh) {
        Some(seconds) => {
            format!("<noscript><meta http-equiv=\"refresh\" content=\"{seconds}\"></noscript>\n")
        }
        None => String::new(),
    };
    *out += &format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n{reload}<style>{STYLE}</style>\n</head>\n\
         <body data-refresh=\"{}\" data-json=\"{};json;norefresh{}\">\n<div class=\"wrap\">\n",
        refresh.unwrap_or(REFRESH),
        escape(&view.page.uri),
        escape(&view.query.selection()),
    );
}

fn put_masthead(view: &PageContext<'_>, out: &mut String) {
    let (page, up) = (view.page, view.moment.now.saturating_duration_since(view.process.began));
    let node = page.node.as_deref().map_or(String::new(), |node| format!(" on {}", escape(node)));
    *out += &format!("<header>{MARK}<div><h1>fulmar{node}</h1>");
    if let Some(text) = &page.description {
        *out += &format!("<p>{}</p>", escape(text));
    }
    out.push_str("</div>\n<dl class=\"facts\">");
    if !page.hide_version {
        fact("Version", VERSION, out);
    }
    fact("Process", &std::process::id().to_string(), out);
    fact("Threads", &view.live.threads.to_string(), out);
    fact("Uptime", &long_time(up.as_secs()), out);
    if view.process.is_stopping() {
        fact("State", "stopping", out);
    }
    out.push_str("</dl></header>\n");
}

fn fact(name: &str, value: &str, out: &mut String) {
    *out += &format!("<div><dt>{name}</dt><dd>{value}</dd></div>");
}

fn put_tiles(rows: &[StatsRow], view: &PageContext<'_>, out: &mut String) {
    let fronts = || rows.iter().filter(|row| row.kind == RowKind::Frontend);
    let sum = |column| fronts().map(|row| row.number(column)).sum::<u64>();
    let max = view.process.connections_max() as u64;
    out.push_str("<div class=\"tiles\">\n");
    let sessions = count(sum(Column::scur));
    tile("scur", "Current sessions", &sessions, &format!("of {}", count(max)), out);
    tile("rate", "Sessions per second", &count(sum(Column::rate)), "", out);
    tile("req_rate", "Requests per second", &count(sum(Column::req_rate)), "", out);
    tile(
        "out",
        "Sent",
        &bytes(sum(Column::bout)),
        "<span class=\"no-js\">total</span>\
         <span class=\"needs-js\">per second</span>",
        out,
    );
    let servers = || rows.iter().filter(|row| row.kind == RowKind::Server);
    let is_up = |row: &&StatsRow| row.word(Column::status).starts_with(['U', 'n']);
    let (up, all) = (servers().filter(is_up).count(), servers().count());
    tile("servers", "Servers up", &up.to_string(), &format!("of {all}"), out);
    out.push_str("</div>\n");
}

fn tile(name: &str, title: &str, value: &str, beside: &str, out: &mut String) {
    let spark = if name == "servers" { "" } else { SPARK };
    *out += &format!(
        "<div class=\"tile\" data-tile=\"{name}\"><h2>{title}</h2>\
         <p><b>{value}</b> <small>{beside}</small></p>{spark}</div>\n"
    );
}

fn put_tools(view: &PageContext<'_>, out: &mut String) {
    let uri = escape(&view.page.uri);
    let part = escape(&view.query.part);
    *out += &format!(
        "<div class=\"bar-tools\"><form method=\"get\" action=\"{uri}\" role=\"search\">\
         <input type=\"search\" name=\"scope\" value=\"{part}\" maxlength=\"64\" \
         placeholder=\"Filter by name or state\" aria-label=\"Filter\"></form>\
         <button type=\"button\" id=\"pause\" class=\"needs-js\" aria-pressed=\"false\">Pause\
         </button>\n<span class=\"live needs-js\" role=\"status\">starting</span>\n\
         <nav class=\"links\" aria-label=\"Other formats\">"
    );
    let (all, hide) = (format!("{uri}"), format!("{uri};no-maint"));
    match view.query.no_maintenance || view.query.only_up {
        true => *out += &format!("<a href=\"{all}\">All servers</a>"),
        false => *out += &format!("<a href=\"{hide}\">Without maintenance</a>"),
    }
    *out += &format!(
        "<a href=\"{uri};csv;norefresh\">CSV</a><a href=\"{uri};json;norefresh\">JSON</a></nav>\
         </div>\n"
    );
}

fn put_notice(outcome: Option<&str>, out: &mut String) {
    let (class, text) = match outcome {
        Some("DONE") => ("", "Action processed successfully."),
        Some("NONE") => ("", "Nothing has changed."),
        Some("PART") => {
            ("bad", "Action partially processed: some servers have changed, others have not.")
        }
        Some("ERRP") => ("bad", "Nothing has changed: unknown server, backend or action."),
        Some("EXCD") => ("bad", "Nothing has changed: the form is too large."),
        Some("DENY") => ("bad", "Access denied: nothing has changed."),
        _ => return,
    };
    *out += &format!("<p class=\"notice {class}\" role=\"status\">{text}</p>\n");
}

fn put_legend(out: &mut String) {
    out.push_str("<ul class=\"legend\" aria-label=\"Server states\">");
    for (state, word, text) in LEGEND {
        *out += &format!("<li><span class=\"pill\" data-s=\"{state}\">{word}</span> {text}</li>");
    }
    out.push_str("</ul>\n");
}

fn put_foot(view: &PageContext<'_>, out: &mut String) {
    let calls = view.process.ledger().total();
    let requests = frontends(view.live, Stat::Requests);
    let each = (calls * 10).checked_div(requests).unwrap_or(0);
    *out += &format!(
        "<footer>{} system calls for {} requests: {}.{} each. Times are means over the last {} \
         requests.</footer>\n</div>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        count(calls),
        count(requests),
        each / 10,
        each % 10,
        Timing::WINDOW
    );
}

const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/script.js");

/// A bird with long wings, gliding.
const MARK: &str = "<svg class=\"mark\" viewBox=\"0 0 48 48\" aria-hidden=\"true\">\
    <path fill=\"currentColor\" d=\"M2 17c8-2 15 0 20 6 1-4 5-7 11-7 5 0 9 2 13 2-3 2-6 3-9 3-4 \
    0-6 2-7 5-2 6-8 9-15 8 5-1 8-3 9-6-5-5-12-8-22-11z\"/></svg>";

/// The script sets the points.
const SPARK: &str = "<svg class=\"spark\" viewBox=\"0 0 59 16\" preserveAspectRatio=\"none\" \
    aria-hidden=\"true\"><polyline points=\"\"/><polygon points=\"\"/></svg>";

/// Refresh interval in seconds without `stats refresh`.
const REFRESH: u64 = 3;

const LEGEND: &[(&str, &str, &str)] = &[
    ("up", "up", "active"),
    ("falling", "up 1/3", "going down: a check has failed"),
    ("rising", "down 1/2", "going up: a check has passed"),
    ("down", "down", "not used"),
    ("nolb", "nolb", "stopping: persistent sessions only"),
    ("drain", "drain", "draining: persistent sessions only"),
    ("maint", "maint", "in maintenance"),
    ("none", "no check", "not checked"),
];
