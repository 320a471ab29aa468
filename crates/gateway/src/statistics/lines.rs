//! Rows as text: CSV, and HAProxy's typed output (its management guide, §9.1 and §9.2).

use std::fmt::Write;

use super::columns::Column;
use super::value::{StatsRow, StatsValue};

/// The line of column names.
pub fn csv_head(out: &mut String) {
    out.push_str("# ");
    for column in Column::ALL {
        out.push_str(column.name());
        out.push(',');
        if *column == Column::LAST_GENERAL {
            out.push_str("-,");
        }
    }
    out.push('\n');
}

/// A row as a line.
pub fn csv_line(row: &StatsRow, out: &mut String) {
    for column in Column::ALL {
        match row.get(*column) {
            Some(StatsValue::Text(text)) => quote(text, out),
            Some(value) => write!(out, "{value}").expect("a String takes everything"),
            None => {}
        }
        out.push(',');
        if *column == Column::LAST_GENERAL {
            out.push_str("-,");
        }
    }
    out.push('\n');
}

/// A row as lines, one per value, with type and tags.
pub fn typed_lines(row: &StatsRow, out: &mut String) {
    let letter = &row.kind.name()[..1];
    for (column, value) in row.values() {
        let (at, name) = (column as usize, column.name());
        let (tags, kind) = (column.tags(row.kind), value.type_name());
        let (proxy, id, tags) = (row.proxy, row.id, tags.letters());
        writeln!(out, "{letter}.{proxy}.{id}.{at}.{name}.1:{tags}:{kind}:{value}")
            .expect("a String takes everything");
    }
}

/// Quotes text with a comma, a quote or a line end; quotes in it are doubled (RFC 4180 §2).
fn quote(text: &str, out: &mut String) {
    if !text.contains([',', '"', '\r', '\n']) {
        return out.push_str(text);
    }
    out.push('"');
    for letter in text.chars() {
        if letter == '"' {
            out.push('"');
        }
        out.push(letter);
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::kind::RowKind;

    #[test]
    fn the_names_are_those_of_haproxy_2_6() {
        let mut head = String::new();
        csv_head(&mut head);
        assert_eq!(head.matches(',').count(), 128);
        assert!(head.starts_with("# pxname,svname,qcur,qmax,scur,smax,slim,stot,bin,bout,"));
        assert!(head.contains(",sid,throttle,lbtot,tracked,type,rate,"));
        assert!(head.contains(",agg_check_status,-,ssl_sess,"));
        assert!(head.ends_with(",h1_spliced_bytes_in,h1_spliced_bytes_out,\n"));
    }

    #[test]
    fn text_is_quoted_where_it_would_be_read_as_something_else() {
        let table =
            [("plain", "plain"), ("a,b", "\"a,b\""), ("say \"x\"", "\"say \"\"x\"\"\""), ("", "")];
        for (text, quoted) in table {
            let mut out = String::new();
            quote(text, &mut out);
            assert_eq!(out, quoted);
        }
    }

    #[test]
    fn a_row_has_a_line_for_each_of_its_values() {
        let mut row = StatsRow::new(RowKind::Server, ("be", "s,1"), (4, 1));
        row.small(Column::act, 1_u32);
        let mut csv = String::new();
        csv_line(&row, &mut csv);
        assert!(csv.starts_with("be,\"s,1\",,,"), "{csv}");
        assert_eq!(csv.matches(',').count(), 129);
        let mut typed = String::new();
        typed_lines(&row, &mut typed);
        assert!(typed.contains("S.4.1.19.act.1:SGP:u32:1\n"), "{typed}");
        assert!(typed.contains("S.4.1.32.type.1:CGS:u32:2\n"), "{typed}");
    }
}
