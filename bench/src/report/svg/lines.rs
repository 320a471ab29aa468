//! A line for each column, over where the rows stand; both axes are logarithmic.

use super::super::numbers::{count, figure};
use super::super::{Cell, Table};
use super::{WIDTH, class, escape, told, width_of};

/// A point: where it stands, its figure, the least and the most, and the row's name.
struct Point<'a> {
    at: f64,
    value: f64,
    low: f64,
    high: f64,
    row: &'a str,
}

/// A column that has points.
struct Line<'a> {
    name: &'a str,
    class: String,
    points: Vec<Point<'a>>,
}

/// The elements, the height, and a description; `None` without a point.
pub(super) fn draw(table: &Table, axis: &str) -> Option<(String, f64, String)> {
    let lines = lines(table);
    let values = || lines.iter().flat_map(|line| &line.points);
    let (least, most) = range(values().flat_map(|point| [point.low, point.high]))?;
    let (left, right) = range(values().map(|point| point.at))?;
    let label = lines.iter().map(|line| width_of(&ending(line))).fold(0.0, f64::max);
    let (low, high) = (least / 1.35, most * 1.35);
    let numbers = ticks(low, high).filter_map(|tick| tick.told).map(|told| width_of(&told));
    let margin = numbers.fold(MARGIN_LEFT, |margin, width| f64::max(margin, width + TICK_GAP));
    let end = WIDTH - label - 26.0;
    let frame = Frame {
        left: margin,
        right: end,
        x: Scale::new(left, right, margin, end),
        y: Scale::new(low, high, HEIGHT - MARGIN_BOTTOM, MARGIN_TOP),
    };
    let mut out = String::new();
    put_grid(&frame, ticks(low, high), table, &mut out);
    put_ticks(&frame, &lines, axis, &mut out);
    lines.iter().for_each(|line| put_line(&frame, line, &table.unit, &mut out));
    put_labels(&frame, &lines, &mut out);
    let sentences = lines.iter().filter_map(|line| {
        let (first, last) = (line.points.first()?, line.points.last()?);
        Some(told(line.name, (first.row, first.value), (last.row, last.value), &table.unit))
    });
    Some((out, HEIGHT, sentences.collect::<Vec<_>>().join(" ")))
}

fn lines(table: &Table) -> Vec<Line<'_>> {
    let columns = table.columns.iter().enumerate();
    let lines = columns.map(|(at, column)| Line {
        name: &column.name,
        class: class(&table.columns, at),
        points: table
            .rows
            .iter()
            .filter_map(|row| point(row.at?, &row.cells[at], &row.name))
            .collect(),
    });
    let mut lines: Vec<_> = lines.filter(|line| !line.points.is_empty()).collect();
    lines.sort_by_key(|line| line.class == "ours"); // above the others
    lines
}

/// A logarithm has no place for nothing.
fn point<'a>(at: f64, cell: &Cell, row: &'a str) -> Option<Point<'a>> {
    match *cell {
        Cell::Value { value, low, high, .. } if low > 0.0 => {
            Some(Point { at, value, low, high, row })
        }
        _ => None,
    }
}

fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |range, value| match range {
        None => Some((value, value)),
        Some((low, high)) => Some((f64::min(low, value), f64::max(high, value))),
    })
}

struct Frame {
    /// Where lines may begin and end.
    left: f64,
    right: f64,
    x: Scale,
    y: Scale,
}

/// A logarithmic scale onto pixels.
struct Scale {
    from: f64,
    step: f64,
    begin: f64,
}

impl Scale {
    fn new(low: f64, high: f64, begin: f64, end: f64) -> Self {
        let decades = (high / low).log10();
        let step = if decades > 0.0 { (end - begin) / decades } else { 0.0 };
        Self { from: low.log10(), step, begin }
    }

    fn at(&self, value: f64) -> f64 {
        self.begin + (value.log10() - self.from) * self.step
    }
}

/// A horizontal line.
struct Tick {
    value: f64,
    /// Its number, if it stands beside it.
    told: Option<String>,
}

/// At 1, 2, 3 ... 9, 10, 20 ..., so that the scale is seen; those with a number are as many as are
/// read easily.
fn ticks(low: f64, high: f64) -> impl Iterator<Item = Tick> {
    let told: &[f64] = match (high / low).log10() {
        2.2.. => &[1.0],
        0.9.. => &[1.0, 2.0, 5.0],
        _ => &[1.0, 2.0, 3.0, 4.0, 5.0, 7.0],
    };
    let first = low.log10().floor();
    let powers = (0_u16..).map(move |at| first + f64::from(at));
    let powers = powers.take_while(move |power| *power <= high.log10());
    powers.flat_map(move |power| {
        let steps = (1_u8..10).map(f64::from);
        let ticks = steps.map(move |step| {
            let value = step * 10_f64.powf(power);
            Tick { value, told: told.contains(&step).then(|| tick(value)) }
        });
        ticks.filter(move |tick| (low..=high).contains(&tick.value))
    })
}

