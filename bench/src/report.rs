//! What experiments brought: tables, plots, and how they came about.
//!
//! A report is plain data. Its JSON form is stable: fields are added, never renamed or removed; a
//! report that was written is read again, and shown as text or HTML without measuring anything.

mod html;
mod numbers;
mod svg;
mod text;
mod verdict;

#[cfg(test)]
mod tests;

use serde::de::Error as _;
use serde::{Deserialize, Serialize};

pub(crate) use html::html;
pub(crate) use text::text;
pub(crate) use verdict::Verdict;

/// Experiments of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Of this form: 1.
    pub(crate) version: u32,
    /// Where it ran.
    pub(crate) machine: Machine,
    /// In the order of their run.
    pub(crate) experiments: Vec<Outcome>,
}

/// What the figures were measured on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// Names and values, in the order to be shown in.
    pub(crate) facts: Vec<Fact>,
}

/// A name and a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fact {
    /// What it is.
    pub(crate) name: String,
    /// What was found.
    pub(crate) value: String,
}

/// What one experiment brought.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// As on the command line.
    pub(crate) name: String,
    /// One line.
    pub(crate) title: String,
    /// The document whose table it makes again, with its year.
    pub(crate) source: String,
    /// What is done, and how: a paragraph each.
    pub(crate) about: Vec<String>,
    /// The figures.
    pub(crate) tables: Vec<Table>,
    /// What is no figure.
    #[serde(default)]
    pub(crate) listings: Vec<Listing>,
    /// What could not be measured here, and what to do about it.
    pub(crate) missing: Vec<String>,
    /// Why it ended early, if it did: what stands here is what it had by then.
    pub(crate) failure: Option<String>,
    /// The command lines of what took part; `DIR` is a directory that only lived for the run.
    pub(crate) commands: Vec<String>,
}

/// Something of each side that is no figure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listing {
    /// What it shows.
    pub(crate) title: String,
    /// What has to be known to read it; may be empty.
    pub(crate) note: String,
    /// Sides, and what is told of each.
    pub(crate) rows: Vec<Fact>,
}

/// Figures that are compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Table {
    /// What it shows.
    pub(crate) title: String,
    /// What has to be known to read it; may be empty.
    pub(crate) note: String,
    /// Of all figures.
    pub(crate) unit: String,
    /// What the rows are.
    pub(crate) row_name: String,
    /// Which of two figures is the better one.
    pub(crate) better: Better,
    /// From left to right.
    pub(crate) columns: Vec<Column>,
    /// From top to bottom.
    pub(crate) rows: Vec<Row>,
    /// How it is drawn, if it is.
    pub(crate) plot: Option<Plot>,
}

/// Which of two figures is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    /// The smaller.
    Lower,
    /// The larger.
    Higher,
    /// Neither: they are told, not compared.
    Neither,
}

/// Whose figures stand in a column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Column {
    /// For people.
    pub(crate) name: String,
    /// On which side it is.
    pub(crate) whose: Whose,
}

/// On which side a column is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Whose {
    /// fulmar's, measured here.
    Fulmar,
    /// A peer's, measured here.
    Peer,
    /// A figure of the document: another machine, another year. Never compared.
    Document,
    /// Something told beside the others. Never compared.
    Beside,
}

/// Figures of the same work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// What was done.
    pub(crate) name: String,
    /// Where it stands on a plot's axis, if it has one.
    pub(crate) at: Option<f64>,
    /// One for each column.
    pub(crate) cells: Vec<Cell>,
}

/// A figure, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Cell {
    /// A median, and the least and most of all rounds.
    Value {
        /// The median.
        value: f64,
        /// The least.
        low: f64,
        /// The most.
        high: f64,
        /// Each round's, in their order; empty for what was not measured in rounds.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rounds: Vec<f64>,
    },
    /// No figure.
    Absent {
        /// Why; empty where none is expected.
        absent: String,
    },
}

