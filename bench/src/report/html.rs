//! A report as one document that needs nothing from elsewhere: style inside, plots as SVG, no
//! script. Light or dark, as the reader's system is.

use super::numbers::{count, figure};
use super::svg::{self, escape};
use super::{Cell, Column, Listing, Outcome, Report, Row, Table, Verdict, Whose};

/// A report as one document.
pub(crate) fn html(report: &Report) -> String {
    let mut out = String::with_capacity(64 * 1024);
    put_head(report, &mut out);
    put_summary(report, &mut out);
    put_laggards(report, &mut out);
    for outcome in &report.experiments {
        put_outcome(outcome, &mut out);
    }
    put_machine(report, &mut out);
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

fn put_head(report: &Report, out: &mut String) {
    let fact = |name: &str| {
        let found = report.machine.facts.iter().find(|fact| fact.name == name);
        found.map_or(String::new(), |fact| escape(&fact.value))
    };
    let (version, date, processor) = (fact("fulmar"), fact("date"), fact("processor"));
    let (kernel, commit) = (fact("kernel"), fact("commit"));
    let commit = if commit.is_empty() { commit } else { format!(" ({commit})") };
    *out += &format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>fulmar bench: the reference \
         measurements, again</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>{STYLE}</style>\n\
         </head>\n<body>\n<main>\n<header class=\"top\">{MARK}<div><h1>The reference measurements, \
         again</h1>\n<p>fulmar {version}{commit} beside its peers, in turn, on one machine: {processor}, \
         Linux {kernel}, {date}.</p></div></header>\n"
    );
}

/// A card for each experiment: how many of its rows fulmar leads.
fn put_summary(report: &Report, out: &mut String) {
    out.push_str("<nav class=\"cards\" aria-label=\"Experiments\">\n");
    for outcome in &report.experiments {
        let (ahead, all) = outcome.score();
        let share = (100 * ahead).checked_div(all).unwrap_or(0);
        let score = match all {
            0 => "<b>–</b> <small>nothing to compare</small>".to_owned(),
            _ => format!("<b>{ahead}</b> <small>of {all} rows ahead</small>"),
        };
        *out += &format!(
            "<a class=\"card\" href=\"#{}\"><span class=\"name\">{}</span><span class=\"what\">{}\
             </span><span class=\"score\">{score}</span><span class=\"meter\" aria-hidden=\"true\">\
             <i style=\"width:{share}%\"></i></span></a>\n",
            escape(&outcome.name),
            escape(&outcome.name),
            escape(&outcome.title),
        );
    }
    out.push_str("</nav>\n");
}

/// Every row in which fulmar is not ahead, before anything else.
fn put_laggards(report: &Report, out: &mut String) {
    let mut items = String::new();
    for outcome in &report.experiments {
        for (number, table, rows) in outcome.laggards() {
            let each = rows.iter().map(|(place, verdict)| {
                let (place, text) = (escape(place), escape(&verdict.text()));
                format!("<span>{place} <em class=\"{}\">{text}</em></span>", kind(verdict))
            });
            items += &format!(
                "<li><a href=\"#{}\">{}: {}</a> – {}</li>\n",
                anchor(outcome, number),
                escape(&outcome.name),
                escape(&table.title),
                each.collect::<Vec<_>>().join("; "),
            );
        }
    }
    if !items.is_empty() {
        *out += &format!(
            "<section class=\"laggards\" aria-labelledby=\"laggards\"><h2 id=\"laggards\">Where \
             fulmar is not ahead</h2>\n<ul>\n{items}</ul></section>\n"
        );
    }
}

fn put_outcome(outcome: &Outcome, out: &mut String) {
    *out += &format!(
        "<section class=\"experiment\" id=\"{}\" aria-labelledby=\"{0}-h\">\n<p class=\"over\">\
         fulmar bench {0}</p>\n<h2 id=\"{0}-h\">{}</h2>\n<p class=\"source\">After {}.</p>\n",
        escape(&outcome.name),
        escape(&capital(&outcome.title)),
        escape(&outcome.source),
    );
    for text in &outcome.about {
        *out += &format!("<p class=\"about\">{}</p>\n", escape(text));
    }
    if let Some(failure) = &outcome.failure {
        *out += &format!("<p class=\"note bad\"><b>Ended early.</b> {}</p>\n", escape(failure));
    }
    for missing in &outcome.missing {
        *out += &format!("<p class=\"note\"><b>Not measured.</b> {}</p>\n", escape(missing));
    }
    for (number, table) in outcome.tables.iter().enumerate() {
        put_table(table, &anchor(outcome, number), out);
    }
    for listing in &outcome.listings {
        put_listing(listing, out);
    }
    if !outcome.commands.is_empty() {
        let commands = escape(&outcome.commands.join("\n"));
        *out += &format!(
            "<details><summary>Command lines of all sides</summary><pre>{commands}</pre></details>\n"
        );
    }
    out.push_str("</section>\n");
}

