//! Rows: what is told of a frontend, a listener, a server or a backend.

use super::columns::Column;
use super::kind::Kind;

/// A value, with the type that HAProxy gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A small number.
    U32(u32),
    /// A large one.
    U64(u64),
    /// One that may be negative.
    S32(i32),
    /// Text.
    Text(String),
}

impl Value {
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

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::U32(value) => value.fmt(f),
            Self::U64(value) => value.fmt(f),
            Self::S32(value) => value.fmt(f),
            Self::Text(value) => value.fmt(f),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// What is told of one frontend, listener, server or backend.
#[derive(Clone, Debug)]
pub struct Row {
    /// What it is.
    pub kind: Kind,
    /// The number of its proxy.
    pub proxy: u32,
    /// Its own in that proxy; 0 of the proxy itself.
    pub id: u32,
    values: Box<[Option<Value>; Column::LEN]>,
}

impl Row {
    /// Nothing but who it is.
    pub fn new(kind: Kind, names: (&str, &str), numbers: (u32, u32)) -> Self {
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

    /// A value, if there is one in this row.
    pub fn get(&self, column: Column) -> Option<&Value> {
        self.values[column as usize].as_ref()
    }

    /// A number; 0 if there is none.
    pub fn number(&self, column: Column) -> u64 {
        match self.get(column) {
            Some(Value::U32(value)) => u64::from(*value),
            Some(Value::U64(value)) => *value,
            Some(Value::S32(value)) => u64::try_from(*value).unwrap_or(0),
            _ => 0,
        }
    }

    /// Text; empty if there is none.
    pub fn word(&self, column: Column) -> &str {
        match self.get(column) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    /// All values that there are, in order.
    pub fn values(&self) -> impl Iterator<Item = (Column, &Value)> {
        let columns = Column::ALL.iter().copied().zip(self.values.iter());
        columns.filter_map(|(column, value)| Some((column, value.as_ref()?)))
    }

    /// Puts text in its place.
    pub fn text(&mut self, column: Column, text: &str) {
        self.set(column, Value::from(text));
    }

    /// Puts a number of 32 bits in its place; more is shown as the most.
    pub fn small(&mut self, column: Column, value: impl TryInto<u32>) {
        self.set(column, Value::U32(value.try_into().unwrap_or(u32::MAX)));
    }

    /// Puts a number of 64 bits in its place.
    pub fn large(&mut self, column: Column, value: u64) {
        self.set(column, Value::U64(value));
    }

    /// Puts a value in its place.
    pub fn set(&mut self, column: Column, value: Value) {
        self.values[column as usize] = Some(value);
    }
}
