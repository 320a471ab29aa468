//! A report in the making: figures are added by metric, case and side, in any order.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{BarLimit, Better, Figure, FigureRow, FigureTable, ScenarioReport, SideColumn, Whose};

/// What is measured; each metric has a table of its own.
#[derive(Clone, Debug)]
pub(crate) struct Metric {
    title: Cow<'static, str>,
    unit: &'static str,
    better: Better,
    row_name: &'static str,
    is_charted: bool,
}

/// A metric: the smaller figure is better.
pub(crate) const fn lower(title: &'static str, unit: &'static str) -> Metric {
    metric(title, unit, Better::Lower)
}

/// A metric: the larger figure is better.
pub(crate) const fn higher(title: &'static str, unit: &'static str) -> Metric {
    metric(title, unit, Better::Higher)
}

/// A metric that is not compared.
pub(crate) const fn neutral(title: &'static str, unit: &'static str) -> Metric {
    metric(title, unit, Better::Neither)
}

const fn metric(title: &'static str, unit: &'static str, better: Better) -> Metric {
    Metric { title: Cow::Borrowed(title), unit, better, row_name: "", is_charted: false }
}

impl Metric {
    /// The same, of a case that the title names.
    pub(crate) fn titled(&self, title: String) -> Self {
        Self { title: title.into(), ..self.clone() }
    }

    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    /// The same, per connection instead of per request.
    pub(crate) fn per(&self, unit: &str) -> Self {
        self.titled(self.title.replace("request", unit))
    }

    /// The same, drawn as a graph over its rows, whose names are numbers.
    pub(crate) const fn charted(mut self) -> Self {
        self.is_charted = true;
        self
    }

    /// The same, with rows of this kind.
    pub(crate) const fn rows(mut self, row_name: &'static str) -> Self {
        self.row_name = row_name;
        self
    }
}

/// The report of a scenario in the making.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    pub(crate) report: ScenarioReport,
    drafts: Vec<TableDraft>,
    /// Peers without figures, and why.
    absent: Vec<(String, String)>,
}

#[derive(Debug)]
struct TableDraft {
    metric: Metric,
    note: String,
    columns: Vec<SideColumn>,
    rows: Vec<DraftRow>,
    /// A row that a side lacks in a round counts as zero: calls by name.
    has_zeros: bool,
}

#[derive(Debug)]
struct DraftRow {
    name: String,
    limit: Option<BarLimit>,
    rounds: BTreeMap<String, Vec<f64>>,
}

impl Sheet {
    /// Adds the figure of a round; `fulmar` is fulmar's side, all others are peers'.
    pub(crate) fn add(&mut self, metric: &Metric, row: &str, side: &str, value: f64) {
        let whose = if side == FULMAR { Whose::Fulmar } else { Whose::Peer };
        self.add_to(metric, row, side, whose, value);
    }

    /// Adds a figure of the document.
    pub(crate) fn document(&mut self, metric: &Metric, row: &str, column: &str, value: f64) {
        self.add_to(metric, row, column, Whose::Document, value);
    }

    /// Adds a figure that is not compared.
    pub(crate) fn beside(&mut self, metric: &Metric, row: &str, column: &str, value: f64) {
        self.add_to(metric, row, column, Whose::Beside, value);
    }

    /// Adds the calls of a round by name.
    pub(crate) fn calls<'a>(
        &mut self,
        metric: &Metric,
        side: &str,
        calls: impl IntoIterator<Item = (&'a String, f64)>,
    ) {
        for (name, count) in calls {
            self.add(metric, name, side, count);
        }
        self.zeros(metric);
    }

    /// A row that a side lacks in a round counts as zero.
    pub(crate) fn zeros(&mut self, metric: &Metric) {
        self.draft(metric).has_zeros = true;
    }

    /// Sets the bar of a case.
    pub(crate) fn limit(&mut self, metric: &Metric, row: &str, limit: BarLimit) {
        self.draft(metric).row(row).limit = Some(limit);
    }

    /// Sets what has to be known to read the table of `metric`.
    pub(crate) fn note(&mut self, metric: &Metric, note: &str) {
        self.draft(metric).note = note.to_owned();
    }