fn put_grid(frame: &Frame, ticks: impl Iterator<Item = Tick>, table: &Table, out: &mut String) {
    let (left, x, right) = (frame.left, frame.left - 10.0, frame.right);
    for Tick { value, told } in ticks {
        let y = frame.y.at(value);
        let class = if told.is_some() { "grid" } else { "grid between" };
        *out += &format!("<path class=\"{class}\" d=\"M{left:.1} {y:.1}H{right:.1}\"/>\n");
        if let Some(told) = told {
            let y = y + 4.0;
            *out += &format!("<text class=\"tick end\" x=\"{x:.1}\" y=\"{y:.1}\">{told}</text>\n");
        }
    }
    let unit = escape(&table.unit);
    *out += &format!("<text class=\"axis\" x=\"0\" y=\"16\">{unit}, logarithmic</text>\n");
}

fn tick(value: f64) -> String {
    if value >= 1.0 { count(value.round()) } else { format!("{value}") }
}

/// Under each place where rows stand, as far as there is room.
fn put_ticks(frame: &Frame, lines: &[Line<'_>], axis: &str, out: &mut String) {
    let bottom = HEIGHT - MARGIN_BOTTOM;
    let mut places: Vec<_> =
        lines.iter().flat_map(|line| &line.points).map(|point| (point.at, point.row)).collect();
    places.sort_by(|a, b| a.0.total_cmp(&b.0));
    places.dedup_by(|a, b| a.0.total_cmp(&b.0).is_eq());
    let mut free = f64::MIN;
    for (at, name) in places {
        let (x, half) = (frame.x.at(at), width_of(name) / 2.0);
        *out += &format!("<path class=\"grid\" d=\"M{x:.1} {bottom}v5\"/>");
        if x - half > free {
            *out += &format!(
                "<text class=\"tick mid\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>\n",
                bottom + 20.0,
                escape(name)
            );
            free = x + half + 6.0;
        }
    }
    let y = HEIGHT - 6.0;
    let (axis, left) = (escape(axis), frame.left);
    *out += &format!("<text class=\"axis\" x=\"{left:.1}\" y=\"{y}\">{axis}, logarithmic</text>\n");
}

fn put_line(frame: &Frame, line: &Line<'_>, unit: &str, out: &mut String) {
    let place = |point: &Point<'_>| (frame.x.at(point.at), frame.y.at(point.value));
    *out += &format!("<g class=\"{}\">", line.class);
    let mut path = String::new();
    for (at, point) in line.points.iter().enumerate() {
        let (x, y) = place(point);
        path += &format!("{}{x:.1} {y:.1}", if at == 0 { "M" } else { "L" });
    }
    *out += &format!("<path class=\"line\" d=\"{path}\"/>\n");
    for point in &line.points {
        let (x, y) = place(point);
        if point.high > point.low * SPREAD_MIN {
            let (top, bottom) = (frame.y.at(point.high), frame.y.at(point.low));
            *out += &format!("<path class=\"spread\" d=\"M{x:.1} {top:.1}V{bottom:.1}\"/>");
        }
        *out += &format!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"><title>{}, {}: {} {}</title></circle>\n",
            escape(line.name),
            escape(point.row),
            figure(point.value),
            escape(unit),
        );
    }
    *out += "</g>\n";
}

fn ending(line: &Line<'_>) -> String {
    let last = line.points.last().map_or(0.0, |point| point.value);
    format!("{}  {}", line.name, figure(last))
}

/// Right of the plot, as high as each line ends: inside, one that ends early would have its label on the
/// others. Those that would lie on each other are pushed apart, and none goes below the plot, where
/// the axis has its numbers.
fn put_labels(frame: &Frame, lines: &[Line<'_>], out: &mut String) {
    let last = |line: &Line<'_>| line.points.last().map_or(0.0, |it| frame.y.at(it.value));
    let mut ordered: Vec<_> = lines.iter().map(|line| (last(line) + 4.0, line)).collect();
    ordered.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut free, mut full) = (MARGIN_TOP, HEIGHT - MARGIN_BOTTOM);
    for (at, _) in &mut ordered {
        *at = f64::max(*at, free);
        free = *at + LABEL_HEIGHT;
    }
    for (at, _) in ordered.iter_mut().rev() {
        *at = f64::min(*at, full);
        full = *at - LABEL_HEIGHT;
    }
    let x = frame.right + 12.0;
    for (at, line) in ordered {
        let value = line.points.last().map_or(0.0, |point| point.value);
        *out += &format!(
            "<text class=\"label {}\" x=\"{x:.1}\" y=\"{at:.1}\">{} <tspan class=\"value\">{}\
             </tspan></text>\n",
            line.class,
            escape(line.name),
            figure(value),
        );
    }
}

