//! A proxy on the page: a card with a table, and the form that changes its servers.

use super::super::columns::Column;
use super::super::kind::Kind;
use super::super::value::Row;
use super::markup::{Show, escape, sum, tip, value};
use super::{SPARK, View};

/// The rows of one proxy.
pub(super) fn put_proxy(view: &View<'_>, rows: &[Row], out: &mut String) {
    let Some(first) = rows.first() else { return };
    let name = escape(first.word(Column::pxname)).into_owned();
    let is_changed = view.may_change && rows.iter().any(|row| row.kind == Kind::Server);
    put_title(view, rows, &name, out);
    if is_changed {
        *out += &format!("<form class=\"change\" method=\"post\" action=\"{}\">", uri(view));
    }
    put_table_head(is_changed, &name, out);
    for row in rows {
        put_row(row, is_changed, view.page.show_legends, out);
    }
    out.push_str("</tbody></table>\n");
    if is_changed {
        put_actions(first.proxy, out);
    }
    out.push_str("</section>\n");
}

fn uri(view: &View<'_>) -> String {
    escape(&view.page.uri).into_owned()
}

fn put_title(view: &View<'_>, rows: &[Row], name: &str, out: &mut String) {
    let (front, back) = halves(rows);
    let algorithm = rows.iter().map(|row| row.word(Column::algo)).find(|it| !it.is_empty());
    let about = view.about(rows[0].proxy).map(|text| escape(text).into_owned());
    let kind = match (front, back) {
        (true, true) => "listen",
        (true, false) => "frontend",
        (false, _) => "backend",
    };
    *out += &format!(
        "<section class=\"proxy\" id=\"{name}\" data-name=\"{name}\"><header><h2>\
         <a href=\"#{name}\">{name}</a></h2> <span class=\"tag\">{kind}</span> \
         <span class=\"tag\">{}</span>",
        rows[0].word(Column::mode)
    );
    if let Some(algorithm) = algorithm {
        *out += &format!(" <span class=\"tag\">{algorithm}</span>");
    }
    if let Some(about) = about {
        *out += &format!(" <p class=\"about\">{about}</p>");
    }
    out.push_str("</header>\n");
}

fn halves(rows: &[Row]) -> (bool, bool) {
    let has = |kind| rows.iter().any(|row| row.kind == kind);
    (has(Kind::Frontend), has(Kind::Backend))
}

fn put_table_head(is_changed: bool, name: &str, out: &mut String) {
    *out += "<table><colgroup>";
    *out += if is_changed { "<col class=\"pick\">" } else { "" };
    *out += "<col><col class=\"state\">";
    for (_, width) in TITLES {
        *out += &format!("<col class=\"{width}\">");
    }
    *out += "</colgroup>\n<thead><tr>";
    if is_changed {
        *out += "<th class=\"pick\"><input type=\"checkbox\" class=\"pick-all needs-js\" \
                 aria-label=\"All servers of ";
        *out += name;
        *out += "\"></th>";
    }
    *out += "<th class=\"left\" scope=\"col\">Name</th><th class=\"left\" scope=\"col\">State</th>";
    for (title, _) in TITLES {
        *out += &format!("<th scope=\"col\">{title}</th>");
    }
    *out += "</tr></thead>\n<tbody>\n";
}

