//! The words of one line of a configuration, and what can be wrong with them.

/// A word, as it is after quotes and escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// What it says.
    pub text: String,
    /// Where it begins in its line, in bytes from 1.
    pub column: u32,
}

/// The words of a line that have not been read yet.
#[derive(Clone, Debug)]
pub struct Words<'a> {
    left: &'a [Word],
    end: u32,
}

/// What is wrong with a line, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The column of the word that it is about, from 1.
    pub column: u32,
    /// What is wrong, and what would be right.
    pub message: String,
    /// The word is not one that is known here; who reads the configuration may be told to go on
    /// without it.
    pub unknown: bool,
}

impl Fault {
    /// A word has the wrong meaning or form.
    pub fn new(column: u32, message: impl Into<String>) -> Self {
        Self { column, message: message.into(), unknown: false }
    }

    /// A word is not known: `known` are those that would be.
    pub fn unknown(column: u32, message: impl Into<String>) -> Self {
        Self { column, message: message.into(), unknown: true }
    }
}

impl<'a> Words<'a> {
    /// All words of a line that ends before column `end`.
    pub fn new(words: &'a [Word], end: u32) -> Self {
        Self { left: words, end }
    }

    /// The next word, taken.
    #[expect(clippy::should_implement_trait, reason = "not an iterator: it can be looked into")]
    pub fn next(&mut self) -> Option<&'a Word> {
        let (first, rest) = self.left.split_first()?;
        self.left = rest;
        Some(first)
    }

    /// The next word, taken; `what` says what it was to be, if there is none.
    ///
    /// # Errors
    /// The line has ended.
    pub fn expect(&mut self, what: &str) -> Result<&'a Word, Fault> {
        let end = self.end;
        self.next().ok_or_else(|| Fault::new(end, format!("{what} is missing here")))
    }

    /// The next word, left where it is.
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

    /// How many words are left.
    pub fn len(&self) -> usize {
        self.left.len()
    }

    /// Where the next word begins, or the line ends.
    pub fn column(&self) -> u32 {
        self.peek().map_or(self.end, |word| word.column)
    }

    /// All words that are left, taken.
    pub fn rest(&mut self) -> &'a [Word] {
        std::mem::take(&mut self.left)
    }

    /// Nothing may be left.
    ///
    /// # Errors
    /// Something is.
    pub fn end(&self) -> Result<(), Fault> {
        match self.peek() {
            None => Ok(()),
            Some(word) => {
                let message = format!("'{}' is one word too many here", word.text);
                Err(Fault::unknown(word.column, message))
            }
        }
    }
}
