//! Rows: the statistics of a frontend, a listener, a server or a backend.

use super::columns::Column;
use super::kind::RowKind;

/// A value, with HAProxy's type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatsValue {
    /// A number of 32 bits.
    U32(u32),
    /// A number of 64 bits.
    U64(u64),
    /// A signed number of 32 bits.
    S32(i32),
    /// Text.
    Text(String),
}

impl StatsValue {
    /// The name of its type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::U32(_) => "u32",
            Self::U64(_) => "u64",
            Self::S32(_) => "s32",
            Self::Text(_) => "str",
        }
    }
}

impl std::fmt::Display for StatsValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::U32(value) => value.fmt(f),
            Self::U64(value) => value.fmt(f),
            Self::S32(value) => value.fmt(f),
            Self::Text(value) => value.fmt(f),
        }
    }
}

impl From<&str> for StatsValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// Statistics of one frontend, listener, server or backend.
#[derive(Clone, Debug)]
pub struct StatsRow {
    /// The kind of object.
    pub kind: RowKind,
    /// The number of its proxy.
    pub proxy: u32,
    /// Its number in the proxy; 0 for the proxy itself.
    pub id: u32,
    values: Box<[Option<StatsValue>; Column::LEN]>,
}

impl StatsRow {
    /// A row with only the identity of the object.
    pub fn new(kind: RowKind, names: (&str, &str), numbers: (u32, u32)) -> Self {
        let values = Box::new([const { None }; Column::LEN]);
        let mut row = Self { kind, proxy: numbers.0, id: numbers.1, values };
        row.text(Column::pxname, names.0);
        row.text(Column::svname, names.1);
        row.small(Column::pid, 1);
        row.small(Column::iid, numbers.0);
        row.small(Column::sid, numbers.1);
        row.small(Column::r#type, kind.number());
        row
    }

    /// A value, if the row has it.
    pub fn get(&self, column: Column) -> Option<&StatsValue> {
        self.values[column as usize].as_ref()
    }

    /// A number; 0 if the row does not have it.
    pub fn number(&self, column: Column) -> u64 {
        match self.get(column) {
            Some(StatsValue::U32(value)) => u64::from(*value),
            Some(StatsValue::U64(value)) => *value,
            Some(StatsValue::S32(value)) => u64::try_from(*value).unwrap_or(0),
            _ => 0,
        }
    }

    /// A text; empty if the row does not have it.
    pub fn word(&self, column: Column) -> &str {
        match self.get(column) {
            Some(StatsValue::Text(text)) => text,
            _ => "",
        }
    }

    /// All values, in order.
    pub fn values(&self) -> impl Iterator<Item = (Column, &StatsValue)> {
        let columns = Column::ALL.iter().copied().zip(self.values.iter());
        columns.filter_map(|(column, value)| Some((column, value.as_ref()?)))
    }

    /// Sets a text.
    pub fn text(&mut self, column: Column, text: &str) {
        self.set(column, StatsValue::from(text));
    }

    /// Sets a number of 32 bits; larger values are clamped.
    pub fn small(&mut self, column: Column, value: impl TryInto<u32>) {
        self.set(column, StatsValue::U32(value.try_into().unwrap_or(u32::MAX)));
    }

    /// Sets a number of 64 bits.
    pub fn large(&mut self, column: Column, value: u64) {
        self.set(column, StatsValue::U64(value));
    }

    /// Sets a value.
    pub fn set(&mut self, column: Column, value: StatsValue) {
        self.values[column as usize] = Some(value);
    }
}