fn put_row(row: &Row, is_changed: bool, legends: bool, out: &mut String) {
    let is_sum = matches!(row.kind, Kind::Frontend | Kind::Backend);
    let letter = &row.kind.name()[..1];
    let name = escape(row.word(Column::svname)).into_owned();
    *out += &format!(
        "<tr class=\"{}\" data-row=\"{letter}.{}.{}\" data-name=\"{name}\">",
        if is_sum { "sum" } else { "one" },
        row.proxy,
        row.id
    );
    if is_changed {
        out.push_str("<td class=\"pick\">");
        if row.kind == Kind::Server {
            *out += &format!(
                "<input type=\"checkbox\" name=\"s\" value=\"{name}\" aria-label=\"{name}\">"
            );
        }
        out.push_str("</td>");
    }
    let shown = match row.kind {
        Kind::Frontend => "Frontend".to_owned(),
        Kind::Backend => "Backend".to_owned(),
        Kind::Server | Kind::Listener => name,
    };
    let is_backup = row.kind == Kind::Server && row.number(Column::bck) > 0;
    let role = if is_backup { " <small>backup</small>" } else { "" };
    *out += &format!("<th scope=\"row\">{}{role}</th>", tip(&shown, &who(row, legends)));
    *out += &format!("<td class=\"left state\">{}</td>", state(row));
    let cells = [sessions(row), rates(row), queue(row), total(row), traffic(row), responses(row)];
    let more = [errors(row), retries(row), times(row), check(row), weight(row)];
    for ((title, _), cell) in TITLES.iter().zip(cells.into_iter().chain(more)) {
        let class = if cell.is_empty() { " class=\"none\"" } else { "" };
        *out += &format!("<td data-label=\"{title}\"{class}>{cell}</td>");
    }
    out.push_str("</tr>\n");
}

fn who(row: &Row, legends: bool) -> Vec<(&'static str, String)> {
    if !legends {
        return Vec::new();
    }
    let id = if row.id == 0 { row.proxy } else { row.id };
    vec![
        ("number", id.to_string()),
        ("address", escape(row.word(Column::addr)).into_owned()),
        ("cookie", escape(row.word(Column::cookie)).into_owned()),
        ("balancing", row.word(Column::algo).to_owned()),
    ]
}

fn state(row: &Row) -> String {
    let status = row.word(Column::status);
    let kind = state_kind(status);
    let pill = format!("<span class=\"pill\" data-s=\"{kind}\">{}</span>", status.to_lowercase());
    match row.get(Column::lastchg) {
        None => pill,
        Some(_) => {
            let since = value(row, Column::lastchg, Show::Seconds);
            let lines = [
                ("times down", value(row, Column::chkdown, Show::Full)),
                ("down for", value(row, Column::downtime, Show::Seconds)),
            ];
            format!("{pill} <small>{}</small>", tip(&since, &lines))
        }
    }
}

fn state_kind(status: &str) -> &'static str {
    let is_between = status.contains('/');
    match status.split(' ').next().unwrap_or_default() {
        "UP" if is_between => "falling",
        "DOWN" if is_between => "rising",
        "UP" | "OPEN" => "up",
        "DOWN" | "STOP" => "down",
        "MAINT" | "PAUSED" | "WAITING" => "maint",
        "DRAIN" => "drain",
        "NOLB" => "nolb",
        _ => "none",
    }
}

fn sessions(row: &Row) -> String {
    let (now, most) = (row.number(Column::scur), row.number(Column::slim));
    let lines = [
        ("now", value(row, Column::scur, Show::Full)),
        ("most", value(row, Column::smax, Show::Full)),
        ("allowed", value(row, Column::slim, Show::Full)),
        ("connections in use", value(row, Column::used_conn_cur, Show::Full)),
        ("idle connections", value(row, Column::srv_icur, Show::Full)),
    ];
    let mut out = tip(&value(row, Column::scur, Show::Count), &lines);
    if let Some(percent) = (now * 100).checked_div(most) {
        let percent = percent.min(100);
        let full = if percent >= 90 { "yes" } else { "no" };
        out += &format!(
            " <small>/ {}</small><svg class=\"meter\" viewBox=\"0 0 100 4\" \
             preserveAspectRatio=\"none\" data-full=\"{full}\" aria-hidden=\"true\">\
             <rect width=\"{percent}\" height=\"4\"/></svg>",
            value(row, Column::slim, Show::Count)
        );
    }
    out
}

fn rates(row: &Row) -> String {
    if row.get(Column::rate).is_none() {
        return String::new();
    }
    let lines = [
        ("sessions", value(row, Column::rate, Show::Full)),
        ("most", value(row, Column::rate_max, Show::Full)),
        ("requests", value(row, Column::req_rate, Show::Full)),
        ("most", value(row, Column::req_rate_max, Show::Full)),
        ("connections", value(row, Column::conn_rate, Show::Full)),
        ("most", value(row, Column::conn_rate_max, Show::Full)),
    ];
    let shown = match row.get(Column::req_rate) {
        Some(_) => value(row, Column::req_rate, Show::Count),
        None => value(row, Column::rate, Show::Count),
    };
    format!("{}{SPARK}", tip(&shown, &lines))
}

