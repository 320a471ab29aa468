//! How a configuration is read.

/// How a text is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// What is a warning instead of an error.
    pub lenient: Leniency,
}

/// What is a warning instead of an error, one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leniency {
    /// Keywords that are not known or not supported: the line is left out; of a `bind` or
    /// `server` line, the one word.
    pub keywords: bool,
    /// Sections that are not known or not supported are left out.
    pub sections: bool,
    /// Servers whose names have no address are down.
    pub names: bool,
}

impl Leniency {
    /// From a list of words with commas: `keywords`, `sections`, `names`, or `all`.
    ///
    /// # Errors
    /// The word that is none of these.
    pub fn parse(list: &str) -> Result<Self, String> {
        let mut lenient = Self::default();
        for word in list.split(',') {
            match word {
                "all" => lenient = Self { keywords: true, sections: true, names: true },
                "keywords" => lenient.keywords = true,
                "sections" => lenient.sections = true,
                "names" => lenient.names = true,
                _ => return Err(word.to_owned()),
            }
        }
        Ok(lenient)
    }
}
