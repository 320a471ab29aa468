//! Rows and process information as JSON, by HAProxy's schema (`show schema json`).

use serde::Serialize;

use super::info::InfoField;
use super::kind::Tags;
use super::value::{StatsRow, StatsValue};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonItem<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    obj_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    proxy_id: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u32>,
    field: JsonField<'a>,
    process_num: u32,
    tags: JsonTags,
    value: Typed<'a>,
}

#[derive(Serialize)]
struct JsonField<'a> {
    pos: usize,
    name: &'a str,
}

#[derive(Serialize)]
struct JsonTags {
    origin: &'static str,
    nature: &'static str,
    scope: &'static str,
}

#[derive(Serialize)]
struct Typed<'a> {
    r#type: &'static str,
    value: Plain<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Plain<'a> {
    Text(&'a str),
    Natural(u64),
    Integer(i64),
}

/// A row as an array of its values.
pub fn row_json(row: &StatsRow, out: &mut String) {
    let items = row.values().map(|(column, value)| JsonItem {
        obj_type: Some(row.kind.name()),
        proxy_id: Some(row.proxy),
        id: Some(row.id),
        field: JsonField { pos: column as usize, name: column.name() },
        process_num: 1,
        tags: named(column.tags(row.kind)),
        value: typed(value),
    });
    array(items, out);
}

/// The process information as an array of its fields.
pub fn info_json(facts: &[InfoField], out: &mut String) {
    let items = facts.iter().map(|fact| JsonItem {
        obj_type: None,
        proxy_id: None,
        id: None,
        field: JsonField { pos: fact.position, name: fact.name },
        process_num: 1,
        tags: named(fact.tags),
        value: typed(&fact.value),
    });
    array(items, out);
}

fn array<'a>(items: impl Iterator<Item = JsonItem<'a>>, out: &mut String) {
    out.push('[');
    for (at, item) in items.enumerate() {
        if at > 0 {
            out.push(',');
        }
        let text = serde_json::to_string(&item).expect("names and numbers can be written");
        out.push_str(&text);
    }
    out.push(']');
}

fn named(tags: Tags) -> JsonTags {
    JsonTags { origin: tags.origin(), nature: tags.nature(), scope: tags.scope() }
}

fn typed(value: &StatsValue) -> Typed<'_> {
    let plain = match value {
        StatsValue::U32(value) => Plain::Natural(u64::from(*value)),
        StatsValue::U64(value) => Plain::Natural(*value),
        StatsValue::S32(value) => Plain::Integer(i64::from(*value)),
        StatsValue::Text(text) => Plain::Text(text),
    };
    Typed { r#type: value.type_name(), value: plain }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::columns::Column;
    use crate::statistics::kind::RowKind;

    #[test]
    fn names_cannot_break_out_of_their_quotes() {
        let row = StatsRow::new(RowKind::Server, ("b\"e", "</script>"), (4, 1));
        let mut out = String::new();
        row_json(&row, &mut out);
        let read: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(read[0]["value"]["value"], "b\"e");
        assert_eq!(read[1]["field"]["name"], Column::svname.name());
        assert_eq!(read[1]["tags"]["nature"], "Name");
        assert_eq!(read[1]["objType"], "Server");
    }
}
