//! How a configuration is read.

/// Options of parsing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Errors that are reduced to warnings.
    pub lenient: ConfigLeniency,
}

/// Kinds of errors that are reduced to warnings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConfigLeniency {
    /// Unknown or unsupported keywords: the line is skipped. In `bind` and `server` lines, only the
    /// word is skipped.
    pub keywords: bool,
    /// Unknown or unsupported sections are skipped.
    pub sections: bool,
    /// Servers with unresolvable names are down.
    pub names: bool,
}

impl ConfigLeniency {
    /// Parses a comma-separated list of `keywords`, `sections`, `names`, or `all`.
    ///
    /// # Errors
    /// The first invalid word.
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