fn queue(row: &Row) -> String {
    if row.get(Column::qcur).is_none() {
        return String::new();
    }
    let lines = [
        ("most", value(row, Column::qmax, Show::Full)),
        ("allowed", value(row, Column::qlimit, Show::Full)),
    ];
    tip(&value(row, Column::qcur, Show::Count), &lines)
}

fn total(row: &Row) -> String {
    let lines = [
        ("sessions", value(row, Column::stot, Show::Full)),
        ("requests", value(row, Column::req_tot, Show::Full)),
        ("connections", value(row, Column::conn_tot, Show::Full)),
        ("chosen", value(row, Column::lbtot, Show::Full)),
        ("connects", value(row, Column::connect, Show::Full)),
        ("reused", value(row, Column::reuse, Show::Full)),
        ("answered here", value(row, Column::intercepted, Show::Full)),
        ("last one", value(row, Column::lastsess, Show::Seconds)),
    ];
    let shown = if row.get(Column::req_tot).is_some() { Column::req_tot } else { Column::stot };
    tip(&value(row, shown, Show::Count), &lines)
}

fn traffic(row: &Row) -> String {
    let lines = [
        ("bytes in", value(row, Column::bin, Show::Full)),
        ("bytes out", value(row, Column::bout, Show::Full)),
    ];
    let (from, to) = (value(row, Column::bin, Show::Bytes), value(row, Column::bout, Show::Bytes));
    tip(&format!("{from} <small>in</small> {to} <small>out</small>"), &lines)
}

fn responses(row: &Row) -> String {
    if row.get(Column::hrsp_2xx).is_none() {
        return String::new();
    }
    let all: u64 = CODES.iter().map(|(_, column)| row.number(*column)).sum();
    let mut at = 0.0;
    let mut rects = String::new();
    for (nth, (_, column)) in CODES.iter().enumerate() {
        let width = percent(row.number(*column), all);
        rects += &format!(
            "<rect class=\"r{}\" x=\"{at:.2}\" width=\"{width:.2}\" height=\"6\"/>",
            nth + 1
        );
        at += width;
    }
    let lines = CODES.map(|(name, column)| (name, value(row, column, Show::Full)));
    let columns = CODES.map(|(_, column)| column);
    let bar = format!(
        "<svg class=\"mix\" viewBox=\"0 0 100 6\" preserveAspectRatio=\"none\" \
         aria-hidden=\"true\">{rects}</svg>"
    );
    format!("{}{bar}", tip(&sum(row, &columns, false), &lines))
}

#[expect(clippy::cast_precision_loss, reason = "the width of a bar")]
fn percent(part: u64, all: u64) -> f64 {
    part as f64 * 100.0 / all.max(1) as f64
}

fn errors(row: &Row) -> String {
    let columns = [Column::ereq, Column::econ, Column::eresp, Column::dreq, Column::dresp];
    let lines = [
        ("bad requests", value(row, Column::ereq, Show::Full)),
        ("failed connects", value(row, Column::econ, Show::Full)),
        ("failed responses", value(row, Column::eresp, Show::Full)),
        ("denied requests", value(row, Column::dreq, Show::Full)),
        ("denied responses", value(row, Column::dresp, Show::Full)),
        ("denied connections", value(row, Column::dcon, Show::Full)),
        ("denied sessions", value(row, Column::dses, Show::Full)),
        ("given up by clients", value(row, Column::cli_abrt, Show::Full)),
        ("given up by servers", value(row, Column::srv_abrt, Show::Full)),
        ("failed handshakes", value(row, Column::ssl_failed_handshake, Show::Full)),
    ];
    tip(&sum(row, &columns, true), &lines)
}

fn retries(row: &Row) -> String {
    if row.get(Column::wretr).is_none() {
        return String::new();
    }
    let lines = [
        ("again", value(row, Column::wretr, Show::Full)),
        ("elsewhere", value(row, Column::wredis, Show::Full)),
    ];
    tip(&sum(row, &[Column::wretr, Column::wredis], false), &lines)
}

