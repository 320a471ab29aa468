//! A bar for each column, made of its rows: what a whole consists of.

use super::super::numbers::{count, figure};
use super::super::{Cell, Row, Table, Whose};
use super::{WIDTH, escape, width_of};

/// The elements, the height, and a description; `None` without a figure.
pub(super) fn draw(table: &Table) -> Option<(String, f64, String)> {
    let totals: Vec<f64> = (0..table.columns.len()).map(|at| total(table, at)).collect();
    let most = totals.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let names = table.columns.iter().map(|column| width_of(&column.name));
    let left = names.fold(0.0, f64::max) + 14.0;
    let step = (WIDTH - left - TOTAL_WIDTH) / most;
    let parts = parts(table);
    let (mut out, mut sentences) = (String::new(), Vec::new());
    let mut y = put_legend(&parts, &mut out) + 14.0;
    for (at, column) in table.columns.iter().enumerate() {
        let kind = match column.whose {
            Whose::Fulmar => "ours",
            Whose::Document => "then",
            Whose::Peer | Whose::Beside => "",
        };
        if totals[at] == 0.0 {
            continue;
        }
        let name = escape(&column.name);
        out += &format!(
            "<g class=\"stack {kind}\"><text class=\"name end\" x=\"{:.1}\" y=\"{:.1}\">{name}\
             </text>",
            left - 12.0,
            y + 18.0
        );
        let mut x = left;
        for part in &parts {
            let value = part.value(at);
            let width = value * step;
            if width > 0.0 {
                put_part(part, &column.name, (x, y, width, value), &mut out);
            }
            x += width;
        }
        let all = count(totals[at]);
        out += &format!(
            "<text class=\"total\" x=\"{:.1}\" y=\"{:.1}\">{all}</text></g>\n",
            x + 8.0,
            y + 18.0
        );
        y += BAR + 9.0;
        sentences.push(format!("{}: {all} {}.", column.name, table.unit));
    }
    Some((out, y + 4.0, sentences.join(" ")))
}

fn total(table: &Table, column: usize) -> f64 {
    table.rows.iter().filter_map(|row| row.cells[column].value()).sum()
}

/// Rows that have a colour of their own, and all others together.
struct Part<'a> {
    name: &'a str,
    colour: usize,
    rows: Vec<&'a Row>,
}

impl Part<'_> {
    fn value(&self, column: usize) -> f64 {
        self.rows.iter().filter_map(|row| row.cells[column].value()).sum()
    }
}

fn parts(table: &Table) -> Vec<Part<'_>> {
    let size = |row: &Row| row.cells.iter().filter_map(Cell::value).fold(0.0, f64::max);
    let mut rows: Vec<&Row> = table.rows.iter().filter(|row| size(row) > 0.0).collect();
    rows.sort_by(|a, b| size(b).total_cmp(&size(a)));
    let others = rows.split_off(rows.len().min(COLOURS - 1));
    let parts = rows.into_iter().enumerate();
    let mut parts: Vec<_> =
        parts.map(|(colour, row)| Part { name: &row.name, colour, rows: vec![row] }).collect();
    match others[..] {
        [] => {}
        [row] => parts.push(Part { name: &row.name, colour: COLOURS - 1, rows: others }),
        _ => parts.push(Part { name: "others", colour: COLOURS - 1, rows: others }),
    }
    parts
}

/// Its lower end.
fn put_legend(parts: &[Part<'_>], out: &mut String) -> f64 {
    let (mut x, mut y) = (0.0, 4.0);
    for part in parts {
        let width = width_of(part.name) + 30.0;
        if x + width > WIDTH {
            (x, y) = (0.0, y + 22.0);
        }
        *out += &format!(
            "<rect class=\"c{}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"12\" height=\"12\" rx=\"3\"/>\
             <text class=\"key\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
            part.colour,
            x + 18.0,
            y + 11.0,
            escape(part.name),
        );
        x += width;
    }
    y + 12.0
}

fn put_part(
    part: &Part<'_>,
    column: &str,
    (x, y, width, value): (f64, f64, f64, f64),
    out: &mut String,
) {
    let shown = if value.fract() == 0.0 { count(value) } else { figure(value) };
    *out += &format!(
        "<rect class=\"c{}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\">\
         <title>{}, {}: {shown}</title></rect>",
        part.colour,
        f64::max(width - 1.0, 0.5),
        escape(column),
        escape(part.name),
    );
    if width_of(&shown) + 8.0 < width {
        *out += &format!(
            "<text class=\"part mid\" x=\"{:.1}\" y=\"{:.1}\">{shown}</text>",
            x + width / 2.0,
            y + 18.0
        );
    }
}

const BAR: f64 = 26.0;
const TOTAL_WIDTH: f64 = 80.0;
const COLOURS: usize = 9;