    /// Adds a column to all tables for a peer that has no figures, and why.
    pub(crate) fn column(&mut self, peer: &str, why: &str) {
        self.absent.push((peer.to_owned(), why.to_owned()));
    }

    /// The median of a case so far.
    pub(crate) fn median(&mut self, metric: &Metric, row: &str, side: &str) -> Option<f64> {
        let rounds = self.draft(metric).row(row).rounds.get(side)?.clone();
        Figure::of(&rounds, "").value()
    }

    /// The report, without tables that have no figure of this run.
    pub(crate) fn finish(self) -> ScenarioReport {
        let Self { mut report, drafts, absent } = self;
        report.tables = drafts.into_iter().filter_map(|draft| draft.finish(&absent)).collect();
        report
    }

    fn add_to(&mut self, metric: &Metric, row: &str, column: &str, whose: Whose, value: f64) {
        let draft = self.draft(metric);
        if !draft.columns.iter().any(|known| known.name == column) {
            draft.columns.push(SideColumn { name: column.to_owned(), whose });
        }
        draft.row(row).rounds.entry(column.to_owned()).or_default().push(value);
    }

    fn draft(&mut self, metric: &Metric) -> &mut TableDraft {
        let known = self.drafts.iter().position(|draft| draft.metric.title == metric.title);
        let at = known.unwrap_or_else(|| {
            self.drafts.push(TableDraft {
                metric: metric.clone(),
                note: String::new(),
                columns: Vec::new(),
                rows: Vec::new(),
                has_zeros: false,
            });
            self.drafts.len() - 1
        });
        &mut self.drafts[at]
    }
}

impl TableDraft {
    fn row(&mut self, name: &str) -> &mut DraftRow {
        let known = self.rows.iter().position(|row| row.name == name);
        let at = known.unwrap_or_else(|| {
            let rounds = BTreeMap::new();
            self.rows.push(DraftRow { name: name.to_owned(), limit: None, rounds });
            self.rows.len() - 1
        });
        &mut self.rows[at]
    }

    fn finish(mut self, absent: &[(String, String)]) -> Option<FigureTable> {
        if self.columns.iter().all(|column| column.whose == Whose::Document) {
            return None;
        }
        for (at, (name, _)) in absent.iter().enumerate() {
            let (name, whose) = (name.clone(), Whose::Peer);
            self.columns.insert(at, SideColumn { name, whose });
        }
        self.columns.sort_by_key(|column| column.whose);
        if self.has_zeros {
            self.fill_zeros();
        }
        let figure = |row: &DraftRow, column: &SideColumn| {
            let rounds = row.rounds.get(&column.name).map_or(&[][..], |it| it);
            let why = absent.iter().find(|(name, _)| *name == column.name);
            match (column.whose, rounds.first()) {
                (Whose::Document, Some(value)) => Figure::exactly(*value),
                (Whose::Document, None) => Figure::of(&[], ""),
                _ => Figure::of(rounds, why.map_or("not measured", |(_, why)| why)),
            }
        };
        let rows = self.rows.iter().map(|row| FigureRow {
            name: row.name.clone(),
            cells: self.columns.iter().map(|column| figure(row, column)).collect(),
            limit: row.limit.clone(),
        });
        Some(FigureTable {
            title: self.metric.title.clone().into_owned(),
            note: self.note.clone(),
            unit: self.metric.unit.to_owned(),
            row_name: self.metric.row_name.to_owned(),
            better: self.metric.better,
            is_charted: self.metric.is_charted,
            rows: rows.collect(),
            columns: self.columns,
        })
    }

    fn fill_zeros(&mut self) {
        for column in &self.columns {
            let count = |row: &DraftRow| row.rounds.get(&column.name).map_or(0, Vec::len);
            let rounds = self.rows.iter().map(count).max().unwrap_or(0);
            for row in &mut self.rows {
                row.rounds.entry(column.name.clone()).or_default().resize(rounds, 0.0);
            }
        }
        let is_zero = |row: &DraftRow| row.rounds.values().flatten().all(|count| *count == 0.0);
        self.rows.retain(|row| !is_zero(row));
    }
}

/// The name of fulmar's side.
pub(crate) const FULMAR: &str = "fulmar";
