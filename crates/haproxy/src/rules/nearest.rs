//! Suggestions for unknown words.

/// The error for a word that is not in `known`.
pub(crate) fn unknown<'k>(what: &str, word: &str, known: impl Iterator<Item = &'k str>) -> String {
    let near = known.map(|known| (distance(word, known), known)).min();
    match near {
        Some((distance, near)) if distance <= 1 + word.len() / 3 => {
            format!("unknown {what} '{word}'; did you mean '{near}'?")
        }
        _ => format!("unknown {what} '{word}'"),
    }
}

/// Number of insertions, deletions and substitutions (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    if a.len().max(b.len()) > LEN_MAX {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// Longer words are not compared: the cost is quadratic.
const LEN_MAX: usize = 64;
