//! A report as one HTML page that needs no other file and no script. Each figure has a bar behind
//! it that compares the sides of its row. Light or dark, as the reader's system is.

use super::numbers::{count, figure};
use super::{
    BenchReport, Figure, FigureRow, FigureTable, LeadVerdict, Listing, ScenarioReport, Whose, chart,
};

/// A report as one HTML page.
pub(crate) fn html(report: &BenchReport) -> String {
    let mut out = String::with_capacity(64 * 1024);
    put_head(report, &mut out);
    put_behind(report, &mut out);
    report.experiments.iter().for_each(|scenario| put_scenario(scenario, &mut out));
    out += "<section><h2>The machine</h2>\n<dl>\n";
    for fact in &report.machine.facts {
        out += &format!("<dt>{}</dt><dd>{}</dd>\n", escape(&fact.name), escape(&fact.value));
    }
    out + &format!("</dl>\n<p>{READING}</p></section>\n</main>\n</body>\n</html>\n")
}

fn put_head(report: &BenchReport, out: &mut String) {
    let fact = |name: &str| {
        let found = report.machine.facts.iter().find(|fact| fact.name == name);
        found.map_or(String::new(), |fact| escape(&fact.value))
    };
    let (version, date, processor) = (fact("fulmar"), fact("date"), fact("processor"));
    let commit = match fact("commit") {
        commit if commit.is_empty() => commit,
        commit => format!(" ({commit})"),
    };
    *out += &format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>fulmar bench</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>fulmar bench</h1>\n<p>fulmar {version}{commit} beside its peers, in turn, on one \
         machine: {processor}, Linux {}, {date}.</p>\n<ul class=\"index\">\n",
        fact("kernel")
    );
    for scenario in &report.experiments {
        let (name, title) = (escape(&scenario.name), escape(&scenario.title));
        let score = match scenario.score() {
            (_, 0) => String::new(),
            (ahead, all) => format!(": ahead in {ahead} of {all} rows"),
        };
        *out += &format!("<li><a href=\"#{name}\">{name}</a> {title}{score}</li>\n");
    }
    *out += "</ul>\n";
}

/// Every row in which fulmar is not ahead, before anything else.
fn put_behind(report: &BenchReport, out: &mut String) {
    let mut items = String::new();
    for scenario in &report.experiments {
        for (number, table, rows) in scenario.behind() {
            let each = rows.iter().map(|(name, verdict)| {
                let (name, text) = (escape(name), escape(&verdict.text()));
                format!("{name} <em class=\"{}\">{text}</em>", kind(verdict))
            });
            let (name, title) = (escape(&scenario.name), escape(&table.title));
            let each = each.collect::<Vec<_>>().join("; ");
            items +=
                &format!("<li><a href=\"#{name}-{number}\">{name}: {title}</a> – {each}</li>\n");
        }
    }
    if !items.is_empty() {
        *out +=
            &format!("<section><h2>Where fulmar is not ahead</h2>\n<ul>{items}</ul></section>\n");
    }
}

fn put_scenario(scenario: &ScenarioReport, out: &mut String) {
    let (name, title) = (escape(&scenario.name), escape(&scenario.title));
    *out += &format!("<section id=\"{name}\"><h2>{name}: {title}</h2>\n");
    if !scenario.source.is_empty() {
        *out += &format!("<p>After {}.</p>\n", escape(&scenario.source));
    }
    for text in &scenario.about {
        *out += &format!("<p>{}</p>\n", escape(text));
    }
    for text in &scenario.missing {
        *out += &format!("<p class=\"note\"><b>Not measured.</b> {}</p>\n", escape(text));
    }
    if let Some(failure) = &scenario.failure {
        *out += &format!("<p class=\"note\"><b>Ended early.</b> {}</p>\n", escape(failure));
    }
    for (number, table) in scenario.tables.iter().enumerate() {
        put_table(table, &format!("{name}-{number}"), out);
    }
    scenario.listings.iter().for_each(|listing| put_listing(listing, out));
    if !scenario.commands.is_empty() {
        let commands = escape(&scenario.commands.join("\n"));
        *out += &format!("<details><summary>Commands</summary><pre>{commands}</pre></details>\n");
    }
    *out += "</section>\n";
}

