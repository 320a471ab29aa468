//! Position of a line, and names that are resolved later.

use std::sync::Arc;

use crate::model::Position;
use crate::rules::Word;

/// Position and text of a line, for later diagnostics.
#[derive(Clone, Debug)]
pub(crate) struct LineRef {
    pub(crate) place: Position,
    pub(crate) text: Arc<str>,
}

/// A prefix of a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeywordPrefix {
    /// None.
    Plain,
    /// `no`.
    No,
    /// `default`.
    Default,
}

impl KeywordPrefix {
    /// The value of an option: false by default.
    pub(crate) fn is_on(self) -> bool {
        self == Self::Plain
    }
}

/// A name that is resolved at the end.
#[derive(Clone, Debug)]
pub(crate) struct NameReference {
    pub(crate) name: Word,
    pub(crate) spot: LineRef,
}
