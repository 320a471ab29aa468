//! A group of bars for each row, one for each column, from zero.

use super::super::Table;
use super::super::numbers::count;
use super::{WIDTH, class, escape, told, width_of};

/// The elements, the height, and a description; `None` without a figure.
pub(super) fn draw(table: &Table) -> Option<(String, f64, String)> {
    let figures = table.rows.iter().flat_map(|row| &row.cells).filter_map(|cell| cell.value());
    let most = figures.fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let names = table.columns.iter().map(|column| width_of(&column.name));
    let left = names.fold(0.0, f64::max) + 12.0;
    let step = (WIDTH - left - VALUE_WIDTH) / most;
    let (mut out, mut y, mut sentences) = (String::new(), -8.0, Vec::new());
    for row in &table.rows {
        y += 26.0;
        let name = escape(&table.place(row));
        out += &format!("<text class=\"group\" x=\"0\" y=\"{y}\">{name}</text>\n");
        y += 8.0;
        for (at, (column, cell)) in table.columns.iter().zip(&row.cells).enumerate() {
            let Some(value) = cell.value() else { continue };
            let (length, name) = (f64::max(value * step, 1.0), escape(&column.name));
            out += &format!(
                "<g class=\"{}\"><text class=\"name end\" x=\"{:.1}\" y=\"{:.1}\">{name}</text>\
                 <rect class=\"bar\" x=\"{left:.1}\" y=\"{y:.1}\" width=\"{length:.1}\" \
                 height=\"{BAR}\" rx=\"2\"/><text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
                 </g>\n",
                class(&table.columns, at),
                left - 10.0,
                y + 12.5,
                left + length + 8.0,
                y + 12.5,
                count(value),
            );
            y += BAR + 5.0;
            let place = (row.name.as_str(), value);
            sentences.push(told(
                &format!("{}, {}", row.name, column.name),
                place,
                place,
                &table.unit,
            ));
        }
    }
    Some((out, y + 8.0, sentences.join(" ")))
}

const BAR: f64 = 17.0;
const VALUE_WIDTH: f64 = 96.0;