fn times(row: &Row) -> String {
    if row.get(Column::ttime).is_none() {
        return String::new();
    }
    let pair = |mean, max| {
        let (mean, max) = (value(row, mean, Show::Millis), value(row, max, Show::Millis));
        format!("{mean}, at most {max}")
    };
    let lines = [
        ("queue", pair(Column::qtime, Column::qtime_max)),
        ("connect", pair(Column::ctime, Column::ctime_max)),
        ("response", pair(Column::rtime, Column::rtime_max)),
        ("all", pair(Column::ttime, Column::ttime_max)),
    ];
    tip(&value(row, Column::ttime, Show::Millis), &lines)
}

fn check(row: &Row) -> String {
    let status = escape(row.word(Column::check_status)).into_owned();
    if status.is_empty() {
        return String::new();
    }
    let code = match row.number(Column::check_code) {
        0 => String::new(),
        code => format!("/{code}"),
    };
    let lines = [
        ("meaning", escape(row.word(Column::check_desc)).into_owned()),
        ("heard", escape(row.word(Column::last_chk)).into_owned()),
        ("took", value(row, Column::check_duration, Show::Millis)),
        ("failed", value(row, Column::chkfail, Show::Full)),
    ];
    tip(&format!("<span data-check>{status}{code}</span>"), &lines)
}

fn weight(row: &Row) -> String {
    match row.kind {
        Kind::Server => {
            let lines = [
                ("configured", value(row, Column::uweight, Show::Full)),
                ("slow start, percent", value(row, Column::throttle, Show::Full)),
            ];
            tip(&value(row, Column::weight, Show::Full), &lines)
        }
        Kind::Backend => {
            let lines = [
                ("active servers", value(row, Column::act, Show::Full)),
                ("backup servers", value(row, Column::bck, Show::Full)),
            ];
            tip(&value(row, Column::weight, Show::Full), &lines)
        }
        Kind::Frontend | Kind::Listener => String::new(),
    }
}

fn put_actions(proxy: u32, out: &mut String) {
    *out += "<div class=\"act\"><label>Chosen servers: <select name=\"action\">\
             <option value=\"\">choose</option>";
    for (action, text) in ACTIONS {
        *out += &format!("<option value=\"{action}\">{text}</option>");
    }
    *out += &format!(
        "</select></label><input type=\"hidden\" name=\"b\" value=\"#{proxy}\">\
         <button class=\"main\">Apply</button></div></form>"
    );
}

/// In the order of the cells, and how wide each of them is.
const TITLES: [(&str, &str); 11] = [
    ("Sessions", "mid"),
    ("A second", "mid"),
    ("Queue", "slim"),
    ("Total", "slim"),
    ("Bytes", "wide"),
    ("Responses", "mid"),
    ("Errors", "slim"),
    ("Retries", "slim"),
    ("Time", "slim"),
    ("Check", "mid"),
    ("Weight", "slim"),
];

const CODES: [(&str, Column); 5] = [
    ("1xx", Column::hrsp_1xx),
    ("2xx", Column::hrsp_2xx),
    ("3xx", Column::hrsp_3xx),
    ("4xx", Column::hrsp_4xx),
    ("5xx", Column::hrsp_5xx),
];

/// What can be done with servers, by HAProxy's names.
const ACTIONS: &[(&str, &str)] = &[
    ("ready", "Make ready"),
    ("drain", "Drain"),
    ("maint", "Put into maintenance"),
    ("shutdown", "Shut down sessions"),
    ("dhlth", "Stop checks"),
    ("ehlth", "Go on with checks"),
    ("hrunn", "Health: up"),
    ("hnolb", "Health: no balancing"),
    ("hdown", "Health: down"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_a_kind() {
        let table = [
            ("UP", "up"),
            ("UP 1/3", "falling"),
            ("DOWN 1/2", "rising"),
            ("DOWN", "down"),
            ("no check", "none"),
            ("MAINT", "maint"),
            ("OPEN", "up"),
        ];
        for (status, kind) in table {
            assert_eq!(state_kind(status), kind, "{status}");
        }
    }
}
