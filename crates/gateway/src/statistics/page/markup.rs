//! Text and numbers on a page.

use std::borrow::Cow;

use super::super::columns::Column;
use super::super::value::{StatsRow, StatsValue};

/// Escapes text for HTML elements and quoted attributes.
pub(super) fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\'', '\0']) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\0' => {}
            letter => out.push(letter),
        }
    }
    Cow::Owned(out)
}

/// Formats as `12.3k`.
pub(super) fn count(value: u64) -> String {
    scale(value, 1_000, &["", "k", "M", "G", "T"])
}

/// Formats as `1.2 MiB`.
pub(super) fn bytes(value: u64) -> String {
    scale(value, 1_024, &[" B", " KiB", " MiB", " GiB", " TiB"])
}

fn scale(value: u64, step: u64, units: &[&str]) -> String {
    let (mut unit, mut size) = (0, 1_u64);
    while value / size >= step && unit + 1 < units.len() {
        (unit, size) = (unit + 1, size * step);
    }
    let tenths = u128::from(value) * 10 / u128::from(size);
    match unit > 0 && tenths < 1_000 {
        true => format!("{}.{}{}", tenths / 10, tenths % 10, units[unit]),
        false => format!("{}{}", value / size, units[unit]),
    }
}

/// Formats as `3m 12s`: the two largest units.
pub(super) fn long_time(seconds: u64) -> String {
    let (minutes, hours) = (seconds / 60 % 60, seconds / 3_600 % 24);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{minutes}m {}s", seconds % 60),
        3_600..86_400 => format!("{hours}h {minutes}m"),
        _ => format!("{}d {hours}h", seconds / 86_400),
    }
}

/// All digits, with a thin space between thousands.
pub(super) fn full(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() * 2);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// How this module and the script format a column.
#[derive(Clone, Copy, Debug)]
pub(super) enum NumberFormat {
    Count,
    Bytes,
    Millis,
    Seconds,
    Full,
}

impl NumberFormat {
    fn letters(self) -> &'static str {
        match self {
            Self::Count => "n",
            Self::Bytes => "b",
            Self::Millis => "ms",
            Self::Seconds => "s",
            Self::Full => "f",
        }
    }
}

/// A column's value, marked so that the script can refresh it.
pub(super) fn value(row: &StatsRow, column: Column, show: NumberFormat) -> String {
    let text = match (row.get(column), show) {
        (None, _) => return String::new(),
        (Some(StatsValue::S32(value)), _) if *value < 0 => "never".to_owned(),
        (Some(StatsValue::Text(text)), _) => escape(text).into_owned(),
        (Some(_), NumberFormat::Count) => count(row.number(column)),
        (Some(_), NumberFormat::Bytes) => bytes(row.number(column)),
        (Some(_), NumberFormat::Millis) => format!("{} ms", row.number(column)),
        (Some(_), NumberFormat::Seconds) => long_time(row.number(column)),
        (Some(_), NumberFormat::Full) => full(row.number(column)),
    };
    format!("<span data-c=\"{}\" data-k=\"{}\">{text}</span>", column.name(), show.letters())
}

/// The sum of several columns; with `is_hot`, values other than 0 are highlighted.
pub(super) fn sum(row: &StatsRow, columns: &[Column], is_hot: bool) -> String {
    let sum: u64 = columns.iter().map(|column| row.number(*column)).sum();
    let names: Vec<&str> = columns.iter().map(|column| column.name()).collect();
    let hot = if is_hot { " data-hot=\"yes\"" } else { "" };
    let class = match (sum, is_hot) {
        (0, _) => "quiet",
        (_, true) => "hot",
        (_, false) => "",
    };
    let names = names.join(" ");
    format!("<span data-sum=\"{names}\"{hot} class=\"{class}\">{}</span>", count(sum))
}

/// Text with details that appear on hover or focus.
pub(super) fn tip(inner: &str, lines: &[(&str, String)]) -> String {
    let lines: String = lines
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("<i>{name}</i><b>{value}</b>"))
        .collect();
    if lines.is_empty() {
        return inner.to_owned();
    }
    format!("<span class=\"tip\" tabindex=\"0\">{inner}<span class=\"pop\">{lines}</span></span>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_becomes_markup() {
        let table = [
            ("plain", "plain"),
            ("<script>", "&lt;script&gt;"),
            ("a\"b'c&d", "a&quot;b&#39;c&amp;d"),
            ("nul\0", "nul"),
        ];
        for (text, escaped) in table {
            assert_eq!(escape(text), escaped);
        }
    }

    #[test]
    fn numbers_are_short_and_round_down() {
        let table = [(0, "0"), (999, "999"), (1_000, "1.0k"), (123_456, "123k"), (9_999, "9.9k")];
        for (value, text) in table {
            assert_eq!(count(value), text);
        }
        assert_eq!(bytes(1_536), "1.5 KiB");
        assert_eq!(count(u64::MAX), "18446744T");
        assert_eq!(full(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(long_time(90_061), "1d 1h");
    }
}
