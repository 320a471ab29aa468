//! Exact texts and prefixes.

use std::collections::HashMap;

/// Texts and their numbers.
type TextIndex = HashMap<Box<[u8]>, usize>;

/// Exact texts.
#[derive(Clone, Debug, Default)]
pub(super) struct Exact {
    same: TextIndex,
    /// Case-insensitive ones, in lower case.
    folded: TextIndex,
}

/// Prefixes.
#[derive(Clone, Debug, Default)]
pub(super) struct TextPrefixes {
    /// By length, the longest first.
    same: Vec<(usize, TextIndex)>,
    /// Case-insensitive ones.
    folded: Vec<(Box<[u8]>, usize)>,
}

impl Exact {
    pub(super) fn add(&mut self, mut text: Box<[u8]>, at: usize, ignore_case: bool) {
        let known = if ignore_case {
            text.make_ascii_lowercase();
            &mut self.folded
        } else {
            &mut self.same
        };
        known.entry(text).or_insert(at);
    }

    pub(super) fn find(&self, text: &[u8]) -> Option<usize> {
        let folded = || {
            if self.folded.is_empty() {
                return None;
            }
            let mut room = [0; LEN_USUAL];
            match room.get_mut(..text.len()) {
                Some(lower) => {
                    lower.copy_from_slice(text);
                    lower.make_ascii_lowercase();
                    self.folded.get(&*lower).copied()
                }
                None => self.folded.get(&text.to_ascii_lowercase()[..]).copied(),
            }
        };
        self.same.get(text).copied().or_else(folded)
    }
}

impl TextPrefixes {
    pub(super) fn add(&mut self, text: &[u8], at: usize, ignore_case: bool) {
        if ignore_case {
            self.folded.push((text.into(), at));
            return;
        }
        let place = match self.same.binary_search_by(|(len, _)| text.len().cmp(len)) {
            Ok(place) => place,
            Err(place) => {
                self.same.insert(place, (text.len(), TextIndex::new()));
                place
            }
        };
        self.same[place].1.entry(text.into()).or_insert(at);
    }

    /// The longest case-sensitive prefix, or else the first of the others.
    pub(super) fn find(&self, text: &[u8]) -> Option<usize> {
        let longest = || {
            let fitting = self.same.iter().filter(|(len, _)| *len <= text.len());
            fitting.filter_map(|(len, known)| known.get(&text[..*len]).copied()).next()
        };
        let first = || {
            let begins = |known: &[u8]| {
                text.get(..known.len()).is_some_and(|text| text.eq_ignore_ascii_case(known))
            };
            self.folded.iter().find(|(known, _)| begins(known)).map(|(_, at)| *at)
        };
        longest().or_else(first)
    }
}

/// Values up to this length are converted to lower case on the stack; most names and paths are
/// shorter.
const LEN_USUAL: usize = 256;
