//! A proxy on the page: a card with a table, and the form that changes its servers.

use super::super::columns::Column;
use super::super::kind::RowKind;
use super::super::value::StatsRow;
use super::markup::{NumberFormat, escape, sum, tip, value};
use super::{PageContext, SPARK};

/// The rows of one proxy.
pub(super) fn put_proxy(view: &PageContext<'_>, rows: &[StatsRow], out: &mut String) {
    let Some(first) = rows.first() else { return };
    let name = escape(first.word(Column::pxname)).into_owned();
    let is_changed = view.may_change && rows.iter().any(|row| row.kind == RowKind::Server);
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

fn uri(view: &PageContext<'_>) -> String {
    escape(&view.page.uri).into_owned()
}

fn put_title(view: &PageContext<'_>, rows: &[StatsRow], name: &str, out: &mut String) {
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

fn halves(rows: &[StatsRow]) -> (bool, bool) {
    let has = |kind| rows.iter().any(|row| row.kind == kind);
    (has(RowKind::Frontend), has(RowKind::Backend))
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

fn put_row(row: &StatsRow, is_changed: bool, legends: bool, out: &mut String) {
    let is_sum = matches!(row.kind, RowKind::Frontend | RowKind::Backend);
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
        if row.kind == RowKind::Server {
            *out += &format!(
                "<input type=\"checkbox\" name=\"s\" value=\"{name}\" aria-label=\"{name}\">"
            );
        }
        out.push_str("</td>");
    }
    let shown = match row.kind {
        RowKind::Frontend => "Frontend".to_owned(),
        RowKind::Backend => "Backend".to_owned(),
        RowKind::Server | RowKind::Listener => name,
    };
    let is_backup = row.kind == RowKind::Server && row.number(Column::bck) > 0;
    let role = if is_backup { " <small>backup</small>" } else { "" };
    *out += &format!("<th scope=\"row\">{}{role}</th>", tip(&shown, &identity(row, legends)));
    *out += &format!("<td class=\"left state\">{}</td>", state(row));
    let cells = [sessions(row), rates(row), queue(row), total(row), traffic(row), responses(row)];
    let more = [errors(row), retries(row), times(row), check(row), weight(row)];
    for ((title, _), cell) in TITLES.iter().zip(cells.into_iter().chain(more)) {
        let class = if cell.is_empty() { " class=\"none\"" } else { "" };
        *out += &format!("<td data-label=\"{title}\"{class}>{cell}</td>");
    }
    out.push_str("</tr>\n");
}

fn identity(row: &StatsRow, legends: bool) -> Vec<(&'static str, String)> {
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

fn state(row: &StatsRow) -> String {
    let status = row.word(Column::status);
    let kind = state_kind(status);
    let pill = format!("<span class=\"pill\" data-s=\"{kind}\">{}</span>", status.to_lowercase());
    match row.get(Column::lastchg) {
        None => pill,
        Some(_) => {
            let since = value(row, Column::lastchg, NumberFormat::Seconds);
            let lines = [
                ("times down", value(row, Column::chkdown, NumberFormat::Full)),
                ("down for", value(row, Column::downtime, NumberFormat::Seconds)),
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

fn sessions(row: &StatsRow) -> String {
    let (now, most) = (row.number(Column::scur), row.number(Column::slim));
    let lines = [
        ("now", value(row, Column::scur, NumberFormat::Full)),
        ("most", value(row, Column::smax, NumberFormat::Full)),
        ("allowed", value(row, Column::slim, NumberFormat::Full)),
        ("connections in use", value(row, Column::used_conn_cur, NumberFormat::Full)),
        ("idle connections", value(row, Column::srv_icur, NumberFormat::Full)),
    ];
    let mut out = tip(&value(row, Column::scur, NumberFormat::Count), &lines);
    if let Some(percent) = (now * 100).checked_div(most) {
        let percent = percent.min(100);
        let full = if percent >= 90 { "yes" } else { "no" };
        out += &format!(
            " <small>/ {}</small><svg class=\"meter\" viewBox=\"0 0 100 4\" \
             preserveAspectRatio=\"none\" data-full=\"{full}\" aria-hidden=\"true\">\
             <rect width=\"{percent}\" height=\"4\"/></svg>",
            value(row, Column::slim, NumberFormat::Count)
        );
    }
    out
}

fn rates(row: &StatsRow) -> String {
    if row.get(Column::rate).is_none() {
        return String::new();
    }
    let lines = [
        ("sessions", value(row, Column::rate, NumberFormat::Full)),
        ("most", value(row, Column::rate_max, NumberFormat::Full)),
        ("requests", value(row, Column::req_rate, NumberFormat::Full)),
        ("most", value(row, Column::req_rate_max, NumberFormat::Full)),
        ("connections", value(row, Column::conn_rate, NumberFormat::Full)),
        ("most", value(row, Column::conn_rate_max, NumberFormat::Full)),
    ];
    let shown = match row.get(Column::req_rate) {
        Some(_) => value(row, Column::req_rate, NumberFormat::Count),
        None => value(row, Column::rate, NumberFormat::Count),
    };
    format!("{}{SPARK}", tip(&shown, &lines))
}

fn queue(row: &StatsRow) -> String {
    if row.get(Column::qcur).is_none() {
        return String::new();
    }
    let lines = [
        ("most", value(row, Column::qmax, NumberFormat::Full)),
        ("allowed", value(row, Column::qlimit, NumberFormat::Full)),
    ];
    tip(&value(row, Column::qcur, NumberFormat::Count), &lines)
}

fn total(row: &StatsRow) -> String {
    let lines = [
        ("sessions", value(row, Column::stot, NumberFormat::Full)),
        ("requests", value(row, Column::req_tot, NumberFormat::Full)),
        ("connections", value(row, Column::conn_tot, NumberFormat::Full)),
        ("chosen", value(row, Column::lbtot, NumberFormat::Full)),
        ("connects", value(row, Column::connect, NumberFormat::Full)),
        ("reused", value(row, Column::reuse, NumberFormat::Full)),
        ("answered by the proxy", value(row, Column::intercepted, NumberFormat::Full)),
        ("last one", value(row, Column::lastsess, NumberFormat::Seconds)),
    ];
    let shown = if row.get(Column::req_tot).is_some() { Column::req_tot } else { Column::stot };
    tip(&value(row, shown, NumberFormat::Count), &lines)
}

fn traffic(row: &StatsRow) -> String {
    let lines = [
        ("bytes in", value(row, Column::bin, NumberFormat::Full)),
        ("bytes out", value(row, Column::bout, NumberFormat::Full)),
    ];
    let (from, to) = (
        value(row, Column::bin, NumberFormat::Bytes),
        value(row, Column::bout, NumberFormat::Bytes),
    );
    tip(&format!("{from} <small>in</small> {to} <small>out</small>"), &lines)
}

fn responses(row: &StatsRow) -> String {
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
    let lines = CODES.map(|(name, column)| (name, value(row, column, NumberFormat::Full)));
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

fn errors(row: &StatsRow) -> String {
    let columns = [Column::ereq, Column::econ, Column::eresp, Column::dreq, Column::dresp];
    let lines = [
        ("bad requests", value(row, Column::ereq, NumberFormat::Full)),
        ("failed connects", value(row, Column::econ, NumberFormat::Full)),
        ("failed responses", value(row, Column::eresp, NumberFormat::Full)),
        ("denied requests", value(row, Column::dreq, NumberFormat::Full)),
        ("denied responses", value(row, Column::dresp, NumberFormat::Full)),
        ("denied connections", value(row, Column::dcon, NumberFormat::Full)),
        ("denied sessions", value(row, Column::dses, NumberFormat::Full)),
        ("aborted by clients", value(row, Column::cli_abrt, NumberFormat::Full)),
        ("aborted by servers", value(row, Column::srv_abrt, NumberFormat::Full)),
        ("failed handshakes", value(row, Column::ssl_failed_handshake, NumberFormat::Full)),
    ];
    tip(&sum(row, &columns, true), &lines)
}

fn retries(row: &StatsRow) -> String {
    if row.get(Column::wretr).is_none() {
        return String::new();
    }
    let lines = [
        ("again", value(row, Column::wretr, NumberFormat::Full)),
        ("elsewhere", value(row, Column::wredis, NumberFormat::Full)),
    ];
    tip(&sum(row, &[Column::wretr, Column::wredis], false), &lines)
}

fn times(row: &StatsRow) -> String {
    if row.get(Column::ttime).is_none() {
        return String::new();
    }
    let pair = |mean, max| {
        let (mean, max) =
            (value(row, mean, NumberFormat::Millis), value(row, max, NumberFormat::Millis));
        format!("mean {mean}, max {max}")
    };
    let lines = [
        ("queue", pair(Column::qtime, Column::qtime_max)),
        ("connect", pair(Column::ctime, Column::ctime_max)),
        ("response", pair(Column::rtime, Column::rtime_max)),
        ("all", pair(Column::ttime, Column::ttime_max)),
    ];
    tip(&value(row, Column::ttime, NumberFormat::Millis), &lines)
}

fn check(row: &StatsRow) -> String {
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
        ("took", value(row, Column::check_duration, NumberFormat::Millis)),
        ("failed", value(row, Column::chkfail, NumberFormat::Full)),
    ];
    tip(&format!("<span data-check>{status}{code}</span>"), &lines)
}

fn weight(row: &StatsRow) -> String {
    match row.kind {
        RowKind::Server => {
            let lines = [
                ("configured", value(row, Column::uweight, NumberFormat::Full)),
                ("slow start, percent", value(row, Column::throttle, NumberFormat::Full)),
            ];
            tip(&value(row, Column::weight, NumberFormat::Full), &lines)
        }
        RowKind::Backend => {
            let lines = [
                ("active servers", value(row, Column::act, NumberFormat::Full)),
                ("backup servers", value(row, Column::bck, NumberFormat::Full)),
            ];
            tip(&value(row, Column::weight, NumberFormat::Full), &lines)
        }
        RowKind::Frontend | RowKind::Listener => String::new(),
    }
}

fn put_actions(proxy: u32, out: &mut String) {
    *out += "<div class=\"act\"><label>Selected servers: <select name=\"action\">\
             <option value=\"\">choose</option>";
    for (action, text) in ACTIONS {
        *out += &format!("<option value=\"{action}\">{text}</option>");
    }
    *out += &format!(
        "</select></label><input type=\"hidden\" name=\"b\" value=\"#{proxy}\">\
         <button class=\"main\">Apply</button></div></form>"
    );
}

/// Titles and widths, in the order of the cells.
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

/// Actions on servers, with HAProxy's names.
const ACTIONS: &[(&str, &str)] = &[
    ("ready", "Set state to READY"),
    ("drain", "Drain"),
    ("maint", "Set state to MAINT"),
    ("shutdown", "Shut down sessions"),
    ("dhlth", "Disable health checks"),
    ("ehlth", "Enable health checks"),
    ("hrunn", "Health: up"),
    ("hnolb", "Health: force NOLB"),
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
