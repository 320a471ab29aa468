//! The report: tables of figures, and how they were measured.
//!
//! A report is plain data. Its JSON form is stable within a version; a report that was written can
//! be read again and shown without measuring anything.

mod chart;
mod html;
mod limit;
mod markdown;
mod numbers;
mod sheet;
mod verdict;

#[cfg(test)]
mod tests;

use serde::de::Error as _;
use serde::{Deserialize, Serialize};

pub(crate) use html::html;
pub(crate) use limit::BarLimit;
pub(crate) use markdown::markdown;
pub(crate) use numbers::grouped;
use verdict::LeadVerdict;

pub(crate) use sheet::{FULMAR, Metric, Sheet, higher, lower, neutral};

/// The scenarios of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct BenchReport {
    /// The version of this form.
    pub(crate) version: u32,
    /// The machine and the programs.
    pub(crate) machine: MachineFacts,
    /// In the order of the run.
    pub(crate) experiments: Vec<ScenarioReport>,
}

/// The machine and the versions of the programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MachineFacts {
    pub(crate) facts: Vec<MachineFact>,
}

/// A name and a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MachineFact {
    pub(crate) name: String,
    pub(crate) value: String,
}

/// The results of one scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ScenarioReport {
    /// As on the command line.
    pub(crate) name: String,
    /// One line.
    pub(crate) title: String,
    /// The document with the repeated measurement; empty if there is none.
    pub(crate) source: String,
    /// The method, a paragraph each.
    pub(crate) about: Vec<String>,
    pub(crate) tables: Vec<FigureTable>,
    /// Results that are not figures.
    #[serde(default)]
    pub(crate) listings: Vec<Listing>,
    /// What was not measured, and how to enable it.
    pub(crate) missing: Vec<String>,
    /// Why it ended early, if it did; the tables hold the figures up to then.
    pub(crate) failure: Option<String>,
    /// The command lines of all sides; `DIR` is the directory of the run.
    pub(crate) commands: Vec<String>,
}

/// A result of each side that is not a figure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listing {
    pub(crate) title: String,
    /// Sides and their results.
    pub(crate) rows: Vec<MachineFact>,
}

/// Figures of one metric: a row for each case, a column for each side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FigureTable {
    pub(crate) title: String,
    pub(crate) note: String,
    pub(crate) unit: String,
    /// What the rows are.
    pub(crate) row_name: String,
    pub(crate) better: Better,
    /// It is also drawn as a graph over its rows, whose names are numbers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_charted: bool,
    pub(crate) columns: Vec<SideColumn>,
    pub(crate) rows: Vec<FigureRow>,
}

/// Which of two figures is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    Lower,
    Higher,
    /// They are not compared.
    Neither,
}

/// The figures of one side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SideColumn {
    pub(crate) name: String,
    pub(crate) whose: Whose,
}

/// Which side a column belongs to, in the order of the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Whose {
    /// A figure of the document: another machine, another year. Never compared.
    Document,
    /// A peer's, measured here.
    Peer,
    /// fulmar's, measured here.
    Fulmar,
    /// Shown for information. Never compared.
    Beside,
}

/// The figures of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FigureRow {
    pub(crate) name: String,
    /// One for each column.
    pub(crate) cells: Vec<Figure>,
    /// The bar that it is held against.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<BarLimit>,
}

/// A figure, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Figure {
    Value {
        /// The median of the rounds.
        value: f64,
        low: f64,
        high: f64,
        /// In their order; empty for a figure that was not measured in rounds.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rounds: Vec<f64>,
    },
    Absent {
        /// Why; empty where none is expected.
        absent: String,
    },
}

impl BenchReport {
    /// As JSON, for [`BenchReport::from_json`].
    pub(crate) fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("its maps have strings as keys") + "\n"
    }

    /// Reads what [`BenchReport::json`] wrote.
    pub(crate) fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        let report: Self = serde_json::from_str(text)?;
        if report.version != VERSION {
            let version = report.version;
            let why = format!("report version {version}; this program reads version {VERSION}");
            return Err(serde_json::Error::custom(why));
        }
        for table in report.experiments.iter().flat_map(|scenario| &scenario.tables) {
            let count = table.columns.len();
            if let Some(row) = table.rows.iter().find(|row| row.cells.len() != count) {
                let (title, cells) = (&table.title, row.cells.len());
                let why = format!("{title}: {}: {cells} cells for {count} columns", row.name);
                return Err(serde_json::Error::custom(why));
            }
        }
        Ok(report)
    }

    /// True if every scenario ended well and every limit is met.
    pub(crate) fn is_good(&self) -> bool {
        self.experiments.iter().all(|scenario| {
            let mut rows = scenario
                .tables
                .iter()
                .flat_map(|table| table.rows.iter().map(|row| table.is_met(row)));
            scenario.failure.is_none() && rows.all(|met| met != Some(false))
        })
    }
}

impl ScenarioReport {
    /// Adds a command line, each once.
    pub(crate) fn command(&mut self, line: &str) {
        if !line.is_empty() && !self.commands.iter().any(|known| known == line) {
            self.commands.push(line.to_owned());
        }
    }

    /// Adds what was not measured, each once.
    pub(crate) fn miss(&mut self, what: String) {
        if !self.missing.contains(&what) {
            self.missing.push(what);
        }
    }
}

impl FigureTable {
    /// The name of a row for a line without a table head: `51 connections`.
    fn full_name(&self, row: &FigureRow) -> String {
        match row.name.starts_with(|c: char| c.is_ascii_digit()) {
            true => format!("{} {}", row.name, self.row_name),
            false => row.name.clone(),
        }
    }
}

impl Figure {
    /// The median, least and most of all rounds; `why` there is none if there are no rounds.
    pub(crate) fn of(rounds: &[f64], why: &str) -> Self {
        let rounds: Vec<f64> = rounds.iter().copied().filter(|it| it.is_finite()).collect();
        let mut sorted = rounds.clone();
        sorted.sort_by(f64::total_cmp);
        let (Some(&low), Some(&high)) = (sorted.first(), sorted.last()) else {
            return Self::Absent { absent: why.to_owned() };
        };
        let middle = sorted.len() / 2;
        let value = match sorted.len() % 2 {
            1 => sorted[middle],
            _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
        };
        Self::Value { value, low, high, rounds }
    }

    /// A figure without rounds.
    pub(crate) fn exactly(value: f64) -> Self {
        Self::Value { value, low: value, high: value, rounds: Vec::new() }
    }

    /// The median.
    pub(crate) fn value(&self) -> Option<f64> {
        match self {
            Self::Value { value, .. } => Some(*value),
            Self::Absent { .. } => None,
        }
    }
}

/// The version of this form.
pub(crate) const VERSION: u32 = 2;
