//! Whether fulmar is ahead.

use super::{Better, Cell, Outcome, Row, Table, Whose};

/// Whether fulmar is ahead in a row of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// Nothing to compare: no figure of fulmar's or of any peer's, or none is better.
    Open,
    /// fulmar is ahead of every peer, in every round; the best of them, and its figure by fulmar's, at
    /// least 1.
    Ahead(String, f64),
    /// It is within 2 % of the best peer.
    Level(String),
    /// Its median is ahead of the best peer's, but not its worst round of everybody's best.
    Unclear(String),
    /// This peer is ahead, so many times.
    Behind(String, f64),
}

impl Verdict {
    /// True if fulmar is not ahead: what a report has to say.
    pub(crate) fn is_not_ahead(&self) -> bool {
        matches!(self, Self::Level(_) | Self::Unclear(_) | Self::Behind(..))
    }

    /// For people; empty if there is nothing to say.
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

impl Table {
    /// Whether fulmar is ahead in `row`: the best of its columns against the best peer's.
    pub(crate) fn verdict(&self, row: &Row) -> Verdict {
        let (Some((_, ours)), Some((peer, theirs))) =
            (self.best(row, Whose::Fulmar), self.best(row, Whose::Peer))
        else {
            return Verdict::Open;
        };
        let (good, bad) = match self.better {
            Better::Lower | Better::Neither => (ours, theirs),
            Better::Higher => (theirs, ours),
        };
        if (good - bad).abs() <= LEVEL * good.abs().max(bad.abs()) {
            return if good == 0.0 { Verdict::Open } else { Verdict::Level(peer.to_owned()) };
        }
        match good < bad {
            true if self.overlaps(row) => Verdict::Unclear(peer.to_owned()),
            true => Verdict::Ahead(peer.to_owned(), bad / good),
            false => Verdict::Behind(peer.to_owned(), good / bad),
        }
    }

    /// The best median of a side, and whose it is; `None` if nothing is better.
    fn best(&self, row: &Row, whose: Whose) -> Option<(&str, f64)> {
        let cells = self.columns.iter().zip(&row.cells).filter(|(it, _)| it.whose == whose);
        let figures =
            cells.filter_map(|(column, cell)| Some((column.name.as_str(), cell.value()?)));
        match self.better {
            Better::Lower => figures.min_by(|(_, a), (_, b)| a.total_cmp(b)),
            Better::Higher => figures.max_by(|(_, a), (_, b)| a.total_cmp(b)),
            Better::Neither => None,
        }
    }

