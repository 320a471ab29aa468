//! The words of a configuration line, and errors in them.

/// A word, without quotes and escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The text.
    pub text: String,
    /// Start column in bytes, from 1.
    pub column: u32,
}

/// The remaining words of a line.
#[derive(Clone, Debug)]
pub struct WordCursor<'a> {
    left: &'a [Word],
    end: u32,
}

/// An error in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordError {
    /// Column of the word, from 1.
    pub column: u32,
    /// What is wrong, and what is expected.
    pub message: String,
    /// The word is unknown or unsupported: lenient parsing may skip it.
    pub unknown: bool,
}

impl WordError {
    /// A word is invalid.
    pub fn new(column: u32, message: impl Into<String>) -> Self {
        Self { column, message: message.into(), unknown: false }
    }

    /// A word is unknown or unsupported.
    pub fn unknown(column: u32, message: impl Into<String>) -> Self {
        Self { column, message: message.into(), unknown: true }
    }
}

impl<'a> WordCursor<'a> {
    /// The words of a line that ends at column `end`.
    pub fn new(words: &'a [Word], end: u32) -> Self {
        Self { left: words, end }
    }

    /// Takes the next word.
    #[expect(clippy::should_implement_trait, reason = "not an iterator: it can be looked into")]
    pub fn next(&mut self) -> Option<&'a Word> {
        let (first, rest) = self.left.split_first()?;
        self.left = rest;
        Some(first)
    }

    /// Takes the next word; `what` is the expected word, for the error.
    ///
    /// # Errors
    /// The line has no more words.
    pub fn expect(&mut self, what: &str) -> Result<&'a Word, WordError> {
        let end = self.end;
        self.next().ok_or_else(|| WordError::new(end, format!("expected {what}")))
    }

    /// The next word, without taking it.
    pub fn peek(&self) -> Option<&'a Word> {
        self.left.first()
    }

    /// Takes the next word if it is `text`.
    pub fn take(&mut self, text: &str) -> bool {
        let is = self.peek().is_some_and(|word| word.text == text);
        if is {
            self.left = &self.left[1..];
        }
        is
    }

    /// True if no word is left.
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// The number of remaining words.
    pub fn len(&self) -> usize {
        self.left.len()
    }

    /// Start of the next word, or the end of the line.
    pub fn column(&self) -> u32 {
        self.peek().map_or(self.end, |word| word.column)
    }

    /// Takes all remaining words.
    pub fn rest(&mut self) -> &'a [Word] {
        std::mem::take(&mut self.left)
    }

    /// Checks that no words remain.
    ///
    /// # Errors
    /// Words remain.
    pub fn end(&self) -> Result<(), WordError> {
        match self.peek() {
            None => Ok(()),
            Some(word) => {
                let message = format!("unexpected argument '{}'", word.text);
                Err(WordError::unknown(word.column, message))
            }
        }
    }
}