fn put_listing(listing: &Listing, out: &mut String) {
    *out += &format!("<div class=\"panel\"><h3>{}</h3><dl>\n", escape(&listing.title));
    for row in &listing.rows {
        let steps = row.value.split("  ").map(|step| format!("<code>{}</code>", escape(step)));
        let steps = steps.collect::<Vec<_>>().join(" ");
        *out += &format!("<dt>{}</dt><dd>{steps}</dd>\n", escape(&row.name));
    }
    *out += "</dl></div>\n";
}

fn put_table(table: &FigureTable, id: &str, out: &mut String) {
    let (title, unit) = (escape(&table.title), escape(&table.unit));
    *out += &format!(
        "<figure class=\"panel\" id=\"{id}\"><h3>{title} <small>{unit}</small></h3>\n<p>{}</p>\n\
         <div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr><th scope=\"col\">{}</th>",
        escape(&table.note),
        escape(&table.row_name)
    );
    for column in &table.columns {
        let name = escape(&column.name);
        *out += &format!("<th scope=\"col\" class=\"{}\">{name}</th>", class(column.whose));
    }
    *out += "<th scope=\"col\"></th></tr></thead>\n<tbody>\n";
    table.rows.iter().for_each(|row| put_row(table, row, out));
    *out += "</tbody></table></div>\n";
    if table.is_charted {
        *out += &chart::svg(table);
    }
    *out += "</figure>\n";
}

fn put_row(table: &FigureTable, row: &FigureRow, out: &mut String) {
    *out += &format!("<tr><th scope=\"row\">{}</th>", escape(&row.name));
    let most = row.cells.iter().filter_map(Figure::value).fold(0.0, f64::max);
    for (column, cell) in table.columns.iter().zip(&row.cells) {
        let text = match cell {
            Figure::Value { value, low, high, .. } if low == high => count(*value),
            Figure::Value { value, low, high, .. } if *high > low * SPREAD_MIN => {
                format!("{}<small>{}–{}</small>", figure(*value), figure(*low), figure(*high))
            }
            Figure::Value { value, .. } => figure(*value),
            Figure::Absent { absent } if absent.is_empty() => "–".to_owned(),
            Figure::Absent { absent } => escape(absent),
        };
        let share = 100.0 * cell.value().unwrap_or_default() / most.max(f64::MIN_POSITIVE);
        let class = class(column.whose);
        *out += &format!("<td class=\"{class}\" style=\"--bar:{share:.0}%\">{text}</td>");
    }
    let verdict = table.verdict(row);
    let (kind, text, limit) = (kind(&verdict), verdict.text(), table.limit_text(row));
    *out += &format!(
        "<td class=\"notes\"><em class=\"{kind}\">{}</em> {}</td></tr>\n",
        escape(&text),
        escape(&limit)
    );
}

fn kind(verdict: &LeadVerdict) -> &'static str {
    match verdict {
        LeadVerdict::Open => "open",
        LeadVerdict::Ahead(..) => "ahead",
        LeadVerdict::Level(_) | LeadVerdict::Unclear(_) => "level",
        LeadVerdict::Behind(..) => "behind",
    }
}

fn class(whose: Whose) -> &'static str {
    match whose {
        Whose::Fulmar => "ours",
        Whose::Peer => "peer",
        Whose::Document => "document",
        Whose::Beside => "beside",
    }
}

pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const STYLE: &str = include_str!("style.css");
/// A spread below this factor is not shown.
const SPREAD_MIN: f64 = 1.1;
const READING: &str = "\
    Client and server have a core each, if there are two. Sides take turns within a run. A \
    figure is the median of its rounds; the least and the most follow it where they differ by \
    more than a tenth. Figures of documents come from other machines and years and are never \
    compared. fulmar is ahead if it is better than the best peer by more than 2 %, and in its \
    worst round still better than every peer in its best; the number is the larger figure by the \
    smaller.";
