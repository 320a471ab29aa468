//! Whether fulmar is ahead of its peers.

use super::{Better, Figure, FigureRow, FigureTable, ScenarioReport, Whose};

/// Whether fulmar is ahead in a row of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LeadVerdict {
    /// Nothing to compare: a figure is missing, or the metric is not compared.
    Open,
    /// fulmar is ahead of every peer, in every round; the best peer, and the ratio, at least 1.
    Ahead(String, f64),
    /// It is within 2 % of the best peer.
    Level(String),
    /// Its median is ahead of the best peer's, but its worst round is not ahead of all best rounds.
    Unclear(String),
    /// This peer is ahead, by this ratio.
    Behind(String, f64),
}

impl LeadVerdict {
    /// True if fulmar is not ahead.
    pub(crate) fn is_not_ahead(&self) -> bool {
        matches!(self, Self::Level(_) | Self::Unclear(_) | Self::Behind(..))
    }

    /// For the report; empty if nothing is compared.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Open => String::new(),
            Self::Ahead(peer, times) if times.is_finite() => {
                format!("ahead of {peer}: {}x", super::numbers::figure(*times))
            }
            Self::Ahead(peer, _) => format!("ahead of {peer}: none at all"),
            Self::Level(peer) => format!("level with {peer}"),
            Self::Unclear(peer) => format!("level with {peer}: rounds overlap"),
            Self::Behind(peer, times) if times.is_finite() => {
                format!("behind {peer}: {}x", super::numbers::figure(*times))
            }
            Self::Behind(peer, _) => format!("behind {peer}, which makes none"),
        }
    }
}

impl FigureTable {
    /// Whether fulmar is ahead in `row`: the best of its columns against the best peer's.
    pub(crate) fn verdict(&self, row: &FigureRow) -> LeadVerdict {
        let (Some((_, ours)), Some((peer, theirs))) =
            (self.best(row, Whose::Fulmar), self.best(row, Whose::Peer))
        else {
            return LeadVerdict::Open;
        };
        if self.better == Better::Neither {
            return LeadVerdict::Open;
        }
        let (good, bad) = match self.better {
            Better::Lower | Better::Neither => (ours, theirs),
            Better::Higher => (theirs, ours),
        };
        if (good - bad).abs() <= LEVEL * good.abs().max(bad.abs()) {
            return if good == 0.0 {
                LeadVerdict::Open
            } else {
                LeadVerdict::Level(peer.to_owned())
            };
        }
        match good < bad {
            true if self.overlaps(row) => LeadVerdict::Unclear(peer.to_owned()),
            true => LeadVerdict::Ahead(peer.to_owned(), bad / good),
            false => LeadVerdict::Behind(peer.to_owned(), good / bad),
        }
    }

    /// The best median of a side, and its column; the first one if the metric is not compared.
    pub(super) fn best(&self, row: &FigureRow, whose: Whose) -> Option<(&str, f64)> {
        let cells = self.columns.iter().zip(&row.cells).filter(|(it, _)| it.whose == whose);
        let mut figures =
            cells.filter_map(|(column, cell)| Some((column.name.as_str(), cell.value()?)));
        match self.better {
            Better::Lower => figures.min_by(|(_, a), (_, b)| a.total_cmp(b)),
            Better::Higher => figures.max_by(|(_, a), (_, b)| a.total_cmp(b)),
            Better::Neither => figures.next(),
        }
    }

    /// True if a round of some peer was as good as one of fulmar's.
    fn overlaps(&self, row: &FigureRow) -> bool {
        let ranges = |whose: Whose| {
            let cells =
                self.columns.iter().zip(&row.cells).filter(move |(it, _)| it.whose == whose);
            cells.filter_map(|(_, cell)| match *cell {
                Figure::Value { low, high, .. } => Some((low, high)),
                Figure::Absent { .. } => None,
            })
        };
        let (ours, mut theirs) = (ranges(Whose::Fulmar), ranges(Whose::Peer));
        let (low, high) = ours.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), range| {
            (f64::min(low, range.0), f64::max(high, range.1))
        });
        theirs.any(|(least, most)| match self.better {
            Better::Lower => least <= high,
            Better::Higher => most >= low,
            Better::Neither => false,
        })
    }
}

impl ScenarioReport {
    /// Rows in which fulmar is ahead, of all that compare.
    pub(crate) fn score(&self) -> (usize, usize) {
        let verdicts =
            self.tables.iter().flat_map(|table| table.rows.iter().map(|row| table.verdict(row)));
        verdicts.fold((0, 0), |(ahead, all), verdict| match verdict {
            LeadVerdict::Open => (ahead, all),
            LeadVerdict::Ahead(..) => (ahead + 1, all + 1),
            _ => (ahead, all + 1),
        })
    }

