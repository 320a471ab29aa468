//! A report for a terminal.

use super::numbers::{count, figure};
use super::{Cell, Outcome, Report, Row, Table, Whose};

/// A report for a terminal: a table for each table, and what is to be known of it.
pub(crate) fn text(report: &Report) -> String {
    let mut out = String::new();
    put_laggards(report, &mut out);
    for outcome in &report.experiments {
        put_outcome(outcome, &mut out);
    }
    let facts = report.machine.facts.iter().map(|fact| format!("{} {}", fact.name, fact.value));
    out += &format!("measured on: {}\n", facts.collect::<Vec<_>>().join(" · "));
    out
}

/// Every row in which fulmar is not ahead, before anything else.
fn put_laggards(report: &Report, out: &mut String) {
    let lines = report.experiments.iter().flat_map(|outcome| {
        outcome.laggards().map(|(_, table, rows)| {
            let rows =
                rows.into_iter().map(|(place, verdict)| format!("{place} {}", verdict.text()));
            let rows = rows.collect::<Vec<_>>().join("; ");
            format!("  {}: {}: {rows}\n", outcome.name, table.title)
        })
    });
    let lines = lines.collect::<String>();
    if !lines.is_empty() {
        *out += &format!("fulmar is not ahead in\n{lines}\n");
    }
}

fn put_outcome(outcome: &Outcome, out: &mut String) {
    *out += &format!("{}: {}\nafter {}\n\n", outcome.name, outcome.title, outcome.source);
    for table in &outcome.tables {
        put_table(table, out);
    }
    for listing in &outcome.listings {
        *out += &format!("{}\n", listing.title);
        let width = listing.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
        for row in &listing.rows {
            *out += &format!("  {:<width$}   {}\n", row.name, row.value);
        }
        out.push('\n');
    }
    for missing in &outcome.missing {
        *out += &format!("not measured: {missing}\n");
    }
    if let Some(failure) = &outcome.failure {
        *out += &format!("ended early: {failure}\n");
    }
    let (ahead, all) = outcome.score();
    if all > 0 {
        *out += &format!("fulmar is ahead in {ahead} of {all} rows\n");
    }
    out.push('\n');
}

fn put_table(table: &Table, out: &mut String) {
    let unit = if table.unit.is_empty() { String::new() } else { format!(", {}", table.unit) };
    *out += &format!("{}{unit}\n", table.title);
    if !table.note.is_empty() {
        *out += &format!("  {}\n", table.note);
    }
    let mut lines = vec![head(table)];
    lines.extend(table.rows.iter().map(|row| line(table, row)));
    let widths: Vec<usize> = (0..lines[0].len())
        .map(|at| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0))
        .collect();
    let last = widths.len() - 1;
    for line in lines {
        let mut shown = String::from("  ");
        for (at, (word, width)) in line.iter().zip(&widths).enumerate() {
            match at {
                0 => shown += &format!("{word:<width$}"),
                _ if at == last => shown += &format!("   {word}"),
                _ => shown += &format!("   {word:>width$}"),
            }
        }
        *out += shown.trim_end();
        out.push('\n');
    }
    out.push('\n');
}

fn head(table: &Table) -> Vec<String> {
    let mut words = vec![table.row_name.clone()];
    words.extend(table.columns.iter().map(|column| match column.whose {
        Whose::Document => format!("({})", column.name),
        _ => column.name.clone(),
    }));
    words.push(String::new());
    words
}

fn line(table: &Table, row: &Row) -> Vec<String> {
    let mut words = vec![row.name.clone()];
    words.extend(row.cells.iter().map(cell));
    words.push(table.verdict(row).text());
    words
}

fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Value { value, low, high, .. } if low == high => count(*value),
        Cell::Value { value, .. } => figure(*value),
        Cell::Absent { absent } if absent.is_empty() => "-".to_owned(),
        Cell::Absent { absent } => absent.clone(),
    }
}