    /// True if a round of some peer was as good as one of fulmar's.
    fn overlaps(&self, row: &Row) -> bool {
        let ranges = |whose: Whose| {
            let cells =
                self.columns.iter().zip(&row.cells).filter(move |(it, _)| it.whose == whose);
            cells.filter_map(|(_, cell)| match *cell {
                Cell::Value { low, high, .. } => Some((low, high)),
                Cell::Absent { .. } => None,
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

impl Outcome {
    /// Rows in which fulmar is ahead, of all that compare.
    pub(crate) fn score(&self) -> (usize, usize) {
        let verdicts =
            self.tables.iter().flat_map(|table| table.rows.iter().map(|row| table.verdict(row)));
        verdicts.fold((0, 0), |(ahead, all), verdict| match verdict {
            Verdict::Open => (ahead, all),
            Verdict::Ahead(..) => (ahead + 1, all + 1),
            _ => (ahead, all + 1),
        })
    }

    /// Tables with rows in which fulmar is not ahead: their number, and those rows.
    pub(super) fn laggards(&self) -> impl Iterator<Item = (usize, &Table, Vec<(String, Verdict)>)> {
        let tables = self.tables.iter().enumerate();
        let rows = tables.map(|(number, table)| {
            let rows = table.rows.iter().map(|row| (table.place(row), table.verdict(row)));
            (number, table, rows.filter(|(_, it)| it.is_not_ahead()).collect::<Vec<_>>())
        });
        rows.filter(|(_, _, rows)| !rows.is_empty())
    }
}

/// Figures that differ by less are the same: two runs of one program differ by as much.
const LEVEL: f64 = 0.02;

#[cfg(test)]
mod tests {
    use super::super::Column;
    use super::*;

    fn table(better: Better, fulmar: Cell, peers: Vec<Cell>) -> Table {
        let mut columns = vec![Column::document("then"), Column::fulmar("fulmar")];
        let mut cells = vec![Cell::exactly(0.1), fulmar];
        for (number, cell) in peers.into_iter().enumerate() {
            columns.push(Column::peer(&format!("p{number}")));
            cells.push(cell);
        }
        Table {
            title: String::new(),
            note: String::new(),
            unit: String::new(),
            row_name: String::new(),
            better,
            columns,
            rows: vec![Row { name: "r".into(), at: None, cells }],
            plot: None,
        }
    }

    fn verdict(better: Better, fulmar: f64, peers: &[f64]) -> Verdict {
        let peers = peers.iter().map(|value| Cell::exactly(*value)).collect();
        let table = table(better, Cell::exactly(fulmar), peers);
        table.verdict(&table.rows[0])
    }

    fn ahead(times: f64) -> Verdict {
        Verdict::Ahead("p1".into(), times)
    }

    #[test]
    fn the_best_peer_counts_and_the_document_does_not() {
        assert_eq!(verdict(Better::Lower, 2.0, &[9.0, 4.0]), ahead(2.0));
        assert_eq!(verdict(Better::Lower, 8.0, &[9.0, 4.0]), Verdict::Behind("p1".into(), 2.0));
        assert_eq!(verdict(Better::Higher, 8.0, &[9.0, 4.0]), Verdict::Behind("p0".into(), 1.125));
        assert_eq!(verdict(Better::Lower, 100.0, &[101.0]), Verdict::Level("p0".into()));
        assert_eq!(verdict(Better::Lower, 0.0, &[5.0, 3.0]), ahead(f64::INFINITY));
        assert_eq!(verdict(Better::Lower, 0.0, &[0.0]), Verdict::Open);
        assert_eq!(verdict(Better::Lower, 1.0, &[]), Verdict::Open);
        assert_eq!(verdict(Better::Neither, 1.0, &[2.0]), Verdict::Open);
    }

    #[test]
    fn who_is_not_ahead_in_every_round_is_not_ahead() {
        let told = |better, fulmar: [f64; 3], peers: [[f64; 3]; 2]| {
            let peers = peers.iter().map(|rounds| Cell::of(rounds, "")).collect();
            let table = table(better, Cell::of(&fulmar, ""), peers);
            table.verdict(&table.rows[0])
        };
        let ours = [2.0, 3.0, 4.0];
        assert_eq!(told(Better::Lower, ours, [[9.0; 3], [4.1, 6.0, 7.0]]), ahead(2.0));
        let unclear = |peer: &str| Verdict::Unclear(peer.into());
        assert_eq!(told(Better::Lower, ours, [[9.0; 3], [3.9, 6.0, 7.0]]), unclear("p1"));
        // Also if it is another one than the best.
        assert_eq!(told(Better::Lower, ours, [[1.0, 9.0, 9.0], [5.0; 3]]), unclear("p1"));
        assert_eq!(told(Better::Higher, ours, [[1.0; 3], [1.0, 2.0, 2.5]]), unclear("p1"));
        assert_eq!(told(Better::Higher, ours, [[1.0; 3], [1.0, 1.5, 1.9]]), ahead(2.0));
        // Who is behind is so by the medians.
        let behind = told(Better::Lower, ours, [[9.0; 3], [2.0, 2.0, 9.0]]);
        assert_eq!(behind, Verdict::Behind("p1".into(), 1.5));
    }

    #[test]
    fn whoever_is_not_ahead_says_so() {
        assert!(verdict(Better::Lower, 8.0, &[4.0]).is_not_ahead());
        assert!(verdict(Better::Lower, 4.0, &[4.0]).is_not_ahead());
        assert!(Verdict::Unclear("p0".into()).is_not_ahead());
        assert!(!verdict(Better::Lower, 3.0, &[4.0]).is_not_ahead());
        assert_eq!(verdict(Better::Lower, 3.0, &[4.0]).text(), "ahead of p0: 1.33x");
        assert_eq!(verdict(Better::Lower, 8.0, &[4.0]).text(), "behind p0: 2.0x");
    }
}