    /// Tables with rows in which fulmar is not ahead: their number, and those rows.
    pub(super) fn behind(
        &self,
    ) -> impl Iterator<Item = (usize, &FigureTable, Vec<(String, LeadVerdict)>)> {
        let tables = self.tables.iter().enumerate();
        let rows = tables.map(|(number, table)| {
            let rows = table.rows.iter().map(|row| (table.full_name(row), table.verdict(row)));
            (number, table, rows.filter(|(_, it)| it.is_not_ahead()).collect::<Vec<_>>())
        });
        rows.filter(|(_, _, rows)| !rows.is_empty())
    }
}

/// Smaller differences are noise: two runs of one program differ by as much.
const LEVEL: f64 = 0.02;

#[cfg(test)]
mod tests {
    use super::super::SideColumn;
    use super::*;

    fn column(name: &str, whose: Whose) -> SideColumn {
        SideColumn { name: name.to_owned(), whose }
    }

    fn table(better: Better, fulmar: Figure, peers: Vec<Figure>) -> FigureTable {
        let mut columns = vec![column("then", Whose::Document), column("fulmar", Whose::Fulmar)];
        let mut cells = vec![Figure::exactly(0.1), fulmar];
        for (number, cell) in peers.into_iter().enumerate() {
            columns.push(column(&format!("p{number}"), Whose::Peer));
            cells.push(cell);
        }
        FigureTable {
            title: String::new(),
            note: String::new(),
            unit: String::new(),
            row_name: String::new(),
            better,
            is_charted: false,
            columns,
            rows: vec![FigureRow { name: "r".into(), cells, limit: None }],
        }
    }

    fn verdict(better: Better, fulmar: f64, peers: &[f64]) -> LeadVerdict {
        let peers = peers.iter().map(|value| Figure::exactly(*value)).collect();
        let table = table(better, Figure::exactly(fulmar), peers);
        table.verdict(&table.rows[0])
    }

    fn ahead(times: f64) -> LeadVerdict {
        LeadVerdict::Ahead("p1".into(), times)
    }

    #[test]
    fn fulmar_is_compared_with_the_best_peer_but_not_with_the_document() {
        assert_eq!(verdict(Better::Lower, 2.0, &[9.0, 4.0]), ahead(2.0));
        assert_eq!(verdict(Better::Lower, 8.0, &[9.0, 4.0]), LeadVerdict::Behind("p1".into(), 2.0));
        assert_eq!(
            verdict(Better::Higher, 8.0, &[9.0, 4.0]),
            LeadVerdict::Behind("p0".into(), 1.125)
        );
        assert_eq!(verdict(Better::Lower, 100.0, &[101.0]), LeadVerdict::Level("p0".into()));
        assert_eq!(verdict(Better::Lower, 0.0, &[5.0, 3.0]), ahead(f64::INFINITY));
        assert_eq!(verdict(Better::Lower, 0.0, &[0.0]), LeadVerdict::Open);
        assert_eq!(verdict(Better::Lower, 1.0, &[]), LeadVerdict::Open);
        assert_eq!(verdict(Better::Neither, 1.0, &[2.0]), LeadVerdict::Open);
    }

    #[test]
    fn a_lead_has_to_hold_in_every_round() {
        let verdict = |better, fulmar: [f64; 3], peers: [[f64; 3]; 2]| {
            let peers = peers.iter().map(|rounds| Figure::of(rounds, "")).collect();
            let table = table(better, Figure::of(&fulmar, ""), peers);
            table.verdict(&table.rows[0])
        };
        let ours = [2.0, 3.0, 4.0];
        assert_eq!(verdict(Better::Lower, ours, [[9.0; 3], [4.1, 6.0, 7.0]]), ahead(2.0));
        let unclear = |peer: &str| LeadVerdict::Unclear(peer.into());
        assert_eq!(verdict(Better::Lower, ours, [[9.0; 3], [3.9, 6.0, 7.0]]), unclear("p1"));
        // Also if another peer than the best one overlaps.
        assert_eq!(verdict(Better::Lower, ours, [[1.0, 9.0, 9.0], [5.0; 3]]), unclear("p1"));
        assert_eq!(verdict(Better::Higher, ours, [[1.0; 3], [1.0, 2.0, 2.5]]), unclear("p1"));
        assert_eq!(verdict(Better::Higher, ours, [[1.0; 3], [1.0, 1.5, 1.9]]), ahead(2.0));
        // Behind is decided by the medians.
        let behind = verdict(Better::Lower, ours, [[9.0; 3], [2.0, 2.0, 9.0]]);
        assert_eq!(behind, LeadVerdict::Behind("p1".into(), 1.5));
    }

    #[test]
    fn rows_without_a_lead_are_reported() {
        assert!(verdict(Better::Lower, 8.0, &[4.0]).is_not_ahead());
        assert!(verdict(Better::Lower, 4.0, &[4.0]).is_not_ahead());
        assert!(LeadVerdict::Unclear("p0".into()).is_not_ahead());
        assert!(!verdict(Better::Lower, 3.0, &[4.0]).is_not_ahead());
        assert_eq!(verdict(Better::Lower, 3.0, &[4.0]).text(), "ahead of p0: 1.33x");
        assert_eq!(verdict(Better::Lower, 8.0, &[4.0]).text(), "behind p0: 2.0x");
    }
}
