//! Substrings.

use memchr::memmem;

use super::MatchMethod;

/// A substring.
#[derive(Clone, Debug)]
pub(super) struct Substring {
    pub(super) text: Box<[u8]>,
    pub(super) ignore_case: bool,
}

impl Substring {
    pub(super) fn matches(&self, method: MatchMethod, value: &[u8]) -> bool {
        match method {
            MatchMethod::Sub => self.is_in(value),
            MatchMethod::End => {
                let begin = value.len().checked_sub(self.text.len());
                begin.is_some_and(|begin| self.is(&value[begin..]))
            }
            MatchMethod::Dir => self.is_between(value, b"/?"),
            MatchMethod::Dom => self.is_between(value, b"/?.:"),
            _ => false,
        }
    }

    fn is(&self, value: &[u8]) -> bool {
        match self.ignore_case {
            true => value.eq_ignore_ascii_case(&self.text),
            false => *value == *self.text,
        }
    }

    fn is_in(&self, value: &[u8]) -> bool {
        match self.ignore_case {
            true if self.text.is_empty() => true,
            true => value.windows(self.text.len()).any(|part| self.is(part)),
            false => memmem::find(value, &self.text).is_some(),
        }
    }

    /// True if it occurs between delimiters or the ends of the value. Delimiters at its own ends
    /// are ignored.
    fn is_between(&self, value: &[u8], delimiters: &[u8]) -> bool {
        let mut text = &self.text[..];
        while let Some((_, rest)) = text.split_first().filter(|(byte, _)| delimiters.contains(byte))
        {
            text = rest;
        }
        while let Some((_, rest)) = text.split_last().filter(|(byte, _)| delimiters.contains(byte))
        {
            text = rest;
        }
        if text.is_empty() || text.len() > value.len() {
            return false;
        }
        let ends = |at: usize| value.get(at).is_none_or(|byte| delimiters.contains(byte));
        let begins = |at: usize| at == 0 || delimiters.contains(&value[at - 1]);
        let same = |part: &[u8]| match self.ignore_case {
            true => part.eq_ignore_ascii_case(text),
            false => part == text,
        };
        (0..=value.len() - text.len())
            .any(|at| begins(at) && ends(at + text.len()) && same(&value[at..at + text.len()]))
    }
}
