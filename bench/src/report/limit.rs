//! Bars: the limit that a figure of fulmar, or its ratio to a peer's, has to keep.

use serde::{Deserialize, Serialize};

use super::numbers::figure;
use super::{FigureRow, FigureTable, Whose};

/// The limit of a figure, or of its ratio to a peer's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct BarLimit {
    low: Option<f64>,
    high: Option<f64>,
    /// The limit is of the ratio to this peer; an empty name is the best peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ratio_to: Option<String>,
}

impl BarLimit {
    pub(crate) fn at_most(high: f64) -> Self {
        Self { high: Some(high), ..Self::default() }
    }

    pub(crate) fn at_least(low: f64) -> Self {
        Self { low: Some(low), ..Self::default() }
    }

    pub(crate) fn between(low: f64, high: f64) -> Self {
        Self { low: Some(low), high: Some(high), ratio_to: None }
    }

    /// Of the ratio to the best peer.
    pub(crate) fn at_most_times(high: f64) -> Self {
        Self { ratio_to: Some(String::new()), ..Self::at_most(high) }
    }

    /// Of the ratio to the best peer.
    pub(crate) fn at_least_times(low: f64) -> Self {
        Self { ratio_to: Some(String::new()), ..Self::at_least(low) }
    }

    /// Of the ratio to this peer instead of the best one.
    pub(crate) fn to(self, peer: &str) -> Self {
        Self { ratio_to: Some(peer.to_owned()), ..self }
    }

    /// `at most 1.05x`.
    fn text(&self) -> String {
        let sign = if self.ratio_to.is_some() { "x" } else { "" };
        match (self.low, self.high) {
            (Some(low), Some(high)) => format!("{} to {}{sign}", figure(low), figure(high)),
            (Some(low), None) => format!("at least {}{sign}", figure(low)),
            (None, Some(high)) => format!("at most {}{sign}", figure(high)),
            (None, None) => String::new(),
        }
    }
}

impl FigureTable {
    /// Whether the limit of `row` is met; `None` if it has none, or a figure is missing.
    pub(crate) fn is_met(&self, row: &FigureRow) -> Option<bool> {
        let limit = row.limit.as_ref()?;
        let mut value = self.best(row, Whose::Fulmar)?.1;
        if let Some(peer) = &limit.ratio_to {
            let theirs = match peer.is_empty() {
                true => self.best(row, Whose::Peer)?.1,
                false => {
                    let at = self.columns.iter().position(|column| column.name == *peer)?;
                    row.cells[at].value()?
                }
            };
            value /= theirs;
        }
        Some(limit.low.is_none_or(|low| low <= value) && limit.high.is_none_or(|it| value <= it))
    }

    /// `at most 1.05x: met`; empty without a limit.
    pub(super) fn limit_text(&self, row: &FigureRow) -> String {
        let Some(limit) = &row.limit else { return String::new() };
        match self.is_met(row) {
            Some(true) => format!("{}: met", limit.text()),
            Some(false) => format!("{}: NOT MET", limit.text()),
            None => limit.text(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Better, Figure, SideColumn};
    use super::*;

    #[test]
    fn limits_hold_of_values_and_of_ratios_to_peers() {
        let column = |name: &str, whose| SideColumn { name: name.to_owned(), whose };
        let sides = [("a", Whose::Peer), ("b", Whose::Peer), ("fulmar", Whose::Fulmar)];
        let table = FigureTable {
            title: String::new(),
            note: String::new(),
            unit: String::new(),
            row_name: String::new(),
            better: Better::Lower,
            is_charted: false,
            columns: sides.map(|(name, whose)| column(name, whose)).into(),
            rows: Vec::new(),
        };
        let row = |limit| FigureRow {
            name: String::new(),
            cells: [4.0, 8.0, 5.0].map(Figure::exactly).into(),
            limit,
        };
        for (limit, met, text) in [
            (BarLimit::at_most(5.0), true, "at most 5.0: met"),
            (BarLimit::at_least(6.0), false, "at least 6.0: NOT MET"),
            (BarLimit::between(4.0, 4.5), false, "4.0 to 4.5: NOT MET"),
            (BarLimit::at_most_times(1.2), false, "at most 1.20x: NOT MET"),
            (BarLimit::at_most_times(0.7).to("b"), true, "at most 0.70x: met"),
            (BarLimit::at_least_times(1.25), true, "at least 1.25x: met"),
        ] {
            let row = row(Some(limit));
            assert_eq!((table.is_met(&row), &table.limit_text(&row)[..]), (Some(met), text));
        }
        let missing = row(Some(BarLimit::at_most_times(1.0).to("c")));
        assert_eq!(table.is_met(&missing), None);
        assert_eq!(table.is_met(&row(None)), None);
    }
}
