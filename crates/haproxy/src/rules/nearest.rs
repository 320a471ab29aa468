//! Which known word an unknown one was meant to be.

/// What to say of a word that is not known among `known`.
pub(crate) fn unknown<'k>(what: &str, word: &str, known: impl Iterator<Item = &'k str>) -> String {
    let near = known.map(|known| (distance(word, known), known)).min();
    match near {
        Some((distance, near)) if distance <= 1 + word.len() / 3 => {
            format!("there is no {what} '{word}': is '{near}' meant?")
        }
        _ => format!("there is no {what} '{word}'"),
    }
}

/// How many characters have to be put in, taken out or changed (Levenshtein).
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

/// Longer words are no misspelt names: comparing costs the square of it.
const LEN_MAX: usize = 64;