const HEIGHT: f64 = 380.0;
const MARGIN_LEFT: f64 = 64.0;
/// Between a number and the plot.
const TICK_GAP: f64 = 12.0;
const MARGIN_TOP: f64 = 30.0;
const MARGIN_BOTTOM: f64 = 52.0;
const LABEL_HEIGHT: f64 = 17.0;
/// Rounds that differ by less lie under the point.
const SPREAD_MIN: f64 = 1.1;

#[cfg(test)]
mod tests {
    use super::super::super::{Better, Column, Plot, Row};
    use super::*;

    fn table(columns: Vec<Column>, rows: Vec<Row>) -> Table {
        Table {
            title: "t".into(),
            note: String::new(),
            unit: "us".into(),
            row_name: "n".into(),
            better: Better::Lower,
            columns,
            rows,
            plot: Some(Plot::Lines { axis: "n".into() }),
        }
    }

    fn row(name: &str, at: f64, cells: Vec<Cell>) -> Row {
        Row { name: name.into(), at: Some(at), cells }
    }

    #[test]
    fn lines_stand_where_their_figures_are() {
        let columns = vec![Column::document("then"), Column::fulmar("fulmar")];
        let table = table(
            columns,
            vec![
                row("10", 10.0, vec![Cell::exactly(100.0), Cell::exactly(1.0)]),
                row("1,000", 1000.0, vec![Cell::none(), Cell::exactly(10.0)]),
            ],
        );
        let found = lines(&table);
        assert_eq!((found[0].points.len(), found[0].class.as_str()), (1, "then"));
        assert_eq!((found[1].points.len(), found[1].class.as_str()), (2, "ours"));
        let (svg, _, told) = draw(&table, "n").expect("it has points");
        assert_eq!(svg.matches("<circle").count(), 3);
        assert_eq!(told, "then: 100 us. fulmar: from 1.00 at 10 to 10.0 at 1,000 us.");
        // The document's ends early; both labels stand right of where lines may end.
        let ends = svg.split("class=\"label").skip(1).filter_map(|it| it.split("x=\"").nth(1));
        let ends: Vec<f64> = ends.filter_map(|it| it.split('"').next()?.parse().ok()).collect();
        assert!(ends.len() == 2 && ends[0] == ends[1], "{ends:?}");
        let empty = Table { rows: Vec::new(), ..table };
        assert!(draw(&empty, "n").is_none());
    }

    #[test]
    fn labels_stand_apart_and_none_stands_on_the_axis() {
        let cells = |values: [f64; 4]| values.into_iter().map(Cell::exactly).collect();
        let columns = ["a", "b", "c"].map(Column::peer).into_iter();
        let table = table(
            columns.chain([Column::fulmar("fulmar")]).collect(),
            vec![
                row("1", 1.0, cells([9e3, 5.0, 5.0, 5.0])),
                row("2", 2.0, cells([9e3, 5.2, 5.1, 5.0])),
            ],
        );
        let (svg, ..) = draw(&table, "n").expect("it has points");
        let labels = svg.split("class=\"label").skip(1).filter_map(|it| it.split(" y=\"").nth(1));
        let mut heights: Vec<f64> =
            labels.filter_map(|it| it.split('"').next()?.parse().ok()).collect();
        heights.sort_by(f64::total_cmp);
        assert_eq!(heights.len(), 4);
        assert!(heights[3] <= HEIGHT - MARGIN_BOTTOM, "{heights:?}");
        assert!(heights.windows(2).all(|two| two[1] - two[0] >= LABEL_HEIGHT - 0.1), "{heights:?}");
    }

    #[test]
    fn large_numbers_have_room() {
        let told: Vec<_> = ticks(900.0, 3_000_000.0).filter_map(|tick| tick.told).collect();
        assert_eq!(told, ["1,000", "10,000", "100,000", "1,000,000"]);
        let row = |name: &str, at: f64, value: f64| Row {
            name: name.into(),
            at: Some(at),
            cells: vec![Cell::exactly(value)],
        };
        let table = Table {
            title: "t".into(),
            note: String::new(),
            unit: "instructions".into(),
            row_name: "n".into(),
            better: Better::Lower,
            columns: vec![Column::fulmar("fulmar")],
            rows: vec![row("1", 1.0, 1e3), row("2", 2.0, 2e6)],
            plot: Some(Plot::Lines { axis: "n".into() }),
        };
        let (svg, ..) = draw(&table, "n").expect("it has points");
        let number = svg.split(">1,000,000<").next().and_then(|it| it.rsplit("x=\"").next());
        let right: f64 = number.and_then(|it| it.split('"').next()?.parse().ok()).expect("a place");
        assert!(right >= width_of("1,000,000"), "{right}");
    }

    #[test]
    fn a_scale_is_logarithmic() {
        let scale = Scale::new(1.0, 100.0, 0.0, 200.0);
        assert!((scale.at(10.0) - 100.0).abs() < 1e-9);
        assert!((Scale::new(5.0, 5.0, 10.0, 20.0).at(5.0) - 10.0).abs() < 1e-9);
    }
}
