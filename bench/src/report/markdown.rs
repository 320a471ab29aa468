//! A report as Markdown, with columns that line up in a terminal, too.

use super::numbers::{count, figure};
use super::{BenchReport, Figure, FigureRow, FigureTable, ScenarioReport, Whose};

/// A report as Markdown: first the rows in which fulmar is not ahead, then all tables.
pub(crate) fn markdown(report: &BenchReport) -> String {
    let mut out = String::new();
    let scenarios = report.experiments.iter();
    let behind: String = scenarios.clone().flat_map(behind_lines).collect();
    if !behind.is_empty() {
        out += &format!("fulmar is not ahead in\n\n{behind}\n");
    }
    scenarios.for_each(|scenario| put_scenario(scenario, &mut out));
    let facts = report.machine.facts.iter().map(|fact| format!("{} {}", fact.name, fact.value));
    out += &format!("Machine: {}.\n", facts.collect::<Vec<_>>().join(", "));
    out
}

fn behind_lines(scenario: &ScenarioReport) -> Vec<String> {
    let lines = scenario.behind().map(|(_, table, rows)| {
        let rows = rows.into_iter().map(|(name, verdict)| format!("{name} {}", verdict.text()));
        let rows = rows.collect::<Vec<_>>().join("; ");
        format!("- {}: {}: {rows}\n", scenario.name, table.title)
    });
    lines.collect()
}

fn put_scenario(scenario: &ScenarioReport, out: &mut String) {
    *out += &format!("## {}: {}\n\n", scenario.name, scenario.title);
    if !scenario.source.is_empty() {
        *out += &format!("After {}.\n\n", scenario.source);
    }
    scenario.tables.iter().for_each(|table| put_table(table, out));
    for listing in &scenario.listings {
        let rows = listing.rows.iter().map(|row| format!("- {}: `{}`\n", row.name, row.value));
        *out += &format!("{}:\n\n{}\n", listing.title, rows.collect::<String>());
    }
    for missing in &scenario.missing {
        *out += &format!("not measured: {missing}\n\n");
    }
    if let Some(failure) = &scenario.failure {
        *out += &format!("ended early: {failure}\n\n");
    }
    let (ahead, all) = scenario.score();
    if all > 0 {
        *out += &format!("fulmar is ahead in {ahead} of {all} rows\n\n");
    }
    for command in &scenario.commands {
        *out += &format!("    {command}\n");
    }
    out.push('\n');
}

fn put_table(table: &FigureTable, out: &mut String) {
    let unit = if table.unit.is_empty() { String::new() } else { format!(", {}", table.unit) };
    *out += &format!("{}{unit}\n\n", table.title);
    if !table.note.is_empty() {
        *out += &format!("{}\n\n", table.note);
    }
    let mut lines = vec![head(table), Vec::new()];
    lines.extend(table.rows.iter().map(|row| line(table, row)));
    let widths: Vec<usize> = (0..lines[0].len())
        .map(|at| lines.iter().filter_map(|line| Some(line.get(at)?.chars().count())).max())
        .map(Option::unwrap_or_default)
        .collect();
    lines[1] = widths.iter().map(|width| "-".repeat(*width)).collect();
    for line in lines {
        let cells = line.iter().zip(&widths).enumerate().map(|(at, (text, &width))| match at {
            0 => format!("{text:<width$}"),
            _ if at == line.len() - 1 => format!("{text:<width$}"),
            _ => format!("{text:>width$}"),
        });
        *out += &format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "));
    }
    out.push('\n');
}

fn head(table: &FigureTable) -> Vec<String> {
    let mut words = vec![table.row_name.clone()];
    words.extend(table.columns.iter().map(|column| match column.whose {
        Whose::Document => format!("({})", column.name),
        _ => column.name.clone(),
    }));
    words.push(String::new());
    words
}

fn line(table: &FigureTable, row: &FigureRow) -> Vec<String> {
    let mut words = vec![row.name.clone()];
    words.extend(row.cells.iter().map(cell));
    let (verdict, limit) = (table.verdict(row).text(), table.limit_text(row));
    let notes = [verdict, limit].into_iter().filter(|text| !text.is_empty());
    words.push(notes.collect::<Vec<_>>().join("; "));
    words
}

fn cell(cell: &Figure) -> String {
    match cell {
        Figure::Value { value, low, high, .. } if low == high => count(*value),
        Figure::Value { value, .. } => figure(*value),
        Figure::Absent { absent } if absent.is_empty() => "-".to_owned(),
        Figure::Absent { absent } => absent.clone(),
    }
}