/// How a table is drawn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Plot {
    /// A line for each column over where the rows stand, both axes logarithmic.
    Lines {
        /// The horizontal axis.
        axis: String,
    },
    /// A bar for each column, made of its rows.
    Stacks,
    /// A group of bars for each row.
    Bars,
}

impl Report {
    /// As JSON, for machines and for [`Report::from_json`].
    pub(crate) fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("its maps have strings as keys") + "\n"
    }

    /// What [`Report::json`] wrote.
    ///
    /// # Errors
    /// It is something else, and where.
    pub(crate) fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        let report: Self = serde_json::from_str(text)?;
        if report.version != VERSION {
            let version = report.version;
            let why = format!("a report of version {version}; this fulmar reads version {VERSION}");
            return Err(serde_json::Error::custom(why));
        }
        for table in report.experiments.iter().flat_map(|outcome| &outcome.tables) {
            let count = table.columns.len();
            if let Some(row) = table.rows.iter().find(|row| row.cells.len() != count) {
                return Err(serde_json::Error::custom(format!(
                    "{}: {}: {} cells for {count} columns",
                    table.title,
                    row.name,
                    row.cells.len()
                )));
            }
        }
        Ok(report)
    }
}

impl Outcome {
    /// A command line that took part; each is told once.
    pub(crate) fn command(&mut self, line: &str) {
        if !line.is_empty() && !self.commands.iter().any(|known| known == line) {
            self.commands.push(line.to_owned());
        }
    }

    /// Something that is missing; each is told once.
    pub(crate) fn miss(&mut self, what: String) {
        if !self.missing.contains(&what) {
            self.missing.push(what);
        }
    }
}

impl Table {
    /// A row's name where no head of a column says what it is: `51 connections`.
    pub(crate) fn place(&self, row: &Row) -> String {
        match row.at {
            Some(_) => format!("{} {}", row.name, self.row_name),
            None => row.name.clone(),
        }
    }

    /// Calls that nobody makes, or only now and then, are of no interest.
    pub(crate) fn drop_rows_of_nothing(&mut self) {
        self.rows
            .retain(|row| row.cells.iter().any(|cell| cell.value().is_some_and(|it| it > 0.0)));
    }

    /// True if a figure in it is of this run: those of documents alone say nothing.
    pub(crate) fn has_measured(&self) -> bool {
        let is_new = |(column, cell): (&Column, &Cell)| {
            column.whose != Whose::Document && cell.value().is_some()
        };
        self.rows.iter().any(|row| self.columns.iter().zip(&row.cells).any(is_new))
    }
}

impl Cell {
    /// Of the figures of all rounds; without any, `why` there is none.
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

    /// A figure that is what it is.
    pub(crate) fn exactly(value: f64) -> Self {
        Self::Value { value, low: value, high: value, rounds: Vec::new() }
    }

    /// No figure, and none is expected.
    pub(crate) fn none() -> Self {
        Self::Absent { absent: String::new() }
    }

    /// The figure.
    pub(crate) fn value(&self) -> Option<f64> {
        match self {
            Self::Value { value, .. } => Some(*value),
            Self::Absent { .. } => None,
        }
    }
}

impl Column {
    /// Of fulmar, measured.
    pub(crate) fn fulmar(name: &str) -> Self {
        Self { name: name.to_owned(), whose: Whose::Fulmar }
    }

    /// Of a peer, measured.
    pub(crate) fn peer(name: &str) -> Self {
        Self { name: name.to_owned(), whose: Whose::Peer }
    }

    /// Of the document.
    pub(crate) fn document(name: &str) -> Self {
        Self { name: name.to_owned(), whose: Whose::Document }
    }
}

/// Of a report's form.
pub(crate) const VERSION: u32 = 1;

/// A whole number with commas between thousands.
pub(crate) fn grouped(number: u32) -> String {
    numbers::count(f64::from(number))
}
