//! Tables and paragraphs of plain text: pure, aligned, without colours.

use std::fmt::Write as _;

/// Aligned columns: the first to the left, the others to the right. Each is as wide as its widest
/// cell. Empty columns are left out.
#[derive(Debug, Default)]
pub(crate) struct TextTable {
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// A table with these headings.
    pub(crate) fn new<const N: usize>(headings: [&str; N]) -> Self {
        Self { rows: vec![headings.map(str::to_owned).to_vec()] }
    }

    /// Adds a row. It has as many cells as there are headings.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        assert_eq!(self.rows[0].len(), N, "a row has a cell for each heading");
        self.rows.push(cells.to_vec());
    }

    /// The table as text, without trailing spaces.
    pub(crate) fn text(&self) -> String {
        let wide = |at: usize| self.rows.iter().map(|row| row[at].chars().count()).max();
        let used = |at: usize| self.rows[1..].iter().any(|row| !row[at].is_empty());
        let widths: Vec<_> = (0..self.rows[0].len())
            .map(|at| if used(at) { wide(at).unwrap_or(0) } else { 0 })
            .collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = format!("{INDENT}{:<1$}", row[0], widths[0].max(NAME_WIDTH));
            for (cell, width) in row.iter().zip(&widths).skip(1).filter(|(_, width)| **width > 0) {
                let _ = write!(line, "{GAP}{cell:>0$}", *width.max(&CELL_WIDTH));
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

/// A name with a value. Further lines of the value are indented.
pub(crate) fn field(name: &str, value: &str) -> String {
    let mut text = String::new();
    for (at, line) in wrapped(value, LINE_WIDTH - FIELD_WIDTH - INDENT.len()).iter().enumerate() {
        let name = if at == 0 { name } else { "" };
        text += format!("{INDENT}{name:<FIELD_WIDTH$}{line}").trim_end();
        text.push('\n');
    }
    text
}

/// Wraps words into lines of at most `width` characters. A longer word has its own line.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let line = lines.last_mut().expect("there is one from the start");
        let full = line.chars().count() + 1 + word.chars().count() > width;
        match line.is_empty() {
            true => line.push_str(word),
            false if full => lines.push(word.to_owned()),
            false => *line += &format!(" {word}"),
        }
    }
    lines
}

/// `1,234,567`.
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The same; empty for 0.
pub(crate) fn unless_zero(n: u64) -> String {
    if n == 0 { String::new() } else { grouped(n) }
}

/// A count for each unit: `1.0064`.
pub(crate) fn share(value: f64) -> String {
    format!("{value:.4}")
}

/// `1 call`, `2 calls`.
pub(crate) fn counted(n: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(n), if n == 1 { "" } else { "s" })
}

const INDENT: &str = "  ";
const GAP: &str = "  ";
/// The longest usual name: `epoll_create1`.
const NAME_WIDTH: usize = 14;
/// Fixed, so that tables of different runs have the same width.
const CELL_WIDTH: usize = 8;
/// The column of values.
const FIELD_WIDTH: usize = 16;
/// A terminal's width less a margin.
const LINE_WIDTH: usize = 96;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_empty_ones_are_left_out() {
        let mut table = TextTable::new(["call", "calls", "EAGAIN", "bytes"]);
        table.row([
            "a_name_that_is_long".into(),
            "1,234,567,890".into(),
            String::new(),
            "1".into(),
        ]);
        table.row(["b".into(), "5".into(), String::new(), String::new()]);
        assert_eq!(
            table.text(),
            "  call                         calls     bytes\n\
             \x20 a_name_that_is_long  1,234,567,890         1\n\
             \x20 b                                5\n"
        );
    }

    #[test]
    fn paragraphs_are_cut_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("a verylongword b", 4), ["a", "verylongword", "b"]);
        assert_eq!(wrapped("", 4), [""]);
        let text = field("name", &"word ".repeat(40));
        assert!(text.lines().count() == 3 && text.lines().all(|line| line.len() <= LINE_WIDTH));
    }

    #[test]
    fn numbers_are_easy_to_read() {
        assert_eq!(
            (grouped(7), grouped(1_234), grouped(123_456)),
            ("7".into(), "1,234".into(), "123,456".into())
        );
        assert_eq!(
            (unless_zero(0), share(0.5), counted(1, "call")),
            (String::new(), "0.5000".into(), "1 call".into())
        );
    }
}
