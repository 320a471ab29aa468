//! A bar for each column, made of its rows, which are system calls: what a whole consists of, by what
//! its calls are for.

use super::super::numbers::count;
use super::super::{Table, Whose};
use super::{WIDTH, escape, width_of};

/// The elements, the height, and a description; `None` without a figure.
pub(super) fn draw(table: &Table) -> Option<(String, f64, String)> {
    let parts = parts(table);
    let totals: Vec<f64> = (0..table.columns.len())
        .map(|column| parts.iter().map(|part| part.values[column]).sum())
        .collect();
    let most = totals.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let names = table.columns.iter().map(|column| width_of(&column.name));
    let left = names.fold(0.0, f64::max) + 14.0;
    let step = (WIDTH - left - TOTAL_WIDTH) / most;
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
        for part in parts.iter().filter(|part| part.values[at] > 0.0) {
            let width = part.values[at] * step;
            put_part(part, at, &column.name, (x, y, width), &mut out);
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

/// Calls that are made for the same thing.
struct Part {
    purpose: &'static str,
    colour: usize,
    /// By column.
    values: Vec<f64>,
    /// By column: the calls themselves.
    calls: Vec<String>,
}

fn parts(table: &Table) -> Vec<Part> {
    let columns = table.columns.len();
    let empty = |(colour, &(purpose, _)): (usize, &(&'static str, _))| Part {
        purpose,
        colour,
        values: vec![0.0; columns],
        calls: vec![String::new(); columns],
    };
    let mut parts: Vec<_> = PURPOSES.iter().enumerate().map(empty).collect();
    for row in &table.rows {
        let purpose = PURPOSES.iter().position(|(_, calls)| calls.contains(&row.name.as_str()));
        let part = &mut parts[purpose.unwrap_or(PURPOSES.len() - 1)];
        for (at, cell) in row.cells.iter().enumerate() {
            let value = cell.value().unwrap_or(0.0);
            if value > 0.0 {
                part.values[at] += value;
                part.calls[at] += &format!(" {} {}", count(value), row.name);
            }
        }
    }
    parts.retain(|part| part.values.iter().any(|value| *value > 0.0));
    parts
}

/// Its lower end.
fn put_legend(parts: &[Part], out: &mut String) -> f64 {
    let mut x = 0.0;
    for part in parts {
        *out += &format!(
            "<rect class=\"c{}\" x=\"{x:.1}\" y=\"4\" width=\"12\" height=\"12\" rx=\"3\"/>\
             <text class=\"key\" x=\"{:.1}\" y=\"15\">{}</text>\n",
            part.colour,
            x + 18.0,
            part.purpose,
        );
        x += width_of(part.purpose) + 34.0;
    }
    16.0
}

fn put_part(
    part: &Part,
    at: usize,
    column: &str,
    (x, y, width): (f64, f64, f64),
    out: &mut String,
) {
    let shown = count(part.values[at]);
    *out += &format!(
        "<rect class=\"c{}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\">\
         <title>{}, {}:{}</title></rect>",
        part.colour,
        f64::max(width - 1.0, 0.5),
        escape(column),
        part.purpose,
        escape(&part.calls[at]),
    );
    if width_of(&shown) + 6.0 < width {
        *out += &format!(
            "<text class=\"part mid\" x=\"{:.1}\" y=\"{:.1}\">{shown}</text>",
            x + width / 2.0,
            y + 18.0
        );
    }
}

/// What calls are for. Whatever is not here is of the last kind.
const PURPOSES: &[(&str, &[&str])] = &[
    (
        "wait",
        &["epoll_wait", "epoll_pwait", "epoll_pwait2", "select", "pselect6", "io_uring_enter"],
    ),
    ("watch", &["epoll_ctl", "poll", "ppoll"]),
    ("receive", &["recv", "recvfrom", "recvmsg", "read", "readv", "splice"]),
    ("send", &["send", "sendto", "sendmsg", "sendmmsg", "write", "writev", "sendfile"]),
    ("open", &["accept", "accept4", "socket", "connect", "bind"]),
    ("close", &["close", "shutdown"]),
    ("options", &["setsockopt", "getsockopt", "fcntl", "ioctl", "getsockname", "getpeername"]),
    ("other", &[]),
];
const BAR: f64 = 26.0;
const TOTAL_WIDTH: f64 = 80.0;

#[cfg(test)]
mod tests {
    use super::super::super::{Better, Cell, Column, Plot, Row};
    use super::*;

    #[test]
    fn calls_are_put_together_by_what_they_are_for() {
        let row = |name: &str, value: f64| Row {
            name: name.into(),
            at: None,
            cells: vec![Cell::exactly(value)],
        };
        let table = Table {
            title: "t".into(),
            note: String::new(),
            unit: "calls".into(),
            row_name: "call".into(),
            better: Better::Neither,
            columns: vec![Column::fulmar("fulmar")],
            rows: vec![row("sendto", 2.0), row("writev", 1.0), row("brk", 1.0), row("recv", 0.0)],
            plot: Some(Plot::Stacks),
        };
        let found = parts(&table);
        let told: Vec<_> = found.iter().map(|part| (part.purpose, part.values[0])).collect();
        assert_eq!(told, [("send", 3.0), ("other", 1.0)]);
        assert_eq!(found[0].calls[0], " 2 sendto 1 writev");
        let (svg, _, told) = draw(&table).expect("it has figures");
        assert_eq!(told, "fulmar: 4 calls.");
        assert_eq!(svg.matches("height=\"26\"").count(), 2);
    }
}
