//! Whether fulmar is ahead.

use super::{Better, Row, Table, Whose};

/// Whether fulmar is ahead in a row of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Nothing to compare: no figure of fulmar's or of any peer's, or none is better.
    Open,
    /// fulmar is ahead of every peer; this is the best peer's figure by fulmar's, at least 1.
    Ahead(f64),
    /// It is within 2 % of the best peer.
    Level(String),
    /// This peer is ahead, so many times.
    Behind(String, f64),
}

impl Verdict {
    /// True if fulmar is not ahead: what a report has to say.
    pub fn is_not_ahead(&self) -> bool {
        matches!(self, Self::Level(_) | Self::Behind(..))
    }

    /// For people; empty if there is nothing to say.
    pub fn text(&self) -> String {
        match self {
            Self::Open => String::new(),
            Self::Ahead(times) if *times < 1.995 => {
                format!("ahead by {:.0} %", (times - 1.0) * 100.0)
            }
            Self::Ahead(times) if times.is_finite() => {
                format!("{}x ahead", super::numbers::figure(*times))
            }
            Self::Ahead(_) => "ahead: none at all".to_owned(),
            Self::Level(peer) => format!("level with {peer}"),
            Self::Behind(peer, times) if times.is_finite() => {
                format!("behind {peer}: {}x", super::numbers::figure(*times))
            }
            Self::Behind(peer, _) => format!("behind {peer}, which makes none"),
        }
    }
}

impl Table {
    /// Whether fulmar is ahead in `row`: the best of its columns against the best peer's.
    pub fn verdict(&self, row: &Row) -> Verdict {
        let best = |whose: Whose| {
            let cells = self.columns.iter().zip(&row.cells);
            let figures = cells.filter(|(column, _)| column.whose == whose);
            let figures = figures.filter_map(|(column, cell)| Some((&column.name, cell.value()?)));
            match self.better {
                Better::Lower => figures.min_by(|(_, a), (_, b)| a.total_cmp(b)),
                Better::Higher => figures.max_by(|(_, a), (_, b)| a.total_cmp(b)),
                Better::Neither => None,
            }
        };
        let (Some((_, ours)), Some((peer, theirs))) = (best(Whose::Fulmar), best(Whose::Peer))
        else {
            return Verdict::Open;
        };
        let (good, bad) = match self.better {
            Better::Lower | Better::Neither => (ours, theirs),
            Better::Higher => (theirs, ours),
        };
        if (good - bad).abs() <= LEVEL * good.abs().max(bad.abs()) {
            return if good == 0.0 { Verdict::Open } else { Verdict::Level(peer.clone()) };
        }
        match good < bad {
            true => Verdict::Ahead(bad / good),
            false => Verdict::Behind(peer.clone(), good / bad),
        }
    }
}

/// Figures that differ by less are the same: two runs of one program differ by as much.
const LEVEL: f64 = 0.02;

#[cfg(test)]
mod tests {
    use super::super::{Cell, Column};
    use super::*;

    fn verdict(better: Better, fulmar: f64, peers: &[f64]) -> Verdict {
        let mut columns = vec![Column::document("then"), Column::fulmar("fulmar")];
        let mut cells = vec![Cell::exactly(0.1), Cell::exactly(fulmar)];
        for (number, value) in peers.iter().enumerate() {
            columns.push(Column::peer(&format!("p{number}")));
            cells.push(Cell::exactly(*value));
        }
        let row = Row { name: "r".into(), at: None, cells };
        let table = Table {
            title: String::new(),
            note: String::new(),
            unit: String::new(),
            row_name: String::new(),
            better,
            columns,
            rows: vec![row.clone()],
            plot: None,
        };
        table.verdict(&row)
    }

    #[test]
    fn the_best_peer_counts_and_the_document_does_not() {
        assert_eq!(verdict(Better::Lower, 2.0, &[9.0, 4.0]), Verdict::Ahead(2.0));
        assert_eq!(verdict(Better::Lower, 8.0, &[9.0, 4.0]), Verdict::Behind("p1".into(), 2.0));
        assert_eq!(verdict(Better::Higher, 8.0, &[9.0, 4.0]), Verdict::Behind("p0".into(), 1.125));
        assert_eq!(verdict(Better::Lower, 100.0, &[101.0]), Verdict::Level("p0".into()));
        assert_eq!(verdict(Better::Lower, 0.0, &[3.0]), Verdict::Ahead(f64::INFINITY));
        assert_eq!(verdict(Better::Lower, 0.0, &[0.0]), Verdict::Open);
        assert_eq!(verdict(Better::Lower, 1.0, &[]), Verdict::Open);
        assert_eq!(verdict(Better::Neither, 1.0, &[2.0]), Verdict::Open);
    }

    #[test]
    fn whoever_is_not_ahead_says_so() {
        assert!(verdict(Better::Lower, 8.0, &[4.0]).is_not_ahead());
        assert!(verdict(Better::Lower, 4.0, &[4.0]).is_not_ahead());
        assert!(!verdict(Better::Lower, 3.0, &[4.0]).is_not_ahead());
        assert_eq!(verdict(Better::Lower, 3.0, &[4.0]).text(), "ahead by 33 %");
        assert_eq!(verdict(Better::Lower, 8.0, &[4.0]).text(), "behind p0: 2.0x");
    }
}