fn put_listing(listing: &Listing, out: &mut String) {
    *out += &format!(
        "<div class=\"panel listing\"><div class=\"caption\"><h3>{}</h3></div>\n<dl>\n",
        escape(&listing.title)
    );
    for row in &listing.rows {
        let steps = row.value.split("  ").map(|step| format!("<code>{}</code>", escape(step)));
        let ours = if row.name == "fulmar" { " class=\"ours\"" } else { "" };
        *out += &format!(
            "<dt{ours}>{}</dt><dd>{}</dd>\n",
            escape(&row.name),
            steps.collect::<Vec<_>>().join(" ")
        );
    }
    out.push_str("</dl></div>\n");
}

fn put_table(table: &Table, id: &str, out: &mut String) {
    *out += &format!(
        "<figure class=\"panel\" id=\"{id}\" aria-labelledby=\"{id}-h\">\n<figcaption><h3 \
         id=\"{id}-h\">{} <small>{}</small></h3>",
        escape(&table.title),
        escape(&table.unit)
    );
    if !table.note.is_empty() {
        *out += &format!("<p>{}</p>", escape(&table.note));
    }
    out.push_str("</figcaption>\n");
    if let Some(plot) = svg::plot(table, id) {
        *out += &format!("<div class=\"plot\">{plot}</div>\n");
    }
    let verdicts = table.rows.iter().any(|row| table.verdict(row) != Verdict::Open);
    *out += &format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"{id}-h\"><table>\n\
         <thead><tr><th scope=\"col\">{}</th>",
        escape(&table.row_name)
    );
    for column in &table.columns {
        *out += &format!("<th scope=\"col\"{}>{}</th>", side(column), escape(&column.name));
    }
    if verdicts {
        out.push_str("<th scope=\"col\" class=\"verdict\">fulmar is</th>");
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        put_row(table, row, verdicts, out);
    }
    out.push_str("</tbody></table></div>\n</figure>\n");
}

fn put_row(table: &Table, row: &Row, verdicts: bool, out: &mut String) {
    *out += &format!("<tr><th scope=\"row\">{}</th>", escape(&row.name));
    for (column, cell) in table.columns.iter().zip(&row.cells) {
        let shown = match cell {
            Cell::Value { value, low, high, .. } if low == high => count(*value),
            Cell::Value { value, low, high, .. } if *high > low * SPREAD_MIN => {
                format!("{}<small>{}–{}</small>", figure(*value), figure(*low), figure(*high))
            }
            Cell::Value { value, .. } => figure(*value),
            Cell::Absent { absent } if absent.is_empty() => "–".to_owned(),
            Cell::Absent { absent } => format!("<span class=\"absent\">{}</span>", escape(absent)),
        };
        *out += &format!("<td{}>{shown}</td>", side(column));
    }
    if verdicts {
        let verdict = table.verdict(row);
        let kind = kind(&verdict);
        let text = escape(&verdict.text());
        *out += &match text.is_empty() {
            true => "<td class=\"verdict\"></td>".to_owned(),
            false => {
                format!("<td class=\"verdict\"><span class=\"pill {kind}\">{text}</span></td>")
            }
        };
    }
    out.push_str("</tr>\n");
}

fn kind(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Open => "open",
        Verdict::Ahead(..) => "ahead",
        Verdict::Level(_) | Verdict::Unclear(_) => "level",
        Verdict::Behind(..) => "behind",
    }
}

fn put_machine(report: &Report, out: &mut String) {
    out.push_str(
        "<section class=\"machine\" aria-labelledby=\"machine\"><h2 id=\"machine\">The machine</h2>\
         \n<dl>\n",
    );
    for fact in &report.machine.facts {
        let (name, value) = (escape(&fact.name), escape(&fact.value));
        *out += &format!("<div><dt>{name}</dt><dd>{value}</dd></div>\n");
    }
    *out += &format!("</dl>\n<p class=\"about\">{}</p></section>\n", escape(READING));
}

fn anchor(outcome: &Outcome, table: usize) -> String {
    format!("{}-{}", escape(&outcome.name), table + 1)
}

fn side(column: &Column) -> &'static str {
    match column.whose {
        Whose::Fulmar => " class=\"ours\"",
        Whose::Document => " class=\"then\"",
        Whose::Peer | Whose::Beside => "",
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

const STYLE: &str = include_str!("html/style.css");
/// Rounds that differ by less are told as one figure.
const SPREAD_MIN: f64 = 1.1;
const READING: &str = "Client and server have a core each, if there are two. Sides take turns within a \
    run; a figure is the median of its rounds, and the least and most stand below it where they \
    differ by more than a tenth. Figures of the documents come from other machines and other years: \
    they stand beside the new ones, and are never compared. Ahead is who is \
    better than the best peer by more than 2 %, and in its worst round still better than every peer in \
    its best; the number is the peer's figure by fulmar's. Everything else is not ahead. Each figure is a median of \
    its own, so calls that are told one by one may differ from their total by a little.";

/// A bird with long wings, gliding.
const MARK: &str = "<svg class=\"mark\" viewBox=\"0 0 48 48\" aria-hidden=\"true\">\
    <path fill=\"currentColor\" d=\"M2 17c8-2 15 0 20 6 1-4 5-7 11-7 5 0 9 2 13 2-3 2-6 3-9 3-4 \
    0-6 2-7 5-2 6-8 9-15 8 5-1 8-3 9-6-5-5-12-8-22-11z\"/></svg>";
