//! A table as a graph: SVG with a line for each side over the numbers that name the rows. Both axes
//! are logarithmic.

use super::html::escape;
use super::numbers::count;
use super::{FigureTable, SideColumn, Whose};

/// A graph of the table; empty if fewer than two rows or no side can be drawn.
pub(super) fn svg(table: &FigureTable) -> String {
    let lines: Vec<_> =
        table.columns.iter().zip(0..).map(|it| (it.0, points(table, it.1))).collect();
    let all = || lines.iter().flat_map(|(_, points)| points.iter().copied());
    let (Some(across), Some(up)) = (
        Axis::of(all().map(|(x, _)| x), [LEFT, LEFT + WIDTH]),
        Axis::of(all().map(|(_, y)| y), [TOP + HEIGHT, TOP]),
    ) else {
        return String::new();
    };
    let legend = 18 * lines.len() + 12;
    let mut out = format!(
        "<svg class=\"chart\" viewBox=\"0 0 {TOTAL_WIDTH} {}\" role=\"img\" aria-label=\"{}\">\n",
        f64::max(TOP + HEIGHT + 40.0, legend as f64),
        escape(&table.title)
    );
    for power in across.powers() {
        let (x, bottom) = (across.place(power), TOP + HEIGHT);
        out += &format!(
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
            bottom + 16.0,
            count(power)
        );
    }
    for power in up.powers() {
        let (y, right) = (up.place(power), LEFT + WIDTH);
        out += &format!(
            "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
            LEFT - 6.0,
            y + 4.0,
            count(power)
        );
    }
    out += &format!(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n\
         <text x=\"{LEFT}\" y=\"{}\">{}</text>\n",
        LEFT + WIDTH / 2.0,
        TOP + HEIGHT + 34.0,
        escape(&table.row_name),
        TOP - 8.0,
        escape(&table.unit)
    );
    for (at, (column, points)) in lines.iter().enumerate() {
        put_line(column, at, lines.len(), points, [&across, &up], &mut out);
    }
    out + "</svg>\n"
}

/// The line of a side and its entry in the legend.
fn put_line(
    column: &SideColumn,
    at: usize,
    sides: usize,
    points: &[(f64, f64)],
    [across, up]: [&Axis; 2],
    out: &mut String,
) {
    let hue = 360 * at / sides;
    let (width, dashes) = match column.whose {
        Whose::Fulmar => (3, ""),
        Whose::Document => (2, " stroke-dasharray=\"2 4\""),
        Whose::Peer => (2, ""),
        Whose::Beside => (2, " stroke-dasharray=\"7 3\""),
    };
    let style = format!("style=\"stroke:hsl({hue} 70% 50%)\" stroke-width=\"{width}\"{dashes}");
    let places = points.iter().map(|(x, y)| format!("{:.1},{:.1}", across.place(*x), up.place(*y)));
    let places = places.collect::<Vec<_>>().join(" ");
    let (x, y) = (LEFT + WIDTH + 16.0, 14 + 18 * at);
    *out += &format!(
        "<polyline fill=\"none\" points=\"{places}\" {style}/>\n\
         <polyline points=\"{x},{y} {},{y}\" {style}/><text x=\"{}\" y=\"{}\">{}</text>\n",
        x + 24.0,
        x + 32.0,
        y + 4,
        escape(&column.name)
    );
}

/// The figures of a column by the numbers of their rows. Logarithms need positive ones.
fn points(table: &FigureTable, column: usize) -> Vec<(f64, f64)> {
    let point = |row: &super::FigureRow| {
        let x: f64 = row.name.replace(',', "").parse().ok()?;
        Some((x, row.cells[column].value()?))
    };
    let mut points: Vec<_> =
        table.rows.iter().filter_map(point).filter(|(x, y)| *x > 0.0 && *y > 0.0).collect();
    points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    points
}

/// A logarithmic axis.
struct Axis {
    low: f64,
    high: f64,
    /// Where it begins and ends.
    ends: [f64; 2],
}

impl Axis {
    /// From the least to the most of the values; `None` if they do not differ.
    fn of(values: impl Iterator<Item = f64> + Clone, ends: [f64; 2]) -> Option<Self> {
        let low = values.clone().reduce(f64::min)?;
        let high = values.reduce(f64::max)?;
        (low < high).then_some(Self { low, high, ends })
    }

    fn place(&self, value: f64) -> f64 {
        let share = (value / self.low).ln() / (self.high / self.low).ln();
        self.ends[0] + share * (self.ends[1] - self.ends[0])
    }

    /// The powers of ten on it, and its ends if there are fewer than two.
    fn powers(&self) -> Vec<f64> {
        let powers = (-6..=12).map(|power| 10_f64.powi(power));
        let found: Vec<_> = powers.filter(|it| (self.low..=self.high).contains(it)).collect();
        if found.len() < 2 { vec![self.low, self.high] } else { found }
    }
}

const LEFT: f64 = 64.0;
const TOP: f64 = 24.0;
const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 320.0;
/// With the legend.
const TOTAL_WIDTH: f64 = 900.0;

#[cfg(test)]
mod tests {
    use super::super::{Better, Figure, FigureRow};
    use super::*;

    fn table(rows: &[(&str, Figure)]) -> FigureTable {
        let row = |(name, cell): &(&str, Figure)| FigureRow {
            name: (*name).to_owned(),
            cells: vec![cell.clone()],
            limit: None,
        };
        FigureTable {
            title: "a < b".into(),
            note: String::new(),
            unit: "us".into(),
            row_name: "connections".into(),
            better: Better::Lower,
            is_charted: true,
            columns: vec![SideColumn { name: "fulmar".into(), whose: Whose::Fulmar }],
            rows: rows.iter().map(row).collect(),
        }
    }

    #[test]
    fn a_line_connects_the_figures_in_the_order_of_their_rows() {
        let rows = [
            ("10,000", Figure::exactly(100.0)),
            ("1", Figure::exactly(1.0)),
            ("100", Figure::exactly(10.0)),
            ("1,000", Figure::of(&[], "not measured")),
            ("all", Figure::exactly(5.0)),
        ];
        let svg = svg(&table(&rows));
        assert!(svg.contains("points=\"64.0,344.0 324.0,184.0 584.0,24.0\""), "{svg}");
        assert!(svg.contains("aria-label=\"a &lt; b\"") && svg.contains(">10,000</text>"), "{svg}");
    }

    #[test]
    fn a_table_with_one_row_has_no_graph() {
        assert_eq!(svg(&table(&[("1", Figure::exactly(1.0))])), "");
        assert_eq!(svg(&table(&[])), "");
    }
}
