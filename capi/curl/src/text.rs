//! Reading texts as libcurl does: lines of files, and words of lines.

/// The lines of a file, with their ends. Lines that do not fit into a buffer of `len_max` bytes are
/// omitted. A line ends at a NUL.
pub(crate) fn file_lines(file: &[u8], len_max: usize) -> impl Iterator<Item = &[u8]> {
    let lines = file.split_inclusive(|byte| *byte == b'\n');
    let lines = lines.filter(move |line| line.len() < len_max);
    lines.map(|line| line.split(|byte| *byte == 0).next().unwrap_or_default())
}

/// Spaces and tabs.
pub(crate) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// True if a list with commas has a token, without case (RFC 9110 §5.6.1).
pub(crate) fn has_token(list: &[u8], token: &str) -> bool {
    let mut tokens = list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    tokens.any(|found| found.eq_ignore_ascii_case(token.as_bytes()))
}

/// The rest of a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { rest: text }
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn first(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    pub(crate) fn take(&mut self, belongs: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.rest.iter().position(|byte| !belongs(*byte)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    pub(crate) fn skip_blanks(&mut self) {
        self.take(is_blank);
    }

    /// Skips a text, without case. Returns false if the rest does not begin so.
    pub(crate) fn skip_word(&mut self, word: &[u8]) -> bool {
        match self.rest.split_at_checked(word.len()) {
            Some((start, rest)) if start.eq_ignore_ascii_case(word) => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// A word after white space. What follows the first `len_max` bytes belongs to the next one.
    pub(crate) fn word(&mut self, len_max: usize) -> Option<&'a [u8]> {
        self.take(is_space);
        let start = self.rest;
        let len = self.take(|byte| !is_space(byte)).len().min(len_max);
        let (word, rest) = start.split_at(len);
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    /// A text in quotes after white space. The closing quote may be missing.
    pub(crate) fn quoted(&mut self, len_max: usize) -> Option<&'a [u8]> {
        self.take(is_space);
        self.rest = self.rest.strip_prefix(b"\"")?;
        let start = self.rest;
        let len = self.take(|byte| byte != b'"').len().min(len_max);
        let (text, rest) = start.split_at(len);
        self.rest = rest.strip_prefix(b"\"").unwrap_or(rest);
        (!text.is_empty()).then_some(text)
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | 9..=13)
}
