//! The absolute budgets of `bench/budgets.toml`.

/// A budget: its table and its name.
///
/// # Panics
/// The file has no such number.
pub fn budget(table: &str, name: &str) -> u64 {
    let budgets: toml::Table = TEXT.parse().expect("bench/budgets.toml is valid TOML");
    let value = budgets.get(table).and_then(|table| table.get(name));
    let value = value.and_then(toml::Value::as_integer);
    let value = value.unwrap_or_else(|| panic!("bench/budgets.toml has no {table}.{name}"));
    u64::try_from(value).expect("a budget is not negative")
}

const TEXT: &str = include_str!("../bench/budgets.toml");
